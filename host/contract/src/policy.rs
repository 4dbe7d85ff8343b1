//! Permission policy: decides which calls may run. Pure functions; the only source of a [`Grant`].
//!
//! A call is split into accesses: each file it names, each command it would run, the address it connects to. Every
//! access must be allowed; one denied access denies the call. An access is evaluated in this order, which
//! [`Policy::explain`] prints step by step:
//!
//! 1. rules, tier by tier: a deny applies from every tier, otherwise the highest tier with a matching rule decides;
//! 2. hook decisions: an allow counts like a rule of the user, an ask turns an allow into an ask;
//! 3. the table of the mode, when no rule matched;
//! 4. saved approvals, when the decision is ask;
//! 5. the user; without a way to prompt, the call is denied.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::variables::Variables;
use crate::{Descriptor, Digest, Effect, OnlyPaths, PluginName, Principal, ToolName};

mod approval;
mod argument_pattern;
mod authorized_command;
mod call_analysis;
mod decide;
mod diagnostic;
mod domain_pattern;
mod evaluation;
mod exclude_patterns;
mod explanation;
#[cfg(test)]
mod fuzz;
mod grant;
pub mod import;
mod inherited;
mod mode;
mod offer;
mod path_pattern;
mod protected;
mod question;
mod question_document;
mod question_risk;
mod question_title;
mod read_guard;
mod rule;
mod rule_example;
mod rule_file;
mod rule_form;
mod rule_spec;
mod rule_warnings;
mod subject;
mod tool_names;

pub use approval::{
    Approval, ApprovalError, ApprovalScope, ApprovalState, Narrowing, NewApproval, PathNarrowing,
    ToolIdentity, definition,
};
pub use authorized_command::{AuthorizedCommand, AuthorizedTask, RunningJob};
pub use decide::StagedGrant;
pub use diagnostic::{Diagnostic, RuleSource, Severity};
pub use exclude_patterns::{RebaseError, rebase_excludes};
pub use explanation::Explanation;
pub use grant::{Denial, DenialCode, FileAccess, Grant, STAGED_AUTHORIZER};
pub use inherited::InheritedRules;
pub use mode::{AccessClass, Decision, Mode, UnknownMode};
pub use offer::{Offer, SAVED_APPROVAL_NOTE};
pub use path_pattern::{Mount, PathContext};
pub use question::{Answer, AnswerOutcome, PromptKind, Question, apply_answer};
pub use question_document::{QuestionBlock, QuestionDocument};
pub use question_risk::Risk;
pub use question_title::TitlePlace;
pub use read_guard::{DeniedPath, ReadGuard};
pub use rule::Rule;
pub use rule_example::RuleExample;
pub use rule_file::{RuleFile, RuleTable};
pub use rule_spec::{RuleSpec, Tier};
pub use subject::{PathUse, Subject, TaskUse, is_address};
pub use tool_names::NamedTool;

/// The call to decide and its context: everything a decision depends on besides the policy.
#[derive(Debug, Clone, Copy)]
pub struct PolicyRequest<'a> {
    pub plugin: &'a PluginName,
    /// The qualified name that the caller used.
    pub name: &'a ToolName,
    pub tool: &'a Descriptor,
    /// Further names, in any case, that the registry assigned to the tool. Aliases that the tool only requests are in
    /// its descriptor and do not count for an allow rule.
    pub aliases: &'a [String],
    /// Whether the host starts processes for this tool. A plugin may claim to run commands; then its `command` input
    /// does not bound what the call can change.
    pub runs_commands: bool,
    /// Name of the shell that runs the input's command.
    pub shell: Option<&'a str>,
    /// Environment variables of the session at the time of the call.
    pub variables: &'a Variables,
    /// The background job that the input names.
    pub background_job: Option<&'a RunningJob>,
    /// The call acts only through calls of other tools, which are authorized separately.
    pub delegates: bool,
    /// Digest of the component's bytes.
    pub digest: Option<&'a Digest>,
    /// Digest of [`definition`], for a tool without local bytes.
    pub definition: Option<&'a Digest>,
    pub input: &'a Value,
    pub subject: &'a Subject,
    /// The tool's time limit, before the maximum of all tools.
    pub timeout: Duration,
    pub caller: &'a Principal,
    /// Mode of the session. It can narrow the policy's mode but not widen it.
    pub mode: Option<Mode>,
    /// Additional limits of a sub-agent.
    pub restriction: Option<&'a Restriction>,
    /// The call was requested by a tool's result, not by the model or the user.
    pub is_tail_call: bool,
    /// The call has run staged, and `subject` lists what it changed and read, so accesses that its description does not
    /// name need no longer be assumed.
    pub effects_known: bool,
}

