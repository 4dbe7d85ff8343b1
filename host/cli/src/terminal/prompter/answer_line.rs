//! Shows a question and reads its answer, ignoring keys typed before the user can have read it.

use std::time::Duration;

use super::prompt_queue::PromptState;
use super::terminal_io::{LineEvent, TerminalIo};
use super::untrusted_text::{KeyMode, MIN_WIDTH, TerminalLayout};

/// Keys typed within this time after a question appears are discarded.
pub const READING_TIME: Duration = Duration::from_millis(500);
/// Texts of up to this many rows are remarks that need no reading time.
const MAX_REMARK_ROWS: usize = 2;

/// Shows a text and reads one line. The last line of `shown` has no newline; it is the answer prompt and written last,
/// when keys count. Returns `None` at the end of input, if the terminal is gone or too narrow, or if the question is no
/// longer pending.
pub fn read_answer<K: TerminalIo, A: PromptState>(
    keys: &mut K,
    ask: &A,
    shown: impl FnOnce(TerminalLayout) -> String,
) -> Option<LineEvent> {
    read_with(keys, ask, shown, AnswerForm::Line)
}

/// Like [`read_answer`], for an answer that is one key, or a line in line mode.
pub fn read_choice<K: TerminalIo, A: PromptState>(
    keys: &mut K,
    ask: &A,
    shown: impl FnOnce(TerminalLayout) -> String,
) -> Option<LineEvent> {
    read_with(keys, ask, shown, AnswerForm::Key)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AnswerForm {
    Line,
    Key,
}

fn read_with(
    keys: &mut impl TerminalIo,
    ask: &impl PromptState,
    shown: impl FnOnce(TerminalLayout) -> String,
    form: AnswerForm,
) -> Option<LineEvent> {
    let event = show_and_read(keys, ask, shown, form);
    keys.leave_raw_mode();
    event
}

fn show_and_read(
    keys: &mut impl TerminalIo,
    ask: &impl PromptState,
    shown: impl FnOnce(TerminalLayout) -> String,
    form: AnswerForm,
) -> Option<LineEvent> {
    keys.discard_input(Duration::ZERO)?;
    if !ask.is_pending() {
        return None;
    }
    let look = keys.layout();
    if look.width < MIN_WIDTH {
        return None;
    }
    let shown = shown(look);
    let (text, prompt) = shown.split_at(shown.rfind('\n').map_or(0, |end| end + 1));
    keys.write(text)?;
    ask.mark_shown();
    if text.lines().count() > MAX_REMARK_ROWS {
        keys.discard_input(READING_TIME)?;
        if !ask.is_pending() {
            return None;
        }
    }
    let form = match look.keys {
        KeyMode::Keys => form,
        KeyMode::Lines => AnswerForm::Line,
    };
    if form == AnswerForm::Line {
        keys.leave_raw_mode();
    }
    keys.write(prompt)?;
    ask.set_open(true);
    let line = match form {
        AnswerForm::Line => keys.read_line(ask)?,
        AnswerForm::Key => keys.read_choice(ask)?,
    };
    ask.set_open(false);
    // A narrower window wraps rows, so that text of a tool can start where host text does.
    if line != LineEvent::Disturbed && keys.layout().width >= look.width {
        return Some(line);
    }
    keys.write("\n  the terminal was suspended or narrowed; asking again\n")?;
    Some(LineEvent::Disturbed)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use toolhost_contract::{CallId, QuestionForm, UserAnswer, UserQuestion};

    use super::super::interview::{InterviewState, interview};
    use super::super::terminal_io::{KeyEvent, TerminalWriter};
    use super::super::testing::layout;
    use super::super::{AlwaysPending, confirm_with};
    use super::*;

    /// Records the order of discarded input, written text and read lines.
    #[derive(Default)]
    struct RecordingTerminal {
        notes: Arc<Mutex<Vec<String>>>,
        lines: Vec<&'static str>,
    }

    impl RecordingTerminal {
        fn typing(lines: &[&'static str]) -> Self {
            Self {
                lines: lines.iter().rev().copied().collect(),
                ..Self::default()
            }
        }

        fn note(&self, note: String) {
            self.notes.lock().unwrap().push(note);
        }

        fn notes(&self) -> Vec<String> {
            std::mem::take(&mut *self.notes.lock().unwrap())
        }
    }

    impl TerminalIo for RecordingTerminal {
        fn is_available() -> bool {
            true
        }

        fn layout(&self) -> TerminalLayout {
            layout(80, 24)
        }

        fn discard_input(&mut self, at_least: Duration) -> Option<()> {
            self.note(format!("still {}", at_least.as_millis()));
            Some(())
        }

        fn writer(&self) -> TerminalWriter {
            let notes = Arc::clone(&self.notes);
            Arc::new(move |text| {
                notes.lock().unwrap().push(text.to_owned());
                Some(())
            })
        }

        fn read_line(&mut self, _: &impl PromptState) -> Option<LineEvent> {
            self.note("line".to_owned());
            Some(LineEvent::Line(self.lines.pop()?.to_owned()))
        }

        fn read_choice(&mut self, ask: &impl PromptState) -> Option<LineEvent> {
            self.read_line(ask)
        }

        fn read_key(&mut self, _: &impl PromptState) -> Option<KeyEvent> {
            None
        }

        fn run_editor(&mut self, _: &str, _: &str, _: &impl PromptState) -> Result<String, String> {
            Err("no editor".to_owned())
        }
    }

    #[test]
    fn t_01_keys_count_only_after_the_answer_prompt_is_drawn() {
        let mut keys = RecordingTerminal::typing(&["y", "n"]);
        let line = read_answer(&mut keys, &AlwaysPending, |_| {
            "a\nb\nc\n  answer: ".to_owned()
        });
        assert_eq!(line, Some(LineEvent::Line("y".to_owned())));
        assert_eq!(
            keys.notes(),
            ["still 0", "a\nb\nc\n", "still 500", "  answer: ", "line"]
        );
        // The question is already on the screen.
        read_answer(&mut keys, &AlwaysPending, |_| {
            "  a remark\n  answer: ".to_owned()
        });
        assert_eq!(
            keys.notes(),
            ["still 0", "  a remark\n", "  answer: ", "line"]
        );
    }

    #[test]
    fn t_02_a_line_typed_before_a_question_does_not_answer_it() {
        let mut keys = RecordingTerminal::typing(&["y"]);
        assert!(confirm_with(&mut keys, "undo this?"));
        assert_eq!(
            keys.notes(),
            ["still 500", "still 0", "", "undo this? [y/N] ", "line"]
        );
        assert!(!confirm_with(&mut keys, "undo this?"));

        let queries =
            r#"[{"question": "Sure?", "type": "yesno"}, {"question": "Really?", "type": "yesno"}]"#;
        let form = QuestionForm {
            call: CallId("1".to_owned()),
            plugin: "agent".to_owned(),
            tool: "ask_user".to_owned(),
            agent: None,
            questions: UserQuestion::parse(queries).unwrap(),
        };
        let mut keys = RecordingTerminal::typing(&["perhaps", "y", "n"]);
        let replies = interview(&mut keys, &form, &InterviewState::default());
        assert_eq!(
            replies,
            Some(vec![UserAnswer::YesNo(true), UserAnswer::YesNo(false)])
        );
        let mut since = 0;
        for note in keys.notes() {
            match note.as_str() {
                "line" => assert!(std::mem::take(&mut since) > 0, "no key was thrown away"),
                note => since += usize::from(note.starts_with("still ")),
            }
        }
    }
}
