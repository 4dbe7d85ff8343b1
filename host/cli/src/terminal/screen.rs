//! Coordination of writes to the terminal.
//!
//! Messages and output of tools are held while a question is shown, because text below it could be mistaken for a part
//! of it.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Stderr, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use toolhost_contract::text;

use super::style::COLOUR_CODES;

/// Maximum bytes of messages held while a question is shown.
const MAX_HELD: usize = 64 << 10;

/// Standard error.
pub static SCREEN: Screen<Stderr> = Screen::new(io::stderr);

pub struct Screen<W: Write> {
    writer: fn() -> W,
    state: Mutex<State>,
    free: Condvar,
}

struct State {
    /// Number of questions that are shown or about to be shown.
    questions: usize,
    /// Whether one of them is on the screen.
    is_shown: bool,
    held: String,
    dropped: usize,
    /// Rows of progress below everything else.
    pane: Vec<String>,
    /// Number of these rows that are on the screen.
    drawn: usize,
}

/// Guard of a question that is shown or about to be shown.
pub struct ScreenGuard<'a, W: Write>(&'a Screen<W>);

impl<W: Write> Screen<W> {
    const fn new(writer: fn() -> W) -> Self {
        Self {
            writer,
            state: Mutex::new(State {
                questions: 0,
                is_shown: false,
                held: String::new(),
                dropped: 0,
                pane: Vec::new(),
                drawn: 0,
            }),
            free: Condvar::new(),
        }
    }

    /// Writes now, or after the question on the screen. Does not wait for a question.
    pub fn note(&self, text: &str) {
        let text = escape_controls(text);
        let mut state = self.state();
        if !state.is_shown {
            self.write_above_pane(&mut state, &text);
        } else if state.held.len() + text.len() <= MAX_HELD {
            state.held.push_str(&text);
        } else {
            state.dropped += 1;
        }
    }

    /// Blocks while a question is on the screen. `text` must be escaped already.
    pub fn write_after_question(&self, text: &str) {
        let mut state = self.wait_while(|state| state.is_shown);
        self.write_above_pane(&mut state, text);
    }

    /// Replaces the rows of progress, which are drawn unless a question is on the screen. Rows must be escaped and narrower
    /// than the terminal.
    pub fn set_pane(&self, rows: Vec<String>) {
        let mut state = self.state();
        state.pane = rows;
        if !state.is_shown {
            self.write_above_pane(&mut state, "");
        }
    }

    /// Blocks until no question is shown or about to be shown.
    pub fn wait_until_free(&self) {
        drop(self.wait_while(|state| state.questions > 0));
    }

    /// Whether a question is shown or about to be shown.
    pub fn has_question(&self) -> bool {
        self.state().questions > 0
    }

    pub fn begin_question(&self) -> ScreenGuard<'_, W> {
        self.state().questions += 1;
        ScreenGuard(self)
    }

    /// Holds all other output from now on.
    pub fn show_question(&self) {
        let mut state = self.state();
        state.is_shown = state.questions > 0;
        if state.is_shown {
            let erased = erase(&mut state.drawn);
            self.write(&erased);
        }
    }

    fn wait_while(&self, busy: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        self.free
            .wait_while(self.state(), |state| busy(state))
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes complete lines, and the rows of progress below them.
    fn write_above_pane(&self, state: &mut State, text: &str) {
        let mut out = erase(&mut state.drawn);
        out.push_str(text);
        for row in &state.pane {
            out.push_str(row);
            out.push('\n');
        }
        state.drawn = state.pane.len();
        if !out.is_empty() {
            self.write(&out);
        }
    }

    /// Errors are ignored, because they cannot be reported.
    fn write(&self, text: &str) {
        let _ = (self.writer)().write_all(text.as_bytes());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: Write> Drop for ScreenGuard<'_, W> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.questions -= 1;
        if state.questions == 0 {
            state.is_shown = false;
            let mut held = std::mem::take(&mut state.held);
            let dropped = std::mem::take(&mut state.dropped);
            if dropped > 0 {
                let _ = writeln!(
                    held,
                    "note: dropped {dropped} messages while a question was shown"
                );
            }
            self.0.write_above_pane(&mut state, &held);
        }
        drop(state);
        self.0.free.notify_all();
    }
}

/// Moves to the first of the rows and erases everything from there.
fn erase(rows: &mut usize) -> String {
    match std::mem::take(rows) {
        0 => String::new(),
        rows => format!("\r\u{1b}[{rows}A\u{1b}[J"),
    }
}