impl PolicyRequest<'_> {
    /// The lists of directories to which callers narrowed the call.
    pub fn only_paths(&self) -> &[OnlyPaths] {
        self.restriction.map_or(&[], Restriction::only_paths)
    }
}

/// Hook decisions for a call before it runs. A deny or a result from a hook ends the call earlier and is not included.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HookDecisions {
    pub ask: Option<HookAsk>,
    /// Reason that a hook gave for allowing the call.
    pub allow: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct HookAsk {
    pub reason: Option<String>,
    /// Metadata for the prompt, such as `{"risk": "high"}`.
    pub meta: Option<Value>,
}

impl HookAsk {
    fn is_high_risk(&self) -> bool {
        is_high_risk(self.meta.as_ref())
    }
}

/// Whether the metadata of a hook that asks states a high risk.
pub fn is_high_risk(meta: Option<&Value>) -> bool {
    let risk = meta.and_then(|meta| meta.get("risk"));
    risk.and_then(Value::as_str)
        .is_some_and(|risk| matches!(risk, "high" | "critical"))
}

/// A path that matches no file, because file names cannot contain NUL.
const UNMATCHABLE_PATH: &str = "/\0";

/// Limits of a sub-agent: additional policies that must all allow a call. Nested sub-agents add further policies.
#[derive(Debug, Clone, Default)]
pub struct Restriction {
    layers: Vec<Policy>,
    /// For display: the directories as the callers named them. The layers enforce them.
    only_paths: Vec<OnlyPaths>,
}

impl Restriction {
    pub fn new(policy: Policy) -> Self {
        Self {
            layers: vec![policy],
            only_paths: Vec::new(),
        }
    }

    /// The lists to which callers narrowed the call, as they named them.
    pub fn only_paths(&self) -> &[OnlyPaths] {
        &self.only_paths
    }

    #[must_use]
    pub fn named(mut self, only_paths: OnlyPaths) -> Self {
        self.only_paths.push(only_paths);
        self
    }

    /// Denies accesses to files outside these directories, which are paths on the host, and nothing else. Paths of calls
    /// are resolved as in `policy`. Without any directory it denies accesses to all files.
    pub fn to_directories(
        directories: &[String],
        policy: &Policy,
    ) -> Result<Self, Vec<Diagnostic>> {
        let none = [UNMATCHABLE_PATH.to_owned()];
        let directories = if directories.is_empty() {
            &none
        } else {
            directories
        };
        let spec = PolicySpec {
            mode: Mode::Yolo,
            path_context: PathContext {
                mounts: Vec::new(),
                ..policy.inner.path_context.clone()
            },
            allowed_paths: directories.to_vec(),
            ..PolicySpec::default()
        };
        let inner = Policy::new(spec)?.with_guest_paths_of(policy);
        Ok(Self::new(Policy {
            mode: Mode::Yolo,
            inner: Arc::new(inner),
        }))
    }

    /// The directory lists of all policies. A file must lie in a directory of each list.
    pub fn directories(&self) -> Vec<Arc<[String]>> {
        let lists = self.layers.iter().map(|layer| &layer.inner.allowed_paths);
        lists.filter(|list| !list.is_empty()).cloned().collect()
    }

    #[must_use]
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.layers.push(policy);
        self
    }

    /// Returns the limits of both. A policy that both have is evaluated once.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let mut both = self.clone();
        for layer in &other.layers {
            let is_same = |known: &Policy| {
                known.mode == layer.mode && Arc::ptr_eq(&known.inner, &layer.inner)
            };
            if !both.layers.iter().any(is_same) {
                both.layers.push(layer.clone());
            }
        }
        for list in &other.only_paths {
            if !both.only_paths.contains(list) {
                both.only_paths.push(list.clone());
            }
        }
        both
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    Allow(Grant),
    /// The question holds the grant until an [`Answer`] is applied.
    Ask(Box<Question>),
    Deny(Denial),
}

