//! Test fixtures for the policy: parses policies and calls from text and renders verdicts.

use std::fmt::Write as _;

use expect_test::Expect;
use serde_json::{Map, Value, json};

use super::*;
use crate::variables::Variables;
use crate::{Annotations, ChangeKind, ChangeSet, FileChange, FileKind, UserId};

mod approvals;
mod attacks;
mod commands;
mod edits;
mod explanations;
mod files;
mod imports;
mod modes;
mod paths;
mod properties;
mod questions;
mod rules;
mod staged_calls;
mod subagents;
mod targets;

/// Parses a policy, one setting per line: `mode plan`, `headless callback`, `plan_dir docs/plans`, `allowed src`,
/// `no_yolo`, `once_only`, `[TIER] DECISION FORM [@PRIORITY] [modes=…] [remember=no] [user=…] [subagent=…] [version=…]
/// [redirect] [arg:NAME=VALUE] [hint:NAME=BOOL] [interactive=BOOL] [says="…"]`.
pub(super) fn policy(text: &str) -> Policy {
    Policy::new(spec(text)).unwrap_or_else(|wrong| panic!("{wrong:?}"))
}

fn decision_of(verdict: &Verdict) -> Decision {
    match verdict {
        Verdict::Allow(_) => Decision::Allow,
        Verdict::Ask(_) => Decision::Ask,
        Verdict::Deny(_) => Decision::Deny,
    }
}

pub(super) fn spec(text: &str) -> PolicySpec {
    let mut spec = PolicySpec {
        path_context: PathContext {
            cwd: "/w".to_owned(),
            home: Some("/home/u".to_owned()),
            root: None,
            mounts: vec![Mount {
                guest: "/workspace".to_owned(),
                host: "/w".to_owned(),
            }],
        },
        ..PolicySpec::default()
    };
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words = words(line);
        let value = || words.get(1).cloned().unwrap_or_default();
        match words[0].as_str() {
            "mode" => spec.mode = value().parse().unwrap(),
            "headless" => spec.on_headless_ask = value().parse().unwrap(),
            "plan_dir" => spec.plan_dir = Some(value()),
            "allowed" => spec.allowed_paths.push(value()),
            "protect" => spec.protected.push(value()),
            "no_yolo" => spec.disable_yolo = true,
            "once_only" => spec.disable_always_allow = true,
            "no_prompt" => spec.interactive = false,
            "callback" => spec.has_callback = true,
            _ => spec.rules.push(rule(&words)),
        }
    }
    spec
}

fn rule(words: &[String]) -> RuleSpec {
    let (tier, words) = match words[0].parse::<Tier>() {
        Ok(tier) => (tier, &words[1..]),
        Err(_) => (Tier::User, words),
    };
    let mut rule = RuleSpec::new(words[0].parse().unwrap(), &words[1]).tier(tier);
    for word in &words[2..] {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        match name {
            "modes" => rule.modes = value.split(',').map(|mode| mode.parse().unwrap()).collect(),
            "remember" => rule.remember = value != "no",
            "yields" => rule.yields_to_mode = true,
            "user" => rule.user = Some(value.to_owned()),
            "subagent" => rule.subagent = Some(value.to_owned()),
            "version" => rule.version = Some(value.to_owned()),
            "redirect" => rule.allow_redirection = true,
            "interactive" => rule.interactive = Some(value == "yes"),
            "says" => rule.deny_message = Some(value.to_owned()),
            "reason" => rule.reason = Some(value.to_owned()),
            "name" => rule.name = Some(value.to_owned()),
            "path" => rule.path.push(value.to_owned()),
            "prefix" => rule.command_prefix.push(value.to_owned()),
            "regex" => rule.command_regex = Some(value.to_owned()),
            "domain" => rule.domain.push(value.to_owned()),
            "args_regex" => rule.args_regex = Some(value.to_owned()),
            name => {
                if let Some(priority) = name.strip_prefix('@') {
                    rule.priority = priority.parse().unwrap();
                } else if let Some(name) = name.strip_prefix("arg:") {
                    let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
                    rule.args.insert(name.to_owned(), value);
                } else if let Some(name) = name.strip_prefix("hint:") {
                    rule.annotations.insert(name.to_owned(), value == "true");
                } else {
                    panic!("unknown word {word}");
                }
            }
        }
    }
    rule
}

