//! Ignore rules of `.gitignore` and related files, read per directory.

use std::fs;
use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use toolhost_sdk::prelude::*;

use crate::path::Target;

/// A larger file is ignored.
const MOST_BYTES: u64 = 1 << 20;
const GIT: &[&str] = &[".gitignore", ".ignore"];
/// The last two are the names that other agents use.
const TOOL: &[&str] = &[".toolignore", ".geminiignore", ".aiexclude"];

/// The kind of rule that ignores a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IgnoreSource {
    Git,
    Tool,
}

/// The rules of all directories from the workspace root to the current directory of a traversal.
pub struct Rules {
    respect: AppliedRules,
    levels: Vec<Level>,
}

/// Which rules apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppliedRules {
    pub git: bool,
    pub tool: bool,
}

struct Level {
    dir: PathBuf,
    git: Gitignore,
    tool: Gitignore,
}

impl Rules {
    /// The rules that apply in `dir`, which is `root` or below it.
    pub fn above(root: &Path, dir: &Path, respect: AppliedRules) -> Self {
        let mut rules = Self {
            respect,
            levels: Vec::new(),
        };
        let mut dirs: Vec<&Path> = dir
            .ancestors()
            .take_while(|dir| dir.starts_with(root))
            .collect();
        dirs.reverse();
        for dir in dirs {
            rules.enter(dir);
        }
        rules
    }

    /// Adds the rules of `dir`, after dropping those of directories that do not contain it.
    pub fn enter(&mut self, dir: &Path) {
        self.levels.retain(|level| dir.starts_with(&level.dir));
        let mut git = GitignoreBuilder::new(dir);
        if self.respect.git {
            add(&mut git, dir, GIT);
            if self.levels.is_empty() {
                add(&mut git, dir, &[".git/info/exclude"]);
            }
        }
        let mut tool = GitignoreBuilder::new(dir);
        if self.respect.tool {
            add(&mut tool, dir, TOOL);
        }
        // Invalid patterns are skipped, like in git.
        let build =
            |builder: GitignoreBuilder| builder.build().unwrap_or_else(|_| Gitignore::empty());
        let (git, tool) = (build(git), build(tool));
        if !git.is_empty() || !tool.is_empty() {
            self.levels.push(Level {
                dir: dir.to_owned(),
                git,
                tool,
            });
        }
    }

    /// The kind of rule that hides `path`, if any. The innermost rule wins.
    pub fn ignored_by(&self, path: &Path, is_dir: bool) -> Option<IgnoreSource> {
        let by = |rules: fn(&Level) -> &Gitignore| {
            self.levels
                .iter()
                .rev()
                .find_map(|level| match rules(level).matched(path, is_dir) {
                    Match::None => None,
                    Match::Ignore(_) => Some(true),
                    Match::Whitelist(_) => Some(false),
                })
        };
        if by(|level| &level.tool) == Some(true) {
            Some(IgnoreSource::Tool)
        } else if by(|level| &level.git) == Some(true) {
            Some(IgnoreSource::Git)
        } else {
            None
        }
    }
}

/// Refuses to read files excluded for tools. Files ignored by git can be read by name.
pub fn check_readable(target: &Target) -> Result<()> {
    let dir = target.path.parent().unwrap_or(&target.root);
    let respect = AppliedRules {
        git: false,
        tool: true,
    };
    let rules = Rules::above(&target.root, dir, respect);
    let hidden = target
        .path
        .ancestors()
        .take_while(|path| path.starts_with(&target.root) && *path != target.root)
        .any(|path| rules.ignored_by(path, path != target.path).is_some());
    if hidden {
        return Err(target
            .denied("is excluded by a `.toolignore`, `.geminiignore` or `.aiexclude` file")
            .recommend("continue without it, or ask the user to remove it from that file"));
    }
    Ok(())
}

fn add(builder: &mut GitignoreBuilder, dir: &Path, names: &[&str]) {
    for name in names {
        let path = dir.join(name);
        let is_small = fs::metadata(&path)
            .is_ok_and(|metadata| metadata.is_file() && metadata.len() <= MOST_BYTES);
        if let Some(text) = is_small.then(|| fs::read_to_string(&path).ok()).flatten() {
            for line in text.lines() {
                // One invalid line must not invalidate the others.
                drop(builder.add_line(None, line));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Workspace;

    fn check(git: bool, path: &str, is_dir: bool, expected: Option<IgnoreSource>) {
        let workspace = Workspace::new(&[
            (".gitignore", "*.log\n/target/\n!keep.log\n[bad\n"),
            (".git/info/exclude", "private\n"),
            (".toolignore", "secrets/\n"),
            ("sub/.gitignore", "!wanted.log\n/only-here\n"),
        ]);
        let path = workspace.path(path);
        let respect = AppliedRules { git, tool: true };
        let rules = Rules::above(&workspace.path(""), path.parent().unwrap(), respect);
        assert_eq!(
            rules.ignored_by(&path, is_dir),
            expected,
            "{}",
            path.display()
        );
    }

    #[test]
    fn rules_of_git() {
        check(true, "a.log", false, Some(IgnoreSource::Git));
        check(true, "sub/a.log", false, Some(IgnoreSource::Git));
        check(true, "target", true, Some(IgnoreSource::Git));
        check(true, "sub/target", true, None);
        check(true, "private", false, Some(IgnoreSource::Git));
        check(true, "a.txt", false, None);
    }

    #[test]
    fn the_innermost_rule_wins() {
        check(true, "keep.log", false, None);
        check(true, "sub/wanted.log", false, None);
        check(true, "sub/only-here", false, Some(IgnoreSource::Git));
    }

    #[test]
    fn rules_of_git_can_be_left_out_and_those_for_tools_not() {
        check(false, "a.log", false, None);
        check(false, "secrets", true, Some(IgnoreSource::Tool));
        check(true, "secrets", true, Some(IgnoreSource::Tool));
    }

    #[test]
    fn what_tools_may_not_read_is_the_innermost_rule_of_any_of_three_files() {
        let workspace = Workspace::new(&[
            (".gitignore", "*.log\n"),
            (".toolignore", "secrets/\n"),
            ("sub/.geminiignore", "*.key\n!public.key\n"),
            ("sub/.aiexclude", "notes\n"),
        ]);
        for (path, readable) in [
            ("a.log", true),
            ("secrets/deep/a.txt", false),
            ("sub/a.key", false),
            ("sub/public.key", true),
            ("sub/notes", false),
            ("a.key", true),
        ] {
            let target = crate::path::resolve(&workspace.cx(), path).unwrap();
            assert_eq!(check_readable(&target).is_ok(), readable, "{path}");
        }
    }
}
