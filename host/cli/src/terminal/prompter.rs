//! Prompts the user at the terminal.
//!
//! A tool must not be able to answer for the user, hide what it does or make the question unreadable. Anything
//! unexpected counts as a denial. The dialog, the layout of a question, the possible answers and the state of edited
//! changes each have a submodule.

mod changes;
mod choice;
mod claim;
mod desk;
mod draft;
mod edit;
mod hear;
mod interview;
mod keys;
mod margin;
mod quiet;
mod show;
mod talk;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tokio::sync::Mutex;
use toolhost_contract::{Answer, BoxFuture, Call, CallId, Interview, Question, Reply};
use toolhost_kernel::Prompter;

use self::desk::{Desk, Waits};
use self::hear::{READING, hear};
use self::keys::{Heard, Keys, Screen, Tty};
use self::talk::talk;
use super::screen::SCREEN;

pub struct TerminalPrompter<K = Tty> {
    /// Locked while a question is on the terminal, because two questions could not be distinguished.
    keys: Arc<Mutex<K>>,
    desk: Arc<Desk>,
    /// Writes while another thread holds the lock.
    screen: Screen,
}

impl Default for TerminalPrompter {
    fn default() -> Self {
        Self::new(Tty::default())
    }
}

impl<K: Keys> TerminalPrompter<K> {
    fn new(keys: K) -> Self {
        Self {
            screen: keys.screen(),
            keys: Arc::new(Mutex::new(keys)),
            desk: Arc::default(),
        }
    }
}

impl<K: Keys> Prompter for TerminalPrompter<K> {
    fn ask<'a>(&'a self, question: &'a Question, call: &'a Call) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            if !K::is_there() {
                return Answer::NobodyToAsk;
            }
            if let Some(note) = show::too_long(question, call) {
                return Answer::Deny { note: Some(note) };
            }
            // A cancelled call drops this future and its queue entry. The thread that waits for a line sees that and
            // does not consume the next line, which is not meant for it.
            let mut place = self.desk.enter(question.clone(), call.clone());
            let mut keys = tokio::select! {
                biased;
                Ok(answer) = &mut place.covered => return answer,
                keys = Arc::clone(&self.keys).lock_owned() => keys,
            };
            // The thread holds the lock until it is done, even if this future is dropped.
            let desk = Arc::clone(&self.desk);
            let ask = Arc::clone(&place.ask);
            tokio::task::spawn_blocking(move || talk(&mut *keys, &desk, &ask))
                .await
                .unwrap_or(Answer::Deny { note: None })
        })
    }

    fn interview<'a>(
        &'a self,
        interview: &'a Interview,
    ) -> BoxFuture<'a, Option<Option<Vec<Reply>>>> {
        Box::pin(async move {
            if !K::is_there() {
                return None;
            }
            let ticket = Leaving(Arc::default());
            let mut keys = Arc::clone(&self.keys).lock_owned().await;
            let (interview, waits) = (interview.clone(), Arc::clone(&ticket.0));
            let talk = move || interview::interview(&mut *keys, &interview, &waits);
            Some(tokio::task::spawn_blocking(talk).await.unwrap_or(None))
        })
    }

    fn answered_elsewhere(&self, call: &CallId, by: &str) {
        // Written before the tool starts, not when the waiting thread polls next.
        if let Some(told) = self.desk.answered_elsewhere(call, by) {
            (self.screen)(&told);
        }
    }
}

/// Asks the user to confirm what was printed before. Returns `None` if there is no terminal to prompt at.
pub fn confirm(question: &str) -> Option<bool> {
    if !Tty::is_there() {
        return None;
    }
    let _asking = SCREEN.ask();
    Some(confirm_with(&mut Tty::default(), question))
}

fn confirm_with(keys: &mut impl Keys, question: &str) -> bool {
    if keys.still(READING).is_none() {
        return false;
    }
    let place = |_| format!("{question} [y/N] ");
    match hear(keys, &Always, place) {
        Some(Heard::Line(line)) => is_yes(&line),
        Some(Heard::Disturbed) | None => false,
    }
}

fn is_yes(line: &str) -> bool {
    matches!(line.trim(), "y" | "Y" | "yes")
}

struct Always;

impl Waits for Always {
    fn waits(&self) -> bool {
        true
    }
}

/// Tells the thread on drop that the interview was cancelled.
struct Leaving(Arc<interview::Ticket>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.leave();
    }
}
