//! The host services of one running call: session state, questions, modes, agents, tools and resources.

mod jobs;
mod notes;
mod others;
mod waiting;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde_json::{Value, json};
use toolhost_contract::policy::{Mode, Policy, Subject};
use toolhost_contract::{
    AgentInfo, BackgroundCall, BoxFuture, CallError, CallId, Choice, Effect, Failure, Interview,
    Outcome, Part, Principal, Query, QueryKind, Reply, Services, Sight, ToolFacts, text,
};

use super::halt::Halt;
use super::judge::request;
use super::run::Run;
use super::sessions::Session;
use super::{Kernel, Within};
use crate::Entry;

pub(super) use self::jobs::Jobs;
pub(super) use self::notes::{Notes, Shelf};

use self::waiting::Waiting;

/// Maximum number of questions per call. More indicate a loop.
const ASKS: usize = 16;
/// Maximum number of calls of other tools per call.
const CALLS: usize = 64;

/// Created for each run of a call.
pub(crate) struct CallServices {
    /// `None` in a kernel that is not shared: then services that call back fail.
    kernel: Option<Weak<Kernel>>,
    session: Arc<Session>,
    entry: Arc<Entry>,
    id: CallId,
    caller: Arc<Principal>,
    within: Within,
    /// The policy when the call was evaluated.
    policy: Arc<Policy>,
    halt: Halt,
    /// The changes of the call are evaluated after the run.
    held: bool,
    notes: Mutex<Notes>,
    asked: AtomicUsize,
    called: AtomicUsize,
    waiting: Waiting,
}

impl CallServices {
    pub(super) fn new(kernel: &Kernel, entry: &Arc<Entry>, run: &Run<'_>, held: bool) -> Self {
        Self {
            kernel: kernel.me.get().cloned(),
            session: Arc::clone(&run.session),
            entry: Arc::clone(entry),
            id: run.id.clone(),
            caller: Arc::clone(&run.caller),
            within: run.within.clone(),
            policy: kernel.policy_of(&run.session),
            halt: run.halt.clone(),
            held,
            notes: Mutex::default(),
            asked: AtomicUsize::new(0),
            called: AtomicUsize::new(0),
            waiting: Waiting::default(),
        }
    }

    /// Saves the notes of the call, because its result is final. Of the variables that affect programs, only those in
    /// `allowed` are saved.
    pub(super) fn keep(&self, allowed: &[(String, String)]) {
        let notes = std::mem::take(&mut *self.notes());
        self.session.shelf().keep(notes, allowed);
    }

    /// Returns the variables that the call sets for the programs of its session and that can change what these run.
    pub(super) fn steering(&self) -> Vec<(String, String)> {
        match self.notes().variables() {
            Some(variables) => self.session.shelf().steering(&variables),
            None => Vec::new(),
        }
    }

