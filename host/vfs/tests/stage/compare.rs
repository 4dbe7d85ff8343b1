//! Runs a script on a real tree and, staged, on an identical tree, and compares all visible results.

use std::{
    collections::BTreeMap,
    fs,
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::Path,
};

use toolhost_vfs::{Access, Change, Location, PathError, PathState, StagedChange};

use crate::support::{FileView, Held, World, file_image};

/// One operation of a guest; the number selects the directory handle.
#[derive(Debug, Clone)]
pub enum Step {
    Open(usize, String, &'static str, &'static str),
    Mkdir(usize, String),
    Rmdir(usize, String),
    Unlink(usize, String),
    Rename(usize, String, usize, String),
    Link(usize, String, usize, String),
    Symlink(usize, String, String),
    /// Opens a directory and keeps the handle.
    Hold(usize, String),
    List(usize, String),
    Stat(usize, String),
    Read(usize, String),
}

/// Number of directory handles in a script: the root, `d`, `d/e` and the last opened one.
pub const HELD: usize = 4;

pub struct Guest<'a> {
    root: Held<'a>,
    held: Vec<(OwnedFd, Access)>,
}

impl<'a> Guest<'a> {
    pub fn new(door: FileView<'a>) -> Self {
        let root = Held::root(door);
        let held = [".", "d", "d/e", "."]
            .map(|path| root.hold(path).expect("directory"))
            .into();
        Self { root, held }
    }

    pub fn act(&mut self, step: &Step) -> Result<String, PathError> {
        let at = |number: &usize| self.root.with(&self.held[*number]);
        let done = match step {
            Step::Open(dir, path, flags, text) => at(dir).open(path, flags, text),
            Step::Mkdir(dir, path) => at(dir).mkdir(path),
            Step::Rmdir(dir, path) => at(dir).rmdir(path),
            Step::Unlink(dir, path) => at(dir).unlink(path),
            Step::Rename(dir, path, to, new) => at(dir).rename(path, at(to), new),
            Step::Link(dir, path, to, new) => at(dir).link(path, at(to), new),
            Step::Symlink(dir, target, path) => at(dir).symlink(target, path),
            Step::Hold(dir, path) => {
                let dir = at(dir).hold(path)?;
                self.held[HELD - 1] = dir;
                Ok(())
            }
            Step::List(dir, path) => return at(dir).list(path),
            Step::Stat(dir, path) => return at(dir).stat(path, true),
            Step::Read(dir, path) => return at(dir).read(path),
        };
        done.map(|()| "done".to_owned())
    }
}

/// Runs the steps on the real and on the staged tree, and compares everything.
pub fn compare(steps: &[Step], walking: bool) {
    let (real, staged) = (World::new(), World::new());
    let open = if walking {
        World::walking_scope
    } else {
        World::scope
    };
    let scope = open(&real);
    let stage = staged.stage(open(&staged));
    let (before, traces) = (staged.images(), staged.traces());
    {
        let mut one = Guest::new(FileView::Real(&scope));
        let mut other = Guest::new(FileView::Staged(&stage));
        for (number, step) in steps.iter().enumerate() {
            let (one, other) = (one.act(step), other.act(step));
            assert_eq!(other, one, "step {number} of {steps:#?}");
        }
        let trees = [
            Held::root(FileView::Staged(&stage)).tree(),
            Held::root(FileView::Real(&scope)).tree(),
        ];
        assert_eq!(trees[0], trees[1], "after {steps:#?}");
        assert_eq!(staged.traces(), traces, "the real tree changed");
    }
    let changes = stage.changes().expect("changes");
    assert_eq!(staged.traces(), traces, "the real tree changed");
    assert_eq!(
        after(&staged.path("w"), &before, &changes),
        real.images(),
        "{changes:#?} after {steps:#?}"
    );
    let again = stage.changes().expect("changes");
    let plain = |list: &[StagedChange]| -> Vec<Change> {
        list.iter().map(|staged| staged.change.clone()).collect()
    };
    assert_eq!(plain(&again), plain(&changes), "asked twice");
    drop(stage);
    assert_eq!(
        fs::read_dir(staged.path("pool")).map_or(0, Iterator::count),
        0
    );
}

/// Applies a list of changes to a tree, and checks that the list is consistent.
fn after(
    top: &Path,
    before: &BTreeMap<String, PathState>,
    changes: &[StagedChange],
) -> BTreeMap<String, PathState> {
    let mut tree = before.clone();
    let mut moving = Vec::new();
    for staged in changes {
        let change = &staged.change;
        assert_ne!(change.before, change.after, "{change:?}");
        assert_eq!(
            staged.base.is_none(),
            change.before == PathState::Absent && change.moved_from.is_none(),
            "{staged:?}"
        );
        match (&change.after, &staged.content) {
            (PathState::File(image), Some(content)) => {
                let bytes = fs::read(content).expect("content");
                let mode = fs::metadata(content).expect("metadata").mode() & 0o7777;
                assert_eq!(*image, file_image(&bytes, mode), "{change:?}");
            }
            (PathState::File(_), None) => assert!(change.moved_from.is_some(), "{change:?}"),
            (_, content) => assert_eq!(*content, None, "{change:?}"),
        }
        let Some(from) = &change.moved_from else {
            continue;
        };
        assert_eq!(change.before, PathState::Absent, "{change:?}");
        let from = path_in(top, from);
        let below = format!("{from}/");
        assert_eq!(tree.get(&from), Some(&change.after), "{change:?}");
        tree.retain(|path, image| {
            let inside = path == &from || path.starts_with(&below);
            if inside {
                let new = format!("{}{}", path_in(top, &change.at), &path[from.len()..]);
                moving.push((new, image.clone()));
            }
            !inside
        });
    }
    for (path, image) in moving {
        assert_eq!(tree.insert(path.clone(), image), None, "{path}");
    }
    let mut last = None;
    for staged in changes {
        let change = &staged.change;
        assert!(last < Some(&change.at), "sorted: {changes:#?}");
        last = Some(&change.at);
        if change.moved_from.is_some() {
            continue;
        }
        let known = match &change.after {
            PathState::Absent => tree.remove(&path_in(top, &change.at)),
            image => tree.insert(path_in(top, &change.at), image.clone()),
        };
        assert_eq!(
            known.unwrap_or(PathState::Absent),
            change.before,
            "{change:?}"
        );
    }
    for path in tree.keys() {
        if let Some((dir, _)) = path.rsplit_once('/') {
            assert!(
                matches!(tree.get(dir), Some(PathState::Dir { .. })),
                "{path}"
            );
        }
    }
    tree
}

fn path_in(top: &Path, at: &Location) -> String {
    let path = at.root.join(&at.path);
    let below = path.strip_prefix(top).expect("below the first root");
    below.to_str().expect("text").to_owned()
}
