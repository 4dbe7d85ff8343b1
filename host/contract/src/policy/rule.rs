//! Compiled rules and their matching against the accesses of a call.

use regex::{Regex, RegexBuilder};

use super::argument_pattern::ArgumentPattern;
use super::call_analysis::{AccessKind, AccessRequest, CallAnalysis};
use super::diagnostic::RuleSource;
use super::path_pattern::PathPattern;
use super::rule_form::{RuleForm, RuleTarget};
use super::tool_names::{NamePattern, ToolFamily};
use super::{Decision, Mode, Tier};
use crate::text;
use crate::version::{Version, VersionReq};
use toolhost_shell_syntax as shell;

/// Compiles a regular expression of bounded size; matching is linear in the length of the text.
pub(super) fn compile_regex(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(pattern)
        .size_limit(1 << 20)
        .build()
        .map_err(|error| {
            let shown = text::escape_line(pattern, 80);
            format!(
                "`{shown}` is not a regular expression: {}",
                text::escape_line(&error.to_string(), 200)
            )
        })
}

/// A compiled rule.
#[derive(Debug, Clone)]
pub struct Rule {
    pub(super) id: String,
    pub(super) tools_text: String,
    pub(super) tier: Tier,
    pub(super) priority: u16,
    pub(super) decision: Decision,
    pub(super) deny_message: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) remember: bool,
    pub(super) yields_to_mode: bool,
    pub(super) programs: bool,
    pub(super) modes: Vec<Mode>,
    pub(super) source: RuleSource,
    pub(super) allow_redirection: bool,
    pub(super) forms: Vec<RuleForm>,
    pub(super) target: Option<RuleTarget>,
    pub(super) subagent: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) task: Option<String>,
    pub(super) user: Option<String>,
    pub(super) version: Option<VersionReq>,
    pub(super) annotations: Vec<(String, bool)>,
    pub(super) args: Vec<ArgumentPattern>,
    pub(super) args_regex: Option<Regex>,
    pub(super) interactive: Option<bool>,
}

impl Rule {
    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn tier(&self) -> Tier {
        self.tier
    }

    pub fn priority(&self) -> u16 {
        self.priority
    }

    pub fn decision(&self) -> Decision {
        self.decision
    }

    pub fn source(&self) -> &RuleSource {
        &self.source
    }

    /// The tools it names, as written.
    pub fn tools(&self) -> &str {
        &self.tools_text
    }

    /// `user:3 allow Bash(git *)`
    pub(super) fn label(&self) -> String {
        format!("{} {} `{}`", self.id, self.decision, self.tools_text)
    }

    /// The command patterns of its forms and of the rule itself.
    pub(super) fn command_patterns(&self) -> impl Iterator<Item = &shell::CommandPattern> {
        let forms = self.forms.iter().filter_map(|form| form.target.as_ref());
        forms
            .chain(&self.target)
            .flat_map(|target| &target.commands)
    }

    /// Whether the conditions on the call as a whole hold. `modes` are those of the session, the narrowest first.
    pub(super) fn applies(
        &self,
        analysis: &CallAnalysis,
        modes: &[Mode],
        interactive: bool,
    ) -> bool {
        let allows = self.decision == Decision::Allow;
        let request = &analysis.request;
        let mode = self.modes.is_empty()
            || if allows {
                modes.first().is_some_and(|mode| self.modes.contains(mode))
            } else {
                modes.iter().any(|mode| self.modes.contains(mode))
            };
        let hints = request.tool.annotations;
        mode && self.interactive.is_none_or(|wanted| wanted == interactive)
            && self.subagent.as_ref().is_none_or(|name| {
                *name == request.caller.agent && request.caller.parent_agent.is_some()
            })
            && [
                (&self.agent, &request.caller.agent),
                (&self.task, &request.caller.task),
            ]
            .into_iter()
            .all(|(pattern, stated)| {
                let pattern = pattern.as_ref();
                pattern.is_none_or(|pattern| super::domain_pattern::matches_wildcard(pattern, stated))
            })
            && self
                .user
                .as_ref()
                .is_none_or(|name| request.caller.user.name() == Some(name))
            && self.version.as_ref().is_none_or(|wanted| {
                let version = &request.tool.version;
                if allows {
                    wanted.selects(&Version::parse(version))
                } else {
                    wanted.applies_to(version).unwrap_or(true)
                }
            })
            // An unspecified annotation may have either value, which is enough to deny but not to allow.
            && self.annotations.iter().all(|(name, wanted)| {
                annotation_value(hints, name).flatten().map_or(!allows, |value| value == *wanted)
            })
            && self.matches_input(analysis)
    }

