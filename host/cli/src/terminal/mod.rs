//! The terminal: what is written to it, and what a person at it is asked.

pub mod events;
pub mod prompter;
pub mod render;
pub mod style;

use std::io::{ErrorKind, Write};

/// Writes a result to standard output. A reader that has gone away, as in `host tools | head`, is not our error.
pub fn print(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| {
        if !text.ends_with('\n') {
            stdout.write_all(b"\n")?;
        }
        stdout.flush()
    });
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Everything that is not a result: one line on standard error. There is nobody to tell when that fails.
pub fn note(text: &str) {
    let _ = std::io::stderr()
        .lock()
        .write_all(format!("{text}\n").as_bytes());
}
