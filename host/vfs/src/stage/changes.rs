//! Computes the list of changes of a call, which is shown to the user and committed.

use std::{
    collections::BTreeSet,
    fs::File,
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;

use super::{
    base::Base,
    difference::After,
    layers::Layers,
    pool::{PoolItem, path_error},
    real::RealEntry,
};
use crate::{
    BaseStat, Change, ContentHash, EntryKind, FileState, Location, PathError, PathState, Scope,
    Stat,
};

/// One change, with its new content and the state it is based on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedChange {
    pub change: Change,
    /// A file in the pool that may be renamed to its target. `None` for entries without content, or only moved.
    pub content: Option<PathBuf>,
    /// Metadata of the real entry at this path, or at the source of the move. For a directory only the identity is
    /// meaningful, because its timestamps depend on its entries.
    pub base: Option<BaseStat>,
}

/// Why the changes of a call cannot be determined, and so not committed.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    #[error("`{path}` was changed by another process while the call ran; run the call again", path = escaped(.0))]
    Changed(PathBuf),
    #[error("`{path}` has a name that is not valid UTF-8; rename it first", path = escaped(.0))]
    NotUtf8(PathBuf),
    #[error("`{path}` is a socket, a FIFO or a device and cannot be moved; leave it where it is", path = escaped(.0))]
    Special(PathBuf),
    /// The path is not shown to the guest.
    #[error(
        "the call would create or change a file under a name that a grant excludes; its changes were discarded"
    )]
    Excluded,
    #[error("`{path}` is no longer below a granted directory; run the call again", path = escaped(.0))]
    Outside(PathBuf),
    #[error(
        "the call wrote {bytes} bytes, and the limit is {limit}; write less or raise the limit"
    )]
    TooManyBytes { bytes: u64, limit: u64 },
    #[error("the call changed more than {0} files; change fewer or raise the limit")]
    TooManyFiles(usize),
    #[error("cannot determine the changes of `{path}`: {source}", path = escaped(.path))]
    Failed {
        path: PathBuf,
        #[source]
        source: PathError,
    },
}

/// Escapes control characters: the guest chose the name, and it may be printed to a terminal.
fn escaped(path: &Path) -> String {
    path.to_string_lossy().escape_debug().to_string()
}

impl Layers {
    pub(super) fn changes(&mut self, scope: &Scope) -> Result<Vec<StagedChange>, StageError> {
        self.check_bytes()?;
        let difference = self.difference()?;
        let mut staged = Vec::new();
        for (path, real) in &difference.moves {
            staged.push(moved(scope, path, real)?);
        }
        let paths: BTreeSet<&PathBuf> = difference
            .before
            .keys()
            .chain(difference.after.keys())
            .collect();
        for path in paths {
            let there = difference.before.get(path);
            let before = match there {
                Some(there) => there.image(path)?,
                None => PathState::Absent,
            };
            let (after, content) = match difference.after.get(path) {
                Some(after) => self.image(path, after)?,
                None => (PathState::Absent, None),
            };
            if before == after {
                continue;
            }
            let change = Change {
                at: location(scope, path)?,
                before,
                after,
                moved_from: None,
            };
            let base = there.map(|there| BaseStat::from(&there.base.stat));
            staged.push(StagedChange {
                change,
                content,
                base,
            });
        }
        if scope.hides_names() {
            check_not_excluded(scope, &staged)?;
        }
        staged.sort_by(|one, other| one.change.at.cmp(&other.change.at));
        // Copies made for moved files that are reported as new count too.
        self.check_bytes()?;
        Ok(staged)
    }

    fn check_bytes(&self) -> Result<(), StageError> {
        let Some(pool) = &self.pool else {
            return Ok(());
        };
        let bytes = pool.bytes().map_err(|error| StageError::Failed {
            path: self.parent.clone(),
            source: path_error(&error),
        })?;
        let limit = self.limits.bytes;
        if bytes > limit {
            return Err(StageError::TooManyBytes { bytes, limit });
        }
        Ok(())
    }

    /// The content of a moved file that is reported as new. The copy is reused on later calls.
    pub(super) fn copy_of(
        &mut self,
        path: &Path,
        there: &RealEntry,
    ) -> Result<PoolItem, StageError> {
        let failed = |source| StageError::Failed {
            path: path.to_owned(),
            source,
        };
        let limit = self.limits.bytes;
        let file = there.file(path)?;
        let known = self.copies.get(path).cloned();
        let pool = self.pool().map_err(failed)?;
        if let Some((base, item)) = known
            && base.stat.id == there.base.stat.id
            && pool.name(item).is_ok()
        {
            // The copy has the content that was shown.
            if !base.is_unchanged(&there.base.stat) {
                return Err(StageError::Changed(path.to_owned()));
            }
            return Ok(item);
        }
        let left = pool.remaining_bytes(limit).map_err(failed)?;
        if there.base.stat.size > left {
            let bytes = pool
                .bytes()
                .unwrap_or(0)
                .saturating_add(there.base.stat.size);
            return Err(StageError::TooManyBytes { bytes, limit });
        }
        let item = pool.copy(&file, &there.base, left).map_err(failed)?;
        there.check(path, &file)?;
        self.copies
            .insert(path.to_owned(), (there.base.clone(), item));
        Ok(item)
    }

