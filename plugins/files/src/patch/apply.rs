//! Application of the hunks of a patch to a text.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Range;

use super::section::{Hunk, Sign};
use crate::edit::find::Leniency;
use crate::edit::indentation::IndentMap;
use crate::edit::line_breaks::LineBreaks;
use crate::edit::lines::{self, Line};
use crate::edit::normalized_text;

/// A text with the hunks applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchedText {
    pub text: String,
    /// Line of the first hunk.
    pub line: usize,
    /// Every line matched exactly and in only one place.
    pub is_exact: bool,
}

/// Why a hunk could not be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HunkError {
    /// No lines match.
    Missing { hunk: usize, wanted: String },
    /// No line matches a context of the hunk.
    MissingContext { hunk: usize, context: String },
    /// The hunk does not state its position, and matches at each of these lines.
    Ambiguous { hunk: usize, lines: Vec<usize> },
    /// The lines are before the previous hunk.
    Behind { hunk: usize, line: usize },
}

/// Line comparisons, from strict to lenient.
const READINGS: [fn(&str) -> Cow<'_, str>; 4] = [
    |line| Cow::Borrowed(line),
    |line| Cow::Borrowed(line.trim_end()),
    |line| Cow::Borrowed(line.trim()),
    |line| normalized_text::read(line.trim(), normalized_text::plain),
];
/// From this reading on, the indentation differs from the file.
const MOVED: usize = 2;

pub fn apply(text: &str, hunks: &[Hunk], leniency: Leniency) -> Result<PatchedText, HunkError> {
    let file = FileLines::of(text);
    let mut writer = Writer {
        file: &file,
        text: String::with_capacity(text.len()),
        next: 0,
    };
    let mut patched = PatchedText {
        text: String::new(),
        line: 1,
        is_exact: true,
    };
    for (index, hunk) in hunks.iter().enumerate() {
        let (range, reading, is_only) = file.locate(hunk, index, writer.next, leniency)?;
        patched.is_exact &= reading == 0 && is_only;
        if index == 0 {
            patched.line = range.start + 1;
        }
        writer.hunk(hunk, range, reading);
    }
    writer.keep_until(file.lines.len());
    patched.text = writer.text;
    Ok(patched)
}

struct FileLines<'a> {
    text: &'a str,
    lines: Vec<Line>,
    breaks: LineBreaks,
    indices: [OnceCell<LineIndex<'a>>; READINGS.len()],
}

/// The lines of the file as numbers, equal for lines that read the same.
struct LineIndex<'a> {
    numbers: HashMap<Cow<'a, str>, usize>,
    lines: Vec<usize>,
}

impl<'a> FileLines<'a> {
    fn of(text: &'a str) -> Self {
        Self {
            text,
            lines: lines::split(text),
            breaks: LineBreaks::of(text),
            indices: [const { OnceCell::new() }; READINGS.len()],
        }
    }

    fn line(&self, index: usize) -> &'a str {
        &self.text[self.lines[index].start..self.lines[index].end]
    }

    fn index(&self, reading: usize) -> &LineIndex<'a> {
        self.indices[reading].get_or_init(|| {
            let mut numbers = HashMap::new();
            let lines = (0..self.lines.len()).map(|index| {
                let next = numbers.len();
                *numbers
                    .entry(READINGS[reading](self.line(index)))
                    .or_insert(next)
            });
            let lines = lines.collect();
            LineIndex { numbers, lines }
        })
    }

    /// The positions of `wanted`, starting at line `from`.
    fn positions(&self, wanted: &[&str], from: usize, reading: usize) -> Vec<Range<usize>> {
        let index = self.index(reading);
        let wanted: Option<Vec<usize>> = wanted
            .iter()
            .map(|line| index.numbers.get(&READINGS[reading](line)).copied())
            .collect();
        let Some(wanted) = wanted else {
            return Vec::new();
        };
        let found = lines::positions(&wanted, index.lines[from..].iter().copied());
        found
            .into_iter()
            .map(|range| range.start + from..range.end + from)
            .collect()
    }

    /// The lines that `hunk` matches, the reading that was needed, and whether the match is unique.
    fn locate(
        &self,
        hunk: &Hunk,
        number: usize,
        from: usize,
        leniency: Leniency,
    ) -> Result<(Range<usize>, usize, bool), HunkError> {
        let from = self.after_contexts(hunk, number, from)?;
        let old: Vec<&str> = hunk.old().map(without_cr).collect();
        if old.is_empty() {
            let at = match (hunk.hint, hunk.contexts.is_empty() || hunk.at_end) {
                (Some(hint), _) => hint.before.min(self.lines.len()).max(from),
                (None, false) => from,
                (None, true) => self.lines.len(),
            };
            return Ok((at..at, 0, true));
        }
        for reading in 0..READINGS.len() {
            let mut found = self.positions(&old, from, reading);
            found.retain(|range| self.is_allowed(&old, range, reading, leniency));
            if let Some(range) = self.choose(hunk, number, &found)? {
                return Ok((range.clone(), reading, found.len() == 1));
            }
        }
        if let Some(behind) = self.positions(&old, 0, 0).first() {
            return Err(HunkError::Behind {
                hunk: number,
                line: behind.start + 1,
            });
        }
        Err(HunkError::Missing {
            hunk: number,
            wanted: old.join("\n"),
        })
    }

    /// The first line after the contexts of `hunk`.
    fn after_contexts(&self, hunk: &Hunk, number: usize, from: usize) -> Result<usize, HunkError> {
        let first = |context: &str, from: usize| {
            let line = [without_cr(context)];
            (0..READINGS.len())
                .find_map(|reading| self.positions(&line, from, reading).into_iter().next())
        };
        hunk.contexts.iter().try_fold(from, |from, context| {
            first(context, from)
                .map(|range| range.end)
                .ok_or_else(|| match first(context, 0) {
                    Some(behind) => HunkError::Behind {
                        hunk: number,
                        line: behind.start + 1,
                    },
                    None => HunkError::MissingContext {
                        hunk: number,
                        context: context.clone(),
                    },
                })
        })
    }

    /// The position of `found` that `hunk` means: the nearest to its hint, the first after its contexts, or the only one.
    fn choose<'b>(
        &self,
        hunk: &Hunk,
        number: usize,
        found: &'b [Range<usize>],
    ) -> Result<Option<&'b Range<usize>>, HunkError> {
        if let Some(hint) = hunk.hint {
            let distance = |range: &&Range<usize>| range.start.abs_diff(hint.before);
            return Ok(found.iter().min_by_key(distance));
        }
        let last = found.last().filter(|_| hunk.at_end);
        if let Some(last) = last.filter(|range| range.end == self.lines.len()) {
            return Ok(Some(last));
        }
        if found.len() > 1 && hunk.contexts.is_empty() {
            return Err(HunkError::Ambiguous {
                hunk: number,
                lines: found.iter().map(|range| range.start + 1).collect(),
            });
        }
        Ok(found.first())
    }

    /// If white space is significant, lines may move only together.
    fn is_allowed(
        &self,
        old: &[&str],
        range: &Range<usize>,
        reading: usize,
        leniency: Leniency,
    ) -> bool {
        reading < MOVED || leniency == Leniency::Free || self.indents(old, range).is_consistent()
    }

    fn indents<'b>(&'b self, old: &[&'b str], range: &Range<usize>) -> IndentMap<'b> {
        let ours = range.clone().map(|index| self.line(index));
        IndentMap::of(old.iter().copied().zip(ours))
    }

    /// Whether the old lines of the hunk equal those of the file, including carriage returns.
    fn has_ends_of(&self, hunk: &Hunk, range: &Range<usize>) -> bool {
        let ours = range.clone().map(|index| {
            let Line { start, next, .. } = self.lines[index];
            let line = &self.text[start..next];
            line.strip_suffix('\n').unwrap_or(line)
        });
        !range.is_empty() && ours.eq(hunk.old())
    }

    fn ends_in_crlf(&self, index: usize) -> bool {
        let Line { end, next, .. } = self.lines[index];
        next - end == 2
    }
}

