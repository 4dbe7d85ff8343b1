//! The plugin that an author tests or reviews: a file, or a project that is built first.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use toolhost_authoring::Project;
use toolhost_contract::text;

use super::{build, pack_project};
use crate::exit::{CliError, Exit, OrExit as _};

pub struct Target {
    /// The plugin file.
    pub file: PathBuf,
    pub project: Option<Project>,
    /// Contains the plugin of a project.
    _directory: Option<TempDir>,
}

impl Target {
    /// A directory is a project, which is built.
    pub async fn open(path: &Path) -> Result<Self, CliError> {
        let path = std::path::absolute(path).or_exit(Exit::Usage)?;
        if !path.exists() {
            let shown = text::escape_line(&path.to_string_lossy(), 4_096);
            let message = format!(
                "{shown} does not exist; name a plugin file, or the directory of a project"
            );
            return Err(CliError::new(Exit::Usage, message));
        }
        if !path.is_dir() {
            return Ok(Self {
                file: path,
                project: None,
                _directory: None,
            });
        }
        let project = Project::read(&path).or_exit(Exit::Config)?;
        let directory = tempfile::tempdir().or_exit(Exit::Internal)?;
        let (manifest, _) = project.manifest().or_exit(Exit::Config)?;
        build(&project).await?;
        let file = directory.path().join(format!("{}.wasm", manifest.name));
        pack_project(&project, &file)?;
        Ok(Self {
            file,
            project: Some(project),
            _directory: Some(directory),
        })
    }
}
