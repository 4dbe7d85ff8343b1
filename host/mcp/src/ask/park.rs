//! Suspended calls that wait for a stateless client to send an answer.
//!
//! The client's request ends with the question and a sealed request state. The call keeps waiting in a separate task
//! until the client calls again with the state and the answer. If another host receives the second request, it
//! restarts the call and reuses the earlier answers for identical questions.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, ErrorData, InputRequests, InputRequiredResult};
use serde_json::Value;
use toolhost_contract::{Principal, SessionKey};
use toolhost_kernel::Report;

use super::state::{self, Said, Seals, State};
use super::{Desk, Opened, Wish};
use crate::abort::AbortOnDrop;
use crate::events::Events;

/// Maximum number of suspended calls, in total and per user.
const PARKED: usize = 512;
const PARKED_OF_ONE: usize = 32;
/// How long an abandoned call may take to end after it was told that no answer will come.
const LEAVING: Duration = Duration::from_secs(10);

/// How a call ended. `Err`: the call panicked.
pub(crate) type Ended = Result<Report, ()>;

/// The future of a running call.
pub(crate) enum Flow {
    /// Polled by the task of the request.
    Here(Pin<Box<dyn Future<Output = Ended> + Send>>),
    /// Runs in a separate task, because its first request has ended.
    Apart(AbortOnDrop<Ended>),
}

impl Flow {
    pub(crate) async fn end(&mut self) -> Ended {
        match self {
            Flow::Here(call) => call.await,
            Flow::Apart(task) => task.wait().await.unwrap_or(Err(())),
        }
    }

    fn apart(self) -> Self {
        match self {
            Flow::Here(call) => Flow::Apart(AbortOnDrop::spawn(call)),
            Flow::Apart(task) => Flow::Apart(task),
        }
    }
}

/// A running call and its state, which outlives a single request.
pub(crate) struct Going {
    pub(crate) flow: Flow,
    pub(crate) opened: Option<Opened>,
    pub(crate) events: Arc<Events>,
    /// Canonical tool name and input, if the client uses the names of a profile.
    pub(crate) asked: Option<(String, Value)>,
    /// Answers so far, for a host that does not have this call.
    pub(crate) said: Vec<Said>,
    /// Answers given on another host that have not been used here yet.
    pub(crate) known: Vec<Said>,
}

pub(crate) struct Parked {
    going: Going,
    wish: Wish,
    key: SessionKey,
}

/// Session and fingerprint of a call, to which its request state is bound.
pub(crate) struct Bound {
    key: SessionKey,
    call: String,
}

impl Bound {
    pub(crate) fn to(caller: &Principal, params: &CallToolRequestParams) -> Self {
        Self {
            key: caller.session_key(),
            call: state::binding(&caller.user, &params.name, params.arguments.as_ref()),
        }
    }
}

/// What to do with a request that carries a request state.
pub(crate) enum Returned {
    /// Continue the suspended call, which has its answer.
    Call(Box<Going>),
    /// Some answers are missing. Return the question again.
    Again(Box<InputRequiredResult>),
    /// The call was suspended on another host. Restart it with these answers.
    Anew(Vec<Said>),
}

