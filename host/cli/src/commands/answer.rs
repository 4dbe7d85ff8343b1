//! `host approve` and `host deny`: answers to calls that wait in another process or whose caller has disconnected.

use std::fmt::Write as _;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::Value;
use tokio::time::{Instant, sleep};
use toolhost_contract::text;
use toolhost_kernel::{DeferredError, approve_deferred, deny_deferred};
use toolhost_store::{AnswerError, AnswerRow, CallRow, Store};

use super::calls::{find, tool_name};
use crate::exit::{CliError, Exit, OrExit};
use crate::records::{StoreArgs, now};
use crate::terminal::print;

/// Recorded as the origin of the answer.
const ANSWERED_BY: &str = "cli";
/// How long to wait for the effect of an answer, and how often to poll for it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum length of a note in characters; notes are sent to the model.
const MAX_NOTE_CHARS: usize = 2_000;

#[derive(Debug, Args)]
pub struct ApproveArgs {
    /// ID of the waiting call; `host calls --state awaiting_approval` lists them
    #[arg(value_name = "CALL")]
    pub call: String,

    /// Scope of the approval; reduced to `once` if the question does not offer it
    #[arg(long, value_enum, default_value = "once")]
    pub scope: Scope,

    /// Note to store with the approval
    #[arg(long, value_name = "TEXT", value_parser = parse_note)]
    pub note: Option<String>,

    #[command(flatten)]
    pub store: StoreArgs,
}

#[derive(Debug, Args)]
pub struct DenyArgs {
    /// ID of the waiting call; `host calls --state awaiting_approval` lists them
    #[arg(value_name = "CALL")]
    pub call: String,

    /// Message to the model: the reason and what to do instead
    #[arg(long, value_name = "TEXT", value_parser = parse_note)]
    pub note: Option<String>,

    #[command(flatten)]
    pub store: StoreArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scope {
    Once,
    Session,
    Project,
    User,
}

impl Scope {
    fn as_str(self) -> &'static str {
        match self {
            Scope::Once => "once",
            Scope::Session => "session",
            Scope::Project => "project",
            Scope::User => "user",
        }
    }
}

fn parse_note(note: &str) -> Result<String, String> {
    match note.chars().count() {
        0 => Err("the note is empty; omit it".to_owned()),
        long if long > MAX_NOTE_CHARS => Err(format!(
            "{long} characters; the maximum is {MAX_NOTE_CHARS}"
        )),
        _ => Ok(note.to_owned()),
    }
}

pub async fn approve(args: ApproveArgs) -> Result<Exit, CliError> {
    let store = args.store.open()?;
    let row = find(&store, &args.call)?;
    if row.deferred && !row.finished {
        if args.scope != Scope::Once {
            return Err(CliError::new(
                Exit::Usage,
                "the caller has disconnected, so only one call with the same input can be approved; omit --scope",
            ));
        }
        let id = approve_deferred(&store, &row.id, ANSWERED_BY, args.note.as_deref(), now()).await;
        let id = id.map_err(deferred_error)?;
        let message = format!(
            "approved: the next call of {} with exactly this input runs once without a prompt ({id})",
            text::escape_line(&tool_name(&row), 80)
        );
        print(&message).or_exit(Exit::Internal)?;
        return Ok(Exit::Ok);
    }
    let decision = format!("allow_{}", args.scope.as_str());
    let after = deliver_answer(&store, &row, decision, args.note).await?;
    print_effect(after.as_ref(), Some(args.scope))
}

pub async fn deny(args: DenyArgs) -> Result<Exit, CliError> {
    let store = args.store.open()?;
    let row = find(&store, &args.call)?;
    if row.deferred && !row.finished {
        let denied = deny_deferred(&store, &row.id, ANSWERED_BY, args.note.as_deref(), now()).await;
        denied.map_err(deferred_error)?;
        let message = format!(
            "denied: call {} of {} has ended",
            text::escape_line(&row.id, 300),
            text::escape_line(&tool_name(&row), 80)
        );
        print(&message).or_exit(Exit::Internal)?;
        return Ok(Exit::Ok);
    }
    let after = deliver_answer(&store, &row, "deny".to_owned(), args.note).await?;
    print_effect(after.as_ref(), None)
}

/// Passes the answer to the process that waits for it. Returns the updated call, or `None` if no process picked up the
/// answer in time.
async fn deliver_answer(
    store: &Store,
    row: &CallRow,
    decision: String,
    note: Option<String>,
) -> Result<Option<CallRow>, CliError> {
    let orphans = store.orphans().or_exit(Exit::Store)?;
    if orphans.iter().any(|orphan| orphan.id == row.id) {
        let message = format!(
            "the host that asked about `{}` is no longer running, so it cannot be answered; the next host to start closes it",
            text::escape_line(&row.id, 80)
        );
        return Err(CliError::new(Exit::Usage, message));
    }
    let given = AnswerRow {
        // Answers only the question that was read above, not one that has replaced it since.
        asked_ms: Some(row.updated_ms),
        call: row.id.clone(),
        decision,
        note,
        payload: None,
        by: ANSWERED_BY.to_owned(),
        at_ms: now().0,
    };
    store.answer(given).await.map_err(answer_error)?;
    let end = Instant::now() + ANSWER_TIMEOUT;
    loop {
        let after = find(store, &row.id)?;
        // A changed timestamp means that the answered question is closed, even if a new one is open.
        if after.state != "awaiting_approval" || after.updated_ms != row.updated_ms {
            return Ok(Some(after));
        }
        if Instant::now() >= end {
            return Ok(None);
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Prints the effect of the answer, which may differ from the requested one.
fn print_effect(after: Option<&CallRow>, wanted: Option<Scope>) -> Result<Exit, CliError> {
    let Some(after) = after else {
        print("answered: the answer is saved, but the process that asked has not picked it up yet")
            .or_exit(Exit::Internal)?;
        return Ok(Exit::Waiting);
    };
    let call = format!(
        "call {} of {}",
        text::escape_line(&after.id, 300),
        text::escape_line(&tool_name(after), 80)
    );
    let given = after
        .record
        .pointer("/approval/scope")
        .and_then(Value::as_str);
    let message = match wanted {
        Some(wanted) => {
            let mut message = format!("approved: {call} is {}", after.state);
            if let Some(given) = given.filter(|given| *given != wanted.as_str()) {
                let _ = write!(
                    message,
                    "; the approval counts {}, because {} was not offered",
                    text::escape_line(given, 40),
                    wanted.as_str()
                );
            }
            message
        }
        None => format!("denied: {call} is {}", after.state),
    };
    print(&message).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

fn answer_error(error: AnswerError) -> CliError {
    let exit = match error {
        AnswerError::Store(_) => Exit::Store,
        AnswerError::UnknownCall { .. }
        | AnswerError::Finished { .. }
        | AnswerError::NotWaiting { .. }
        | AnswerError::QuestionChanged { .. }
        | AnswerError::AlreadyAnswered { .. } => Exit::Usage,
    };
    CliError::new(exit, error)
}

fn deferred_error(error: DeferredError) -> CliError {
    match error {
        DeferredError::Answer(error) => answer_error(error),
        DeferredError::Store(error) => CliError::new(Exit::Store, error),
        error @ (DeferredError::NotDeferred { .. } | DeferredError::NotApprovable { .. }) => {
            CliError::new(Exit::Usage, error)
        }
    }
}
