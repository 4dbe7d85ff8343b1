//! The part of a text that one call shows, and its rendering for models.

use std::fmt::Write as _;

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::count;

/// Lines of a page, if the call sets no limit.
pub const LINES: usize = 2000;
/// Bytes of a page, including line numbers, if the call sets no limit. Clients truncate results or save them to a file:
/// Gemini CLI at 40 000 characters, Codex at about 40 000, Claude Code at 50 000 or 25 000 tokens.
pub const WINDOW: usize = 38_000;
/// Width of a line number.
const NUMBER_BYTES: usize = 9;
/// Limit of a page in bytes, except for a longer first line.
const MOST_BYTES: usize = 256 << 10;
/// A longer line is cut in the rendering.
pub const MOST_CHARS: usize = 2000;

/// Limit of the shown part of such a line.
const MOST_LINE_BYTES: usize = 4 * MOST_CHARS + 40;

/// The lines to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineRange {
    /// A number of lines, starting at a line counted from 1.
    From(usize, usize),
    /// A number of last lines.
    Last(usize),
    /// From a line on, as much as every client shows.
    Window(usize),
}

impl Default for LineRange {
    fn default() -> Self {
        Self::Window(1)
    }
}

/// The range parameters of a call.
#[derive(Debug, Clone, Copy, Default)]
pub struct RangeInput {
    pub offset: Option<u32>,
    pub limit: Option<u32>,
    pub end_line: Option<u32>,
    pub head: Option<u32>,
    pub tail: Option<u32>,
}

impl RangeInput {
    pub fn range(self) -> Result<LineRange> {
        let refuse = |message: String| Err(Error::invalid_input(message).code("invalid_range"));
        let Self {
            offset,
            limit,
            end_line,
            head,
            tail,
        } = self;
        let one = match (head, tail) {
            (Some(_), Some(_)) => {
                return refuse("`head` and `tail` are mutually exclusive; omit one".to_owned());
            }
            (Some(lines), None) => Some(("head", LineRange::From(1, lines as usize))),
            (None, Some(lines)) => Some(("tail", LineRange::Last(lines as usize))),
            (None, None) => None,
        };
        if let Some((name, range)) = one {
            let others = [("offset", offset), ("limit", limit), ("end_line", end_line)];
            return match others.iter().find(|(_, value)| value.is_some()) {
                Some((other, _)) => refuse(format!(
                    "`{name}` and `{other}` are mutually exclusive; omit one"
                )),
                None => Ok(range),
            };
        }
        let first = offset.unwrap_or(1);
        let until = match end_line {
            Some(last) if last < first => {
                return refuse(format!(
                    "`end_line` {last} is before `offset` {first}; swap them"
                ));
            }
            Some(last) => Some((last - first) as usize + 1),
            None => None,
        };
        let limit = limit.map(|limit| limit as usize);
        let first = first as usize;
        Ok(match until.into_iter().chain(limit).min() {
            Some(lines) => LineRange::From(first, lines),
            None => LineRange::Window(first),
        })
    }
}

/// Consecutive lines of a text.
#[derive(Debug)]
pub struct Page<'a> {
    /// The lines as in the file.
    pub content: &'a str,
    /// Number of the first line; 0 for empty text.
    pub start: usize,
    /// Number of the last line; 0 for empty text.
    pub end: usize,
    /// Number of lines of the whole text.
    pub total: usize,
    /// The page is a part of a single line.
    pub is_cut: bool,
}

impl<'a> Page<'a> {
    pub fn of(text: &'a str, range: LineRange, shown: &str) -> Result<Self> {
        let total = text.split_inclusive('\n').count();
        if total == 0 {
            return Ok(Self {
                content: "",
                start: 0,
                end: 0,
                total,
                is_cut: false,
            });
        }
        let (start, lines, most_shown) = match range {
            LineRange::From(start, lines) => (start, lines, usize::MAX),
            LineRange::Last(lines) => (total - lines.min(total) + 1, lines, usize::MAX),
            LineRange::Window(start) => (start, LINES, WINDOW),
        };
        if start > total {
            let message = format!(
                "line {start} is past the end of {shown}, which has {}",
                count(total, "line")
            );
            return Err(Error::invalid_input(message)
                .code("offset_past_end")
                .recommend(format!("use an `offset` from 1 to {total}, or `tail`")));
        }
        let before: usize = text
            .split_inclusive('\n')
            .take(start - 1)
            .map(str::len)
            .sum();
        let rest = &text[before..];
        let (mut bytes, mut shown_bytes, mut end) = (0, 0, start - 1);
        for line in rest.split_inclusive('\n').take(lines) {
            let shown = line.len().min(MOST_LINE_BYTES) + NUMBER_BYTES;
            if bytes + line.len() > MOST_BYTES || shown_bytes + shown > most_shown {
                break;
            }
            bytes += line.len();
            shown_bytes += shown;
            end += 1;
        }
        let is_cut = bytes == 0;
        if is_cut {
            bytes = rest.floor_char_boundary(MOST_BYTES);
            end = start;
        }
        Ok(Self {
            content: &rest[..bytes],
            start,
            end,
            total,
            is_cut,
        })
    }

