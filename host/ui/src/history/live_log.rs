//! What a running host reports and does not store: results of calls, and the log lines of plugins.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use toolhost_contract::bus::{BusEvent, EventKind};
use toolhost_contract::lifecycle::{Timestamp, mask_text, mask_value, memory_size};
use toolhost_contract::{CallEvent, text};

/// Maximum number and size in bytes of results, and number of lines.
const MAX_RESULTS: usize = 1_000;
const MAX_RESULT_BYTES: usize = 16 << 20;
const MAX_LINES: usize = 4_000;
/// Maximum length of a line in characters.
const MAX_LINE: usize = 500;

/// The newest results and log lines. Secrets are masked.
#[derive(Default)]
pub struct LiveLog(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    results: VecDeque<(String, Value)>,
    result_bytes: usize,
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
            EventKind::CallCompleted {
                result: Some(result),
                ..
            } => self.lock().add_result(call.0.clone(), shown_result(result)),
            EventKind::Call(event_of_call) => {
                let Some((source, message)) = shown(event_of_call) else {
                    return;
                };
                let snapshot = event.snapshot.as_ref();
                let plugin = snapshot.and_then(|snapshot| {
                    snapshot.json().get("plugin")?.as_str().map(str::to_owned)
                });
                let mut inner = self.lock();
                // Masked as a whole, because a secret can have several lines.
                for one in mask_text(&message).lines().take(MAX_LINES) {
                    let line = LogLine {
                        at: event.at,
                        call: call.0.clone(),
                        plugin: plugin.clone().unwrap_or_default(),
                        source: source.clone(),
                        text: text::head(one, MAX_LINE).to_owned(),
                    };
                    if inner.lines.len() >= MAX_LINES {
                        inner.lines.pop_front();
                    }
                    inner.lines.push_back(line);
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

impl Inner {
    fn add_result(&mut self, call: String, result: Value) {
        self.result_bytes += memory_size(&result);
        self.results.push_back((call, result));
        while self.results.len() > MAX_RESULTS || self.result_bytes > MAX_RESULT_BYTES {
            let Some((_, oldest)) = self.results.pop_front() else {
                break;
            };
            self.result_bytes -= memory_size(&oldest);
        }
    }
}

/// A result as it is kept. The event contains only the beginning of a long text.
fn shown_result(result: &Value) -> Value {
    match result {
        Value::String(text) => Value::String(mask_text(text)),
        other => mask_value(other),
    }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use toolhost_contract::{CallId, Principal};

    use super::*;

    fn event(call: &str, kind: EventKind) -> BusEvent {
        BusEvent {
            seq: 1,
            at: Timestamp(0),
            caller: Arc::new(Principal::default()),
            call: Some(CallId(call.to_owned())),
            kind,
            snapshot: None,
        }
    }

    fn completed(call: &str, result: Value) -> BusEvent {
        event(
            call,
            EventKind::CallCompleted {
                title: String::new(),
                summary: None,
                result: Some(result),
                diff: None,
            },
        )
    }

    fn output(text: &str) -> BusEvent {
        event(
            "c",
            EventKind::Call(CallEvent::Output {
                stream: "stdout".to_owned(),
                bytes: text.as_bytes().to_vec(),
            }),
        )
    }

    #[test]
    fn results_are_masked_and_the_oldest_are_dropped() {
        let log = LiveLog::default();
        log.add(&completed("c", json!("password=hunter22 ok")));
        assert_eq!(log.result("c"), Some(json!("password=*** ok")));
        for number in 0..MAX_RESULTS {
            log.add(&completed(&number.to_string(), json!({"a": 1})));
        }
        assert_eq!(
            (log.result("c"), log.result("0")),
            (None, Some(json!({"a": 1})))
        );
        // Many members survive masking.
        let large: serde_json::Map<_, _> = (0..50)
            .map(|at| (at.to_string(), json!(vec!["x".repeat(200); 50])))
            .collect();
        for number in 0..200 {
            log.add(&completed(
                &number.to_string(),
                Value::Object(large.clone()),
            ));
        }
        assert!(log.lock().result_bytes <= MAX_RESULT_BYTES && log.result("0").is_none());
    }

    #[test]
    fn lines_are_bounded_and_a_secret_of_several_lines_is_masked() {
        let log = LiveLog::default();
        log.add(&output(
            "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nend",
        ));
        let texts: Vec<String> = log
            .lines(10, |_| true)
            .into_iter()
            .map(|line| line.text)
            .collect();
        assert_eq!(texts, ["***", "end"]);
        for _ in 0..3 {
            log.add(&output(&"x\n".repeat(MAX_LINES)));
        }
        assert_eq!(log.lines(usize::MAX, |_| true).len(), MAX_LINES);
        assert_eq!(log.lines(2, |line| line.call == "other").len(), 0);
    }
}
