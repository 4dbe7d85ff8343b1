//! `host undo`: undoes file changes made by calls.

use std::fmt::Write as _;
use std::sync::Arc;

use clap::{ArgGroup, Args};
use serde::Deserialize as _;
use toolhost::staging;
use toolhost_contract::{Undo, text};
use toolhost_kernel::undo::{self, UndoError};
use toolhost_store::{CommitFilter, CommitRow, CommitState, Store};
use toolhost_vfs::{Change, Image};

use crate::exit::{Exit, Failure, OrExit};
use crate::records::{StoreArgs, now, time};
use crate::terminal::print;
use crate::terminal::prompter::confirm;

/// Maximum number of changes shown for one commit.
const SHOWN: usize = 50;
/// Maximum number of commits of a session or a batch.
const COMMITS: u32 = 10_000;

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

    /// Revert an undo instead
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

pub async fn undo(args: UndoArgs) -> Result<Exit, Failure> {
    let store = args.store.open_verified()?;
    let staging = staging::of_store(&store)?;
    let files: Arc<dyn Undo> = Arc::new(staging);
    let rows = chosen(&store, &args)?;
    let verb = if args.redo { "redo" } else { "undo" };
    let mut preview = String::new();
    for row in &rows {
        describe(row, verb, &mut preview)?;
    }
    print(preview.trim_end()).or_exit(Exit::Internal)?;
    if args.dry_run {
        return Ok(Exit::Ok);
    }
    if !args.yes && !agreed(verb)? {
        print("nothing changed").or_exit(Exit::Internal)?;
        return Ok(Exit::Ok);
    }
    for row in &rows {
        match undo::undo(&store, &files, row, now()).await {
            Ok(id) => {
                let past = if args.redo { "redone" } else { "undone" };
                let line = format!("{past}: {} as {id}", text::inline(&row.id, 80));
                print(&line).or_exit(Exit::Internal)?;
            }
            Err(error) => return Err(refused(row, error)),
        }
    }
    Ok(Exit::Ok)
}

/// The commits to undo, newest first, or to redo, oldest first.
fn chosen(store: &Store, args: &UndoArgs) -> Result<Vec<CommitRow>, Failure> {
    let mut filter = CommitFilter {
        limit: COMMITS,
        ..CommitFilter::default()
    };
    let named = match (&args.call, &args.batch, &args.session) {
        (Some(call), _, _) => {
            if let Some(row) = store.commit_row(call).or_exit(Exit::Store)? {
                return done(row, args.redo).map(|row| vec![row]);
            }
            filter.call = Some(call.clone());
            format!("call `{}`", text::inline(call, 80))
        }
        (_, Some(batch), _) => {
            filter.batch = Some(batch.clone());
            format!("batch `{}`", text::inline(batch, 80))
        }
        (_, _, session) => {
            filter.session.clone_from(session);
            let session = session.as_deref().unwrap_or_default();
            format!("session `{}`", text::inline(session, 80))
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
        return Err(Failure::new(Exit::Usage, why));
    }
    Ok(rows)
}

fn done(row: CommitRow, redo: bool) -> Result<CommitRow, Failure> {
    if row.state == CommitState::Done {
        return Ok(row);
    }
    let verb = if redo { "redone" } else { "undone" };
    Err(Failure::new(
        Exit::Usage,
        format!(
            "`{}` is {} and cannot be {verb}",
            text::inline(&row.id, 80),
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

fn describe(row: &CommitRow, verb: &str, out: &mut String) -> Result<(), Failure> {
    let changes = Vec::<Change>::deserialize(&row.body).or_exit(Exit::Store)?;
    let _ = writeln!(
        out,
        "{verb} {} of call {} at {}: {} change{}",
        text::inline(&row.tool, 80),
        text::inline(&row.call, 80),
        time(row.at_ms),
        changes.len(),
        if changes.len() == 1 { "" } else { "s" }
    );
    for change in changes.iter().rev().take(SHOWN) {
        let _ = writeln!(out, "  {}", taken_back(change));
    }
    if changes.len() > SHOWN {
        let _ = writeln!(out, "  and {} more", changes.len() - SHOWN);
    }
    Ok(())
}

fn taken_back(change: &Change) -> String {
    let place = |at: &toolhost_vfs::Location| {
        text::inline(&at.root.join(&at.path).to_string_lossy(), 1_000)
    };
    let path = place(&change.at);
    if let Some(from) = &change.moved_from {
        return format!("move     {path} back to {}", place(from));
    }
    match (&change.before, &change.after) {
        (Image::Absent, _) => format!("remove   {path}"),
        (_, Image::Absent) => format!("restore  {path}"),
        _ => format!("revert   {path}"),
    }
}

fn agreed(verb: &str) -> Result<bool, Failure> {
    confirm(&format!("{verb} this?")).ok_or_else(|| {
        Failure::new(
            Exit::Usage,
            format!("no terminal to prompt at; pass --yes to {verb} without confirmation"),
        )
    })
}

fn refused(row: &CommitRow, error: UndoError) -> Failure {
    let id = text::inline(&row.id, 80);
    match error {
        UndoError::Conflict(places) => Failure::new(
            Exit::ToolFailed,
            format!(
                "{id} was not undone because its files have changed since:\n  {}\nrevert those changes first, or keep them",
                places
                    .iter()
                    .map(|place| text::inline(place, 1_000))
                    .collect::<Vec<_>>()
                    .join("\n  ")
            ),
        ),
        UndoError::NotDone { .. } => Failure::new(Exit::Usage, error.to_string()),
        UndoError::Failed(error) => {
            Failure::new(Exit::ToolFailed, format!("{id}: {}", error.message))
        }
        UndoError::Journal(error) => Failure::new(Exit::Store, error.to_string()),
    }
}
