//! Streaming of matches to the user during the search. It does not affect the result.

use toolhost_sdk::prelude::*;

use super::{FileMatches, Input, OutputMode, rendering};

/// Minimum size of a chunk, unless no more matches follow; each chunk is a host event.
const PIECE: usize = 4096;
/// A smaller chunk waits for more during this many searched files.
const FILES: u32 = 64;

pub struct MatchStream<'a> {
    cx: &'a Context,
    input: &'a Input,
    waiting: String,
    /// Files searched since the last match.
    files: u32,
    /// Matching files that were shown.
    taken: u32,
    has_begun: bool,
}

impl<'a> MatchStream<'a> {
    pub fn new(cx: &'a Context, input: &'a Input) -> Self {
        Self {
            cx,
            input,
            waiting: String::new(),
            files: 0,
            taken: 0,
            has_begun: false,
        }
    }

    /// Counts a searched file.
    pub fn tick(&mut self, is_slow: bool) {
        self.files += 1;
        let due = self.waiting.len() >= PIECE || self.files >= FILES && !self.waiting.is_empty();
        if due && self.input.stream.unwrap_or(is_slow) {
            self.flush();
        }
    }

    /// Shows the matches of the last searched file.
    pub fn show(&mut self, file: &FileMatches) {
        if self.input.stream == Some(false) || self.taken >= self.input.head_limit {
            return;
        }
        self.files = 0;
        self.taken += 1;
        self.waiting.push_str(&match self.input.output_mode {
            OutputMode::FilesWithMatches | OutputMode::Count => rendering::line(self.input, file),
            OutputMode::Content => rendering::content(self.input, std::iter::once(file)),
        });
        self.waiting.push('\n');
    }

    /// Ends the stream; a stream that was started is completed.
    pub fn end(&mut self) {
        let wanted = self.input.stream == Some(true) || self.has_begun;
        if wanted && !self.waiting.is_empty() {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.cx.output("stdout", &self.waiting);
        self.waiting.clear();
        self.files = 0;
        self.has_begun = true;
    }
}
