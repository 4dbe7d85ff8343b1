//! `host turns`: one session over standard input and output for an agent program.
//!
//! The program writes one JSON line per model turn and reads one line with its results. Questions to the user are
//! separate lines.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::sync::{Semaphore, oneshot};
use toolhost_contract::format::Format;
use toolhost_contract::variables::Variables;
use toolhost_contract::{
    Answer, BoxFuture, Call, Interview, Principal, Question, Reply, SessionKey, Sink, numbers, text,
};
use toolhost_kernel::schedule::Strategy;
use toolhost_kernel::{Kernel, Prompter};

use super::batch::{self, Wish, read};
use crate::args::HostArgs;
use crate::exit::{Exit, Failure, OrExit};
use crate::json;
use crate::load::{Purpose, load};
use crate::settings::Settings;
use crate::terminal::events::Events;

/// Maximum length of a line in bytes.
const MAX_LINE: usize = 64 << 20;
/// Maximum number of turns that wait for the running one.
const MAX_WAITING: usize = 64;
/// Total weight of the turns that run or wait. One line always fits.
const MAX_WAITING_WEIGHT: usize = MAX_LINE + VALUE * read::MAX_VALUES;
/// Weight of a JSON value in addition to its text, in bytes.
const VALUE: usize = 64;

pub const HELP: &str = "\
Input lines:
  {\"calls\": [{\"id\": \"1\", \"name\": \"read_file\", \"input\": {\"path\": \"a.txt\"}}, …], \"strategy\": \"waves\"}
  {\"turn\": {…}, \"strategy\": \"waves\"}                       with --format: the model turn in the API's format
  {\"answer\": {\"id\": \"q-1\", \"allow\": 0}}                  the index of an offer; 0 allows this call only
  {\"answer\": {\"id\": \"q-1\", \"deny\": \"not now\"}}          a message to the model, or true
  {\"answer\": {\"id\": \"q-1\", \"cancel\": true}}             cancel the turn
  {\"answer\": {\"id\": \"q-2\", \"replies\": [\"blue\", true]}}  answers to an interview; null declines
Output lines:
  {\"results\": [{\"id\": \"1\", \"ok\": true, \"outcome\": {…}}, …]}
  {\"results\": …}                                         for a `turn`: the API's next input
  {\"ask\": {\"id\": \"q-1\", \"tool\": \"write_file\", \"reason\": \"…\", \"input\": {…}, \"offers\": [\"…\"], \"changes\": […]}}
  {\"interview\": {\"id\": \"q-2\", \"plugin\": \"agent\", \"tool\": \"ask_user\", \"queries\": [{…}]}}
  {\"error\": \"…\"}                                         the preceding line is invalid

The session ends at the end of the input. Turns run one at a time.";

#[derive(Debug, Args)]
pub struct TurnsArgs {
    /// Read turns in this API's format and answer with the API's next input: anthropic, openai, openai-responses,
    /// gemini or mcp
    #[arg(long, value_name = "API")]
    pub format: Option<Format>,

    #[command(flatten)]
    pub host: HostArgs,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Heard {
    #[serde(default)]
    calls: Option<Vec<Wish>>,
    #[serde(default)]
    turn: Option<Value>,
    #[serde(default)]
    strategy: Option<String>,
    #[serde(default)]
    answer: Option<Said>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    id: String,
    #[serde(default)]
    allow: Option<usize>,
    #[serde(default)]
    deny: Option<Value>,
    #[serde(default)]
    cancel: bool,
    #[serde(default)]
    replies: Option<Vec<Reply>>,
}

pub async fn turns(args: TurnsArgs) -> Result<Exit, Failure> {
    let settings = Settings::load_answered(&args.host)?;
    let verbose = settings.verbose;
    let lines = Arc::new(Lines::default());
    let prompter: Arc<dyn Prompter> = Arc::clone(&lines) as _;
    let host = load(settings, prompter, Purpose::Run).await?;
    host.require_plugins()?;
    host.note_missing_folders();
    let session = SessionKey::local(format!("s-{}", toolhost_kernel::id::random()));
    let caller = Principal::in_session(&session);
    host.kernel.open_session(&session, "host turns");
    let events = Events::start(verbose);
    let mut input = BufReader::new(tokio::io::stdin());
    let mut running: Option<tokio::task::JoinHandle<()>> = None;
    let room = Arc::new(Semaphore::new(1 + MAX_WAITING));
    let weights = Arc::new(Semaphore::new(MAX_WAITING_WEIGHT));
    let mut line = Vec::new();
    loop {
        match read_line(&mut input, &mut line)
            .await
            .or_exit(Exit::Usage)?
        {
            Line::End => break,
            Line::TooLong => {
                let limit = MAX_LINE >> 20;
                let reason = format!("the line is longer than {limit} MiB and was skipped");
                out(&json!({ "error": reason }));
                continue;
            }
            Line::Read if line.iter().all(u8::is_ascii_whitespace) => continue,
            Line::Read => {}
        }
        let heard = read::json_of(&line, "a line of JSON").and_then(|line| {
            numbers::check_integers(line).map_err(|error| error.to_string())?;
            serde_json::from_slice(line).map_err(|error| text::inline(&error.to_string(), 300))
        });
        let heard: Heard = match heard {
            Ok(heard) => heard,
            Err(error) => {
                out(&json!({"error": format!("invalid turn: {error}")}));
                continue;
            }
        };
        match heard {
            Heard {
                calls: None,
                turn: None,
                strategy: None,
                answer: Some(said),
            } => {
                if let Err(reason) = lines.answer(said) {
                    out(&json!({"error": reason}));
                }
            }
            Heard {
                calls,
                turn,
                strategy,
                answer: None,
            } if calls.is_some() != turn.is_some() => {
                let asked = match (calls, turn, args.format) {
                    (Some(wishes), ..) => Asked::Calls(wishes),
                    (None, Some(turn), Some(format)) => Asked::Spoken(format, turn),
                    (None, ..) => {
                        out(&json!({"error": "a `turn` requires `host turns --format`"}));
                        continue;
                    }
                };
                let strategy = match strategy.as_deref().unwrap_or("waves").parse::<Strategy>() {
                    Ok(strategy) => strategy,
                    Err(error) => {
                        out(&json!({"error": error.to_string()}));
                        continue;
                    }
                };
                let Ok(place) = Arc::clone(&room).try_acquire_owned() else {
                    let reason = format!("{MAX_WAITING} turns are already waiting");
                    out(&json!({ "error": reason }));
                    continue;
                };
                let Ok(share) = Arc::clone(&weights).try_acquire_many_owned(weight(&line)) else {
                    let reason = format!(
                        "the waiting turns exceed {} MiB; send this turn again after the next results",
                        MAX_WAITING_WEIGHT >> 20
                    );
                    out(&json!({ "error": reason }));
                    continue;
                };
                // Not awaited here, because the next line can be an answer that the preceding turn needs.
                let before = running.take();
                let caller = caller.clone();
                let (kernel, sink) = (
                    Arc::clone(&host.kernel),
                    Arc::clone(&events) as Arc<dyn Sink>,
                );
                let view = (host.settings.profile, host.settings.others);
                running = Some(tokio::spawn(async move {
                    let _held = (place, share);
                    if let Some(before) = before {
                        let _ = before.await;
                    }
                    let results = asked.run(&kernel, strategy, &caller, view, sink).await;
                    out(&match results {
                        Ok(results) => json!({"results": results}),
                        Err(error) => json!({"error": format!("{:#}", error.error)}),
                    });
                }));
            }
            Heard { .. } => out(&json!({"error": "expected `calls`, a `turn` or an `answer`"})),
        }
    }
    // No more answers can arrive, so waiting questions are denied and the turn ends.
    lines.leave();
    if let Some(running) = running {
        let _ = running.await;
    }
    events.finish();
    host.kernel.close_session(&session, "host turns");
    host.finish().await?;
    Ok(Exit::Ok)
}

/// The result of reading a line.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Read,
    TooLong,
    End,
}

/// Reads the next line. The rest of a line that is too long is skipped, so that it is not parsed as a separate line.
async fn read_line(
    input: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
) -> std::io::Result<Line> {
    line.clear();
    let mut bounded = (&mut *input).take(MAX_LINE as u64 + 1);
    if bounded.read_until(b'\n', line).await? == 0 {
        return Ok(Line::End);
    }
    if line.len() <= MAX_LINE || line.ends_with(b"\n") {
        return Ok(Line::Read);
    }
    *line = Vec::new();
    loop {
        let rest = input.fill_buf().await?;
        let end = rest.iter().position(|byte| *byte == b'\n');
        let (used, done) = match end {
            Some(at) => (at + 1, true),
            None => (rest.len(), rest.is_empty()),
        };
        input.consume(used);
        if done {
            return Ok(Line::TooLong);
        }
    }
}

/// The weight of a turn until it has ended, in bytes.
fn weight(line: &[u8]) -> u32 {
    let weight = line.len() + VALUE * read::values(line);
    u32::try_from(weight).unwrap_or(u32::MAX)
}

/// A turn of the model.
enum Asked {
    Calls(Vec<Wish>),
    Spoken(Format, Value),
}

impl Asked {
    async fn run(
        &self,
        kernel: &Kernel,
        strategy: Strategy,
        caller: &Principal,
        view: toolhost::turn::View,
        sink: Arc<dyn Sink>,
    ) -> Result<Value, Failure> {
        match self {
            Asked::Calls(wishes) => {
                let results = batch::turn(kernel, wishes, strategy, caller, view, sink).await?;
                Ok(Value::Array(results))
            }
            Asked::Spoken(format, turn) => {
                batch::spoken_turn(kernel, (*format, turn), strategy, caller, view, sink).await
            }
        }
    }
}

/// The prompter that asks the program over its JSON lines.
#[derive(Default)]
struct Lines(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    last: u64,
    gone: bool,
    asks: HashMap<String, oneshot::Sender<Answer>>,
    interviews: HashMap<String, oneshot::Sender<Option<Vec<Reply>>>>,
}

impl Lines {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, said: Said) -> Result<(), String> {
        let mut waiting = self.waiting();
        // An answer that is not received belongs to a call that was just cancelled.
        let nobody = |id: &str| format!("no pending question `{}`", text::inline(id, 80));
        if let Some(interview) = waiting.interviews.remove(&said.id) {
            return interview.send(said.replies).map_err(|_| nobody(&said.id));
        }
        let answer = match said {
            Said { cancel: true, .. } => Answer::Cancel,
            Said {
                allow: Some(offer), ..
            } => Answer::Allow { offer, note: None },
            Said {
                deny: Some(why), ..
            } => Answer::Deny {
                note: why.as_str().map(str::to_owned),
            },
            Said { .. } => {
                return Err("an answer needs `allow`, `deny`, `cancel` or `replies`".to_owned());
            }
        };
        let ask = waiting.asks.remove(&said.id);
        ask.and_then(|ask| ask.send(answer).ok())
            .ok_or_else(|| nobody(&said.id))
    }

    fn leave(&self) {
        let mut waiting = self.waiting();
        waiting.gone = true;
        waiting.asks.clear();
        waiting.interviews.clear();
    }

    fn next(waiting: &mut Waiting) -> String {
        // Drop questions of cancelled calls.
        waiting.asks.retain(|_, ask| !ask.is_closed());
        waiting
            .interviews
            .retain(|_, interview| !interview.is_closed());
        waiting.last += 1;
        format!("q-{}", waiting.last)
    }
}

impl Prompter for Lines {
    fn name(&self) -> &'static str {
        "the program at the other end"
    }

    fn ask<'a>(&'a self, question: &'a Question, call: &'a Call) -> BoxFuture<'a, Answer> {
        let (sender, answer) = oneshot::channel();
        let id = {
            let mut waiting = self.waiting();
            if waiting.gone {
                return Box::pin(std::future::ready(Answer::NobodyToAsk));
            }
            let id = Self::next(&mut waiting);
            waiting.asks.insert(id.clone(), sender);
            id
        };
        let changes = question.changes.as_ref().map(|set| {
            let changes = set.changes.iter();
            changes.map(json::change).collect::<Vec<_>>()
        });
        let mut line = json!({"ask": {
            "id": id,
            "call": call.id.0,
            "plugin": question.plugin,
            "tool": question.tool,
            "effect": question.effect.as_str(),
            "kind": question.kind.as_str(),
            "reason": question.reason,
            "agent": question.agent,
            "input": call.input,
            "changes": changes,
            "offers": question.offers.iter().map(|offer| offer.words.as_str()).collect::<Vec<_>>(),
        }});
        if !question.variables.is_empty() {
            let variables = question.variables.iter().cloned();
            line["ask"]["variables"] = json!(variables.collect::<Variables>());
        }
        out(&line);
        Box::pin(async move { answer.await.unwrap_or(Answer::NobodyToAsk) })
    }

    fn interview<'a>(
        &'a self,
        interview: &'a Interview,
    ) -> BoxFuture<'a, Option<Option<Vec<Reply>>>> {
        let (sender, replies) = oneshot::channel();
        let id = {
            let mut waiting = self.waiting();
            if waiting.gone {
                return Box::pin(std::future::ready(None));
            }
            let id = Self::next(&mut waiting);
            waiting.interviews.insert(id.clone(), sender);
            id
        };
        out(&json!({"interview": {
            "id": id,
            "plugin": interview.plugin,
            "tool": interview.tool,
            "agent": interview.agent,
            "queries": interview.queries,
        }}));
        Box::pin(async move { replies.await.ok() })
    }
}

fn out(line: &Value) {
    let mut stdout = std::io::stdout().lock();
    // A program that has closed the output will end the input as well.
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(text: &[u8]) -> Vec<(Line, usize)> {
        let mut input = BufReader::new(text);
        let (mut found, mut line) = (Vec::new(), Vec::new());
        loop {
            let read = read_line(&mut input, &mut line).await.unwrap();
            if read == Line::End {
                return found;
            }
            found.push((read, line.len()));
        }
    }

    #[tokio::test]
    async fn h_08_no_part_of_a_line_that_is_too_long_is_taken_for_a_line() {
        let fits = [&vec![b'x'; MAX_LINE][..], b"\n{}\n{}"].concat();
        let found = [(Line::Read, MAX_LINE + 1), (Line::Read, 3), (Line::Read, 2)];
        assert_eq!(lines(&fits).await, found);
        for rest in ["{\"answer\": {}}\n{}", "\n{}"] {
            let long = [&vec![b'x'; MAX_LINE + 1][..], rest.as_bytes()].concat();
            let found = [(Line::TooLong, 0), (Line::Read, 2)];
            assert_eq!(lines(&long).await, found, "{rest}");
        }
        let endless = vec![b'x'; 3 * MAX_LINE];
        assert_eq!(lines(&endless).await, [(Line::TooLong, 0)]);
    }

    #[test]
    fn h_09_turns_that_wait_are_bounded_together_and_each_fits() {
        assert_eq!(weight(b"{\"a\": [1]}"), 10 + 3 * 64);
        let most = u32::try_from(MAX_WAITING_WEIGHT).unwrap();
        assert!(weight(&vec![b'x'; MAX_LINE]) <= most);
    }

    #[test]
    fn h_12_an_answer_to_a_question_that_waits_no_more_is_an_error() {
        let lines = Lines::default();
        let said = |id: &str| Said {
            id: id.to_owned(),
            allow: Some(0),
            deny: None,
            cancel: false,
            replies: None,
        };
        for id in ["q-1", "q-2"] {
            let (sender, answer) = oneshot::channel();
            lines.waiting().asks.insert(id.to_owned(), sender);
            drop(answer);
        }
        assert_eq!(
            lines.answer(said("q-1")).unwrap_err(),
            "no pending question `q-1`"
        );
        // Cancelled questions are dropped.
        Lines::next(&mut lines.waiting());
        assert!(lines.waiting().asks.is_empty());
        let long = lines.answer(said(&"q".repeat(1 << 20))).unwrap_err();
        assert!(long.len() < 200, "{long}");
    }
}
