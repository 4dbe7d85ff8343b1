//! Questions that a view of an MCP App shows: a frame in the client, beside the call that asks.
//!
//! The view finds the question of its call by the arguments of the call, and answers with the ticket of the question.
//! Views of other sessions do not find it. A question never changes, so its ticket stands for exactly what was shown;
//! if the call asks something else, the new question has another ticket.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{JsonObject, RequestId};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout};
use toolhost_contract::{Answer, Call, CallId, Question, SessionKey};

use super::request_state::{StateKeyError, StateSealer, digest_of};
use super::{ANSWER_TIMEOUT, approval_form, view_content};

/// How long to wait for the view of a call that asks. A client may show views only when their calls have ended.
const VIEW_TIMEOUT: Duration = Duration::from_mins(1);
/// How long a view waits for news in one request. Clients end requests after a minute.
const POLL_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a question has to be visible before it can be approved.
const ARMING: Duration = Duration::from_millis(500);

/// The calls whose clients show questions in views.
pub(crate) struct QuestionViews {
    /// The content of the view has this key, and each request of a view must repeat it. A model that calls a tool of
    /// the view does not have it.
    key: String,
    calls: Mutex<HashMap<CallId, ViewedCall>>,
    changed: watch::Sender<()>,
}

/// The request of a call, by which its view finds it.
#[derive(Debug, Clone)]
pub(crate) struct ViewedRequest {
    pub(crate) session: SessionKey,
    id: Value,
    tool: String,
    arguments: String,
}

struct ViewedCall {
    request: ViewedRequest,
    /// Position in the order of calls.
    number: u64,
    /// Whether a view has asked for questions.
    is_viewed: bool,
    /// Nested calls can ask at the same time. A view shows the first question.
    questions: Vec<OpenQuestion>,
}

struct OpenQuestion {
    ticket: String,
    question: Question,
    content: Value,
    /// When a view received the question.
    shown: Option<Instant>,
    answer: oneshot::Sender<Answer>,
}

/// What a view states about its call. Clients need not tell views the tool and the id of the request.
#[derive(Debug, Deserialize)]
pub(crate) struct ViewQuery {
    key: String,
    #[serde(default)]
    arguments: JsonObject,
    tool: Option<String>,
    request: Option<Value>,
    /// The ticket of the question that the view shows.
    shown: Option<String>,
}

/// The answer of a view.
#[derive(Debug, Deserialize)]
pub(crate) struct ViewAnswer {
    ticket: String,
    answer: String,
    note: Option<String>,
}

/// Why an answer has no effect.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ViewError {
    #[error(
        "the key is missing or from another start of the host; only the question view can call this tool"
    )]
    Key,
    #[error(
        "this question is closed: it was answered or withdrawn, or the call asks something else"
    )]
    Closed,
    #[error("a question can be approved half a second after it is shown; answer again")]
    TooEarly,
    #[error("{0}")]
    Invalid(String),
}

/// Whether a call runs, and the ticket of its first question.
#[derive(Debug, Clone, PartialEq, Eq)]
enum CallStatus {
    NotRunning,
    Running(Option<String>),
}

impl ViewedRequest {
    pub(crate) fn new(
        session: SessionKey,
        id: &RequestId,
        tool: &str,
        arguments: Option<&JsonObject>,
    ) -> Self {
        Self {
            session,
            id: json!(id),
            tool: tool.to_owned(),
            arguments: digest_of(&arguments.unwrap_or(&JsonObject::new())),
        }
    }
}