/// How an ask is handled without a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnHeadlessAsk {
    #[default]
    Deny,
    /// Stores the question; the program exits with a code that indicates it.
    Defer,
    /// Lets a callback program answer.
    Callback,
}

impl std::str::FromStr for OnHeadlessAsk {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "deny" => Ok(OnHeadlessAsk::Deny),
            "defer" => Ok(OnHeadlessAsk::Defer),
            "callback" => Ok(OnHeadlessAsk::Callback),
            _ => Err(format!(
                "`{}` is not a value of on_headless_ask; write deny, defer or callback",
                crate::text::escape_line(name, 40)
            )),
        }
    }
}

/// The uncompiled contents of a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicySpec {
    pub mode: Mode,
    /// In file order; of equally strong rules the first one decides.
    pub rules: Vec<RuleSpec>,
    pub path_context: PathContext,
    /// The directories of plugins that have their own, in place of those of `path_context`.
    pub plugin_mounts: BTreeMap<PluginName, Vec<Mount>>,
    /// Directory of plans; in mode plan, `*.md` files below it may be written.
    pub plan_dir: Option<String>,
    /// Protected paths in addition to the built-in table.
    pub protected: Vec<String>,
    /// Directories that file tools are limited to. Empty: limited only by what the sandbox was granted.
    pub allowed_paths: Vec<String>,
    pub on_headless_ask: OnHeadlessAsk,
    /// Whether the user can be prompted.
    pub interactive: bool,
    pub disable_yolo: bool,
    /// Offers only approvals for a single call.
    pub disable_always_allow: bool,
    /// A hook exists that decides in mode custom.
    pub has_callback: bool,
}

