//! `toolhost-build.toml`: how a project is built.

use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use toolhost_contract::{Manifest, ManifestError, text};
use toolhost_hostfiles::read_text;

/// Name of the file in the root of a project.
pub const PROJECT_FILE: &str = "toolhost-build.toml";
const MAX_BYTES: u64 = 64 << 10;

/// A project with its checked settings. Paths are absolute if `root` is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    pub root: PathBuf,
    /// Program and arguments that build the component. Run in `root`.
    pub command: Vec<String>,
    /// The component that the command writes.
    pub component: PathBuf,
    pub manifest: PathBuf,
    /// Files and directories whose changes require a build.
    pub sources: Vec<PathBuf>,
    /// Programs that the command needs.
    pub requires: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    #[error("{}: {error}", path.display())]
    Read {
        path: PathBuf,
        error: std::io::Error,
    },
    #[error("{}: {reason}", path.display())]
    Invalid { path: PathBuf, reason: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawProject {
    command: Vec<String>,
    component: PathBuf,
    #[serde(default = "default_manifest")]
    manifest: PathBuf,
    sources: Vec<PathBuf>,
    #[serde(default)]
    requires: Vec<String>,
}

fn default_manifest() -> PathBuf {
    "plugin.toml".into()
}

impl Project {
    /// Reads the file of the project in this directory.
    pub fn read(root: &Path) -> Result<Self, ProjectError> {
        let path = root.join(PROJECT_FILE);
        let text = match read_text(&path, MAX_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let reason = "no such file; `host new` creates a project that has one".to_owned();
                return Err(ProjectError::Invalid { path, reason });
            }
            Err(error) => return Err(ProjectError::Read { path, error }),
        };
        Self::parse(root, &text).map_err(|reason| ProjectError::Invalid { path, reason })
    }

    fn parse(root: &Path, text: &str) -> Result<Self, String> {
        let raw: RawProject =
            toml::from_str(text).map_err(|error| text::escape_line(error.message(), 400))?;
        if raw.command.iter().all(String::is_empty) {
            return Err(
                "`command` is empty; write the program that builds the component and its arguments"
                    .to_owned(),
            );
        }
        if raw.sources.is_empty() {
            return Err(
                "`sources` is empty; list the files and directories that the build reads"
                    .to_owned(),
            );
        }
        for path in raw.sources.iter().chain([&raw.component, &raw.manifest]) {
            let is_inside =
                |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
            if path.as_os_str().is_empty() || !path.components().all(is_inside) {
                let shown = text::escape_line(&path.to_string_lossy(), 200);
                return Err(format!("`{shown}` is not a path below the project"));
            }
        }
        Ok(Self {
            command: raw.command,
            component: root.join(raw.component),
            manifest: root.join(raw.manifest),
            sources: raw.sources.iter().map(|path| root.join(path)).collect(),
            requires: raw.requires,
            root: root.to_owned(),
        })
    }

    /// Reads the manifest of the plugin, and returns it with its text.
    pub fn manifest(&self) -> Result<(Manifest, String), ProjectError> {
        let path = self.manifest.clone();
        let limit = toolhost_contract::manifest::MAX_MANIFEST_BYTES as u64 + 1;
        let text = match read_text(&path, limit) {
            Ok(text) => text,
            Err(error) => return Err(ProjectError::Read { path, error }),
        };
        match Manifest::parse(&path.display().to_string(), &text) {
            Ok(manifest) => Ok((manifest, text)),
            Err(ManifestError { line, message, .. }) => {
                let line = line
                    .map(|line| format!("line {line}: "))
                    .unwrap_or_default();
                Err(ProjectError::Invalid {
                    path,
                    reason: format!("{line}{message}"),
                })
            }
        }
    }

    /// The workspace that examples get a copy of.
    pub fn test_workspace(&self) -> PathBuf {
        self.root.join("tests/workspace")
    }

    /// The expected results of calls.
    pub fn expected_results(&self) -> PathBuf {
        self.root.join("tests/examples.json")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "command = [\"make\"]\ncomponent = \"out/x.wasm\"\nsources = [\"src\"]\n";

    #[test]
    fn paths_are_relative_to_the_project() {
        let project = Project::parse(Path::new("/p"), GOOD).unwrap();
        assert_eq!(project.component, Path::new("/p/out/x.wasm"));
        assert_eq!(project.manifest, Path::new("/p/plugin.toml"));
        assert_eq!(project.sources, [Path::new("/p/src")]);
    }

    #[test]
    fn wrong_files_are_refused_with_the_reason() {
        let cases = [
            (
                "command = []\ncomponent = \"x\"\nsources = [\"s\"]",
                "`command` is empty",
            ),
            (
                "command = [\"a\"]\ncomponent = \"../x\"\nsources = [\"s\"]",
                "`../x` is not a path below the project",
            ),
            (
                "command = [\"a\"]\ncomponent = \"/x\"\nsources = [\"s\"]",
                "`/x` is not a path below the project",
            ),
            (
                "command = [\"a\"]\ncomponent = \"x\"\nsources = []",
                "`sources` is empty",
            ),
            (
                "command = [\"a\"]\ncomponent = \"x\"\nsources = [\"s\"]\n\"\u{1b}\" = 1",
                "unknown field",
            ),
            ("component = \"x\"\nsources = []", "missing field `command`"),
        ];
        for (text, expected) in cases {
            let text = text.replace('\u{1b}', "\\u001b");
            let reason = Project::parse(Path::new("/p"), &text).unwrap_err();
            assert!(reason.contains(expected), "{reason}");
            assert!(!reason.contains('\u{1b}'), "{reason}");
        }
    }

    #[test]
    fn a_directory_without_the_file_is_an_error_with_a_remedy() {
        let empty = tempfile::tempdir().unwrap();
        let error = Project::read(empty.path()).unwrap_err().to_string();
        assert!(
            error.ends_with(
                "toolhost-build.toml: no such file; `host new` creates a project that has one"
            ),
            "{error}"
        );
    }
}
