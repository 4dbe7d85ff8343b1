//! Prompts to MCP clients: approvals, questions of tools, and sampling.
//!
//! The kernel uses [`ElicitationPrompter`] as its prompter. The prompter maps a call to the client request that it
//! belongs to and passes the question to the handler of that request. In a session, the question is sent as a server
//! request while the call runs. In the stateless protocol, the request ends with `input_required`, the call is
//! suspended, and the client sends the answer in a new request (see `suspended_calls.rs`).

mod approval_form;
mod client_agents;
mod query_form;
mod question_text;
mod question_views;
mod request_state;
mod server_requests;
mod suspended_calls;
mod view_content;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{ClientCapabilities, ElicitRequestParams, InputRequest};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use toolhost_contract::{Answer, BoxFuture, Call, CallId, Question, QuestionForm, UserAnswer};
use toolhost_kernel::Prompter;

use crate::question_app;

pub use self::client_agents::ClientAgents;
pub(crate) use self::question_views::{
    QuestionViews, ViewAnswer, ViewError, ViewQuery, ViewedRequest,
};
pub use self::request_state::StateKeyError;
use self::request_state::StateSealer;
pub(crate) use self::server_requests::await_with_requests;
use self::suspended_calls::SuspendedCall;
pub(crate) use self::suspended_calls::{
    CallBinding, CallEnd, CallFuture, OngoingCall, ResumeAction,
};

/// Maximum number of times that a question is sent while the answers are invalid.
const MAX_ATTEMPTS: usize = 3;
/// Maximum length of a client's name, in characters.
pub(crate) const MAX_CLIENT_NAME: usize = 60;
/// How long to wait for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(30);

/// The error for a request state that this server cannot have issued.
pub(crate) fn unexpected_state() -> rmcp::model::ErrorData {
    request_state::invalid_state("was not made here")
}

/// Which requests are sent to clients. A client can answer without user interaction, so the operator opts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientRequestSettings {
    /// Approval prompts, and questions that tools ask the user.
    pub questions: bool,
    /// Use a client that supports sampling as a sub-agent.
    pub sampling: bool,
}

/// Sends prompts to MCP clients. One instance serves all clients of a host: pass it to the kernel as its prompter
/// and to [`crate::ServeOptions`].
pub struct ElicitationPrompter {
    settings: ClientRequestSettings,
    clients: Mutex<HashMap<CallId, CallClient>>,
    sealer: StateSealer,
    suspended: Mutex<HashMap<String, SuspendedCall>>,
    pub(crate) views: Arc<QuestionViews>,
}

/// How a call can ask its client.
pub(crate) struct CallingClient {
    /// The name that the client reports, escaped.
    pub(crate) name: Option<String>,
    pub(crate) features: ClientFeatures,
    /// The request, if its client shows a view beside it.
    pub(crate) viewed: Option<ViewedRequest>,
}

/// The client of a running call.
#[derive(Debug, Clone)]
struct CallClient {
    name: Option<String>,
    features: ClientFeatures,
    requests: mpsc::Sender<InputRequestBatch>,
    /// The call whose view shows questions.
    viewed: Option<CallId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ClientFeatures {
    /// Form elicitation.
    pub(crate) forms: bool,
    /// Titled and multi-select enums in forms, added in 2025-11-25.
    pub(crate) titles: bool,
    /// Views of MCP Apps, which show approval questions of clients without forms.
    pub(crate) views: bool,
    /// Sampling.
    pub(crate) sampling: bool,
}

/// Requests of a call to its client.
#[derive(Debug)]
pub(crate) struct InputRequestBatch {
    /// The requests with their names.
    pub(crate) requests: Vec<(String, InputRequest)>,
    /// Identifies the question across processes. `None`: an earlier answer must not be reused.
    pub(crate) digest: Option<String>,
    /// Receives one answer per request; `null` where the client gave none.
    pub(crate) reply: oneshot::Sender<Vec<Value>>,
}

/// Registration of a call: it and its nested calls can prompt the client until this is dropped.
pub(crate) struct PromptRegistration {
    prompter: Arc<ElicitationPrompter>,
    call: CallId,
    pub(crate) requests: mpsc::Receiver<InputRequestBatch>,
}

impl Drop for PromptRegistration {
    fn drop(&mut self) {
        self.prompter.clients().remove(&self.call);
        self.prompter.views.unregister(&self.call);
    }
}

impl ElicitationPrompter {
    /// `key` must have at least 32 bytes and be the same on all hosts of a deployment. `None` generates a random key.
    pub fn new(asks: ClientRequestSettings, key: Option<Vec<u8>>) -> Result<Self, StateKeyError> {
        Ok(Self {
            settings: asks,
            clients: Mutex::default(),
            sealer: StateSealer::new(key)?,
            suspended: Mutex::default(),
            views: Arc::new(QuestionViews::new()?),
        })
    }

