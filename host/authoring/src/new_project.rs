//! Creates a project of a plugin from the template of a language.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use toolhost_contract::{NameError, PluginName};

use crate::bundle::Bundle;

/// The languages that have a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Rust,
    Python,
    JavaScript,
    TypeScript,
    C,
}

impl Language {
    pub const ALL: [Self; 5] = [
        Self::Rust,
        Self::Python,
        Self::JavaScript,
        Self::TypeScript,
        Self::C,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Python => "python",
            Self::JavaScript => "javascript",
            Self::TypeScript => "typescript",
            Self::C => "c",
        }
    }

    /// The embedded folders of the project, and where each is put in it.
    fn folders(self) -> &'static [(&'static str, &'static str)] {
        const PYTHON_WIT: &str = "vendor/toolhost-sdk/toolhost_build/wit";
        match self {
            Self::Rust => &[
                ("template/rust", ""),
                ("rust", "vendor"),
                ("wit", "vendor/toolhost-sdk/wit"),
            ],
            Self::Python => &[
                ("template/python", ""),
                ("python", "vendor"),
                ("complete.wit", PYTHON_WIT),
                ("wit", "vendor/toolhost-sdk/toolhost_build/wit/deps/plugin"),
            ],
            Self::JavaScript => &[
                ("template/javascript", ""),
                ("template/npm", ""),
                ("javascript", "vendor"),
                ("complete.wit", "vendor/toolhost/wit"),
                ("wit", "vendor/toolhost/wit/deps/plugin"),
            ],
            Self::TypeScript => &[
                ("template/typescript", ""),
                ("template/npm", ""),
                ("javascript", "vendor"),
                ("complete.wit", "vendor/toolhost/wit"),
                ("wit", "vendor/toolhost/wit/deps/plugin"),
            ],
            Self::C => &[
                ("template/c", ""),
                ("c", "vendor"),
                ("wit", "vendor/toolhost/wit"),
            ],
        }
    }
}

/// A project to create.
#[derive(Debug, Clone)]
pub struct NewProject {
    pub name: PluginName,
    pub language: Language,
    /// Does not exist yet, or is an empty directory.
    pub directory: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum NewProjectError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("{} exists and is not an empty directory; choose another with --dir", .0.display())]
    Exists(PathBuf),
    #[error("{}: {error}", path.display())]
    Write { path: PathBuf, error: io::Error },
}

impl NewProject {
    /// Writes the project into a temporary directory and renames it, or its entries if the directory exists, so that no
    /// part of a project is left by a failure.
    pub fn create(&self) -> Result<(), NewProjectError> {
        if !is_free(&self.directory) {
            return Err(NewProjectError::Exists(self.directory.clone()));
        }
        let exists = self.directory.is_dir();
        let parent = match self.directory.parent() {
            _ if exists => &self.directory,
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let failed = |path: &Path, error| NewProjectError::Write {
            path: path.to_owned(),
            error,
        };
        let stage = tempfile::Builder::new()
            .prefix(&format!(".{}-", self.name))
            .permissions(Permissions::from_mode(0o755))
            .tempdir_in(parent)
            .map_err(|error| failed(parent, error))?;
        let bundle = Bundle::read();
        for (folder, target) in self
            .language
            .folders()
            .iter()
            .chain(&[("template/common", "")])
        {
            for (name, content) in bundle.files(folder) {
                let file = Path::new(target).join(target_name(name));
                let is_template = folder.starts_with("template/");
                self.write(stage.path(), &file, content, is_template)
                    .map_err(|error| failed(&self.directory.join(&file), error))?;
            }
        }
        if exists {
            // Not replaced: it can be the current directory of the user.
            return move_entries(stage.path(), &self.directory)
                .map_err(|error| failed(&self.directory, error));
        }
        // Fails if another process has put something there meanwhile.
        fs::rename(stage.path(), &self.directory).map_err(|error| match error.kind() {
            io::ErrorKind::DirectoryNotEmpty
            | io::ErrorKind::AlreadyExists
            | io::ErrorKind::NotADirectory => NewProjectError::Exists(self.directory.clone()),
            _ => failed(&self.directory, error),
        })
    }

    fn write(&self, root: &Path, file: &Path, content: &[u8], is_template: bool) -> io::Result<()> {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap_or(root))?;
        // Scripts of templates and commands of the SDKs are started.
        let mode = if content.starts_with(b"#!") {
            0o755
        } else {
            0o644
        };
        match std::str::from_utf8(content) {
            Ok(text) if is_template => fs::write(&path, self.fill(text))?,
            _ => fs::write(&path, content)?,
        }
        let umask = fs::metadata(root)?.permissions().mode();
        fs::set_permissions(&path, Permissions::from_mode(mode & umask))
    }