    pub(super) fn matches_input(&self, analysis: &CallAnalysis) -> bool {
        self.args
            .iter()
            .all(|argument| argument.matches(analysis, self.decision))
            && self
                .args_regex
                .as_ref()
                .is_none_or(|regex| regex.is_match(analysis.sorted_input()))
    }

    /// Whether the rule applies to every call of its tools.
    pub(super) fn is_unconditional(&self) -> bool {
        self.modes.is_empty()
            && self.interactive.is_none()
            && self.subagent.is_none()
            && self.agent.is_none()
            && self.task.is_none()
            && self.user.is_none()
            && self.version.is_none()
            && self.annotations.is_empty()
            && self.args.is_empty()
            && self.args_regex.is_none()
    }

    /// Whether the rule matches this access.
    pub(super) fn covers(&self, part: &AccessRequest, analysis: &CallAnalysis) -> bool {
        self.matches(part, analysis)
            || self.allow_redirection && self.allows_redirection(part, analysis)
            || self.decision != Decision::Allow && self.matches_mentioned_path(part, analysis)
    }

    /// Whether it is an ask rule that matches only through an alias that the tool requested but was not assigned.
    pub(super) fn matches_only_requested_alias(
        &self,
        part: &AccessRequest,
        analysis: &CallAnalysis,
    ) -> bool {
        self.decision == Decision::Ask
            && !self.matches_by(part, analysis, |name| name.covers_assigned(part, analysis))
            && !self.matches_mentioned_path(part, analysis)
    }

    /// Whether the rule could match an access whose command is unknown.
    pub(super) fn may_cover(&self, part: &AccessRequest, analysis: &CallAnalysis) -> bool {
        self.decision != Decision::Allow
            && self.forms.iter().any(|form| {
                let narrowed = form.target.is_some() || self.target.is_some();
                let files = matches!(
                    form.name.family(),
                    Some(ToolFamily::Read | ToolFamily::Edit)
                );
                narrowed && (files || form.name.covers(part, analysis, self.decision))
            })
    }

    /// Whether it restricts changes of files.
    pub(super) fn restricts_writes(&self) -> bool {
        self.decision != Decision::Allow
            && self.forms.iter().any(|form| {
                let mut targets = form.target.iter().chain(&self.target);
                form.name.family() == Some(ToolFamily::Edit)
                    && targets.any(|target| !target.paths.is_empty())
            })
    }

    /// Whether an argument of a command matches a path of the rule. A path that may not be read must not be passed to a
    /// command; one that may not be changed can be passed to read-only commands.
    fn matches_mentioned_path(&self, part: &AccessRequest, analysis: &CallAnalysis) -> bool {
        !part.mentioned_paths.is_empty()
            && self.forms.iter().any(|form| {
                let meant = match form.name.family() {
                    Some(ToolFamily::Read) => true,
                    Some(ToolFamily::Edit) => !analysis.is_read_only,
                    Some(ToolFamily::Bash | ToolFamily::Fetch) => false,
                    None => matches!(form.name, NamePattern::All),
                };
                let narrowed = form.target.is_some() || self.target.is_some();
                meant
                    && narrowed
                    && part.mentioned_paths.iter().any(|path_ref| {
                        let mut targets = form.target.iter().chain(&self.target);
                        targets.all(|target| {
                            target.paths.iter().any(|path| path.matches_any(path_ref))
                        })
                    })
            })
    }

