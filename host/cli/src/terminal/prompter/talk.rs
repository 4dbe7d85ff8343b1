//! The dialog about one question: shows it, reads a line and acts on it. Blocks; anything unexpected is a denial.

use std::sync::Arc;

use toolhost_contract::{Answer, text};

use super::choice::{Pick, choices, letters, pick};
use super::desk::{Ask, Desk, Waits};
use super::draft::{self, Draft};
use super::hear::hear;
use super::keys::{Heard, Keys};
use super::margin::Look;
use super::{changes, edit, is_yes, show};
use crate::terminal::screen::SCREEN;

/// Maximum number of lines and edits in one dialog.
const MAX_ROUNDS: usize = 50;

pub fn talk(keys: &mut impl Keys, desk: &Desk, ask: &Arc<Ask>) -> Answer {
    let _asking = SCREEN.ask();
    if !ask.waits() {
        return Answer::Deny { note: None };
    }
    if let Some(note) = show::cannot_be_shown(&ask.question, &ask.call, keys.look()) {
        return Answer::Deny { note: Some(note) };
    }
    let mut talk = Talk {
        keys,
        desk,
        ask,
        draft: Draft::new(&ask.question),
    };
    let answer = talk.rounds();
    if ask.was_shown()
        && let Some(told) = ask.told_elsewhere()
    {
        keys.say(&told);
    } else if ask.is_open() && ask.waits() {
        // At the end of input the cursor is still behind the answer prompt.
        keys.say("\n");
    }
    answer.unwrap_or(Answer::Deny { note: None })
}

struct Talk<'a, K> {
    keys: &'a mut K,
    desk: &'a Desk,
    ask: &'a Arc<Ask>,
    draft: Draft,
}

/// What to print before the next line is read.
enum Next {
    Question,
    Help,
    /// A remark; the choices are still visible.
    Remark(String),
}

/// The result of a choice with further prompts.
enum Step {
    Answered(Answer),
    Back,
}

