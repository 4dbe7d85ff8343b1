//! Renames and hard links in the staged view.

use std::sync::Arc;

use super::{
    base::Base,
    layers::{Home, Layer, Layers, Node, Origin},
    real::RealEntry,
    write::DirHandle,
};
use crate::{
    EntryKind, PathError, Scope,
    walk::{FinalLink, ResolvedEntry, ResolvedPath},
};

impl Layers {
    pub(super) fn rename(
        &mut self,
        scope: &Scope,
        (from, path): (DirHandle<'_>, &str),
        (to, new_path): (DirHandle<'_>, &str),
    ) -> Result<(), PathError> {
        let from = self.walk(scope, from, path, FinalLink::Exact)?;
        let to = self.walk(scope, to, new_path, FinalLink::Exact)?;
        let moved = scope.check_rename(&from, &to)?;
        self.ensure_both_layers(scope, moved, &from, &to)?;
        self.check_no_cycle(&from, &to)?;
        if moved.stat.kind == EntryKind::Directory {
            self.check_depth(moved, &from, &to)?;
            scope.check_excluded_after_move(Some(self), moved, &from, &to)?;
            if let (Some(reads), Some(path)) = (&scope.reads, from.host_path(scope)) {
                // The content moves along, and may have to be reported entry by entry.
                reads.record_tree(path);
            }
        }
        if let Some(replaced) = &to.found {
            // Two names of one file: POSIX requires a no-op.
            if replaced.stat.id == moved.stat.id {
                return Ok(());
            }
            match (moved.stat.kind, replaced.stat.kind) {
                (EntryKind::Directory, EntryKind::Directory) => {}
                (EntryKind::Directory, _) => return Err(PathError::NotDirectory),
                (_, EntryKind::Directory) => return Err(PathError::IsDirectory),
                _ => {}
            }
        }
        let (node, base) = self.take_entry(&from, moved)?;
        if let Some(replaced) = &to.found {
            self.discard(scope, &to, replaced)?;
        }
        self.remove_entry(from.parent_id, &from.name, base);
        self.set_entry(to.parent_id, &to.name, node, moved.stat.id, None);
        Ok(())
    }

    /// Creates the layers of both directories, which must be on one file system.
    fn ensure_both_layers(
        &mut self,
        scope: &Scope,
        found: &ResolvedEntry,
        from: &ResolvedPath<'_>,
        to: &ResolvedPath<'_>,
    ) -> Result<(), PathError> {
        self.check_moved_links(found, from, to)?;
        self.ensure_layer(scope, from)?;
        self.ensure_layer(scope, to)?;
        self.check_name_limit(&[from, to])?;
        if self.dev(from) == self.dev(to) {
            Ok(())
        } else {
            Err(PathError::CrossDevice)
        }
    }

    /// The entry for the new name, and the real entry at the old one.
    fn take_entry(
        &mut self,
        from: &ResolvedPath<'_>,
        moved: &ResolvedEntry,
    ) -> Result<(Node, Option<Base>), PathError> {
        match &moved.origin {
            Origin::Item(item) => Ok((Node::Item(*item), None)),
            Origin::Moved(real) => Ok((Node::Moved(Arc::clone(real)), None)),
            // A copied link is equivalent to the original.
            Origin::Real if moved.stat.kind == EntryKind::Symlink => {
                let (item, base) = self.copy_link(moved)?;
                Ok((Node::Item(item), Some(base)))
            }
            Origin::Real => {
                let base = Base::of(&moved.fd)?;
                let Some(Layer {
                    home: Home::Real(dir),
                    ..
                }) = self.dirs.get(&from.parent_id)
                else {
                    return Err(PathError::NotFound);
                };
                let real = RealEntry {
                    dir: Arc::clone(dir),
                    name: from.name.clone(),
                    base: base.clone(),
                };
                Ok((Node::Moved(Arc::new(real)), Some(base)))
            }
        }
    }

    /// Rejects moving a directory into itself, and moving an entry over a directory that contains it.
    fn check_no_cycle(
        &self,
        from: &ResolvedPath<'_>,
        to: &ResolvedPath<'_>,
    ) -> Result<(), PathError> {
        let path = |resolved: &ResolvedPath<'_>| {
            self.current_path(resolved.parent_id)
                .ok_or(PathError::NotFound)
        };
        let (old, new) = (path(from)?, path(to)?);
        if new.starts_with(old.join(from.os_name())) {
            return Err(PathError::Invalid);
        }
        if old.starts_with(new.join(to.os_name())) {
            return Err(PathError::NotEmpty);
        }
        Ok(())
    }

    pub(super) fn link(
        &mut self,
        scope: &Scope,
        (from, path): (DirHandle<'_>, &str),
        (to, new_path): (DirHandle<'_>, &str),
    ) -> Result<(), PathError> {
        let from = self.walk(scope, from, path, FinalLink::Exact)?;
        let to = self.walk(scope, to, new_path, FinalLink::Exact)?;
        let linked = scope.check_link(&from, &to)?;
        self.ensure_both_layers(scope, linked, &from, &to)?;
        let old = self.copy_up(scope, &from, linked, false)?;
        let item = self.pool()?.link(old)?;
        self.set_pool_entry(&to, Node::Item(item), None)
    }
}
