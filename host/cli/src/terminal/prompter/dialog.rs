//! The dialog about one question: shows it, reads a key and acts on it. Blocks; anything unexpected is a denial.

use std::sync::Arc;

use toolhost_contract::{Answer, text};

use super::answer_line::{read_answer, read_choice};
use super::choice::{
    Choice, Selection, list_keys, main_choices, more_choices, parse_offer, parse_selection,
    saved_offers,
};
use super::keys_text::{self, KEY_PROMPT};
use super::prompt_queue::{PendingPrompt, PromptQueue, PromptState};
use super::question_draft::{self, QuestionDraft};
use super::question_text::{self, Extent, QuestionContext};
use super::terminal_io::{LineEvent, TerminalIo};
use super::untrusted_text::TerminalLayout;
use super::{changes, input_edit, is_yes, pager};
use crate::terminal::screen::SCREEN;
use crate::terminal::working_directory;

/// Maximum number of keys, lines and edits in one dialog.
const MAX_ROUNDS: usize = 50;
/// Number of unknown keys after which the next one denies.
const MAX_UNKNOWN: usize = 5;
/// Maximum number of calls that are listed as asked about next.
const MAX_NEXT: usize = 3;

pub fn run_dialog(
    keys: &mut impl TerminalIo,
    queue: &PromptQueue,
    ask: &Arc<PendingPrompt>,
) -> Answer {
    let _asking = SCREEN.begin_question();
    if !ask.is_pending() {
        return Answer::Deny { note: None };
    }
    if let Some(problem) = question_text::layout_problem(&ask.question, &ask.call, keys.layout()) {
        return Answer::Unreviewable { problem };
    }
    let mut dialog = Dialog {
        keys,
        queue,
        ask,
        draft: QuestionDraft::new(&ask.question),
        context: QuestionContext {
            base: working_directory(),
            ..QuestionContext::default()
        },
        hidden: 0,
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
    context: QuestionContext,
    /// Number of rows that the question leaves out.
    hidden: usize,
}

/// What to print before the next key is read.
enum NextOutput {
    Question,
    /// Only the keys; the question is still visible.
    Keys,
    /// The answers behind `?`.
    More,
    /// A remark; the question is still visible.
    Remark(String),
}

/// The result of a choice with further prompts.
enum DialogStep {
    Answered(Answer),
    /// The question is still visible.
    Stay,
    /// The question may no longer be visible.
    Back,
}

impl DialogStep {
    fn next(&self) -> NextOutput {
        match self {
            Self::Stay => NextOutput::Keys,
            Self::Answered(_) | Self::Back => NextOutput::Question,
        }
    }
}

impl<K: TerminalIo> Dialog<'_, K> {
    fn run(&mut self) -> Option<Answer> {
        let mut next = NextOutput::Question;
        let mut unknown = 0;
        for _ in 0..MAX_ROUNDS {
            let LineEvent::Line(typed) = self.read_selection(&next)? else {
                next = NextOutput::Question;
                continue;
            };
            let choices = self.choices();
            next = match parse_selection(&typed, &choices) {
                Some(Selection::Once) => return Some(self.draft.allow_once()),
                Some(Selection::Deny) => return Some(Answer::Deny { note: None }),
                Some(Selection::Cancel) => return Some(Answer::Cancel),
                Some(Selection::DenyWithMessage(note)) => match self.deny_with_message(note)? {
                    DialogStep::Answered(answer) => return Some(answer),
                    step => step.next(),
                },
                Some(Selection::More) => NextOutput::More,
                Some(Selection::Details) => self.view_input()?,
                Some(Selection::View) => self.view()?,
                Some(Selection::Save) => match self.save_approval()? {
                    DialogStep::Answered(answer) => return Some(answer),
                    step => step.next(),
                },
                Some(Selection::Group) => match self.allow_group()? {
                    DialogStep::Answered(answer) => return Some(answer),
                    step => step.next(),
                },
                Some(Selection::EditContent(number)) => self.edit_content(number)?,
                Some(Selection::EditInput(pairs)) => match self.edit_input(pairs)? {
                    Ok(DialogStep::Answered(answer)) => return Some(answer),
                    Ok(step) => step.next(),
                    Err(remark) => NextOutput::Remark(remark),
                },
                None if unknown < MAX_UNKNOWN => {
                    unknown += 1;
                    let main = main_choices(&self.draft, self.context.alike, self.hidden);
                    NextOutput::Remark(format!("answer with {}", list_keys(&main)))
                }
                None => return None,
            };
        }
        None
    }

    /// Shows the question or what belongs to it, and reads a choice.
    fn read_selection(&mut self, next: &NextOutput) -> Option<LineEvent> {
        let (ask, queue) = (self.ask, self.queue);
        let (draft, context, hidden) = (&self.draft, &mut self.context, &mut self.hidden);
        read_choice(self.keys, &**ask, |look| {
            if let NextOutput::Question = next {
                // When the question is shown, because the calls of one turn ask almost simultaneously.
                update_context(context, queue, ask, draft);
                let (text, left_out) =
                    question_text::format_question(draft, &ask.call, context, look);
                *hidden = left_out;
                return text;
            }
            let main = main_choices(draft, context.alike, *hidden);
            match next {
                NextOutput::More => keys_text::format_more(draft, &main, look),
                NextOutput::Remark(remark) => {
                    format!("  {remark}\n{}", keys_text::format_keys(&main, look))
                }
                NextOutput::Keys | NextOutput::Question => keys_text::format_keys(&main, look),
            }
        })
    }

    fn choices(&self) -> Vec<Choice> {
        let mut choices = main_choices(&self.draft, self.context.alike, self.hidden);
        choices.extend(more_choices(&self.draft));
        choices
    }

    fn read_line(&mut self, shown: impl FnOnce(TerminalLayout) -> String) -> Option<LineEvent> {
        read_answer(self.keys, &**self.ask, shown)
    }

    fn read_key(&mut self, shown: impl FnOnce(TerminalLayout) -> String) -> Option<LineEvent> {
        read_choice(self.keys, &**self.ask, shown)
    }

    fn deny_with_message(&mut self, note: &str) -> Option<DialogStep> {
        let note = match note {
            "" => match self.read_line(|_| "  message: ".to_owned())? {
                LineEvent::Line(note) => note,
                LineEvent::Disturbed => return Some(DialogStep::Back),
            },
            note => note.to_owned(),
        };
        let note = note.trim();
        Some(DialogStep::Answered(Answer::Deny {
            note: (!note.is_empty()).then(|| note.to_owned()),
        }))
    }

    /// Shows the question with all rows.
    fn view(&mut self) -> Option<NextOutput> {
        let (draft, call, context) = (&self.draft, &self.ask.call, &self.context);
        let body = |look| question_text::format_body(draft, call, context, Extent::Whole, look).0;
        pager::view(self.keys, &**self.ask, body)?;
        Some(NextOutput::Question)
    }

    fn view_input(&mut self) -> Option<NextOutput> {
        let call = &self.ask.call;
        let input = |look| question_text::format_input(call, look);
        pager::view(self.keys, &**self.ask, input)?;
        Some(NextOutput::Question)
    }

    /// Asks which approval to save.
    fn save_approval(&mut self) -> Option<DialogStep> {
        let draft = &self.draft;
        let event = read_choice(self.keys, &**self.ask, |look| {
            keys_text::format_offers(draft, look)
        })?;
        let LineEvent::Line(typed) = event else {
            return Some(DialogStep::Back);
        };
        match parse_offer(&typed, &saved_offers(draft)) {
            Some(offer) => self.allow(offer).map(DialogStep::Answered),
            None => Some(DialogStep::Stay),
        }
    }

    fn allow(&mut self, offer: usize) -> Option<Answer> {
        // Repeated, so that a mistyped digit is noticed.
        let approval = &self.ask.question.offers.get(offer)?.text;
        let approval = text::escape_line(approval, 500);
        self.keys.write(&format!("  saved: {approval}\n"))?;
        Some(Answer::Allow { offer, note: None })
    }

    /// Allows all listed calls.
    fn allow_group(&mut self) -> Option<DialogStep> {
        let alike = self.queue.similar(self.ask);
        match self.read_key(|look| question_text::format_group(&alike, look))? {
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
            ("", files) => match self.read_line(|look| changes::format_file_list(files, look))? {
                LineEvent::Line(number) => number,
                LineEvent::Disturbed => return Some(NextOutput::Question),
            },
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
                ("the file is now empty".to_owned(), "y keep it empty  ")
            } else {
                match self.draft.save_edit(path, text.clone()) {
                    Ok(()) => return Some(NextOutput::Question),
                    Err(error) => (error.to_string(), ""),
                }
            };
            let answer = self.read_key(|_| {
                format!("  {remark}\n  {or}e edit again, anything else returns to the question {KEY_PROMPT}")
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

    /// Edits the input: some members, or all of it in an editor. An error is a remark.
    fn edit_input(&mut self, pairs: &str) -> Option<Result<DialogStep, String>> {
        let mut pairs = pairs.to_owned();
        if pairs.is_empty() {
            let shown = "  key=value … or {…}; Enter opens the editor: ";
            match self.read_line(|_| shown.to_owned())? {
                LineEvent::Line(line) => line.trim().clone_into(&mut pairs),
                LineEvent::Disturbed => return Some(Ok(DialogStep::Back)),
            }
        }
        if pairs.is_empty() {
            return self.edit_input_in_editor().map(Ok);
        }
        let input = &self.ask.call.input;
        Some(match input_edit::apply_inline(input, &pairs) {
            Ok(edited) if edited == *input => Err("the input is unchanged".to_owned()),
            Ok(input) => Ok(DialogStep::Answered(Answer::Modify { input })),
            Err(error) => Err(text::escape_line(&error, 500)),
        })
    }

    fn edit_input_in_editor(&mut self) -> Option<DialogStep> {
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
            let answer = self.read_key(|_| {
                format!(
                    "  {error}\n  e edit again, anything else returns to the question {KEY_PROMPT}"
                )
            })?;
            if !matches!(answer.text(), "e" | "E") {
                return Some(DialogStep::Back);
            }
        }
        None
    }
}

/// Counts the calls that wait with this one.
fn update_context(
    context: &mut QuestionContext,
    queue: &PromptQueue,
    ask: &Arc<PendingPrompt>,
    draft: &QuestionDraft,
) {
    context.position = queue.position();
    context.requesters = queue.requesters();
    // An edited call is similar to no other.
    context.alike = match draft.edits() {
        [] => queue.similar(ask).len(),
        _ => 0,
    };
    let next = queue.next(ask, MAX_NEXT);
    context.next = next
        .iter()
        .map(|ask| question_text::describe_call(ask))
        .collect();
}
