//! `host cancel`: stops a call of a running host.

use std::fmt::Write as _;

use clap::Args;
use toolhost::HostPaths;
use toolhost_contract::text;
use toolhost_store::{CallFilter, CallRow, Store};

use super::calls::{call_table, tool_name};
use crate::control::{ControlRequest, running_hosts};
use crate::exit::{CliError, Exit, OrExit};
use crate::records::StoreArgs;
use crate::terminal::prompter::confirm;
use crate::terminal::{note, print};

pub const HELP: &str = "\
Examples:
  host cancel                       list the running calls, or stop the only one after y
  host cancel c-7tq0v0y9a2m5k8xr    stop this call

Its program is killed, and its staged changes are discarded. Ctrl-C stops a call of `host call`.";

/// Maximum number of running calls that are listed.
const MAX_LISTED: u32 = 50;

#[derive(Debug, Args)]
pub struct CancelArgs {
    /// ID of a running call [default: the only running call]
    #[arg(value_name = "CALL")]
    pub call: Option<String>,

    /// Do not prompt for confirmation if no call is named
    #[arg(long, short)]
    pub yes: bool,

    #[command(flatten)]
    pub store: StoreArgs,
}

pub fn cancel(args: CancelArgs) -> Result<Exit, CliError> {
    let call = if let Some(call) = args.call {
        call
    } else {
        let store = args.store.open_verified()?;
        match choose(&store, args.yes)? {
            Some(call) => call,
            None => return Ok(Exit::Ok),
        }
    };
    send(&call)
}

/// The only running call, if the user confirms it.
fn choose(store: &Store, yes: bool) -> Result<Option<String>, CliError> {
    let rows = running_calls(store)?;
    match &rows[..] {
        [] => {
            print("no call is running").or_exit(Exit::Internal)?;
            Ok(None)
        }
        [row] => {
            let shown = call_table(&rows);
            print(shown.trim_end()).or_exit(Exit::Internal)?;
            let question = format!("stop {}?", text::escape_line(&tool_name(row), 80));
            let confirmed = yes
                || confirm(&question).ok_or_else(|| {
                    CliError::new(
                        Exit::Usage,
                        "no terminal to prompt at; name the call, or pass --yes",
                    )
                })?;
            if !confirmed {
                print("nothing was stopped").or_exit(Exit::Internal)?;
            }
            Ok(confirmed.then(|| row.id.clone()))
        }
        _ => {
            print(call_table(&rows).trim_end()).or_exit(Exit::Internal)?;
            note("several calls are running; stop one with `host cancel CALL`");
            Ok(None)
        }
    }
}

/// Calls that have not ended and whose host runs.
fn running_calls(store: &Store) -> Result<Vec<CallRow>, CliError> {
    let filter = CallFilter {
        unfinished: true,
        limit: MAX_LISTED,
        ..CallFilter::default()
    };
    let mut rows = store.calls(&filter).or_exit(Exit::Store)?;
    let orphans = store.orphans().or_exit(Exit::Store)?;
    rows.retain(|row| !row.deferred && orphans.iter().all(|orphan| orphan.id != row.id));
    Ok(rows)
}

/// Asks each running host of this user to stop the call. One of them has it.
fn send(call: &str) -> Result<Exit, CliError> {
    let paths = HostPaths::from_env(|name| std::env::var(name).ok());
    let mut unreachable = Vec::new();
    for host in running_hosts(paths.state.as_deref()) {
        let call = call.to_owned();
        match host.send(ControlRequest::CancelCall { call }) {
            Ok(answer) if answer.errors.is_empty() => {
                for change in &answer.changes {
                    print(&text::escape_lines(change, 2_000)).or_exit(Exit::Internal)?;
                }
                return Ok(Exit::Ok);
            }
            Ok(_) => {}
            Err(error) => unreachable.push(error.to_string()),
        }
    }
    let shown = text::escape_line(call, 80);
    let mut message = format!(
        "no running host has a call `{shown}`; `host calls --running` lists calls, and Ctrl-C stops one of `host call`"
    );
    for error in unreachable {
        let _ = write!(message, "\n{error}");
    }
    Err(CliError::new(Exit::Usage, message))
}