struct Writer<'a, 'b> {
    file: &'b FileLines<'a>,
    text: String,
    /// The first line of the file that was not processed.
    next: usize,
}

impl Writer<'_, '_> {
    fn keep_until(&mut self, line: usize) {
        if line > self.next {
            let range = self.file.lines[self.next].start..self.file.lines[line - 1].next;
            self.push_text(range);
            self.next = line;
        }
    }

    fn push_text(&mut self, range: Range<usize>) {
        self.break_line();
        self.text.push_str(&self.file.text[range]);
    }

    /// Ensures that the next text starts on a new line.
    fn break_line(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push_str(if self.file.breaks == LineBreaks::Crlf {
                "\r\n"
            } else {
                "\n"
            });
        }
    }

    fn hunk(&mut self, hunk: &Hunk, range: Range<usize>, reading: usize) {
        self.keep_until(range.start);
        let old: Vec<&str> = hunk.old().map(without_cr).collect();
        let indents = (reading >= MOVED).then(|| self.file.indents(&old, &range));
        // A hunk that shows the actual line endings is taken literally; any other adopts those of the file.
        let shows_cr = self.file.breaks == LineBreaks::None
            || self.file.has_ends_of(hunk, &range)
            || hunk.old().any(|line| line.ends_with('\r'));
        for (sign, line) in &hunk.lines {
            match sign {
                Sign::Keep => self.keep_until(self.next + 1),
                Sign::Remove => self.next += 1,
                Sign::Add => {
                    let is_crlf = if shows_cr {
                        line.ends_with('\r')
                    } else {
                        self.follows_crlf()
                    };
                    let line = without_cr(line);
                    self.break_line();
                    match &indents {
                        Some(indents) => self.text.push_str(&indents.apply(line)),
                        None => self.text.push_str(line),
                    }
                    self.text.push_str(if is_crlf { "\r\n" } else { "\n" });
                }
            }
        }
        if range.end == self.file.lines.len() {
            self.end(hunk, shows_cr);
        }
    }

    fn follows_crlf(&self) -> bool {
        match self.file.breaks {
            LineBreaks::None | LineBreaks::Lf => false,
            LineBreaks::Crlf => true,
            LineBreaks::Mixed => {
                let last = self.file.lines.len() - 1;
                self.file
                    .ends_in_crlf(self.next.saturating_sub(1).min(last))
            }
        }
    }

    /// Ends the last line of the file as the hunk states, or as before.
    fn end(&mut self, hunk: &Hunk, shows_cr: bool) {
        let was_unbroken = !self.file.text.is_empty() && !self.file.text.ends_with('\n');
        let is_unbroken = match (hunk.is_old_unbroken, hunk.is_new_unbroken) {
            (_, true) => true,
            (true, false) => false,
            (false, false) => was_unbroken,
        };
        if !is_unbroken {
            self.break_line();
        } else if self.text.ends_with('\n') {
            self.text.pop();
            // If the hunk shows carriage returns, one at the end of the file is part of the line.
            if !shows_cr && self.text.ends_with('\r') {
                self.text.pop();
            }
        }
    }
}

fn without_cr(line: &str) -> &str {
    line.strip_suffix('\r').unwrap_or(line)
}

#[cfg(test)]
mod tests;
