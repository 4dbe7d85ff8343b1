//! Builds the policy from the command line, the configuration file, rule files and imports of other systems.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use toolhost::AllowedPath;
use toolhost_contract::policy::{
    Decision, Diagnostic, Mount, Places, RuleFile, RuleSpec, Source, Tier, import,
};
use toolhost_contract::{Mode, Policy, PolicySpec};

use super::World;
use crate::args::HostArgs;
use crate::config::{self, Form, ImportKind, PermissionTable, PolicyTable};

/// Rules given as forms, by decision, as written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleLists {
    pub allow: Vec<String>,
    pub ask: Vec<String>,
    pub deny: Vec<String>,
    /// Number of rules from `[[rule]]`, rule files and imports.
    pub others: usize,
}

/// All inputs to the policy.
pub(super) struct Words<'a> {
    pub args: &'a HostArgs,
    pub config: &'a PolicyTable,
    pub permission: &'a PermissionTable,
    pub rules: Vec<RuleSpec>,
    pub file: Option<&'a Path>,
    /// The root of patterns that start with `/`.
    pub base: &'a Path,
    pub paths: &'a [AllowedPath],
    pub world: &'a World<'a>,
    pub of_file: &'a dyn Fn(&str) -> Result<PathBuf, String>,
    pub has_callback: bool,
}

pub(super) struct Judged {
    pub policy: Arc<Policy>,
    /// Files with rules, in addition to the configuration file.
    pub files: Vec<PathBuf>,
    pub lists: RuleLists,
    /// Tools that an import hides.
    pub hidden: Vec<String>,
    /// For each import with such a list, the only tools it shows.
    pub core: Vec<Vec<String>>,
    pub warnings: Vec<String>,
}

pub(super) fn resolve(words: &Words<'_>) -> Result<Judged, String> {
    let Words {
        args,
        config,
        world,
        ..
    } = words;
    let file = words
        .file
        .map_or_else(String::new, |file| file.display().to_string());
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
        let source = |form: &Form, name: &str| match form.at {
            Some((line, column)) => Source {
                file: name.to_owned(),
                line,
                column,
            },
            None => Source::file(name),
        };
        rules.extend(typed.iter().map(|form| RuleSpec {
            // An allow rule on the command line applies within the mode given there.
            yields_to_mode: decision == Decision::Allow,
            ..rule(decision, form, source(form, flag))
        }));
        rules.extend(
            written
                .iter()
                .map(|form| rule(decision, form, source(form, &file))),
        );
    }
    let listed = rules.len();
    rules.extend(words.rules.iter().cloned());
    let mut files = Vec::new();
    for name in &config.rules {
        let path = (words.of_file)(name)?;
        rules.extend(rule_file(words, &path)?);
        files.push(path);
    }

    let mut modes = Modes::default();
    if let Some(mode) = config.mode.or(words.permission.mode) {
        modes.own = Some(mode);
    }
    let kode = import::kode(
        &words.permission.to_value(),
        Tier::User,
        &Source::file(&file),
    )
    .map_err(|found| found.to_string())?;
    rules.extend(kode.rules);
    let (mut hidden, mut core, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    let (mut disable_yolo, mut disable_always_allow) =
        (config.disable_yolo, config.disable_always_allow);
    for one in &config.import {
        let path = (words.of_file)(&one.file)?;
        let (name, imported) = read_import(words, one.kind, &path)?;
        files.push(path);
        rules.extend(imported.rules);
        modes.imported(&name, imported.mode)?;
        disable_yolo |= imported.disable_yolo;
        disable_always_allow |= imported.disable_always_allow;
        hidden.extend(imported.hidden);
        core.extend(
            imported
                .core
                .map(|names| names.iter().map(|name| bare(name)).collect()),
        );
        // Directories are granted by the user who starts the host, not by the settings of another program.
        if !imported.directories.is_empty() {
            warnings.push(format!(
                "the additional directories of {name} are not granted; add them to `allowed_paths`"
            ));
        }
    }

    let texts = |typed: &[Form], written: &[Form]| {
        let forms = typed.iter().chain(written);
        forms.map(ToString::to_string).collect()
    };
    let lists = RuleLists {
        allow: texts(&args.allow_tool, &config.allow),
        ask: texts(&[], &config.ask),
        deny: texts(&args.deny_tool, &config.deny),
        others: rules.len() - listed,
    };
    let plan_dir = config.plan_dir.as_deref().map(words.of_file).transpose()?;
    let spec = PolicySpec {
        mode: args.mode.or(modes.chosen()).unwrap_or_default(),
        rules,
        places: places(words),
        plan_dir: plan_dir.map(|dir| dir.display().to_string()),
        protected: config.protected.clone(),
        headless: config.on_headless_ask.unwrap_or_default(),
        interactive: world.interactive,
        disable_yolo,
        disable_always_allow,
        has_callback: words.has_callback,
        ..PolicySpec::default()
    };
    let policy = Policy::new(spec).map_err(|found| in_file(&file, &found))?;
    Ok(Judged {
        files,
        policy: Arc::new(policy),
        lists,
        hidden,
        core,
        warnings,
    })
}

fn rule(decision: Decision, form: &Form, source: Source) -> RuleSpec {
    RuleSpec::new(decision, form.as_str()).at(source)
}

fn rule_file(words: &Words<'_>, path: &Path) -> Result<Vec<RuleSpec>, String> {
    let text = (words.world.read)(path)?;
    let name = path.display().to_string();
    RuleFile::parse(&name, &text, Tier::User).map_err(|found| in_file(&name, &found))
}

fn read_import(
    words: &Words<'_>,
    kind: ImportKind,
    path: &Path,
) -> Result<(String, import::Imported), String> {
    let text = (words.world.read)(path)?;
    let name = path.display().to_string();
    let source = Source::file(&name);
    let value = || config::value_of(path, &text).map_err(|error| error.to_string());
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
struct Modes {
    own: Option<Mode>,
    import: Option<(String, Mode)>,
}

impl Modes {
    fn imported(&mut self, name: &str, mode: Option<Mode>) -> Result<(), String> {
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

fn places(words: &Words<'_>) -> Places {
    let mounts = words.paths.iter().map(|path| Mount {
        guest: path.guest.clone(),
        // Changes are reported with canonical paths.
        host: path
            .host
            .canonicalize()
            .unwrap_or_else(|_| path.host.clone())
            .display()
            .to_string(),
    });
    Places {
        home: (words.world.variable)("HOME").filter(|home| home.starts_with('/')),
        root: Some(words.base.display().to_string()),
        mounts: mounts.collect(),
        ..Places::default()
    }
}

/// The tool of a form, without the parentheses.
fn bare(form: &str) -> String {
    form.split('(').next().unwrap_or(form).trim().to_owned()
}

/// Formats diagnostics, one per line. Those without a position get the file.
fn in_file(file: &str, found: &[Diagnostic]) -> String {
    let lines: Vec<String> = found
        .iter()
        .map(|one| {
            let mut one = one.clone();
            if one.at.file.is_empty() {
                file.clone_into(&mut one.at.file);
            }
            one.to_string()
        })
        .collect();
    lines.join("\n")
}
