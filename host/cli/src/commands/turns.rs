//! `host turns`: one session over standard input and output for an agent program.
//!
//! The program writes one JSON line per model turn and reads one line with its results. Questions to the user are
//! separate lines.

mod json_lines_prompter;
mod turn_runner;

use std::io::Write as _;
use std::sync::{Arc, Mutex};

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use toolhost::{HookSettings, front_end};
use toolhost_contract::usable_json::replace_unusable;
use toolhost_contract::{CallId, CallerId, OnlyPaths, SessionKey, text};
use toolhost_formats::events::FrontEnd;
use toolhost_formats::model::Format;
use toolhost_formats::profile::{Profile, ProfiledRegistry};
use toolhost_kernel::Prompter;
use toolhost_kernel::schedule::{Strategy, UnknownStrategy};

use self::json_lines_prompter::{AnswerLine, JsonLinesPrompter};
use self::turn_runner::{TurnRequest, TurnRunner};
use super::batch::{BatchEntry, batch_input};
use crate::events_file::EventsArgs;
use crate::exit::{CliError, Exit, OrExit};
use crate::host_args::{Caller, CallerArgs, HostArgs};
use crate::json;
use crate::load::{LoadPurpose, load};
use crate::settings::CliSettings;
use crate::terminal::events::EventPrinter;
use crate::value_parsers::format_parser;
use crate::watch::{LiveChanges, WatchArgs};

/// Maximum length of a line in bytes.
const MAX_LINE_BYTES: usize = 64 << 20;
/// Maximum number of turns that wait for the running one.
const MAX_QUEUED_TURNS: usize = 64;
/// Total weight of the turns that run or wait. One line always fits.
const MAX_QUEUED_WEIGHT: usize = MAX_LINE_BYTES + VALUE_WEIGHT * batch_input::MAX_VALUES;
/// Weight of a JSON value in addition to its text, in bytes.
const VALUE_WEIGHT: usize = 64;