/// Splits at blanks outside parentheses and double quotes; removes the quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    let mut depth = 0_u32;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted && depth == 0 => words.push(String::new()),
            c => {
                match c {
                    '(' if !quoted => depth += 1,
                    ')' if !quoted => depth = depth.saturating_sub(1),
                    _ => {}
                }
                words.last_mut().unwrap().push(c);
            }
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// A call parsed from text: `plugin/tool`, SDK effect words, `kind=…`, `alias=…`, `in:MODE`, `hook:allow|ask|risk`,
/// `agent:…`, `user:…`, `session:…`, and input members as `name=value`.
///
/// `claims`: the host runs no commands for the tool, whatever its kind. `wants=…`: a requested alias. `own=…`: the
/// tool's own name. `bytes=unknown`: no digest. `tail`: requested by a tool's result. `changed=…` or `nothing`: what
/// the call changed in a staged run. `session.NAME=VALUE`: a session variable. `sets.NAME=VALUE`: a variable set by the
/// call. `runs=COMMAND`: the program it types into.
pub(super) struct Fixture {
    pub plugin: PluginName,
    pub name: ToolName,
    pub tool: Descriptor,
    pub aliases: Vec<String>,
    pub executes: bool,
    pub variables: Variables,
    pub job: Option<RunningJob>,
    pub digest: Option<Digest>,
    pub input: Value,
    pub subject: Subject,
    pub caller: Principal,
    pub mode: Option<Mode>,
    pub hooks: HookDecisions,
    pub narrow: Option<Restriction>,
    pub tail: bool,
    pub known: bool,
}

impl Fixture {
    pub(super) fn of(text: &str) -> Self {
        let words = words(text);
        let (plugin, name) = words[0].split_once('/').expect("plugin/tool");
        let name = ToolName::parse(name).unwrap();
        let mut tool = Descriptor::new(name.clone(), "a tool");
        let mut input = Map::new();
        let mut caller = Principal::default();
        let mut mode = None;
        let mut hooks = HookDecisions::default();
        let mut aliases = vec![format!("{plugin}/{name}"), format!("{plugin}__{name}")];
        let (mut claims, mut tail, mut digest) = (false, false, Some(Digest([7; 32])));
        let mut changed = None;
        let (mut variables, mut sets, mut job) = (Variables::new(), Vec::new(), None);
        for word in &words[1..] {
            let hints = &mut tool.annotations;
            let annotations = |read_only, pure, destructive| Annotations {
                read_only: Some(read_only),
                pure: Some(pure),
                destructive: Some(destructive),
                ..*hints
            };
            match word.as_str() {
                "pure" => *hints = annotations(true, true, false),
                "reads" => *hints = annotations(true, false, false),
                "writes" => *hints = annotations(false, false, false),
                "destroys" => *hints = annotations(false, false, true),
                "network" => hints.open_world = Some(true),
                "interactive" => hints.interactive = Some(true),
                "claims" => claims = true,
                "tail" => tail = true,
                "nothing" => changed = Some(ChangeSet::default()),
                "bytes=unknown" => digest = None,
                "hook:allow" => hooks.allow = Some("it is fine".to_owned()),
                "hook:ask" => hooks.ask = Some(HookAsk::default()),
                "hook:risk" => {
                    hooks.ask = Some(HookAsk {
                        reason: Some("looks bad".to_owned()),
                        meta: Some(json!({"risk": "high"})),
                    });
                }
                word => {
                    if let Some(word) = word.strip_prefix("in:") {
                        mode = Some(word.parse().unwrap());
                    } else if let Some(word) = word.strip_prefix("agent:") {
                        caller.parent_agent = Some("main".to_owned());
                        caller.agent = word.to_owned();
                    } else if let Some(word) = word.strip_prefix("user:") {
                        caller.user = UserId::token(word);
                    } else if let Some(word) = word.strip_prefix("session:") {
                        caller.session = word.into();
                    } else if let Some((name, value)) = word.split_once('=') {
                        match name {
                            "kind" => value.clone_into(&mut tool.kind),
                            "category" => value.clone_into(&mut tool.category),
                            "alias" => {
                                aliases.push(value.to_lowercase());
                                tool.aliases.push(value.to_owned());
                            }
                            "wants" => tool.aliases.push(value.to_owned()),
                            "own" => tool.name = ToolName::parse(value).unwrap(),
                            "version" => value.clone_into(&mut tool.version),
                            "changed" => {
                                let changes = value.split(',').map(modified).collect();
                                changed = Some(ChangeSet { changes });
                            }
                            "timeout" => {
                                tool.timeout = Some(crate::units::parse_duration(value).unwrap());
                            }
                            "runs" => {
                                job = Some(RunningJob {
                                    id: "job-1".to_owned(),
                                    command: value.to_owned(),
                                });
                            }
                            name if name.starts_with("session.") => {
                                let name = name["session.".len()..].to_owned();
                                variables.insert(name, value.to_owned());
                            }
                            name if name.starts_with("sets.") => {
                                let name = name["sets.".len()..].to_owned();
                                sets.push((name, value.to_owned()));
                                changed.get_or_insert_with(ChangeSet::default);
                            }
                            name => {
                                let value = match value.chars().next() {
                                    Some('[' | '{' | '0'..='9') => {
                                        serde_json::from_str(&value.replace('\'', "\"")).unwrap()
                                    }
                                    _ => json!(value),
                                };
                                input.insert(name.to_owned(), value);
                            }
                        }
                    } else {
                        panic!("unknown word {word}");
                    }
                }
            }
        }
        let input = Value::Object(input);
        Self {
            plugin: PluginName::parse(plugin).unwrap(),
            name,
            subject: match &changed {
                Some(changes) => Subject::of(&tool, &input)
                    .with_changes(changes)
                    .with_variables(sets),
                None => Subject::of(&tool, &input),
            },
            executes: tool.kind == "execute" && !claims,
            variables,
            job,
            tool,
            aliases,
            digest,
            input,
            caller,
            mode,
            hooks,
            narrow: None,
            tail,
            known: changed.is_some(),
        }
    }

