//! `host audit`: reads, verifies and exports the audit trail of calls.

use std::fmt::Write as _;
use std::io::{BufWriter, ErrorKind, Write};

use anyhow::Context as _;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use toolhost_contract::text;
use toolhost_store::{
    ChainSubject, RecordedHead, Store, StoredTransition, TransitionFilter, Verification,
};

use super::calls::{find, format_commands, format_steps, steps_of, tool_name};
use crate::exit::{CliError, Exit, OrExit};
use crate::records::{StoreArgs, chain_broken, format_time, head_removed};
use crate::terminal::style::table;
use crate::terminal::{note, print};

/// Transitions held in memory at once during an export.
const PAGE_SIZE: u32 = 1_000;

pub const HELP: &str = "\
Examples:
  host audit                            the last steps of all calls
  host audit show c-7tq0v0y9a2m5k8xr    the steps of one call
  host audit verify                     check that no step or record was changed, removed or added";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct AuditArgs {
    #[command(subcommand)]
    pub command: Option<AuditCommand>,

    #[command(flatten)]
    pub list: ListArgs,
}

#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// The same as `host audit`
    #[command(hide = true)]
    List(ListArgs),
    /// Show all steps of one call
    Show(ShowArgs),
    /// Verify the hash chain: report the first step or record that was changed, removed or added
    ///
    /// A chain that was recomputed as a whole, or replaced by an older copy, is detected only with --head.
    Verify(VerifyArgs),
    /// Print the number and hash of the last step, to store elsewhere and pass to `verify --head`
    Head {
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Print every step with its hash as JSON lines
    Export(ExportArgs),
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// List only steps of this call
    #[arg(long, value_name = "ID")]
    pub call: Option<String>,

    /// List only steps of calls of this session
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,

    /// List the steps after this number, oldest first [default: the last steps]
    #[arg(long, value_name = "SEQ")]
    pub after: Option<i64>,

    /// Maximum number of steps
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=9_999))]
    pub limit: u32,

    #[command(flatten)]
    pub store: StoreArgs,
}

#[derive(Debug, Args)]
pub struct ShowArgs {
    /// ID of a call, as `host calls` prints it
    #[arg(value_name = "CALL")]
    pub call: String,

    #[command(flatten)]
    pub store: StoreArgs,
}

#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Require the chain to contain this output of an earlier `host audit head`
    #[arg(long, value_name = "HEAD", value_parser = parse_head)]
    pub head: Option<RecordedHead>,

    #[command(flatten)]
    pub store: StoreArgs,
}

/// Parses `SEQ:HASH`, or the hash alone.
fn parse_head(text: &str) -> Result<RecordedHead, String> {
    let wrong = || {
        format!(
            "`{}` is not a head; pass the output of `host audit head`",
            text::escape_line(text, 100)
        )
    };
    let (seq, hex) = match text.split_once(':') {
        Some((seq, hex)) => {
            let seq = seq.parse::<i64>().ok().filter(|seq| *seq >= 0);
            (Some(seq.ok_or_else(wrong)?), hex)
        }
        None => (None, text),
    };
    let mut hash = [0; 32];
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    if pairs.len() != hash.len() || !rest.is_empty() {
        return Err(wrong());
    }
    for (byte, pair) in hash.iter_mut().zip(pairs) {
        let digit = |digit: u8| char::from(digit).to_digit(16).ok_or_else(wrong);
        let value = digit(pair[0])? * 16 + digit(pair[1])?;
        *byte = u8::try_from(value).map_err(|_| wrong())?;
    }
    Ok(RecordedHead { seq, hash })
}

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Output format
    #[arg(long, value_enum, default_value = "jsonl")]
    pub format: Format,

    /// Export only steps after this number
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub after: i64,

    #[command(flatten)]
    pub store: StoreArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Jsonl,
}

pub async fn audit(args: AuditArgs) -> Result<Exit, CliError> {
    match args.command {
        None => list(args.list),
        Some(AuditCommand::List(args)) => list(args),
        Some(AuditCommand::Show(args)) => show(&args),
        Some(AuditCommand::Verify(args)) => verify(&args),
        Some(AuditCommand::Head { store }) => head(&store).await,
        Some(AuditCommand::Export(args)) => export(&args),
    }
}

fn list(args: ListArgs) -> Result<Exit, CliError> {
    let records = args.store.open_records()?;
    let store = &records.store;
    // One more than is printed, to detect whether more exist.
    let limit = args.limit + 1;
    let is_narrowed = args.call.is_some() || args.session.is_some();
    let after = args.after.unwrap_or(if is_narrowed {
        0
    } else {
        records.last_step.saturating_sub(args.limit.into()).max(0)
    });
    let mut lines = store
        .transitions(&TransitionFilter {
            call: args.call,
            session: args.session,
            every_subject: true,
            after_seq: after,
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
                format_time(row.at_ms),
                text::escape_line(&row.call, 80),
                text::escape_line(&row.state, 40),
                text::escape_line(&row.kind, 40),
                text::escape_line(row.note.as_deref().unwrap_or_default(), 120),
            ]
        }),
    );
    print(&shown).or_exit(Exit::Internal)?;
    if let (true, Some(last)) = (more, lines.last()) {
        note(&format!(
            "more steps exist; continue with --after {}",
            last.seq
        ));
    }
    Ok(Exit::Ok)
}

