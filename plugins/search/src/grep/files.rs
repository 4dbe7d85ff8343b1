//! Which files are searched, and how each of them gets into memory.

use std::ops::ControlFlow;

use ignore::types::Types;
use toolhost_sdk::prelude::*;

use super::Input;
use crate::clock::{Clock, Stop};
use crate::disk::{File, Kind};
use crate::names::{self, Case, Names};
use crate::place::Place;
use crate::reader::{Binary, Content, Reader};
use crate::rules::Honour;
use crate::walk::{Entry, Options, Tally, walk};

/// Searches one file.
pub type Search<'a> = dyn FnMut(&Loaded<'_>) -> ControlFlow<Stop> + 'a;

/// A file in memory.
pub struct Loaded<'a> {
    pub shown: &'a str,
    pub text: &'a [u8],
    pub binary: Binary,
    pub file: &'a File,
}

/// What was searched and what was not.
#[derive(Clone, Copy, Default)]
pub struct Searched {
    pub files: u64,
    pub binary: u64,
    /// Files of which only the beginning was searched.
    pub shortened: u64,
    pub tally: Tally,
}

/// Which files are searched, by their names.
pub struct Filter {
    only: Option<Names>,
    never: Names,
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
                .map(|glob| Names::wanted([glob], Case::Sensitive))
                .transpose()?,
            never: Names::unwanted(never, Case::Sensitive)?,
            types: input
                .file_type
                .as_deref()
                .map(names::file_type)
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

/// The files of a search, which can be gone over more than once.
pub struct Files<'a> {
    pub start: &'a Place,
    pub is_file: bool,
    pub filter: &'a Filter,
}

impl Files<'_> {
    pub fn each(
        &self,
        honour: Honour,
        clock: &Clock<'_>,
        search: &mut Search<'_>,
    ) -> Result<(Searched, ControlFlow<Stop>)> {
        let mut visits = Visits {
            reader: Reader::default(),
            searched: Searched::default(),
            search,
        };
        if self.is_file {
            // A file that is named is searched, whatever it is.
            let file = File::open(self.start.path());
            let flow = visits.file(file, Binary::Search, self.start.shown());
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
                visits.file(entry.dir.file(entry.name), Binary::Skip, entry.shown)
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

    fn failed(&self, what: &str, why: &str) -> Error {
        Error::failed(format!("cannot {what} `{}`: {why}", self.start.shown()))
            .code("grep_execution_error")
            .recommend("name another file or directory in `path`")
    }
}

struct Visits<'a, 's> {
    reader: Reader,
    searched: Searched,
    search: &'a mut Search<'s>,
}

impl Visits<'_, '_> {
    /// Reads one file and has it searched. A file that cannot be read is counted, and is no reason to stop.
    fn file(
        &mut self,
        file: std::io::Result<File>,
        binary: Binary,
        shown: &str,
    ) -> ControlFlow<Stop> {
        let searched = &mut self.searched;
        let Ok(mut file) = file else {
            searched.tally.unreadable += 1;
            return ControlFlow::Continue(());
        };
        let text = match self.reader.read(&mut file, binary) {
            Ok(Content::Text(text)) => text,
            Ok(Content::Beginning(text)) => {
                searched.shortened += 1;
                text
            }
            Ok(Content::Binary) => {
                searched.binary += 1;
                return ControlFlow::Continue(());
            }
            Err(_) => {
                searched.tally.unreadable += 1;
                return ControlFlow::Continue(());
            }
        };
        searched.files += 1;
        (self.search)(&Loaded {
            shown,
            text,
            binary,
            file: &file,
        })
    }
}