    /// The current state of a path, and the pool file that holds its content.
    fn image(
        &mut self,
        path: &Path,
        after: &After,
    ) -> Result<(PathState, Option<PathBuf>), StageError> {
        let failed = |source| StageError::Failed {
            path: path.to_owned(),
            source,
        };
        let item = match after {
            After::Item(item) => *item,
            After::Moved(there) if there.base.stat.kind == EntryKind::File => {
                self.copy_of(path, there)?
            }
            After::Moved(there) => return Ok((there.image(path)?, None)),
        };
        let pool = self.pool().map_err(failed)?;
        let content = pool.path_of(item);
        if item.kind != EntryKind::File {
            let fd = pool.name(item).map_err(|errno| failed(errno.into()))?;
            let base = Base::of(fd).map_err(failed)?;
            return Ok((base.image(|| Err(failed(PathError::Invalid)))?, None));
        }
        let fd = pool
            .open_with(item, OFlags::RDONLY | OFlags::CLOEXEC)
            .map_err(failed)?;
        let base = Base::of(&fd).map_err(failed)?;
        let image = base.image(|| {
            ContentHash::of_reader(File::from(fd)).map_err(|error| failed(path_error(&error)))
        })?;
        Ok((image, Some(content)))
    }
}

impl Base {
    fn image(
        &self,
        hash: impl FnOnce() -> Result<ContentHash, StageError>,
    ) -> Result<PathState, StageError> {
        Ok(match (&self.target, self.stat.kind) {
            (Some(target), _) => PathState::Link {
                target: target.clone(),
            },
            (None, EntryKind::Directory) => PathState::Dir { mode: self.mode },
            (None, _) => PathState::File(FileState {
                hash: hash()?,
                size: self.stat.size,
                mode: self.mode,
            }),
        })
    }
}

impl RealEntry {
    fn image(&self, path: &Path) -> Result<PathState, StageError> {
        self.base.image(|| {
            let file = self.file(path)?;
            let hash = ContentHash::of_reader(&file).map_err(|error| StageError::Failed {
                path: path.to_owned(),
                source: path_error(&error),
            })?;
            self.check(path, &file)?;
            Ok(hash)
        })
    }

    fn file(&self, path: &Path) -> Result<File, StageError> {
        let file = self.open(OFlags::RDONLY).map_err(|refusal| match refusal {
            PathError::NotFound | PathError::NotDirectory | PathError::Loop => {
                StageError::Changed(path.to_owned())
            }
            source => StageError::Failed {
                path: path.to_owned(),
                source,
            },
        })?;
        let file = File::from(file);
        self.check(path, &file)?;
        Ok(file)
    }

    fn check(&self, path: &Path, file: &File) -> Result<(), StageError> {
        match Stat::of(file) {
            Ok(stat) if self.base.is_unchanged(&stat) => Ok(()),
            _ => Err(StageError::Changed(path.to_owned())),
        }
    }
}

/// A directory that the call created and then moved has given its entries paths that no walk has checked.
fn check_not_excluded(scope: &Scope, staged: &[StagedChange]) -> Result<(), StageError> {
    for one in staged {
        let Change { at, after, .. } = &one.change;
        let path = at.root.join(&at.path);
        if scope.is_path_excluded(&path, matches!(after, PathState::Dir { .. })) {
            return Err(StageError::Excluded);
        }
    }
    Ok(())
}

fn moved(scope: &Scope, path: &Path, real: &RealEntry) -> Result<StagedChange, StageError> {
    Ok(StagedChange {
        change: Change {
            at: location(scope, path)?,
            before: PathState::Absent,
            after: real.image(path)?,
            moved_from: Some(location(scope, &real.path())?),
        },
        content: None,
        base: Some(BaseStat::from(&real.base.stat)),
    })
}

fn location(scope: &Scope, path: &Path) -> Result<Location, StageError> {
    // The innermost grant's location, so that each file has one name.
    let site = scope.location_of(path);
    let site = site.ok_or_else(|| StageError::Outside(path.to_owned()))?;
    let below = site.below.to_str();
    let below = below.ok_or_else(|| StageError::NotUtf8(path.to_owned()))?;
    Ok(Location {
        root: scope.roots()[site.root].host().to_owned(),
        path: below.to_owned(),
    })
}
