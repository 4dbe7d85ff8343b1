//! Writes one log file for each other MCP server, rotated at a size limit.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use toolhost_mcp_client::{private_file, private_folder};

const MAX_BYTES: u64 = 1 << 20;

/// The log of one server's output. Write errors are ignored, because the log is not essential.
pub struct ServerLog(Option<Mutex<OpenLog>>);

struct OpenLog {
    path: PathBuf,
    file: File,
    size: u64,
}

impl ServerLog {
    pub fn open(folder: Option<&Path>, server: &str) -> Self {
        let open = || {
            let folder = folder?;
            private_folder(folder).ok()?;
            let path = folder.join(format!("{server}.log"));
            let file = private_file(&mut append_options(), &path).ok()?;
            let size = file.metadata().ok()?.len();
            Some(Mutex::new(OpenLog { path, file, size }))
        };
        Self(open())
    }

    /// Appends a line, which must be escaped and bounded already.
    pub fn append(&self, line: &str) {
        let Some(open) = &self.0 else { return };
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.size > MAX_BYTES {
            let old = open.path.with_extension("log.1");
            let _ = fs::rename(&open.path, old);
            if let Ok(file) = private_file(&mut append_options(), &open.path) {
                open.file = file;
                open.size = 0;
            }
        }
        if open.file.write_all(format!("{line}\n").as_bytes()).is_ok() {
            open.size += line.len() as u64 + 1;
        }
    }
}

fn append_options() -> OpenOptions {
    let mut options = File::options();
    options.create(true).append(true);
    options
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_server_log_is_private_and_limited() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("logs");
        let log = ServerLog::open(Some(&folder), "one");
        let line = "x".repeat(64 << 10);
        for _ in 0..20 {
            log.append(&line);
        }
        for (name, mode) in [("", 0o700), ("one.log", 0o600), ("one.log.1", 0o600)] {
            let found = folder.join(name).metadata().unwrap();
            assert_eq!(found.permissions().mode() & 0o777, mode, "{name}");
            assert!(found.len() <= MAX_BYTES + line.len() as u64 + 1, "{name}");
        }
    }
}
