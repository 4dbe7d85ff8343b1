//! `host undo`: previews and undoes file changes made by calls.

mod selection;
mod sequence;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{ArgGroup, Args, ValueHint};
use toolhost::staging;
use toolhost_contract::{CallError, ChangeSet, CommitRecovery, text};
use toolhost_kernel::undo::{self, UndoError};
use toolhost_runtime::Staging;
use toolhost_store::{CommitError, CommitFilter, CommitRow, CommitState, Store};
use toolhost_vfs::ApplyError;

pub use self::selection::Selection;
use self::selection::{
    MAX_COMMITS, call_of, changes_of, changes_path_below, id, later_changes, named_paths, resolve,
    select,
};
use crate::exit::{CliError, Exit, OrExit, current_directory};
use crate::records::{Records, StoreArgs, format_time, now};
use crate::settings::CliSettings;
use crate::terminal::change_list::{ChangeVerbs, DONE, format_changes};
use crate::terminal::prompter::confirm;
use crate::terminal::prompter::untrusted_text::TerminalLayout;
use crate::terminal::style::list;
use crate::terminal::{count, note, print};

/// Maximum number of lines of differences before the question; `--dry-run` shows all.
const PREVIEW_ROWS: usize = 200;
/// Number of changes of `--list`.
const MAX_LISTED: usize = 30;

pub const HELP: &str = "\
Examples:
  host undo                     show the last change below this directory, and undo it after y
  host undo notes.md            the last change of a file
  host undo --list notes.md     all recorded changes of a file, with the ids of their calls
  host undo --list c-1a2b3c     those of a call
  host undo --dry-run           only show the difference
  host undo --redo              apply again what was undone last

A change that other changes of the same file follow can be undone after these.";

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").args(["what", "batch", "session"]))]
pub struct UndoArgs {
    /// ID of a call, one of the `undo_ids` of its result, or a path, whose last change is undone [default: the last change
    /// in the project or below the current directory]
    #[arg(value_name = "CALL|PATH", value_hint = ValueHint::AnyPath)]
    pub what: Option<String>,

    /// Undo all calls of this batch, newest first
    #[arg(long, value_name = "ID")]
    pub batch: Option<String>,

    /// Undo all calls of this session, newest first
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,

    /// Apply the changes again that an undo reverted
    #[arg(long)]
    pub redo: bool,

    /// List the recorded changes, newest first, and change nothing
    #[arg(long, conflicts_with_all = ["batch", "session", "redo", "dry_run", "yes"])]
    pub list: bool,

    /// Show the difference, and change nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Do not prompt for confirmation
    #[arg(long, short)]
    pub yes: bool,

    #[command(flatten)]
    pub store: StoreArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Undo,
    Redo,
}

impl Direction {
    fn verb(self) -> &'static str {
        match self {
            Direction::Undo => "undo",
            Direction::Redo => "redo",
        }
    }

    fn past(self) -> &'static str {
        match self {
            Direction::Undo => "undone",
            Direction::Redo => "redone",
        }
    }

    fn verbs(self) -> ChangeVerbs {
        match self {
            Direction::Undo => ChangeVerbs {
                created: "restore",
                modified: "revert",
                deleted: "remove",
                moved: "move",
            },
            Direction::Redo => ChangeVerbs {
                created: "create",
                modified: "modify",
                deleted: "delete",
                moved: "move",
            },
        }
    }
}

/// What the user types to undo and to redo, for messages.
#[derive(Debug, Clone, Copy)]
pub struct UndoCommands {
    pub undo: &'static str,
    pub redo: &'static str,
}

const COMMANDS: UndoCommands = UndoCommands {
    undo: "host undo",
    redo: "host undo --redo",
};

/// Whether the user confirms what is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmation {
    Ask,
    Skip,
    /// Nothing is changed.
    DryRun,
}

pub async fn undo(args: UndoArgs) -> Result<Exit, CliError> {
    let Records {
        settings, store, ..
    } = args.store.open_records()?;
    let directory = project_directory(&settings)?;
    if args.list {
        return list_changes(&store, args.what.as_deref(), &directory);
    }
    let selection = match (&args.what, &args.batch, &args.session) {
        (Some(name), _, _) => Selection::Named(name, Path::new(name)),
        (_, Some(batch), _) => Selection::Batch(batch),
        (_, _, Some(session)) => Selection::Session(session),
        (None, None, None) => Selection::LastBelow(&directory),
    };
    let direction = if args.redo {
        Direction::Redo
    } else {
        Direction::Undo
    };
    let confirmation = match (args.dry_run, args.yes) {
        (true, _) => Confirmation::DryRun,
        (false, true) => Confirmation::Skip,
        (false, false) => Confirmation::Ask,
    };
    revert(&store, selection, direction, confirmation, COMMANDS).await
}

