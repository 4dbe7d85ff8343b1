//! Who may do what: pure functions over values, and the only way to a [`Grant`].
//!
//! A call is cut into parts: each file it names, each command it would run, the address it reaches. Every part needs
//! a yes of its own, and one no is a no to the call. A part is judged in this order, which [`Policy::explain`] prints
//! step by step:
//!
//! 1. rules, tier by tier: a deny counts from every tier, otherwise the highest tier that speaks;
//! 2. what hooks said: an allow counts like the user's, an ask makes an allow an ask;
//! 3. where no rule spoke, the table of the mode;
//! 4. for an ask, approvals that a person gave before;
//! 5. the person, or where there is nobody, no.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::variables::Variables;
use crate::{Descriptor, Digest, Effect, PluginName, Principal, ToolName, hook};

mod address;
mod approval;
mod check;
mod command;
mod decide;
mod diagnostic;
mod example;
mod explain;
mod facts;
mod form;
#[cfg(test)]
mod fuzz;
mod grant;
pub mod import;
mod mode;
mod names;
mod offer;
mod place;
mod protected;
mod question;
mod read_guard;
mod rule;
mod rule_file;
mod rule_spec;
mod subject;
mod walk;

pub use approval::{
    Approval, ApprovalError, ApprovalState, Identity, Narrowing, NewApproval, PathNarrowing, Scope,
    definition,
};
pub use command::{AuthorizedCommand, AuthorizedTask, RunningJob};
pub use decide::Hold;
pub use diagnostic::{Diagnostic, Severity, Source};
pub use example::Example;
pub use explain::Explanation;
pub use grant::{Denial, DenialCode, FileAccess, Grant, HELD};
pub use mode::{Column, Decision, Mode, UnknownMode};
pub use offer::Offer;
pub use place::{Mount, Places};
pub use question::{Answer, AskKind, Question, Settled, settle};
pub use read_guard::{DeniedPlace, ReadGuard};
pub use rule::Rule;
pub use rule_file::{RuleFile, RuleTable};
pub use rule_spec::{RuleSpec, Tier};
pub use subject::{PathUse, Subject, TaskUse};

/// Everything a decision depends on, besides the policy.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub plugin: &'a PluginName,
    /// The name the caller used for it, after qualification.
    pub name: &'a ToolName,
    pub tool: &'a Descriptor,
    /// The further names that lead to the tool, in any case, because whoever keeps the names gave them to it. What the
    /// tool only asks for stands in its description and does not count for an allow.
    pub aliases: &'a [String],
    /// Does the host start processes for it? A tool that only says so changes whatever it was granted itself, and what
    /// its input calls a command tells nothing about that.
    pub executes: bool,
    /// The shell that runs the command of its input, by name.
    pub shell: Option<&'a str>,
    /// Environment variables of the session, as the host has them now.
    pub variables: &'a Variables,
    /// The program in the background that its input names.
    pub job: Option<&'a RunningJob>,
    /// All that the call can do it does through calls of other tools, and these are judged by themselves.
    pub delegates: bool,
    /// Of the component's bytes.
    pub digest: Option<&'a Digest>,
    /// Of [`definition`], for a tool that has no bytes here.
    pub definition: Option<&'a Digest>,
    pub input: &'a Value,
    pub subject: &'a Subject,
    /// From configuration or the plugin's manifest, before the tool's own wish.
    pub timeout: Option<Duration>,
    pub caller: &'a Principal,
    /// Of the session. It narrows the policy's mode and never widens it.
    pub mode: Option<Mode>,
    /// What a sub-agent is held to, on top of everything else.
    pub narrow: Option<&'a Restriction>,
    /// The result of a tool asks for the call, and nobody else does.
    pub tail: bool,
    /// The call has run, nothing of it is real yet, and the subject says what it changes and reads: what its
    /// description might hide counts no more.
    pub known: bool,
}

/// What hooks said about a call before it runs. A veto or an answer of theirs ends the call and does not come here.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HookSaid {
    pub ask: Option<HookAsk>,
    /// Why a hook allows it.
    pub allow: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct HookAsk {
    pub reason: Option<String>,
    /// For the prompt, such as `{"risk": "high"}`.
    pub meta: Option<Value>,
}

