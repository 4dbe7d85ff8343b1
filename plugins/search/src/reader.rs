//! Reading of files into a shared buffer, large files in windows.
//!
//! The memory of a plugin is limited. A window ends at a line end and keeps the context lines that a result may show,
//! so memory use does not depend on file size.

use std::io;
use std::ops::{ControlFlow, Range};

use memchr::{memchr_iter, memrchr, memrchr_iter};

use crate::disk::File;

/// Maximum size of one read across the sandbox boundary.
const CHUNK: usize = 64 * 1024;
/// Size of a file's first read. The host zeroes a buffer of the requested size, and most files are small.
const FIRST: usize = 16 * 1024;
/// Range in which a zero byte marks a file as binary.
const HEAD: usize = 8 * 1024;
/// Size of a window, except for longer lines.
const WINDOW: usize = 2 * 1024 * 1024;
/// Maximum size of a window: one line, or a file with matches across lines.
const MOST: usize = 32 * 1024 * 1024;
/// Short reads end at a multiple of this if a host returns less than requested.
const BLOCK: usize = 4096;

/// The UTF-8 byte order mark.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// The buffer that files are read into.
#[derive(Default)]
pub struct Reader {
    small: Vec<u8>,
    large: Vec<u8>,
}

/// How a file is read.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    pub binary: BinaryHandling,
    /// Lines of context above and below a match.
    pub around: (usize, usize),
    /// Matches may span lines, so a window is the whole file.
    pub whole: bool,
}

/// What to do with a binary file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryHandling {
    Skip,
    Search,
}

/// A part of a file in memory.
#[derive(Clone, Debug)]
pub struct Window<'a> {
    pub text: &'a [u8],
    /// The part of the text to search, in whole lines. The rest is context.
    pub range: Range<usize>,
    /// Number of the first line of the text, from 1.
    pub line: u64,
    pub is_first: bool,
    pub is_last: bool,
}

impl<'a> Window<'a> {
    /// A whole text.
    pub fn of(text: &'a [u8]) -> Self {
        Self {
            text,
            range: 0..text.len(),
            line: 1,
            is_first: true,
            is_last: true,
        }
    }
}

/// How much of a file was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadExtent {
    All,
    /// The first part of a file that is too large to search completely.
    Beginning,
    /// Nothing, because it is binary.
    Binary,
}

impl Reader {
    /// Calls `search` with each window of the file until it breaks, and returns the break value.
    pub fn read<B>(
        &mut self,
        file: &mut File,
        manner: ReadOptions,
        search: &mut dyn FnMut(&File, &Window<'_>) -> ControlFlow<B>,
    ) -> io::Result<(ReadExtent, ControlFlow<B>)> {
        self.small = file.read(FIRST)?;
        let binary = (ReadExtent::Binary, ControlFlow::Continue(()));
        if manner.binary == BinaryHandling::Skip && is_binary(&self.small) {
            return Ok(binary);
        }
        let mut decoder = Decoder::of(&self.small);
        if decoder.is_plain() && !has_more(self.small.len()) {
            let flow = search(file, &Window::of(without_mark(&self.small)));
            return Ok((ReadExtent::All, flow));
        }
        self.large.clear();
        decoder.push(without_mark(&self.small), &mut self.large);
        if !decoder.is_plain() && self.large.starts_with(MARK) {
            // A second mark is not part of the text either, like in ripgrep.
            self.large.drain(..MARK.len());
        }
        let has_zero = memchr::memchr(0, head(&self.large)).is_some();
        if manner.binary == BinaryHandling::Skip && has_zero {
            return Ok(binary);
        }
        let mut windows = Windows {
            file,
            decoder,
            buffer: &mut self.large,
            has_more: has_more(self.small.len()),
            start: 0,
            line: 1,
            is_first: true,
        };
        windows.each(manner, search)
    }
}

/// A short read marks the end of a file, which saves a final empty read.
fn has_more(count: usize) -> bool {
    count > 0 && count.is_multiple_of(BLOCK)
}

struct Windows<'a> {
    file: &'a mut File,
    decoder: Decoder,
    buffer: &'a mut Vec<u8>,
    has_more: bool,
    /// Start of the text that was not searched.
    start: usize,
    /// Number of the first line in the buffer.
    line: u64,
    is_first: bool,
}

