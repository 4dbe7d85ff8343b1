//! The plugin directories that are watched, which can be missing or replaced while the host runs.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use toolhost_contract::text;

use crate::exit::{CliError, Exit};
use crate::terminal::note;

pub struct WatchedDirectories {
    watcher: RecommendedWatcher,
    plugins: Vec<PathBuf>,
    states: BTreeMap<PathBuf, State>,
}

#[derive(Clone, PartialEq, Eq)]
enum State {
    Watched {
        device: u64,
        inode: u64,
    },
    Missing,
    /// With the reason.
    Failed(String),
}

impl WatchedDirectories {
    /// Watches the directories of plugin files. One that is missing is watched once it exists.
    pub fn new(watcher: RecommendedWatcher, plugins: &[PathBuf]) -> Result<Self, CliError> {
        let mut directories = Self {
            watcher,
            plugins: plugins.to_owned(),
            states: BTreeMap::new(),
        };
        for directory in find_directories(plugins) {
            let state = directories.watch(&directory);
            if let State::Failed(reason) = &state {
                let message = format!("--watch {}: {reason}", directory.display());
                return Err(CliError::new(Exit::Usage, message));
            }
            report(&directory, None, &state);
            directories.states.insert(directory, state);
        }
        Ok(directories)
    }

    /// Watches the directories that have these paths now, and reports those that are missing or exist again. Returns
    /// whether one was replaced, removed or created.
    pub fn watch_again(&mut self) -> bool {
        let mut has_changed = false;
        for directory in find_directories(&self.plugins) {
            let state = self.watch(&directory);
            let before = self.states.insert(directory.clone(), state.clone());
            if before.as_ref() != Some(&state) {
                report(&directory, before.as_ref(), &state);
                has_changed = true;
            }
        }
        has_changed
    }

    fn watch(&mut self, directory: &Path) -> State {
        let Ok(metadata) = directory.metadata() else {
            return State::Missing;
        };
        // Also if it is watched already: the system watches a directory, and the path may name another one by now.
        match self.watcher.watch(directory, RecursiveMode::NonRecursive) {
            Ok(()) => State::Watched {
                device: metadata.dev(),
                inode: metadata.ino(),
            },
            Err(_) if !directory.exists() => State::Missing,
            Err(error) => State::Failed(error.to_string()),
        }
    }
}

fn report(directory: &Path, before: Option<&State>, now: &State) {
    let directory = text::escape_line(&directory.to_string_lossy(), 400);
    match (before, now) {
        (_, State::Missing) => note(&format!(
            "note: {directory} does not exist; it is watched once it exists"
        )),
        (_, State::Failed(reason)) => note(&format!("error: --watch {directory}: {reason}")),
        (Some(State::Missing | State::Failed(_)), State::Watched { .. }) => {
            note(&format!("note: {directory} is watched"));
        }
        (None | Some(State::Watched { .. }), State::Watched { .. }) => {}
    }
}

/// The directories of plugin files. A file is watched in its directory, because builds replace it.
fn find_directories(plugins: &[PathBuf]) -> BTreeSet<PathBuf> {
    let directory = |path: &PathBuf| {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        // A build may have removed the file.
        let is_file = path.is_file() || path.extension().is_some_and(|kind| kind == "wasm");
        match path.parent().filter(|_| is_file && !path.is_dir()) {
            Some(parent) => parent.to_owned(),
            None => path,
        }
    };
    plugins.iter().map(directory).collect()
}
