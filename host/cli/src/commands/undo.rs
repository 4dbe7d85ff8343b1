//! `host undo`: undoes file changes made by calls.

use std::fmt::Write as _;
use std::sync::Arc;

use clap::{ArgGroup, Args};
use serde::Deserialize as _;
use toolhost::staging;
use toolhost_contract::{CommitRecovery, text};
use toolhost_kernel::undo::{self, UndoError};
use toolhost_store::{CommitFilter, CommitRow, CommitState, Store};
use toolhost_vfs::{Change, PathState};

use crate::exit::{CliError, Exit, OrExit};
use crate::records::{StoreArgs, format_time, now};
use crate::terminal::print;
use crate::terminal::prompter::confirm;

/// Maximum number of changes shown for one commit.
const MAX_CHANGES_SHOWN: usize = 50;
/// Maximum number of commits of a session or a batch.
const MAX_COMMITS: u32 = 10_000;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true).args(["call", "batch", "session"]))]
pub struct UndoArgs {
    /// ID of a call, or one of the `undo_ids` of its result
    #[arg(value_name = "CALL")]
    pub call: Option<String>,

    /// Undo all calls of this batch, newest first
    #[arg(long, value_name = "ID")]
    pub batch: Option<String>,

    /// Undo all calls of this session, newest first
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,

    /// Apply the changes again that an undo reverted
    #[arg(long)]
    pub redo: bool,

    /// Only print what would be done
    #[arg(long)]
    pub dry_run: bool,

    /// Do not prompt for confirmation
    #[arg(long, short)]
    pub yes: bool,

    #[command(flatten)]
    pub store: StoreArgs,
}

pub async fn undo(args: UndoArgs) -> Result<Exit, CliError> {
    let store = args.store.open_verified()?;
    let staging = staging::open_in_store(&store)?;
    let files: Arc<dyn CommitRecovery> = Arc::new(staging);
    let rows = select_commits(&store, &args)?;
    let verb = if args.redo { "redo" } else { "undo" };
    let mut preview = String::new();
    for row in &rows {
        describe(row, verb, &mut preview)?;
    }
    print(preview.trim_end()).or_exit(Exit::Internal)?;
    if args.dry_run {
        return Ok(Exit::Ok);
    }
    if !args.yes && !confirmed(verb)? {
        print("nothing changed").or_exit(Exit::Internal)?;
        return Ok(Exit::Ok);
    }
    for row in &rows {
        match undo::undo(&store, &files, row, now()).await {
            Ok(id) => {
                let past = if args.redo { "redone" } else { "undone" };
                let line = format!("{past}: {} as {id}", text::escape_line(&row.id, 80));
                print(&line).or_exit(Exit::Internal)?;
            }
            Err(error) => return Err(undo_error(row, error)),
        }
    }
    Ok(Exit::Ok)
}

/// The commits to undo, newest first, or to redo, oldest first.
fn select_commits(store: &Store, args: &UndoArgs) -> Result<Vec<CommitRow>, CliError> {
    let mut filter = CommitFilter {
        limit: MAX_COMMITS,
        ..CommitFilter::default()
    };
    let named = match (&args.call, &args.batch, &args.session) {
        (Some(call), _, _) => {
            if let Some(row) = store.commit_row(call).or_exit(Exit::Store)? {
                return require_done(row, args.redo).map(|row| vec![row]);
            }
            filter.call = Some(call.clone());
            format!("call `{}`", text::escape_line(call, 80))
        }
        (_, Some(batch), _) => {
            filter.batch = Some(batch.clone());
            format!("batch `{}`", text::escape_line(batch, 80))
        }
        (_, _, session) => {
            filter.session.clone_from(session);
            let session = session.as_deref().unwrap_or_default();
            format!("session `{}`", text::escape_line(session, 80))
        }
    };
    let all = store.commits(&filter).or_exit(Exit::Store)?;
    let mut rows: Vec<CommitRow> = all
        .iter()
        .filter(|row| row.state == CommitState::Done && is_undo(row, &all) == args.redo)
        .cloned()
        .collect();
    // Redone in their original order.
    if args.redo {
        rows.reverse();
    }
    if rows.is_empty() {
        let why = match (all.is_empty(), args.redo) {
            (true, _) => format!("{named} does not exist or changed no files; see `host calls`"),
            (false, true) => format!("{named} has no undone changes to redo"),
            (false, false) => {
                format!("{named} is already undone; use --redo to reapply its changes")
            }
        };
        return Err(CliError::new(Exit::Usage, why));
    }
    Ok(rows)
}

