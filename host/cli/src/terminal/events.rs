//! Prints events of running tools to standard error.

use std::collections::HashSet;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use toolhost_contract::{CallEvent, LogLevel, Sink, text};

use super::progress::Progress;
use super::screen::SCREEN;
use super::style::{Paint, Style};

/// Prints events on a separate thread, so that a blocked terminal (Ctrl-S, a slow pipe) does not block the guest or
/// count towards its time limit.
pub struct EventPrinter {
    sender: Sender<Option<CallEvent>>,
    /// Returns the output that was shown as progress only.
    printer: Mutex<Option<JoinHandle<Vec<u8>>>>,
}

impl EventPrinter {
    /// Debug and trace messages are only shown if `verbose` is set.
    pub fn start(verbose: bool) -> Arc<Self> {
        Self::start_with(verbose, None)
    }

    /// Shows what one call reports about its progress, and its output, as progress.
    pub fn with_progress(verbose: bool, progress: Progress) -> Arc<Self> {
        Self::start_with(verbose, Some(progress))
    }

    fn start_with(verbose: bool, progress: Option<Progress>) -> Arc<Self> {
        let (sender, receiver) = channel::<Option<CallEvent>>();
        let least = if verbose {
            LogLevel::Trace
        } else {
            LogLevel::Info
        };
        let printer = std::thread::spawn(move || {
            let style = Style::of(&std::io::stderr());
            while let Ok(Some(event)) = receiver.recv() {
                if progress.as_ref().is_some_and(|shown| shown.add(&event)) {
                    continue;
                }
                if let Some(line) = line(&event, least, style) {
                    SCREEN.write_after_question(&line);
                }
            }
            progress.map(Progress::finish).unwrap_or_default()
        });
        Arc::new(Self {
            sender,
            printer: Mutex::new(Some(printer)),
        })
    }

    /// Waits until all events so far are printed, so that a result never precedes its messages. Returns the output that was
    /// shown as progress only.
    pub fn finish(&self) -> Vec<u8> {
        let _ = self.sender.send(None);
        let mut printer = self.printer.lock().unwrap_or_else(PoisonError::into_inner);
        let printed = printer.take().map(JoinHandle::join);
        printed.and_then(Result::ok).unwrap_or_default()
    }
}

impl Sink for EventPrinter {
    fn event(&self, event: CallEvent) {
        let _ = self.sender.send(Some(event));
    }
}

/// Prints output that was shown as progress only, unless the result contains it.
pub fn print_output(output: &[u8], result: &str) {
    let output = String::from_utf8_lossy(output);
    if !contains_lines(result, &output) {
        let end = if output.ends_with('\n') { "" } else { "\n" };
        SCREEN.note(&(text::escape_lines(&output, usize::MAX) + end));
    }
}

/// Whether the result has each line of the output, in any order.
fn contains_lines(result: &str, output: &str) -> bool {
    let lines: HashSet<String> = result.split('\n').map(visible_text).collect();
    output.split('\n').enumerate().all(|(at, line)| {
        let line = visible_text(line);
        // The start of the output can be missing.
        let is_end = |of: &String| of.ends_with(&line);
        line.is_empty() || lines.contains(&line) || at == 0 && lines.iter().any(is_end)
    })
}

/// What a terminal shows of a line in the end: only what follows the last carriage return, without escape sequences and
/// blanks at the ends.
fn visible_text(line: &str) -> String {
    let mut pieces = last_drawn(line).split('\u{1b}');
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = match piece.as_bytes().first() {
            Some(b'[') => piece[1..]
                .find(|c| ('@'..='~').contains(&c))
                .map(|at| at + 1),
            Some(b']') => piece.find('\u{7}'),
            _ => piece.find(|c| ('0'..='~').contains(&c)),
        };
        out.push_str(end.map_or("", |end| &piece[end + 1..]));
    }
    out.trim().to_owned()
}

/// The part of a line that a program drew last, such as the last state of a progress bar.
pub fn last_drawn(line: &str) -> &str {
    let line = line.trim_end_matches('\r');
    line.rsplit('\r').next().unwrap_or(line)
}

