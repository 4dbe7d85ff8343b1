//! Collection of matches within the limits of a result; the rest is counted.

use std::cmp::Reverse;
use std::ops::{ControlFlow, Range};

use toolhost_sdk::prelude::*;

use super::files::{Loaded, Skip};
use super::match_stream::MatchStream;
use super::search::{GrepResults, MatchingFile};
use super::{FileMatches, Input, LineMatch, OutputMode};
use crate::disk::File;
use crate::query::Query;
use crate::reader::{BinaryHandling, ReadOptions, Reader, Window, looks_binary};
use crate::result_limit::MOST_CHARS;
use crate::scan::{self, LineCounter, MatchedLine, MatchedLines, UnmatchedLines};
use crate::search_path::SearchPath;
use crate::time_limit::SearchClock;

/// Characters around a line in a result: number, colon, line end.
const FRAME_CHARS: usize = 8;

pub struct Collector<'a> {
    input: &'a Input,
    query: &'a Query,
    pub live: MatchStream<'a>,
    /// Files that turned out to be binary after a match.
    pub binary: u64,
    lines: LineBudget,
    open: OpenFile,
}

/// The file whose windows are being searched.
#[derive(Default)]
struct OpenFile {
    /// Set after the first match.
    file: Option<FileMatches>,
    /// For a file with several windows, determined by the first one.
    looks_binary: bool,
}

/// Which lines of `content` are kept.
struct LineBudget {
    before: usize,
    after: usize,
    /// Lines still to skip for `offset`.
    skip: u64,
    shown: u32,
    chars: usize,
}

impl LineBudget {
    fn new(input: &Input, before: usize, after: usize) -> Self {
        Self {
            before,
            after,
            skip: input.offset.into(),
            shown: 0,
            chars: 0,
        }
    }

