//! Checks that symbolic links created by guests stay inside their directory. Scopes do not follow such links, but a
//! user's editor, git or indexer would.

use std::{
    ffi::CStr,
    os::fd::{AsFd, BorrowedFd},
};

use rustix::fs::{Mode, OFlags};

use crate::{
    EntryKind, PathError,
    dir::kind_of,
    sys::{BENEATH, PATH_MAX, open_beneath, open_error},
    walk::{MAX_DEPTH, ResolvedEntry, ResolvedPath},
};

/// Maximum number of entries that are scanned before a directory may move up.
pub(crate) const MAX_SCANNED_ENTRIES: usize = 10_000;

/// Checks the target of a new link `depth` directories below its handle. `..` is allowed only at the start, where
/// it can be counted: in `d/..`, `d` can itself be a link.
pub(crate) fn check_target(target: &[u8], depth: usize) -> Result<(), PathError> {
    match target {
        [] => return Err(PathError::NotFound),
        [b'/', ..] => return Err(PathError::NotPermitted),
        _ if target.contains(&0) => return Err(PathError::Invalid),
        _ if target.len() >= PATH_MAX => return Err(PathError::NameTooLong),
        _ => {}
    }
    let dots = target
        .split(|byte| *byte == b'/')
        .filter(|part| *part == b"..")
        .count();
    if dots > leading_parents(target) {
        Err(PathError::NotPermitted)
    } else {
        check_link_depth(target, depth)
    }
}

pub(crate) fn check_link_depth(target: &[u8], depth: usize) -> Result<(), PathError> {
    if leading_parents(target) > depth {
        Err(PathError::NotPermitted)
    } else {
        Ok(())
    }
}

fn leading_parents(target: &[u8]) -> usize {
    target
        .split(|byte| *byte == b'/')
        .filter(|part| !part.is_empty() && *part != b".")
        .take_while(|part| *part == b"..")
        .count()
}

/// A link that points inside from a deep directory can point outside from a shallow one; so can links in a moved
/// directory.
pub(crate) fn check_moved_links(
    moved: &ResolvedEntry,
    from: &ResolvedPath<'_>,
    to: &ResolvedPath<'_>,
) -> Result<(), PathError> {
    match moved.stat.kind {
        EntryKind::Symlink => check_target(&target_of(moved.fd.as_fd(), c"")?, to.depth),
        EntryKind::Directory if to.depth < from.depth || to.start_id != from.start_id => {
            let mut budget = MAX_SCANNED_ENTRIES;
            check_links_inside(moved.fd.as_fd(), c".", to.depth + 1, &mut budget)
        }
        _ => Ok(()),
    }
}

/// Scans the directory `name`, whose entries will be `depth` below the handle. Links that a guest could not have
/// created, for example absolute ones, belong to the user and are ignored.
fn check_links_inside(
    parent: BorrowedFd<'_>,
    name: &CStr,
    depth: usize,
    budget: &mut usize,
) -> Result<(), PathError> {
    if depth > MAX_DEPTH {
        return Err(PathError::NameTooLong);
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = open_beneath(parent, name, flags, Mode::empty(), BENEATH).map_err(open_error)?;
    for entry in rustix::fs::Dir::read_from(&dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        *budget = budget.checked_sub(1).ok_or(PathError::TooManyEntries)?;
        match kind_of(dir.as_fd(), name, entry.file_type()) {
            EntryKind::Symlink => check_link_depth(&target_of(dir.as_fd(), name)?, depth)?,
            EntryKind::Directory => check_links_inside(dir.as_fd(), name, depth + 1, budget)?,
            _ => {}
        }
    }
    Ok(())
}

pub(crate) fn target_of(dir: BorrowedFd<'_>, name: &CStr) -> Result<Vec<u8>, PathError> {
    Ok(rustix::fs::readlinkat(dir, name, Vec::new())?.into_bytes())
}
