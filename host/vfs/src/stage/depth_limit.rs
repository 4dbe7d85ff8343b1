//! Depth limits for moved directories. Repeated moves could otherwise nest directories without bound, beyond what
//! the user and the commit can reach.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
};

use super::layers::{Home, Layers, Origin};
use crate::{
    FileId, PathError,
    sys::PATH_MAX,
    walk::{MAX_DEPTH, ResolvedEntry, ResolvedPath},
};

/// Number of components and bytes of a path.
type PathSize = (usize, usize);

impl Layers {
    /// Whether everything that the call created below a directory can still be reached at its new path. The user's
    /// own content is not deeper than before.
    pub(super) fn check_depth(
        &self,
        moved: &ResolvedEntry,
        from: &ResolvedPath<'_>,
        to: &ResolvedPath<'_>,
    ) -> Result<(), PathError> {
        let top = match &moved.origin {
            // Its real path, not the path in the staged view.
            Origin::Real => match self.dirs.get(&from.parent_id).map(|layer| &layer.home) {
                Some(Home::Real(dir)) => Some(dir.path.join(from.os_name())),
                Some(Home::Pool) | None => None,
            },
            Origin::Item(_) | Origin::Moved(_) => None,
        };
        let (depth, bytes) = self.depth_below(moved.stat.id, top);
        let new = self.current_path(to.parent_id).ok_or(PathError::NotFound)?;
        let new = new.join(to.os_name());
        if new.components().count() + depth > 2 * MAX_DEPTH
            || new.as_os_str().len() + bytes >= PATH_MAX
        {
            return Err(PathError::NameTooLong);
        }
        Ok(())
    }

    /// Length of the longest path from `top` to a directory that the call created, moved or changed. `path` is its
    /// real path, unless it was moved before.
    fn depth_below(&self, top: FileId, path: Option<PathBuf>) -> PathSize {
        let mut inside: HashMap<FileId, Vec<(FileId, PathSize)>> = HashMap::new();
        for (id, (dir, name)) in &self.current_parent {
            let step = (*id, (1, name.len() + 1));
            inside.entry(*dir).or_default().push(step);
        }
        for (id, layer) in &self.dirs {
            let Home::Real(dir) = &layer.home else {
                continue;
            };
            let mut above = dir.path.ancestors().skip(1);
            let nearest = above.find_map(|above| {
                let is_top = path.as_deref() == Some(above);
                let moved = self.moved.get(above).copied();
                Some((moved.or(is_top.then_some(top))?, above))
            });
            if let Some((above, from)) = nearest
                && let Ok(rest) = dir.path.strip_prefix(from)
            {
                let size = (rest.components().count(), rest.as_os_str().len() + 1);
                inside.entry(above).or_default().push((*id, size));
            }
        }
        let (mut deepest, mut longest) = (0, 0);
        let mut seen = HashSet::new();
        let mut left = vec![(top, (0, 0))];
        while let Some((id, (depth, bytes))) = left.pop() {
            if !seen.insert(id) {
                continue;
            }
            deepest = deepest.max(depth);
            longest = longest.max(bytes);
            for (id, (more, longer)) in inside.get(&id).into_iter().flatten() {
                left.push((*id, (depth + more, bytes + longer)));
            }
        }
        (deepest, longest)
    }
}
