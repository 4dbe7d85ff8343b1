//! Colours and tables for the terminal.

use std::io::IsTerminal;
use std::os::fd::AsFd;

use comfy_table::{ColumnConstraint, ContentArrangement, Row, Table, presets};

/// Text for a narrower terminal is laid out for this width.
const MIN_WIDTH: u16 = 40;

use super::options::{ColorChoice, color_choice, is_dumb};

#[derive(Debug, Clone, Copy)]
pub struct Style {
    colours: bool,
}

/// The only escape codes that the host writes to a terminal: one for each [`Paint`], and the reset code.
pub const COLOUR_CODES: [&str; 10] = [
    "\u{1b}[1m",
    "\u{1b}[2m",
    "\u{1b}[31m",
    "\u{1b}[32m",
    "\u{1b}[33m",
    "\u{1b}[35m",
    "\u{1b}[36m",
    "\u{1b}[31;7m",
    "\u{1b}[32;7m",
    RESET_CODE,
];
const RESET_CODE: &str = "\u{1b}[0m";

/// In the order of [`COLOUR_CODES`]. Colours are those of the terminal's palette, which suits its background.
#[derive(Debug, Clone, Copy)]
pub enum Paint {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Magenta,
    Cyan,
    /// Changed words of a removed line.
    RedReverse,
    /// Changed words of an added line.
    GreenReverse,
}

impl Style {
    pub const PLAIN: Self = Self { colours: false };
    #[cfg(test)]
    pub const COLOURS: Self = Self { colours: true };

    pub fn of(stream: &impl IsTerminal) -> Self {
        let no_color = || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colours = match color_choice() {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => stream.is_terminal() && !no_color() && !is_dumb(),
        };
        Self { colours }
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

/// Width of standard output, at least [`MIN_WIDTH`]. `None` if it is no terminal.
pub fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout().as_fd()).ok()?;
    (size.ws_col > 0).then(|| size.ws_col.max(MIN_WIDTH).into())
}

/// A table without borders, as wide as the terminal. Cells must be escaped already.
pub fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    format_table(header, rows.into_iter().map(Row::from), 0)
}

/// Like [`table`], with one line for each row: the last `cut` columns are cut to the width of the terminal.
pub fn list(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>, cut: usize) -> String {
    let one_line = |cells: Vec<String>| {
        let mut row = Row::from(cells);
        row.max_height(1);
        row
    };
    format_table(header, rows.into_iter().map(one_line), header.len() - cut)
}

/// The first `whole` columns are never narrower than their content.
fn format_table(header: &[&str], rows: impl IntoIterator<Item = Row>, whole: usize) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if let Some(width) = terminal_width().and_then(|width| u16::try_from(width).ok()) {
        table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width);
    }
    table.set_header(header.iter().copied()).add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index < whole {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table
        .lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}
