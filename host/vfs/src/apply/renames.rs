//! Atomic renames and removals of single entries.

use rustix::{
    fs::{AtFlags, RenameFlags},
    io::Errno,
};

use super::{
    ApplyError,
    roots::{EntryRef, Observation},
};
use crate::{BaseStat, FileId};

/// Renames to a name that must be free; `false` if it is taken.
pub(super) fn rename_new(from: &EntryRef, to: &EntryRef) -> Result<bool, ApplyError> {
    match rename(from, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        // This file system does not support `RENAME_NOREPLACE`. Checking first leaves a small race.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if to.stat().is_none() => {
            rename(from, to, RenameFlags::empty()).map_err(rename_error(from, to))?;
            Ok(true)
        }
        Err(Errno::INVAL) if to.stat().is_some() => Ok(false),
        Err(errno) => Err(rename_error(from, to)(errno)),
    }
}

/// Exchanges `new` with `old`, which must still be what was `seen` there; `false` otherwise.
///
/// The old file is then at `new`, or gone if the file system does not support exchange.
pub(super) fn exchange(
    new: &EntryRef,
    old: &EntryRef,
    observation: &Observation,
) -> Result<bool, ApplyError> {
    match rename(new, old, RenameFlags::EXCHANGE) {
        Ok(()) => {}
        Err(Errno::NOENT) if old.stat().is_none() => return Ok(false),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            if !is_unchanged(old.stat(), observation) {
                return Ok(false);
            }
            rename(new, old, RenameFlags::empty()).map_err(rename_error(new, old))?;
            return Ok(true);
        }
        Err(errno) => return Err(rename_error(new, old)(errno)),
    }
    // Another process can save the file between the check and the exchange; its file is then restored.
    if is_unchanged(new.stat(), observation) {
        return Ok(true);
    }
    rename(new, old, RenameFlags::EXCHANGE).map_err(rename_error(new, old))?;
    Ok(false)
}

/// Moves `entry` to `aside`; `false` if it has changed since the `observation`.
pub(super) fn move_aside(
    entry: &EntryRef,
    aside: &EntryRef,
    observation: &Observation,
) -> Result<bool, ApplyError> {
    if !rename_new(entry, aside)? {
        return Err(entry.io("move aside", Errno::EXIST.into()));
    }
    if is_unchanged(aside.stat(), observation) {
        return Ok(true);
    }
    rename_new(aside, entry)?;
    Ok(false)
}

/// A rename changes the ctime, and a directory's timestamps depend on its entries, so only the other fields are
/// compared.
fn is_unchanged(now: Option<BaseStat>, observation: &Observation) -> bool {
    let key = |stat: BaseStat| -> (FileId, u64, _) { (stat.id, stat.size, stat.modified) };
    now.map(key) == observation.stat.map(key)
}

/// Removes a file or directory that this crate prepared or displaced; `false` for a directory that is not empty.
pub(super) fn remove(spot: &EntryRef) -> Result<bool, ApplyError> {
    let unlinked = match rustix::fs::unlinkat(&spot.dir, &spot.name, AtFlags::empty()) {
        Err(Errno::ISDIR) => rustix::fs::unlinkat(&spot.dir, &spot.name, AtFlags::REMOVEDIR),
        done => done,
    };
    match unlinked {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
        Err(errno) => Err(spot.failed("remove")(errno)),
    }
}

fn rename(from: &EntryRef, to: &EntryRef, flags: RenameFlags) -> Result<(), Errno> {
    rustix::fs::renameat_with(&from.dir, &from.name, &to.dir, &to.name, flags)
}

fn rename_error<'a>(from: &'a EntryRef, to: &'a EntryRef) -> impl Fn(Errno) -> ApplyError + 'a {
    move |errno| match errno {
        Errno::XDEV => ApplyError::AcrossFileSystems {
            from: from.at.clone(),
            to: to.at.clone(),
        },
        other => to.failed("write")(other),
    }
}
