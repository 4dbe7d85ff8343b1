//! Moving of files and directories by renaming, or by copying between devices.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use toolhost_sdk::prelude::*;

use crate::path::Target;

/// Limit of entries to copy between devices.
const MOST_ENTRIES: usize = 10_000;

/// How a move was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MoveMethod {
    Renamed,
    Copied,
}

/// Moves `from` to `to`. `rename` is the system call; tests pass another function.
pub fn relocate(
    cx: &Context,
    from: &Target,
    to: &Target,
    rename: impl Fn(&Path, &Path) -> io::Result<()>,
) -> Result<MoveMethod> {
    match rename(&from.path, &to.path) {
        Ok(()) => return Ok(MoveMethod::Renamed),
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
        // Both ends were checked, but not the content of a directory.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let why = format!(
                "cannot be moved to {}: it contains a protected path or a link that would leave the allowed paths, or the \
                 user of the host cannot change one of the two directories",
                to.shown
            );
            return Err(from.denied(&why));
        }
        Err(error) => return Err(to.error(&error)),
    }
    let mut entries = 0;
    check_copyable(cx, from, &from.path, &mut entries)?;
    // Copies to a temporary name next to the destination first, so that an existing file is lost only after the copy is
    // complete.
    let Some(name) = to.path.file_name() else {
        return Err(to.is_directory());
    };
    let aside = to
        .path
        .with_file_name(format!(".{}.moving", name.to_string_lossy()));
    if fs::symlink_metadata(&aside).is_ok() {
        let message = format!(
            "{} was left behind by an interrupted move; delete it",
            aside.display()
        );
        return Err(Error::failed(message).code("io_error"));
    }
    let copied = copy(cx, from, &from.path, &aside)
        .and_then(|()| rename(&aside, &to.path).map_err(|error| to.error(&error)));
    if let Err(error) = copied {
        drop(remove(&aside));
        return Err(error);
    }
    remove(&from.path).map_err(|error| {
        from.error(&error).cause(format!(
            "{} is complete, but a part of {} still exists",
            to.shown, from.shown
        ))
    })?;
    Ok(MoveMethod::Copied)
}

/// Links and special files cannot be recreated by a guest, so a tree that contains one is not moved at all.
fn check_copyable(cx: &Context, from: &Target, path: &Path, entries: &mut usize) -> Result<()> {
    cx.check()?;
    *entries += 1;
    let refuse = |message: String| Err(Error::failed(message).code("cannot_move_across_devices"));
    let shown = &from.shown;
    if *entries > MOST_ENTRIES {
        return refuse(format!(
            "{shown} is on another device and has more than {MOST_ENTRIES} entries; move its parts separately"
        ));
    }
    let explain = |error: io::Error| from.error(&error);
    let metadata = fs::symlink_metadata(path).map_err(explain)?;
    if metadata.is_dir() {
        for entry in fs::read_dir(path).map_err(explain)? {
            check_copyable(cx, from, &entry.map_err(explain)?.path(), entries)?;
        }
    } else if !metadata.is_file() {
        return refuse(format!(
            "{} is a link or special file and cannot be moved to another device",
            path.display()
        ));
    }
    Ok(())
}

/// Copies bytes, not text, so that the content does not change.
fn copy(cx: &Context, from: &Target, source: &Path, copy_to: &Path) -> Result<()> {
    cx.check()?;
    let explain = |error: io::Error| from.error(&error);
    if !fs::symlink_metadata(source).map_err(explain)?.is_dir() {
        return copy_file(source, copy_to).map_err(explain);
    }
    fs::create_dir(copy_to).map_err(explain)?;
    for entry in fs::read_dir(source).map_err(explain)? {
        let entry = entry.map_err(explain)?;
        copy(cx, from, &entry.path(), &copy_to.join(entry.file_name()))?;
    }
    Ok(())
}

fn copy_file(source: &Path, copy_to: &Path) -> io::Result<()> {
    let mut copied = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(copy_to)?;
    io::copy(&mut File::open(source)?, &mut copied)?;
    copied.sync_all()
}

fn remove(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.is_dir() {
        return fs::remove_file(path);
    }
    for entry in fs::read_dir(path)? {
        remove(&entry?.path())?;
    }
    fs::remove_dir(path)
}