pub const HELP: &str = "\
Input lines:
  {\"calls\": [{\"id\": \"1\", \"name\": \"read_file\", \"input\": {\"path\": \"a.txt\"}}, …],
   \"strategy\": \"waves\"}
      also \"agent\" and \"task\", on whose behalf the calls are made, and \"only_paths\", the
      directories to which they are narrowed, here or in a call
  {\"turn\": {…}, \"strategy\": \"waves\"}
      with --format: the model turn in the API's format
  {\"answer\": {\"id\": \"q-1\", \"allow\": 0}}
      the index of an offer; 0 allows this call only
  {\"answer\": {\"id\": \"q-1\", \"deny\": \"not now\"}}
      a message to the model, or true
  {\"answer\": {\"id\": \"q-1\", \"cancel\": true}}
      cancel the turn
  {\"event\": {…}}
      with --events-as: the answer to a question, as an event of that system
  {\"detach\": \"1\"}
      move the running command of a call to the background; the call ends and names the job
  {\"stats\": true}
      the number of tools and the calls of this session so far
  {\"reflection\": true, \"task\": \"t-1\"}
      with --profile pegasus: the failures of a task; without \"task\", of that of --task
  {\"answer\": {\"id\": \"q-2\", \"replies\": [\"blue\", true]}}
      answers to the questions of a tool; null declines them all
Output lines:
  {\"results\": [{\"id\": \"1\", \"ok\": true, \"outcome\": {…}}, …]}
  {\"results\": …}
      for a `turn`: the API's next input
  {\"ask\": {\"id\": \"q-1\", \"tool\": \"write_file\", \"reason\": \"…\", \"input\": {…},
   \"offers\": [\"…\"], \"changes\": […]}}
  {\"interview\": {\"id\": \"q-2\", \"plugin\": \"agent\", \"tool\": \"ask_user\", \"queries\": [{…}]}}
  {\"event\": {…}}
      with --events -: the events of the calls, in the format of --events-as
  {\"stats\": {\"total\": 52, \"byCategory\": {…}, \"callStats\": {…}}}
      for `stats`
  {\"reflection\": {\"verdict\": \"replan\", \"toolFailures\": [{…}]}}
      for `reflection`; null if no call failed
  {\"error\": \"…\"}
      the last input line was invalid

Examples:
  host turns --plugins ./plugins --allow-path .
  host turns --plugins ./plugins --allow-path . --format anthropic

At the end of the input, questions are denied, turns that run or wait are completed, and the
session ends. Turns run one at a time.";

#[derive(Debug, Args)]
pub struct TurnsArgs {
    /// Read turns in this format and answer with the next input for its API
    #[arg(long, value_name = "API", value_parser = format_parser())]
    pub format: Option<Format>,

    #[command(flatten)]
    pub caller: CallerArgs,

    #[command(flatten)]
    pub events: EventsArgs,

    #[command(flatten)]
    pub watch: WatchArgs,

    #[command(flatten)]
    pub host: HostArgs,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InputLine {
    #[serde(default)]
    calls: Option<Vec<BatchEntry>>,
    #[serde(default)]
    turn: Option<Value>,
    #[serde(default)]
    strategy: Option<String>,
    #[serde(default)]
    agent: Option<CallerId>,
    #[serde(default)]
    task: Option<CallerId>,
    #[serde(default)]
    only_paths: Option<OnlyPaths>,
    #[serde(default)]
    answer: Option<AnswerLine>,
    #[serde(default)]
    event: Option<Value>,
    #[serde(default)]
    stats: bool,
    #[serde(default)]
    detach: Option<String>,
    #[serde(default)]
    reflection: bool,
}

/// A valid combination of the members of a line.
enum Request {
    Turn {
        turn: RequestedTurn,
        strategy: Option<String>,
        agent: Option<CallerId>,
        task: Option<CallerId>,
        only_paths: Option<OnlyPaths>,
    },
    Answer(AnswerLine),
    Event(Value),
    Stats,
    Detach(String),
    /// The failures of a task.
    Reflection(Option<CallerId>),
}

enum RequestedTurn {
    Calls(Vec<BatchEntry>),
    /// In the format of a model API.
    Model(Value),
}

impl InputLine {
    fn parse(line: &[u8]) -> Result<Self, String> {
        let usable = replace_unusable(batch_input::json_text(line, "a line of JSON")?);
        let input: Self = serde_json::from_slice(&usable.text)
            .map_err(|error| text::escape_line(&error.to_string(), 300))?;
        match usable.problem {
            // A model gets an error for each call that contains such a value.
            Some(problem) if input.turn.is_none() => Err(problem),
            _ => Ok(input),
        }
    }

    fn request(self) -> Result<Request, String> {
        if self.reflection {
            return self.reflection_request();
        }
        let turn = match (self.calls, self.turn) {
            (Some(calls), None) => Some(RequestedTurn::Calls(calls)),
            (None, Some(turn)) => Some(RequestedTurn::Model(turn)),
            (None, None) => None,
            (Some(_), Some(_)) => return Err(UNEXPECTED_MEMBERS.to_owned()),
        };
        let has_options = self.strategy.is_some()
            || self.agent.is_some()
            || self.task.is_some()
            || self.only_paths.is_some();
        match (turn, self.answer, self.event, self.stats, self.detach) {
            (Some(turn), None, None, false, None) => Ok(Request::Turn {
                turn,
                strategy: self.strategy,
                agent: self.agent,
                task: self.task,
                only_paths: self.only_paths,
            }),
            (None, Some(answer), None, false, None) if !has_options => Ok(Request::Answer(answer)),
            (None, None, Some(event), false, None) if !has_options => Ok(Request::Event(event)),
            (None, None, None, true, None) if !has_options => Ok(Request::Stats),
            (None, None, None, false, Some(call)) if !has_options => Ok(Request::Detach(call)),
            _ => Err(UNEXPECTED_MEMBERS.to_owned()),
        }
    }

    fn reflection_request(self) -> Result<Request, String> {
        match self {
            Self {
                calls: None,
                turn: None,
                strategy: None,
                agent: None,
                only_paths: None,
                answer: None,
                event: None,
                stats: false,
                detach: None,
                reflection: _,
                task,
            } => Ok(Request::Reflection(task)),
            _ => Err(UNEXPECTED_MEMBERS.to_owned()),
        }
    }
}

const UNEXPECTED_MEMBERS: &str =
    "expected `calls`, a `turn`, an `answer`, an `event`, `detach`, `stats` or `reflection`";

pub async fn turns(args: TurnsArgs) -> Result<Exit, CliError> {
    let mut settings = CliSettings::load_interactive(&args.host)?;
    let verbose = settings.verbose;
    let notifies_hooks = settings.core.hooks.iter().any(HookSettings::wants_messages);
    let hidden = &mut settings.core.secrets;
    let events_file = args.events.open_or_lines(write_line, hidden)?;
    let lines = Arc::new(JsonLinesPrompter::default());
    let prompter: Arc<dyn Prompter> = Arc::clone(&lines) as _;
    let host = Arc::new(load(settings, prompter, LoadPurpose::Run).await?);
    host.require_plugins()?;
    host.compile_in_background();
    let _changes = LiveChanges::accept(&host, &args.watch)?;
    host.note_missing_grants();
    let session = SessionKey::local(format!("s-{}", toolhost_kernel::id::random()));
    let caller = args.caller.caller(&session)?;
    // Before the session, which is an event.
    let view = host.settings.core.profile_view;
    let following = events_file.map(|file| file.follow(&host.kernel, view));
    host.kernel.open_session(&session, "host turns");
    let events = EventPrinter::start(verbose);
    let mut input = BufReader::new(tokio::io::stdin());
    let mut turns = TurnQueue {
        runner: Arc::new(TurnRunner {
            kernel: Arc::clone(&host.kernel),
            view,
            sink: Arc::clone(&events) as _,
            notifies_hooks,
            failures: Mutex::default(),
            ids: Mutex::default(),
        }),
        format: args.format,
        caller,
        front_end: args.events.events_as,
        prompter: Arc::clone(&lines),
        last: None,
        slots: Arc::new(Semaphore::new(1 + MAX_QUEUED_TURNS)),
        weights: Arc::new(Semaphore::new(MAX_QUEUED_WEIGHT)),
    };
    let mut line = Vec::new();
    loop {
        let handled = match read_line(&mut input, &mut line)
            .await
            .or_exit(Exit::Usage)?
        {
            LineRead::End => break,
            LineRead::TooLong => {
                let limit = MAX_LINE_BYTES >> 20;
                Err(format!(
                    "the line is longer than {limit} MiB and was skipped"
                ))
            }
            LineRead::Read if line.iter().all(u8::is_ascii_whitespace) => Ok(()),
            LineRead::Read => turns.handle(&line),
        };
        if let Err(reason) = handled {
            write_line(&json!({ "error": reason }));
        }
    }
    // No more answers can arrive, so questions are denied. The remaining turns are completed, because the input may come
    // from a file.
    lines.close();
    if let Some(last) = turns.last {
        let _ = last.await;
    }
    events.finish();
    host.kernel.close_session(&session, "host turns");
    drop(following);
    host.shut_down().await?;
    Ok(Exit::Ok)
}

/// The turns of a session. They run one after the other.
struct TurnQueue {
    runner: Arc<TurnRunner>,
    format: Option<Format>,
    caller: Caller,
    front_end: Option<FrontEnd>,
    prompter: Arc<JsonLinesPrompter>,
    /// The last turn. It ends after all others.
    last: Option<JoinHandle<()>>,
    slots: Arc<Semaphore>,
    weights: Arc<Semaphore>,
}

impl TurnQueue {
    /// Handles a line: an answer, or a turn, which is started.
    fn handle(&mut self, line: &[u8]) -> Result<(), String> {
        let input = InputLine::parse(line).map_err(|error| format!("invalid turn: {error}"))?;
        match input.request()? {
            Request::Stats => {
                let registry = self.runner.kernel.registry();
                let (profile, others) = self.runner.view;
                let profiled = ProfiledRegistry::new(profile, others, registry.descriptors());
                let stats = json::stats(&registry.stats(), |tool| profiled.name(tool).to_owned());
                write_line(&json!({ "stats": stats }));
                Ok(())
            }
            Request::Answer(answer) => self.prompter.answer(answer),
            Request::Event(event) => self.answer_event(&event),
            Request::Detach(call) => self.detach(call),
            Request::Reflection(task) => self.reflection(task),
            Request::Turn {
                turn,
                strategy,
                agent,
                task,
                only_paths,
            } => {
                let turn = match (turn, self.format) {
                    (RequestedTurn::Calls(calls), _) => TurnRequest::Calls(calls),
                    (RequestedTurn::Model(turn), Some(format)) => {
                        TurnRequest::ModelTurn(format, turn)
                    }
                    (RequestedTurn::Model(_), None) => {
                        return Err("a `turn` requires `host turns --format`".to_owned());
                    }
                };
                let strategy = strategy.as_deref().unwrap_or("waves").parse();
                let strategy = strategy.map_err(|error: UnknownStrategy| error.to_string())?;
                let mut caller = self.caller.clone();
                caller.principal = caller.principal.stated(agent, task);
                caller.only_paths.extend(only_paths);
                self.start(turn, strategy, caller, weight(line))
            }
        }
    }

    fn reflection(&self, task: Option<CallerId>) -> Result<(), String> {
        if self.runner.view.0 != Profile::Pegasus {
            return Err("`reflection` requires `host turns --profile pegasus`".to_owned());
        }
        let caller = self.caller.principal.clone().stated(None, task);
        write_line(&json!({ "reflection": self.runner.reflection(&caller.task) }));
        Ok(())
    }

    /// `call`: the program's id of a call of the running turn, or the host's.
    fn detach(&self, call: String) -> Result<(), String> {
        let caller = &self.caller.principal;
        let id = self.runner.running_call(&call, &caller.session_key());
        let id = id.unwrap_or(CallId(call));
        let detached = self.runner.kernel.detach(&id, &caller.user);
        detached.map_err(|error| error.to_string())
    }

    /// Answers a question of this session with an event of the front end.
    fn answer_event(&self, event: &Value) -> Result<(), String> {
        let front_end = self
            .front_end
            .ok_or("an `event` requires `host turns --events-as`")?;
        let format = (front_end, self.runner.view);
        let by = self.prompter.name();
        front_end::answer(
            &self.runner.kernel,
            format,
            &self.caller.principal,
            event,
            by,
        )
        .map(drop)
        .map_err(|error| format!("invalid event: {error}"))
    }

    fn start(
        &mut self,
        request: TurnRequest,
        strategy: Strategy,
        caller: Caller,
        weight: u32,
    ) -> Result<(), String> {
        let slot = Arc::clone(&self.slots).try_acquire_owned();
        let slot = slot.map_err(|_| format!("{MAX_QUEUED_TURNS} turns are already waiting"))?;
        let share = Arc::clone(&self.weights).try_acquire_many_owned(weight);
        let share = share.map_err(|_| {
            let limit = MAX_QUEUED_WEIGHT >> 20;
            format!(
                "the waiting turns exceed {limit} MiB; send this turn again after the next results"
            )
        })?;
        let before = self.last.take();
        let runner = Arc::clone(&self.runner);
        // Not awaited, because the next line can be an answer that the preceding turn needs.
        self.last = Some(tokio::spawn(async move {
            let _held = (slot, share);
            if let Some(before) = before {
                let _ = before.await;
            }
            runner.run(&request, strategy, &caller, write_line).await;
        }));
        Ok(())
    }
}

/// The result of reading a line.
#[derive(Debug, PartialEq, Eq)]
enum LineRead {
    Read,
    TooLong,
    End,
}

/// Reads the next line. The rest of a line that is too long is skipped, so that it is not parsed as a separate line.
async fn read_line(
    input: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
) -> std::io::Result<LineRead> {
    line.clear();
    let mut bounded = (&mut *input).take(MAX_LINE_BYTES as u64 + 1);
    if bounded.read_until(b'\n', line).await? == 0 {
        return Ok(LineRead::End);
    }
    if line.len() <= MAX_LINE_BYTES || line.ends_with(b"\n") {
        return Ok(LineRead::Read);
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
            return Ok(LineRead::TooLong);
        }
    }
}

/// The weight of a turn until it has ended, in bytes.
fn weight(line: &[u8]) -> u32 {
    let weight = line.len() + VALUE_WEIGHT * batch_input::count_values(line);
    u32::try_from(weight).unwrap_or(u32::MAX)
}

fn write_line(line: &Value) {
    let mut stdout = std::io::stdout().lock();
    // A program that has closed the output will end the input as well.
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(text: &[u8]) -> Vec<(LineRead, usize)> {
        let mut input = BufReader::new(text);
        let (mut found, mut line) = (Vec::new(), Vec::new());
        loop {
            let read = read_line(&mut input, &mut line).await.unwrap();
            if read == LineRead::End {
                return found;
            }
            found.push((read, line.len()));
        }
    }

    #[tokio::test]
    async fn h_08_the_rest_of_an_overlong_line_is_skipped() {
        let fits = [&vec![b'x'; MAX_LINE_BYTES][..], b"\n{}\n{}"].concat();
        let found = [
            (LineRead::Read, MAX_LINE_BYTES + 1),
            (LineRead::Read, 3),
            (LineRead::Read, 2),
        ];
        assert_eq!(lines(&fits).await, found);
        for rest in ["{\"answer\": {}}\n{}", "\n{}"] {
            let long = [&vec![b'x'; MAX_LINE_BYTES + 1][..], rest.as_bytes()].concat();
            let found = [(LineRead::TooLong, 0), (LineRead::Read, 2)];
            assert_eq!(lines(&long).await, found, "{rest}");
        }
        let endless = vec![b'x'; 3 * MAX_LINE_BYTES];
        assert_eq!(lines(&endless).await, [(LineRead::TooLong, 0)]);
    }

    #[test]
    fn only_a_turn_of_a_model_can_have_unusable_values() {
        let long = "123456789012345678901234567890";
        for (line, accepted) in [
            (format!(r#"{{"turn": [{long}]}}"#), true),
            (
                format!(r#"{{"calls": [{{"id": "1", "name": "a", "input": {{"n": {long}}}}}]}}"#),
                false,
            ),
            (format!(r#"{{"event": {long}}}"#), false),
        ] {
            let error = InputLine::parse(line.as_bytes()).err();
            let reason = "does not fit into 64 bits";
            let is_refused = error.is_some_and(|error| error.contains(reason));
            assert_eq!(is_refused, !accepted, "{line}");
        }
    }

    #[test]
    fn h_09_the_total_weight_of_queued_turns_is_limited() {
        assert_eq!(weight(b"{\"a\": [1]}"), 10 + 3 * 64);
        let most = u32::try_from(MAX_QUEUED_WEIGHT).unwrap();
        assert!(weight(&vec![b'x'; MAX_LINE_BYTES]) <= most);
    }
}
