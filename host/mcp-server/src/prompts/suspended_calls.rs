//! Suspended calls that wait for a stateless client to send an answer.
//!
//! The client's request ends with the question and a sealed request state. The call keeps waiting in a separate task
//! until the client calls again with the state and the answer. If another host receives the second request, it
//! restarts the call and reuses the earlier answers for identical questions.

use std::collections::{BTreeMap, HashMap};
use std::future::{self, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, ErrorData, InputRequests, InputRequiredResult};
use serde_json::Value;
use toolhost_contract::{Principal, SessionKey};
use toolhost_kernel::Report;

use super::request_state::{self, AnsweredInput, RequestState, StateSealer};
use super::{ElicitationPrompter, InputRequestBatch, PromptRegistration};
use crate::abort::AbortOnDrop;
use crate::event_relay::EventRelay;
use crate::running_count::{RunningCount, RunningGuard};

/// Maximum number of suspended calls, in total and per user.
const MAX_SUSPENDED: usize = 512;
const MAX_SUSPENDED_PER_USER: usize = 32;
/// How long an abandoned call may take to end after it was told that no answer will come.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// How a call ended. `Err`: the call panicked.
pub(crate) type CallEnd = Result<Report, ()>;

/// The future of a running call.
pub(crate) enum CallFuture {
    /// Polled by the task of the request.
    Inline(Pin<Box<dyn Future<Output = CallEnd> + Send>>),
    /// Runs in a separate task, because its first request has ended.
    Spawned(AbortOnDrop<CallEnd>),
}

impl CallFuture {
    pub(crate) async fn wait(&mut self) -> CallEnd {
        match self {
            CallFuture::Inline(call) => call.await,
            CallFuture::Spawned(task) => task.wait().await.unwrap_or(Err(())),
        }
    }

    /// Polls the call, and keeps its result for the next [`Self::wait`].
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let end = ready!(pin!(self.wait()).poll(cx));
        *self = CallFuture::Inline(Box::pin(future::ready(end)));
        Poll::Ready(())
    }

    fn into_spawned(self) -> Self {
        match self {
            CallFuture::Inline(call) => CallFuture::Spawned(AbortOnDrop::spawn(call)),
            CallFuture::Spawned(task) => CallFuture::Spawned(task),
        }
    }
}

/// A running call and its state, which outlives a single request.
pub(crate) struct OngoingCall {
    pub(crate) future: CallFuture,
    pub(crate) registration: Option<PromptRegistration>,
    pub(crate) events: Arc<EventRelay>,
    /// Counts the call while it runs on without a request.
    pub(crate) running: RunningCount,
    /// Canonical tool name and input, if the client uses the names of a profile.
    pub(crate) canonical_call: Option<(String, Value)>,
    /// Answers so far, for a host that does not have this call.
    pub(crate) answered: Vec<AnsweredInput>,
    /// Answers given on another host that have not been used here yet.
    pub(crate) replayed: Vec<AnsweredInput>,
}

pub(crate) struct SuspendedCall {
    ongoing: OngoingCall,
    requests: InputRequestBatch,
    key: SessionKey,
    /// Runs until the call is no longer suspended.
    _watch: AbortOnDrop<()>,
}

/// The place of a suspended call, for the task that watches it.
struct SuspendedHandle {
    prompter: Weak<ElicitationPrompter>,
    handle: String,
}

/// Session and fingerprint of a call, to which its request state is bound.
pub(crate) struct CallBinding {
    key: SessionKey,
    call: String,
}

impl CallBinding {
    /// `only_paths` are the directories to which the call is narrowed: an answer for them is none for others.
    pub(crate) fn new(
        caller: &Principal,
        params: &CallToolRequestParams,
        only_paths: Option<&Value>,
    ) -> Self {
        let arguments = params.arguments.as_ref();
        let mut call = request_state::fingerprint(&caller.user, &params.name, arguments);
        if let Some(only_paths) = only_paths {
            call.push_str(&request_state::digest_of(only_paths));
        }
        Self {
            key: caller.session_key(),
            call,
        }
    }
}

/// What to do with a request that carries a request state.
pub(crate) enum ResumeAction {
    /// Continue the suspended call, which has its answer.
    Continue(Box<OngoingCall>),
    /// Some answers are missing. Return the question again.
    AskAgain(Box<InputRequiredResult>),
    /// The call was suspended on another host. Restart it with these answers.
    Restart(Vec<AnsweredInput>),
}

