//! Shows a question and reads its answer, ignoring keys typed before the user can have read it.

use std::time::Duration;

use super::desk::Waits;
use super::keys::{Heard, Keys};
use super::margin::{Look, MIN_WIDTH};

/// Keys typed within this time after a question appears are discarded.
pub const READING: Duration = Duration::from_millis(500);
/// Texts of up to this many rows are remarks that need no reading time.
const REMARK: usize = 2;

/// Shows a text and reads one line. The last line of `shown` has no newline; it is the answer prompt and written last,
/// when keys count. Returns `None` at the end of input, if the terminal is gone or too narrow, or if the question is no
/// longer pending.
pub fn hear(
    keys: &mut impl Keys,
    ask: &impl Waits,
    shown: impl FnOnce(Look) -> String,
) -> Option<Heard> {
    keys.still(Duration::ZERO)?;
    if !ask.waits() {
        return None;
    }
    let look = keys.look();
    if look.width < MIN_WIDTH {
        return None;
    }
    let shown = shown(look);
    let (text, place) = shown.split_at(shown.rfind('\n').map_or(0, |end| end + 1));
    keys.say(text)?;
    ask.shown();
    if text.lines().count() > REMARK {
        keys.still(READING)?;
        if !ask.waits() {
            return None;
        }
    }
    keys.say(place)?;
    ask.open(true);
    let heard = keys.line(ask)?;
    ask.open(false);
    // A narrower window wraps rows, so that text of a tool can start where host text does.
    if heard != Heard::Disturbed && keys.look().width >= look.width {
        return Some(heard);
    }
    keys.say("\n  the terminal was suspended or narrowed; asking again\n")?;
    Some(Heard::Disturbed)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use toolhost_contract::{CallId, Interview, Query, Reply};

    use super::super::interview::{Ticket, interview};
    use super::super::keys::Screen;
    use super::super::{Always, confirm_with};
    use super::*;
    use crate::terminal::style::Style;

    /// Records the order of discarded input, written text and read lines.
    #[derive(Default)]
    struct Noted {
        notes: Arc<Mutex<Vec<String>>>,
        lines: Vec<&'static str>,
    }

    impl Noted {
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

    impl Keys for Noted {
        fn is_there() -> bool {
            true
        }

        fn look(&self) -> Look {
            Look {
                width: 80,
                height: 24,
                style: Style::PLAIN,
            }
        }

        fn still(&mut self, at_least: Duration) -> Option<()> {
            self.note(format!("still {}", at_least.as_millis()));
            Some(())
        }

        fn screen(&self) -> Screen {
            let notes = Arc::clone(&self.notes);
            Arc::new(move |text| {
                notes.lock().unwrap().push(text.to_owned());
                Some(())
            })
        }

        fn line(&mut self, _: &impl Waits) -> Option<Heard> {
            self.note("line".to_owned());
            Some(Heard::Line(self.lines.pop()?.to_owned()))
        }

        fn edit(&mut self, _: &str, _: &str, _: &impl Waits) -> Result<String, String> {
            Err("no editor".to_owned())
        }
    }

    #[test]
    fn t_01_keys_count_when_the_place_for_the_answer_is_drawn_and_not_before() {
        let mut keys = Noted::typing(&["y", "n"]);
        let heard = hear(&mut keys, &Always, |_| "a\nb\nc\n  answer: ".to_owned());
        assert_eq!(heard, Some(Heard::Line("y".to_owned())));
        assert_eq!(
            keys.notes(),
            ["still 0", "a\nb\nc\n", "still 500", "  answer: ", "line"]
        );
        // The question is already on the screen.
        hear(&mut keys, &Always, |_| "  a remark\n  answer: ".to_owned());
        assert_eq!(
            keys.notes(),
            ["still 0", "  a remark\n", "  answer: ", "line"]
        );
    }

    #[test]
    fn t_02_no_question_takes_a_line_that_was_typed_before_it() {
        let mut keys = Noted::typing(&["y"]);
        assert!(confirm_with(&mut keys, "undo this?"));
        assert_eq!(
            keys.notes(),
            ["still 500", "still 0", "", "undo this? [y/N] ", "line"]
        );
        assert!(!confirm_with(&mut keys, "undo this?"));

        let queries =
            r#"[{"question": "Sure?", "type": "yesno"}, {"question": "Really?", "type": "yesno"}]"#;
        let asked = Interview {
            call: CallId("1".to_owned()),
            plugin: "agent".to_owned(),
            tool: "ask_user".to_owned(),
            agent: None,
            queries: Query::parse(queries).unwrap(),
        };
        let mut keys = Noted::typing(&["perhaps", "y", "n"]);
        let replies = interview(&mut keys, &asked, &Ticket::default());
        assert_eq!(replies, Some(vec![Reply::YesNo(true), Reply::YesNo(false)]));
        let mut since = 0;
        for note in keys.notes() {
            match note.as_str() {
                "line" => assert!(std::mem::take(&mut since) > 0, "no key was thrown away"),
                note => since += usize::from(note.starts_with("still ")),
            }
        }
    }
}