fn show(args: &ShowArgs) -> Result<Exit, CliError> {
    let store = args.store.open_verified()?;
    let row = find(&store, &args.call)?;
    let life = steps_of(&store, &args.call)?;
    let mut shown = format!(
        "{} of {}, session {}, {}\n\n{}",
        text::escape_line(&row.id, 300),
        text::escape_line(&tool_name(&row), 80),
        text::escape_line(&row.session, 80),
        format_time(row.created_ms),
        format_steps(&life)
    );
    shown.push_str(&format_commands(&life));
    if let Some(last) = life.last() {
        let _ = write!(shown, "\nhash of {}: {}", last.seq, hex(&last.hash));
    }
    print(&shown).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

fn verify(args: &VerifyArgs) -> Result<Exit, CliError> {
    let store = args.store.open()?;
    let verification = match args.head {
        Some(head) => store.verify_head(head),
        None => store.verify(),
    };
    match verification.or_exit(Exit::Store)? {
        Verification::Verified {
            rows,
            removed,
            head,
        } => {
            print(&format!("ok: {rows} steps, head {}", hex(&head))).or_exit(Exit::Internal)?;
            if removed > 0 {
                note(&format!(
                    "the first {removed} of them are no longer stored: retention removed them, or a program that can write \
                     the file"
                ));
            }
            Ok(Exit::Ok)
        }
        Verification::HeadRemoved { seq, removed } => Err(head_removed(seq, removed)),
        Verification::Broken { seq, reason } => Err(chain_broken(seq, &reason)),
    }
}

async fn head(store: &StoreArgs) -> Result<Exit, CliError> {
    let (seq, hash) = store
        .open_verified()?
        .seal_head()
        .await
        .or_exit(Exit::Store)?;
    print(&format!("{seq}:{}", hex(&hash))).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

fn export(args: &ExportArgs) -> Result<Exit, CliError> {
    let Format::Jsonl = args.format;
    let store = args.store.open_verified()?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    match write_steps(&store, args.after, None, &mut out) {
        Ok(()) => Ok(Exit::Ok),
        Err(ExportError::Store(failure)) => Err(failure),
        // A closed pipe, as in `… | head`, is not an error.
        Err(ExportError::Output(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(Exit::Ok),
        Err(ExportError::Output(error)) => Err(error)
            .context("cannot write the steps to standard output")
            .or_exit(Exit::Internal),
    }
}

/// Why an export ended early.
pub enum ExportError {
    Store(CliError),
    Output(std::io::Error),
}

/// Writes the steps after the number `after`, up to and including `until`.
pub fn write_steps(
    store: &Store,
    mut after: i64,
    until: Option<i64>,
    out: &mut impl Write,
) -> Result<(), ExportError> {
    loop {
        let mut page = store
            .transitions(&TransitionFilter {
                every_subject: true,
                after_seq: after,
                limit: PAGE_SIZE,
                ..TransitionFilter::default()
            })
            .or_exit(Exit::Store)
            .map_err(ExportError::Store)?;
        page.retain(|line| until.is_none_or(|until| line.seq <= until));
        let Some(last) = page.last() else {
            return out.flush().map_err(ExportError::Output);
        };
        after = last.seq;
        for line in &page {
            writeln!(out, "{}", step_to_json(line)).map_err(ExportError::Output)?;
        }
    }
}

/// Every column that the hash covers, and the hash. Inputs are not included.
fn step_to_json(line: &StoredTransition) -> Value {
    let row = &line.row;
    let mut shown = json!({
        "seq": line.seq,
        "at": row.at_ms,
        "call": row.call,
        "session": row.session,
        "state": row.state,
        "kind": row.kind,
        "note": row.note,
        "detail": row.detail,
    });
    if line.subject != ChainSubject::Step {
        shown["subject"] = json!(line.subject.name());
    }
    if let Some(digest) = &line.digest {
        shown["digest"] = json!(hex(digest));
    }
    shown["hash"] = json!(hex(&line.hash));
    shown
}

fn hex(hash: &[u8; 32]) -> String {
    hash.iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_17_a_saved_head_parses_as_printed() {
        let hash: [u8; 32] = std::array::from_fn(|index| u8::try_from(index * 7).unwrap_or(255));
        let shown = hex(&hash);
        for (text, seq) in [
            (shown.clone(), None),
            (format!("18:{shown}"), Some(18)),
            (shown.to_uppercase(), None),
        ] {
            assert_eq!(parse_head(&text), Ok(RecordedHead { seq, hash }), "{text}");
        }
        for text in [
            "",
            "18:",
            &shown[1..],
            &format!("x:{shown}"),
            &format!("-1:{shown}"),
            &format!("{shown}:18"),
            &shown.replace('0', "g"),
            &"é".repeat(32),
        ] {
            assert!(parse_head(text).is_err(), "{text}");
        }
    }
}