impl ElicitationPrompter {
    /// Suspends a call and returns its question as the result of the request. `Err` if too many calls are suspended;
    /// the call then continues without an answer.
    pub(crate) fn suspend(
        self: &Arc<Self>,
        going: OngoingCall,
        request: InputRequestBatch,
        bound: &CallBinding,
    ) -> Result<InputRequiredResult, Box<OngoingCall>> {
        let Ok(handle) = StateSealer::random_handle() else {
            return Err(Box::new(going));
        };
        let state = RequestState {
            host: self.sealer.host.clone(),
            handle: handle.clone(),
            asked: request.digest.clone(),
            said: going.answered.clone(),
        };
        let Ok(sealed) = self.sealer.seal(&state, &bound.call) else {
            return Err(Box::new(going));
        };
        let requests: InputRequests = request.requests.iter().cloned().collect();
        {
            let mut parked = self.lock_suspended();
            let own = parked.values().filter(|one| one.key.user == bound.key.user);
            if parked.len() >= MAX_SUSPENDED || own.count() >= MAX_SUSPENDED_PER_USER {
                return Err(Box::new(going));
            }
            let place = SuspendedHandle {
                prompter: Arc::downgrade(self),
                handle: handle.clone(),
            };
            let one = SuspendedCall {
                _watch: AbortOnDrop::spawn(place.watch(going.running.clone())),
                ongoing: going.into_spawned(),
                requests: request,
                key: bound.key.clone(),
            };
            parked.insert(handle, one);
        }
        Ok(InputRequiredResult::new(Some(requests), Some(sealed)))
    }

    /// Resumes a call. Fails if the state is not valid for this call, was used or has expired.
    pub(crate) fn resume(
        self: &Arc<Self>,
        sealed: &str,
        responses: Option<BTreeMap<String, Value>>,
        bound: &CallBinding,
    ) -> Result<ResumeAction, ErrorData> {
        let state = self.sealer.open(sealed, &bound.call)?;
        let responses = responses.unwrap_or_default();
        if state.host != self.sealer.host {
            self.sealer.mark_used(&state.handle)?;
            return Ok(ResumeAction::Restart(answers_from_state(state, responses)));
        }
        let parked = self.lock_suspended().remove(&state.handle);
        let Some(SuspendedCall {
            ongoing: mut going,
            requests: request,
            ..
        }) = parked
        else {
            return Err(request_state::invalid_state(
                "was already used, or its call has ended",
            ));
        };
        let Some(answers) = ordered_answers(&request, &responses) else {
            return match self.suspend(going, request, bound) {
                Ok(again) => Ok(ResumeAction::AskAgain(Box::new(again))),
                Err(_) => Err(request_state::invalid_state(
                    "cannot be accepted: too many calls are waiting",
                )),
            };
        };
        if let Some(digest) = &request.digest {
            going.answered.push(AnsweredInput {
                digest: digest.clone(),
                answers: retain_requested(&request, responses),
            });
        }
        // Fails if the question was answered elsewhere and the call has continued.
        let _ = request.reply.send(answers);
        Ok(ResumeAction::Continue(Box::new(going)))
    }

    /// Drops the suspended calls of all sessions whose name starts with `run`.
    pub(crate) fn drop_run(&self, run: &str) {
        let is_retained = |one: &SuspendedCall| !one.key.session.as_str().starts_with(run);
        self.lock_suspended().retain(|_, one| is_retained(one));
    }

