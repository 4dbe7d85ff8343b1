//! Shows a long text in the window, one screen at a time.

use super::key::Key;
use super::prompt_queue::PromptState;
use super::terminal_io::{KeyEvent, TerminalIo};
use super::untrusted_text::{KeyMode, MIN_WIDTH, TerminalLayout};
use crate::terminal::style::Paint;

const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

/// Shows the text until the user leaves it; in line mode it is printed. The text is laid out again when the size of the
/// window changes. Returns `None` if the terminal is gone or the question is no longer pending.
pub fn view(
    keys: &mut impl TerminalIo,
    ask: &impl PromptState,
    text: impl Fn(TerminalLayout) -> String,
) -> Option<()> {
    let look = keys.layout();
    if look.keys == KeyMode::Lines {
        return keys.write(&text(look));
    }
    keys.enter_second_screen()?;
    let result = scroll(keys, ask, text);
    keys.leave_raw_mode();
    keys.leave_second_screen()?;
    result
}

fn scroll(
    keys: &mut impl TerminalIo,
    ask: &impl PromptState,
    text: impl Fn(TerminalLayout) -> String,
) -> Option<()> {
    let mut top = 0;
    loop {
        let look = keys.layout();
        if look.width < MIN_WIDTH {
            return None;
        }
        let text = text(look);
        let rows: Vec<&str> = text.lines().collect();
        let page = look.height.saturating_sub(1).max(1);
        let last = rows.len().saturating_sub(page);
        top = top.min(last);
        keys.write(&page_text(&rows, top, page, look))?;
        // After it was suspended, the question is repeated on the first screen.
        let KeyEvent::Key(key) = keys.read_key(ask)? else {
            return Some(());
        };
        top = match key {
            Key::Char('q' | 'v' | 'Q') | Key::Escape | Key::EndOfInput => return Some(()),
            Key::Down | Key::Enter | Key::Char('j') => top + 1,
            Key::Up | Key::Char('k') => top.saturating_sub(1),
            Key::PageDown | Key::Char(' ' | 'f') => top + page,
            Key::PageUp | Key::Char('b') => top.saturating_sub(page),
            Key::Home | Key::Char('g') => 0,
            Key::End | Key::Char('G') => last,
            Key::Char(_) | Key::Other => top,
        };
    }
}

/// The visible rows, and a line with the position and the keys.
fn page_text(rows: &[&str], top: usize, page: usize, look: TerminalLayout) -> String {
    let end = (top + page).min(rows.len());
    let mut out = CLEAR.to_owned();
    for row in &rows[top..end] {
        // In raw mode the output is still processed, so a newline also returns to the first column.
        out += row;
        out.push('\n');
    }
    out += &"\n".repeat(page - (end - top));
    let position = format!("lines {}-{end} of {}", top + 1, rows.len());
    let keys = "  space b scroll  q back";
    let status = match look.width {
        width if position.len() + keys.len() + 4 < width => format!("  {position}{keys}"),
        _ => format!("  {position}  q back"),
    };
    out + &look.style.paint(Paint::Bold, &status)
}
