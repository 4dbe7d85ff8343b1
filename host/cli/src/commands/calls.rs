//! `host calls`: lists recorded calls with what they accessed, their decision and outcome, and explains one.

mod access;
mod denial;

use std::fmt::Write as _;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use toolhost_contract::lifecycle::CallState;
use toolhost_contract::units::{format_duration, parse_duration};
use toolhost_contract::{OnlyPaths, text};
use toolhost_kernel::IN_ADVANCE;
use toolhost_store::{CallFilter, CallRow, Store, StoredTransition, TransitionFilter};

use self::access::access;
use super::plugins::{TargetArgs, change};
use super::stats::{StatsArgs, stats};
use crate::control::ControlRequest;
use crate::exit::{CliError, Exit, OrExit};
use crate::json;
use crate::records::{StoreArgs, format_time, now};
use crate::terminal::print;
use crate::terminal::style::{list, table, terminal_width};

pub const HELP: &str = "\
Examples:
  host calls                       the newest calls
  host calls c-7tq0v0y9a2m5k8xr    one call: who allowed or denied it, why, and how to allow similar calls
  host calls --state denied        calls that were denied
  host calls --running             calls that have not ended; `host cancel CALL` ends one";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct CallsArgs {
    #[command(subcommand)]
    pub command: Option<CallsCommand>,

    #[command(flatten)]
    pub list: ListArgs,
}

#[derive(Debug, Subcommand)]
pub enum CallsCommand {
    /// The same as `host calls CALL`
    #[command(hide = true)]
    Show(ShowArgs),
    /// Summarize the newest 10,000 calls by tool and version: number, failures and duration
    Stats(StatsArgs),
    /// Move the running command of a call to the background; the call ends and names the job
    Detach(DetachArgs),
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Show this call: its decision, its outcome and its steps; for a denied call also how to allow similar calls
    #[arg(value_name = "CALL")]
    pub call: Option<String>,

    /// List only calls of this session
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,

    /// List only calls of this tool
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,

    /// List only calls in this state: pending, validating, awaiting_approval, approved, scheduled, executing,
    /// completed, failed, cancelled, denied or sealed
    #[arg(long, value_name = "STATE", value_parser = parse_state)]
    pub state: Option<CallState>,

    /// List only calls that have not ended
    #[arg(long, alias = "unfinished")]
    pub running: bool,

    /// List only calls of the last DUR, for example `90m` or `24h`
    #[arg(long, value_name = "DUR", value_parser = parse_duration)]
    pub since: Option<Duration>,

    /// Maximum number of calls
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub limit: u32,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub store: StoreArgs,
}

#[derive(Debug, Args)]
pub struct ShowArgs {
    /// ID of a call, as `host calls` prints it
    #[arg(value_name = "CALL")]
    pub call: String,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub store: StoreArgs,
}

#[derive(Debug, Args)]
pub struct DetachArgs {
    /// ID of a running call, as `host calls --running` prints it
    #[arg(value_name = "CALL")]
    pub call: String,

    #[command(flatten)]
    pub target: TargetArgs,
}

fn parse_state(name: &str) -> Result<CallState, String> {
    CallState::parse(name).ok_or_else(|| {
        let states: Vec<&str> = CallState::ALL.iter().map(|state| state.as_str()).collect();
        format!(
            "`{}` is not a state; use one of {}",
            text::escape_line(name, 40),
            states.join(", ")
        )
    })
}

pub fn calls(args: CallsArgs) -> Result<Exit, CliError> {
    match args.command {
        Some(CallsCommand::Show(args)) => show(&args),
        Some(CallsCommand::Stats(args)) => stats(args),
        Some(CallsCommand::Detach(args)) => {
            change(&args.target, ControlRequest::DetachCall { call: args.call })
        }
        None => match args.list.call {
            Some(call) => show(&ShowArgs {
                call,
                json: args.list.json,
                store: args.list.store,
            }),
            None => list_calls(args.list),
        },
    }
}