    fn lock_suspended(&self) -> MutexGuard<'_, HashMap<String, SuspendedCall>> {
        self.suspended
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl SuspendedHandle {
    /// Ends the call if its question is not answered in time. If it is answered elsewhere, the call runs on, and a
    /// stopping host waits for it. Its result is kept as long as the client can return with its state.
    async fn watch(self, running: RunningCount) {
        let mut expired = pin!(tokio::time::sleep(request_state::TTL));
        // Also closed if the call stopped waiting.
        let is_answered = tokio::select! {
            biased;
            () = self.poll(|one, cx| one.requests.reply.poll_closed(cx)) => true,
            () = &mut expired => false,
        };
        if !is_answered {
            if let Some(one) = self.remove() {
                // Separate, because `one` aborts this task when it is dropped.
                tokio::spawn(end_unanswered(one.ongoing, one.requests));
            }
            return;
        }
        let guard = RunningGuard::begin(&running);
        let mut end = pin!(self.poll(|one, cx| one.ongoing.future.poll_end(cx)));
        let has_ended = tokio::select! {
            biased;
            () = &mut end => true,
            () = &mut expired => false,
        };
        if has_ended {
            drop(guard);
            expired.await;
        } else {
            // The client can no longer answer further questions.
            drop(self.take_registration());
            end.await;
        }
        self.remove();
    }

    /// Polls the suspended call. Also ready if it is no longer suspended.
    async fn poll(
        &self,
        mut poll: impl FnMut(&mut SuspendedCall, &mut Context<'_>) -> Poll<()> + Send,
    ) {
        poll_fn(|cx| {
            let Some(prompter) = self.prompter.upgrade() else {
                return Poll::Ready(());
            };
            let mut suspended = prompter.lock_suspended();
            match suspended.get_mut(&self.handle) {
                Some(one) => poll(one, cx),
                None => Poll::Ready(()),
            }
        })
        .await;
    }

    fn take_registration(&self) -> Option<PromptRegistration> {
        let prompter = self.prompter.upgrade()?;
        let mut suspended = prompter.lock_suspended();
        suspended.get_mut(&self.handle)?.ongoing.registration.take()
    }

    fn remove(&self) -> Option<SuspendedCall> {
        self.prompter
            .upgrade()?
            .lock_suspended()
            .remove(&self.handle)
    }
}

/// Tells the call that no answer will come, so that its record states that, and waits for its end.
async fn end_unanswered(mut going: OngoingCall, request: InputRequestBatch) {
    drop(request);
    drop(going.registration.take());
    let _ = tokio::time::timeout(END_TIMEOUT, going.future.wait()).await;
}

impl OngoingCall {
    /// Waits for the next input that the call needs (`Ok`) or for its end (`Err`).
    pub(crate) async fn next_requests(&mut self) -> Result<InputRequestBatch, CallEnd> {
        let request = async {
            match &mut self.registration {
                Some(opened) => opened.requests.recv().await,
                None => None,
            }
        };
        tokio::select! {
            biased;
            ended = self.future.wait() => Err(ended),
            Some(request) = request => Ok(request),
        }
    }

    /// Moves the call to a separate task, which is aborted on drop.
    pub(crate) fn into_spawned(self) -> Self {
        Self {
            future: self.future.into_spawned(),
            ..self
        }
    }

    /// Answers the input request with an answer from another host. Returns it if there is none.
    pub(crate) fn answer_from_replay(
        &mut self,
        request: InputRequestBatch,
    ) -> Option<InputRequestBatch> {
        let digest = request.digest.as_ref();
        let at =
            digest.and_then(|digest| self.replayed.iter().position(|one| one.digest == *digest));
        let Some(at) = at else { return Some(request) };
        // Each answer is used once: a repeated question needs a new answer.
        let known = self.replayed.remove(at);
        let Some(answers) = ordered_answers(&request, &known.answers) else {
            return Some(request);
        };
        self.answered.push(known);
        let _ = request.reply.send(answers);
        None
    }
}

/// Returns the answers in the order of the requests, or `None` if one is missing.
fn ordered_answers(
    request: &InputRequestBatch,
    answers: &BTreeMap<String, Value>,
) -> Option<Vec<Value>> {
    let names = request.requests.iter().map(|(name, _)| name);
    names.map(|name| answers.get(name).cloned()).collect()
}

/// Removes answers to requests that were not sent.
fn retain_requested(
    request: &InputRequestBatch,
    mut answers: BTreeMap<String, Value>,
) -> BTreeMap<String, Value> {
    answers.retain(|name, _| {
        request
            .requests
            .iter()
            .any(|(requested, _)| requested == name)
    });
    answers
}

fn answers_from_state(state: RequestState, answers: BTreeMap<String, Value>) -> Vec<AnsweredInput> {
    let mut answered = state.said;
    answered.extend(
        state
            .asked
            .filter(|_| !answers.is_empty())
            .map(|digest| AnsweredInput { digest, answers }),
    );
    answered
}

#[cfg(test)]
mod tests;
