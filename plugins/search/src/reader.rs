//! Reads one file after the other into the same memory.

use std::fs::File;
use std::io::{self, Read};

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
pub struct Reader {
    buffer: Vec<u8>,
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
    pub fn new() -> Self {
        Self {
            buffer: vec![0; 4 * CHUNK],
            decoded: String::new(),
        }
    }

    pub fn read(&mut self, path: &str, binary: Binary) -> io::Result<Content<'_>> {
        let mut file = File::open(path)?;
        let mut used = 0;
        loop {
            if self.buffer.len() - used < CHUNK {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
            let most = if used == 0 { FIRST } else { self.buffer.len() };
            let count = match file.read(&mut self.buffer[used..most]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                count => count?,
            };
            let first = used == 0;
            used += count;
            if first && binary == Binary::Skip && is_binary(&self.buffer[..used]) {
                return Ok(Content::Binary);
            }
            // An odd count is the end of the file. This saves the read that would bring nothing.
            if count == 0 || !count.is_multiple_of(BLOCK) || used >= MOST {
                break;
            }
        }
        let bytes = &self.buffer[..used];
        if let Some(text) = utf16(bytes) {
            self.decoded = text;
            return Ok(Content::Text(self.decoded.as_bytes()));
        }
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        Ok(if used >= MOST {
            Content::Beginning(bytes)
        } else {
            Content::Text(bytes)
        })
    }
}

fn is_binary(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(HEAD)];
    memchr::memchr(0, head).is_some() && !matches!(head, [0xff, 0xfe, ..] | [0xfe, 0xff, ..])
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
