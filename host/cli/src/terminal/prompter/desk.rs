//! The queue of questions to the user, and which of them can be allowed together.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::oneshot;
use toolhost_contract::policy::AskKind;
use toolhost_contract::{Answer, Call, CallId, Effect, Question, text};

/// Maximum number of calls that can be allowed together, so that the list stays reviewable.
const MAX_ALIKE: usize = 20;

/// The waiting questions in order of arrival.
#[derive(Default)]
pub struct Desk(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    asks: Vec<Arc<Ask>>,
    /// Number of questions answered since the queue was last empty.
    done: usize,
}

/// The state of a question as seen by the thread that asks it.
pub trait Waits {
    fn waits(&self) -> bool;

    /// Called when the question is on the screen.
    fn shown(&self) {}

    /// Called with whether the cursor is where the answer is typed.
    fn open(&self, _: bool) {}
}

/// One waiting question.
pub struct Ask {
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
    Waits(Option<oneshot::Sender<Answer>>),
    /// Answered elsewhere.
    Answered { by: String, told: bool },
    /// The call was cancelled or is answered.
    Gone,
}

/// Removes the question from the queue on drop.
pub struct Place<'a> {
    desk: &'a Desk,
    pub ask: Arc<Ask>,
    /// Receives an answer that was given to several calls at once.
    pub covered: oneshot::Receiver<Answer>,
}

impl Desk {
    pub fn enter(&self, question: Question, call: Call) -> Place<'_> {
        let (sender, covered) = oneshot::channel();
        let ask = Arc::new(Ask {
            question,
            call,
            state: Mutex::new(State::Waits(Some(sender))),
            shown: AtomicBool::new(false),
            open: AtomicBool::new(false),
        });
        self.all().asks.push(Arc::clone(&ask));
        Place {
            desk: self,
            ask,
            covered,
        }
    }

    /// The position of the current question and the total, both including those already answered.
    pub fn count(&self) -> (usize, usize) {
        let all = self.all();
        (all.done + 1, all.done + all.asks.len())
    }

    /// The questions that can be allowed together with this one, which is the first.
    pub fn alike(&self, ask: &Arc<Ask>) -> Vec<Arc<Ask>> {
        let all = self.all();
        let others = all
            .asks
            .iter()
            .filter(|other| !Arc::ptr_eq(other, ask) && other.waits() && look_alike(ask, other));
        let mut alike = vec![Arc::clone(ask)];
        alike.extend(others.take(MAX_ALIKE - 1).cloned());
        alike
    }

    /// Marks a question as answered elsewhere. Returns a message to print at once if the question is on the screen.
    pub fn answered_elsewhere(&self, call: &CallId, by: &str) -> Option<String> {
        let all = self.all();
        let ask = all.asks.iter().find(|ask| ask.call.id == *call)?;
        let by = by.to_owned();
        *ask.state() = State::Answered { by, told: false };
        let open = ask.is_open();
        open.then(|| ask.told_elsewhere()).flatten()
    }

    #[cfg(test)]
    pub fn first(&self) -> CallId {
        self.all().asks[0].call.id.clone()
    }

    fn all(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.ask.state();
        if let State::Waits(_) = *state {
            *state = State::Gone;
        }
        drop(state);
        let mut all = self.desk.all();
        all.asks.retain(|ask| !Arc::ptr_eq(ask, &self.ask));
        all.done = if all.asks.is_empty() { 0 } else { all.done + 1 };
    }
}

impl Waits for Ask {
    fn waits(&self) -> bool {
        matches!(*self.state(), State::Waits(Some(_)))
    }

    fn shown(&self) {
        self.shown.store(true, Ordering::Relaxed);
    }

    fn open(&self, open: bool) {
        self.open.store(open, Ordering::Relaxed);
    }
}

impl Ask {
    /// The message that the question was answered elsewhere; returned only once.
    pub fn told_elsewhere(&self) -> Option<String> {
        let mut state = self.state();
        let State::Answered { by, told } = &mut *state else {
            return None;
        };
        let first = !std::mem::replace(told, true);
        first.then(|| format!("answered elsewhere, by {}\n", text::inline(by, 80)))
    }

    pub fn was_shown(&self) -> bool {
        self.shown.load(Ordering::Relaxed)
    }

    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Allows the call once. Has no effect if the question no longer waits.
    pub fn cover(&self) {
        if let State::Waits(sender) = &mut *self.state()
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

/// Whether two calls can be allowed together. Calls that destroy data, run a command or are risky are reviewed one by
/// one, and so are calls of another caller or with another reason.
fn look_alike(a: &Ask, b: &Ask) -> bool {
    let (one, other) = (&a.question, &b.question);
    one.effect <= Effect::Writes
        && one.kind != AskKind::Exec
        && is_calm(one.meta.as_ref())
        && one.plugin == other.plugin
        && one.tool == other.tool
        && one.effect == other.effect
        && one.kind == other.kind
        && one.reason == other.reason
        && one.rule == other.rule
        && one.meta == other.meta
        && a.call.caller == b.call.caller
}

/// Whether no hook has rated the call as risky.
fn is_calm(meta: Option<&Value>) -> bool {
    match meta.and_then(|meta| meta.get("risk")) {
        None | Some(Value::Null) => true,
        Some(Value::String(risk)) => matches!(risk.as_str(), "none" | "low" | "medium"),
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{Asked, command, delete, question, write};
    use super::*;

    fn alike(asked: &[Asked]) -> usize {
        let desk = Desk::default();
        let places: Vec<Place> = asked
            .iter()
            .map(|asked| {
                let (question, call) = question(asked);
                desk.enter(question, call)
            })
            .collect();
        desk.alike(&places[0].ask).len()
    }

    #[test]
    fn one_yes_covers_only_what_looks_alike_and_is_harmless() {
        let risk = |risk: &str| Asked {
            meta: Some(json!({ "risk": risk })),
            ..write("a", "x")
        };
        for (asked, expected) in [
            (vec![write("a", "x")], 1),
            (vec![write("a", "x"), write("b", "y")], 2),
            (vec![write("a", "x"), delete("b"), command("ls")], 1),
            (vec![delete("a"), delete("b")], 1),
            (vec![command("make a"), command("make b")], 1),
            (vec![risk("high"), risk("high")], 1),
            (vec![risk("unknown"), risk("unknown")], 1),
            (vec![risk("low"), risk("low")], 2),
            (vec![risk("low"), write("a", "x")], 1),
            // A protected file has a different reason.
            (vec![write("a", "x"), write(".git/hooks/x", "x")], 1),
            (vec![write("a", "x"); 50], MAX_ALIKE),
        ] {
            assert_eq!(alike(&asked), expected, "{asked:?}");
        }
        let mut agent = write("a", "x");
        agent.agent = Some("explore");
        assert_eq!(alike(&[write("a", "x"), agent]), 1);
    }

    #[test]
    fn those_that_have_left_are_counted_until_the_desk_is_empty() {
        let desk = Desk::default();
        let enter = |path: &str| {
            let (question, call) = question(&write(path, "x"));
            desk.enter(question, call)
        };
        let (first, second) = (enter("a"), enter("b"));
        assert_eq!(desk.count(), (1, 2));
        drop(first);
        let third = enter("c");
        assert_eq!(desk.count(), (2, 3));
        drop((second, third));
        let _last = enter("d");
        assert_eq!(desk.count(), (1, 1));
    }
}
