//! The dialog about one question: shows it, reads a line and acts on it. Blocks; anything unexpected is a denial.

use std::sync::Arc;

use toolhost_contract::{Answer, text};

use super::answer_line::read_answer;
use super::choice::{Selection, available_choices, list_letters, parse_selection};
use super::prompt_queue::{PendingPrompt, PromptQueue, PromptState};
use super::question_draft::{self, QuestionDraft};
use super::terminal_io::{LineEvent, TerminalIo};
use super::untrusted_text::TerminalLayout;
use super::{changes, input_edit, is_yes, question_text};
use crate::terminal::screen::SCREEN;

/// Maximum number of lines and edits in one dialog.
const MAX_ROUNDS: usize = 50;

pub fn run_dialog(
    keys: &mut impl TerminalIo,
    queue: &PromptQueue,
    ask: &Arc<PendingPrompt>,
) -> Answer {
    let _asking = SCREEN.begin_question();
    if !ask.is_pending() {
        return Answer::Deny { note: None };
    }
    if let Some(note) = question_text::layout_problem(&ask.question, &ask.call, keys.layout()) {
        return Answer::Deny { note: Some(note) };
    }
    let mut dialog = Dialog {
        keys,
        queue,
        ask,
        draft: QuestionDraft::new(&ask.question),
    };
    let answer = dialog.run();
    if ask.was_shown()
        && let Some(message) = ask.take_elsewhere_message()
    {
        keys.write(&message);
    } else if ask.is_open() && ask.is_pending() {
        // At the end of input the cursor is still behind the answer prompt.
        keys.write("\n");
    }
    answer.unwrap_or(Answer::Deny { note: None })
}

struct Dialog<'a, K> {
    keys: &'a mut K,
    queue: &'a PromptQueue,
    ask: &'a Arc<PendingPrompt>,
    draft: QuestionDraft,
}

/// What to print before the next line is read.
enum NextOutput {
    Question,
    Help,
    /// A remark; the choices are still visible.
    Remark(String),
}

/// The result of a choice with further prompts.
enum DialogStep {
    Answered(Answer),
    Back,
}

