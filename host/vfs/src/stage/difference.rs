//! Computes, by path, the difference between the real tree and the staged view.
//!
//! A moved entry is reported as a move if a single rename describes it. Moves that overlap, replace another entry,
//! leave a moved directory, or whose source path is reused, are reported as removals and additions.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    ffi::OsStr,
    os::{fd::AsFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    StageError,
    base::Base,
    layers::{Home, Layers, Node},
    pool::PoolItem,
    real::{RealDir, RealEntry, open_name},
    write::list,
};
use crate::{EntryKind, FileId, PathError, walk::MAX_DEPTH};

/// Maximum number of passes that detect plain moves. A guest can build dependencies that resolve only one per pass.
const MAX_ROUNDS: usize = 8;

pub(super) enum After {
    Item(PoolItem),
    /// Moved, but must be reported as a new entry.
    Moved(RealEntry),
}

#[derive(Default)]
pub(super) struct Difference {
    pub before: BTreeMap<PathBuf, RealEntry>,
    pub after: BTreeMap<PathBuf, After>,
    /// Current path of each moved entry. Its content is still at the source.
    pub moves: Vec<(PathBuf, Arc<RealEntry>)>,
    /// Moved directories whose contents are reported under the new path.
    moved_dirs: HashSet<FileId>,
}

impl Layers {
    pub(super) fn difference(&self) -> Result<Difference, StageError> {
        let mut not_moved = HashSet::new();
        for _ in 0..MAX_ROUNDS {
            let difference = self.difference_without(&not_moved)?;
            let before = not_moved.len();
            // The leftovers of another move can be at the target of this one.
            let over = difference.moves.iter().map(|(path, _)| path);
            let over = over.filter(|path| difference.before.contains_key(*path));
            not_moved.extend(over.cloned());
            if not_moved.len() == before {
                return Ok(difference);
            }
        }
        let all = self.dirs.iter().filter_map(|(id, layer)| {
            let here = self.current_path(*id)?;
            let names = layer.slots.keys();
            Some(names.map(move |name| here.join(OsStr::from_bytes(name))))
        });
        self.difference_without(&all.flatten().collect())
    }

    /// Moves to the paths in `not_moved` are reported as removals and additions.
    fn difference_without(&self, not_moved: &HashSet<PathBuf>) -> Result<Difference, StageError> {
        let mut difference = Difference::default();
        let mut moves = Vec::new();
        let mut now = BTreeSet::new();
        // Former paths of entries, with moved directories both at their old and new path.
        let mut was = HashSet::new();
        for (id, layer) in &self.dirs {
            let here = self.current_path(*id);
            for (name, slot) in &layer.slots {
                let name = OsStr::from_bytes(name);
                if let (Some(_), Home::Real(dir)) = (&slot.under, &layer.home) {
                    was.insert(dir.path.join(name));
                    was.extend(self.current_path_of(&dir.path).map(|path| path.join(name)));
                }
                let Some(here) = here.as_ref().map(|here| here.join(name)) else {
                    continue;
                };
                match &slot.node {
                    Node::Removed => continue,
                    Node::Item(item) => {
                        difference.after.insert(here.clone(), After::Item(*item));
                    }
                    Node::Moved(real) => moves.push((here.clone(), Arc::clone(real))),
                }
                now.insert(here);
            }
        }
        let (whole, partial): (Vec<_>, Vec<_>) = moves.into_iter().partition(|(path, real)| {
            let free = !was.contains(path) && !not_moved.contains(path);
            free && self.is_plain_move(&real.path(), &now)
        });
        difference.moved_dirs = whole.iter().map(|(_, real)| real.base.stat.id).collect();
        let sources: HashSet<PathBuf> = whole.iter().map(|(_, real)| real.path()).collect();
        for layer in self.dirs.values() {
            let Home::Real(dir) = &layer.home else {
                continue;
            };
            let at = self.path_before(&dir.path, &difference.moved_dirs);
            for (name, slot) in &layer.slots {
                let Some(base) = &slot.under else { continue };
                let real = RealEntry {
                    dir: Arc::clone(dir),
                    name: name.clone(),
                    base: base.clone(),
                };
                if !sources.contains(&real.path()) {
                    let path = at.join(OsStr::from_bytes(name));
                    difference.before.insert(path, real);
                }
            }
        }
        for (path, real) in partial {
            if real.base.stat.kind == EntryKind::Directory {
                self.report_moved(&real, &path, 0, &mut difference)?;
            }
            let real = RealEntry::clone(&real);
            difference.after.insert(path, After::Moved(real));
        }
        difference.moves = whole;
        Ok(difference)
    }

    /// Whether a move can be reported and committed as one rename: the source path is free, and no other move takes
    /// away its directory.
    fn is_plain_move(&self, from: &Path, now: &BTreeSet<PathBuf>) -> bool {
        let above = from.parent().unwrap_or(Path::new("/"));
        self.nearest_moved(above).is_none() && !from.ancestors().any(|path| now.contains(path))
    }

    /// The path under which the real entries of a directory are reported as before.
    fn path_before(&self, path: &Path, moved_whole: &HashSet<FileId>) -> PathBuf {
        for above in path.ancestors() {
            if let Some(id) = self.moved.get(above)
                && moved_whole.contains(id)
                && let (Some(now), Ok(rest)) = (self.current_path(*id), path.strip_prefix(above))
            {
                return now.join(rest);
            }
        }
        path.to_owned()
    }

    /// Reports untouched entries of a moved directory as removed there and new here.
    fn report_moved(
        &self,
        moved: &RealEntry,
        now: &Path,
        depth: usize,
        difference: &mut Difference,
    ) -> Result<(), StageError> {
        let from = moved.path();
        let failed = |source: PathError| StageError::Failed {
            path: from.clone(),
            source,
        };
        if depth > MAX_DEPTH {
            return Err(failed(PathError::NameTooLong));
        }
        let fd = moved
            .name()
            .map_err(|_| StageError::Changed(from.clone()))?;
        let id = moved.base.stat.id;
        let dir = Arc::new(RealDir::inner(&moved.dir, &moved.name, id));
        let was = self.path_before(&from, &difference.moved_dirs);
        for entry in list(fd.as_fd()).map_err(failed)? {
            let entry = entry.map_err(|errno| failed(errno.into()))?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." || self.slot(id, name).is_some() {
                continue;
            }
            if difference.after.len() >= self.limits.files {
                return Err(StageError::TooManyFiles(self.limits.files));
            }
            let os_name = OsStr::from_bytes(name);
            let path = from.join(os_name);
            let fd = open_name(fd.as_fd(), name).map_err(|_| StageError::Changed(path.clone()))?;
            let base = Base::of(&fd).map_err(|refusal| match refusal {
                PathError::Unsupported => StageError::Special(path.clone()),
                PathError::NotUtf8 => StageError::NotUtf8(path.clone()),
                source => StageError::Failed { path, source },
            })?;
            let real = RealEntry {
                dir: Arc::clone(&dir),
                name: name.to_vec(),
                base,
            };
            let now = now.join(os_name);
            if real.base.stat.kind == EntryKind::Directory {
                self.report_moved(&real, &now, depth + 1, difference)?;
            }
            difference.before.insert(was.join(os_name), real.clone());
            difference.after.insert(now, After::Moved(real));
        }
        Ok(())
    }
}
