//! Opening of regular files for reading, with a size limit and ignore rules.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use toolhost_sdk::prelude::*;

use crate::ignore_rules::check_readable;
use crate::path::Target;
use crate::text::size;

/// The size limit of a tool, and what to do with larger files.
pub struct SizeLimit {
    pub bytes: u64,
    pub tool: &'static str,
    pub advice: &'static str,
}

impl SizeLimit {
    /// Fails if a file is larger.
    pub fn check(&self, bytes: u64, shown: &str) -> Result<()> {
        if bytes <= self.bytes {
            return Ok(());
        }
        let (has, most, tool) = (size(bytes), size(self.bytes), self.tool);
        let message = format!("{shown} has {has}; the limit of {tool} is {most}");
        Err(Error::failed(message)
            .code("file_too_large")
            .recommend(self.advice))
    }
}

/// The bytes of a regular file and the time of its last change, in milliseconds since 1970.
pub fn open(target: &Target, limit: &SizeLimit) -> Result<(Vec<u8>, Option<u64>)> {
    check_readable(target)?;
    let metadata = fs::metadata(&target.path).map_err(|error| target.error(&error))?;
    let shown = &target.shown;
    if metadata.is_dir() {
        return Err(target.is_directory());
    }
    // Reading a pipe or device may never end.
    if !metadata.is_file() {
        return Err(
            Error::invalid_input(format!("{shown} is not a regular file")).code("not_a_file"),
        );
    }
    limit.check(metadata.len(), shown)?;
    let bytes = fs::read(&target.path).map_err(|error| target.error(&error))?;
    Ok((bytes, metadata.modified().ok().and_then(milliseconds)))
}

/// Milliseconds since 1970; `None` for earlier times.
fn milliseconds(time: SystemTime) -> Option<u64> {
    u64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}