    pub(super) fn request(&self) -> PolicyRequest<'_> {
        PolicyRequest {
            plugin: &self.plugin,
            name: &self.name,
            tool: &self.tool,
            aliases: &self.aliases,
            runs_commands: self.executes,
            shell: None,
            variables: &self.variables,
            background_job: self.job.as_ref(),
            delegates: false,
            digest: self.digest.as_ref(),
            definition: None,
            input: &self.input,
            subject: &self.subject,
            timeout: self.tool.default_timeout(),
            caller: &self.caller,
            mode: self.mode,
            restriction: self.narrow.as_ref(),
            is_tail_call: self.tail,
            effects_known: self.known,
        }
    }

    pub(super) fn decide(&self, policy: &Policy, approvals: &[Approval]) -> Verdict {
        policy.decide(self.request(), &self.hooks, approvals, NOW)
    }
}

fn modified(path: &str) -> FileChange {
    FileChange {
        sizes: (Some(1), Some(1)),
        ..FileChange::new(path, ChangeKind::Modified, FileKind::File)
    }
}

pub(super) const NOW: i64 = 1_000_000;

pub(super) fn show(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Allow(grant) => format!("allow by {}", grant.authorizer()),
        Verdict::Ask(question) => format!("ask: {}", question.reason),
        Verdict::Deny(denial) => format!("deny: {}", denial.reason),
    }
}

/// Checks the verdict on one call.
pub(super) fn check(rules: &str, call: &str, expect: Expect) {
    let policy = policy(rules);
    let world = Fixture::of(call);
    let verdict = world.decide(&policy, &[]);
    // The explanation must agree with the verdict.
    let explanation = policy.explain(world.request(), &world.hooks, &[], NOW);
    assert_eq!(
        explanation.decision().as_str(),
        show(&verdict).split([' ', ':']).next().unwrap()
    );
    expect.assert_eq(&show(&verdict));
}

/// Checks the verdicts on several calls, one per line.
pub(super) fn table(rules: &str, calls: &str, expect: Expect) {
    let policy = policy(rules);
    let mut out = String::new();
    for call in calls.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let world = Fixture::of(call);
        let _ = writeln!(out, "{call} → {}", show(&world.decide(&policy, &[])));
    }
    expect.assert_eq(&out);
}

pub(super) fn question(rules: &str, call: &str) -> Question {
    match Fixture::of(call).decide(&policy(rules), &[]) {
        Verdict::Ask(question) => *question,
        other => panic!("{call}: {}", show(&other)),
    }
}

/// The approval that is saved when the user chooses this offer.
pub(super) fn saved_approval(question: Question, offer: usize) -> NewApproval {
    match apply_answer(question, Answer::Allow { offer, note: None }) {
        Ok(AnswerOutcome::Granted {
            approval: Some(approval),
            ..
        }) => *approval,
        _ => panic!("no approval was saved"),
    }
}