impl<K: Keys> Talk<'_, K> {
    fn rounds(&mut self) -> Option<Answer> {
        let ask = self.ask;
        let mut next = Next::Question;
        let mut understood = true;
        for _ in 0..MAX_ROUNDS {
            let desk = self.desk;
            let mut alike = 0;
            let heard = self.hear(|draft, look| {
                // Counted when the question is shown, because the calls of one turn ask almost simultaneously. An
                // edited call is similar to no other.
                alike = match draft.edits() {
                    [] => desk.alike(ask).len(),
                    _ => 0,
                };
                match &next {
                    Next::Question => show::question(draft, &ask.call, desk.count(), alike, look),
                    Next::Help => show::help(draft, alike, look),
                    Next::Remark(remark) => format!("  {remark}\n{}", show::PROMPT),
                }
            })?;
            let Heard::Line(line) = heard else {
                next = Next::Question;
                continue;
            };
            let choices = choices(&self.draft, alike);
            next = match pick(&line, &choices) {
                Some(Pick::Offer(offer)) => return self.allowed(offer),
                Some(Pick::No) => return Some(Answer::Deny { note: None }),
                Some(Pick::Cancel) => return Some(Answer::Cancel),
                Some(Pick::Tell("")) => match self.hear(|_, _| "  message: ".to_owned())? {
                    Heard::Line(note) => return Some(told(&note)),
                    Heard::Disturbed => Next::Question,
                },
                Some(Pick::Tell(note)) => return Some(told(note)),
                Some(Pick::Help) => Next::Help,
                Some(Pick::All) => {
                    if let Step::Answered(answer) = self.all()? {
                        return Some(answer);
                    }
                    Next::Question
                }
                Some(Pick::Content(words)) => self.content(words)?,
                Some(Pick::Edit("")) => {
                    if let Step::Answered(answer) = self.edited()? {
                        return Some(answer);
                    }
                    Next::Question
                }
                Some(Pick::Edit(words)) => match edit::inline(&ask.call.input, words) {
                    Ok(input) if input == ask.call.input => {
                        Next::Remark("the input is unchanged".to_owned())
                    }
                    Ok(input) => return Some(Answer::Modify { input }),
                    Err(error) => Next::Remark(text::inline(&error, 500)),
                },
                None if understood => {
                    understood = false;
                    Next::Remark(format!("answer with {}", letters(&choices)))
                }
                None => return None,
            };
        }
        None
    }

    fn hear(&mut self, shown: impl FnOnce(&Draft, Look) -> String) -> Option<Heard> {
        hear(self.keys, &**self.ask, |look| shown(&self.draft, look))
    }

    fn allowed(&mut self, offer: usize) -> Option<Answer> {
        if offer == 0 {
            return Some(self.draft.once());
        }
        // Saved approvals are repeated, because a capital letter is easily typed by mistake.
        let words = &self.ask.question.offers.get(offer)?.words;
        let words = text::inline(words, 500);
        self.keys.say(&format!("  saved: {words}\n"))?;
        Some(Answer::Allow { offer, note: None })
    }

    /// Allows all listed calls.
    fn all(&mut self) -> Option<Step> {
        let alike = self.desk.alike(self.ask);
        match self.hear(|_, look| show::group(&alike, look))? {
            Heard::Line(line) if is_yes(&line) => {}
            Heard::Line(_) | Heard::Disturbed => return Some(Step::Back),
        }
        // Only the listed calls, not those that have become similar since.
        for other in alike.iter().filter(|other| !Arc::ptr_eq(other, self.ask)) {
            other.cover();
        }
        Some(Step::Answered(Answer::once()))
    }

    /// Edits the content of a file. An earlier edit is kept until a new one is saved.
    fn content(&mut self, words: &str) -> Option<Next> {
        let files = self.draft.files();
        let number = match (words, &files[..]) {
            ("", [_]) => "1".to_owned(),
            ("", files) => match self.hear(|_, look| changes::files(files, look))? {
                Heard::Line(number) => number,
                Heard::Disturbed => return Some(Next::Question),
            },
            (words, _) => words.to_owned(),
        };
        let number = number.trim();
        if number.is_empty() {
            return Some(Next::Question);
        }
        let at = number.parse().ok().and_then(|at: usize| at.checked_sub(1));
        let Some(path) = at.and_then(|at| files.get(at)) else {
            let number = text::inline(number, 80);
            let last = files.len();
            return Some(Next::Remark(format!(
                "no file {number}; choose 1 to {last}"
            )));
        };
        let before = self.draft.text(path);
        let mut text = before.clone();
        for _ in 0..MAX_ROUNDS {
            text = match self.keys.edit(&text, &draft::ending(path), &**self.ask) {
                Ok(text) => text,
                Err(error) => return self.back(&error),
            };
            if text == before {
                return self.back("no changes");
            }
            let (remark, or) = if text.is_empty() {
                ("the file is now empty".to_owned(), "[y] keep it empty  ")
            } else {
                match self.draft.save(path, text.clone()) {
                    Ok(()) => return Some(Next::Question),
                    Err(error) => (error.to_string(), ""),
                }
            };
            let heard = self.hear(|_, _| {
                format!("  {remark}\n  {or}[e] edit again, anything else returns to the question: ")
            })?;
            match heard.words() {
                "e" | "E" => {}
                "y" | "Y" if text.is_empty() => match self.draft.save(path, text) {
                    Ok(()) => return Some(Next::Question),
                    Err(error) => return self.back(&error.to_string()),
                },
                _ => return Some(Next::Question),
            }
        }
        None
    }

    fn back(&mut self, why: &str) -> Option<Next> {
        let why = text::inline(why, 500);
        self.keys.say(&format!("  {why}\n"))?;
        Some(Next::Question)
    }

    /// Edits the input in an editor.
    fn edited(&mut self) -> Option<Step> {
        let mut text = edit::to_text(&self.ask.call.input);
        for _ in 0..MAX_ROUNDS {
            text = match self.keys.edit(&text, ".json", &**self.ask) {
                Ok(text) => text,
                Err(error) => {
                    let error = text::inline(&error, 500);
                    self.keys.say(&format!("  {error}\n"))?;
                    return Some(Step::Back);
                }
            };
            let error = match edit::from_text(&text) {
                Ok(input) if input == self.ask.call.input => {
                    self.keys.say("  no changes\n")?;
                    return Some(Step::Back);
                }
                Ok(input) => return Some(Step::Answered(Answer::Modify { input })),
                Err(error) => text::inline(&error, 500),
            };
            let heard = self.hear(|_, _| {
                format!("  {error}\n  [e] edit again, anything else returns to the question: ")
            })?;
            if !matches!(heard.words(), "e" | "E") {
                return Some(Step::Back);
            }
        }
        None
    }
}

fn told(note: &str) -> Answer {
    let note = note.trim();
    Answer::Deny {
        note: (!note.is_empty()).then(|| note.to_owned()),
    }
}
