//! From what the operator named to the files to load.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::Broken;

/// The plugin files, sorted within each folder and each once; and the places where there are none.
pub fn find(places: &[PathBuf]) -> (Vec<PathBuf>, Vec<Broken>) {
    let mut seen = BTreeSet::new();
    let mut files = Vec::new();
    let mut broken = Vec::new();
    for place in places {
        match files_in(place) {
            Ok(found) => files.extend(found.into_iter().filter(|file| {
                // The same folder under two names is still one folder.
                seen.insert(file.canonicalize().unwrap_or_else(|_| file.clone()))
            })),
            Err(reason) => broken.push(Broken {
                path: place.clone(),
                reason,
            }),
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

#[cfg(test)]
mod tests {
    use super::*;

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
