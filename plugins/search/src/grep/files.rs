//! Selection and reading of the files to search.

use std::ops::ControlFlow;

use ignore::types::Types;
use toolhost_sdk::prelude::*;

use super::Input;
use crate::disk::{File, Kind};
use crate::glob_set::{self, Case, NameGlobs};
use crate::ignore_rules::AppliedRules;
use crate::reader::{BinaryHandling, ReadExtent, ReadOptions, Reader, Window};
use crate::search_path::SearchPath;
use crate::time_limit::{SearchClock, StopReason};
use crate::walk::{Entry, Options, SkipCounts, walk};

/// Searches one window of a file.
pub type Search<'a> = dyn FnMut(&Loaded<'_>) -> ControlFlow<Skip> + 'a;

/// What to skip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    /// The rest of this file.
    File,
    /// Everything.
    All(StopReason),
}

/// A window of a file in memory.
pub struct Loaded<'a> {
    pub shown: &'a str,
    pub window: &'a Window<'a>,
    pub binary: BinaryHandling,
    pub file: &'a File,
}

/// Limit of file names in a note.
const MOST_NAMED: usize = 3;

/// What was searched and what was skipped.
#[derive(Clone, Default)]
pub struct SearchStats {
    pub files: u64,
    pub binary: u64,
    /// Number of files of which only the beginning was searched.
    pub shortened: u64,
    /// The first few of them.
    pub shortened_names: Vec<String>,
    pub tally: SkipCounts,
}

/// Selects files by name.
pub struct Filter {
    only: Option<NameGlobs>,
    never: NameGlobs,
    types: Option<Types>,
}

impl Filter {
    pub fn new(input: &Input) -> Result<Self> {
        let glob = input.glob.as_deref().filter(|glob| !glob.is_empty());
        let turned = glob.and_then(|glob| glob.strip_prefix('!'));
        let only = if turned.is_some() { None } else { glob };
        let never = input.exclude.iter().map(String::as_str).chain(turned);
        Ok(Self {
            only: only
                .map(|glob| NameGlobs::wanted([glob], Case::Sensitive))
                .transpose()?,
            never: NameGlobs::unwanted(never, Case::Sensitive)?,
            types: input
                .file_type
                .as_deref()
                .map(glob_set::file_type)
                .transpose()?,
        })
    }

    fn wants(&self, file: &Entry<'_>) -> bool {
        self.only.as_ref().is_none_or(|only| only.matches(file))
            && self
                .types
                .as_ref()
                .is_none_or(|types| types.matched(file.name, false).is_whitelist())
    }
}

/// The files of a search, which can be traversed more than once.
pub struct Files<'a> {
    pub start: &'a SearchPath,
    pub is_file: bool,
    pub filter: &'a Filter,
    /// Lines of context above and below a match.
    pub around: (usize, usize),
    /// Matches may span lines.
    pub multiline: bool,
}

impl Files<'_> {
    pub fn each(
        &self,
        honour: AppliedRules,
        clock: &SearchClock<'_>,
        search: &mut Search<'_>,
    ) -> Result<(SearchStats, ControlFlow<StopReason>)> {
        let mut visits = FileVisitor {
            reader: Reader::default(),
            searched: SearchStats::default(),
            search,
            clock,
            around: self.around,
            multiline: self.multiline,
        };
        if self.is_file {
            // A file named by `path` is always searched.
            let file = File::open(self.start.path());
            let flow = visits.file(file, BinaryHandling::Search, self.start.shown());
            return if visits.searched.tally.unreadable > 0 {
                Err(self.failed("read", "it cannot be opened or read"))
            } else {
                Ok((visits.searched, flow))
            };
        }
        let excluded = |entry: &Entry<'_>| self.filter.never.matches(entry);
        let options = Options {
            honour,
            dot: true,
            depth: usize::MAX,
            excluded: &excluded,
        };
        let walked = walk(self.start, &options, clock, &mut |entry| {
            if entry.kind == Kind::File && self.filter.wants(entry) {
                visits.file(
                    entry.dir.file(entry.name),
                    BinaryHandling::Skip,
                    entry.shown,
                )
            } else {
                ControlFlow::Continue(())
            }
        });
        let (tally, flow) = walked.map_err(|error| self.failed("list", &error.to_string()))?;
        let mut searched = visits.searched;
        searched.tally.git = tally.git;
        searched.tally.tool = tally.tool;
        searched.tally.unreadable += tally.unreadable;
        Ok((searched, flow))
    }

    fn failed(&self, operation: &str, why: &str) -> Error {
        Error::failed(format!(
            "cannot {operation} `{}`: {why}",
            self.start.shown()
        ))
        .code("grep_execution_error")
        .recommend("set `path` to another file or directory")
    }
}

struct FileVisitor<'a, 's, 'c> {
    reader: Reader,
    searched: SearchStats,
    search: &'a mut Search<'s>,
    clock: &'a SearchClock<'c>,
    around: (usize, usize),
    multiline: bool,
}

impl FileVisitor<'_, '_, '_> {
    /// Reads and searches one file. Unreadable files are counted and skipped.
    fn file(
        &mut self,
        file: std::io::Result<File>,
        binary: BinaryHandling,
        shown: &str,
    ) -> ControlFlow<StopReason> {
        let searched = &mut self.searched;
        let Ok(mut file) = file else {
            searched.tally.unreadable += 1;
            return ControlFlow::Continue(());
        };
        let manner = ReadOptions {
            binary,
            around: self.around,
            whole: self.multiline,
        };
        let (search, clock) = (&mut *self.search, self.clock);
        let read = self.reader.read(&mut file, manner, &mut |file, window| {
            // A large file takes as long as many small ones.
            if !window.is_first
                && let Some(stop) = clock.look()
            {
                return ControlFlow::Break(Skip::All(stop));
            }
            search(&Loaded {
                shown,
                window,
                binary,
                file,
            })
        });
        let Ok((extent, flow)) = read else {
            searched.tally.unreadable += 1;
            return ControlFlow::Continue(());
        };
        match extent {
            ReadExtent::Binary => {
                searched.binary += 1;
                return ControlFlow::Continue(());
            }
            ReadExtent::Beginning => {
                searched.shortened += 1;
                if searched.shortened_names.len() < MOST_NAMED {
                    searched.shortened_names.push(shown.to_owned());
                }
            }
            ReadExtent::All => {}
        }
        searched.files += 1;
        match flow {
            ControlFlow::Break(Skip::All(stop)) => ControlFlow::Break(stop),
            ControlFlow::Break(Skip::File) | ControlFlow::Continue(()) => ControlFlow::Continue(()),
        }
    }
}
