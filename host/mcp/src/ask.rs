//! Where a call that has a question meets the client that made it.
//!
//! The kernel asks a [`Desk`] like any other prompter. The desk knows which client's request the call belongs to and
//! hands the question to whoever handles that request: with a session the question is pushed to the client while its
//! request goes on; without one the request ends with the question, the call waits here, and the client comes back
//! with the answer (see `park.rs`).

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

/// So often a question is put again to a client that answers with something else.
const ROUNDS: usize = 3;
/// Characters of what a client calls itself.
const NAME: usize = 60;
/// A client that shows a question for longer than this has forgotten it.
const PATIENCE: Duration = Duration::from_mins(30);

/// A state where none can be expected.
pub(crate) fn refused() -> rmcp::model::ErrorData {
    state::refused("was not made here")
}

/// What clients may be asked for. A client may answer without a person, so the operator has to want it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asks {
    /// Permissions, and what tools ask people.
    pub questions: bool,
    /// A client with a model may be a sub-agent.
    pub sampling: bool,
}

/// Asks the clients of an MCP server. One for all clients of a host: give it to the kernel as its prompter, and to
/// [`crate::ServerInfo`].
pub struct Desk {
    asks: Asks,
    clients: Mutex<HashMap<CallId, Client>>,
    seals: Seals,
    parked: Mutex<HashMap<String, Parked>>,
}

/// The other side of one request, as long as it can be asked.
#[derive(Debug, Clone)]
struct Client {
    name: Option<String>,
    abilities: Abilities,
    wishes: mpsc::Sender<Wish>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Abilities {
    /// It shows forms.
    pub(crate) forms: bool,
    /// Its forms know titles and lists, which came with 2025-11-25.
    pub(crate) titles: bool,
    /// It has a model.
    pub(crate) samples: bool,
}

/// What a call wants to know of its client.
#[derive(Debug)]
pub(crate) struct Wish {
    /// Each under its name.
    pub(crate) requests: Vec<(String, InputRequest)>,
    /// Two questions with the same one are the same question, also in another process. None: not to be compared.
    pub(crate) digest: Option<String>,
    /// An answer to each request; null where there is none.
    pub(crate) reply: oneshot::Sender<Vec<Value>>,
}

/// Calls below this one, and it itself, can ask as long as this is there.
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
    /// `key`: of at least 32 bytes, the same for all hosts that stand for one; None makes one for this host alone.
    pub fn new(asks: Asks, key: Option<Vec<u8>>) -> Result<Self, KeyError> {
        Ok(Self {
            asks,
            clients: Mutex::default(),
            seals: Seals::new(key)?,
            parked: Mutex::default(),
        })
    }

    /// What of the client's abilities we would use. None: nothing, and its calls need no place here.
    pub(crate) fn abilities(
        &self,
        capabilities: Option<ClientCapabilities>,
        titles: bool,
    ) -> Option<Abilities> {
        let capabilities = capabilities?;
        let elicitation = capabilities.elicitation;
        // Without a word on what it can show, forms are meant.
        let forms = elicitation.is_some_and(|can| can.form.is_some() || can.url.is_none());
        let abilities = Abilities {
            forms: forms && self.asks.questions,
            titles,
            samples: capabilities.sampling.is_some() && self.asks.sampling,
        };
        (abilities.forms || abilities.samples).then_some(abilities)
    }

    /// `name` is what the client calls itself.
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

    /// Whoever made the call, or the call that it is a part of: those have the same id up to a `/`.
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
        // Nobody said no, and nobody said anything that can be read.
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
    /// None: no answer came, and none will.
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
        // What is asked and the key are nobody's business.
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

    /// With the name that the client gives itself: nobody has looked whether it is true.
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
