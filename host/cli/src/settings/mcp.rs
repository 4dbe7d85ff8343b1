//! Effective `[mcp]` settings, including the prompter for MCP clients and its key.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toolhost_hostfiles::open_regular;
use toolhost_mcp_server::{ClientRequestSettings, ElicitationPrompter};

use crate::config::McpTable;
use crate::exit::{CliError, Exit, OrExit as _};

/// Maximum number of bytes read from a key file.
const MAX_KEY: u64 = 4_096;

#[derive(Debug, Clone, Default)]
pub struct McpSettings {
    pub prompts: bool,
    pub sampling: bool,
    pub roots: bool,
    pub structured: bool,
    pub state_key: Option<PathBuf>,
    /// The prompter for MCP clients, once opened.
    pub prompter: Option<Arc<ElicitationPrompter>>,
}

impl McpSettings {
    pub fn resolve(
        table: &McpTable,
        of_file: impl Fn(&str) -> Result<PathBuf, String>,
    ) -> Result<Self, String> {
        let state_key = table.state_key.as_deref().map(of_file).transpose()?;
        Ok(Self {
            // A client can answer without user interaction.
            prompts: table.ask.unwrap_or(false),
            // The client's user pays for sampling.
            sampling: table.sampling.unwrap_or(false),
            roots: table.roots.unwrap_or(false),
            structured: table.structured.unwrap_or(false),
            state_key,
            prompter: None,
        })
    }

    /// Creates the prompter. Must be called before the kernel is created.
    pub fn open_prompter(&mut self) -> Result<Option<Arc<ElicitationPrompter>>, CliError> {
        if !self.prompts && !self.sampling {
            return Ok(None);
        }
        let key = self.state_key.as_deref().map(read_key).transpose();
        let key = key.map_err(|error| CliError::new(Exit::Config, error))?;
        let asks = ClientRequestSettings {
            questions: self.prompts,
            sampling: self.sampling,
        };
        let prompter = Arc::new(ElicitationPrompter::new(asks, key).or_exit(Exit::Config)?);
        self.prompter = Some(Arc::clone(&prompter));
        Ok(Some(prompter))
    }
}

/// Reads the key, which only its owner may read, because it allows answering for every user.
fn read_key(path: &Path) -> Result<Vec<u8>, String> {
    let wrong = |why: String| format!("key file `{}` {why}", path.display());
    let file = open_regular(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let about = file.metadata();
    let about = about.map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let mode = about.permissions().mode() & 0o777;
    if !about.is_file() || mode & 0o077 != 0 {
        return Err(wrong(format!(
            "is accessible by other users (mode {mode:o}); run `chmod 600` on it"
        )));
    }
    let mut key = Vec::new();
    let read = file.take(MAX_KEY).read_to_end(&mut key);
    read.map_err(|error| wrong(format!("cannot be read: {error}")))?;
    while key.last().is_some_and(u8::is_ascii_whitespace) {
        key.pop();
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};

    use super::*;

    fn settings(text: &str) -> McpSettings {
        let table: McpTable = toml::from_str(text).unwrap();
        McpSettings::resolve(&table, |path| Ok(PathBuf::from(path))).unwrap()
    }

    #[test]
    fn clients_are_not_prompted_by_default() {
        let mut quiet = settings("");
        assert!(!quiet.roots);
        assert!(quiet.open_prompter().unwrap().is_none());
        assert!(settings("ask = true").open_prompter().unwrap().is_some());
        assert!(
            settings("sampling = true")
                .open_prompter()
                .unwrap()
                .is_some()
        );
        assert!(settings("roots = true").roots);
    }

    #[test]
    fn a_key_file_must_be_private_and_long_enough() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let open = || {
            let text = format!("ask = true\nstate_key = {:?}", path.display().to_string());
            settings(&text).open_prompter().map(drop)
        };
        assert!(open().is_err());
        write(&path, "a key that is long enough, so it is\n").unwrap();
        set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert!(open().is_err());
        set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert!(open().is_ok());
        write(&path, "short\n").unwrap();
        assert!(open().is_err());
    }
}
