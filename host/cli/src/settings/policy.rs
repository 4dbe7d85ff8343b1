//! Builds the policy from the command line, the configuration file, rule files and imports of other systems.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use toolhost_contract::policy::{
    Decision, Diagnostic, PathContext, RuleFile, RuleSource, RuleSpec, Tier, import,
};
use toolhost_contract::{Mode, Policy, PolicySpec};

use super::SettingsEnv;
use crate::config::{self, ImportKind, PermissionTable, PolicyTable, RuleText};
use crate::host_args::HostArgs;

/// Rules given as forms, by decision, as written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleLists {
    pub allow: Vec<String>,
    pub ask: Vec<String>,
    pub deny: Vec<String>,
    /// Number of rules from `[[rule]]`, rule files and imports.
    pub other_count: usize,
}

/// All inputs to the policy.
pub(super) struct PolicyInputs<'a> {
    pub args: &'a HostArgs,
    pub config: &'a PolicyTable,
    pub permission: &'a PermissionTable,
    pub rules: Vec<RuleSpec>,
    pub file: Option<&'a Path>,
    /// The root of patterns that start with `/`.
    pub base: &'a Path,
    /// With the granted directories.
    pub core: &'a toolhost::Settings,
    pub world: &'a SettingsEnv<'a>,
    pub of_file: &'a dyn Fn(&str) -> Result<PathBuf, String>,
    pub has_callback: bool,
}

pub(super) struct ResolvedPolicy {
    pub policy: Arc<Policy>,
    /// Files with rules, in addition to the configuration file.
    pub files: Vec<PathBuf>,
    pub lists: RuleLists,
    /// Tools that an import hides.
    pub hidden: Vec<String>,
    /// For each import with such a list, the only tools it shows.
    pub only_tools: Vec<Vec<String>>,
    pub warnings: Vec<String>,
}

pub(super) fn resolve(inputs: &PolicyInputs<'_>) -> Result<ResolvedPolicy, String> {
    let PolicyInputs {
        args,
        config,
        world,
        ..
    } = inputs;
    let file = inputs
        .file
        .map_or_else(String::new, |file| file.display().to_string());
    let mut rules = listed_rules(args, config, &file);
    let listed = rules.len();
    rules.extend(inputs.rules.iter().cloned());
    let mut files = Vec::new();
    for name in &config.rules {
        let path = (inputs.of_file)(name)?;
        rules.extend(rule_file(inputs, &path)?);
        files.push(path);
    }

    let mut modes = ConfiguredModes::default();
    if let Some(mode) = config.mode.or(inputs.permission.mode) {
        modes.own = Some(mode);
    }
    let kode = import::kode(
        &inputs.permission.to_value(),
        Tier::User,
        &RuleSource::file(&file),
    )
    .map_err(|found| found.to_string())?;
    rules.extend(kode.rules);
    let mut imports = Imports {
        disable_yolo: config.disable_yolo,
        disable_always_allow: config.disable_always_allow,
        ..Imports::default()
    };
    for one in &config.import {
        let path = (inputs.of_file)(&one.file)?;
        let (name, imported) = read_import(inputs, one.kind, &path)?;
        files.push(path);
        modes.add_import(&name, imported.mode)?;
        imports.add(&name, imported, &mut rules);
    }

    let texts = |typed: &[RuleText], written: &[RuleText]| {
        let forms = typed.iter().chain(written);
        forms.map(ToString::to_string).collect()
    };
    let lists = RuleLists {
        allow: texts(&args.allow_tool, &config.allow),
        ask: texts(&[], &config.ask),
        deny: texts(&args.deny_tool, &config.deny),
        other_count: rules.len() - listed,
    };
    let plan_dir = config.plan_dir.as_deref().map(inputs.of_file).transpose()?;
    let spec = PolicySpec {
        mode: args.mode.or(modes.chosen()).unwrap_or_default(),
        rules,
        path_context: path_context(inputs),
        plugin_mounts: inputs.core.plugin_mounts(),
        plan_dir: plan_dir.map(|dir| dir.display().to_string()),
        protected: config.protected.clone(),
        on_headless_ask: config.on_headless_ask.unwrap_or_default(),
        interactive: world.interactive,
        disable_yolo: imports.disable_yolo,
        disable_always_allow: imports.disable_always_allow,
        has_callback: inputs.has_callback,
        ..PolicySpec::default()
    };
    let policy = Policy::new(spec).map_err(|found| format_diagnostics(&file, &found))?;
    Ok(ResolvedPolicy {
        files,
        policy: Arc::new(policy),
        lists,
        hidden: imports.hidden,
        only_tools: imports.only_tools,
        warnings: imports.warnings,
    })
}