    /// Whether it can restrict reading of files.
    pub(super) fn restricts_reads(&self) -> bool {
        let other = |form: &RuleForm| {
            matches!(
                form.name.family(),
                Some(ToolFamily::Edit | ToolFamily::Bash | ToolFamily::Fetch)
            )
        };
        self.decision != Decision::Allow
            && (0..self.forms.len())
                .any(|form| self.form_paths(form).next().is_some() && !other(&self.forms[form]))
    }

    /// Whether the form matches file reads, by its name and its conditions on the input.
    pub(super) fn form_covers_reads(
        &self,
        form: usize,
        probe: &AccessRequest,
        analysis: &CallAnalysis,
    ) -> bool {
        let form = &self.forms[form];
        let mut targets = form.target.iter().chain(&self.target);
        form.name.covers(probe, analysis, self.decision)
            && targets.all(|target| match &target.argument {
                Some(_) => target.matches(probe, analysis, self.decision),
                None => !target.paths.is_empty(),
            })
    }

    /// The path patterns of a form and of the rule itself; a path must match one pattern of each list.
    pub(super) fn form_paths(&self, form: usize) -> impl Iterator<Item = &Vec<PathPattern>> {
        let targets = self.forms[form].target.iter().chain(&self.target);
        targets
            .map(|target| &target.paths)
            .filter(|paths| !paths.is_empty())
    }

    fn matches(&self, part: &AccessRequest, analysis: &CallAnalysis) -> bool {
        self.matches_by(part, analysis, |name| {
            name.covers(part, analysis, self.decision)
        })
    }

    fn matches_by(
        &self,
        part: &AccessRequest,
        analysis: &CallAnalysis,
        covers: impl Fn(&NamePattern) -> bool,
    ) -> bool {
        self.forms.iter().any(|form| {
            let mut targets = form.target.iter().chain(&self.target);
            covers(&form.name)
                && targets.all(|target| self.target_matches(target, form, part, analysis))
        })
    }

    fn target_matches(
        &self,
        target: &RuleTarget,
        form: &RuleForm,
        part: &AccessRequest,
        analysis: &CallAnalysis,
    ) -> bool {
        match self.decision {
            // An unnamed file is not covered by an allowed path, and a command that the host does not run proves nothing
            // about the tool, unless the rule names exactly this tool.
            Decision::Allow => {
                let named = !analysis.may_write_any_file
                    || !matches!(part.kind, AccessKind::Path { .. })
                    || target.paths.is_empty();
                let run = analysis.host_runs_command
                    || !part.is_command()
                    || form.name.is_single_tool() && !analysis.modifiers.has_any();
                named && run && target.matches(part, analysis, self.decision)
            }
            // An unnamed file may be any file that a rule forbids to change.
            Decision::Ask | Decision::Deny => {
                let may_write =
                    analysis.may_write_any_file && form.name.family() != Some(ToolFamily::Read);
                may_write && !target.paths.is_empty()
                    || target.matches(part, analysis, self.decision)
            }
        }
    }

    /// Whether the access is a redirection and the rule allows every command of the call.
    fn allows_redirection(&self, part: &AccessRequest, analysis: &CallAnalysis) -> bool {
        let mut commands = analysis
            .accesses
            .iter()
            .filter(|part| part.is_command())
            .peekable();
        self.decision == Decision::Allow
            && part.is_redirection
            && commands.peek().is_some()
            && commands.all(|command| self.matches(command, analysis))
    }
}

/// The value of an annotation; `None` if the name is unknown.
#[expect(
    clippy::option_option,
    reason = "an unknown word differs from what an author left open"
)]
pub(super) fn annotation_value(hints: crate::Annotations, name: &str) -> Option<Option<bool>> {
    Some(match name {
        "read_only" | "readOnlyHint" => hints.read_only,
        "pure" => hints.pure,
        "destructive" | "destructiveHint" => hints.destructive,
        "idempotent" | "idempotentHint" => hints.idempotent,
        "open_world" | "openWorldHint" => hints.open_world,
        "interactive" => hints.interactive,
        _ => return None,
    })
}
