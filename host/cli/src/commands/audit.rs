//! `host audit`: the chain of everything that happened to calls, to read, to check and to take elsewhere.

use std::fmt::Write as _;
use std::io::{BufWriter, ErrorKind, Write};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use toolhost_contract::text;
use toolhost_store::{Store, StoredTransition, TransitionFilter, Verification};

use super::calls::{commands, find, life_of, tool_of, trail};
use crate::exit::{Exit, Failure, OrExit};
use crate::records::{StoreArgs, time};
use crate::terminal::style::table;
use crate::terminal::{note, print};

/// Transitions that are in memory at once while the chain is exported.
const PAGE: u32 = 1_000;

#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// List the steps of calls, oldest first
    List(ListArgs),
    /// Show the whole life of one call
    Show(ShowArgs),
    /// Check that no step was changed, taken away or added
    Verify {
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Print every step with its hash, one JSON object a line
    Export(ExportArgs),
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only steps of this call
    #[arg(long, value_name = "ID")]
    pub call: Option<String>,

    /// Only steps of calls of this session
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,

    /// Only steps after the one with this number
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub after: i64,

    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=9_999))]
    pub limit: u32,

    #[command(flatten)]
    pub store: StoreArgs,
}

#[derive(Debug, Args)]
pub struct ShowArgs {
    #[arg(value_name = "CALL")]
    pub call: String,

    #[command(flatten)]
    pub store: StoreArgs,
}

#[derive(Debug, Args)]
pub struct ExportArgs {
    #[arg(long, value_enum, default_value = "jsonl")]
    pub format: Format,

    /// Only steps after the one with this number
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub after: i64,

    #[command(flatten)]
    pub store: StoreArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Jsonl,
}

pub fn audit(command: AuditCommand) -> Result<Exit, Failure> {
    match command {
        AuditCommand::List(args) => list(args),
        AuditCommand::Show(args) => show(&args),
        AuditCommand::Verify { store } => verify(&store),
        AuditCommand::Export(args) => export(&args),
    }
}

fn list(args: ListArgs) -> Result<Exit, Failure> {
    let store = args.store.open()?;
    // One more than is shown, to know whether there are more.
    let limit = args.limit + 1;
    let mut lines = store
        .transitions(&TransitionFilter {
            call: args.call,
            session: args.session,
            after_seq: args.after,
            limit,
        })
        .or_exit(Exit::Store)?;
    let more = lines.len() >= limit as usize;
    lines.truncate(args.limit as usize);
    let shown = table(
        &["SEQ", "TIME", "CALL", "STATE", "STEP", "NOTE"],
        lines.iter().map(|line| {
            let row = &line.row;
            vec![
                line.seq.to_string(),
                time(row.at_ms),
                text::inline(&row.call, 80),
                text::inline(&row.state, 40),
                text::inline(&row.kind, 40),
                text::inline(row.note.as_deref().unwrap_or_default(), 120),
            ]
        }),
    );
    print(&shown).or_exit(Exit::Internal)?;
    if let (true, Some(last)) = (more, lines.last()) {
        note(&format!("there are more; go on with --after {}", last.seq));
    }
    Ok(Exit::Ok)
}

fn show(args: &ShowArgs) -> Result<Exit, Failure> {
    let store = args.store.open()?;
    let row = find(&store, &args.call)?;
    let life = life_of(&store, &args.call)?;
    let mut shown = format!(
        "{} of {}, session {}, {}\n\n{}",
        text::inline(&row.id, 300),
        text::inline(&tool_of(&row), 80),
        text::inline(&row.session, 80),
        time(row.created_ms),
        trail(&life)
    );
    shown.push_str(&commands(&life));
    if let Some(last) = life.last() {
        let _ = write!(shown, "\nhash of {}: {}", last.seq, hex(&last.hash));
    }
    print(&shown).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

fn verify(store: &StoreArgs) -> Result<Exit, Failure> {
    match store.open()?.verify().or_exit(Exit::Store)? {
        Verification::Verified { rows, head } => {
            print(&format!("ok: {rows} steps, head {}", hex(&head))).or_exit(Exit::Internal)?;
            Ok(Exit::Ok)
        }
        Verification::Broken { seq, reason } => Err(Failure::new(
            Exit::ToolFailed,
            format!("the chain is broken at {seq}: {reason}"),
        )),
    }
}

fn export(args: &ExportArgs) -> Result<Exit, Failure> {
    let Format::Jsonl = args.format;
    let store = args.store.open()?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    match pages(&store, args.after, &mut out) {
        Ok(()) => Ok(Exit::Ok),
        Err(Stopped::Store(failure)) => Err(failure),
        // A reader that has gone away, as in `… | head`, is not our error.
        Err(Stopped::Output(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(Exit::Ok),
        Err(Stopped::Output(error)) => Err(error).or_exit(Exit::Internal),
    }
}

enum Stopped {
    Store(Failure),
    Output(std::io::Error),
}

fn pages(store: &Store, mut after: i64, out: &mut impl Write) -> Result<(), Stopped> {
    loop {
        let page = store
            .transitions(&TransitionFilter {
                after_seq: after,
                limit: PAGE,
                ..TransitionFilter::default()
            })
            .or_exit(Exit::Store)
            .map_err(Stopped::Store)?;
        let Some(last) = page.last() else {
            return out.flush().map_err(Stopped::Output);
        };
        after = last.seq;
        for line in &page {
            writeln!(out, "{}", of_line(line)).map_err(Stopped::Output)?;
        }
    }
}

/// Every column that the hash covers, and the hash. Inputs are not among them.
fn of_line(line: &StoredTransition) -> Value {
    let row = &line.row;
    json!({
        "seq": line.seq,
        "at": row.at_ms,
        "call": row.call,
        "session": row.session,
        "state": row.state,
        "kind": row.kind,
        "note": row.note,
        "detail": row.detail,
        "hash": hex(&line.hash),
    })
}

fn hex(hash: &[u8; 32]) -> String {
    hash.iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}
