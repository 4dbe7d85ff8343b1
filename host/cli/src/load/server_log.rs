//! What a server wrote, in a file that does not grow without end.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const MOST: u64 = 1 << 20;

/// Nobody is told when it cannot be written: it is a convenience, and the server's own words.
pub struct ServerLog(Option<Mutex<Open>>);

struct Open {
    path: PathBuf,
    file: File,
    size: u64,
}

impl ServerLog {
    pub fn open(folder: Option<&Path>, server: &str) -> Self {
        let open = || {
            let folder = folder?;
            fs::create_dir_all(folder).ok()?;
            let path = folder.join(format!("{server}.log"));
            let file = File::options().create(true).append(true).open(&path).ok()?;
            let size = file.metadata().ok()?.len();
            Some(Mutex::new(Open { path, file, size }))
        };
        Self(open())
    }

    /// Escaped and bounded already.
    pub fn line(&self, line: &str) {
        let Some(open) = &self.0 else { return };
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.size > MOST {
            let old = open.path.with_extension("log.1");
            let _ = fs::rename(&open.path, old);
            if let Ok(file) = File::create(&open.path) {
                open.file = file;
                open.size = 0;
            }
        }
        if open.file.write_all(format!("{line}\n").as_bytes()).is_ok() {
            open.size += line.len() as u64 + 1;
        }
    }
}