    /// Returns the time of the run that does not count for the tool.
    pub(super) fn waited(&self) -> Duration {
        self.waiting.so_far()
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kernel(&self) -> Result<Arc<Kernel>, Failure> {
        let kernel = self.kernel.as_ref().and_then(Weak::upgrade);
        kernel.ok_or_else(|| Failure::new("not_configured", "this host provides no services"))
    }

    async fn interview(&self, queries: Vec<Query>) -> Result<Vec<Reply>, Failure> {
        if self.asked.fetch_add(1, Relaxed) >= ASKS {
            let message = format!("this call has reached the limit of {ASKS} questions");
            return Err(Failure::new("too_many_questions", message));
        }
        let kernel = self.kernel()?;
        let interview = Interview {
            call: self.id.clone(),
            plugin: self.entry.plugin.name.to_string(),
            tool: self.entry.name.to_string(),
            agent: self
                .caller
                .parent_agent
                .as_ref()
                .map(|_| self.caller.agent.clone()),
            queries,
        };
        let user = &self.caller.user;
        let _waits = kernel.questions.take(user, 1).map_err(|full| {
            let message = format!("{full}; continue without an answer, or ask later");
            Failure::new("too_many_questions", message)
        })?;
        let replies = {
            let _wait = self.waiting.begin();
            kernel.prompter.interview(&interview).await
        };
        let Some(replies) = replies else {
            return Err(Failure {
                recommendations: vec![
                    "continue with your best judgement and state your assumptions".to_owned(),
                ],
                ..Failure::new("nobody_to_ask", "no user is available")
            });
        };
        match replies {
            Some(replies)
                if replies.len() == interview.queries.len()
                    && interview
                        .queries
                        .iter()
                        .zip(&replies)
                        .all(|(query, reply)| query.takes(reply)) =>
            {
                Ok(replies)
            }
            Some(_) => Err(Failure::new(
                "invalid_answer",
                "the answers do not match the questions",
            )),
            None => Err(Failure::new(
                "dismissed",
                "the user dismissed the question; continue with your best judgement or ask differently",
            )),
        }
    }

    /// Asks the user for a mode that allows more. The user may choose another one.
    async fn wider(&self, to: Mode, reason: String) -> Result<Mode, Failure> {
        let now = self.mode_now();
        let option = |mode: Mode, words: &str| Choice {
            label: mode.as_str().to_owned(),
            description: words.to_owned(),
            preview: None,
        };
        let stay = Choice {
            label: "stay".to_owned(),
            description: format!("stay in {now}; other text is passed to the model"),
            preview: None,
        };
        let words = match to {
            Mode::DontAsk | Mode::ReadOnly => "continue without changes",
            Mode::Plan => "continue without changes except notes of the plan",
            Mode::Default => "continue and ask before changes",
            Mode::AcceptEdits => "continue and change files without asking",
            Mode::Auto | Mode::Yolo => "continue without asking",
            Mode::Custom => "continue and let a callback or a hook decide",
        };
        let mut options = vec![option(to, words)];
        if to == Mode::Default {
            options.push(option(
                Mode::AcceptEdits,
                "continue and change files without asking",
            ));
        }
        options.push(stay);
        let query = Query {
            question: format!("{reason}\n\nLeave {now} mode?"),
            header: "mode".to_owned(),
            kind: QueryKind::Choice,
            options,
            multi_select: false,
            placeholder: None,
        };
        let replies = self.interview(vec![query]).await?;
        let Some(Reply::Text(said)) = replies.into_iter().next() else {
            return Err(Failure::new(
                "user_denied",
                "the user did not choose a mode",
            ));
        };
        let chosen = [to, Mode::AcceptEdits]
            .into_iter()
            .find(|mode| mode.as_str() == said);
        chosen.ok_or_else(|| {
            let message = if said == "stay" {
                format!("the user wants to stay in {now} mode")
            } else {
                format!(
                    "the user wants to stay in {now} mode: {}",
                    text::block(&said, 2_000)
                )
            };
            Failure::new("user_denied", message)
        })
    }

    /// Returns the mode of the session, without the override of this call.
    fn mode_now(&self) -> Mode {
        let Ok(kernel) = self.kernel() else {
            return Mode::default();
        };
        let policy = kernel.policy();
        let chosen = self.session.mode();
        chosen
            .filter(|mode| policy.with_mode(*mode).is_ok())
            .unwrap_or_else(|| policy.mode())
    }
}

impl Services for CallServices {
    fn mode(&self) -> Mode {
        self.within.mode.unwrap_or_else(|| self.mode_now())
    }

    fn recall(&self, key: &str) -> Result<Option<Value>, Failure> {
        let key = self.key(key)?;
        if let Some(value) = self.notes().get(&key) {
            return Ok(value.clone());
        }
        Ok(self.session.shelf().get(&key))
    }

    fn remember(&self, key: &str, value: Option<Value>) -> Result<(), Failure> {
        let entry = &self.entry;
        // A tool that delegates was evaluated as if it changed nothing.
        let writes = entry.tool.effect() >= Effect::Writes && !entry.backend.delegates(&entry.tool);
        if key.starts_with(notes::SHARED) && !writes {
            let message = format!(
                "`{}` is shared by all plugins, and this tool is not declared to change anything",
                text::inline(key, 80)
            );
            return Err(Failure::new("not_writable", message));
        }
        if let Some(value) = value.as_ref().filter(|_| key == notes::VARIABLES) {
            self.check_variables(value)?;
        }
        let key = self.key(key)?;
        let mut notes = self.notes();
        self.session.shelf().admits(&notes, &key, value.as_ref())?;
        notes.set(key, value)
    }