    /// Collects the matches of one window; returns whether a match was not kept.
    fn of(
        &mut self,
        input: &Input,
        window: &Window<'_>,
        file: &mut FileMatches,
        spots: impl Iterator<Item = MatchedLine>,
    ) -> bool {
        let mut left_out = false;
        let mut count = 0;
        let mut counter = LineCounter::new(window);
        for spot in spots {
            count += 1;
            if self.takes(input, file.matches.len()) {
                let found = self.line(&mut counter, window.text, &spot);
                if file.matches.is_empty() {
                    self.chars += file.path.chars().count() + FRAME_CHARS;
                }
                self.chars += chars(&found);
                // A single line may exceed the limit and is still shown.
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
        file.count = Some(file.count.unwrap_or(0) + count);
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

    fn line(&self, counter: &mut LineCounter<'_>, text: &[u8], spot: &MatchedLine) -> LineMatch {
        let show = |lines: Vec<Range<usize>>| {
            lines
                .iter()
                .map(|line| scan::show(text, line, line.start))
                .collect()
        };
        LineMatch {
            line: counter.line(spot.line.start),
            column: scan::column(text, &spot.line, spot.at) as u64 + 1,
            // A match over several lines contains their ends.
            text: scan::show(text, &spot.line, spot.at).replace("\r\n", "\n"),
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
            live: MatchStream::new(cx, input),
            binary: 0,
            lines: LineBudget::new(input, before, after),
            open: OpenFile::default(),
        }
    }

    /// Collects the matches of the next window.
    pub fn window(
        &mut self,
        findings: &mut GrepResults,
        loaded: &Loaded<'_>,
        is_slow: bool,
    ) -> ControlFlow<Skip> {
        let window = loaded.window;
        if window.is_first {
            self.open = OpenFile {
                file: None,
                looks_binary: !window.is_last && looks_binary(window.text),
            };
        }
        let mut spots = self.spots(window);
        let mut flow = ControlFlow::Continue(());
        if let Some(first) = spots.next() {
            let is_binary = self.open.looks_binary || window.is_first && looks_binary(window.text);
            if loaded.binary == BinaryHandling::Skip && is_binary {
                self.binary += 1;
                flow = ControlFlow::Break(Skip::File);
            } else {
                flow = self.take(findings, loaded, std::iter::once(first).chain(spots));
            }
        }
        if window.is_last || flow.is_break() {
            self.close(findings, Some(loaded.file));
        }
        self.live.tick(is_slow);
        flow
    }

    fn spots<'t>(&self, window: &Window<'t>) -> Box<dyn Iterator<Item = MatchedLine> + 't>
    where
        'a: 't,
    {
        if self.input.inverted() {
            Box::new(UnmatchedLines::new(self.query, window))
        } else {
            Box::new(MatchedLines::new(self.query, window))
        }
    }

    fn take(
        &mut self,
        findings: &mut GrepResults,
        loaded: &Loaded<'_>,
        spots: impl Iterator<Item = MatchedLine>,
    ) -> ControlFlow<Skip> {
        let file = self.open.file.get_or_insert_with(|| FileMatches {
            path: loaded.shown.to_owned(),
            count: None,
            matches: Vec::new(),
        });
        match self.input.output_mode {
            OutputMode::FilesWithMatches => return ControlFlow::Break(Skip::File),
            OutputMode::Count => file.count = Some(file.count.unwrap_or(0) + spots.count() as u64),
            OutputMode::Content => {
                findings.truncated |= self.lines.of(self.input, loaded.window, file, spots);
            }
        }
        ControlFlow::Continue(())
    }

    /// Keeps the matches of a file whose search was cut short by the time limit.
    pub fn finish(&mut self, findings: &mut GrepResults) {
        self.close(findings, None);
    }

    /// Completes a file that was searched completely or far enough.
    fn close(&mut self, findings: &mut GrepResults, opened: Option<&File>) {
        let Some(file) = self.open.file.take() else {
            return;
        };
        let nth = findings.total_files;
        findings.total_files += 1;
        findings.total_matches += file.count.unwrap_or(1);
        let (offset, limit) = (
            u64::from(self.input.offset),
            u64::from(self.input.head_limit),
        );
        match self.input.output_mode {
            OutputMode::FilesWithMatches => {
                self.live.show(&file);
                findings.newest.push(MatchingFile {
                    modified: Reverse(opened.and_then(File::modified)),
                    path: file.path,
                });
                let most = usize::try_from(offset + limit)
                    .unwrap_or(usize::MAX)
                    .min(MOST_SORTED);
                if findings.newest.len() > most {
                    findings.newest.pop();
                }
                return;
            }
            // The rest is only counted: a list of all files of a large tree would exceed the memory of a plugin.
            OutputMode::Count if nth < offset || nth - offset >= limit => return,
            OutputMode::Content if file.matches.is_empty() => return,
            OutputMode::Count | OutputMode::Content => {}
        }
        self.live.show(&file);
        findings.files.push(file);
    }

    /// Reads the few files with matches again for context.
    pub fn widen(
        &self,
        findings: &mut GrepResults,
        start: &SearchPath,
        around: usize,
        clock: &SearchClock<'_>,
    ) {
        let mut lines = LineBudget::new(self.input, around, around);
        let mut reader = Reader::default();
        let mut wider = Vec::new();
        let manner = ReadOptions {
            binary: BinaryHandling::Search,
            around: (around, around),
            whole: self.query.multiline,
        };
        for found in &findings.files {
            let mut file = FileMatches {
                path: found.path.clone(),
                count: None,
                matches: Vec::new(),
            };
            let mut left_out = false;
            let Ok(mut opened) = File::open(&start.absolute(&found.path)) else {
                return;
            };
            let read = reader.read(&mut opened, manner, &mut |_, window| {
                left_out |= lines.of(self.input, window, &mut file, self.spots(window));
                match clock.look() {
                    Some(_) => ControlFlow::Break(()),
                    None => ControlFlow::Continue(()),
                }
            });
            // If lines are too long, time is up or the file changed, the result stays without context.
            let is_read = read.is_ok_and(|(_, flow)| flow.is_continue());
            if !is_read || left_out || file.matches.is_empty() {
                return;
            }
            wider.push(file);
        }
        findings.files = wider;
    }
}

/// Limit of files sorted by time; the rest is only counted.
pub const MOST_SORTED: usize = 50_000;

/// Characters of a line and its context in a result.
fn chars(found: &LineMatch) -> usize {
    let around = found.before.iter().chain(&found.after);
    let lines = around.chain(std::iter::once(&found.text));
    lines.map(|line| line.chars().count() + FRAME_CHARS).sum()
}
