//! The queue of questions to the user, and which of them can be allowed together.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use toolhost_contract::{Answer, Call, CallId, Principal, Question, text};

/// Maximum number of calls that can be allowed together, so that the list stays reviewable.
const MAX_GROUP: usize = 20;

/// The waiting questions in order of arrival.
#[derive(Default)]
pub struct PromptQueue(Mutex<QueueState>);

#[derive(Default)]
struct QueueState {
    prompts: Vec<Arc<PendingPrompt>>,
    /// Number of questions answered since the queue was last empty.
    answered: usize,
    /// The caller of the first question.
    first_caller: Option<Principal>,
    requesters: Requesters,
}

/// Whose calls have asked so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Requesters {
    pub has_several_agents: bool,
    pub has_several_sessions: bool,
}

/// The state of a question as seen by the thread that asks it.
pub trait PromptState {
    fn is_pending(&self) -> bool;

    /// Called when the question is on the screen.
    fn mark_shown(&self) {}

    /// Called with whether the cursor is where the answer is typed.
    fn set_open(&self, _: bool) {}
}

/// One waiting question.
pub struct PendingPrompt {
    pub question: Question,
    pub call: Call,
    state: Mutex<State>,
    /// Whether it has been on the screen.
    shown: AtomicBool,
    /// Whether the cursor is where its answer is typed.
    open: AtomicBool,
}

enum State {
    /// Waiting, with the channel for an approval of several calls until that is used.
    Pending(Option<oneshot::Sender<Answer>>),
    /// Answered elsewhere.
    Answered { by: String, is_reported: bool },
    /// The call was cancelled or is answered.
    Closed,
}

/// Removes the question from the queue on drop.
pub struct QueuedPrompt<'a> {
    queue: &'a PromptQueue,
    pub ask: Arc<PendingPrompt>,
    /// Receives an answer that was given to several calls at once.
    pub group_answer: oneshot::Receiver<Answer>,
}

impl PromptQueue {
    pub fn push(&self, question: Question, call: Call) -> QueuedPrompt<'_> {
        let (sender, covered) = oneshot::channel();
        let ask = Arc::new(PendingPrompt {
            question,
            call,
            state: Mutex::new(State::Pending(Some(sender))),
            shown: AtomicBool::new(false),
            open: AtomicBool::new(false),
        });
        let mut all = self.lock();
        let caller = &ask.call.caller;
        let first = all.first_caller.get_or_insert_with(|| caller.clone());
        let is_other_agent = first.agent != caller.agent;
        let is_other_session = first.session != caller.session;
        all.requesters.has_several_agents |= is_other_agent;
        all.requesters.has_several_sessions |= is_other_session;
        all.prompts.push(Arc::clone(&ask));
        drop(all);
        QueuedPrompt {
            queue: self,
            ask,
            group_answer: covered,
        }
    }

    /// The position of the current question and the total, both including those already answered.
    pub fn position(&self) -> (usize, usize) {
        let all = self.lock();
        (all.answered + 1, all.answered + all.prompts.len())
    }

    pub fn requesters(&self) -> Requesters {
        self.lock().requesters
    }

    /// The questions that can be allowed together with this one, which is the first.
    pub fn similar(&self, ask: &Arc<PendingPrompt>) -> Vec<Arc<PendingPrompt>> {
        let all = self.lock();
        let others = all.prompts.iter().filter(|other| {
            !Arc::ptr_eq(other, ask) && other.is_pending() && is_similar(ask, other)
        });
        let mut alike = vec![Arc::clone(ask)];
        alike.extend(others.take(MAX_GROUP - 1).cloned());
        alike
    }

    /// The first questions after this one.
    pub fn next(&self, ask: &Arc<PendingPrompt>, max: usize) -> Vec<Arc<PendingPrompt>> {
        let all = self.lock();
        let others = all
            .prompts
            .iter()
            .filter(|other| !Arc::ptr_eq(other, ask) && other.is_pending());
        others.take(max).cloned().collect()
    }

    /// Marks a question as answered elsewhere. Returns a message to print at once if the question is on the screen.
    pub fn answered_elsewhere(&self, call: &CallId, by: &str) -> Option<String> {
        let all = self.lock();
        let ask = all.prompts.iter().find(|ask| ask.call.id == *call)?;
        let by = by.to_owned();
        *ask.state() = State::Answered {
            by,
            is_reported: false,
        };
        let open = ask.is_open();
        open.then(|| ask.take_elsewhere_message()).flatten()
    }

    #[cfg(test)]
    pub fn first(&self) -> CallId {
        self.lock().prompts[0].call.id.clone()
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for QueuedPrompt<'_> {
    fn drop(&mut self) {
        let mut state = self.ask.state();
        if let State::Pending(_) = *state {
            *state = State::Closed;
        }
        drop(state);
        let mut all = self.queue.lock();
        all.prompts.retain(|ask| !Arc::ptr_eq(ask, &self.ask));
        all.answered = if all.prompts.is_empty() {
            0
        } else {
            all.answered + 1
        };
    }
}