impl HookSaid {
    /// Takes in what one more hook decided. Of several questions one about a high risk is kept.
    pub fn hear(&mut self, decision: &hook::Decision) {
        match decision {
            hook::Decision::Allow { reason } => {
                self.allow
                    .get_or_insert_with(|| reason.clone().unwrap_or_default());
            }
            hook::Decision::Ask { reason, meta } => {
                let ask = HookAsk {
                    reason: reason.clone(),
                    meta: meta.clone(),
                };
                if self
                    .ask
                    .as_ref()
                    .is_none_or(|known| ask.is_high_risk() && !known.is_high_risk())
                {
                    self.ask = Some(ask);
                }
            }
            // These end the call before the policy is asked again.
            hook::Decision::Continue | hook::Decision::Deny { .. } | hook::Decision::Result(_) => {}
        }
    }
}

impl HookAsk {
    fn is_high_risk(&self) -> bool {
        let risk = self.meta.as_ref().and_then(|meta| meta.get("risk"));
        risk.and_then(Value::as_str)
            .is_some_and(|risk| matches!(risk, "high" | "critical"))
    }
}

/// The limits of a sub-agent: further policies that all have to say yes. A sub-agent of a sub-agent has more of them.
#[derive(Debug, Clone, Default)]
pub struct Restriction {
    layers: Vec<Policy>,
}

impl Restriction {
    pub fn new(policy: Policy) -> Self {
        Self {
            layers: vec![policy],
        }
    }

    /// Forbids what names a file outside of these directories of the host, and nothing else. The names mean what they
    /// mean to `policy`.
    pub fn within(directories: &[String], policy: &Policy) -> Result<Self, Vec<Diagnostic>> {
        let spec = PolicySpec {
            mode: Mode::Yolo,
            places: policy.inner.places.clone(),
            allowed_paths: directories.to_vec(),
            ..PolicySpec::default()
        };
        Policy::new(spec).map(Self::new)
    }

    /// The lists of directories that it holds files to: what is used lies in one of each list.
    pub fn directories(&self) -> Vec<Arc<[String]>> {
        let lists = self.layers.iter().map(|layer| &layer.inner.allowed_paths);
        lists.filter(|list| !list.is_empty()).cloned().collect()
    }

    #[must_use]
    pub fn and(mut self, policy: Policy) -> Self {
        self.layers.push(policy);
        self
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    Allow(Grant),
    /// The grant waits inside for an [`Answer`].
    Ask(Box<Question>),
    Deny(Denial),
}

/// What becomes of a question where there is no terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnHeadlessAsk {
    #[default]
    Deny,
    /// The question is kept, and the program ends with a code that says so.
    Defer,
    /// Another program answers.
    Callback,
}

impl std::str::FromStr for OnHeadlessAsk {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "deny" => Ok(OnHeadlessAsk::Deny),
            "defer" => Ok(OnHeadlessAsk::Defer),
            "callback" => Ok(OnHeadlessAsk::Callback),
            _ => Err(format!(
                "`{}` is not a value of on_headless_ask; write deny, defer or callback",
                crate::text::inline(word, 40)
            )),
        }
    }
}

/// Everything a policy is made of, as plain values.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicySpec {
    pub mode: Mode,
    /// In the order of their files; where two are equal the first speaks.
    pub rules: Vec<RuleSpec>,
    pub places: Places,
    /// Where plans are kept; in mode plan, `*.md` below it may be written.
    pub plan_dir: Option<String>,
    /// On top of the table of protected paths.
    pub protected: Vec<String>,
    /// A file tool may name nothing outside of them; empty: what the sandbox was granted decides alone.
    pub allowed_paths: Vec<String>,
    pub headless: OnHeadlessAsk,
    /// Can a person be asked?
    pub interactive: bool,
    pub disable_yolo: bool,
    /// Only yeses for one call are offered.
    pub disable_always_allow: bool,
    /// A hook or a callback is there to decide in mode custom.
    pub has_callback: bool,
}

