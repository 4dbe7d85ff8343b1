//! The questions that wait for a person, and which of them one yes may cover.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::oneshot;
use toolhost_contract::policy::AskKind;
use toolhost_contract::{Answer, Call, CallId, Effect, Question, text};

/// Nobody reads a longer list before saying yes to all of it.
const MAX_ALIKE: usize = 20;

/// Everything that waits right now, in the order it came.
#[derive(Default)]
pub struct Desk(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    asks: Vec<Arc<Ask>>,
    /// Those that have left since the desk was last empty.
    done: usize,
}

/// Whether somebody still wants to know.
pub trait Waits {
    fn waits(&self) -> bool;

    /// The question is on the screen.
    fn shown(&self) {}

    /// The cursor stands where the answer is typed, or no longer.
    fn open(&self, _: bool) {}
}

/// One question that waits.
pub struct Ask {
    pub question: Question,
    pub call: Call,
    state: Mutex<State>,
    /// The person has seen it.
    shown: AtomicBool,
    /// The cursor stands where the answer to this question would be typed.
    open: AtomicBool,
}

enum State {
    /// Holds the way for a yes that covers several, until there was one.
    Waits(Option<oneshot::Sender<Answer>>),
    /// Somebody else was faster.
    Answered { by: String, told: bool },
    /// The call was cancelled, or has its answer.
    Gone,
}

/// The question waits as long as this is there.
pub struct Place<'a> {
    desk: &'a Desk,
    pub ask: Arc<Ask>,
    /// An answer that was given to several at once.
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

    /// Which of how many: those that were answered while this one waited are counted.
    pub fn count(&self) -> (usize, usize) {
        let all = self.all();
        (all.done + 1, all.done + all.asks.len())
    }

    /// Those that one yes may cover together with this one, which is the first of them.
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

    /// What to write at once, when the person is looking at this question.
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
    /// What the person is told when somebody else was faster; once.
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

    /// Yes, once. Nothing happens when it does not wait any more.
    pub fn cover(&self) {
        if let State::Waits(sender) = &mut *self.state()
            && let Some(sender) = sender.take()
        {
            // Nobody there: the call was cancelled a moment ago.
            let _ = sender.send(Answer::once());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What destroys, runs a command or is risky is looked at one by one; and so is what somebody else wants, or what is
/// asked for another reason.
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

/// Nobody has called it risky.
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
            (vec![risk("unheard of"), risk("unheard of")], 1),
            (vec![risk("low"), risk("low")], 2),
            (vec![risk("low"), write("a", "x")], 1),
            // A protected file is asked about for a reason of its own.
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
