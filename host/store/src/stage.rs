//! What calls wrote and never committed is removed when their process is gone.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::place::check_dir;
use crate::{StoreError, owner};

/// Removes the directories `<owner>-<random>` of owners that are gone. What cannot be removed stays for the next
/// start: it is in nobody's way, and the store must open all the same.
pub fn sweep(stage: &Path, owners: &Path) -> Result<(), StoreError> {
    let entries = match fs::read_dir(stage) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(StoreError::io(stage, &error)),
    };
    // Where others can write, a directory could become a link while it is emptied.
    check_dir(stage)?;
    for entry in entries.flatten() {
        // A link, or a name we would not have given, is somebody else's.
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.split_once('-'));
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if let Some((owner, _)) = owner
            && is_dir
            && owner::is_name(owner)
            && !owner::lives(owners, owner)
        {
            remove(stage, owner, &entry.path());
        }
    }
    Ok(())
}

/// How deep a call nested its directories was up to the call, so neither the stack nor a path may grow with it: what is
/// found inside a directory moves up beside it. It keeps the owner's name, so that a sweep that is killed is finished
/// by the next one.
fn remove(stage: &Path, owner: &str, dir: &Path) {
    static MOVED: AtomicU64 = AtomicU64::new(0);
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        // A call may have left directories that not even their owner can write.
        let _ = fs::set_permissions(&dir, Permissions::from_mode(0o700));
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let number = MOVED.fetch_add(1, Ordering::Relaxed);
                let beside = stage.join(format!("{owner}-{}-{number}", std::process::id()));
                // To move a directory is to write in it, too.
                let _ = fs::set_permissions(entry.path(), Permissions::from_mode(0o700));
                if fs::rename(entry.path(), &beside).is_ok() {
                    left.push(beside);
                }
            } else {
                let _ = fs::remove_file(entry.path());
            }
        }
        let _ = fs::remove_dir(&dir);
    }
}
