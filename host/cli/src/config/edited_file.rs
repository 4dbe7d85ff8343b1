//! A configuration file that a command changes. Its comments and all other lines are kept.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use toml_edit::DocumentMut;
use toolhost::HostPaths;
use toolhost_hostfiles::{lock_within, read_text};

use super::read::parse_document;
use crate::exit::{CliError, Exit, OrExit as _, current_directory};

/// Maximum size in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// How long to wait for another command that edits the file.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);

/// Locked from [`Self::open`] to [`Self::write`], so that commands which edit the same file run one after another.
pub struct EditedFile {
    /// Absolute.
    path: PathBuf,
    /// `None` if the file does not exist yet.
    before: Option<String>,
    pub document: DocumentMut,
    /// The directory of the file. The file itself cannot be locked, because it is replaced.
    lock: Option<File>,
}

impl EditedFile {
    /// Opens `path`, or the user's configuration file. It does not have to exist.
    pub fn open(path: Option<&Path>) -> Result<Self, CliError> {
        let user_file = || HostPaths::from_env(|name| std::env::var(name).ok()).config_file();
        let Some(path) = path.map(Path::to_owned).or_else(user_file) else {
            let message = "no home directory for a configuration file; set HOME or XDG_CONFIG_HOME";
            return Err(CliError::new(Exit::Usage, message));
        };
        let path = current_directory()?.join(path);
        Self::read(&path).or_exit(Exit::Config)
    }

    fn read(path: &Path) -> anyhow::Result<Self> {
        let name = || path.display().to_string();
        if path.extension().is_none_or(|extension| extension != "toml") {
            let name = name();
            return Err(anyhow!(
                "{name}: commands edit only .toml files; make this change by hand"
            ));
        }
        let lock = match target(path).and_then(|target| lock_directory(&target)) {
            Ok(lock) => Some(lock),
            // `write` creates the directory.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(name),
        };
        let before = read_if_exists(path).with_context(name)?;
        let document = parse_document(path, before.as_deref().unwrap_or_default())?;
        Ok(Self {
            path: path.to_owned(),
            before,
            document,
            lock,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets other commands edit the file while the user is asked. [`Self::write`] fails if one did.
    pub fn release_lock(&mut self) {
        self.lock = None;
    }

    /// Writes the changed document and releases the lock. Fails if the file has changed since it was opened.
    pub fn write(&mut self) -> Result<(), CliError> {
        let written = self.replace();
        self.release_lock();
        written
            .with_context(|| self.path.display().to_string())
            .or_exit(Exit::Config)
    }

    /// Replaces the file atomically.
    fn replace(&mut self) -> anyhow::Result<()> {
        let target = target(&self.path)?;
        let directory = target.parent().unwrap_or(&target);
        fs::create_dir_all(directory)?;
        if self.lock.is_none() {
            self.lock = Some(lock_directory(&target)?);
        }
        if read_if_exists(&self.path)? != self.before {
            bail!(
                "another program has changed the file meanwhile; nothing was written; run the command again"
            );
        }
        let mut new = tempfile::NamedTempFile::new_in(directory)?;
        new.write_all(self.document.to_string().as_bytes())?;
        if let Ok(known) = fs::metadata(&target) {
            new.as_file().set_permissions(known.permissions())?;
        }
        new.persist(&target).map_err(|error| error.error)?;
        Ok(())
    }
}

/// A symlink is followed and stays a symlink.
fn target(path: &Path) -> io::Result<PathBuf> {
    if path.is_symlink() {
        fs::canonicalize(path)
    } else {
        Ok(path.to_owned())
    }
}

/// Waits for the lock on the directory of a file, which is held until the result is dropped.
fn lock_directory(file: &Path) -> io::Result<File> {
    let path = file.parent().unwrap_or(file);
    let directory = File::open(path)?;
    match lock_within(&directory, LOCK_PATIENCE) {
        Ok(()) => Ok(directory),
        Err(TryLockError::Error(error)) => Err(error),
        Err(TryLockError::WouldBlock) => Err(io::Error::other(format!(
            "another program holds a lock on {} for more than {} s; end it, and run the command again",
            path.display(),
            LOCK_PATIENCE.as_secs()
        ))),
    }
}

fn read_if_exists(path: &Path) -> io::Result<Option<String>> {
    match read_text(path, MAX_BYTES) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_mode(file: &mut EditedFile) -> Result<(), CliError> {
        file.document["mode"] = toml_edit::value("plan");
        file.write()
    }

    #[test]
    fn a_file_is_created_or_changed_and_a_link_stays_a_link() {
        const BEFORE: &str = "# mine\nplugins = [\"p\"] # here\n";
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/toolhost.toml");
        set_mode(&mut EditedFile::open(Some(&path)).unwrap()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "mode = \"plan\"\n");

        let link = directory.path().join("link.toml");
        fs::write(&path, BEFORE).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        set_mode(&mut EditedFile::open(Some(&link)).unwrap()).unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            format!("{BEFORE}mode = \"plan\"\n")
        );
        assert!(link.is_symlink());
        fs::remove_file(&path).unwrap();
        let mut file = EditedFile::open(Some(&link)).unwrap();
        assert!(file.write().is_err() && link.is_symlink());
    }

    #[test]
    fn a_file_that_has_changed_meanwhile_is_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.toml");
        for before in [None, Some("a = 1\n")] {
            let _ = before.map(|text| fs::write(&path, text).unwrap());
            let mut file = EditedFile::open(Some(&path)).unwrap();
            file.release_lock();
            fs::write(&path, "b = 2\n").unwrap();
            let error = set_mode(&mut file).unwrap_err().error;
            assert!(format!("{error:#}").contains("meanwhile"), "{error:#}");
            assert_eq!(fs::read_to_string(&path).unwrap(), "b = 2\n");
        }
    }

    #[test]
    fn edits_at_the_same_time_are_all_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.toml");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let path = &path;
                scope.spawn(move || {
                    for number in 0..10 {
                        let mut file = EditedFile::open(Some(path)).unwrap();
                        file.document[&format!("k{thread}_{number}")] = toml_edit::value(number);
                        file.write().unwrap();
                    }
                });
            }
        });
        assert_eq!(EditedFile::open(Some(&path)).unwrap().document.len(), 40);
    }

    #[test]
    fn files_that_cannot_be_edited_are_errors() {
        let error = |path: &Path| {
            EditedFile::open(Some(path))
                .err()
                .unwrap()
                .error
                .to_string()
        };
        let message = error(Path::new("x.yaml"));
        assert!(message.contains("only .toml files"), "{message}");
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.toml");
        fs::write(&path, "a = 1\nb =\n").unwrap();
        let message = error(&path);
        assert!(message.contains("a.toml:2: "), "{message}");
    }
}
