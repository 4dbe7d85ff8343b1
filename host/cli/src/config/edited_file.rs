//! A configuration file that a command changes. Its comments and all other lines are kept.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use toml_edit::DocumentMut;
use toolhost::HostPaths;
use toolhost_hostfiles::read_text;

use super::read::parse_document;
use crate::exit::{CliError, Exit, OrExit as _, current_directory};

/// Maximum size in bytes.
const MAX_BYTES: u64 = 1 << 20;

pub struct EditedFile {
    /// Absolute.
    path: PathBuf,
    /// `None` if the file does not exist yet.
    before: Option<String>,
    pub document: DocumentMut,
}

impl EditedFile {
    /// Opens `path`, or the user's configuration file. It does not have to exist.
    pub fn open(path: Option<&Path>) -> Result<Self, CliError> {
        let user_file = || HostPaths::from_env(|name| std::env::var(name).ok()).config_file();
        let Some(path) = path.map(Path::to_owned).or_else(user_file) else {
            let message = "no home directory for a configuration file; set HOME or XDG_CONFIG_HOME";
            return Err(CliError::new(Exit::Usage, message));
        };
        Self::read(&current_directory()?.join(path)).or_exit(Exit::Config)
    }

    fn read(path: &Path) -> anyhow::Result<Self> {
        let name = || path.display().to_string();
        if path.extension().is_none_or(|extension| extension != "toml") {
            let name = name();
            return Err(anyhow!(
                "{name}: commands edit only .toml files; make this change by hand"
            ));
        }
        let before = match read_text(path, MAX_BYTES) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(name),
        };
        let document = parse_document(path, before.as_deref().unwrap_or_default())?;
        Ok(Self {
            path: path.to_owned(),
            before,
            document,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the changed document.
    pub fn write(&self) -> Result<(), CliError> {
        self.write_text(&self.document.to_string())
    }

    /// Restores what the file was when it was opened.
    pub fn restore(&self) -> Result<(), CliError> {
        match &self.before {
            Some(before) => self.write_text(before),
            None => self.changed(fs::remove_file(&self.path)),
        }
    }

    /// Replaces the file atomically.
    fn write_text(&self, text: &str) -> Result<(), CliError> {
        let written = || -> io::Result<()> {
            let folder = self.path.parent().unwrap_or(&self.path);
            fs::create_dir_all(folder)?;
            // A symlink is followed and stays a symlink.
            let target = if self.path.is_symlink() {
                fs::canonicalize(&self.path)?
            } else {
                self.path.clone()
            };
            let directory = target.parent().unwrap_or(folder);
            let mut new = tempfile::NamedTempFile::new_in(directory)?;
            new.write_all(text.as_bytes())?;
            if let Ok(known) = fs::metadata(&target) {
                new.as_file().set_permissions(known.permissions())?;
            }
            new.persist(&target).map_err(|error| error.error)?;
            Ok(())
        };
        self.changed(written())
    }

    fn changed(&self, result: io::Result<()>) -> Result<(), CliError> {
        let result = result.with_context(|| self.path.display().to_string());
        result.or_exit(Exit::Config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_changed_and_restored() {
        const BEFORE: &str = "# mine\nplugins = [\"p\"] # here\n";
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/toolhost.toml");
        let mut file = EditedFile::open(Some(&path)).unwrap();
        file.document["mode"] = toml_edit::value("plan");
        file.write().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "mode = \"plan\"\n");
        file.restore().unwrap();
        assert!(!path.exists());

        let link = directory.path().join("link.toml");
        fs::write(&path, BEFORE).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let mut file = EditedFile::open(Some(&link)).unwrap();
        file.document["mode"] = toml_edit::value("plan");
        file.write().unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            format!("{BEFORE}mode = \"plan\"\n")
        );
        file.restore().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), BEFORE);
        assert!(link.is_symlink());
        fs::remove_file(&path).unwrap();
        let file = EditedFile::open(Some(&link)).unwrap();
        assert!(file.write().is_err() && link.is_symlink());
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