    /// Returns the client's features that are enabled here, or `None` if there are none.
    pub(crate) fn features_of(
        &self,
        capabilities: Option<ClientCapabilities>,
        titles: bool,
    ) -> Option<ClientFeatures> {
        let capabilities = capabilities?;
        let elicitation = capabilities.elicitation;
        // `elicitation: {}` means form mode.
        let forms = elicitation.is_some_and(|can| can.form.is_some() || can.url.is_none());
        let views = question_app::is_supported(capabilities.extensions.as_ref());
        let abilities = ClientFeatures {
            forms: forms && self.settings.questions,
            titles,
            // A model cannot answer a form, but could call the tools of a view if its client let it.
            views: views && !forms && self.settings.questions,
            sampling: capabilities.sampling.is_some() && self.settings.sampling,
        };
        (abilities.forms || abilities.views || abilities.sampling).then_some(abilities)
    }

    /// Registers a call.
    pub(crate) fn register(
        self: &Arc<Self>,
        call: CallId,
        calling: CallingClient,
    ) -> PromptRegistration {
        let (sender, calls) = mpsc::channel(1);
        let client = CallClient {
            name: calling.name,
            features: calling.features,
            requests: sender,
            viewed: calling.viewed.is_some().then(|| call.clone()),
        };
        self.clients().insert(call.clone(), client);
        if let Some(viewed) = calling.viewed {
            self.views.register(call.clone(), viewed);
        }
        PromptRegistration {
            prompter: Arc::clone(self),
            call,
            requests: calls,
        }
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<CallId, CallClient>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the client of a call or of its nearest ancestor; the id of a nested call is `PARENT/CHILD`.
    fn client(&self, call: &CallId) -> Option<CallClient> {
        let clients = self.clients();
        let mut id = call.clone();
        loop {
            if let Some(client) = clients.get(&id) {
                return Some(client.clone());
            }
            let front = id.0.rfind('/')?;
            id.0.truncate(front);
        }
    }

    async fn ask_approval(&self, question: &Question, call: &Call) -> Answer {
        let Some(client) = self.client(&call.id) else {
            return Answer::NoPrompter;
        };
        if let Some(viewed) = &client.viewed {
            return self.views.ask(viewed, question, call).await;
        }
        if !client.features.forms {
            return Answer::NoPrompter;
        }
        if let Some(problem) = question.review_problem(&call.input, "in a form") {
            return Answer::Unreviewable { problem };
        }
        let mut remark = None;
        for _ in 0..MAX_ATTEMPTS {
            let form =
                approval_form::form(question, call, remark.as_deref(), client.features.titles);
            let digest = approval_form::digest(question, &form);
            let name = "permission".to_owned();
            let Some(answers) = client
                .send(vec![(name, elicitation_request(form))], digest)
                .await
            else {
                return Answer::TimedOut;
            };
            match approval_form::parse_answer(question, answers.first()) {
                Ok(answer) => return answer,
                Err(problem) => remark = Some(problem),
            }
        }
        // No valid answer is not a denial by the user.
        Answer::TimedOut
    }

    async fn ask_queries(&self, interview: &QuestionForm) -> Option<Option<Vec<UserAnswer>>> {
        let client = self
            .client(&interview.call)
            .filter(|it| it.features.forms)?;
        let forms = query_form::forms(interview, client.features.titles);
        let requests: Vec<_> = forms
            .into_iter()
            .map(|(name, form)| (name, elicitation_request(form)))
            .collect();
        let digest = request_state::digest_of(&requests);
        let answers = client.send(requests, Some(digest)).await?;
        Some(query_form::parse_replies(
            interview,
            &answers,
            client.features.titles,
        ))
    }
}

impl CallClient {
    /// Returns `None` if no answer can arrive any more.
    async fn send(
        &self,
        requests: Vec<(String, InputRequest)>,
        digest: Option<String>,
    ) -> Option<Vec<Value>> {
        let (reply, answers) = oneshot::channel();
        let request = InputRequestBatch {
            requests,
            digest,
            reply,
        };
        self.requests.send(request).await.ok()?;
        tokio::time::timeout(ANSWER_TIMEOUT, answers)
            .await
            .ok()?
            .ok()
    }
}

/// Whether the user declined or dismissed a request, after which the remaining requests of a batch are not sent.
pub(crate) fn is_refusal(answer: &Value) -> bool {
    matches!(answer["action"].as_str(), Some("decline" | "cancel"))
}

fn elicitation_request(form: ElicitRequestParams) -> InputRequest {
    InputRequest::Elicitation(rmcp::model::ElicitRequest::new(form))
}

impl fmt::Debug for ElicitationPrompter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Leaves out questions and the key, which must not end up in logs.
        let asks = &self.settings;
        f.debug_struct("ElicitationPrompter")
            .field("asks", asks)
            .finish_non_exhaustive()
    }
}

impl Prompter for ElicitationPrompter {
    fn name(&self) -> &'static str {
        "mcp client"
    }

    /// Includes the client's self-reported name, which is not verified.
    fn author(&self, call: &CallId) -> String {
        match self.client(call).and_then(|client| client.name) {
            Some(name) => format!("{} {name}", self.name()),
            None => self.name().to_owned(),
        }
    }

    fn ask<'a>(&'a self, question: &'a Question, call: &'a Call) -> BoxFuture<'a, Answer> {
        Box::pin(self.ask_approval(question, call))
    }

    fn interview<'a>(
        &'a self,
        interview: &'a QuestionForm,
    ) -> BoxFuture<'a, Option<Option<Vec<UserAnswer>>>> {
        Box::pin(self.ask_queries(interview))
    }
}
