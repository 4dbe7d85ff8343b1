//! Colours and tables for the terminal.

use std::io::IsTerminal;
use std::os::fd::AsFd;

use comfy_table::{ContentArrangement, Table, presets};

#[derive(Debug, Clone, Copy)]
pub struct Style {
    colours: bool,
}

/// The only escape codes that the host writes to a terminal: one for each [`Paint`], and the reset code.
pub const COLOUR_CODES: [&str; 7] = [
    "\u{1b}[1m",
    "\u{1b}[2m",
    "\u{1b}[31m",
    "\u{1b}[32m",
    "\u{1b}[33m",
    "\u{1b}[36m",
    RESET_CODE,
];
const RESET_CODE: &str = "\u{1b}[0m";

/// In the order of [`CODES`].
#[derive(Debug, Clone, Copy)]
pub enum Paint {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Cyan,
}

impl Style {
    #[cfg(test)]
    pub const PLAIN: Self = Self { colours: false };
    #[cfg(test)]
    pub const COLOURS: Self = Self { colours: true };

    pub fn of(stream: &impl IsTerminal) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            colours: stream.is_terminal() && !set("NO_COLOR") && !dumb,
        }
    }

    pub fn has_colours(self) -> bool {
        self.colours
    }

    /// `text` must be escaped already.
    pub fn paint(self, paint: Paint, text: &str) -> String {
        let code = COLOUR_CODES[paint as usize];
        if self.colours && !text.is_empty() {
            format!("{code}{text}{RESET_CODE}")
        } else {
            text.to_owned()
        }
    }
}

/// A table without borders, as wide as the terminal. Cells must be escaped already.
pub fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if let Ok(size) = rustix::termios::tcgetwinsize(std::io::stdout().as_fd())
        && size.ws_col >= 40
    {
        table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(size.ws_col);
    }
    table.set_header(header.iter().copied()).add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
        .lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}
