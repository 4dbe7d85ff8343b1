//! Removes the stage directories of ended processes.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::paths::check_dir;
use crate::{StoreError, owner};

/// Removes the directories `<owner>-<random>` of ended owners. Failures are left for the next start, because they
/// must not keep the store from opening.
pub fn sweep(stage: &Path, owners: &Path) -> Result<(), StoreError> {
    let entries = match fs::read_dir(stage) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(StoreError::io(stage, &error)),
    };
    // If other users can write here, a directory could be replaced by a link while it is emptied.
    check_dir(stage)?;
    for entry in entries.flatten() {
        // Links and other names were not created by the store.
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.split_once('-'));
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if let Some((owner, _)) = owner
            && is_dir
            && owner::is_name(owner)
            && !owner::is_alive(owners, owner)
        {
            remove(stage, owner, &entry.path());
        }
    }
    Ok(())
}

/// Removes a stage directory without recursion, because calls can nest directories arbitrarily deep: subdirectories
/// are first moved up next to it. They keep the owner's id in their name, so that the next sweep finishes an
/// interrupted one.
fn remove(stage: &Path, owner: &str, dir: &Path) {
    static MOVED: AtomicU64 = AtomicU64::new(0);
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        // A call can leave directories that are not writable by their owner.
        let _ = fs::set_permissions(&dir, Permissions::from_mode(0o700));
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let number = MOVED.fetch_add(1, Ordering::Relaxed);
                let target = stage.join(format!("{owner}-{}-{number}", std::process::id()));
                // Moving a directory requires write permission on it.
                let _ = fs::set_permissions(entry.path(), Permissions::from_mode(0o700));
                if fs::rename(entry.path(), &target).is_ok() {
                    left.push(target);
                }
            } else {
                let _ = fs::remove_file(entry.path());
            }
        }
        let _ = fs::remove_dir(&dir);
    }
}
