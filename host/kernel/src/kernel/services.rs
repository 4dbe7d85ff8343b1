//! The host services of one running call: session state, questions, modes, agents, tools and resources.

mod background_calls;
mod delegation;
mod session_store;
mod wait_clock;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde_json::{Value, json};
use toolhost_contract::policy::{Mode, Policy, Subject};
use toolhost_contract::{
    AgentInfo, AnswerOption, BackgroundCall, BoxFuture, CallError, CallId, Effect, Failure,
    FileObservation, Outcome, Part, Principal, QuestionForm, Services, UserAnswer, UserQuestion,
    UserQuestionKind, VisibleTool, text,
};

use super::authorization::policy_request;
use super::cancel_handle::CancelHandle;
use super::running_call::RunningCall;
use super::sessions::Session;
use super::{CallContext, Kernel};
use crate::ToolEntry;

pub(super) use self::background_calls::BackgroundCalls;
pub(super) use self::session_store::{PendingNotes, SessionStore};

use self::wait_clock::WaitClock;

/// Maximum number of questions per call. More indicate a loop.
const MAX_QUESTIONS: usize = 16;
/// Maximum number of calls of other tools per call.
const MAX_CALLS: usize = 64;

/// Created for each run of a call.
pub(crate) struct CallServices {
    /// `None` in a kernel that is not shared: then services that call back fail.
    kernel: Option<Weak<Kernel>>,
    session: Arc<Session>,
    entry: Arc<ToolEntry>,
    id: CallId,
    caller: Arc<Principal>,
    context: CallContext,
    /// The policy when the call was evaluated.
    policy: Arc<Policy>,
    cancel: CancelHandle,
    /// The changes of the call are evaluated after the run.
    staged: bool,
    notes: Mutex<PendingNotes>,
    asked: AtomicUsize,
    called: AtomicUsize,
    waiting: WaitClock,
}

impl CallServices {
    pub(super) fn new(
        kernel: &Kernel,
        entry: &Arc<ToolEntry>,
        run: &RunningCall<'_>,
        held: bool,
    ) -> Self {
        Self {
            kernel: kernel.weak_self.get().cloned(),
            session: Arc::clone(&run.session),
            entry: Arc::clone(entry),
            id: run.id.clone(),
            caller: Arc::clone(&run.caller),
            context: run.context.clone(),
            policy: kernel.policy_for(&run.session),
            cancel: run.cancel.clone(),
            staged: held,
            notes: Mutex::default(),
            asked: AtomicUsize::new(0),
            called: AtomicUsize::new(0),
            waiting: WaitClock::default(),
        }
    }

    /// Saves the notes of the call, because its result is final. Of the variables that affect programs, only those in
    /// `allowed` are saved.
    pub(super) fn commit_notes(&self, allowed: &[(String, String)]) {
        let notes = std::mem::take(&mut *self.notes());
        self.session.store().apply(notes, allowed);
    }

    /// Returns the variables that the call sets for the programs of its session and that can change what these run.
    pub(super) fn steering_variables(&self) -> Vec<(String, String)> {
        match self.notes().variables() {
            Some(variables) => self.session.store().steering_variables(&variables),
            None => Vec::new(),
        }
    }

    /// Returns the time of the run that does not count for the tool.
    pub(super) fn waited(&self) -> Duration {
        self.waiting.so_far()
    }

