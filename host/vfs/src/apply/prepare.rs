//! Prepares new content next to its target, with permissions and durable, before it becomes visible.

use std::{fs::File, os::fd::AsFd, path::Path};

use rustix::{
    fs::{CWD, Gid, Mode, OFlags, RenameFlags, Uid, XattrFlags},
    io::Errno,
};

use super::{ApplyError, ContentSource, renames::remove, roots::EntryRef, run::is_denied};
use crate::{ContentHash, EntryKind, FileState, PERMISSIONS, Stat, blob_store::copy_and_hash};

/// State of the new content.
#[derive(Debug)]
pub(super) enum PreparedContent {
    /// Prepared, to be renamed to its target.
    Aside(File),
    /// Still at its source: no file can be created next to the target, although the target itself may be writable.
    InPlace(File),
    /// Prepared, but not a new file: a rename of the source.
    Done,
}

/// `entry` is the file that will be replaced, if any.
pub(super) fn file(
    source: &ContentSource,
    image: &FileState,
    entry: Option<&EntryRef>,
    aside: &EntryRef,
    replaces: bool,
) -> Result<PreparedContent, ApplyError> {
    let (ContentSource::Move(path) | ContentSource::Copy(path)) = source;
    let content = open_source(path).map_err(aside.failed("open the new content of"))?;
    let moved = match source {
        ContentSource::Copy(_) => Err(Errno::XDEV),
        ContentSource::Move(_) => {
            check_content(&content, image, aside)?;
            let flags = RenameFlags::NOREPLACE;
            match rustix::fs::renameat_with(CWD, path, &aside.dir, &aside.name, flags) {
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Err(Errno::XDEV),
                done => done,
            }
        }
    };
    let file = match moved {
        Ok(()) => Ok(content),
        Err(Errno::XDEV) => copied(&content, image, aside),
        Err(errno) => Err(aside.failed("write")(errno)),
    };
    match file {
        Ok(file) => {
            apply_metadata(&file, image, entry, replaces)
                .map_err(aside.failed("set the mode of"))?;
            Ok(PreparedContent::Aside(file))
        }
        Err(error) if replaces && is_denied(&error) => {
            let content = open_source(path).map_err(aside.failed("open the new content of"))?;
            check_content(&content, image, aside)?;
            Ok(PreparedContent::InPlace(content))
        }
        Err(error) => Err(error),
    }
}

fn copied(content: &File, image: &FileState, aside: &EntryRef) -> Result<File, ApplyError> {
    let file = aside
        .open(OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
        .map_err(aside.failed("write"))?;
    let failed = match copy_and_hash(content, &file) {
        Ok(copied) if copied == (image.hash, image.size) => return Ok(file),
        Ok(_) => ApplyError::ContentMismatch(aside.at.clone()),
        Err(error) => aside.io("write", error),
    };
    remove(aside)?;
    Err(failed)
}

/// Checks the hash again: only the approved content may be applied.
fn check_content(content: &File, image: &FileState, aside: &EntryRef) -> Result<(), ApplyError> {
    let hash = ContentHash::of_reader(content).map_err(|error| aside.io("read", error))?;
    if hash == image.hash {
        Ok(())
    } else {
        Err(ApplyError::ContentMismatch(aside.at.clone()))
    }
}

fn open_source(path: &Path) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    match Stat::from(rustix::fs::fstat(&file)?).kind {
        EntryKind::File => Ok(File::from(file)),
        _ => Err(Errno::INVAL),
    }
}

/// Sets owner, group, extended attributes and mode. All but the mode are best effort.
fn apply_metadata(
    file: &File,
    image: &FileState,
    entry: Option<&EntryRef>,
    replaces: bool,
) -> Result<(), Errno> {
    if let Some(entry) = entry {
        if replaces {
            if let Ok(old) = entry.open_file() {
                copy_owner(file, &old);
                copy_attributes(file, &old);
            }
        } else {
            inherit_group(file, entry);
        }
    }
    rustix::fs::fchmod(file, Mode::from_raw_mode(image.mode & PERMISSIONS))
}

fn copy_owner(file: &File, old: &File) {
    let (Ok(mine), Ok(old)) = (rustix::fs::fstat(file), rustix::fs::fstat(old)) else {
        return;
    };
    if mine.st_gid != old.st_gid {
        let _ = rustix::fs::fchown(file, None, Some(Gid::from_raw(old.st_gid)));
    }
    if mine.st_uid != old.st_uid {
        let _ = rustix::fs::fchown(file, Some(Uid::from_raw(old.st_uid)), None);
    }
}

fn copy_attributes(file: &File, old: &File) {
    // File capabilities and integrity signatures do not apply to new content.
    const LEFT: [&str; 3] = ["security.capability", "security.ima", "security.evm"];
    let mut names = vec![0; 64 * 1024];
    let Ok(length) = rustix::fs::flistxattr(old, &mut names[..]) else {
        return;
    };
    let mut value = vec![0; 64 * 1024];
    for name in names[..length]
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
    {
        if LEFT.iter().any(|left| left.as_bytes() == name) {
            continue;
        }
        if let Ok(size) = rustix::fs::fgetxattr(old, name, &mut value[..]) {
            let _ = rustix::fs::fsetxattr(file, name, &value[..size], XattrFlags::empty());
        }
    }
}

/// New entries in a set-group-id directory get its group.
pub(super) fn inherit_group(new: impl AsFd, entry: &EntryRef) -> bool {
    const SET_GROUP: u32 = 0o2000;
    let Ok(parent) = rustix::fs::fstat(&entry.dir) else {
        return false;
    };
    let inherits = parent.st_mode & SET_GROUP != 0;
    if inherits {
        let _ = rustix::fs::fchown(new, None, Some(Gid::from_raw(parent.st_gid)));
    }
    inherits
}
