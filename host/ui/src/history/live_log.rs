//! What a running host reports and does not store: results of calls, and the log lines of plugins.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use toolhost_contract::bus::{BusEvent, EventKind};
use toolhost_contract::lifecycle::{Timestamp, mask_text, mask_value};
use toolhost_contract::{CallEvent, text};

/// Maximum number of results and of lines. A result has at most a few kilobytes, because events shorten it.
const MAX_RESULTS: usize = 1_000;
const MAX_LINES: usize = 4_000;
/// Maximum length of a line in characters.
const MAX_LINE: usize = 500;

/// The newest results and log lines. Secrets are masked.
#[derive(Default)]
pub struct LiveLog(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    results: VecDeque<(String, Value)>,
    lines: VecDeque<LogLine>,
}

/// A line that a plugin wrote, or its progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    pub at: Timestamp,
    pub call: String,
    pub plugin: String,
    /// `warn`, `progress`, `stdout` and others.
    pub source: String,
    pub text: String,
}

impl LiveLog {
    pub fn add(&self, event: &BusEvent) {
        let Some(call) = &event.call else {
            return;
        };
        match &event.kind {
            EventKind::CallCompleted { result, .. } => {
                if let Some(result) = result {
                    let mut inner = self.lock();
                    push(
                        &mut inner.results,
                        MAX_RESULTS,
                        (call.0.clone(), mask_value(result)),
                    );
                }
            }
            EventKind::Call(event_of_call) => {
                let Some((source, message)) = shown(event_of_call) else {
                    return;
                };
                let snapshot = event.snapshot.as_ref();
                let plugin = snapshot.and_then(|snapshot| {
                    snapshot.json().get("plugin")?.as_str().map(str::to_owned)
                });
                let mut inner = self.lock();
                for one in message.lines().take(MAX_LINES) {
                    let line = LogLine {
                        at: event.at,
                        call: call.0.clone(),
                        plugin: plugin.clone().unwrap_or_default(),
                        source: source.clone(),
                        text: mask_text(text::head(one, MAX_LINE)),
                    };
                    push(&mut inner.lines, MAX_LINES, line);
                }
            }
            _ => {}
        }
    }

    /// The result of a call, if it ended recently.
    pub fn result(&self, call: &str) -> Option<Value> {
        let inner = self.lock();
        let mut results = inner.results.iter().rev();
        results
            .find(|(id, _)| id == call)
            .map(|(_, result)| result.clone())
    }

    /// The newest lines that match, oldest first.
    pub fn lines(&self, max: usize, matches: impl Fn(&LogLine) -> bool) -> Vec<LogLine> {
        let inner = self.lock();
        let lines = inner.lines.iter().rev().filter(|line| matches(line));
        let mut lines: Vec<LogLine> = lines.take(max).cloned().collect();
        lines.reverse();
        lines
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn push<T>(list: &mut VecDeque<T>, max: usize, item: T) {
    if list.len() >= max {
        list.pop_front();
    }
    list.push_back(item);
}

/// The source and the text of an event that is shown as a line.
fn shown(event: &CallEvent) -> Option<(String, String)> {
    match event {
        CallEvent::Log { level, message } => Some((level.as_str().to_owned(), message.clone())),
        CallEvent::Progress {
            message: Some(message),
            ..
        } => Some(("progress".to_owned(), message.clone())),
        CallEvent::Output { stream, bytes } => {
            let end = text::head(&String::from_utf8_lossy(bytes), 64 << 10).to_owned();
            Some((text::head(stream, 40).to_owned(), end))
        }
        CallEvent::Dropped { count } => {
            Some(("host".to_owned(), format!("{count} messages were dropped")))
        }
        CallEvent::Progress { message: None, .. } | CallEvent::Custom { .. } => None,
    }
}