fn require_done(row: CommitRow, redo: bool) -> Result<CommitRow, CliError> {
    if row.state == CommitState::Done {
        return Ok(row);
    }
    let verb = if redo { "redone" } else { "undone" };
    Err(CliError::new(
        Exit::Usage,
        format!(
            "`{}` is {} and cannot be {verb}",
            text::escape_line(&row.id, 80),
            row.state.as_str()
        ),
    ))
}

/// Whether the commit is an undo. A redo, which reverts an undo, is not.
fn is_undo(row: &CommitRow, all: &[CommitRow]) -> bool {
    let mut undo = false;
    let mut at = row.of.as_deref();
    while let Some(of) = at {
        undo = !undo;
        let next = all.iter().find(|row| row.id == of);
        at = next.and_then(|row| row.of.as_deref());
    }
    undo
}

fn describe(row: &CommitRow, verb: &str, out: &mut String) -> Result<(), CliError> {
    let changes = Vec::<Change>::deserialize(&row.body).or_exit(Exit::Store)?;
    let _ = writeln!(
        out,
        "{verb} {} of call {} at {}: {} change{}",
        text::escape_line(&row.tool, 80),
        text::escape_line(&row.call, 80),
        format_time(row.at_ms),
        changes.len(),
        if changes.len() == 1 { "" } else { "s" }
    );
    for change in changes.iter().rev().take(MAX_CHANGES_SHOWN) {
        let _ = writeln!(out, "  {}", describe_reversal(change));
    }
    if changes.len() > MAX_CHANGES_SHOWN {
        let _ = writeln!(out, "  and {} more", changes.len() - MAX_CHANGES_SHOWN);
    }
    Ok(())
}

fn describe_reversal(change: &Change) -> String {
    let shown_path = |at: &toolhost_vfs::Location| {
        text::escape_line(&at.root.join(&at.path).to_string_lossy(), 1_000)
    };
    let path = shown_path(&change.at);
    if let Some(from) = &change.moved_from {
        return format!("move     {path} back to {}", shown_path(from));
    }
    match (&change.before, &change.after) {
        (PathState::Absent, _) => format!("remove   {path}"),
        (_, PathState::Absent) => format!("restore  {path}"),
        _ => format!("revert   {path}"),
    }
}

fn confirmed(verb: &str) -> Result<bool, CliError> {
    confirm(&format!("{verb} this?")).ok_or_else(|| {
        CliError::new(
            Exit::Usage,
            format!("no terminal to prompt at; pass --yes to {verb} without confirmation"),
        )
    })
}

fn undo_error(row: &CommitRow, error: UndoError) -> CliError {
    let id = text::escape_line(&row.id, 80);
    match error {
        UndoError::Conflict(paths) => CliError::new(
            Exit::ToolFailed,
            format!(
                "{id} was not undone because its files have changed since:\n  {}\nrevert those changes first, or keep them",
                paths
                    .iter()
                    .map(|path| text::escape_line(path, 1_000))
                    .collect::<Vec<_>>()
                    .join("\n  ")
            ),
        ),
        UndoError::NotDone { .. } => CliError::new(Exit::Usage, error.to_string()),
        UndoError::Failed(error) => {
            CliError::new(Exit::ToolFailed, format!("{id}: {}", error.message))
        }
        UndoError::Journal(error) => CliError::new(Exit::Store, error.to_string()),
    }
}
