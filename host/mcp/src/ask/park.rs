//! Calls that wait for a client without a session to come back with an answer.
//!
//! The request of the client ends with the question and a sealed state; the call goes on waiting here, in a task of
//! its own, until the client calls again with the state and the answer. When another host gets that second call, the
//! call begins anew there, and what was answered is taken for the very same questions.

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

/// Calls that wait, of all clients and of one.
const PARKED: usize = 512;
const PARKED_OF_ONE: usize = 32;
/// A call that nobody came back for hears that, and has this long to end by itself.
const LEAVING: Duration = Duration::from_secs(10);

/// How a call ended. Err: it fell over.
pub(crate) type Ended = Result<Report, ()>;

/// A call on its way.
pub(crate) enum Flow {
    /// In the task of the request.
    Here(Pin<Box<dyn Future<Output = Ended> + Send>>),
    /// In a task of its own, because its first request has ended.
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

/// A call, and all that belongs to it, from one request of its client to the next.
pub(crate) struct Going {
    pub(crate) flow: Flow,
    pub(crate) opened: Option<Opened>,
    pub(crate) events: Arc<Events>,
    /// The call in the names of the registry, when the client uses those of a profile.
    pub(crate) asked: Option<(String, Value)>,
    /// What was answered so far, for a host that does not have the call.
    pub(crate) said: Vec<Said>,
    /// What was answered in another process and not asked here yet.
    pub(crate) known: Vec<Said>,
}

pub(crate) struct Parked {
    going: Going,
    wish: Wish,
    key: SessionKey,
}

/// Whose call it is and what may be said to it.
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

/// What a client that came back meets.
pub(crate) enum Returned {
    /// The call that waited, with its answer.
    Call(Box<Going>),
    /// Not all was answered.
    Again(Box<InputRequiredResult>),
    /// The call waits in another process, or did. Here it begins anew.
    Anew(Vec<Said>),
}

impl Desk {
    /// Ends a request with the question of its call. None when too many wait already; the call hears that nobody
    /// answers.
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
                // The call hears that nobody answers, so that its record says so.
                drop(wish);
                drop(going.opened.take());
                let _ = tokio::time::timeout(LEAVING, going.flow.end()).await;
            }
        });
        Ok(InputRequiredResult::new(Some(requests), Some(sealed)))
    }

    /// Err: the state is not one for this call, or not any more.
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
            return Err(state::refused("was used already, or its call has ended"));
        };
        let Some(answers) = in_order(&wish, &responses) else {
            return match self.park(going, wish, bound) {
                Ok(again) => Ok(Returned::Again(Box::new(again))),
                Err(_) => Err(state::refused("cannot be taken now")),
            };
        };
        if let Some(digest) = &wish.digest {
            going.said.push(Said {
                digest: digest.clone(),
                answers: only_asked(&wish, responses),
            });
        }
        // The question may have been answered from elsewhere meanwhile, and then the call has gone on.
        let _ = wish.reply.send(answers);
        Ok(Returned::Call(Box::new(going)))
    }

    /// Nobody comes back any more whose session's name begins like this.
    pub(crate) fn close(&self, run: &str) {
        let kept = |one: &Parked| !one.key.session.as_str().starts_with(run);
        self.parked().retain(|_, one| kept(one));
    }

    fn parked(&self) -> MutexGuard<'_, HashMap<String, Parked>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Going {
    /// Ok: what the call wants to know; Err: how it ended.
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

    /// It goes on without whoever waits for it; dropped, it ends.
    pub(crate) fn apart(self) -> Self {
        Self {
            flow: self.flow.apart(),
            ..self
        }
    }

    /// Answers what was answered in another process. Comes back with a wish that was not.
    pub(crate) fn answer_known(&mut self, wish: Wish) -> Option<Wish> {
        let digest = wish.digest.as_ref();
        let at = digest.and_then(|digest| self.known.iter().position(|one| one.digest == *digest));
        let Some(at) = at else { return Some(wish) };
        // Taken out: the same question a second time is another one.
        let known = self.known.remove(at);
        let Some(answers) = in_order(&wish, &known.answers) else {
            return Some(wish);
        };
        self.said.push(known);
        let _ = wish.reply.send(answers);
        None
    }
}

/// An answer to each request. None: there is not one to each.
fn in_order(wish: &Wish, answers: &BTreeMap<String, Value>) -> Option<Vec<Value>> {
    let names = wish.requests.iter().map(|(name, _)| name);
    names.map(|name| answers.get(name).cloned()).collect()
}

/// Without what nobody asked for.
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