/// The rules that are given as forms, on the command line and in the file.
fn listed_rules(args: &HostArgs, config: &PolicyTable, file: &str) -> Vec<RuleSpec> {
    let lists = [
        (
            Decision::Deny,
            "--deny-tool",
            &*args.deny_tool,
            &*config.deny,
        ),
        (Decision::Ask, "", &[][..], &*config.ask),
        (
            Decision::Allow,
            "--allow-tool",
            &*args.allow_tool,
            &*config.allow,
        ),
    ];
    let mut rules = Vec::new();
    for (decision, flag, typed, written) in lists {
        let source = |form: &RuleText, name: &str| match form.position {
            Some((line, column)) => RuleSource {
                file: name.to_owned(),
                line,
                column,
            },
            None => RuleSource::file(name),
        };
        rules.extend(typed.iter().map(|form| RuleSpec {
            // An allow rule on the command line applies within the mode given there.
            yields_to_mode: decision == Decision::Allow,
            ..rule(decision, form, source(form, flag))
        }));
        rules.extend(
            written
                .iter()
                .map(|form| rule(decision, form, source(form, file))),
        );
    }
    rules
}

/// What settings of other systems contain besides rules and modes.
#[derive(Default)]
struct Imports {
    hidden: Vec<String>,
    only_tools: Vec<Vec<String>>,
    warnings: Vec<String>,
    disable_yolo: bool,
    disable_always_allow: bool,
}

impl Imports {
    fn add(&mut self, name: &str, imported: import::Imported, rules: &mut Vec<RuleSpec>) {
        rules.extend(imported.rules);
        self.disable_yolo |= imported.disable_yolo;
        self.disable_always_allow |= imported.disable_always_allow;
        self.hidden.extend(imported.hidden_tools);
        let visible = imported.visible_tools;
        let visible = visible.map(|names| names.iter().map(|name| tool_of_form(name)).collect());
        self.only_tools.extend(visible);
        // Directories are granted by the user who starts the host, not by the settings of another program.
        if !imported.directories.is_empty() {
            self.warnings.push(format!(
                "the additional directories of {name} are not granted; add them to `allowed_paths`"
            ));
        }
    }
}

fn rule(decision: Decision, form: &RuleText, source: RuleSource) -> RuleSpec {
    RuleSpec::new(decision, form.as_str()).at(source)
}

fn rule_file(inputs: &PolicyInputs<'_>, path: &Path) -> Result<Vec<RuleSpec>, String> {
    let text = (inputs.world.read)(path)?;
    let name = path.display().to_string();
    RuleFile::parse(&name, &text, Tier::User).map_err(|found| format_diagnostics(&name, &found))
}

fn read_import(
    inputs: &PolicyInputs<'_>,
    kind: ImportKind,
    path: &Path,
) -> Result<(String, import::Imported), String> {
    let text = (inputs.world.read)(path)?;
    let name = path.display().to_string();
    let source = RuleSource::file(&name);
    let value = || config::parse_value(path, &text).map_err(|error| error.to_string());
    let is_toml = path
        .extension()
        .is_some_and(|extension| extension == "toml");
    let imported = match kind {
        ImportKind::Gemini if is_toml => import::gemini_policy(&name, &text, Tier::User),
        ImportKind::Gemini => import::gemini_settings(&value()?, Tier::User, &source),
        ImportKind::Kode => import::kode(&value()?, Tier::User, &source),
        ImportKind::Sema => import::sema(&value()?, Tier::User, &source),
        ImportKind::Claude => import::claude(&value()?, Tier::User, &source),
    };
    let imported = imported.map_err(|found| found.to_string())?;
    Ok((name, imported))
}

/// The configured modes. The file's mode takes precedence over an import; two imports must not disagree.
#[derive(Default)]
struct ConfiguredModes {
    own: Option<Mode>,
    import: Option<(String, Mode)>,
}

impl ConfiguredModes {
    fn add_import(&mut self, name: &str, mode: Option<Mode>) -> Result<(), String> {
        match (&self.import, mode) {
            (_, None) => {}
            (Some((first, known)), Some(mode)) if *known != mode && self.own.is_none() => {
                return Err(format!(
                    "{first} sets mode {known} and {name} sets mode {mode}; set `mode` under [policy]"
                ));
            }
            (_, Some(mode)) => self.import = Some((name.to_owned(), mode)),
        }
        Ok(())
    }

    fn chosen(&self) -> Option<Mode> {
        self.own.or(self.import.as_ref().map(|(_, mode)| *mode))
    }
}

fn path_context(inputs: &PolicyInputs<'_>) -> PathContext {
    PathContext {
        home: (inputs.world.variable)("HOME").filter(|home| home.starts_with('/')),
        root: Some(inputs.base.display().to_string()),
        mounts: toolhost::policy_mounts(&inputs.core.paths),
        ..PathContext::default()
    }
}

/// The tool of a form, without the parentheses.
fn tool_of_form(form: &str) -> String {
    form.split('(').next().unwrap_or(form).trim().to_owned()
}

/// Formats diagnostics, one per line. Those without a position get the file.
fn format_diagnostics(file: &str, found: &[Diagnostic]) -> String {
    let lines: Vec<String> = found
        .iter()
        .map(|one| {
            let mut one = one.clone();
            if one.position.file.is_empty() {
                file.clone_into(&mut one.position.file);
            }
            one.to_string()
        })
        .collect();
    lines.join("\n")
}
