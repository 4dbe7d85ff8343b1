//! Takes of each file's matches what the answer shows, and only counts the rest.

use std::ops::{ControlFlow, Range};

use toolhost_sdk::prelude::*;

use super::files::Loaded;
use super::live::Live;
use super::search::{Findings, Found};
use super::{FileMatches, Input, LineMatch, OutputMode};
use crate::budget::MOST_CHARS;
use crate::clock::Stop;
use crate::disk::File;
use crate::place::Place;
use crate::query::Query;
use crate::reader::{Binary, Content, Reader, looks_binary};
use crate::scan::{self, Counter, Others, Spot, Spots};

/// What a line of an answer has around its text: its number, a colon, a line end.
const FRAME_CHARS: usize = 8;

pub struct Collector<'a> {
    input: &'a Input,
    query: &'a Query,
    pub live: Live<'a>,
    /// Files that turned out to be no text when something in them matched.
    pub binary: u64,
    lines: Lines,
}

/// Which lines of `content` are taken.
struct Lines {
    before: usize,
    after: usize,
    /// Still to be left out because of `offset`.
    skip: u64,
    shown: u32,
    chars: usize,
}

impl Lines {
    fn new(input: &Input, before: usize, after: usize) -> Self {
        Self {
            before,
            after,
            skip: input.offset.into(),
            shown: 0,
            chars: 0,
        }
    }

    /// What matches in one text; says whether something would have been shown and was not.
    fn of(
        &mut self,
        input: &Input,
        text: &[u8],
        file: &mut FileMatches,
        spots: impl Iterator<Item = Spot>,
    ) -> bool {
        let mut left_out = false;
        let mut count = 0;
        let mut counter = Counter::new(text);
        for spot in spots {
            count += 1;
            if self.takes(input, file.matches.len()) {
                let found = self.line(&mut counter, text, &spot);
                if file.matches.is_empty() {
                    self.chars += file.path.chars().count() + FRAME_CHARS;
                }
                self.chars += chars(&found);
                // One line may be too much by itself and is shown all the same.
                if self.chars > MOST_CHARS && self.shown > 0 {
                    left_out = true;
                } else {
                    self.shown += 1;
                    file.matches.push(found);
                }
            } else {
                left_out |= self.skip == 0;
            }
            self.skip = self.skip.saturating_sub(1);
        }
        file.count = Some(count);
        left_out
    }

    fn takes(&self, input: &Input, of_this_file: usize) -> bool {
        self.skip == 0
            && self.shown < input.head_limit
            && self.chars <= MOST_CHARS
            && input
                .max_per_file
                .is_none_or(|most| of_this_file < most as usize)
    }

    fn line(&self, counter: &mut Counter<'_>, text: &[u8], spot: &Spot) -> LineMatch {
        let show = |lines: Vec<Range<usize>>| {
            lines
                .iter()
                .map(|line| scan::show(text, line, line.start))
                .collect()
        };
        LineMatch {
            line: counter.line(spot.line.start),
            column: scan::column(text, &spot.line, spot.at) as u64 + 1,
            text: scan::show(text, &spot.line, spot.at),
            before: show(scan::lines_above(text, spot.line.start, self.before)),
            after: show(scan::lines_below(text, spot.line.end, self.after)),
        }
    }
}

impl<'a> Collector<'a> {
    pub fn new(cx: &'a Context, input: &'a Input, query: &'a Query) -> Self {
        let (before, after) = input.around().unwrap_or((0, 0));
        Self {
            input,
            query,
            live: Live::new(cx, input),
            binary: 0,
            lines: Lines::new(input, before, after),
        }
    }

    pub fn file(
        &mut self,
        findings: &mut Findings,
        file: &Loaded<'_>,
        is_slow: bool,
    ) -> ControlFlow<Stop> {
        let mut spots = self.spots(file.text);
        if let Some(first) = spots.next() {
            if file.binary == Binary::Skip && looks_binary(file.text) {
                self.binary += 1;
            } else {
                self.take(findings, file, std::iter::once(first).chain(spots));
            }
        }
        self.live.tick(is_slow);
        ControlFlow::Continue(())
    }

    fn spots<'t>(&self, text: &'t [u8]) -> Box<dyn Iterator<Item = Spot> + 't>
    where
        'a: 't,
    {
        if self.input.inverted() {
            Box::new(Others::new(self.query, text))
        } else {
            Box::new(Spots::new(self.query, text))
        }
    }

    fn take(
        &mut self,
        findings: &mut Findings,
        text: &Loaded<'_>,
        spots: impl Iterator<Item = Spot>,
    ) {
        let mut file = FileMatches {
            path: text.shown.to_owned(),
            count: None,
            matches: Vec::new(),
        };
        let mut modified = None;
        findings.total_files += 1;
        match self.input.output_mode {
            OutputMode::FilesWithMatches => {
                findings.total_matches += 1;
                modified = text.file.modified();
            }
            OutputMode::Count => {
                let count = spots.count() as u64;
                findings.total_matches += count;
                file.count = Some(count);
            }
            OutputMode::Content => {
                let left_out = self.lines.of(self.input, text.text, &mut file, spots);
                findings.truncated |= left_out;
                findings.total_matches += file.count.unwrap_or(0);
                if file.matches.is_empty() {
                    return;
                }
            }
        }
        self.live.show(&file);
        findings.files.push(Found { file, modified });
    }

    /// Goes back to the few files with a match for the lines around it.
    pub fn widen(&self, findings: &mut Findings, start: &Place, around: usize) {
        let mut lines = Lines::new(self.input, around, around);
        let mut reader = Reader::default();
        let mut wider = Vec::new();
        for found in &findings.files {
            let path = start.absolute(&found.file.path);
            let Ok(mut file) = File::open(&path) else {
                return;
            };
            let Ok(Content::Text(text) | Content::Beginning(text)) =
                reader.read(&mut file, Binary::Search)
            else {
                return;
            };
            let mut file = FileMatches {
                path: found.file.path.clone(),
                count: None,
                matches: Vec::new(),
            };
            // Too long lines, or a file that changed meanwhile: then the narrow answer stands.
            if lines.of(self.input, text, &mut file, self.spots(text)) || file.matches.is_empty() {
                return;
            }
            wider.push(Found {
                file,
                modified: None,
            });
        }
        findings.files = wider;
    }
}

/// What a line and those around it take of an answer.
fn chars(found: &LineMatch) -> usize {
    let around = found.before.iter().chain(&found.after);
    let lines = around.chain(std::iter::once(&found.text));
    lines.map(|line| line.chars().count() + FRAME_CHARS).sum()
}
