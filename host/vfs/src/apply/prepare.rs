//! Makes new content ready beside its place: written, with its permissions and on disk before anyone sees it.

use std::{fs::File, os::fd::AsFd, path::Path};

use rustix::{
    fs::{CWD, Gid, Mode, OFlags, RenameFlags, Uid, XattrFlags},
    io::Errno,
};

use super::{
    ApplyError, Source,
    moves::remove,
    roots::{PERMISSIONS, Spot},
    run::is_denied,
};
use crate::{ContentHash, FileImage, Kind, Stat, blobs::copy_hashed};

/// Where the new content is.
#[derive(Debug)]
pub(super) enum Ready {
    /// Aside, to be renamed to its place.
    Aside(File),
    /// Still at its source: nothing can be made beside the place, though the file there may be writable.
    InPlace(File),
    /// Aside as well, and not a new file.
    Done,
}

/// `place` has the file that will be replaced, or nothing.
pub(super) fn file(
    source: &Source,
    image: &FileImage,
    place: Option<&Spot>,
    aside: &Spot,
    replaces: bool,
) -> Result<Ready, ApplyError> {
    let (Source::Take(path) | Source::Keep(path)) = source;
    let content = open_source(path).map_err(aside.failed("open the new content of"))?;
    let moved = match source {
        Source::Keep(_) => Err(Errno::XDEV),
        Source::Take(_) => {
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
            dress(&file, image, place, replaces).map_err(aside.failed("set the mode of"))?;
            Ok(Ready::Aside(file))
        }
        Err(error) if replaces && is_denied(&error) => {
            let content = open_source(path).map_err(aside.failed("open the new content of"))?;
            check_content(&content, image, aside)?;
            Ok(Ready::InPlace(content))
        }
        Err(error) => Err(error),
    }
}

fn copied(content: &File, image: &FileImage, aside: &Spot) -> Result<File, ApplyError> {
    let file = aside
        .open(OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
        .map_err(aside.failed("write"))?;
    let failed = match copy_hashed(content, &file) {
        Ok(copied) if copied == (image.hash, image.size) => return Ok(file),
        Ok(_) => ApplyError::Content(aside.at.clone()),
        Err(error) => aside.io("write", error),
    };
    remove(aside)?;
    Err(failed)
}

/// What a person agreed to is what comes, so the bytes are looked at once more.
fn check_content(content: &File, image: &FileImage, aside: &Spot) -> Result<(), ApplyError> {
    let hash = ContentHash::of_reader(content).map_err(|error| aside.io("read", error))?;
    if hash == image.hash {
        Ok(())
    } else {
        Err(ApplyError::Content(aside.at.clone()))
    }
}

fn open_source(path: &Path) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    match Stat::from(rustix::fs::fstat(&file)?).kind {
        Kind::File => Ok(File::from(file)),
        _ => Err(Errno::INVAL),
    }
}

/// Owner, group, extended attributes and mode. All but the mode as far as we may.
fn dress(
    file: &File,
    image: &FileImage,
    place: Option<&Spot>,
    replaces: bool,
) -> Result<(), Errno> {
    if let Some(place) = place {
        if replaces {
            if let Ok(old) = place.open_file() {
                own_like(file, &old);
                attributes_like(file, &old);
            }
        } else {
            inherit_group(file, place);
        }
    }
    rustix::fs::fchmod(file, Mode::from_raw_mode(image.mode & PERMISSIONS))
}

fn own_like(file: &File, old: &File) {
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

fn attributes_like(file: &File, old: &File) {
    // A program's capabilities are not for content that somebody else wrote.
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

/// In a directory whose group is meant for all that is in it, new things get that group.
pub(super) fn inherit_group(new: impl AsFd, place: &Spot) -> bool {
    const SET_GROUP: u32 = 0o2000;
    let Ok(parent) = rustix::fs::fstat(&place.dir) else {
        return false;
    };
    let inherits = parent.st_mode & SET_GROUP != 0;
    if inherits {
        let _ = rustix::fs::fchown(new, None, Some(Gid::from_raw(parent.st_gid)));
    }
    inherits
}
