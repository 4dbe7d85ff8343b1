//! File system benchmark: reads small files, a large file and a full directory, and writes a large file.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};

use toolhost_sdk::prelude::*;

const PIECE: usize = 64 << 10;

/// Reads a file in pieces, lists a directory, or opens, reads and closes every file two levels below one.
#[tool(reads)]
fn bench_files(
    /// `small`, `large` or `list`.
    what: String,
    /// A file or a directory.
    path: String,
) -> Result<u64> {
    look(&what, &path)
}

/// The same for a tool that may write but does not.
#[tool(writes)]
fn bench_files_staged(
    /// `small`, `large` or `list`.
    what: String,
    /// A file or a directory.
    path: String,
) -> Result<u64> {
    look(&what, &path)
}

/// Writes a file in chunks.
#[tool(writes)]
fn bench_write(
    /// The file.
    path: String,
    /// Size in MiB.
    mib: u32,
    /// Byte to fill it with.
    byte: u8,
) -> Result<()> {
    let mut file = File::create(path)?;
    let piece = vec![byte; PIECE];
    for _ in 0..u64::from(mib) << 20 >> PIECE.trailing_zeros() {
        file.write_all(&piece)?;
    }
    Ok(())
}

fn look(kind: &str, path: &str) -> Result<u64> {
    match kind {
        "small" => small(path),
        "large" => large(path),
        "list" => Ok(names(path)?.len() as u64),
        _ => Err(Error::failed("there is nothing of that name to look at")),
    }
}

/// The bytes of all files. Their names are known, so that only opening, reading and closing is measured.
fn small(path: &str) -> Result<u64> {
    let mut bytes = 0;
    let mut buffer = [0; 1024];
    for number in 0..10_000 {
        let mut file = File::open(format!("{path}/{}/{}", number / 100, number % 100))?;
        bytes += file.read(&mut buffer)? as u64;
    }
    Ok(bytes)
}

fn large(path: &str) -> Result<u64> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; PIECE];
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(bytes),
            read => bytes += read as u64,
        }
    }
}

fn names(path: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}

export_tools![bench_files, bench_files_staged, bench_write];