impl Default for PolicySpec {
    fn default() -> Self {
        Self {
            mode: Mode::Default,
            rules: Vec::new(),
            path_context: PathContext::default(),
            plugin_mounts: BTreeMap::new(),
            plan_dir: None,
            protected: Vec::new(),
            allowed_paths: Vec::new(),
            on_headless_ask: OnHeadlessAsk::Deny,
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
    /// What the policy was compiled from, for sub-agents.
    spec: PolicySpec,
    rules: Vec<Rule>,
    index: evaluation::RuleIndex,
    /// The mode before any session changed it.
    configured_mode: Mode,
    /// Some rule restricts reading of files.
    restricts_reads: bool,
    path_context: PathContext,
    /// For calls of plugins with their own directories.
    plugin_contexts: BTreeMap<PluginName, PathContext>,
    plan_dir: Option<String>,
    protected: protected::ProtectedPaths,
    allowed_paths: Arc<[String]>,
    on_headless_ask: OnHeadlessAsk,
    interactive: bool,
    disable_yolo: bool,
    disable_always_allow: bool,
    has_callback: bool,
    /// The policy of another host, whose users cannot be asked: it denies what it would ask about.
    is_inherited: bool,
}

impl Inner {
    /// How paths of this plugin's calls are resolved.
    fn path_context_of(&self, plugin: &PluginName) -> &PathContext {
        let own = self.plugin_contexts.get(plugin);
        own.unwrap_or(&self.path_context)
    }
}

impl Policy {
    /// Compiles the policy. Returns every error found; a policy with an invalid rule is rejected as a whole.
    pub fn new(spec: PolicySpec) -> Result<Self, Vec<Diagnostic>> {
        let uncompiled = spec.clone();
        let nowhere = RuleSource::default();
        let mut wrong = Vec::new();
        let plugin_contexts = spec.plugin_mounts.into_iter();
        let plugin_contexts = plugin_contexts.map(|(plugin, mounts)| {
            let base = spec.path_context.clone();
            (plugin, PathContext { mounts, ..base }.with_host_names())
        });
        let plugin_contexts = plugin_contexts.collect();
        let path_context = spec.path_context.with_host_names();
        for (label, path) in [
            ("working directory", Some(&path_context.cwd)),
            ("home directory", path_context.home.as_ref()),
        ] {
            if let Some(path) = path.filter(|path| !path.starts_with('/')) {
                let shown = crate::text::escape_line(path, 120);
                wrong.push(Diagnostic::error(
                    &nowhere,
                    format!("the {label} `{shown}` is not absolute"),
                ));
            }
        }
        let mut rules = Vec::with_capacity(spec.rules.len());
        let mut count = [0; 5];
        for rule in spec.rules {
            let number = &mut count[rule.tier as usize];
            *number += 1;
            match rule.compile(*number, &path_context) {
                Ok(rule) => rules.push(rule),
                Err(diagnostic) => wrong.push(diagnostic),
            }
        }
        let texts = spec.protected.iter().map(String::as_str);
        let protected = protected::ProtectedPaths::new(texts, &path_context).map_err(|message| {
            wrong.push(Diagnostic::error(&nowhere, format!("protected: {message}")));
        });
        let resolve = |path: &String| path_context.resolve(path);
        let inner = Inner {
            spec: uncompiled,
            is_inherited: false,
            index: evaluation::RuleIndex::of(&rules),
            restricts_reads: rules.iter().any(Rule::restricts_reads),
            configured_mode: spec.mode,
            rules,
            plan_dir: spec.plan_dir.as_ref().map(resolve),
            allowed_paths: spec.allowed_paths.iter().map(resolve).collect(),
            on_headless_ask: spec.on_headless_ask,
            interactive: spec.interactive,
            disable_yolo: spec.disable_yolo,
            disable_always_allow: spec.disable_always_allow,
            has_callback: spec.has_callback,
            protected: match protected {
                Ok(protected) if wrong.is_empty() => protected,
                _ => return Err(wrong),
            },
            path_context,
            plugin_contexts,
        };
        let policy = Self {
            mode: Mode::Default,
            inner: Arc::new(inner),
        };
        policy
            .with_mode(spec.mode)
            .map_err(|diagnostic| vec![diagnostic])
    }

    /// The same rules in another mode, after the user switched modes.
    pub fn with_mode(&self, mode: Mode) -> Result<Self, Diagnostic> {
        let wrong = |message: &str| Err(Diagnostic::error(&RuleSource::default(), message));
        match mode {
            Mode::Yolo if self.inner.disable_yolo => {
                wrong("mode yolo is disabled by disable_yolo; choose another mode")
            }
            Mode::Custom if !self.inner.has_callback => wrong(
                "mode custom requires a hook that decides about calls, but none exists; configure one or choose another mode",
            ),
            mode => Ok(Self {
                mode,
                inner: Arc::clone(&self.inner),
            }),
        }
    }

    /// The same policy with one more rule, which the user added while the host runs.
    pub fn with_rule(&self, rule: RuleSpec) -> Result<Self, Diagnostic> {
        if self.inner.disable_always_allow && rule.decision == Decision::Allow {
            return Err(Diagnostic::error(
                &rule.source,
                "disable_always_allow forbids new allow rules; approve each call",
            ));
        }
        let mut spec = self.inner.spec.clone();
        spec.rules.push(rule);
        // Only the new rule can be invalid.
        let policy = Self::new(spec).map_err(|mut wrong| wrong.swap_remove(0))?;
        policy.with_mode(self.mode)
    }

    /// The contents of this policy, which was just created, for calls whose paths are resolved as in `other`. Its own
    /// patterns are already compiled to paths on the host.
    fn with_guest_paths_of(self, other: &Policy) -> Inner {
        Inner {
            path_context: other.inner.path_context.clone(),
            plugin_contexts: other.inner.plugin_contexts.clone(),
            ..Arc::into_inner(self.inner).expect("no other policy shares the contents")
        }
    }

    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Resolves a path as written in a call of a plugin to its path on the host.
    pub fn resolve_path_of(&self, plugin: &PluginName, path: &str) -> String {
        self.inner.path_context_of(plugin).resolve(path)
    }

    /// The directories that were granted to a plugin, as guests and the host name them.
    pub fn mounts_of(&self, plugin: &PluginName) -> &[Mount] {
        &self.inner.path_context_of(plugin).mounts
    }

    /// What the policy was compiled from.
    pub fn spec(&self) -> &PolicySpec {
        &self.inner.spec
    }

    pub fn rules(&self) -> &[Rule] {
        &self.inner.rules
    }

    pub fn on_headless_ask(&self) -> OnHeadlessAsk {
        self.inner.on_headless_ask
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
