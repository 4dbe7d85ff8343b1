//! Files of commands that run outside of the sandbox: hooks and sub-agents.

use std::path::{Path, PathBuf};

use super::{HookKind, Settings};

impl Settings {
    /// The programs of all hooks and sub-agents, and files in their arguments, such as scripts. A tool with write
    /// access to one of them could run arbitrary code with the operator's privileges.
    pub(crate) fn all_command_files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for hook in &self.hooks {
            if let HookKind::Command(command) = &hook.kind {
                let program = command.program.to_string_lossy();
                files.extend(command_files(&command.dir, &program, &command.args));
            }
        }
        let here = std::env::current_dir().unwrap_or_default();
        for agent in &self.external_access.agents {
            if let Some((program, arguments)) = agent.command.split_first() {
                files.extend(command_files(&here, program, arguments));
            }
        }
        files
    }
}

/// The absolute paths of a program that is started in `dir`, and of files in its arguments.
pub fn command_files(dir: &Path, program: &str, arguments: &[String]) -> Vec<PathBuf> {
    let program = if program.contains('/') {
        Some(dir.join(program))
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut found = std::env::split_paths(&path).map(|entry| dir.join(entry).join(program));
        found.find(|file| file.is_file())
    };
    let named = arguments
        .iter()
        // Also `--script=FILE`.
        .flat_map(|argument| {
            [
                Some(argument.as_str()),
                argument.split_once('=').map(|(_, value)| value),
            ]
        })
        .flatten()
        .map(|argument| dir.join(argument))
        .filter(|file| file.is_file());
    let files = program.into_iter().chain(named);
    files.filter(|file| file.is_absolute()).collect()
}