    fn notes(&self) -> MutexGuard<'_, PendingNotes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kernel(&self) -> Result<Arc<Kernel>, Failure> {
        let kernel = self.kernel.as_ref().and_then(Weak::upgrade);
        kernel.ok_or_else(|| Failure::new("not_configured", "this host provides no services"))
    }

    async fn interview(&self, queries: Vec<UserQuestion>) -> Result<Vec<UserAnswer>, Failure> {
        if self.asked.fetch_add(1, Relaxed) >= MAX_QUESTIONS {
            let message = format!("this call has reached the limit of {MAX_QUESTIONS} questions");
            return Err(Failure::new("too_many_questions", message));
        }
        let kernel = self.kernel()?;
        let interview = QuestionForm {
            call: self.id.clone(),
            plugin: self.entry.plugin.name.to_string(),
            tool: self.entry.name.to_string(),
            agent: self
                .caller
                .parent_agent
                .as_ref()
                .map(|_| self.caller.agent.clone()),
            questions: queries,
        };
        let user = &self.caller.user;
        let _waits = kernel.question_quota.take(user, 1).map_err(|full| {
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
                ..Failure::new("no_user", "no user is available")
            });
        };
        match replies {
            Some(replies)
                if replies.len() == interview.questions.len()
                    && interview
                        .questions
                        .iter()
                        .zip(&replies)
                        .all(|(query, reply)| query.accepts(reply)) =>
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
    async fn ask_wider_mode(&self, to: Mode, reason: String) -> Result<Mode, Failure> {
        let now = self.mode_now();
        let option = |mode: Mode, words: &str| AnswerOption {
            label: mode.as_str().to_owned(),
            description: words.to_owned(),
            preview: None,
        };
        let stay = AnswerOption {
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
        let query = UserQuestion {
            question: format!("{reason}\n\nLeave {now} mode?"),
            header: "mode".to_owned(),
            kind: UserQuestionKind::Choice,
            options,
            multi_select: false,
            placeholder: None,
        };
        let replies = self.interview(vec![query]).await?;
        let Some(UserAnswer::Text(said)) = replies.into_iter().next() else {
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
                    text::escape_lines(&said, 2_000)
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
        self.context.mode.unwrap_or_else(|| self.mode_now())
    }

    fn session_get(&self, key: &str) -> Result<Option<Value>, Failure> {
        let key = self.key(key)?;
        if let Some(value) = self.notes().get(&key) {
            return Ok(value.clone());
        }
        Ok(self.session.store().get(&key))
    }

    fn session_set(&self, key: &str, value: Option<Value>) -> Result<(), Failure> {
        let entry = &self.entry;
        // A tool that delegates was evaluated as if it changed nothing.
        let writes =
            entry.tool.effect() >= Effect::Writes && !entry.backend.only_calls_tools(&entry.tool);
        if key.starts_with(session_store::SHARED) && !writes {
            let message = format!(
                "`{}` is shared by all plugins, and this tool is not declared to change anything",
                text::escape_line(key, 80)
            );
            return Err(Failure::new("not_writable", message));
        }
        if let Some(value) = value.as_ref().filter(|_| key == session_store::VARIABLES) {
            self.check_variables(value)?;
        }
        let key = self.key(key)?;
        let mut notes = self.notes();
        self.session
            .store()
            .check_space(&notes, &key, value.as_ref())?;
        notes.set(key, value)
    }

    fn record_observation(&self, observation: FileObservation) -> Result<(), Failure> {
        self.notes()
            .record_observation(&self.caller.agent, observation)
    }

    fn last_observation(&self, path: &str) -> Option<FileObservation> {
        let agent = &self.caller.agent;
        self.notes()
            .last_seen(agent, path)
            .or_else(|| self.session.store().last_seen(agent, path))
    }

    fn ask_user(
        &self,
        queries: Vec<UserQuestion>,
    ) -> BoxFuture<'_, Result<Vec<UserAnswer>, Failure>> {
        Box::pin(self.interview(queries))
    }

    fn denied_url_reason(&self, url: &str) -> Option<String> {
        let input = json!({ "url": url });
        let subject = Subject::of(&self.entry.tool, &input);
        let request = policy_request(&self.entry, &input, &self.caller, &subject, &self.context);
        let denial = self.policy.find_denial(request)?;
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
                self.ask_wider_mode(to, reason).await?
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

    fn tools(&self) -> Vec<VisibleTool> {
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
