//! Renames and hard links in the staged view.

use std::sync::Arc;

use super::{
    base::Base,
    layers::{Home, Layer, Layers, Node, Origin},
    real::Real,
    write::At,
};
use crate::{
    Kind, Refusal, Scope,
    walk::{Found, Last, Place},
};

impl Layers {
    pub(super) fn rename(
        &mut self,
        scope: &Scope,
        (from, path): (At<'_>, &str),
        (to, new_path): (At<'_>, &str),
    ) -> Result<(), Refusal> {
        let from = self.walk(scope, from, path, Last::Exact)?;
        let to = self.walk(scope, to, new_path, Last::Exact)?;
        let moved = scope.may_rename(&from, &to)?;
        self.hold_both(scope, moved, &from, &to)?;
        self.is_no_knot(&from, &to)?;
        if moved.stat.kind == Kind::Directory {
            self.stays_reachable(moved, &from, &to)?;
            scope.stays_left_out(Some(self), moved, &from, &to)?;
            if let (Some(reads), Some(path)) = (&scope.reads, from.host_path(scope)) {
                // The content moves along, and may have to be reported entry by entry.
                reads.tree(path);
            }
        }
        if let Some(replaced) = &to.found {
            // Two names of one file: POSIX requires a no-op.
            if replaced.stat.id == moved.stat.id {
                return Ok(());
            }
            match (moved.stat.kind, replaced.stat.kind) {
                (Kind::Directory, Kind::Directory) => {}
                (Kind::Directory, _) => return Err(Refusal::NotDirectory),
                (_, Kind::Directory) => return Err(Refusal::IsDirectory),
                _ => {}
            }
        }
        let (node, base) = self.lift(&from, moved)?;
        if let Some(replaced) = &to.found {
            self.discard(scope, &to, replaced)?;
        }
        self.vacate(from.parent_id, &from.name, base);
        self.put(to.parent_id, &to.name, node, moved.stat.id, None);
        Ok(())
    }

    /// Creates the layers of both directories, which must be on one file system.
    fn hold_both(
        &mut self,
        scope: &Scope,
        found: &Found,
        from: &Place<'_>,
        to: &Place<'_>,
    ) -> Result<(), Refusal> {
        self.may_point_from(found, from, to)?;
        self.hold(scope, from)?;
        self.hold(scope, to)?;
        self.room(&[from, to])?;
        if self.dev(from) == self.dev(to) {
            Ok(())
        } else {
            Err(Refusal::CrossDevice)
        }
    }

    /// The entry for the new name, and the real entry at the old one.
    fn lift(&mut self, from: &Place<'_>, moved: &Found) -> Result<(Node, Option<Base>), Refusal> {
        match &moved.origin {
            Origin::Item(item) => Ok((Node::Item(*item), None)),
            Origin::Elsewhere(real) => Ok((Node::Elsewhere(Arc::clone(real)), None)),
            // A copied link is equivalent to the original.
            Origin::Real if moved.stat.kind == Kind::Symlink => {
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
                    return Err(Refusal::NotFound);
                };
                let real = Real {
                    dir: Arc::clone(dir),
                    name: from.name.clone(),
                    base: base.clone(),
                };
                Ok((Node::Elsewhere(Arc::new(real)), Some(base)))
            }
        }
    }

    /// Rejects moving a directory into itself, and moving an entry over a directory that contains it.
    fn is_no_knot(&self, from: &Place<'_>, to: &Place<'_>) -> Result<(), Refusal> {
        let path = |place: &Place<'_>| self.path_now(place.parent_id).ok_or(Refusal::NotFound);
        let (old, new) = (path(from)?, path(to)?);
        if new.starts_with(old.join(from.os_name())) {
            return Err(Refusal::Invalid);
        }
        if old.starts_with(new.join(to.os_name())) {
            return Err(Refusal::NotEmpty);
        }
        Ok(())
    }

    pub(super) fn link(
        &mut self,
        scope: &Scope,
        (from, path): (At<'_>, &str),
        (to, new_path): (At<'_>, &str),
    ) -> Result<(), Refusal> {
        let from = self.walk(scope, from, path, Last::Exact)?;
        let to = self.walk(scope, to, new_path, Last::Exact)?;
        let linked = scope.may_link(&from, &to)?;
        self.hold_both(scope, linked, &from, &to)?;
        let old = self.copy_up(scope, &from, linked, false)?;
        let item = self.pool()?.link(old)?;
        self.set(&to, Node::Item(item), None)
    }
}