impl<K: TerminalIo> Dialog<'_, K> {
    fn run(&mut self) -> Option<Answer> {
        let ask = self.ask;
        let mut next = NextOutput::Question;
        let mut understood = true;
        for _ in 0..MAX_ROUNDS {
            let queue = self.queue;
            let mut alike = 0;
            let event = self.read_answer(|draft, look| {
                // Counted when the question is shown, because the calls of one turn ask almost simultaneously. An
                // edited call is similar to no other.
                alike = match draft.edits() {
                    [] => queue.similar(ask).len(),
                    _ => 0,
                };
                match &next {
                    NextOutput::Question => question_text::format_question(
                        draft,
                        &ask.call,
                        queue.position(),
                        alike,
                        look,
                    ),
                    NextOutput::Help => question_text::format_help(draft, alike, look),
                    NextOutput::Remark(remark) => format!("  {remark}\n{}", question_text::PROMPT),
                }
            })?;
            let LineEvent::Line(line) = event else {
                next = NextOutput::Question;
                continue;
            };
            let choices = available_choices(&self.draft, alike);
            next = match parse_selection(&line, &choices) {
                Some(Selection::Offer(offer)) => return self.allow(offer),
                Some(Selection::Deny) => return Some(Answer::Deny { note: None }),
                Some(Selection::Cancel) => return Some(Answer::Cancel),
                Some(Selection::DenyWithMessage("")) => {
                    match self.read_answer(|_, _| "  message: ".to_owned())? {
                        LineEvent::Line(note) => return Some(deny_with_message(&note)),
                        LineEvent::Disturbed => NextOutput::Question,
                    }
                }
                Some(Selection::DenyWithMessage(note)) => return Some(deny_with_message(note)),
                Some(Selection::Help) => NextOutput::Help,
                Some(Selection::All) => {
                    if let DialogStep::Answered(answer) = self.allow_group()? {
                        return Some(answer);
                    }
                    NextOutput::Question
                }
                Some(Selection::EditContent(number)) => self.edit_content(number)?,
                Some(Selection::EditInput("")) => {
                    if let DialogStep::Answered(answer) = self.edit_input()? {
                        return Some(answer);
                    }
                    NextOutput::Question
                }
                Some(Selection::EditInput(pairs)) => {
                    match input_edit::apply_inline(&ask.call.input, pairs) {
                        Ok(input) if input == ask.call.input => {
                            NextOutput::Remark("the input is unchanged".to_owned())
                        }
                        Ok(input) => return Some(Answer::Modify { input }),
                        Err(error) => NextOutput::Remark(text::escape_line(&error, 500)),
                    }
                }
                None if understood => {
                    understood = false;
                    NextOutput::Remark(format!("answer with {}", list_letters(&choices)))
                }
                None => return None,
            };
        }
        None
    }

    fn read_answer(
        &mut self,
        shown: impl FnOnce(&QuestionDraft, TerminalLayout) -> String,
    ) -> Option<LineEvent> {
        read_answer(self.keys, &**self.ask, |look| shown(&self.draft, look))
    }

    fn allow(&mut self, offer: usize) -> Option<Answer> {
        if offer == 0 {
            return Some(self.draft.allow_once());
        }
        // Saved approvals are repeated, because a capital letter is easily typed by mistake.
        let approval = &self.ask.question.offers.get(offer)?.text;
        let approval = text::escape_line(approval, 500);
        self.keys.write(&format!("  saved: {approval}\n"))?;
        Some(Answer::Allow { offer, note: None })
    }

    /// Allows all listed calls.
    fn allow_group(&mut self) -> Option<DialogStep> {
        let alike = self.queue.similar(self.ask);
        match self.read_answer(|_, look| question_text::format_group(&alike, look))? {
            LineEvent::Line(line) if is_yes(&line) => {}
            LineEvent::Line(_) | LineEvent::Disturbed => return Some(DialogStep::Back),
        }
        // Only the listed calls, not those that have become similar since.
        for other in alike.iter().filter(|other| !Arc::ptr_eq(other, self.ask)) {
            other.allow_once();
        }
        Some(DialogStep::Answered(Answer::once()))
    }

    /// Edits the content of a file. An earlier edit is kept until a new one is saved.
    fn edit_content(&mut self, argument: &str) -> Option<NextOutput> {
        let files = self.draft.editable_files();
        let number = match (argument, &files[..]) {
            ("", [_]) => "1".to_owned(),
            ("", files) => {
                match self.read_answer(|_, look| changes::format_file_list(files, look))? {
                    LineEvent::Line(number) => number,
                    LineEvent::Disturbed => return Some(NextOutput::Question),
                }
            }
            (argument, _) => argument.to_owned(),
        };
        let number = number.trim();
        if number.is_empty() {
            return Some(NextOutput::Question);
        }
        let at = number.parse().ok().and_then(|at: usize| at.checked_sub(1));
        let Some(path) = at.and_then(|at| files.get(at)) else {
            let number = text::escape_line(number, 80);
            let last = files.len();
            return Some(NextOutput::Remark(format!(
                "no file {number}; choose 1 to {last}"
            )));
        };
        let before = self.draft.text(path);
        let mut text = before.clone();
        for _ in 0..MAX_ROUNDS {
            text = match self.keys.run_editor(
                &text,
                &question_draft::file_extension(path),
                &**self.ask,
            ) {
                Ok(text) => text,
                Err(error) => return self.return_to_question(&error),
            };
            if text == before {
                return self.return_to_question("no changes");
            }
            let (remark, or) = if text.is_empty() {
                ("the file is now empty".to_owned(), "[y] keep it empty  ")
            } else {
                match self.draft.save_edit(path, text.clone()) {
                    Ok(()) => return Some(NextOutput::Question),
                    Err(error) => (error.to_string(), ""),
                }
            };
            let answer = self.read_answer(|_, _| {
                format!("  {remark}\n  {or}[e] edit again, anything else returns to the question: ")
            })?;
            match answer.text() {
                "e" | "E" => {}
                "y" | "Y" if text.is_empty() => match self.draft.save_edit(path, text) {
                    Ok(()) => return Some(NextOutput::Question),
                    Err(error) => return self.return_to_question(&error.to_string()),
                },
                _ => return Some(NextOutput::Question),
            }
        }
        None
    }

    fn return_to_question(&mut self, why: &str) -> Option<NextOutput> {
        let why = text::escape_line(why, 500);
        self.keys.write(&format!("  {why}\n"))?;
        Some(NextOutput::Question)
    }

    /// Edits the input in an editor.
    fn edit_input(&mut self) -> Option<DialogStep> {
        let mut text = input_edit::to_text(&self.ask.call.input);
        for _ in 0..MAX_ROUNDS {
            text = match self.keys.run_editor(&text, ".json", &**self.ask) {
                Ok(text) => text,
                Err(error) => {
                    let error = text::escape_line(&error, 500);
                    self.keys.write(&format!("  {error}\n"))?;
                    return Some(DialogStep::Back);
                }
            };
            let error = match input_edit::from_text(&text) {
                Ok(input) if input == self.ask.call.input => {
                    self.keys.write("  no changes\n")?;
                    return Some(DialogStep::Back);
                }
                Ok(input) => return Some(DialogStep::Answered(Answer::Modify { input })),
                Err(error) => text::escape_line(&error, 500),
            };
            let answer = self.read_answer(|_, _| {
                format!("  {error}\n  [e] edit again, anything else returns to the question: ")
            })?;
            if !matches!(answer.text(), "e" | "E") {
                return Some(DialogStep::Back);
            }
        }
        None
    }
}

fn deny_with_message(note: &str) -> Answer {
    let note = note.trim();
    Answer::Deny {
        note: (!note.is_empty()).then(|| note.to_owned()),
    }
}
