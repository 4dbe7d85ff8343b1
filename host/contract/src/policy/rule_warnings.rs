//! Warnings about rules, checked against the loaded tools: unknown names, rules that never apply, missing parameters.

use super::diagnostic::Diagnostic;
use super::path_pattern::{PathPattern, strip_dir};
use super::rule::Rule;
use super::rule_form::{COMMAND_MEMBERS, RuleForm, RuleTarget, TITLE_MEMBERS};
use super::tool_names::{NamePattern, NamedTool, ToolNames, has_parameter, is_foreign};
use super::{Decision, DeniedPath, Policy, RuleSource};
use crate::path_members::PATH_MEMBERS;
use crate::{Descriptor, PluginName, ToolHook, nearest, text};
use toolhost_shell_syntax as shell;

/// Names of single tools that users write when they mean every tool that changes files.
const WRITE_TOOLS: [&str; 4] = ["write", "multiedit", "notebookedit", "write_file"];

impl Policy {
    /// Checks the rules against the loaded tools. The warnings affect no decision.
    pub fn check(&self, tools: &[NamedTool]) -> Vec<Diagnostic> {
        let known: Vec<LoadedTool> = tools.iter().map(LoadedTool::of).collect();
        let rules = self.rules();
        let mut found = Vec::new();
        for (at, rule) in rules.iter().enumerate() {
            for form in &rule.forms {
                check_form(rule, form, &known, &mut found);
            }
            let hidden = rules.iter().enumerate().find(|(other, stronger)| {
                *other != at && shadows(stronger, *other, rule, at, &known)
            });
            if let Some((_, stronger)) = hidden {
                let message = match (rule.decision(), stronger.decision()) {
                    (Decision::Allow, Decision::Deny) => format!(
                        "rule {} never allows a call: rule {} ({}) denies it",
                        rule.label(),
                        stronger.label(),
                        stronger.source()
                    ),
                    _ => format!(
                        "rule {} never applies: rule {} ({}) takes precedence",
                        rule.label(),
                        stronger.label(),
                        stronger.source()
                    ),
                };
                found.push(Diagnostic::warning(rule.source(), message));
            }
        }
        found
    }
}

/// Maximum number of options named in a warning.
const MAX_NAMED_OPTIONS: usize = 6;

/// Warns about allow rules whose wildcard would match options that run programs or write files.
fn warn_about_wildcards(rule: &Rule, found: &mut Vec<Diagnostic>) {
    if rule.decision != Decision::Allow {
        return;
    }
    for pattern in rule.command_patterns() {
        let Some((program, subcommand)) = pattern.wildcard_command() else {
            continue;
        };
        let mut options = shell::list_risky_options(program, subcommand);
        if options.is_empty() {
            continue;
        }
        let more = options.len().saturating_sub(MAX_NAMED_OPTIONS);
        options.truncate(MAX_NAMED_OPTIONS);
        let and_more = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let message = format!(
            "the wildcard of rule {} does not cover options that make `{program}` run programs, write files or load other settings ({}{and_more}); such commands require approval; to allow one, write the option in a rule",
            rule.label(),
            options.join(", "),
        );
        found.push(Diagnostic::warning(rule.source(), message));
    }
}

impl Policy {
    /// Warns about allow rules whose wildcard does not cover risky options.
    pub fn check_wildcards(&self) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        for rule in self.rules() {
            warn_about_wildcards(rule, &mut found);
        }
        found
    }
}

impl Policy {
    /// Warns about patterns that start with `/` and match nothing in these directories, which are paths on the host. Such
    /// a pattern is relative to the configuration file, and often meant to be absolute.
    pub fn check_rooted_paths(&self, granted: &[String]) -> Vec<Diagnostic> {
        let spec = self.spec();
        let rules = spec.rules.iter().zip(self.rules());
        let of_rules = rules.flat_map(|(spec, rule)| {
            let of_forms = spec.tools.iter().zip(&rule.forms).filter_map(path_of_form);
            let paths = of_forms.chain(spec.path.iter().map(String::as_str));
            paths.map(|path| {
                (
                    rule.source().clone(),
                    format!("rule {}", rule.label()),
                    path,
                )
            })
        });
        let of_list = spec.protected.iter().map(|path| {
            let source = RuleSource::default();
            (source, "`protected`".to_owned(), path.as_str())
        });
        let all = of_rules.chain(of_list);
        all.filter_map(|(source, place, path)| {
            let meant = self.resolve_rooted(path)?;
            let is_outside = |granted: &String| {
                strip_dir(&meant, granted).is_none() && strip_dir(granted, &meant).is_none()
            };
            let message = || {
                let [path, meant] = [path, &meant].map(|text| text::escape_line(text, 200));
                format!("{place}: `{path}` is relative to the configuration file and starts at `{meant}`, which is in no granted directory; for an absolute path write `/{path}`")
            };
            let is_wrong = granted.iter().all(is_outside);
            is_wrong.then(|| Diagnostic::warning(&source, message()))
        })
        .collect()
    }

