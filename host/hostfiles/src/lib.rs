//! File access for the host's own files and for files that the operator names.
//!
//! A path that another user can influence may name a named pipe, whose open blocks until a writer appears, or a device,
//! whose open has side effects. The functions in this crate open regular files only and do not block.

mod directory;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

pub use directory::{DirectoryError, check_directory, create_private_dir_all};

/// The time between two attempts to get a lock.
const LOCK_POLL: Duration = Duration::from_millis(20);

/// Waits for the lock of a file or directory, which is held until `file` is dropped. Returns `WouldBlock` if another
/// process still holds it after `patience`.
pub fn lock_within(file: &File, patience: Duration) -> Result<(), TryLockError> {
    let end = Instant::now() + patience;
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if Instant::now() < end => thread::sleep(LOCK_POLL),
            result => return result,
        }
    }
}

/// Opens a regular file for reading and follows symbolic links.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Checked first, because opening a device can already have a side effect.
    refuse_special(fs::metadata(path)?.file_type())?;
    open(path, OFlags::empty())
}

/// Opens a regular file for reading; the last component of the path must not be a symbolic link.
pub fn open_regular_no_follow(path: &Path) -> io::Result<File> {
    let kind = fs::symlink_metadata(path)?.file_type();
    if kind.is_symlink() {
        return Err(invalid_input("a symbolic link; specify the file itself"));
    }
    refuse_special(kind)?;
    open(path, OFlags::NOFOLLOW)
}

fn open(path: &Path, more: OFlags) -> io::Result<File> {
    // The path may name another file by now, so the open does not block and the opened file is checked again.
    let flags = more | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    refuse_special(file.metadata()?.file_type())?;
    let flags = fcntl_getfl(&file)?;
    fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

fn refuse_special(kind: fs::FileType) -> io::Result<()> {
    if kind.is_file() {
        return Ok(());
    }
    let description = if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(invalid_input(&format!("{description}, not a regular file")))
}

fn invalid_input(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message.to_owned())
}

/// Reads a regular file of at most `limit` bytes.
pub fn read_regular(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let message = format!("longer than {limit} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Reads a regular file of at most `limit` bytes as UTF-8 text.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read_regular(path, limit)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8 text"))
}

/// Replaces a file atomically, with mode 0644. It is on disk when this returns.
pub fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".toolhost-")
        .permissions(fs::Permissions::from_mode(0o644))
        .tempfile_in(parent)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    File::open(parent)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    /// An open that blocks would never return, because nothing writes to the pipe.
    #[test]
    fn a_16_only_regular_files_are_opened_without_blocking() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "text").unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), 0o600.into()).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        symlink(at("file"), at("link")).unwrap();
        symlink(at("pipe"), at("link to a pipe")).unwrap();
        symlink("/dev/zero", at("link to a device")).unwrap();
        assert_eq!(read_text(&at("file"), 4).unwrap(), "text");
        assert_eq!(read_text(&at("link"), 4).unwrap(), "text");
        for (name, expected) in [
            ("pipe", "a named pipe"),
            ("link to a pipe", "a named pipe"),
            ("socket", "a socket"),
            ("link to a device", "a device"),
            ("", "a directory"),
        ] {
            let error = open_regular(&at(name)).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{name}: {error}");
        }
        let error = open_regular_no_follow(&at("link")).unwrap_err().to_string();
        assert!(error.starts_with("a symbolic link"), "{error}");
        assert!(open_regular_no_follow(&at("file")).is_ok());
        let error = read_regular(&at("file"), 3).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        let missing = open_regular(&at("missing")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn opened_files_are_in_blocking_mode() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "text").unwrap();
        let file = open_regular(&dir.path().join("file")).unwrap();
        assert!(!fcntl_getfl(&file).unwrap().contains(OFlags::NONBLOCK));
    }
}
