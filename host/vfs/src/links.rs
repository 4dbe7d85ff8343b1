//! Checks that symbolic links created by guests stay inside their directory. Scopes do not follow such links, but a
//! user's editor, git or indexer would.

use std::{
    ffi::CStr,
    os::fd::{AsFd, BorrowedFd},
};

use rustix::fs::{Mode, OFlags};

use crate::{
    Kind, Refusal,
    dir::kind_of,
    sys::{BENEATH, PATH_MAX, open_beneath, open_refused},
    walk::{Found, MAX_DEPTH, Place},
};

/// Maximum number of entries that are scanned before a directory may move up.
pub(crate) const MAX_MOVED: usize = 10_000;

/// Checks the target of a new link `depth` directories below its handle. `..` is allowed only at the start, where
/// it can be counted: in `d/..`, `d` can itself be a link.
pub(crate) fn check_target(target: &[u8], depth: usize) -> Result<(), Refusal> {
    match target {
        [] => return Err(Refusal::NotFound),
        [b'/', ..] => return Err(Refusal::NotPermitted),
        _ if target.contains(&0) => return Err(Refusal::Invalid),
        _ if target.len() >= PATH_MAX => return Err(Refusal::NameTooLong),
        _ => {}
    }
    let dots = target
        .split(|byte| *byte == b'/')
        .filter(|part| *part == b"..")
        .count();
    if dots > leading_ups(target) {
        Err(Refusal::NotPermitted)
    } else {
        stays_inside(target, depth)
    }
}

pub(crate) fn stays_inside(target: &[u8], depth: usize) -> Result<(), Refusal> {
    if leading_ups(target) > depth {
        Err(Refusal::NotPermitted)
    } else {
        Ok(())
    }
}

fn leading_ups(target: &[u8]) -> usize {
    target
        .split(|byte| *byte == b'/')
        .filter(|part| !part.is_empty() && *part != b".")
        .take_while(|part| *part == b"..")
        .count()
}

/// A link that points inside from a deep directory can point outside from a shallow one; so can links in a moved
/// directory.
pub(crate) fn may_point_from(
    moved: &Found,
    from: &Place<'_>,
    to: &Place<'_>,
) -> Result<(), Refusal> {
    match moved.stat.kind {
        Kind::Symlink => check_target(&target_of(moved.fd.as_fd(), c"")?, to.depth),
        Kind::Directory if to.depth < from.depth || to.start_id != from.start_id => {
            let mut budget = MAX_MOVED;
            links_stay_inside(moved.fd.as_fd(), c".", to.depth + 1, &mut budget)
        }
        _ => Ok(()),
    }
}

/// Scans the directory `name`, whose entries will be `depth` below the handle. Links that a guest could not have
/// created, for example absolute ones, belong to the user and are ignored.
fn links_stay_inside(
    parent: BorrowedFd<'_>,
    name: &CStr,
    depth: usize,
    budget: &mut usize,
) -> Result<(), Refusal> {
    if depth > MAX_DEPTH {
        return Err(Refusal::NameTooLong);
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = open_beneath(parent, name, flags, Mode::empty(), BENEATH).map_err(open_refused)?;
    for entry in rustix::fs::Dir::read_from(&dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        *budget = budget.checked_sub(1).ok_or(Refusal::TooManyEntries)?;
        match kind_of(dir.as_fd(), name, entry.file_type()) {
            Kind::Symlink => stays_inside(&target_of(dir.as_fd(), name)?, depth)?,
            Kind::Directory => links_stay_inside(dir.as_fd(), name, depth + 1, budget)?,
            _ => {}
        }
    }
    Ok(())
}

pub(crate) fn target_of(dir: BorrowedFd<'_>, name: &CStr) -> Result<Vec<u8>, Refusal> {
    Ok(rustix::fs::readlinkat(dir, name, Vec::new())?.into_bytes())
}