    fn saw(&self, sight: Sight) -> Result<(), Failure> {
        self.notes().saw(&self.caller.agent, sight)
    }

    fn last_seen(&self, path: &str) -> Option<Sight> {
        let agent = &self.caller.agent;
        self.notes()
            .last_seen(agent, path)
            .or_else(|| self.session.shelf().last_seen(agent, path))
    }

    fn ask(&self, queries: Vec<Query>) -> BoxFuture<'_, Result<Vec<Reply>, Failure>> {
        Box::pin(self.interview(queries))
    }

    fn forbids_address(&self, url: &str) -> Option<String> {
        let input = json!({ "url": url });
        let subject = Subject::of(&self.entry.tool, &input);
        let request = request(&self.entry, &input, &self.caller, &subject, &self.within);
        let denial = self.policy.forbids(request)?;
        Some(denial.reason)
    }

    fn change_mode(&self, to: String, reason: String) -> BoxFuture<'_, Result<String, Failure>> {
        Box::pin(async move {
            let to: Mode =
                to.parse()
                    .map_err(|error: toolhost_contract::policy::UnknownMode| {
                        Failure::new("invalid_mode", error.to_string())
                    })?;
            // The user is not asked about a mode that the operator has disabled.
            if let Err(off) = self.kernel()?.policy().with_mode(to) {
                return Err(Failure::new("invalid_mode", off.to_string()));
            }
            let now = self.mode_now();
            // Switching to an equally strict or stricter mode needs no approval; a less strict one does.
            let chosen = if now.is_at_least(to) {
                to
            } else {
                self.wider(to, reason).await?
            };
            self.session.set_mode(chosen);
            Ok(chosen.to_string())
        })
    }

    fn request_permissions(&self, wish: Value) -> BoxFuture<'_, Result<Value, Failure>> {
        Box::pin(self.permissions(wish))
    }

    fn agents(&self) -> Vec<AgentInfo> {
        let kernel = self.kernel();
        kernel.map_or_else(|_| Vec::new(), |kernel| kernel.agents.agents_for(&self.id))
    }

    fn run_agent(&self, task: Value) -> BoxFuture<'_, Result<Value, Failure>> {
        Box::pin(self.delegate(task))
    }

    fn tools(&self) -> Vec<ToolFacts> {
        self.list()
    }

    fn call_tool(&self, tool: String, input: Value) -> BoxFuture<'_, Result<Outcome, CallError>> {
        Box::pin(self.call(tool, input))
    }

    fn start_tool(
        &self,
        tool: String,
        input: Value,
        timeout_ms: Option<u32>,
    ) -> Result<BackgroundCall, Failure> {
        self.start(tool, input, timeout_ms)
    }

    fn running_tools(&self) -> Vec<BackgroundCall> {
        self.session.jobs().list()
    }

    fn wait_tool(
        &self,
        id: String,
        wait_ms: u32,
    ) -> BoxFuture<'_, Result<Option<Result<Outcome, CallError>>, Failure>> {
        Box::pin(async move { self.session.jobs().wait(&id, wait_ms).await })
    }

    fn stop_tool(&self, id: &str) -> Result<BackgroundCall, Failure> {
        self.session.jobs().stop(id)
    }

    fn resources(&self, server: Option<String>) -> BoxFuture<'_, Result<Value, Failure>> {
        Box::pin(async move { self.kernel()?.resources.list(server).await })
    }

    fn read_resource(
        &self,
        uri: String,
        server: Option<String>,
    ) -> BoxFuture<'_, Result<Vec<Part>, Failure>> {
        Box::pin(async move { self.kernel()?.resources.read(uri, server).await })
    }
}
