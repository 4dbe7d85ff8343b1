//! What the command line, the file, the files it names and those of other systems say about permissions, made into
//! one policy.

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

/// Rules that are only forms, by decision, as they were written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleLists {
    pub allow: Vec<String>,
    pub ask: Vec<String>,
    pub deny: Vec<String>,
    /// So many rules came from `[[rule]]`, rule files and imports.
    pub others: usize,
}

/// Everything somebody wrote about permissions.
pub(super) struct Words<'a> {
    pub args: &'a HostArgs,
    pub config: &'a PolicyTable,
    pub permission: &'a PermissionTable,
    pub rules: Vec<RuleSpec>,
    pub file: Option<&'a Path>,
    /// Where patterns that start with `/` hang.
    pub base: &'a Path,
    pub paths: &'a [AllowedPath],
    pub world: &'a World<'a>,
    pub of_file: &'a dyn Fn(&str) -> Result<PathBuf, String>,
    pub has_callback: bool,
}

pub(super) struct Judged {
    pub policy: Arc<Policy>,
    /// The files that rules came from, beside the configuration.
    pub files: Vec<PathBuf>,
    pub lists: RuleLists,
    /// Tools that an import does not show.
    pub hidden: Vec<String>,
    /// For each import that has such a list, the only tools it shows.
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
            // What a command line allows, it allows in the mode that it was written for.
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
        // A folder is granted by whoever starts the host, and not by the settings of another program.
        if !imported.directories.is_empty() {
            warnings.push(format!(
                "the further directories of {name} are not granted; write them into `allowed_paths`"
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

/// The modes that somebody wrote. The file's own word counts before an import's, and of two imports none does.
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
                    "{first} wants mode {known} and {name} wants mode {mode}; write `mode` under [policy]"
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
        // Changes are known by their real names.
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

/// A tool without what stands in parentheses behind it.
fn bare(form: &str) -> String {
    form.split('(').next().unwrap_or(form).trim().to_owned()
}

/// What is wrong, one finding a line. Those that are about no rule are about the file as a whole.
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