    /// The part without wildcards of a pattern that starts with one `/`, as a path on the host.
    fn resolve_rooted(&self, pattern: &str) -> Option<String> {
        let is_rooted = pattern.starts_with('/') && !pattern.starts_with("//");
        let pattern = is_rooted.then(|| PathPattern::parse(pattern, &self.inner.path_context))?;
        match pattern.ok()?.denied_path() {
            DeniedPath::Tree(path) | DeniedPath::Below(path) => Some(path),
        }
    }
}

/// The path of a form such as `Read(src/**)`, as written. A form with a blank may name a command.
fn path_of_form<'a>((written, form): (&'a String, &RuleForm)) -> Option<&'a str> {
    let target = form.target.as_ref()?;
    let (_, specifier) = written.split_once('(')?;
    let path = specifier.trim_end().strip_suffix(')')?.trim();
    let is_path = !target.paths.is_empty() && (target.commands.is_empty() || !path.contains(' '));
    is_path.then_some(path)
}

struct LoadedTool<'a> {
    plugin: &'a PluginName,
    tool: &'a Descriptor,
    names: ToolNames,
}

impl<'a> LoadedTool<'a> {
    fn of(named: &NamedTool<'a>) -> Self {
        Self {
            plugin: named.plugin,
            tool: named.tool,
            names: ToolNames::new(*named),
        }
    }

    fn is_matched_by(&self, name: &NamePattern) -> bool {
        name.matches(&self.names)
            || name
                .family()
                .is_some_and(|family| family.contains(self.tool))
    }
}

/// Says that nothing loaded has the name of the form, and suggests a similar one.
fn unknown_name(form: &RuleForm, known: &[LoadedTool]) -> String {
    let similar = |name: &str, names: Vec<&str>, plugin: &str| match nearest(name, names, 1).first()
    {
        Some(near) => format!("; did you mean `{plugin}{}`?", text::escape_line(near, 80)),
        None => String::new(),
    };
    let of_plugin = |plugin: &str| {
        let tools = known.iter().filter(|one| one.plugin.as_str() == plugin);
        tools.map(|one| one.tool.name.as_str()).collect::<Vec<_>>()
    };
    match &form.name {
        NamePattern::Plugin { plugin, .. } if of_plugin(plugin).is_empty() => {
            let names = known.iter().map(|one| one.plugin.as_str()).collect();
            // The server may be connected later.
            let near = if plugin.starts_with("mcp-") {
                String::new()
            } else {
                similar(plugin, names, "")
            };
            format!("no loaded plugin is called `{plugin}`{near}")
        }
        NamePattern::Plugin {
            plugin,
            tool: Some(tool),
        } => {
            let near = similar(tool, of_plugin(plugin), &format!("{plugin}/"));
            format!("no tool is called `{plugin}/{tool}`{near}")
        }
        _ => {
            let written = form.shown.split('(').next().unwrap_or_default();
            let names = known.iter().flat_map(|one| {
                std::iter::once(one.tool.name.as_str())
                    .chain(one.tool.aliases.iter().map(String::as_str))
            });
            let near = similar(written, names.collect(), "");
            format!("no tool is called `{written}`{near}")
        }
    }
}

fn check_form(rule: &Rule, form: &RuleForm, known: &[LoadedTool], found: &mut Vec<Diagnostic>) {
    let meant: Vec<&LoadedTool> = known
        .iter()
        .filter(|one| one.is_matched_by(&form.name))
        .collect();
    let mut warn = |message: String| found.push(Diagnostic::warning(rule.source(), message));
    if meant.is_empty() {
        // A family or `*` may match no tool currently.
        if form.name.family().is_none() && !matches!(form.name, NamePattern::All) {
            warn(unknown_name(form, known));
        }
        return;
    }
    let has = |parameters: &[&str]| any_has(&meant, parameters);
    let has_paths = has(&PATH_MEMBERS)
        || meant
            .iter()
            .any(|one| one.tool.hooks.contains(ToolHook::Locations));
    // Another tool could do what this rule denies for one tool. An allow rule for one tool is fine.
    if rule.decision != Decision::Allow
        && let NamePattern::Name(name) = &form.name
        && WRITE_TOOLS.contains(&name.as_str())
        && form
            .target
            .as_ref()
            .is_some_and(|target| !target.paths.is_empty())
    {
        let specifier = form
            .shown
            .split_once('(')
            .map_or("", |(_, specifier)| specifier);
        warn(format!(
            "`{}` applies to one tool; write `Edit({specifier}` to cover every tool that changes files",
            form.shown
        ));
    }
    for target in form.target.iter().chain(&rule.target) {
        let problem = match &target.argument {
            Some(argument) => argument_problem(rule, target, &argument.name, &meant),
            None => missing_input(target, has_paths, &has)
                .map(|missing| format!("matches no call: {missing}")),
        };
        if let Some(problem) = problem {
            warn(format!("`{}` {problem}", form.shown));
        }
        if target.destination.is_some() && meant.iter().all(|one| one.tool.sinks.is_empty()) {
            warn(format!(
                "`{}` matches no call: the tool declares no destinations",
                form.shown
            ));
        }
    }
    for argument in &rule.args {
        if !argument.name.starts_with('/') && !has(&[&argument.name]) {
            let name = text::escape_line(&argument.name, 40);
            warn(format!(
                "`{}` matches no call: the tool has no parameter `{name}`",
                form.shown
            ));
        }
    }
}

