//! Log messages of the host and its libraries on standard error, as `RUST_LOG` selects them.

use std::io;

use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::terminal::note;

const VARIABLE: &str = "RUST_LOG";

/// Starts logging if `RUST_LOG` is set, for example to `debug` or `toolhost=debug,rmcp=warn`.
pub fn start() {
    let Some(directives) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) else {
        return;
    };
    let parsed = directives
        .to_str()
        .and_then(|text| text.parse::<Targets>().ok());
    let Some(targets) = parsed else {
        note(&format!(
            "warning: {VARIABLE} is not a filter such as `debug` or `toolhost=debug,rmcp=warn`, so nothing is logged"
        ));
        return;
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(|| NoteWriter)
        .with_filter(targets);
    // Fails only if another subscriber is set, which does not happen.
    let _ = tracing_subscriber::registry().with(lines).try_init();
}

/// Writes whole lines to standard error, after a question that is on the screen.
struct NoteWriter;

impl io::Write for NoteWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        note(String::from_utf8_lossy(bytes).trim_end());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
