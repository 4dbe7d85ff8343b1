//! Directory traversal for the listing tools: filtering and order.

use std::cmp::Reverse;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use toolhost_sdk::prelude::*;

use crate::ignore_rules::{AppliedRules, IgnoreSource, Rules};
use crate::listing::{Entry, Ignored, Sort};
use crate::path::Target;
use crate::time::iso;

/// Limit of entries; reaching it is reported.
pub const MOST_ENTRIES: usize = 50_000;
pub const MOST_DEPTH: u32 = 56;
/// Listed, but not descended into, because recursive listings rarely want them.
pub const NOT_DESCENDED: &[&str] = &["node_modules", ".git", "bower_components", ".svn", ".hg"];

/// A traversal in progress.
pub struct Walk<'a> {
    pub cx: &'a Context,
    pub top: &'a Target,
    /// The directory that names and globs are relative to: `top` or one above it.
    pub base: &'a Path,
    pub depth: u32,
    pub pattern: Option<GlobSet>,
    pub leave_out: GlobSet,
    pub show_hidden: bool,
    pub rules: Rules,
    /// Names of directories that are listed but not descended into.
    pub not_descended: &'a [&'a str],
    pub found: Vec<WalkEntry>,
    pub ignored: Ignored,
    /// Directories that could not be read.
    pub unread: usize,
    pub is_complete: bool,
}

/// An entry with only its name and kind known.
pub struct WalkEntry {
    /// Relative to the base of the traversal.
    pub name: String,
    pub path: PathBuf,
    pub is_dir: bool,
    pub is_symlink: bool,
}

impl<'a> Walk<'a> {
    /// A traversal of everything below `top`.
    pub fn below(cx: &'a Context, top: &'a Target, respect: AppliedRules) -> Self {
        Self {
            cx,
            top,
            base: &top.path,
            depth: MOST_DEPTH,
            pattern: None,
            leave_out: GlobSet::empty(),
            show_hidden: true,
            rules: Rules::above(&top.root, &top.path, respect),
            not_descended: NOT_DESCENDED,
            found: Vec::new(),
            ignored: Ignored::default(),
            unread: 0,
            is_complete: true,
        }
    }

    /// Visits `dir`, at depth `level`, and everything below it.
    pub fn directory(&mut self, dir: &Path, level: u32) -> Result<()> {
        self.cx.check()?;
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) if level == 1 => return Err(self.top.error(&error)),
            // Below the top, an unreadable directory must not hide the rest.
            Err(_) => {
                self.unread += 1;
                return Ok(());
            }
        };
        let mut below = Vec::new();
        for entry in entries.flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let is_hidden = !self.show_hidden && name.to_string_lossy().starts_with('.');
            let relative = path.strip_prefix(self.base).unwrap_or(&path).to_path_buf();
            if is_hidden || self.leave_out.is_match(&relative) {
                continue;
            }
            match self.rules.ignored_by(&path, kind.is_dir()) {
                Some(IgnoreSource::Git) => self.ignored.git += 1,
                Some(IgnoreSource::Tool) => self.ignored.tool += 1,
                None => {
                    if kind.is_dir()
                        && level < self.depth
                        && !self.not_descended.iter().any(|closed| name == *closed)
                    {
                        below.push(path.clone());
                    }
                    if self
                        .pattern
                        .as_ref()
                        .is_none_or(|pattern| pattern.is_match(&relative))
                    {
                        if self.found.len() == MOST_ENTRIES {
                            self.is_complete = false;
                            return Ok(());
                        }
                        self.found.push(WalkEntry {
                            name: relative.to_string_lossy().into_owned(),
                            path,
                            is_dir: kind.is_dir(),
                            is_symlink: kind.is_symlink(),
                        });
                    }
                }
            }
        }
        for dir in below {
            self.rules.enter(&dir);
            self.directory(&dir, level + 1)?;
        }
        Ok(())
    }
}

impl WalkEntry {
    /// Queries the metadata that a listing shows.
    pub fn entry(self) -> Entry {
        let metadata = fs::symlink_metadata(&self.path).ok();
        let size = metadata.as_ref().map_or(
            0,
            |metadata| if metadata.is_dir() { 0 } else { metadata.len() },
        );
        let modified = metadata
            .and_then(|metadata| metadata.modified().ok())
            .and_then(iso);
        let target = self
            .is_symlink
            .then(|| fs::read_link(&self.path).ok())
            .flatten();
        Entry {
            name: self.name,
            path: self.path.display().to_string(),
            is_dir: self.is_dir,
            size,
            modified,
            is_symlink: self.is_symlink,
            target: target.map(|target| target.display().to_string()),
        }
    }
}

pub fn order(found: &mut [WalkEntry], sort: Sort) {
    let by_name = |a: &WalkEntry, b: &WalkEntry| a.name.cmp(&b.name);
    match sort {
        Sort::Name => found.sort_by(by_name),
        Sort::Type => found.sort_by(|a, b| b.is_dir.cmp(&a.is_dir).then_with(|| by_name(a, b))),
        Sort::Size => {
            largest_first(
                found,
                |metadata| if metadata.is_dir() { 0 } else { metadata.len() },
            );
        }
        Sort::Mtime => {
            largest_first(found, |metadata| metadata.modified().ok());
        }
    }
}

fn largest_first<T: Ord>(found: &mut [WalkEntry], key: impl Fn(&Metadata) -> T) {
    found.sort_by_cached_key(|entry| {
        let metadata = fs::symlink_metadata(&entry.path).ok();
        (Reverse(metadata.as_ref().map(&key)), entry.name.clone())
    });
}

/// A glob without `/` matches names at any depth.
pub fn globs(patterns: &[String]) -> Result<GlobSet> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let anywhere = if pattern.contains('/') {
            pattern.trim_start_matches("./").to_owned()
        } else {
            format!("**/{pattern}")
        };
        let glob = GlobBuilder::new(&anywhere)
            .literal_separator(true)
            .build()
            .map_err(|error| {
                Error::invalid_input(format!("`{pattern}` is not a valid glob: {}", error.kind()))
                    .code("invalid_glob")
            })?;
        set.add(glob);
    }
    set.build().map_err(|error| {
        Error::invalid_input(format!("these globs cannot be used: {error}")).code("invalid_glob")
    })
}
