//! Prompts the user at the terminal.
//!
//! A tool must not be able to answer for the user, hide what it does or make the question unreadable. Anything
//! unexpected counts as a denial. The dialog, the layout of a question, the possible answers and the state of edited
//! changes each have a submodule.

mod answer_line;
mod changes;
mod choice;
mod claimed_diff;
mod dialog;
pub mod diff_rows;
mod input_edit;
mod interview;
mod key;
mod keys_text;
mod leftover_input;
mod pager;
mod prompt_queue;
mod question_draft;
mod question_text;
mod raw_mode;
mod terminal_io;
#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod tests;
pub mod untrusted_text;

use std::sync::Arc;

use tokio::sync::Mutex;
use toolhost_contract::{Answer, BoxFuture, Call, CallId, Question, QuestionForm, UserAnswer};
use toolhost_kernel::Prompter;

use self::answer_line::{READING_TIME, read_answer, read_choice};
use self::dialog::run_dialog;
use self::prompt_queue::{PromptQueue, PromptState};
use self::terminal_io::{LineEvent, TerminalIo, TerminalWriter, Tty};
use super::screen::SCREEN;

pub struct TerminalPrompter<K = Tty> {
    /// Locked while a question is on the terminal, because two questions could not be distinguished.
    terminal: Arc<Mutex<K>>,
    queue: Arc<PromptQueue>,
    /// Writes while another thread holds the lock.
    writer: TerminalWriter,
}

impl Default for TerminalPrompter {
    fn default() -> Self {
        Self::new(Tty::default())
    }
}

impl<K: TerminalIo> TerminalPrompter<K> {
    fn new(keys: K) -> Self {
        Self {
            writer: keys.writer(),
            terminal: Arc::new(Mutex::new(keys)),
            queue: Arc::default(),
        }
    }
}

impl<K: TerminalIo> Prompter for TerminalPrompter<K> {
    fn ask<'a>(&'a self, question: &'a Question, call: &'a Call) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            if !K::is_available() {
                return Answer::NoPrompter;
            }
            if let Some(problem) = leftover_input::review_problem(question, &call.input) {
                return Answer::Unreviewable { problem };
            }
            // A cancelled call drops this future and its queue entry. The thread that waits for a line sees that and
            // does not consume the next line, which is not meant for it.
            let mut queued = self.queue.push(question.clone(), call.clone());
            let mut keys = tokio::select! {
                biased;
                Ok(answer) = &mut queued.group_answer => return answer,
                keys = Arc::clone(&self.terminal).lock_owned() => keys,
            };
            // The thread holds the lock until it is done, even if this future is dropped.
            let queue = Arc::clone(&self.queue);
            let ask = Arc::clone(&queued.ask);
            tokio::task::spawn_blocking(move || run_dialog(&mut *keys, &queue, &ask))
                .await
                .unwrap_or(Answer::Deny { note: None })
        })
    }

    fn interview<'a>(
        &'a self,
        interview: &'a QuestionForm,
    ) -> BoxFuture<'a, Option<Option<Vec<UserAnswer>>>> {
        Box::pin(async move {
            if !K::is_available() {
                return None;
            }
            let ticket = InterviewGuard(Arc::default());
            let mut keys = Arc::clone(&self.terminal).lock_owned().await;
            let (interview, waits) = (interview.clone(), Arc::clone(&ticket.0));
            let dialog = move || interview::interview(&mut *keys, &interview, &waits);
            Some(tokio::task::spawn_blocking(dialog).await.unwrap_or(None))
        })
    }

    fn answered_elsewhere(&self, call: &CallId, by: &str) {
        // Written before the tool starts, not when the waiting thread polls next.
        if let Some(message) = self.queue.answered_elsewhere(call, by) {
            (self.writer)(&message);
        }
    }
}

/// Asks the user to confirm what was printed before. Returns `None` if there is no terminal to prompt at.
pub fn confirm(question: &str) -> Option<bool> {
    if !Tty::is_available() {
        return None;
    }
    let _asking = SCREEN.begin_question();
    Some(confirm_with(&mut Tty::default(), question))
}

/// The answer to a question for a line.
pub enum TypedLine {
    Line(String),
    /// The user ended the input.
    Ended,
    /// There is no terminal to prompt at.
    NoTerminal,
}

/// Asks for a line.
pub fn ask_line(question: &str) -> TypedLine {
    if !Tty::is_available() {
        return TypedLine::NoTerminal;
    }
    let _asking = SCREEN.begin_question();
    let mut keys = Tty::default();
    loop {
        match read_answer(&mut keys, &AlwaysPending, |_| format!("{question} ")) {
            Some(LineEvent::Line(line)) => return TypedLine::Line(line),
            Some(LineEvent::Disturbed) => {}
            None => return TypedLine::Ended,
        }
    }
}

fn confirm_with(keys: &mut impl TerminalIo, question: &str) -> bool {
    if keys.discard_input(READING_TIME).is_none() {
        return false;
    }
    let prompt = |_| format!("{question} [y/N] ");
    match read_choice(keys, &AlwaysPending, prompt) {
        Some(LineEvent::Line(line)) => is_yes(&line),
        Some(LineEvent::Disturbed) | None => false,
    }
}

fn is_yes(line: &str) -> bool {
    matches!(line.trim(), "y" | "Y" | "yes")
}

struct AlwaysPending;

impl PromptState for AlwaysPending {
    fn is_pending(&self) -> bool {
        true
    }
}

/// Tells the thread on drop that the interview was cancelled.
struct InterviewGuard(Arc<interview::InterviewState>);

impl Drop for InterviewGuard {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