impl QuestionViews {
    pub(super) fn new() -> Result<Self, StateKeyError> {
        Ok(Self {
            key: StateSealer::random_handle()?,
            calls: Mutex::default(),
            changed: watch::Sender::new(()),
        })
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// A part of the address of the view. It depends on the key, so that clients do not use the content of an earlier
    /// start.
    pub(crate) fn id(&self) -> String {
        let mut id = digest_of(&self.key);
        id.truncate(16);
        id
    }

    pub(super) fn register(&self, call: CallId, request: ViewedRequest) {
        let mut calls = self.calls();
        let number = calls.values().map(|call| call.number + 1).max();
        let call_state = ViewedCall {
            request,
            number: number.unwrap_or_default(),
            is_viewed: false,
            questions: Vec::new(),
        };
        calls.insert(call, call_state);
        drop(calls);
        self.changed.send_replace(());
    }

    pub(super) fn unregister(&self, call: &CallId) {
        if self.calls().remove(call).is_some() {
            self.changed.send_replace(());
        }
    }

    /// Asks in the view of `registered`, which is the call of the question or an ancestor.
    pub(super) async fn ask(
        self: &Arc<Self>,
        registered: &CallId,
        question: &Question,
        call: &Call,
    ) -> Answer {
        if let Some(problem) = question.review_problem(&call.input, "in a view") {
            return Answer::Unreviewable { problem };
        }
        let (sender, answer) = oneshot::channel();
        let Some(_open) = self.open(registered, question, call, sender) else {
            return Answer::NoPrompter;
        };
        let mut changes = self.changed.subscribe();
        let viewed = changes.wait_for(|()| self.is_viewed(registered));
        if timeout(VIEW_TIMEOUT, viewed).await.is_err() {
            return Answer::NoPrompter;
        }
        let answer = timeout(ANSWER_TIMEOUT, answer).await;
        answer.ok().and_then(Result::ok).unwrap_or(Answer::TimedOut)
    }

    fn open(
        self: &Arc<Self>,
        registered: &CallId,
        question: &Question,
        call: &Call,
        answer: oneshot::Sender<Answer>,
    ) -> Option<QuestionGuard> {
        let ticket = StateSealer::random_handle().ok()?;
        let open = OpenQuestion {
            ticket: ticket.clone(),
            question: question.clone(),
            content: view_content::content(question, call),
            shown: None,
            answer,
        };
        self.calls().get_mut(registered)?.questions.push(open);
        self.changed.send_replace(());
        Some(QuestionGuard {
            views: Arc::clone(self),
            call: registered.clone(),
            ticket,
        })
    }

    fn is_viewed(&self, call: &CallId) -> bool {
        self.calls().get(call).is_none_or(|call| call.is_viewed)
    }

    /// Returns what the view of a call shows, and waits for news if it shows that already.
    pub(crate) async fn poll(
        &self,
        session: &SessionKey,
        query: &ViewQuery,
    ) -> Result<Value, ViewError> {
        self.check_key(&query.key)?;
        let arguments = digest_of(&query.arguments);
        let status = || self.status(session, query, &arguments);
        let mut changes = self.changed.subscribe();
        let first = status();
        let is_news = |now: &CallStatus| match now {
            CallStatus::NotRunning => query.shown.is_some(),
            CallStatus::Running(ticket) => *ticket != query.shown,
        };
        if !is_news(&first) {
            // Without news the view asks again.
            let _ = timeout(POLL_TIMEOUT, changes.wait_for(|()| status() != first)).await;
        }
        Ok(self.deliver(session, query, &arguments))
    }

    /// Gives the answer of a view to the call, if it belongs to an open question of this session.
    pub(crate) fn answer(&self, session: &SessionKey, given: &ViewAnswer) -> Result<(), ViewError> {
        let mut calls = self.calls();
        let (questions, at) = calls
            .values_mut()
            .filter(|call| call.request.session == *session)
            .find_map(|call| {
                let mut open = call.questions.iter();
                let at = open.position(|question| question.ticket == given.ticket)?;
                Some((&mut call.questions, at))
            })
            .ok_or(ViewError::Closed)?;
        let open = &questions[at];
        let form =
            json!({"action": "accept", "content": {"answer": given.answer, "note": given.note}});
        let answer = approval_form::parse_answer(&open.question, Some(&form));
        let answer = answer.map_err(ViewError::Invalid)?;
        let is_armed = open.shown.is_some_and(|shown| shown.elapsed() >= ARMING);
        if matches!(answer, Answer::Allow { .. }) && !is_armed {
            return Err(ViewError::TooEarly);
        }
        let open = questions.remove(at);
        drop(calls);
        self.changed.send_replace(());
        open.answer.send(answer).map_err(|_| ViewError::Closed)
    }

    fn check_key(&self, key: &str) -> Result<(), ViewError> {
        // Compared as digests, so that the duration does not depend on the position of the first difference.
        if digest_of(&key) == digest_of(&self.key) {
            Ok(())
        } else {
            Err(ViewError::Key)
        }
    }

    fn status(&self, session: &SessionKey, query: &ViewQuery, arguments: &str) -> CallStatus {
        match find(&mut self.calls(), session, query, arguments) {
            Some(call) => {
                CallStatus::Running(call.questions.first().map(|open| open.ticket.clone()))
            }
            None => CallStatus::NotRunning,
        }
    }

    fn deliver(&self, session: &SessionKey, query: &ViewQuery, arguments: &str) -> Value {
        let mut calls = self.calls();
        let Some(call) = find(&mut calls, session, query, arguments) else {
            return json!({"running": false, "question": null});
        };
        call.is_viewed = true;
        let question = call.questions.first_mut().map(|open| {
            open.shown.get_or_insert_with(Instant::now);
            let arming = u64::try_from(ARMING.as_millis()).unwrap_or(u64::MAX);
            let is_known = query.shown.as_ref() == Some(&open.ticket);
            let content = if is_known {
                &Value::Null
            } else {
                &open.content
            };
            json!({"ticket": open.ticket, "armingMs": arming, "content": content})
        });
        drop(calls);
        self.changed.send_replace(());
        json!({"running": true, "question": question})
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<CallId, ViewedCall>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the call of a view: the one with the same arguments, or with the same request id and tool if a client
/// writes the arguments in another way. Of several, the request id and the tool decide, then the oldest.
fn find<'a>(
    calls: &'a mut HashMap<CallId, ViewedCall>,
    session: &SessionKey,
    query: &ViewQuery,
    arguments: &str,
) -> Option<&'a mut ViewedCall> {
    let own = calls
        .values_mut()
        .filter(|call| call.request.session == *session);
    own.filter_map(|call| {
        let has_arguments = call.request.arguments == arguments;
        let has_id = query.request.as_ref() == Some(&call.request.id);
        let has_tool = query.tool.as_ref() == Some(&call.request.tool);
        let is_match = has_arguments || (has_id && has_tool);
        let rank = (has_arguments, has_id, has_tool, u64::MAX - call.number);
        is_match.then_some((rank, call))
    })
    .max_by_key(|(rank, _)| *rank)
    .map(|(_, call)| call)
}

/// An open question, which is withdrawn when this is dropped.
struct QuestionGuard {
    views: Arc<QuestionViews>,
    call: CallId,
    ticket: String,
}

impl Drop for QuestionGuard {
    fn drop(&mut self) {
        if let Some(call) = self.views.calls().get_mut(&self.call) {
            call.questions.retain(|open| open.ticket != self.ticket);
        }
        self.views.changed.send_replace(());
    }
}