/// Shows what is undone or redone, and does it.
pub async fn revert(
    store: &Store,
    selection: Selection<'_>,
    direction: Direction,
    confirmation: Confirmation,
    commands: UndoCommands,
) -> Result<Exit, CliError> {
    let staging = staging::open_in_store(store)?;
    let rows = select(store, selection, direction)?;
    if rows.len() > 1 {
        check_sequence(store, &rows, direction)?;
    }
    check_saved_content(&staging, &rows, direction)?;
    preview(store, &staging, &rows, direction, confirmation)?;
    match confirmation {
        Confirmation::DryRun => return Ok(Exit::Ok),
        Confirmation::Skip => {}
        Confirmation::Ask => {
            if !confirmed(direction)? {
                print("nothing changed").or_exit(Exit::Internal)?;
                return Ok(Exit::Ok);
            }
        }
    }
    let files: Arc<dyn CommitRecovery> = Arc::new(staging);
    for row in &rows {
        let reverted = undo::undo(store, &files, row, now()).await;
        reverted.map_err(|error| undo_error(store, &rows, row, direction, error))?;
        let opposite = match direction {
            Direction::Undo => commands.redo,
            Direction::Redo => commands.undo,
        };
        let line = format!(
            "{} {} of call {}; to reverse this: {opposite} {}",
            direction.past(),
            id(&row.tool),
            id(&row.call),
            id(&row.call)
        );
        print(&line).or_exit(Exit::Internal)?;
    }
    Ok(Exit::Ok)
}

/// Fails if one of several commits could not be undone after those before it, before the first one is undone.
fn check_sequence(store: &Store, rows: &[CommitRow], direction: Direction) -> Result<(), CliError> {
    let Some((row, conflicts)) = sequence::first_conflict(rows)? else {
        return Ok(());
    };
    let conflicts = conflicts.iter().map(ToString::to_string).collect();
    let conflict = UndoError::Conflict(conflicts);
    let CliError { exit, error } = undo_error(store, rows, row, direction, conflict);
    let message = format!("nothing was {}: {error}", direction.past());
    Err(CliError::new(exit, message))
}

/// Fails if content that one of the commits needs is not saved any more, before the first one is undone.
fn check_saved_content(
    staging: &Staging,
    rows: &[CommitRow],
    direction: Direction,
) -> Result<(), CliError> {
    let Some((row, at)) = sequence::first_unsaved(rows, &staging.blobs)? else {
        return Ok(());
    };
    let call = format!("{} of call {}", id(&row.tool), id(&row.call));
    let error = ApplyError::ContentNotSaved(at);
    let past = direction.past();
    let mut message = format!("nothing was {past}: {call}: {error}");
    if rows.len() > 1 {
        let verb = direction.verb();
        let _ = write!(message, "; {verb} the other calls by their ids");
    }
    Err(CliError::new(Exit::ToolFailed, message))
}

/// Shows what would change. Fails if a file has changed since, before the user is asked.
fn preview(
    store: &Store,
    staging: &Staging,
    rows: &[CommitRow],
    direction: Direction,
    confirmation: Confirmation,
) -> Result<(), CliError> {
    let max_rows = match confirmation {
        Confirmation::Ask => PREVIEW_ROWS,
        Confirmation::Skip => 0,
        Confirmation::DryRun => usize::MAX,
    };
    // Where the question is asked, even if standard output is a file.
    let look = match confirmation {
        Confirmation::Ask => TerminalLayout::of(&std::io::stderr()),
        Confirmation::Skip | Confirmation::DryRun => TerminalLayout::of(&std::io::stdout()),
    };
    let mut shown = String::new();
    let mut left_out = 0;
    for row in rows {
        let preview = staging
            .preview_undo(&row.body)
            .map_err(|error| failed(row, &error))?;
        // The changes of several commits can build on each other: `check_sequence` compares them with the files.
        if let ([_], false) = (rows, preview.conflicts.is_empty()) {
            let conflict = UndoError::Conflict(preview.conflicts);
            return Err(undo_error(store, rows, row, direction, conflict));
        }
        let title = title(store, row, direction, &preview.changes);
        let (changes, hidden) = format_changes(&preview.changes, direction.verbs(), max_rows, look);
        let _ = write!(shown, "{title}\n{changes}");
        left_out += hidden;
    }
    if left_out > 0 && confirmation == Confirmation::Ask {
        let _ = writeln!(shown, "  {left_out} more lines; --dry-run shows them");
    }
    match confirmation {
        Confirmation::Ask => note(shown.trim_end()),
        Confirmation::Skip | Confirmation::DryRun => {
            print(shown.trim_end()).or_exit(Exit::Internal)?;
        }
    }
    Ok(())
}