fn list_calls(args: ListArgs) -> Result<Exit, CliError> {
    let store = args.store.open_verified()?;
    let since = args
        .since
        .map(|since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
    let rows = store
        .calls(&CallFilter {
            session: args.session,
            tool: args.tool,
            state: args.state.map(|state| state.as_str().to_owned()),
            unfinished: args.running,
            after_ms: since.map(|since| now().0.saturating_sub(since)),
            before_ms: None,
            limit: args.limit,
        })
        .or_exit(Exit::Store)?;
    let shown = if args.json {
        let rows: Vec<Value> = rows.iter().map(|row| record_to_json(row, None)).collect();
        json::pretty(&rows).or_exit(Exit::Internal)?
    } else {
        call_table(&rows)
    };
    print(&shown).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

/// One line for each call. Narrow terminals show fewer columns.
pub fn call_table(rows: &[CallRow]) -> String {
    const COLUMNS: [&str; 7] = ["TIME", "CALL", "TOOL", "STATE", "ACCESS", "BY", "DURATION"];
    let (shown, cut) = match terminal_width() {
        Some(..100) => (5, 1),
        Some(..130) => (6, 2),
        Some(_) | None => (7, 0),
    };
    let rows = rows.iter().map(|row| {
        let mut cells = cells(row);
        cells.truncate(shown);
        cells
    });
    list(&COLUMNS[..shown], rows, cut)
}

fn cells(row: &CallRow) -> Vec<String> {
    let state = if row.deferred {
        format!("{} (deferred)", row.state)
    } else {
        row.state.clone()
    };
    vec![
        format_time(row.created_ms),
        text::escape_line(&row.id, 80),
        text::escape_line(&tool_name(row), 80),
        state,
        access(row).unwrap_or_default(),
        decided_by(row)
            .map(|by| text::escape_line(by, 60))
            .unwrap_or_default(),
        duration(row).unwrap_or_default(),
    ]
}

/// The tool of a call, or the requested name if no such tool was found.
pub fn tool_name(row: &CallRow) -> String {
    let called = row.record.get("name").and_then(Value::as_str);
    let tool = row.tool.as_deref().or(called);
    tool.unwrap_or("?").to_owned()
}

fn duration(row: &CallRow) -> Option<String> {
    let millis = row.record.get("durationMs")?.as_f64()?;
    Duration::try_from_secs_f64(millis / 1_000.0)
        .ok()
        .map(format_duration)
}

/// The user or rule that decided the call.
fn decided_by(row: &CallRow) -> Option<&str> {
    let decided = row.record.pointer("/approval/decidedBy");
    decided
        .or_else(|| row.record.get("policyRuleId"))
        .and_then(Value::as_str)
}

/// The stored record, without fields that are only needed to answer its question.
fn record_to_json(row: &CallRow, trail: Option<Vec<Value>>) -> Value {
    let mut shown = row.record.clone();
    if let Value::Object(members) = &mut shown {
        members.remove("input");
        members.remove(IN_ADVANCE);
        if row.deferred {
            members.insert("deferred".to_owned(), json!(true));
        }
        if let Some(trail) = trail {
            members.insert("auditTrail".to_owned(), Value::Array(trail));
        }
    }
    shown
}

/// Finds the call with this id, or returns a usage error.
pub fn find(store: &Store, id: &str) -> Result<CallRow, CliError> {
    store.call(id).or_exit(Exit::Store)?.ok_or_else(|| {
        let message = format!(
            "no call `{}`; list calls with `host calls`",
            text::escape_line(id, 80)
        );
        CliError::new(Exit::Usage, message)
    })
}

/// All recorded steps of a call.
pub fn steps_of(store: &Store, id: &str) -> Result<Vec<StoredTransition>, CliError> {
    store
        .transitions(&TransitionFilter {
            call: Some(id.to_owned()),
            limit: 10_000,
            ..TransitionFilter::default()
        })
        .or_exit(Exit::Store)
}

fn show(args: &ShowArgs) -> Result<Exit, CliError> {
    let store = args.store.open_verified()?;
    let row = find(&store, &args.call)?;
    let life = steps_of(&store, &args.call)?;
    let shown = if args.json {
        let trail = life.iter().map(|line| {
            let line_row = &line.row;
            json!({"state": line_row.state, "timestamp": line_row.at_ms, "kind": line_row.kind, "note": line_row.note})
        });
        let shown = record_to_json(&row, Some(trail.collect()));
        json::pretty(&shown).or_exit(Exit::Internal)?
    } else {
        format_call(&row, &life)
    };
    print(&shown).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

/// One call with its decision, outcome and steps.
pub fn describe(store: &Store, id: &str) -> Result<String, CliError> {
    Ok(format_call(&find(store, id)?, &steps_of(store, id)?))
}

fn format_call(row: &CallRow, life: &[StoredTransition]) -> String {
    let mut lines = Vec::new();
    let mut field = |label: &str, value: Option<String>| {
        if let Some(value) = value {
            lines.push(format!("{label:<9} {}", text::escape_line(&value, 2_000)));
        }
    };
    let at = |pointer: &str| match row.record.pointer(pointer) {
        None | Some(Value::Null) => None,
        Some(Value::String(string)) => Some(string.clone()),
        Some(value) => Some(value.to_string()),
    };
    field("call", Some(row.id.clone()));
    field("tool", Some(tool_name(row)));
    let plugin = row.plugin.as_ref().map(|plugin| {
        let version = at("/toolVersion").unwrap_or_default();
        format!("{plugin} {version}").trim_end().to_owned()
    });
    field("plugin", plugin);
    field("digest", at("/toolHash"));
    field("session", Some(row.session.clone()));
    field("batch", row.batch.clone());
    field("parent", row.parent.clone());
    field(
        "state",
        Some(if row.deferred {
            format!(
                "{} (the caller has disconnected; answer with `host approve` or `host deny`)",
                row.state
            )
        } else {
            row.state.clone()
        }),
    );
    field("input", at("/inputPreview"));
    for list in only_paths(row) {
        field("only in", Some(list));
    }
    field("mode", at("/mode"));
    field("allowed", at("/policyRuleId"));
    field("asked", at("/approval/reason"));
    let answer = at("/approval/decision").map(|decision| {
        let by = at("/approval/decidedBy").unwrap_or_default();
        let scope = at("/approval/scope").map(|scope| format!(" ({scope})"));
        let note = at("/approval/note").map(|note| format!(": {note}"));
        format!(
            "{decision} by {by}{}{}",
            scope.unwrap_or_default(),
            note.unwrap_or_default()
        )
    });
    field("answer", answer);
    field("supplied", at("/suppliedBy"));
    let error = at("/error/code")
        .map(|code| format!("{code}: {}", at("/error/message").unwrap_or_default()));
    field("error", error);
    if row.state == CallState::Denied.as_str() {
        field("denied by", denial::denied_by(row));
        for way in denial::ways_to_allow(row) {
            field("to allow", Some(way));
        }
    }
    field("created", Some(format_time(row.created_ms)));
    field("ran for", duration(row));
    lines.push(String::new());
    lines.push(format_steps(life));
    lines.push(format_commands(life));
    lines.join("\n").trim_end().to_owned()
}

/// The directories to which callers narrowed the call, one text for each list.
fn only_paths(row: &CallRow) -> Vec<String> {
    let lists = row.record.get("onlyPaths").and_then(Value::as_array);
    let lists = lists.into_iter().flatten().filter_map(Value::as_array);
    let shown = lists.map(|list| {
        let paths: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
        OnlyPaths::format(&paths)
    });
    shown.collect()
}

/// Every authorized command as recorded in its step: arguments, directory, variables and standard input.
pub fn format_commands(life: &[StoredTransition]) -> String {
    let mut out = String::new();
    for line in life {
        let Some(command) = line.row.detail.get("command").and_then(Value::as_object) else {
            continue;
        };
        let _ = writeln!(out, "\ncommand authorized in {}", line.seq);
        for name in ["argv", "cwd", "stdin"] {
            let value = command.get(name).filter(|value| !value.is_null());
            let value = value.map_or_else(|| "the first directory".to_owned(), Value::to_string);
            let _ = writeln!(out, "  {name:<8} {}", text::escape_line(&value, 16_000));
        }
        let variables = command.get("variables").and_then(Value::as_object);
        for (name, value) in variables.into_iter().flatten() {
            let variable = format!("{name}={}", value.as_str().unwrap_or_default());
            let _ = writeln!(
                out,
                "  {:<8} {}",
                "variable",
                text::escape_line(&variable, 1_000)
            );
        }
    }
    out
}

/// A table with one line for each step and the time since the first.
pub fn format_steps(life: &[StoredTransition]) -> String {
    let start = life.first().map_or(0, |line| line.row.at_ms);
    table(
        &["SEQ", "AFTER", "STATE", "STEP", "NOTE"],
        life.iter().map(|line| {
            let row = &line.row;
            vec![
                line.seq.to_string(),
                format!("{} ms", row.at_ms.saturating_sub(start)),
                text::escape_line(&row.state, 40),
                text::escape_line(&row.kind, 40),
                text::escape_line(row.note.as_deref().unwrap_or_default(), 300),
            ]
        }),
    )
}
