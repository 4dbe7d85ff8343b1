//! Prompts to MCP clients: approvals, questions of tools, and sampling.
//!
//! The kernel uses [`ElicitationPrompter`] as its prompter. The prompter maps a call to the client request that it
//! belongs to and passes the question to the handler of that request. In a session, the question is sent as a server
//! request while the call runs. In the stateless protocol, the request ends with `input_required`, the call is
//! suspended, and the client sends the answer in a new request (see `suspended_calls.rs`).

mod agent;
mod form;
mod interview;
mod park;
mod push;
mod state;
mod words;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{ClientCapabilities, ElicitRequestParams, InputRequest};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use toolhost_contract::{Answer, BoxFuture, Call, CallId, Interview, Question, Reply, text};
use toolhost_kernel::Prompter;

pub use self::agent::ClientAgents;
use self::park::Parked;
pub(crate) use self::park::{Bound, Ended, Flow, Going, Returned};
pub(crate) use self::push::push_all;
pub use self::state::KeyError;
use self::state::Seals;

/// Maximum number of times that a question is sent while the answers are invalid.
const ROUNDS: usize = 3;
/// Maximum length of a client's name, in characters.
const NAME: usize = 60;
/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_mins(30);

/// The error for a request state that this server cannot have issued.
pub(crate) fn refused() -> rmcp::model::ErrorData {
    state::refused("was not made here")
}

/// Which requests are sent to clients. A client can answer without user interaction, so the operator opts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asks {
    /// Approval prompts, and questions that tools ask the user.
    pub questions: bool,
    /// Use a client that supports sampling as a sub-agent.
    pub sampling: bool,
}

/// Sends prompts to MCP clients. One instance serves all clients of a host: pass it to the kernel as its prompter
/// and to [`crate::ServeOptions`].
pub struct Desk {
    asks: Asks,
    clients: Mutex<HashMap<CallId, Client>>,
    seals: Seals,
    parked: Mutex<HashMap<String, Parked>>,
}

/// The client of a running call.
#[derive(Debug, Clone)]
struct Client {
    name: Option<String>,
    abilities: Abilities,
    wishes: mpsc::Sender<Wish>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Abilities {
    /// Form elicitation.
    pub(crate) forms: bool,
    /// Titled and multi-select enums in forms, added in 2025-11-25.
    pub(crate) titles: bool,
    /// Sampling.
    pub(crate) samples: bool,
}

/// Requests of a call to its client.
#[derive(Debug)]
pub(crate) struct Wish {
    /// The requests with their names.
    pub(crate) requests: Vec<(String, InputRequest)>,
    /// Identifies the question across processes. `None`: an earlier answer must not be reused.
    pub(crate) digest: Option<String>,
    /// Receives one answer per request; `null` where the client gave none.
    pub(crate) reply: oneshot::Sender<Vec<Value>>,
}

/// Registration of a call: it and its nested calls can prompt the client until this is dropped.
pub(crate) struct Opened {
    desk: Arc<Desk>,
    call: CallId,
    pub(crate) wishes: mpsc::Receiver<Wish>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.desk.clients().remove(&self.call);
    }
}

impl Desk {
    /// `key` must have at least 32 bytes and be the same on all hosts of a deployment. `None` generates a random key.
    pub fn new(asks: Asks, key: Option<Vec<u8>>) -> Result<Self, KeyError> {
        Ok(Self {
            asks,
            clients: Mutex::default(),
            seals: Seals::new(key)?,
            parked: Mutex::default(),
        })
    }

    /// Returns the client's features that are enabled here, or `None` if there are none.
    pub(crate) fn abilities(
        &self,
        capabilities: Option<ClientCapabilities>,
        titles: bool,
    ) -> Option<Abilities> {
        let capabilities = capabilities?;
        let elicitation = capabilities.elicitation;
        // `elicitation: {}` means form mode.
        let forms = elicitation.is_some_and(|can| can.form.is_some() || can.url.is_none());
        let abilities = Abilities {
            forms: forms && self.asks.questions,
            titles,
            samples: capabilities.sampling.is_some() && self.asks.sampling,
        };
        (abilities.forms || abilities.samples).then_some(abilities)
    }

