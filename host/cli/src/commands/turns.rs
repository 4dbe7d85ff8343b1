//! `host turns`: one session on standard input and output, for a program that runs an agent. A line of JSON goes in for
//! each turn of the model, and one comes out with its results; what a person is asked comes out as a line of its own.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::sync::{Semaphore, oneshot};
use toolhost_contract::format::Format;
use toolhost_contract::variables::Variables;
use toolhost_contract::{
    Answer, BoxFuture, Call, Interview, Principal, Question, Reply, SessionKey, Sink, numbers,
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

/// Bytes of one line.
const MAX_LINE: u64 = 64 << 20;
/// Turns that wait for the one that runs.
const MAX_WAITING: usize = 64;

pub const HELP: &str = "\
In, a line each:
  {\"calls\": [{\"id\": \"1\", \"name\": \"read_file\", \"input\": {\"path\": \"a.txt\"}}, …], \"strategy\": \"waves\"}
  {\"turn\": {…}, \"strategy\": \"waves\"}                       with --format: what the model said, as its API has it
  {\"answer\": {\"id\": \"q-1\", \"allow\": 0}}                  the number of an offer; 0 is for this call alone
  {\"answer\": {\"id\": \"q-1\", \"deny\": \"not now\"}}          a word for the model, or true
  {\"answer\": {\"id\": \"q-1\", \"cancel\": true}}             stop the turn
  {\"answer\": {\"id\": \"q-2\", \"replies\": [\"blue\", true]}}  to an interview; null: no answer
Out, a line each:
  {\"results\": [{\"id\": \"1\", \"ok\": true, \"outcome\": {…}}, …]}
  {\"results\": …}                                         to a `turn`: what the API takes next
  {\"ask\": {\"id\": \"q-1\", \"tool\": \"write_file\", \"reason\": \"…\", \"input\": {…}, \"offers\": [\"…\"], \"changes\": […]}}
  {\"interview\": {\"id\": \"q-2\", \"plugin\": \"agent\", \"tool\": \"ask_user\", \"queries\": [{…}]}}
  {\"error\": \"…\"}                                         the line before could not be read

The end of the input ends the session. Turns run one after the other.";

#[derive(Debug, Args)]
pub struct TurnsArgs {
    /// Read turns in the form of this API, and answer with what it takes next: anthropic, openai, openai-responses,
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
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut input)
            .take(MAX_LINE)
            .read_until(b'\n', &mut line)
            .await;
        if read.or_exit(Exit::Usage)? == 0 {
            break;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let heard = read::json_of(&line, "a line of JSON").and_then(|line| {
            numbers::check_integers(line).map_err(|error| error.to_string())?;
            serde_json::from_slice(line).map_err(|error| error.to_string())
        });
        let heard: Heard = match heard {
            Ok(heard) => heard,
            Err(error) => {
                out(&json!({"error": format!("this is not a turn: {error}")}));
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
                        out(
                            &json!({"error": "a `turn` needs `host turns --format`, which says whose it is"}),
                        );
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
                    let reason = format!("{MAX_WAITING} turns are waiting already");
                    out(&json!({ "error": reason }));
                    continue;
                };
                // Not waited for here: an answer that the turn before needs may be the next line.
                let before = running.take();
                let caller = caller.clone();
                let (kernel, sink) = (
                    Arc::clone(&host.kernel),
                    Arc::clone(&events) as Arc<dyn Sink>,
                );
                let view = (host.settings.profile, host.settings.others);
                running = Some(tokio::spawn(async move {
                    let _place = place;
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
            Heard { .. } => out(&json!({"error": "a line has `calls`, a `turn` or an `answer`"})),
        }
    }
    // Nobody answers any more: what waits ends as a no, and the turn with it.
    lines.leave();
    if let Some(running) = running {
        let _ = running.await;
    }
    events.finish();
    host.kernel.close_session(&session, "host turns");
    host.finish().await?;
    Ok(Exit::Ok)
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

/// Whoever sits at the other end of the lines.
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
        if let Some(interview) = waiting.interviews.remove(&said.id) {
            // Nobody there: the call was cancelled a moment ago.
            let _ = interview.send(said.replies);
            return Ok(());
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
                return Err("an answer has `allow`, `deny`, `cancel` or `replies`".to_owned());
            }
        };
        let ask = waiting.asks.remove(&said.id);
        let ask = ask.ok_or_else(|| format!("no question `{}` waits", said.id))?;
        let _ = ask.send(answer);
        Ok(())
    }

    fn leave(&self) {
        let mut waiting = self.waiting();
        waiting.gone = true;
        waiting.asks.clear();
        waiting.interviews.clear();
    }

    fn next(waiting: &mut Waiting) -> String {
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
    // Whoever does not listen any more will end the input as well.
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}