/// Whether a tool has one of these parameters, or its parameters are unknown.
fn any_has(tools: &[&LoadedTool], parameters: &[&str]) -> bool {
    tools.iter().any(|one| {
        has_unknown_parameters(one) || parameters.iter().any(|name| has_parameter(one.tool, name))
    })
}

/// Why a form `Tool(NAME:VALUE)` matches no call, or not the calls with this parameter.
fn argument_problem(
    rule: &Rule,
    target: &RuleTarget,
    name: &str,
    tools: &[&LoadedTool],
) -> Option<String> {
    let shown = text::escape_line(name, 40);
    let is_command_form = target.names_commands() && any_has(tools, &COMMAND_MEMBERS);
    let is_title = !target.titles.is_empty() && any_has(tools, &TITLE_MEMBERS);
    if !any_has(tools, &[name]) && !is_command_form && !is_title {
        return Some(format!(
            "matches no call: the tool has no parameter `{shown}`"
        ));
    }
    let mut having = tools.iter().filter(|one| has_parameter(one.tool, name));
    let allows_commands = rule.decision == Decision::Allow
        && target.names_commands()
        && having.clone().next().is_some()
        && !having.any(|one| target.reads_as_parameter(name, one.tool));
    allows_commands.then(|| {
        format!(
            "allows commands that start with `{shown}`, not calls with the parameter `{shown}`; for those, write a rule table with `args = {{ {shown} = \"*\" }}`"
        )
    })
}

/// Why the target cannot match any of the tools; `None` if it can.
fn missing_input(
    target: &RuleTarget,
    has_paths: bool,
    has: &impl Fn(&[&str]) -> bool,
) -> Option<&'static str> {
    let paths = target.paths.is_empty() || has_paths;
    let commands = !target.names_commands() || has(&["command"]);
    let domains = target.domains.is_empty() || has(&["url"]);
    let titles = target.titles.is_empty() || has(&TITLE_MEMBERS);
    // A form whose target has several interpretations is valid if one of them can match.
    if !target.titles.is_empty() {
        return (!paths && !commands && !titles)
            .then_some("the tool takes no path, command or name");
    }
    match (paths, commands, domains) {
        (false, ..) => Some("the tool takes no path"),
        (_, false, _) => Some("the tool takes no command"),
        (.., false) => Some("the tool takes no address"),
        (true, true, true) => None,
    }
}

/// Whether the tool's parameters are unknown.
fn has_unknown_parameters(known: &LoadedTool) -> bool {
    let properties = known.tool.input_schema.get("properties");
    properties.is_none() && is_foreign(known.tool.name.as_str(), known.tool)
}

/// Whether `rule` never applies because `stronger` takes precedence for the same calls.
fn shadows(
    stronger: &Rule,
    stronger_at: usize,
    rule: &Rule,
    at: usize,
    known: &[LoadedTool],
) -> bool {
    if !stronger.is_unconditional()
        || stronger.allow_redirection != rule.allow_redirection
        || stronger.yields_to_mode && !rule.yields_to_mode
    {
        return false;
    }
    let louder = if stronger.tier() == rule.tier() {
        let strength = |rule: &Rule| (rule.priority(), rule.decision());
        strength(stronger) > strength(rule)
            || strength(stronger) == strength(rule) && stronger_at < at
    } else {
        let deny = |rule: &Rule| rule.decision() == Decision::Deny;
        // A deny applies from every tier; of two other rules the higher tier decides.
        deny(stronger) && !deny(rule) || stronger.tier() > rule.tier() && !deny(rule)
    };
    louder
        && rule.forms.iter().all(|form| {
            stronger.forms.iter().any(|wide| {
                let same_target = wide.shown == form.shown
                    || wide.target.is_none() && covers_same_tools(wide, form, known);
                same_target && stronger.target.is_none()
            })
        })
}

fn covers_same_tools(wide: &RuleForm, form: &RuleForm, known: &[LoadedTool]) -> bool {
    match (&wide.name, &form.name) {
        (NamePattern::All, _) => true,
        (_, name) if name.family().is_some() => wide.name.family() == name.family(),
        (_, NamePattern::Name(_)) => {
            let mut meant = known
                .iter()
                .filter(|one| one.is_matched_by(&form.name))
                .peekable();
            meant.peek().is_some() && meant.all(|one| wide.name.matches(&one.names))
        }
        // A name pattern may match tools that are added later.
        (_, _) => wide.shown == form.shown,
    }
}