fn title(store: &Store, row: &CommitRow, direction: Direction, changes: &ChangeSet) -> String {
    format!(
        "{} {} of call {} at {}: {changes}",
        direction.verb(),
        id(&row.tool),
        id(&row.call),
        time_of_call(store, row),
    )
}

/// The time of the call, as in the list of calls. That of the commit changes when it is undone.
fn time_of_call(store: &Store, row: &CommitRow) -> String {
    let call = store.call(&row.call).ok().flatten();
    format_time(call.map_or(row.at_ms, |call| call.created_ms))
}

/// Lists recorded changes below a directory, or those of a call or a path.
fn list_changes(store: &Store, name: Option<&str>, directory: &Path) -> Result<Exit, CliError> {
    let call = name.map(|name| call_of(store, name));
    let call = call.transpose()?.flatten();
    let paths = match name {
        Some(name) if call.is_none() => named_paths(Path::new(name)).or_exit(Exit::Usage)?,
        _ => vec![directory.to_owned()],
    };
    let filter = CommitFilter {
        call: call.clone(),
        limit: MAX_COMMITS,
        ..CommitFilter::default()
    };
    let rows = store.commits(&filter).or_exit(Exit::Store)?;
    let states = effective_states(&rows);
    let mut cells = Vec::new();
    for row in rows.iter().filter(|row| row.of.is_none()) {
        if cells.len() == MAX_LISTED {
            break;
        }
        if call.is_some() || changes_path_below(row, &paths)? {
            let state = states.get(row.id.as_str()).copied().unwrap_or(row.state);
            cells.push(vec![
                time_of_call(store, row),
                id(&row.call),
                id(&row.tool),
                state.as_str().to_owned(),
                describe_paths(row, directory)?,
            ]);
        }
    }
    if cells.is_empty() {
        let message = match &call {
            Some(call) => format!("call {} has changed no files", id(call)),
            None => format!(
                "no call has changed {}",
                text::escape_line(&paths[0].to_string_lossy(), 1_000)
            ),
        };
        print(&message).or_exit(Exit::Internal)?;
        return Ok(Exit::Ok);
    }
    let shown = list(&["TIME", "CALL", "TOOL", "STATE", "CHANGED"], cells, 1);
    print(&shown).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

/// The state of each original commit after all undos and redos.
fn effective_states(rows: &[CommitRow]) -> BTreeMap<&str, CommitState> {
    let by_id: BTreeMap<&str, &CommitRow> = rows.iter().map(|row| (row.id.as_str(), row)).collect();
    let mut states = BTreeMap::new();
    for row in rows {
        let (mut root, mut undoes) = (row, false);
        while let Some(of) = root.of.as_deref().and_then(|of| by_id.get(of)) {
            root = of;
            undoes = !undoes;
        }
        if row.state == CommitState::Done {
            let state = if undoes {
                CommitState::Undone
            } else {
                CommitState::Done
            };
            states.insert(root.id.as_str(), state);
        }
    }
    states
}

/// The changed paths, relative to the directory if they are below it.
fn describe_paths(row: &CommitRow, directory: &Path) -> Result<String, CliError> {
    const SHOWN: usize = 3;
    let changes = changes_of(row)?;
    let shown = changes.iter().take(SHOWN).map(|change| {
        let path = change.at.root.join(&change.at.path);
        let short = path.strip_prefix(directory).ok();
        let short = short.filter(|short| !short.as_os_str().is_empty());
        text::escape_line(&short.unwrap_or(&path).to_string_lossy(), 300)
    });
    let mut shown = shown.collect::<Vec<_>>().join(", ");
    if changes.len() > SHOWN {
        let _ = write!(shown, " and {} more", changes.len() - SHOWN);
    }
    Ok(shown)
}

/// The directory of the project, or else the current one, as the journal names it.
pub fn project_directory(settings: &CliSettings) -> Result<PathBuf, CliError> {
    let directory = match &settings.project {
        Some(directory) => directory.clone(),
        None => current_directory()?,
    };
    resolve(&directory).or_exit(Exit::Internal)
}

/// One line that says what these commits changed: `modified notes.md (+1 −1)`. `None` if nothing, or if they cannot be
/// read.
pub fn describe_commits(
    store: &Store,
    commits: &[String],
    settings: &CliSettings,
) -> Option<String> {
    if commits.is_empty() {
        return None;
    }
    let staging = staging::open_in_store(store).ok()?;
    let directory = project_directory(settings).ok()?;
    let mut all = ChangeSet::default();
    for commit in commits {
        let row = store.commit_row(commit).ok()??;
        all.changes
            .extend(staging.describe_commit(&row.body).ok()?.changes);
    }
    let name = |path: &str| {
        let short = Path::new(path).strip_prefix(&directory).ok();
        let short = short.and_then(Path::to_str).unwrap_or(path);
        text::escape_line(short, 300)
    };
    let what = match all.only_file() {
        Some(file) => format!("{} {}", DONE.of(&file.kind), name(&file.path)),
        None => format!("changed {}", count(all.changes.len(), "path")),
    };
    let (more, less) = all.line_counts();
    Some(format!("{what} (+{more} −{less})"))
}

/// The difference that the selected calls made, for standard output.
pub fn format_selected(store: &Store, selection: Selection<'_>) -> Result<String, CliError> {
    let staging = staging::open_in_store(store)?;
    let look = TerminalLayout::of(&std::io::stdout());
    let mut shown = String::new();
    for row in select(store, selection, Direction::Undo)? {
        let changes = staging
            .describe_commit(&row.body)
            .map_err(|error| failed(&row, &error))?;
        let (list, _) = format_changes(&changes, DONE, usize::MAX, look);
        let _ = write!(
            shown,
            "{} of call {} at {}: {changes}\n{list}",
            id(&row.tool),
            id(&row.call),
            time_of_call(store, &row)
        );
    }
    Ok(shown)
}

fn failed(row: &CommitRow, error: &CallError) -> CliError {
    let call = format!("{} of call {}", id(&row.tool), id(&row.call));
    CliError::new(Exit::ToolFailed, format!("{call}: {}", error.message))
}

fn confirmed(direction: Direction) -> Result<bool, CliError> {
    let verb = direction.verb();
    confirm(&format!("{verb} this?")).ok_or_else(|| {
        CliError::new(
            Exit::Usage,
            format!("no terminal to prompt at; pass --yes to {verb} without confirmation"),
        )
    })
}

/// The error of one of the commits that are undone together.
fn undo_error(
    store: &Store,
    rows: &[CommitRow],
    row: &CommitRow,
    direction: Direction,
    error: UndoError,
) -> CliError {
    let call = format!("{} of call {}", id(&row.tool), id(&row.call));
    match error {
        UndoError::Conflict(paths) => {
            let paths: Vec<String> = paths
                .iter()
                .map(|path| text::escape_line(path, 1_000))
                .collect();
            let later = later_changes(store, row, rows).unwrap_or_default();
            let later: Vec<String> = later
                .iter()
                .map(|later| format!("host undo {}  ({})", id(&later.call), id(&later.tool)))
                .collect();
            let advice = if later.is_empty() {
                "revert those changes first, or keep them".to_owned()
            } else {
                format!("undo the later changes first:\n  {}", later.join("\n  "))
            };
            CliError::new(
                Exit::ToolFailed,
                format!(
                    "{call} was not {} because its files have changed since:\n  {}\n{advice}",
                    direction.past(),
                    paths.join("\n  ")
                ),
            )
        }
        UndoError::NotDone { .. } => CliError::new(Exit::Usage, error.to_string()),
        UndoError::Failed(error) => failed(row, &error),
        // Another process undoes or redoes it, or has done so.
        UndoError::Journal(error @ (CommitError::Busy { .. } | CommitError::NotDone { .. })) => {
            CliError::new(Exit::ToolFailed, format!("{call}: {error}"))
        }
        UndoError::Journal(error) => CliError::new(Exit::Store, error.to_string()),
    }
}

#[cfg(test)]
mod tests;
