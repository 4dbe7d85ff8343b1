//! From what the operator named to the files to load.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use toolhost_contract::text;

/// A plugin, or a place of plugins, that is left out.
pub struct Broken {
    pub path: PathBuf,
    /// One line of at most [`Broken::MAX_REASON`] characters, with what a person would not see escaped.
    pub reason: String,
}

impl Broken {
    pub const MAX_REASON: usize = 2_000;

    pub(super) fn new(path: PathBuf, reason: &str) -> Self {
        // The mark of what was cut off counts as well.
        let reason = text::inline(reason, Self::MAX_REASON - 40);
        Self { path, reason }
    }
}

/// The plugin files, sorted within each folder and each once; and the places where there are none.
pub fn find(places: &[PathBuf]) -> (Vec<PathBuf>, Vec<Broken>) {
    let mut seen = BTreeSet::new();
    let mut files = Vec::new();
    let mut broken = Vec::new();
    for place in places {
        match files_in(place) {
            Ok(found) => {
                for file in found {
                    // The same folder under two names is still one folder.
                    if !seen.insert(file.canonicalize().unwrap_or_else(|_| file.clone())) {
                        continue;
                    }
                    match stays_in(place, &file) {
                        Err(reason) if place.is_dir() => broken.push(Broken::new(file, &reason)),
                        _ => files.push(file),
                    }
                }
            }
            Err(reason) => broken.push(Broken::new(place.clone(), &reason)),
        }
    }
    (files, broken)
}

fn files_in(place: &Path) -> Result<Vec<PathBuf>, String> {
    let metadata = place.metadata().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            "no such folder; correct --plugins, or build the plugins first".to_owned()
        }
        _ => format!("cannot be read: {error}"),
    })?;
    if !metadata.is_dir() {
        return Ok(vec![place.to_owned()]);
    }
    let is_plugin = |path: &PathBuf| {
        path.extension()
            .is_some_and(|extension| extension == "wasm")
    };
    let entries = place
        .read_dir()
        .map_err(|error| format!("cannot be read: {error}"))?;
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(is_plugin)
        .collect();
    files.sort();
    if files.is_empty() {
        Err("there is no *.wasm in this folder".to_owned())
    } else {
        Ok(files)
    }
}

/// Refuses a link that leads out of the plugin folder: what is loaded from a folder is what an operator finds in it.
fn stays_in(folder: &Path, file: &Path) -> Result<(), String> {
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
    let shown = text::inline(&target.to_string_lossy(), 400);
    Err(format!(
        "a link that leads out of the folder, to {shown}; copy the file into the folder, or add `--plugins {shown}`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_16_a_link_out_of_a_plugin_folder_is_refused_and_says_what_to_do() {
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
        let (files, broken) = find(std::slice::from_ref(&folder));
        assert_eq!(files, [folder.join("a.wasm")]);
        let names: Vec<_> = broken.iter().map(|broken| broken.path.clone()).collect();
        let names_of = ["b.wasm", "c.wasm", "d.wasm"].map(|name| folder.join(name));
        assert_eq!(names, names_of);
        let target = outside.join("b.wasm").canonicalize().unwrap();
        let remedy = format!("or add `--plugins {}`", target.display());
        assert!(broken[0].reason.contains(&remedy), "{}", broken[0].reason);
        // A link that the operator names is followed.
        let (files, broken) = find(&[folder.join("b.wasm")]);
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
        let (files, broken) = find(&[
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
                "there is no *.wasm in this folder",
                "no such folder; correct --plugins, or build the plugins first"
            ]
        );
    }
}
