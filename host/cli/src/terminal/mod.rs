//! Terminal output and prompts.

pub mod change_list;
pub mod events;
pub mod markdown;
pub mod options;
pub mod progress;
pub mod prompter;
pub mod render;
pub mod screen;
pub mod style;

use std::io::{ErrorKind, Write};

use self::screen::{SCREEN, escape_controls};

/// Writes a result to standard output. A closed pipe, as in `host tools | head`, is not an error.
pub fn print(text: &str) -> std::io::Result<()> {
    let text = escape_controls(text);
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| {
        if !text.ends_with('\n') {
            stdout.write_all(b"\n")?;
        }
        stdout.flush()
    });
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => {
            let message = format!("cannot write the result to standard output: {error}");
            Err(std::io::Error::new(error.kind(), message))
        }
        Ok(()) => Ok(()),
    }
}

/// Returns the working directory as text, to show paths relative to it.
pub fn working_directory() -> Option<String> {
    let directory = std::env::current_dir().ok()?;
    Some(directory.to_str()?.to_owned())
}

/// A number and its noun, as in `1 tool` and `2 tools`.
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Writes a message that is not a result to standard error.
pub fn note(text: &str) {
    SCREEN.note(&format!("{text}\n"));
}