fn line(event: &CallEvent, least: LogLevel, style: Style) -> Option<String> {
    let line = match event {
        CallEvent::Log { level, .. } if *level < least => return None,
        CallEvent::Log { level, message } => {
            let paint = match level {
                LogLevel::Error => Paint::Red,
                LogLevel::Warn => Paint::Yellow,
                LogLevel::Info | LogLevel::Debug | LogLevel::Trace => Paint::Dim,
            };
            format!(
                "{} {}",
                style.paint(paint, level.as_str()),
                text::escape_line(message, 2_000)
            )
        }
        CallEvent::Progress {
            message,
            progress,
            total,
        } => {
            let count = match step(*progress, *total).as_str() {
                "" => String::new(),
                count => format!(" {count}"),
            };
            let message = message
                .as_deref()
                .map(|message| format!(" {}", text::escape_line(message, 2_000)));
            format!(
                "{}{count}{}",
                style.paint(Paint::Dim, "progress"),
                message.unwrap_or_default()
            )
        }
        CallEvent::Output { bytes, .. } => {
            return Some(text::escape_lines(
                &String::from_utf8_lossy(bytes),
                usize::MAX,
            ));
        }
        CallEvent::Custom { event, data } => {
            let label = style.paint(Paint::Dim, "event");
            format!(
                "{label} {} {}",
                text::escape_line(event, 80),
                text::escape_line(&data.to_string(), 2_000)
            )
        }
        CallEvent::Dropped { count } => {
            format!(
                "{} dropped {count} messages because the tool sent them too fast",
                style.paint(Paint::Yellow, "note")
            )
        }
    };
    Some(line + "\n")
}

/// `2/5`
pub fn step(progress: Option<f64>, total: Option<f64>) -> String {
    match (progress, total) {
        (Some(progress), Some(total)) => format!("{progress}/{total}"),
        (Some(progress), None) => progress.to_string(),
        (None, _) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_that_a_result_has_in_another_form_is_not_printed_again() {
        let result = "Output:\n<stdout>\nok 1\nfailed\n100%\n</stdout>\nError:\n<stderr>\nwarning: x\n</stderr>\n";
        for (output, expected) in [
            ("", true),
            ("\n \n", true),
            ("ok 1\nwarning: x\nfailed\n", true),
            ("\u{1b}[1;31mfailed\u{1b}(B\u{1b}[0m\u{1b}[K\r\n", true),
            (
                "\u{1b}]0;title\u{7}failed\n\u{1b}]8;;http://x\u{1b}\\ok 1\u{1b}]8;;\u{1b}\\",
                true,
            ),
            ("10%\r100%\n", true),
            // The start of a long output is not kept.
            ("led\nok 1\n", true),
            ("ok 1\nok 2\nfailed\n", false),
            ("ok 1\nled\n", false),
            ("missing\nfailed\n", false),
        ] {
            assert_eq!(contains_lines(result, output), expected, "{output:?}");
        }
        assert!(contains_lines("\u{1b}[31mred\u{1b}[0m", "red\n"));
        assert!(!contains_lines("", "row\n"));
    }

    #[test]
    fn each_event_is_one_escaped_line() {
        let log = |level, message: &str| CallEvent::Log {
            level,
            message: message.to_owned(),
        };
        let progress = |message: Option<&str>, progress, total| CallEvent::Progress {
            message: message.map(ToOwned::to_owned),
            progress,
            total,
        };
        for (event, shown) in [
            (log(LogLevel::Debug, "x"), None),
            (
                log(LogLevel::Warn, "a\u{1b}[2J\nb"),
                Some("warn a\\u{1b}[2J\\nb\n"),
            ),
            (
                progress(Some("reading"), Some(2.0), Some(5.0)),
                Some("progress 2/5 reading\n"),
            ),
            (progress(None, Some(0.5), None), Some("progress 0.5\n")),
            (
                CallEvent::Output {
                    stream: "stdout".to_owned(),
                    bytes: b"part\rof".to_vec(),
                },
                Some("part\\rof"),
            ),
            (
                CallEvent::Dropped { count: 3 },
                Some("note dropped 3 messages because the tool sent them too fast\n"),
            ),
        ] {
            assert_eq!(line(&event, LogLevel::Info, Style::PLAIN).as_deref(), shown);
        }
    }
}