impl Desk {
    /// Suspends a call and returns its question as the result of the request. `Err` if too many calls are suspended;
    /// the call then continues without an answer.
    pub(crate) fn park(
        self: &Arc<Self>,
        going: Going,
        wish: Wish,
        bound: &Bound,
    ) -> Result<InputRequiredResult, Box<Going>> {
        let Ok(handle) = Seals::handle() else {
            return Err(Box::new(going));
        };
        let state = State {
            host: self.seals.host.clone(),
            handle: handle.clone(),
            asked: wish.digest.clone(),
            said: going.said.clone(),
        };
        let Ok(sealed) = self.seals.seal(&state, &bound.call) else {
            return Err(Box::new(going));
        };
        let requests: InputRequests = wish.requests.iter().cloned().collect();
        {
            let mut parked = self.parked();
            let own = parked.values().filter(|one| one.key.user == bound.key.user);
            if parked.len() >= PARKED || own.count() >= PARKED_OF_ONE {
                return Err(Box::new(going));
            }
            let one = Parked {
                going: going.apart(),
                wish,
                key: bound.key.clone(),
            };
            parked.insert(handle.clone(), one);
        }
        let desk = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(state::TTL).await;
            let Some(desk) = desk.upgrade() else { return };
            let forgotten = desk.parked().remove(&handle);
            drop(desk);
            if let Some(Parked {
                mut going, wish, ..
            }) = forgotten
            {
                // Tell the call that no answer will come, so that its record states that.
                drop(wish);
                drop(going.opened.take());
                let _ = tokio::time::timeout(LEAVING, going.flow.end()).await;
            }
        });
        Ok(InputRequiredResult::new(Some(requests), Some(sealed)))
    }

    /// Resumes a call. Fails if the state is not valid for this call, was used or has expired.
    pub(crate) fn come_back(
        self: &Arc<Self>,
        sealed: &str,
        responses: Option<BTreeMap<String, Value>>,
        bound: &Bound,
    ) -> Result<Returned, ErrorData> {
        let state = self.seals.open(sealed, &bound.call)?;
        let responses = responses.unwrap_or_default();
        if state.host != self.seals.host {
            self.seals.use_up(&state.handle)?;
            return Ok(Returned::Anew(said_elsewhere(state, responses)));
        }
        let parked = self.parked().remove(&state.handle);
        let Some(Parked {
            mut going, wish, ..
        }) = parked
        else {
            return Err(state::refused("was already used, or its call has ended"));
        };
        let Some(answers) = in_order(&wish, &responses) else {
            return match self.park(going, wish, bound) {
                Ok(again) => Ok(Returned::Again(Box::new(again))),
                Err(_) => Err(state::refused(
                    "cannot be accepted: too many calls are waiting",
                )),
            };
        };
        if let Some(digest) = &wish.digest {
            going.said.push(Said {
                digest: digest.clone(),
                answers: only_asked(&wish, responses),
            });
        }
        // Fails if the question was answered elsewhere and the call has continued.
        let _ = wish.reply.send(answers);
        Ok(Returned::Call(Box::new(going)))
    }

    /// Drops the suspended calls of all sessions whose name starts with `run`.
    pub(crate) fn close(&self, run: &str) {
        let kept = |one: &Parked| !one.key.session.as_str().starts_with(run);
        self.parked().retain(|_, one| kept(one));
    }

    fn parked(&self) -> MutexGuard<'_, HashMap<String, Parked>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Going {
    /// Waits for the next input that the call needs (`Ok`) or for its end (`Err`).
    pub(crate) async fn next(&mut self) -> Result<Wish, Ended> {
        let wish = async {
            match &mut self.opened {
                Some(opened) => opened.wishes.recv().await,
                None => None,
            }
        };
        tokio::select! {
            biased;
            ended = self.flow.end() => Err(ended),
            Some(wish) = wish => Ok(wish),
        }
    }

    /// Moves the call to a separate task, which is aborted on drop.
    pub(crate) fn apart(self) -> Self {
        Self {
            flow: self.flow.apart(),
            ..self
        }
    }

    /// Answers the input request with an answer from another host. Returns it if there is none.
    pub(crate) fn answer_known(&mut self, wish: Wish) -> Option<Wish> {
        let digest = wish.digest.as_ref();
        let at = digest.and_then(|digest| self.known.iter().position(|one| one.digest == *digest));
        let Some(at) = at else { return Some(wish) };
        // Each answer is used once: a repeated question needs a new answer.
        let known = self.known.remove(at);
        let Some(answers) = in_order(&wish, &known.answers) else {
            return Some(wish);
        };
        self.said.push(known);
        let _ = wish.reply.send(answers);
        None
    }
}

/// Returns the answers in the order of the requests, or `None` if one is missing.
fn in_order(wish: &Wish, answers: &BTreeMap<String, Value>) -> Option<Vec<Value>> {
    let names = wish.requests.iter().map(|(name, _)| name);
    names.map(|name| answers.get(name).cloned()).collect()
}

/// Removes answers to requests that were not sent.
fn only_asked(wish: &Wish, mut answers: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    answers.retain(|name, _| wish.requests.iter().any(|(asked, _)| asked == name));
    answers
}

fn said_elsewhere(state: State, answers: BTreeMap<String, Value>) -> Vec<Said> {
    let mut said = state.said;
    said.extend(
        state
            .asked
            .filter(|_| !answers.is_empty())
            .map(|digest| Said { digest, answers }),
    );
    said
}
