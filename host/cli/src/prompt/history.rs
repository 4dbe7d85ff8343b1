//! Creates the history file of the prompt, readable only by the user because it can contain secrets.

use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Creates the history file. Returns `None` on failure; the prompt works without it.
pub fn create(state: &Path) -> Option<PathBuf> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(state)
        .ok()?;
    let path = state.join("history");
    // The mode applies only to a new file, so an existing one is fixed as well.
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(&path)
        .ok()?;
    file.set_permissions(PermissionsExt::from_mode(0o600))
        .ok()?;
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_user_reads_the_history() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state/toolhost");
        for _ in 0..2 {
            let path = create(&state).unwrap();
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        }
        assert_eq!(
            state.metadata().unwrap().permissions().mode() & 0o777,
            0o700
        );
    }
}
