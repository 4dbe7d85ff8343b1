//! Reads one file after the other, large ones into the same memory.

use std::io;

use crate::disk::File;

/// The most that one read across the sandbox's border brings.
const CHUNK: usize = 64 * 1024;
/// What the first read of a file asks for. The host clears as much memory as it is asked for, and most files are small.
const FIRST: usize = 16 * 1024;
/// Where a zero byte shows that a file is no text.
const HEAD: usize = 8 * 1024;
/// A file is searched up to here; the memory of a plugin is small.
const MOST: usize = 32 * 1024 * 1024;
/// Reads end early at a multiple of this where a host brings less than asked for.
const BLOCK: usize = 4096;

/// The memory that files are read into.
#[derive(Default)]
pub struct Reader {
    small: Vec<u8>,
    large: Vec<u8>,
    decoded: String,
}

/// What a file is.
pub enum Content<'a> {
    Text(&'a [u8]),
    /// The first part of a file that is too large.
    Beginning(&'a [u8]),
    Binary,
}

/// What to do with a file that is no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    Skip,
    Search,
}

impl Reader {
    pub fn read(&mut self, file: &mut File, binary: Binary) -> io::Result<Content<'_>> {
        self.small = file.read(FIRST)?;
        if binary == Binary::Skip && is_binary(&self.small) {
            return Ok(Content::Binary);
        }
        // An odd count is the end of the file. This saves the read that would bring nothing.
        let more = |count: usize| count > 0 && count.is_multiple_of(BLOCK);
        let bytes = if more(self.small.len()) {
            self.large.clear();
            self.large.extend_from_slice(&self.small);
            let mut count = self.small.len();
            while more(count) && self.large.len() < MOST {
                let bytes = file.read(CHUNK)?;
                count = bytes.len();
                self.large.extend_from_slice(&bytes);
            }
            &self.large
        } else {
            &self.small
        };
        if let Some(text) = utf16(bytes) {
            self.decoded = text;
            return Ok(Content::Text(self.decoded.as_bytes()));
        }
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        Ok(if bytes.len() >= MOST {
            Content::Beginning(text)
        } else {
            Content::Text(text)
        })
    }
}

fn is_binary(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(HEAD)];
    memchr::memchr(0, head).is_some() && !matches!(head, [0xff, 0xfe, ..] | [0xfe, 0xff, ..])
}

/// Does nearly a third of the beginning consist of what no text has? Looked at only where something matched: it takes
/// longer than searching.
pub fn looks_binary(text: &[u8]) -> bool {
    let head = &text[..text.len().min(HEAD)];
    let odd = head
        .iter()
        .filter(|byte| matches!(byte, 0..=0x06 | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f));
    odd.count() * 10 > head.len() * 3
}

/// The text of a file that says it is UTF-16.
fn utf16(bytes: &[u8]) -> Option<String> {
    let unit: fn([u8; 2]) -> u16 = match bytes {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => return None,
    };
    let units = bytes[2..]
        .chunks_exact(2)
        .map(|pair| unit([pair[0], pair[1]]));
    Some(
        char::decode_utf16(units)
            .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect(),
    )
}
