//! `host batch`: runs the tool calls of one model turn and prints the results in call order.

pub mod batch_input;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;

use clap::{Args, ValueHint};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolhost::turn::{self, ProfileView, ProfiledResult};
use toolhost_contract::units::format_duration;
use toolhost_contract::{CallId, OnlyPaths, SessionKey, Sink, text};
use toolhost_formats::model::{Format, ModelCall};
use toolhost_formats::profile::{Profile, ProfiledRegistry};
use toolhost_kernel::schedule::Strategy;
use toolhost_kernel::{BatchCall, BatchRequest, CallContext, Kernel, Report};

use crate::events_file::EventsArgs;
use crate::exit::{CliError, Exit, OrExit};
use crate::host_args::{Caller, CallerArgs, HostArgs};
use crate::json;
use crate::load::{LoadPurpose, load_with};
use crate::settings::CliSettings;
use crate::terminal::events::{EventPrinter, print_output};
use crate::terminal::progress::{Progress, ProgressMode};
use crate::terminal::prompter::TerminalPrompter;
use crate::terminal::render;
use crate::terminal::{count, note, print};
use crate::value_parsers::format_parser;

pub const HELP: &str = "\
Input: a JSON array, or a sequence of JSON objects:
  [{\"id\": \"1\", \"name\": \"read_file\", \"input\": {\"path\": \"a.txt\"}}, …]
Ids are chosen by the caller and must be unique. The result is a JSON array in call order with
the same ids; at a terminal it is printed as text unless --json is given. Ctrl-C cancels the calls
that have not ended.

A call can also have \"only_paths\", a list of granted directories or directories in them; the call
cannot use any other.

With --format the input is a model turn: a message, its content, or the whole response of the API.

Strategies:
  waves       run consecutive parallel-safe calls together, every other call alone (default)
  sema        run all calls in parallel if all are read-only, otherwise serially
  kode        run all calls in parallel
  serial      run calls one at a time
  optimistic  run all calls in parallel; rerun those whose results other calls invalidated

Examples:
  host batch calls.json --plugins ./plugins --allow-path . --strategy sema
  host batch --format anthropic --plugins ./plugins --allow-path . < message.json";

#[derive(Debug, Args)]
pub struct BatchArgs {
    /// Input file, or `-` for standard input
    #[arg(value_name = "FILE", default_value = "-", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,

    /// Scheduling strategy: waves, sema, kode, serial or optimistic
    #[arg(long, value_name = "HOW", default_value = "waves")]
    pub strategy: Strategy,

    /// Read a model turn in this format and print the next input for its API
    #[arg(long, value_name = "API", value_parser = format_parser())]
    pub format: Option<Format>,

    /// Print JSON even at a terminal
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub caller: CallerArgs,

    #[command(flatten)]
    pub events: EventsArgs,

    #[command(flatten)]
    pub host: HostArgs,
}

/// One call as requested by the caller.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BatchEntry {
    id: String,
    name: String,
    #[serde(default = "empty_input")]
    input: Value,
    #[serde(default)]
    only_paths: Option<OnlyPaths>,
}

impl BatchEntry {
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn to_json(&self) -> Value {
        json!({"id": self.id, "name": self.name, "input": self.input})
    }
}

fn empty_input() -> Value {
    Value::Object(Map::new())
}

pub async fn batch(args: BatchArgs) -> Result<Exit, CliError> {
    let mut settings = CliSettings::load(&args.host)?;
    let verbose = settings.verbose;
    let events_file = args
        .events
        .open("the results", &mut settings.core.secrets)?;
    let input = match args.format {
        None => BatchInput::Calls(batch_input::read_entries(&args.file)?),
        Some(format) => {
            let turn = batch_input::read_turn(&args.file, format)?;
            if turn.calls.is_empty() {
                note(&turn.note());
                let answer = format.format_results(&[]);
                print(&json::pretty(&answer).or_exit(Exit::Internal)?).or_exit(Exit::Internal)?;
                return Ok(Exit::Ok);
            }
            BatchInput::Turn(format, turn.calls)
        }
    };
    let view = settings.core.profile_view;
    let mut following = None;
    let prompter = Arc::new(TerminalPrompter::default());
    let host = load_with(settings, prompter, LoadPurpose::Run, |kernel| {
        following = events_file.map(|file| file.follow(kernel, view));
    })
    .await?;
    host.require_plugins()?;
    host.note_missing_grants();

    let kernel = &host.kernel;
    let session = SessionKey::local(format!("s-{}", toolhost_kernel::id::random()));
    let caller = args.caller.caller(&session)?;
    kernel.open_session(&session, "host batch");
    let view = host.settings.core.profile_view;
    let entries = match &input {
        BatchInput::Calls(entries) => entries.clone(),
        BatchInput::Turn(format, wanted) => entries_of_turn(kernel, view, *format, wanted),
    };
    let (calls, request) = turn_request(kernel, &entries, args.strategy, &caller, view);
    let title = count(request.calls.len(), "call");
    let progress = Progress::start(&title, ProgressMode::of_terminal());
    let events = EventPrinter::with_progress(verbose, progress);
    let ids: Vec<CallId> = request.calls.iter().map(|call| call.id.clone()).collect();
    let reports = run(kernel, request, Arc::clone(&events) as Arc<dyn Sink>).await;
    let output = events.finish();
    let reports = reports?;

    let mut ok = reports.iter().all(is_ok);
    let shown = match &input {
        BatchInput::Turn(format, wanted) => {
            ok &= wanted.iter().all(|call| call.error.is_none());
            let answer = turn::format_answer(kernel, view, *format, wanted, &calls, &reports);
            json::pretty(&answer).or_exit(Exit::Internal)?
        }
        BatchInput::Calls(_) if args.json || !std::io::stdout().is_terminal() => {
            let results = results(kernel, &entries, &calls, &reports, view);
            json::pretty(&results).or_exit(Exit::Internal)?
        }
        BatchInput::Calls(_) => entries.iter().zip(&reports).map(format_result).collect(),
    };
    print_output(&output, &shown);
    print(&shown).or_exit(Exit::Internal)?;
    kernel.mark_submitted(&caller.principal, ids);
    kernel.close_session(&session, "host batch");
    host.shut_down().await?;
    drop(following);
    Ok(if ok { Exit::Ok } else { Exit::ToolFailed })
}

/// The parsed input.
enum BatchInput {
    Calls(Vec<BatchEntry>),
    Turn(Format, Vec<ModelCall>),
}

/// The calls of a model turn that are run.
pub(super) fn entries_of_turn(
    kernel: &Kernel,
    view: ProfileView,
    format: Format,
    wanted: &[ModelCall],
) -> Vec<BatchEntry> {
    let calls = turn::calls_of_turn(kernel, view, format, wanted).into_iter();
    let entry = |call: BatchCall| BatchEntry {
        id: call.id.0,
        name: call.tool,
        input: call.input,
        only_paths: None,
    };
    calls.map(entry).collect()
}

/// Returns the canonical names and inputs of the calls, and the request that runs them.
pub(super) fn turn_request(
    kernel: &Kernel,
    entries: &[BatchEntry],
    strategy: Strategy,
    caller: &Caller,
    view: ProfileView,
) -> (Vec<(String, Value)>, BatchRequest) {
    let calls = canonical_calls(kernel, entries, view);
    let request = request(entries, &calls, strategy, caller);
    (calls, request)
}

/// The calls with the canonical names and inputs that rules and records use.
fn canonical_calls(
    kernel: &Kernel,
    entries: &[BatchEntry],
    (profile, others): ProfileView,
) -> Vec<(String, Value)> {
    let registry = kernel.registry();
    let profiled = ProfiledRegistry::new(profile, others, registry.descriptors());
    entries
        .iter()
        .map(|entry| profiled.accept(&entry.name, entry.input.clone()))
        .collect()
}

/// `calls`: canonical names and inputs.
pub(super) fn results(
    kernel: &Kernel,
    entries: &[BatchEntry],
    calls: &[(String, Value)],
    reports: &[Report],
    (profile, others): ProfileView,
) -> Vec<Value> {
    let mut results: Vec<Value> = entries.iter().zip(reports).map(result_to_json).collect();
    if profile == Profile::Native {
        return results;
    }
    let registry = kernel.registry();
    let profiled = ProfiledRegistry::new(profile, others, registry.descriptors());
    for ((result, report), (tool, input)) in results.iter_mut().zip(reports).zip(calls) {
        let of_call = ProfiledResult::new(&profiled, tool, input, report);
        let rendered = &of_call.rendered;
        if let Some(envelope) = profiled.envelope(of_call.tool, input, rendered, report.times()) {
            result["envelope"] = envelope;
        }
        if let Some(failure) = &of_call.failure {
            result["reflection"] = failure.reflection();
        }
        result["model"] = json::rendered(rendered);
    }
    results
}

/// Runs the batch. Ctrl-C cancels the calls that have not ended; every call still gets a result.
async fn run(
    kernel: &Kernel,
    request: BatchRequest,
    sink: Arc<dyn Sink>,
) -> Result<Vec<Report>, CliError> {
    let (batch, calls) = (request.id.clone(), request.calls.len());
    let mut running = pin!(kernel.schedule(request, sink));
    loop {
        tokio::select! {
            reports = &mut running => return reports.or_exit(Exit::Internal),
            _ = tokio::signal::ctrl_c() => {
                note("\ncancelling");
                // Cancelling the first unfinished call cancels the others too.
                let _ = (0..calls).any(|index| kernel.cancel_in_batch(&batch, index));
            }
        }
    }
}

/// `calls`: canonical names and inputs.
fn request(
    entries: &[BatchEntry],
    calls: &[(String, Value)],
    strategy: Strategy,
    caller: &Caller,
) -> BatchRequest {
    let id = format!("b-{}", toolhost_kernel::id::random());
    let calls = entries.iter().zip(calls).enumerate();
    let calls = calls.map(|(index, (entry, (tool, input)))| BatchCall {
        id: call_id(&id, index, &entry.id),
        tool: tool.clone(),
        only_paths: entry.only_paths.clone(),
        input: input.clone(),
    });
    BatchRequest {
        calls: calls.collect(),
        id,
        caller: caller.principal.clone(),
        strategy,
        context: CallContext {
            only_paths: caller.only_paths.clone(),
            ..CallContext::default()
        },
    }
}

/// The host's id of a call, because the caller's ids are unique only within one batch. A plain caller id is embedded,
/// so that the caller recognizes it in messages about other calls of the batch.
fn call_id(batch: &str, index: usize, id: &str) -> CallId {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
    CallId(if id.len() <= 64 && id.chars().all(plain) {
        format!("{batch}/{id}")
    } else {
        // Plain ids contain no `#`, so the two kinds cannot collide.
        format!("{batch}/#{}", index + 1)
    })
}

fn is_ok(report: &Report) -> bool {
    matches!(&report.result, Ok(outcome) if !outcome.is_error())
}

fn result_to_json((entry, report): (&BatchEntry, &Report)) -> Value {
    let mut shown = json::report(report);
    shown["id"] = json!(entry.id);
    shown["call"] = json!(report.id.0);
    shown
}

fn format_result((entry, report): (&BatchEntry, &Report)) -> String {
    let head = format!(
        "{} {} ({}, {})\n",
        text::escape_line(&entry.id, 80),
        text::escape_line(&entry.name, 80),
        if is_ok(report) { "ok" } else { "failed" },
        format_duration(report.duration)
    );
    let body = match &report.result {
        Err(error) => render::error(error),
        Ok(outcome) => {
            let failure = render::failure(outcome);
            let content = render::has_content(outcome).then(|| render::for_pipe(outcome));
            content
                .into_iter()
                .chain(failure)
                .collect::<Vec<_>>()
                .join("\n")
        }
    };
    body.lines()
        .fold(head, |shown, line| shown + "  " + line + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_ids_are_unique_for_any_caller_ids() {
        for (index, id, ours) in [
            (0, "toolu_01", "b-1/toolu_01"),
            (1, "ä", "b-1/#2"),
            (2, "#2", "b-1/#3"),
        ] {
            assert_eq!(call_id("b-1", index, id).0, ours);
        }
    }
}