    /// Replaces the placeholders of a template.
    fn fill(&self, template: &str) -> String {
        let name = self.name.as_str();
        template
            .replace("@NAME@", name)
            .replace("@TOOL@", &name.replace('-', "_"))
            .replace("@LANGUAGE@", self.language.as_str())
    }
}

/// Moves all entries, or none.
fn move_entries(from: &Path, to: &Path) -> io::Result<()> {
    let mut moved = Vec::new();
    let mut move_all = || {
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let target = to.join(entry.file_name());
            if target.symlink_metadata().is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            fs::rename(entry.path(), &target)?;
            moved.push((entry.path(), target));
        }
        Ok(())
    };
    let result = move_all();
    if result.is_err() {
        for (source, target) in moved {
            let _ = fs::rename(target, source);
        }
    }
    result
}

/// Names of templates that would have an effect in this repository start with `_`.
fn target_name(name: &str) -> &str {
    match name {
        "_gitignore" => ".gitignore",
        "_Cargo.toml" => "Cargo.toml",
        "_package.json" => "package.json",
        "_cargo/config.toml" => ".cargo/config.toml",
        "_github/workflows/ci.yml" => ".github/workflows/ci.yml",
        other => other,
    }
}

fn is_free(directory: &Path) -> bool {
    match fs::symlink_metadata(directory) {
        Ok(metadata) if metadata.is_dir() => {
            fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
        }
        Ok(_) => false,
        // Another error is reported by the first write.
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;
    use crate::{ExpectedCall, Project};

    fn new(language: Language, directory: &Path) -> NewProject {
        NewProject {
            name: PluginName::parse("word-count").unwrap(),
            language,
            directory: directory.to_owned(),
        }
    }

    #[test]
    fn every_language_has_a_complete_project() {
        let folder = tempfile::tempdir().unwrap();
        for language in Language::ALL {
            let root = folder.path().join(language.as_str());
            new(language, &root).create().unwrap();
            let project = Project::read(&root).unwrap();
            let (manifest, _) = project.manifest().unwrap();
            assert_eq!(manifest.name.as_str(), "word-count");
            for source in &project.sources {
                assert!(source.exists(), "{}", source.display());
            }
            for file in ["README.md", ".gitignore", "ci", ".github/workflows/ci.yml"] {
                let text = fs::read_to_string(root.join(file)).unwrap();
                assert!(
                    !text.contains("@NAME@") && !text.contains("@TOOL@"),
                    "{file}: {text}"
                );
            }
            let expected = ExpectedCall::read(&project.expected_results()).unwrap();
            assert_eq!(expected[0].tool, "word_count");
        }
        let leftovers = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(leftovers, Language::ALL.len());
    }

    #[test]
    fn a_directory_in_use_is_refused_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let full = folder.path().join("full");
        fs::create_dir(&full).unwrap();
        fs::write(full.join("a.txt"), "a").unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "b").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path().join("nowhere"), &link).unwrap();
        for taken in [&full, &file, &link] {
            let error = new(Language::C, taken).create().unwrap_err();
            assert!(matches!(error, NewProjectError::Exists(_)), "{error}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
        assert_eq!(fs::read_to_string(full.join("a.txt")).unwrap(), "a");
        assert_eq!(fs::read_to_string(&file).unwrap(), "b");
    }

    #[test]
    fn an_empty_directory_is_used_and_a_missing_parent_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty");
        fs::create_dir(&empty).unwrap();
        let opened = fs::File::open(&empty).unwrap();
        // As `.` is.
        new(Language::Python, &empty.join(".")).create().unwrap();
        assert!(empty.join("plugin.toml").is_file());
        assert_eq!(
            opened.metadata().unwrap().ino(),
            empty.metadata().unwrap().ino()
        );
        let other = folder.path().join("other");
        new(Language::Python, &other).create().unwrap();
        let count = |directory: &Path| fs::read_dir(directory).unwrap().count();
        assert_eq!(count(&empty), count(&other));
        let error = new(Language::Python, &folder.path().join("missing/x"))
            .create()
            .unwrap_err();
        assert!(matches!(error, NewProjectError::Write { .. }), "{error}");
    }
}