    /// Registers a call. `name` is the client's self-reported name.
    pub(crate) fn open(
        self: &Arc<Self>,
        call: CallId,
        name: Option<&str>,
        abilities: Abilities,
    ) -> Opened {
        let (sender, wishes) = mpsc::channel(1);
        let client = Client {
            name: name.map(|name| text::inline(name, NAME)),
            abilities,
            wishes: sender,
        };
        self.clients().insert(call.clone(), client);
        Opened {
            desk: Arc::clone(self),
            call,
            wishes,
        }
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<CallId, Client>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the client of a call or of its nearest ancestor; the id of a nested call is `PARENT/CHILD`.
    fn client(&self, call: &CallId) -> Option<Client> {
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

    async fn decide(&self, question: &Question, call: &Call) -> Answer {
        let Some(client) = self.client(&call.id).filter(|it| it.abilities.forms) else {
            return Answer::NobodyToAsk;
        };
        if let Some(note) = words::too_long(question, call) {
            return Answer::Deny { note: Some(note) };
        }
        let mut remark = None;
        for _ in 0..ROUNDS {
            let form = form::form(question, call, remark.as_deref(), client.abilities.titles);
            let digest = form::digest(question, &form);
            let name = "permission".to_owned();
            let Some(answers) = client.ask(vec![(name, elicit(form))], digest).await else {
                return Answer::TimedOut;
            };
            match form::answer(question, answers.first()) {
                Ok(answer) => return answer,
                Err(odd) => remark = Some(odd),
            }
        }
        // No valid answer is not a denial by the user.
        Answer::TimedOut
    }

    async fn interviewed(&self, interview: &Interview) -> Option<Option<Vec<Reply>>> {
        let client = self
            .client(&interview.call)
            .filter(|it| it.abilities.forms)?;
        let forms = interview::forms(interview, client.abilities.titles);
        let requests: Vec<_> = forms
            .into_iter()
            .map(|(name, form)| (name, elicit(form)))
            .collect();
        let digest = state::digest_of(&requests);
        let answers = client.ask(requests, Some(digest)).await?;
        Some(interview::replies(
            interview,
            &answers,
            client.abilities.titles,
        ))
    }
}

impl Client {
    /// Returns `None` if no answer can arrive any more.
    async fn ask(
        &self,
        requests: Vec<(String, InputRequest)>,
        digest: Option<String>,
    ) -> Option<Vec<Value>> {
        let (reply, answers) = oneshot::channel();
        let wish = Wish {
            requests,
            digest,
            reply,
        };
        self.wishes.send(wish).await.ok()?;
        tokio::time::timeout(PATIENCE, answers).await.ok()?.ok()
    }
}

fn elicit(form: ElicitRequestParams) -> InputRequest {
    InputRequest::Elicitation(rmcp::model::ElicitRequest::new(form))
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Leaves out questions and the key, which must not end up in logs.
        let asks = &self.asks;
        f.debug_struct("Desk")
            .field("asks", asks)
            .finish_non_exhaustive()
    }
}

impl Prompter for Desk {
    fn name(&self) -> &'static str {
        "mcp client"
    }

    /// Includes the client's self-reported name, which is not verified.
    fn who(&self, call: &CallId) -> String {
        match self.client(call).and_then(|client| client.name) {
            Some(name) => format!("{} {name}", self.name()),
            None => self.name().to_owned(),
        }
    }

    fn ask<'a>(&'a self, question: &'a Question, call: &'a Call) -> BoxFuture<'a, Answer> {
        Box::pin(self.decide(question, call))
    }

    fn interview<'a>(
        &'a self,
        interview: &'a Interview,
    ) -> BoxFuture<'a, Option<Option<Vec<Reply>>>> {
        Box::pin(self.interviewed(interview))
    }
}
