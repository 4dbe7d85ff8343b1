//! Discovery of plugin files in the configured directories.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use toolhost_contract::text;

/// A plugin or plugin directory that could not be loaded.
pub struct BrokenPlugin {
    pub path: PathBuf,
    /// One line of at most [`Broken::MAX_REASON`] characters, with invisible characters escaped.
    pub reason: String,
}

impl BrokenPlugin {
    pub const MAX_REASON: usize = 2_000;

    pub(super) fn new(path: PathBuf, reason: &str) -> Self {
        // Leaves room for the truncation mark.
        let reason = text::escape_line(reason, Self::MAX_REASON - 40);
        Self { path, reason }
    }
}

/// The plugin files, sorted within each directory and without duplicates, and the paths that contain none.
pub fn find_plugin_files(paths: &[PathBuf]) -> (Vec<PathBuf>, Vec<BrokenPlugin>) {
    let mut seen = BTreeSet::new();
    let mut files = Vec::new();
    let mut broken = Vec::new();
    for path in paths {
        match files_in(path) {
            Ok(found) => {
                for file in found {
                    // Two names of the same directory count once.
                    if !seen.insert(file.canonicalize().unwrap_or_else(|_| file.clone())) {
                        continue;
                    }
                    match check_symlink(path, &file) {
                        Err(reason) if path.is_dir() => {
                            broken.push(BrokenPlugin::new(file, &reason));
                        }
                        _ => files.push(file),
                    }
                }
            }
            Err(reason) => broken.push(BrokenPlugin::new(path.clone(), &reason)),
        }
    }
    (files, broken)
}

fn files_in(path: &Path) -> Result<Vec<PathBuf>, String> {
    let metadata = path.metadata().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            "no such file or directory; correct --plugins, or build the plugins first".to_owned()
        }
        _ => format!("cannot be read: {error}"),
    })?;
    if !metadata.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let is_plugin = |path: &PathBuf| {
        path.extension()
            .is_some_and(|extension| extension == "wasm")
    };
    let entries = path
        .read_dir()
        .map_err(|error| format!("cannot be read: {error}"))?;
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(is_plugin)
        .collect();
    files.sort();
    if files.is_empty() {
        Err("no *.wasm files in this directory".to_owned())
    } else {
        Ok(files)
    }
}

/// Rejects a symlink out of the plugin directory, so that a directory contains everything that is loaded from it.
fn check_symlink(folder: &Path, file: &Path) -> Result<(), String> {
    if !file.is_symlink() {
        return Ok(());
    }
    let real = |path: &Path| {
        path.canonicalize()
            .map_err(|error| format!("cannot be read: {error}"))
    };
    let target = real(file)?;
    if target.starts_with(real(folder)?) {
        return Ok(());
    }
    let shown = text::escape_line(&target.to_string_lossy(), 400);
    Err(format!(
        "symlink to {shown} outside the directory; copy the file into the directory, or add `--plugins {shown}`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_16_a_symlink_out_of_a_plugin_directory_is_rejected_with_a_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, outside) = (dir.path().join("plugins"), dir.path().join("other"));
        std::fs::create_dir_all(folder.join("versions")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        for file in [folder.join("versions/a-1.wasm"), outside.join("b.wasm")] {
            std::fs::write(file, "").unwrap();
        }
        for (target, name) in [
            ("versions/a-1.wasm", "a.wasm"),
            ("../other/b.wasm", "b.wasm"),
            ("c.wasm", "c.wasm"),
            ("/dev/zero", "d.wasm"),
        ] {
            std::os::unix::fs::symlink(target, folder.join(name)).unwrap();
        }
        let (files, broken) = find_plugin_files(std::slice::from_ref(&folder));
        assert_eq!(files, [folder.join("a.wasm")]);
        let names: Vec<_> = broken.iter().map(|broken| broken.path.clone()).collect();
        let names_of = ["b.wasm", "c.wasm", "d.wasm"].map(|name| folder.join(name));
        assert_eq!(names, names_of);
        let target = outside.join("b.wasm").canonicalize().unwrap();
        let remedy = format!("or add `--plugins {}`", target.display());
        assert!(broken[0].reason.contains(&remedy), "{}", broken[0].reason);
        // A symlink that is given explicitly is followed.
        let (files, broken) = find_plugin_files(&[folder.join("b.wasm")]);
        assert_eq!((files.len(), broken.len()), (1, 0));
    }

    #[test]
    fn plugin_files_are_found_once_and_in_order() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b.wasm", "a.wasm", "readme.md"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let (at, empty) = (dir.path().to_owned(), dir.path().join("empty"));
        std::fs::create_dir(&empty).unwrap();
        let (files, broken) = find_plugin_files(&[
            at.clone(),
            at.join("empty/.."),
            at.join("a.wasm"),
            empty,
            at.join("missing"),
        ]);
        assert_eq!(files, [at.join("a.wasm"), at.join("b.wasm")]);
        let reasons: Vec<_> = broken.iter().map(|broken| broken.reason.as_str()).collect();
        assert_eq!(
            reasons,
            [
                "no *.wasm files in this directory",
                "no such file or directory; correct --plugins, or build the plugins first"
            ]
        );
    }
}