impl Default for PolicySpec {
    fn default() -> Self {
        Self {
            mode: Mode::Default,
            rules: Vec::new(),
            places: Places::default(),
            plan_dir: None,
            protected: Vec::new(),
            allowed_paths: Vec::new(),
            headless: OnHeadlessAsk::Deny,
            interactive: true,
            disable_yolo: false,
            disable_always_allow: false,
            has_callback: false,
        }
    }
}

/// A compiled policy. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Policy {
    mode: Mode,
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    rules: Vec<Rule>,
    index: walk::Index,
    /// Before any session changed its mode.
    configured_mode: Mode,
    /// A rule may keep some files from being read.
    guards_reads: bool,
    places: Places,
    plan_dir: Option<String>,
    protected: protected::Protected,
    allowed_paths: Arc<[String]>,
    headless: OnHeadlessAsk,
    interactive: bool,
    disable_yolo: bool,
    disable_always_allow: bool,
    has_callback: bool,
}

impl Policy {
    /// Compiles everything, or tells everything that is wrong: a policy with a broken rule is no policy.
    pub fn new(spec: PolicySpec) -> Result<Self, Vec<Diagnostic>> {
        let nowhere = Source::default();
        let mut wrong = Vec::new();
        let places = spec.places.with_host_names();
        for (what, path) in [
            ("working directory", Some(&places.cwd)),
            ("home directory", places.home.as_ref()),
        ] {
            if let Some(path) = path.filter(|path| !path.starts_with('/')) {
                let shown = crate::text::inline(path, 120);
                wrong.push(Diagnostic::error(
                    &nowhere,
                    format!("the {what} `{shown}` is not absolute"),
                ));
            }
        }
        let mut rules = Vec::with_capacity(spec.rules.len());
        let mut count = [0; 5];
        for rule in spec.rules {
            let number = &mut count[rule.tier as usize];
            *number += 1;
            match rule.compile(*number, &places) {
                Ok(rule) => rules.push(rule),
                Err(diagnostic) => wrong.push(diagnostic),
            }
        }
        let texts = spec.protected.iter().map(String::as_str);
        let protected = protected::Protected::new(texts, &places).map_err(|message| {
            wrong.push(Diagnostic::error(&nowhere, format!("protected: {message}")));
        });
        let resolve = |path: &String| places.resolve(path);
        let inner = Inner {
            index: walk::Index::of(&rules),
            guards_reads: rules.iter().any(Rule::guards_reads),
            configured_mode: spec.mode,
            rules,
            plan_dir: spec.plan_dir.as_ref().map(resolve),
            allowed_paths: spec.allowed_paths.iter().map(resolve).collect(),
            headless: spec.headless,
            interactive: spec.interactive,
            disable_yolo: spec.disable_yolo,
            disable_always_allow: spec.disable_always_allow,
            has_callback: spec.has_callback || spec.headless == OnHeadlessAsk::Callback,
            protected: match protected {
                Ok(protected) if wrong.is_empty() => protected,
                _ => return Err(wrong),
            },
            places,
        };
        let policy = Self {
            mode: Mode::Default,
            inner: Arc::new(inner),
        };
        policy
            .with_mode(spec.mode)
            .map_err(|diagnostic| vec![diagnostic])
    }

    /// The same rules in another mode, because a person switched.
    pub fn with_mode(&self, mode: Mode) -> Result<Self, Diagnostic> {
        let wrong = |message: &str| Err(Diagnostic::error(&Source::default(), message));
        match mode {
            Mode::Yolo if self.inner.disable_yolo => {
                wrong("mode yolo is disabled by disable_yolo; choose another mode")
            }
            Mode::Custom if !self.inner.has_callback => wrong(
                "mode custom requires a callback or a hook, but none exists; configure one or choose another mode",
            ),
            mode => Ok(Self {
                mode,
                inner: Arc::clone(&self.inner),
            }),
        }
    }

    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The host's name of a path as a call writes it.
    pub fn place(&self, path: &str) -> String {
        self.inner.places.resolve(path)
    }

    pub fn rules(&self) -> &[Rule] {
        &self.inner.rules
    }

    pub fn on_headless_ask(&self) -> OnHeadlessAsk {
        self.inner.headless
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::new(PolicySpec::default())
            .expect("the built-in policy has no rules that could be wrong")
    }
}

#[cfg(test)]
mod tests;