/// Escapes all control sequences except the host's own colours. Untrusted text is escaped where it is laid out; this is
/// a second line of defence.
pub fn escape_controls(shown: &str) -> Cow<'_, str> {
    if text::escape_lines(shown, usize::MAX) == shown {
        return shown.into();
    }
    let mut out = String::with_capacity(shown.len());
    let mut rest = shown;
    while let Some(at) = rest.find('\u{1b}') {
        let (before, from) = rest.split_at(at);
        out.push_str(&text::escape_lines(before, usize::MAX));
        let code = COLOUR_CODES.iter().find(|code| from.starts_with(**code));
        let code = code.copied().unwrap_or("\u{1b}");
        out.push_str(if code.len() > 1 { code } else { r"\u{1b}" });
        rest = &from[code.len()..];
    }
    out.push_str(&text::escape_lines(rest, usize::MAX));
    out.into()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    static WRITTEN: Mutex<String> = Mutex::new(String::new());

    struct RecordedWriter;

    impl Write for RecordedWriter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut written = WRITTEN.lock().unwrap();
            written.push_str(std::str::from_utf8(bytes).unwrap());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn t_03_output_is_held_while_a_question_is_shown() {
        let written = || std::mem::take(&mut *WRITTEN.lock().unwrap());
        let screen = Screen::new(|| RecordedWriter);
        screen.note("before\n");
        let asking = screen.begin_question();
        screen.note("about to be asked\n");
        screen.show_question();
        assert_eq!(written(), "before\nabout to be asked\n");
        screen.note("a message\u{1b}[2J\n");
        for _ in 0..3 {
            screen.note(&"x".repeat(MAX_HELD));
        }
        std::thread::scope(|scope| {
            let output = scope.spawn(|| screen.write_after_question("output\n"));
            let free = scope.spawn(|| screen.wait_until_free());
            assert_eq!(written(), "");
            drop(asking);
            output.join().unwrap();
            free.join().unwrap();
        });
        assert_eq!(
            written(),
            "a message\\u{1b}[2J\nnote: dropped 3 messages while a question was shown\noutput\n"
        );
    }

    #[test]
    fn progress_is_drawn_below_messages_and_not_during_a_question() {
        static WRITTEN: Mutex<String> = Mutex::new(String::new());
        struct Recorded;
        impl Write for Recorded {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                WRITTEN
                    .lock()
                    .unwrap()
                    .push_str(std::str::from_utf8(bytes).unwrap());
                Ok(bytes.len())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let written = || std::mem::take(&mut *WRITTEN.lock().unwrap());
        let screen = Screen::new(|| Recorded);
        let rows = |rows: &[&str]| rows.iter().map(|row| (*row).to_owned()).collect();
        screen.set_pane(rows(&["one", "two"]));
        assert_eq!(written(), "one\ntwo\n");
        screen.note("note\n");
        assert_eq!(written(), "\r\u{1b}[2A\u{1b}[Jnote\none\ntwo\n");
        let asking = screen.begin_question();
        screen.show_question();
        assert_eq!(written(), "\r\u{1b}[2A\u{1b}[J");
        screen.set_pane(rows(&["three"]));
        assert_eq!(written(), "");
        drop(asking);
        assert_eq!(written(), "three\n");
        screen.set_pane(Vec::new());
        assert_eq!(written(), "\r\u{1b}[1A\u{1b}[J");
    }

    #[test]
    fn t_07_only_host_colour_codes_reach_the_terminal() {
        for (shown, expected) in [
            ("plain\n\tßü", "plain\n\tßü"),
            ("\u{1b}[1mbold\u{1b}[0m", "\u{1b}[1mbold\u{1b}[0m"),
            (
                "\u{1b}[31ma\u{9b}2J\u{1b}[0m\u{1b}[2J\u{202e}",
                "\u{1b}[31ma\\u{9b}2J\u{1b}[0m\\u{1b}[2J\\u{202e}",
            ),
            ("\u{1b}", "\\u{1b}"),
            ("\u{1b}]52;c;aGk=\u{7}", "\\u{1b}]52;c;aGk=\\u{7}"),
            ("\u{1b}[1;31m", "\\u{1b}[1;31m"),
        ] {
            assert_eq!(escape_controls(shown), expected);
        }
    }
}
