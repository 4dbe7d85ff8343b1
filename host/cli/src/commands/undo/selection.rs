//! Which recorded changes a command means.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize as _;
use toolhost_contract::text;
use toolhost_store::{CommitFilter, CommitRow, CommitState, Store};
use toolhost_vfs::{Change, Location};

use super::Direction;
use crate::exit::{CliError, Exit, OrExit};

/// Numbers of commits that are read until one is found, so that the usual case is fast.
const STEPS: [u32; 3] = [100, 1_000, MAX_COMMITS];
/// Maximum number of commits that are searched, and of a session or a batch.
pub const MAX_COMMITS: u32 = 10_000;
/// Maximum number of later changes that an error names.
const MAX_LATER: usize = 3;

#[derive(Debug, Clone, Copy)]
pub enum Selection<'a> {
    /// The last change below this directory.
    LastBelow(&'a Path),
    /// The last change of this session.
    LastOfSession(&'a str),
    /// A call or a commit with this name, or else the last change of this path.
    Named(&'a str, &'a Path),
    Batch(&'a str),
    Session(&'a str),
}

/// The commits to revert, newest first. Never empty. For a redo these are undos, so the oldest call, which was undone last,
/// is redone first.
pub fn select(
    store: &Store,
    selection: Selection<'_>,
    direction: Direction,
) -> Result<Vec<CommitRow>, CliError> {
    let everything = CommitFilter::default();
    match selection {
        Selection::LastBelow(directory) => {
            let found = newest(store, &everything, direction, |row| {
                changes_path_below(row, &[directory])
            })?;
            let place = format!("below {}", shown(directory));
            found.ok_or_else(|| none_left(&place, direction))
        }
        Selection::LastOfSession(session) => {
            let filter = CommitFilter {
                session: Some(session.to_owned()),
                ..everything
            };
            let found = newest(store, &filter, direction, |_| Ok(true))?;
            found.ok_or_else(|| none_left("in this session", direction))
        }
        Selection::Named(name, path) => return named(store, name, path, direction),
        Selection::Batch(batch) => {
            let filter = CommitFilter {
                batch: Some(batch.to_owned()),
                ..everything
            };
            return all(store, filter, &format!("batch `{}`", id(batch)), direction);
        }
        Selection::Session(session) => {
            let filter = CommitFilter {
                session: Some(session.to_owned()),
                ..everything
            };
            let named = format!("session `{}`", id(session));
            return all(store, filter, &named, direction);
        }
    }
    .map(|row| vec![row])
}

fn named(
    store: &Store,
    name: &str,
    path: &Path,
    direction: Direction,
) -> Result<Vec<CommitRow>, CliError> {
    if let Some(row) = store.commit_row(name).or_exit(Exit::Store)? {
        return require_done(row, direction).map(|row| vec![row]);
    }
    if let Some(call) = call_of(store, name)? {
        let named = format!("call `{}`", id(&call));
        let filter = CommitFilter {
            call: Some(call),
            ..CommitFilter::default()
        };
        return all(store, filter, &named, direction);
    }
    let paths = named_paths(path).or_exit(Exit::Usage)?;
    let below = |row: &CommitRow| changes_path_below(row, &paths);
    if let Some(row) = newest(store, &CommitFilter::default(), direction, below)? {
        return Ok(vec![row]);
    }
    let name = text::escape_line(name, 200);
    let is_known = find(store, &CommitFilter::default(), below)?.is_some();
    Err(if is_known {
        none_left(&format!("of `{name}`"), direction)
    } else {
        let message = format!(
            "`{name}` is neither a call, nor a path that a call has changed; `host undo --list` lists the changes"
        );
        CliError::new(Exit::Usage, message)
    })
}

/// The id of a call, given itself or the id of one of its commits.
pub fn call_of(store: &Store, name: &str) -> Result<Option<String>, CliError> {
    if let Some(row) = store.commit_row(name).or_exit(Exit::Store)? {
        return Ok(Some(row.call));
    }
    let filter = CommitFilter {
        call: Some(name.to_owned()),
        ..CommitFilter::default()
    };
    let is_call = store.call(name).or_exit(Exit::Store)?.is_some()
        || !store.commits(&filter).or_exit(Exit::Store)?.is_empty();
    Ok(is_call.then(|| name.to_owned()))
}

/// All commits of a call, batch or session.
fn all(
    store: &Store,
    filter: CommitFilter,
    named: &str,
    direction: Direction,
) -> Result<Vec<CommitRow>, CliError> {
    let limit = MAX_COMMITS;
    let all = store.commits(&CommitFilter { limit, ..filter });
    let all = all.or_exit(Exit::Store)?;
    let mut rows = Vec::new();
    for row in &all {
        if can_be_reverted(store, row, direction)? {
            rows.push(row.clone());
        }
    }
    if rows.is_empty() {
        let why = match (all.is_empty(), direction) {
            (true, _) => format!("{named} does not exist or changed no files; see `host calls`"),
            (false, Direction::Redo) => format!("{named} has no undone changes to redo"),
            (false, Direction::Undo) => {
                format!("{named} is already undone; use --redo to reapply its changes")
            }
        };
        return Err(CliError::new(Exit::Usage, why));
    }
    Ok(rows)
}

fn none_left(place: &str, direction: Direction) -> CliError {
    let message = match direction {
        Direction::Undo => {
            format!("no change {place} is in effect; `host undo --list` lists the changes")
        }
        Direction::Redo => format!("no undone change {place} can be redone"),
    };
    CliError::new(Exit::Usage, message)
}

fn require_done(row: CommitRow, direction: Direction) -> Result<CommitRow, CliError> {
    if row.state == CommitState::Done {
        return Ok(row);
    }
    let message = format!(
        "`{}` is {} and cannot be {}",
        id(&row.id),
        row.state.as_str(),
        direction.past()
    );
    Err(CliError::new(Exit::Usage, message))
}

/// The newest commit that matches and can be undone or redone.
fn newest(
    store: &Store,
    filter: &CommitFilter,
    direction: Direction,
    matches: impl Fn(&CommitRow) -> Result<bool, CliError>,
) -> Result<Option<CommitRow>, CliError> {
    find(store, filter, |row| {
        Ok(can_be_reverted(store, row, direction)? && matches(row)?)
    })
}

fn find(
    store: &Store,
    filter: &CommitFilter,
    matches: impl Fn(&CommitRow) -> Result<bool, CliError>,
) -> Result<Option<CommitRow>, CliError> {
    let mut searched = 0;
    for limit in STEPS {
        let filter = CommitFilter {
            limit,
            ..filter.clone()
        };
        let rows = store.commits(&filter).or_exit(Exit::Store)?;
        for row in rows.iter().skip(searched) {
            if matches(row)? {
                return Ok(Some(row.clone()));
            }
        }
        searched = rows.len();
        if searched < limit as usize {
            break;
        }
    }
    Ok(None)
}

fn can_be_reverted(store: &Store, row: &CommitRow, direction: Direction) -> Result<bool, CliError> {
    let reverts = match direction {
        Direction::Undo => false,
        Direction::Redo => true,
    };
    Ok(row.state == CommitState::Done && is_undo(store, row)? == reverts)
}

/// Whether the commit is an undo. A redo, which reverts an undo, is not.
pub fn is_undo(store: &Store, row: &CommitRow) -> Result<bool, CliError> {
    let (mut undo, mut next) = (false, row.of.clone());
    while let Some(of) = next {
        undo = !undo;
        let row = store.commit_row(&of).or_exit(Exit::Store)?;
        next = row.and_then(|row| row.of);
    }
    Ok(undo)
}

/// Later changes of paths of this commit, as far as they are in effect: they have to be undone first. Without those that
/// are undone together with it.
pub fn later_changes(
    store: &Store,
    row: &CommitRow,
    together: &[CommitRow],
) -> Result<Vec<CommitRow>, CliError> {
    let paths = paths_of(row)?;
    let filter = CommitFilter {
        limit: MAX_COMMITS,
        ..CommitFilter::default()
    };
    let rows = store.commits(&filter).or_exit(Exit::Store)?;
    let mut later = Vec::new();
    for newer in rows.into_iter().take_while(|newer| newer.id != row.id) {
        let is_live = newer.state == CommitState::Done
            && together.iter().all(|one| one.id != newer.id)
            && !is_undo(store, &newer)?;
        if is_live && !paths_of(&newer)?.is_disjoint(&paths) {
            later.push(newer);
        }
    }
    later.truncate(MAX_LATER);
    Ok(later)
}

/// Whether the commit changes one of these paths, or a path below one.
pub fn changes_path_below(
    row: &CommitRow,
    directories: &[impl AsRef<Path>],
) -> Result<bool, CliError> {
    let paths = paths_of(row)?;
    let is_below = |path: &PathBuf| directories.iter().any(|above| path.starts_with(above));
    Ok(paths.iter().any(is_below))
}

pub fn changes_of(row: &CommitRow) -> Result<Vec<Change>, CliError> {
    Vec::<Change>::deserialize(&row.body).or_exit(Exit::Store)
}

fn paths_of(row: &CommitRow) -> Result<BTreeSet<PathBuf>, CliError> {
    let path = |at: &Location| at.root.join(&at.path);
    let changes = changes_of(row)?;
    let moved = changes
        .iter()
        .filter_map(|change| change.moved_from.as_ref());
    let all = changes.iter().map(|change| &change.at).chain(moved);
    Ok(all.map(path).collect())
}

/// The paths that a name can have in the journal: of the entry with this name, and of its target if it is a link now.
pub fn named_paths(name: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths = vec![resolve(name)?];
    let absolute = std::path::absolute(name)?;
    if let (Some(parent), Some(entry)) = (absolute.parent(), absolute.file_name()) {
        paths.push(resolve(parent)?.join(entry));
    }
    Ok(paths)
}

/// The path as the journal names it: without symbolic links, also if it does not exist any more.
pub fn resolve(path: &Path) -> std::io::Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    let mut missing = PathBuf::new();
    let mut existing = absolute.as_path();
    loop {
        if let Ok(found) = existing.canonicalize() {
            let joined = found.join(&missing);
            return Ok(joined.components().collect());
        }
        match (existing.parent(), existing.components().next_back()) {
            (Some(parent), Some(Component::Normal(name))) => {
                missing = Path::new(name).join(&missing);
                existing = parent;
            }
            _ => return Ok(absolute),
        }
    }
}

fn shown(path: &Path) -> String {
    text::escape_line(&path.to_string_lossy(), 1_000)
}

pub fn id(id: &str) -> String {
    text::escape_line(id, 80)
}
