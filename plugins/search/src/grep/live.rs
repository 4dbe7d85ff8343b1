//! Shows matches while the search still runs, to whoever watches the call. The answer does not depend on it.

use toolhost_sdk::prelude::*;

use super::{FileMatches, Input, OutputMode, answer};

/// Pieces are at least so long, unless nothing else comes for a while: each is an event of the host's.
const PIECE: usize = 4096;
/// For so many searched files a shorter piece waits for more.
const FILES: u32 = 64;

pub struct Live<'a> {
    cx: &'a Context,
    input: &'a Input,
    waiting: String,
    /// Files that were searched since the last match.
    files: u32,
    /// Files with a match that were taken.
    taken: u32,
    has_begun: bool,
}

impl<'a> Live<'a> {
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

    /// Another file was searched.
    pub fn tick(&mut self, is_slow: bool) {
        self.files += 1;
        let due = self.waiting.len() >= PIECE || self.files >= FILES && !self.waiting.is_empty();
        if due && self.input.stream.unwrap_or(is_slow) {
            self.flush();
        }
    }

    /// What matches in the file that was searched last.
    pub fn show(&mut self, file: &FileMatches) {
        if self.input.stream == Some(false) || self.taken >= self.input.head_limit {
            return;
        }
        self.files = 0;
        self.taken += 1;
        self.waiting.push_str(&match self.input.output_mode {
            OutputMode::FilesWithMatches | OutputMode::Count => answer::line(self.input, file),
            OutputMode::Content => answer::content(self.input, std::iter::once(file)),
        });
        self.waiting.push('\n');
    }

    /// The search has ended. Whoever has seen the beginning sees the end too.
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
