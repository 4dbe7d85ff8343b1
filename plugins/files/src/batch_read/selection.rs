//! Resolution of names, directories and globs to a list of files.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use globset::GlobSet;
use toolhost_sdk::prelude::*;

use crate::ignore_rules::AppliedRules;
use crate::listing::Ignored;
use crate::path::{Target, resolve};
use crate::walk::{MOST_DEPTH, Walk, WalkEntry, globs};

/// The file selection of a call.
pub struct FileSelection {
    pub include: Vec<String>,
    pub exclude: Vec<String>,
    pub recursive: bool,
    pub use_default_excludes: bool,
    pub respect: AppliedRules,
}

#[derive(Default)]
pub struct SelectedFiles {
    /// Each file once, in the order of the request; the matches of a directory or glob by name.
    pub files: Vec<SelectedFile>,
    pub skipped: Vec<SkippedFile>,
    pub ignored: Ignored,
    known: HashSet<PathBuf>,
}

pub struct SelectedFile {
    pub target: Target,
    /// Images and audio are read only if named or matched by a glob with their extension.
    pub is_explicit: bool,
}

pub struct SkippedFile {
    pub path: String,
    pub reason: String,
}

/// Selects the files of `selection`. Paths that are not found are reported and do not affect the others.
pub fn select(cx: &Context, selection: &FileSelection) -> Result<SelectedFiles> {
    let mut selected = SelectedFiles::default();
    for text in &selection.include {
        let found = selected.add(cx, selection, text);
        match found {
            Ok(()) => {}
            // An invalid glob and a cancelled call fail the whole call.
            Err(error) if error.code.as_deref() == Some("invalid_glob") => return Err(error),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
            Err(error) => selected.skipped.push(SkippedFile {
                path: text.clone(),
                reason: error.message().to_owned(),
            }),
        }
    }
    Ok(selected)
}

impl SelectedFiles {
    fn add(&mut self, cx: &Context, selection: &FileSelection, text: &str) -> Result<()> {
        let target = resolve(cx, text)?;
        match fs::metadata(&target.path) {
            Ok(metadata) if metadata.is_dir() => self.walk(cx, selection, text, &target, None),
            Ok(_) => {
                let leave_out = excluded(selection, &target)?;
                let relative = relative(&target.path, &target);
                if leave_out.is_match(relative) {
                    self.skipped.push(SkippedFile {
                        path: target.shown.clone(),
                        reason: "it is named by `exclude`".to_owned(),
                    });
                } else {
                    self.choose(target, true);
                }
                Ok(())
            }
            Err(_) if is_glob(&target.shown) => {
                let (start, rest) = split(&target.shown);
                let top = resolve(cx, start)?;
                self.walk(cx, selection, text, &top, Some(rest))
            }
            Err(error) => Err(target.error(&error)),
        }
    }

    /// Selects all files below `top`, or those that match `glob`.
    fn walk(
        &mut self,
        cx: &Context,
        selection: &FileSelection,
        by: &str,
        top: &Target,
        glob: Option<&str>,
    ) -> Result<()> {
        let start = relative(&top.path, top);
        let start = globset::escape(&start.to_string_lossy());
        // A glob without `/` stays unchanged and matches names at any depth.
        let full = |glob: &str| match by.contains('/') {
            true if start.is_empty() => format!("./{glob}"),
            true => format!("{start}/{glob}"),
            false => glob.to_owned(),
        };
        let levels = glob.map_or(0, |glob| glob.matches('/').count());
        let levels = u32::try_from(levels).unwrap_or(MOST_DEPTH);
        let mut walk = Walk {
            base: &top.root,
            pattern: glob.map(|glob| globs(&[full(glob)])).transpose()?,
            leave_out: excluded(selection, top)?,
            ..Walk::below(cx, top, selection.respect)
        };
        if !selection.recursive {
            walk.depth = levels + 1;
        }
        if !selection.use_default_excludes {
            walk.not_descended = &[];
        }
        walk.directory(&top.path, 1)?;
        let Walk {
            mut found,
            ignored,
            is_complete,
            ..
        } = walk;
        self.ignored.git += ignored.git;
        self.ignored.tool += ignored.tool;
        found.retain(|entry| !entry.is_dir);
        found.sort_by(|a, b| a.name.cmp(&b.name));
        if !is_complete {
            self.skipped.push(SkippedFile {
                path: by.to_owned(),
                reason: "it has more entries than the limit of one call".to_owned(),
            });
        }
        if found.is_empty() {
            self.skipped.push(SkippedFile {
                path: by.to_owned(),
                reason: "not found: no file matches".to_owned(),
            });
        }
        for WalkEntry { name, path, .. } in found {
            // A link may refer to a directory or be dangling.
            if fs::metadata(&path).is_ok_and(|metadata| metadata.is_file()) {
                let target = Target {
                    path,
                    shown: name,
                    root: top.root.clone(),
                    writable: top.writable,
                };
                let is_meant = has_extension(by, &target.path);
                self.choose(target, is_meant);
            }
        }
        Ok(())
    }

    fn choose(&mut self, target: Target, is_meant: bool) {
        if self.known.insert(target.path.clone()) {
            self.files.push(SelectedFile {
                target,
                is_explicit: is_meant,
            });
        }
    }
}

/// The globs of `exclude`, relative to the root that contains `target`.
fn excluded(selection: &FileSelection, target: &Target) -> Result<GlobSet> {
    let root = format!(
        "{}/",
        target.root.display().to_string().trim_end_matches('/')
    );
    let patterns: Vec<String> = selection
        .exclude
        .iter()
        .map(|pattern| {
            let pattern = pattern.strip_prefix(&root).unwrap_or(pattern);
            pattern.trim_end_matches('/').to_owned()
        })
        .collect();
    globs(&patterns)
}

fn relative<'a>(path: &'a Path, target: &Target) -> &'a Path {
    path.strip_prefix(&target.root).unwrap_or(path)
}

/// `docs/*.{png,jpg}` names the extension of `docs/logo.PNG`. A glob without wildcard such as `png` names a directory.
fn has_extension(glob: &str, path: &Path) -> bool {
    let Some(extension) = path.extension() else {
        return false;
    };
    let extension = extension.to_string_lossy().to_lowercase();
    is_glob(glob)
        && glob
            .to_lowercase()
            .split(|c: char| !c.is_alphanumeric())
            .any(|word| word == extension)
}

fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

/// Splits a glob into its fixed directory and the remaining pattern.
fn split(glob: &str) -> (&str, &str) {
    let meta = glob.find(['*', '?', '[', '{']).unwrap_or(glob.len());
    match glob[..meta].rfind('/') {
        Some(0) => ("/", &glob[1..]),
        Some(at) => (&glob[..at], &glob[at + 1..]),
        None => (".", glob),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_begins_below_its_last_plain_directory() {
        for (glob, expected) in [
            ("*.rs", (".", "*.rs")),
            ("src/**/*.rs", ("src", "**/*.rs")),
            ("a/b/{c,d}/e", ("a/b", "{c,d}/e")),
            ("/ws/a?.rs", ("/ws", "a?.rs")),
            ("/*", ("/", "*")),
            ("src/a*b/c", ("src", "a*b/c")),
        ] {
            assert_eq!(split(glob), expected, "{glob}");
        }
    }
}