impl PromptState for PendingPrompt {
    fn is_pending(&self) -> bool {
        matches!(*self.state(), State::Pending(Some(_)))
    }

    fn mark_shown(&self) {
        self.shown.store(true, Ordering::Relaxed);
    }

    fn set_open(&self, open: bool) {
        self.open.store(open, Ordering::Relaxed);
    }
}

impl PendingPrompt {
    /// The message that the question was answered elsewhere; returned only once.
    pub fn take_elsewhere_message(&self) -> Option<String> {
        let mut state = self.state();
        let State::Answered { by, is_reported } = &mut *state else {
            return None;
        };
        let first = !std::mem::replace(is_reported, true);
        first.then(|| format!("answered elsewhere, by {}\n", text::escape_line(by, 80)))
    }

    pub fn was_shown(&self) -> bool {
        self.shown.load(Ordering::Relaxed)
    }

    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Allows the call once. Has no effect if the question no longer waits.
    pub fn allow_once(&self) {
        if let State::Pending(sender) = &mut *self.state()
            && let Some(sender) = sender.take()
        {
            // The receiver is gone if the call was just cancelled.
            let _ = sender.send(Answer::once());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether two calls can be allowed together.
fn is_similar(a: &PendingPrompt, b: &PendingPrompt) -> bool {
    a.question.is_similar(&b.question) && a.call.caller == b.call.caller
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{QuestionSpec, command, delete, question, staged_write, write};
    use super::*;

    fn alike(specs: &[QuestionSpec]) -> usize {
        let queue = PromptQueue::default();
        let queued: Vec<QueuedPrompt> = specs
            .iter()
            .map(|spec| {
                let (question, call) = question(spec);
                queue.push(question, call)
            })
            .collect();
        queue.similar(&queued[0].ask).len()
    }

    #[test]
    fn only_similar_low_risk_calls_are_grouped() {
        let risk = |risk: &str| QuestionSpec {
            meta: Some(json!({ "risk": risk })),
            ..staged_write("a", "x")
        };
        for (specs, expected) in [
            (vec![staged_write("a", "x")], 1),
            (vec![staged_write("a", "x"), staged_write("b", "y")], 2),
            (vec![staged_write("a", "x"), delete("b"), command("ls")], 1),
            (vec![delete("a"), delete("b")], 1),
            // Without changes, the list would not show what these calls do.
            (vec![write("a", "x"), write("b", "y")], 1),
            (vec![command("make a"), command("make b")], 1),
            (vec![risk("high"), risk("high")], 1),
            (vec![risk("unknown"), risk("unknown")], 1),
            (vec![risk("low"), risk("low")], 2),
            (vec![risk("medium"), risk("medium")], 1),
            (vec![risk("low"), staged_write("a", "x")], 1),
            // A protected file has a different reason.
            (
                vec![staged_write("a", "x"), staged_write(".git/hooks/x", "x")],
                1,
            ),
            (vec![staged_write("a", "x"); 50], MAX_GROUP),
        ] {
            assert_eq!(alike(&specs), expected, "{specs:?}");
        }
        let mut agent = staged_write("a", "x");
        agent.agent = Some("explore");
        assert_eq!(alike(&[staged_write("a", "x"), agent]), 1);
    }

    #[test]
    fn answered_prompts_are_counted_until_the_queue_is_empty() {
        let queue = PromptQueue::default();
        let enter = |path: &str| {
            let (question, call) = question(&write(path, "x"));
            queue.push(question, call)
        };
        let (first, second) = (enter("a"), enter("b"));
        assert_eq!(queue.position(), (1, 2));
        drop(first);
        let third = enter("c");
        assert_eq!(queue.position(), (2, 3));
        drop((second, third));
        let _last = enter("d");
        assert_eq!(queue.position(), (1, 1));
    }
}