impl Windows<'_> {
    fn each<B>(
        &mut self,
        manner: ReadOptions,
        search: &mut dyn FnMut(&File, &Window<'_>) -> ControlFlow<B>,
    ) -> io::Result<(ReadExtent, ControlFlow<B>)> {
        let (before, after) = manner.around;
        let mut size = if manner.whole { MOST } else { WINDOW };
        loop {
            self.fill(size)?;
            let end = if !self.has_more {
                self.buffer.len()
            } else if manner.whole {
                // The rest is lost; a cut line is better than none.
                self.last_line_end().unwrap_or(self.buffer.len())
            } else if let Some(end) = self.end(after) {
                end
            } else if size < MOST {
                size = MOST;
                continue;
            } else {
                self.last_line_end().unwrap_or(self.buffer.len())
            };
            let is_cut = self.has_more && (manner.whole || !self.buffer[..end].ends_with(b"\n"));
            let window = Window {
                text: self.buffer,
                range: self.start..end,
                line: self.line,
                is_first: self.is_first,
                is_last: is_cut || !self.has_more,
            };
            let flow = search(self.file, &window);
            if flow.is_break() || is_cut || !self.has_more {
                let extent = if is_cut {
                    ReadExtent::Beginning
                } else {
                    ReadExtent::All
                };
                return Ok((extent, flow));
            }
            self.is_first = false;
            self.discard(end, before);
            size = WINDOW;
        }
    }

    /// Reads until `size` bytes of unsearched text are available, or to the end of the file.
    fn fill(&mut self, size: usize) -> io::Result<()> {
        self.fill_to(size.min(WINDOW))?;
        self.fill_to(size)?;
        if !self.has_more {
            self.decoder.finish(self.buffer);
        }
        Ok(())
    }

    fn fill_to(&mut self, size: usize) -> io::Result<()> {
        let wanted = self.start + size;
        if self.has_more && wanted > self.buffer.capacity() {
            // Reserved at once, because doubling would need the memory of both.
            self.buffer
                .reserve_exact(wanted + 2 * CHUNK - self.buffer.len());
        }
        while self.has_more && self.buffer.len() < wanted {
            let bytes = self.file.read(CHUNK)?;
            self.has_more = has_more(bytes.len());
            self.decoder.push(&bytes, self.buffer);
        }
        Ok(())
    }

    fn last_line_end(&self) -> Option<usize> {
        memrchr(b'\n', &self.buffer[self.start..]).map(|at| self.start + at + 1)
    }

    /// The end of the window such that `after` whole lines follow it.
    fn end(&self, after: usize) -> Option<usize> {
        let mut ends = memrchr_iter(b'\n', &self.buffer[self.start..]);
        ends.nth(after).map(|at| self.start + at + 1)
    }

    /// Drops the searched text except for its last `before` lines.
    fn discard(&mut self, end: usize, before: usize) {
        // Fewer long lines are kept, to bound memory.
        let floor = end.saturating_sub(WINDOW / 2);
        let starts = memrchr_iter(b'\n', &self.buffer[floor..end - 1]).map(|at| floor + at + 1);
        let retained: Vec<usize> = starts.take(before).collect();
        let keep = if before > retained.len() && floor == 0 {
            0
        } else {
            retained.last().copied().unwrap_or(end)
        };
        self.line += memchr_iter(b'\n', &self.buffer[..keep]).count() as u64;
        self.buffer.drain(..keep);
        self.start = end - keep;
    }
}

/// Decodes UTF-16 with a byte order mark to UTF-8; other bytes pass unchanged.
struct Decoder {
    unit: Option<fn([u8; 2]) -> u16>,
    /// The first half of a code unit.
    byte: Option<u8>,
    /// The first half of a surrogate pair.
    high: Option<u16>,
}

impl Decoder {
    fn of(bytes: &[u8]) -> Self {
        let unit: Option<fn([u8; 2]) -> u16> = match bytes {
            [0xff, 0xfe, ..] => Some(u16::from_le_bytes),
            [0xfe, 0xff, ..] => Some(u16::from_be_bytes),
            _ => None,
        };
        Self {
            unit,
            byte: None,
            high: None,
        }
    }

    fn is_plain(&self) -> bool {
        self.unit.is_none()
    }

    fn push(&mut self, bytes: &[u8], text: &mut Vec<u8>) {
        let Some(unit) = self.unit else {
            text.extend_from_slice(bytes);
            return;
        };
        let bytes: Vec<u8> = self
            .byte
            .take()
            .into_iter()
            .chain(bytes.iter().copied())
            .collect();
        let (pairs, rest) = bytes.as_chunks::<2>();
        self.byte = rest.first().copied();
        let mut units: Vec<u16> = self.high.take().into_iter().collect();
        units.extend(pairs.iter().map(|pair| unit(*pair)));
        self.high = units.pop_if(|last| (0xd800..0xdc00).contains(last));
        push_utf16(&units, text);
    }

    /// An incomplete character becomes a replacement character, like in ripgrep.
    fn finish(&mut self, text: &mut Vec<u8>) {
        let high = self.high.take();
        if high.or(self.byte.take().map(u16::from)).is_some() {
            push_utf16(&[0xd800], text);
        }
    }
}

fn push_utf16(units: &[u16], text: &mut Vec<u8>) {
    let chars = char::decode_utf16(units.iter().copied());
    let mut bytes = [0; 4];
    for char in chars {
        let char = char.unwrap_or(char::REPLACEMENT_CHARACTER);
        text.extend_from_slice(char.encode_utf8(&mut bytes).as_bytes());
    }
}

fn without_mark(bytes: &[u8]) -> &[u8] {
    let marks: [&[u8]; 3] = [MARK, b"\xff\xfe", b"\xfe\xff"];
    let mark = marks.iter().find_map(|mark| bytes.strip_prefix(*mark));
    mark.unwrap_or(bytes)
}

fn head(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(HEAD)]
}

fn is_binary(bytes: &[u8]) -> bool {
    let head = head(bytes);
    memchr::memchr(0, head).is_some() && !matches!(head, [0xff, 0xfe, ..] | [0xfe, 0xff, ..])
}

/// Whether nearly a third of the beginning is control characters. Checked only after a match, because it is slower than
/// searching.
pub fn looks_binary(text: &[u8]) -> bool {
    let head = head(text);
    let odd = head
        .iter()
        .filter(|byte| matches!(byte, 0..=0x06 | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f));
    odd.count() * 10 > head.len() * 3
}

#[cfg(test)]
mod tests;
