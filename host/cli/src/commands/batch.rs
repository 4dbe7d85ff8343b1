//! `host batch`: the calls of one model turn, run together, with their results in call order.

use std::collections::HashSet;
use std::fmt;
use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;

use clap::{Args, ValueHint};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::{Map, Value, json};
use toolhost_contract::profile::{Others, Profile};
use toolhost_contract::units::show_duration;
use toolhost_contract::{CallId, Caller, Sink, ToolName, text};
use toolhost_kernel::schedule::Strategy;
use toolhost_kernel::{BatchCall, BatchRequest, Kernel, Report, Within};

use crate::args::HostArgs;
use crate::events_file::EventsArgs;
use crate::exit::{Exit, Failure, OrExit};
use crate::json;
use crate::load::{Purpose, load_with};
use crate::settings::Settings;
use crate::terminal::events::Events;
use crate::terminal::prompter::TerminalPrompter;
use crate::terminal::render;
use crate::terminal::{note, print};

/// What one batch may hold.
const MAX_CALLS: usize = 10_000;
const MAX_INPUT: u64 = 64 << 20;
const MAX_ID: usize = 256;

pub const HELP: &str = "\
Input: a JSON list, or one JSON object after the other:
  [{\"id\": \"1\", \"name\": \"read_file\", \"input\": {\"path\": \"a.txt\"}}, …]
Ids are yours and must differ. The result is a JSON list in call order, with your ids; at a terminal it is shown
in words, unless you write --json. Ctrl-C cancels the calls that have not ended.

Strategies:
  waves   neighbours that may run in parallel run together, the others alone (the default)
  sema    all together when all only read, else one after the other
  kode    all at once
  serial  one after the other

Example:
  host batch calls.json --plugins ./plugins --allow-path . --strategy sema";

#[derive(Debug, Args)]
pub struct BatchArgs {
    /// A file, or `-` for standard input
    #[arg(value_name = "FILE", default_value = "-", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,

    /// In which order the calls run: waves, sema, kode, serial or optimistic
    #[arg(long, value_name = "HOW", default_value = "waves")]
    pub strategy: Strategy,

    /// Print JSON, also at a terminal
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub events: EventsArgs,

    #[command(flatten)]
    pub host: HostArgs,
}

/// One call as the caller wrote it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wish {
    id: String,
    name: String,
    #[serde(default = "no_input")]
    input: Value,
}

fn no_input() -> Value {
    Value::Object(Map::new())
}

pub async fn batch(args: BatchArgs) -> Result<Exit, Failure> {
    let settings = Settings::load(&args.host)?;
    let verbose = settings.verbose;
    let events_file = args.events.open("the results")?;
    let wishes = read(&args.file)?;
    let mut following = None;
    let prompter = Arc::new(TerminalPrompter::default());
    let host = load_with(settings, prompter, Purpose::Run, |kernel| {
        following = events_file.map(|file| file.follow(kernel));
    })
    .await?;
    host.require_plugins()?;
    host.note_missing_folders();

    let kernel = &host.kernel;
    let session = format!("s-{}", toolhost_kernel::id::random());
    let caller = Caller {
        session_id: session.clone(),
        ..Caller::default()
    };
    kernel.open_session(&session, "host batch");
    let events = Events::start(verbose);
    let view = (host.settings.profile, host.settings.others);
    let calls = canonical(kernel, &wishes, view);
    let request = request(&wishes, &calls, args.strategy, &caller);
    let ids: Vec<CallId> = request.calls.iter().map(|call| call.id.clone()).collect();
    let reports = run(kernel, request, Arc::clone(&events) as Arc<dyn Sink>).await;
    events.finish();
    let reports = reports?;

    let ok = reports.iter().all(is_ok);
    let shown = if args.json || !std::io::stdout().is_terminal() {
        let results = results(kernel, &wishes, &calls, &reports, view);
        serde_json::to_string_pretty(&results).or_exit(Exit::Internal)?
    } else {
        wishes.iter().zip(&reports).map(for_people).collect()
    };
    print(&shown).or_exit(Exit::Internal)?;
    kernel.mark_submitted(&caller, ids);
    kernel.close_session(&session, "host batch");
    host.finish().await?;
    drop(following);
    Ok(if ok { Exit::Ok } else { Exit::ToolFailed })
}

/// Whose words the model uses.
type View = (Profile, Others);

/// One turn of a session that goes on: its results, in call order.
pub(super) async fn turn(
    kernel: &Kernel,
    wishes: &[Wish],
    strategy: Strategy,
    caller: &Caller,
    view: View,
    sink: Arc<dyn Sink>,
) -> Result<Vec<Value>, Failure> {
    check(wishes).map_err(|message| Failure::new(Exit::Usage, message))?;
    let calls = canonical(kernel, wishes, view);
    let request = request(wishes, &calls, strategy, caller);
    let ids: Vec<CallId> = request.calls.iter().map(|call| call.id.clone()).collect();
    let reports = kernel
        .schedule(request, sink)
        .await
        .or_exit(Exit::Internal)?;
    kernel.mark_submitted(caller, ids);
    Ok(results(kernel, wishes, &calls, &reports, view))
}

/// The calls by the names and spellings that rules and records know.
fn canonical(kernel: &Kernel, wishes: &[Wish], (profile, others): View) -> Vec<(String, Value)> {
    let registry = kernel.registry();
    let lens = registry.lens(profile, others);
    wishes
        .iter()
        .map(|wish| lens.accept(&wish.name, wish.input.clone()))
        .collect()
}

fn results(
    kernel: &Kernel,
    wishes: &[Wish],
    calls: &[(String, Value)],
    reports: &[Report],
    (profile, others): View,
) -> Vec<Value> {
    let mut results: Vec<Value> = wishes.iter().zip(reports).map(as_json).collect();
    if profile == Profile::Native {
        return results;
    }
    let registry = kernel.registry();
    let lens = registry.lens(profile, others);
    for ((result, report), (tool, input)) in results.iter_mut().zip(reports).zip(calls) {
        let tool = report.tool.as_ref().map_or(tool.as_str(), ToolName::as_str);
        result["model"] = json::rendered(&lens.render(tool, input, &report.result));
    }
    results
}

/// Runs the batch; Ctrl-C cancels what has not ended, and every call still has its result.
async fn run(
    kernel: &Kernel,
    request: BatchRequest,
    sink: Arc<dyn Sink>,
) -> Result<Vec<Report>, Failure> {
    let (batch, calls) = (request.id.clone(), request.calls.len());
    let mut running = pin!(kernel.schedule(request, sink));
    loop {
        tokio::select! {
            reports = &mut running => return reports.or_exit(Exit::Internal),
            _ = tokio::signal::ctrl_c() => {
                note("\ncancelling");
                // The first one that has not ended takes the others along.
                let _ = (0..calls).any(|index| kernel.cancel_in_batch(&batch, index));
            }
        }
    }
}

/// `calls`: canonical names and inputs.
fn request(
    wishes: &[Wish],
    calls: &[(String, Value)],
    strategy: Strategy,
    caller: &Caller,
) -> BatchRequest {
    let id = format!("b-{}", toolhost_kernel::id::random());
    let calls = wishes.iter().zip(calls).enumerate();
    let calls = calls.map(|(index, (wish, (tool, input)))| BatchCall {
        id: call_id(&id, index, &wish.id),
        tool: tool.clone(),
        input: input.clone(),
    });
    BatchRequest {
        calls: calls.collect(),
        id,
        caller: caller.clone(),
        strategy,
        within: Within::default(),
    }
}

/// Ours, because the caller's ids need to differ within one batch only. A plain one is kept inside, so that a message
/// which names another call of the batch makes sense to the caller.
fn call_id(batch: &str, index: usize, id: &str) -> CallId {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
    CallId(if id.len() <= 64 && id.chars().all(plain) {
        format!("{batch}/{id}")
    } else {
        // No plain id has this sign, so the two kinds never meet.
        format!("{batch}/#{}", index + 1)
    })
}

fn is_ok(report: &Report) -> bool {
    matches!(&report.result, Ok(outcome) if !outcome.is_error())
}

fn as_json((wish, report): (&Wish, &Report)) -> Value {
    let mut shown = json::report(report);
    shown["id"] = json!(wish.id);
    shown["call"] = json!(report.id.0);
    shown
}

fn for_people((wish, report): (&Wish, &Report)) -> String {
    let head = format!(
        "{} {} ({}, {})\n",
        text::inline(&wish.id, 80),
        text::inline(&wish.name, 80),
        if is_ok(report) { "ok" } else { "failed" },
        show_duration(report.duration)
    );
    let body = match &report.result {
        Err(error) => render::error(error),
        Ok(outcome) => {
            let failure = render::failure(outcome);
            let content = render::has_content(outcome).then(|| render::for_scripts(outcome));
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

fn read(file: &std::path::Path) -> Result<Vec<Wish>, Failure> {
    let stdin = file.as_os_str() == "-";
    let shown = if stdin {
        "standard input".to_owned()
    } else {
        text::inline(&file.to_string_lossy(), 400)
    };
    if stdin && std::io::stdin().is_terminal() {
        return Err(Failure::new(
            Exit::Usage,
            "no calls; name a file, or send them to standard input",
        ));
    }
    let wrong = |message: String| Failure::new(Exit::Usage, format!("{shown}: {message}"));
    let mut text = Vec::new();
    let read = if stdin {
        let stdin = std::io::stdin().lock();
        stdin.take(MAX_INPUT + 1).read_to_end(&mut text)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(MAX_INPUT + 1).read_to_end(&mut text))
    };
    read.map_err(|error| wrong(format!("cannot be read: {error}")))?;
    if text.len() as u64 > MAX_INPUT {
        return Err(wrong(format!(
            "longer than {} MiB; cut it into several batches",
            MAX_INPUT >> 20
        )));
    }
    parse(&text).map_err(wrong)
}

/// A list, or objects one after the other. Errors of JSON say line and column.
fn parse(text: &[u8]) -> Result<Vec<Wish>, String> {
    let is_list = text
        .iter()
        .find(|byte| !byte.is_ascii_whitespace())
        .is_none_or(|byte| *byte == b'[');
    let wishes = if is_list {
        serde_json::from_slice::<Wishes>(text).map(|wishes| wishes.0)
    } else {
        let stream = serde_json::Deserializer::from_slice(text).into_iter::<Wish>();
        // One more than fits, so that too many are noticed and no more are kept.
        stream.take(MAX_CALLS + 1).collect()
    };
    let wishes = wishes.map_err(|error| text::inline(&error.to_string(), 300))?;
    check(&wishes)?;
    Ok(wishes)
}

fn check(wishes: &[Wish]) -> Result<(), String> {
    if wishes.len() > MAX_CALLS {
        return Err(too_many());
    }
    let mut ids = HashSet::new();
    for (index, wish) in wishes.iter().enumerate() {
        let wrong = |what: &str| Err(format!("call {}: {what}", index + 1));
        if wish.id.is_empty() {
            return wrong("its id is empty; give each call an id of its own");
        }
        if wish.id.len() > MAX_ID {
            return wrong(&format!(
                "its id has {} bytes; at most {MAX_ID} are taken",
                wish.id.len()
            ));
        }
        if !ids.insert(&wish.id) {
            let id = text::inline(&wish.id, 80);
            return wrong(&format!("the id `{id}` is there already; ids must differ"));
        }
    }
    Ok(())
}

fn too_many() -> String {
    format!("more than {MAX_CALLS} calls; cut it into several batches")
}

/// A list that stops being read when it is too long.
struct Wishes(Vec<Wish>);

impl<'de> Deserialize<'de> for Wishes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Wishes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of calls")
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Wishes, S::Error> {
                let mut wishes = Vec::new();
                while let Some(wish) = seq.next_element()? {
                    if wishes.len() == MAX_CALLS {
                        return Err(S::Error::custom(too_many()));
                    }
                    wishes.push(wish);
                }
                Ok(Wishes(wishes))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&[&str], &str>) {
        let parsed = parse(text.as_bytes());
        let shown = parsed.as_ref().map_err(String::as_str).map(|wishes| {
            wishes
                .iter()
                .map(|wish| wish.id.as_str())
                .collect::<Vec<_>>()
        });
        assert_eq!(shown, expected.map(<[&str]>::to_vec), "{text}");
    }

    #[test]
    fn a_batch_is_a_list_or_one_object_after_the_other() {
        check(r#"[{"id": "1", "name": "a", "input": {}}]"#, Ok(&["1"]));
        check(" \n[]", Ok(&[]));
        check(
            "{\"id\": \"x\", \"name\": \"a\"}\n{\"id\": \"y\",\n \"name\": \"b\"}\n",
            Ok(&["x", "y"]),
        );
        assert_eq!(
            parse(br#"[{"id": "1", "name": "a"}]"#).unwrap()[0].input,
            json!({})
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        check("", Err("EOF while parsing a value at line 1 column 0"));
        check(
            "[\n  {\"id\": \"1\",, \"name\": \"a\"}\n]",
            Err("key must be a string at line 2 column 14"),
        );
        check(
            "{\"id\": \"x\", \"name\": \"a\"}\n{\"id\": 5, \"name\": \"b\"}",
            Err("invalid type: integer `5`, expected a string at line 2 column 8"),
        );
        check(
            r#"[{"id": "1", "tool": "a"}]"#,
            Err("unknown field `tool`, expected one of `id`, `name`, `input` at line 1 column 19"),
        );
        check(
            r#"[{"id": "1", "name": "a"}, {"id": "1", "name": "b"}]"#,
            Err("call 2: the id `1` is there already; ids must differ"),
        );
        check(
            r#"[{"id": "", "name": "a"}]"#,
            Err("call 1: its id is empty; give each call an id of its own"),
        );
        let long = format!("[{{\"id\": \"{}\", \"name\": \"a\"}}]", "x".repeat(257));
        check(
            &long,
            Err("call 1: its id has 257 bytes; at most 256 are taken"),
        );
    }

    #[test]
    fn the_number_of_calls_is_bounded() {
        let call = |index: usize| format!("{{\"id\": \"{index}\", \"name\": \"a\"}}");
        for (calls, fits) in [(MAX_CALLS, true), (MAX_CALLS + 1, false)] {
            let all: Vec<String> = (0..calls).map(call).collect();
            for text in [format!("[{}]", all.join(",")), all.join("\n")] {
                match parse(text.as_bytes()) {
                    Ok(wishes) => assert!(fits && wishes.len() == calls),
                    Err(error) => assert!(!fits && error.contains("more than 10000 calls")),
                }
            }
        }
    }

    #[test]
    fn ids_of_calls_differ_whatever_their_callers_ids_are() {
        for (index, id, ours) in [
            (0, "toolu_01", "b-1/toolu_01"),
            (1, "ä", "b-1/#2"),
            (2, "#2", "b-1/#3"),
        ] {
            assert_eq!(call_id("b-1", index, id).0, ours);
        }
    }
}