    /// Whether more text follows the page.
    pub fn is_truncated(&self) -> bool {
        self.end < self.total || self.is_cut
    }

    /// The text for the model.
    pub fn render(&self, line_numbers: bool) -> String {
        if self.total == 0 {
            return "(file is empty)".to_owned();
        }
        let mut rendered = String::with_capacity(self.content.len() + self.content.len() / 4);
        for (index, line) in self.content.lines().enumerate() {
            if index > 0 {
                rendered.push('\n');
            }
            if line_numbers {
                // Writing to a String cannot fail.
                let _ = write!(rendered, "{:>6}→", self.start + index);
            }
            push_line(&mut rendered, line, MOST_CHARS);
        }
        rendered
    }

    /// The lines that [`render`](Self::render) cuts, as it shows them.
    pub fn cut_lines(&self) -> Vec<String> {
        let lines = self.content.lines();
        let long = lines.filter(|line| end_of_shown(line, MOST_CHARS).is_some());
        long.map(|line| {
            let mut shown = String::new();
            push_line(&mut shown, line, MOST_CHARS);
            shown
        })
        .collect()
    }

    /// Number of bytes of the text that [`render`](Self::render) shows.
    pub fn shown_bytes(&self) -> usize {
        let lines = self.content.split_inclusive('\n');
        lines
            .map(|line| end_of_shown(line, MOST_CHARS).unwrap_or(line.len()))
            .sum()
    }

    /// States what was shown and which call shows the rest.
    pub fn continuation_note(&self, shown: &str) -> Option<String> {
        let Self {
            start, end, total, ..
        } = *self;
        if self.is_cut {
            return Some(format!(
                "showing the beginning of line {start} of {total}, which is too long to show completely"
            ));
        }
        let left = total - end;
        (left > 0).then(|| {
            let next = end + 1;
            format!(
                "showing lines {start}-{end} of {total}; {} left; to go on: read_file with path {shown:?} and offset {next}",
                count(left, "line"),
            )
        })
    }

    /// States that `cut` lines were cut, and how to see the rest of them.
    pub fn cut_note(cut: usize, shown: &str) -> Option<String> {
        (cut > 0).then(|| {
            let (lines, them) = if cut == 1 { ("line is", "it") } else { ("lines are", "them") };
            format!(
                "{cut} {lines} cut after {MOST_CHARS} characters; to see another part of {them}: grep with path {shown:?}, \
                 output_mode \"content\" and a pattern for that part"
            )
        })
    }

    /// One-line summary for the user.
    pub fn summary(&self, shown: &str) -> String {
        let Self {
            start, end, total, ..
        } = *self;
        if start <= 1 && end == total {
            format!("{} of {shown}", count(total, "line"))
        } else {
            format!("lines {start}-{end} of {total} of {shown}")
        }
    }
}

/// Appends a line, cut after `most` characters.
pub fn push_line(rendered: &mut String, line: &str, most: usize) {
    match end_of_shown(line, most) {
        Some(cut) => {
            let _ = write!(
                rendered,
                "{}… [+{} chars]",
                &line[..cut],
                line[cut..].chars().count()
            );
        }
        None => rendered.push_str(line),
    }
}

/// Where a line with more than `most` characters is cut.
fn end_of_shown(line: &str, most: usize) -> Option<usize> {
    let line = line.strip_suffix('\n').unwrap_or(line);
    // A character has at least one byte, so most lines need no counting.
    let cut = (line.len() > most).then(|| line.char_indices().nth(most));
    cut.flatten().map(|(cut, _)| cut)
}

#[cfg(test)]
mod tests;
