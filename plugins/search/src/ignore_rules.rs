//! Ignore rules of `.gitignore` and related files, with git's precedence.

use std::fs;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Data of version control systems, which is never searched.
const HISTORIES: &[&str] = &[".git", ".hg", ".svn"];
/// Directories of dependencies, skipped even without a rule.
const DEPENDENCIES: &[&str] = &["node_modules", "bower_components"];
/// Tool rules in ascending precedence. They override git rules, so that `!dist/` in one of them includes `dist`.
const TOOL_FILES: &[&str] = &[".ignore", ".aiexclude", ".geminiignore", ".toolignore"];
const GIT_FILE: &str = ".gitignore";

/// The kinds of rules that a search applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppliedRules {
    /// `.gitignore` and `.git/info/exclude`.
    pub git: bool,
    /// `.ignore`, `.toolignore` and similar files, and the skipping of dependencies.
    pub tool: bool,
}

/// The effect of the rules on an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IgnoreState {
    Keep,
    /// Ignored by git rules.
    Git,
    /// Ignored by tool rules.
    Tool,
    /// Version control data, which is not reported.
    History,
}

/// The rules of a directory and its parents.
pub struct Rules {
    honour: AppliedRules,
    layers: Vec<Layer>,
}

#[derive(Default)]
struct Layer {
    git: Option<Gitignore>,
    tool: Option<Gitignore>,
    /// A repository starts here: git rules of parent directories do not apply.
    repository: bool,
}

/// The rule files of one directory, collected from its listing so that missing files are never opened.
#[derive(Default)]
pub struct RuleFiles {
    git: bool,
    repository: bool,
    tools: [bool; TOOL_FILES.len()],
}

impl RuleFiles {
    /// Records an entry if it is a rule file.
    pub fn record(&mut self, name: &str) {
        if !name.starts_with('.') {
            return;
        }
        match name {
            GIT_FILE => self.git = true,
            ".git" => self.repository = true,
            _ => {
                if let Some(at) = TOOL_FILES.iter().position(|file| *file == name) {
                    self.tools[at] = true;
                }
            }
        }
    }

    fn any(&self, honour: AppliedRules) -> bool {
        honour.git && (self.git || self.repository) || honour.tool && self.tools.contains(&true)
    }
}

impl Rules {
    pub fn new(honour: AppliedRules) -> Self {
        Self {
            honour,
            layers: Vec::new(),
        }
    }

    /// Reads the rules of `directory`. Returns whether there are any; then `leave` must be called.
    pub fn enter(&mut self, directory: &str, files: &RuleFiles) -> bool {
        if !files.any(self.honour) {
            return false;
        }
        let mut layer = Layer {
            repository: files.repository,
            ..Layer::default()
        };
        if self.honour.git {
            let exclude = files.repository.then_some(".git/info/exclude");
            layer.git = read(
                directory,
                exclude.into_iter().chain(files.git.then_some(GIT_FILE)),
            );
        }
        if self.honour.tool {
            let present = TOOL_FILES
                .iter()
                .zip(files.tools)
                .filter(|(_, present)| *present);
            layer.tool = read(directory, present.map(|(name, _)| *name));
        }
        self.layers.push(layer);
        true
    }

    /// The same for a directory without a listing.
    pub fn enter_unlisted(&mut self, directory: &str) {
        let repository = self.honour.git && fs::metadata(format!("{directory}/.git")).is_ok();
        self.enter(
            directory,
            &RuleFiles {
                git: true,
                repository,
                tools: [true; TOOL_FILES.len()],
            },
        );
    }

    pub fn leave(&mut self) {
        self.layers.pop();
    }

    /// Checks an entry of the directory that was entered last. Its parents have passed already.
    pub fn check(&self, path: &str, name: &str, is_directory: bool) -> IgnoreState {
        if name.starts_with('.') && HISTORIES.contains(&name) {
            return IgnoreState::History;
        }
        let innermost = || self.layers.iter().rev();
        let ignored_by = |rules: &Gitignore| match rules.matched(path, is_directory) {
            Match::None => None,
            Match::Ignore(_) => Some(true),
            Match::Whitelist(_) => Some(false),
        };
        if let Some(ignored) = innermost().find_map(|layer| ignored_by(layer.tool.as_ref()?)) {
            return if ignored {
                IgnoreState::Tool
            } else {
                IgnoreState::Keep
            };
        }
        if self.honour.tool && is_directory && DEPENDENCIES.contains(&name) {
            return IgnoreState::Tool;
        }
        for layer in innermost() {
            match layer.git.as_ref().and_then(ignored_by) {
                Some(true) => return IgnoreState::Git,
                Some(false) => return IgnoreState::Keep,
                None if layer.repository => return IgnoreState::Keep,
                None => {}
            }
        }
        IgnoreState::Keep
    }
}

/// All rules of the named files in ascending precedence. Invalid lines are skipped, like in git.
fn read<'a>(directory: &str, names: impl Iterator<Item = &'a str>) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new(directory);
    for name in names {
        let Ok(text) = fs::read(format!("{directory}/{name}")) else {
            continue;
        };
        for line in String::from_utf8_lossy(&text)
            .trim_start_matches('\u{feff}')
            .lines()
        {
            let _ = builder.add_line(None, line);
        }
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}
