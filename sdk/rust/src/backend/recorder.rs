//! The backend in native tests: records calls and returns configured answers.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

#[path = "recorder_services.rs"]
mod services;

use self::services::Services;
use crate::context::CallFacts;
use crate::{Context, Level, Root};

/// What a tool reported to its host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    pub progress: Vec<Progress>,
    pub logs: Vec<(Level, String)>,
    /// Stream and bytes.
    pub output: Vec<(String, Vec<u8>)>,
    /// Event and data.
    pub events: Vec<(String, Value)>,
}

/// One progress report. It equals a string with its message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    pub message: Option<String>,
    pub done: Option<f64>,
    pub total: Option<f64>,
}

impl PartialEq<&str> for Progress {
    fn eq(&self, message: &&str) -> bool {
        self.message.as_deref() == Some(message)
    }
}

#[derive(Debug)]
pub(crate) struct Backend {
    recorded: RefCell<Recorded>,
    remaining: Duration,
    /// Remaining cancellation checks until the call is cancelled; `None` for never.
    checks_before_cancel: Cell<Option<usize>>,
    services: Services,
}

impl Backend {
    pub(crate) fn new() -> Self {
        Self {
            recorded: RefCell::default(),
            remaining: Duration::from_mins(1),
            checks_before_cancel: Cell::new(None),
            services: Services::default(),
        }
    }

    pub(crate) fn progress(&self, message: Option<&str>, done: Option<f64>, total: Option<f64>) {
        let progress = Progress {
            message: message.map(str::to_owned),
            done,
            total,
        };
        self.recorded.borrow_mut().progress.push(progress);
    }

    pub(crate) fn log(&self, level: Level, message: &str) {
        self.recorded
            .borrow_mut()
            .logs
            .push((level, message.to_owned()));
    }

    pub(crate) fn output(&self, stream: &str, bytes: &[u8]) {
        self.recorded
            .borrow_mut()
            .output
            .push((stream.to_owned(), bytes.to_owned()));
    }

    pub(crate) fn emit(&self, event: &str, data: &Value) {
        self.recorded
            .borrow_mut()
            .events
            .push((event.to_owned(), data.clone()));
    }

    pub(crate) fn cancelled(&self) -> bool {
        let patience = self.checks_before_cancel.get();
        self.checks_before_cancel
            .set(patience.map(|left| left.saturating_sub(1)));
        patience == Some(0)
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.remaining
    }
}

/// For tests.
impl Context {
    /// A recording context that is never cancelled and has 60 seconds left.
    pub fn test() -> Self {
        let facts = CallFacts {
            call_id: "call-1".to_owned(),
            agent_id: "agent-1".to_owned(),
            session_id: "session-1".to_owned(),
            task_id: "task-1".to_owned(),
            mode: "default".to_owned(),
            ..CallFacts::default()
        };
        Self {
            facts,
            backend: Backend::new(),
        }
    }

    /// Adds a directory; `access` is `ro` or `rw`.
    #[must_use]
    pub fn with_root(mut self, path: impl AsRef<Path>, access: &str) -> Self {
        let path = path.as_ref().to_string_lossy().into_owned();
        self.facts.roots.push(Root {
            path,
            access: access.to_owned(),
        });
        self
    }

    /// Sets the remaining time, which does not decrease.
    #[must_use]
    pub fn with_remaining(mut self, remaining: Duration) -> Self {
        self.backend.remaining = remaining;
        self
    }

    /// The call is cancelled after `times` checks.
    #[must_use]
    pub fn cancelled_after(self, times: usize) -> Self {
        self.backend.checks_before_cancel.set(Some(times));
        self
    }

    #[must_use]
    pub fn with_mode(mut self, mode: &str) -> Self {
        mode.clone_into(&mut self.facts.mode);
        self
    }

    #[must_use]
    pub fn with_session(mut self, id: &str) -> Self {
        id.clone_into(&mut self.facts.session_id);
        self
    }

    #[must_use]
    pub fn with_agent(mut self, id: &str) -> Self {
        id.clone_into(&mut self.facts.agent_id);
        self
    }

    #[must_use]
    pub fn with_task(mut self, id: &str) -> Self {
        id.clone_into(&mut self.facts.task_id);
        self
    }

    #[must_use]
    pub fn with_user(mut self, id: &str) -> Self {
        self.facts.user_id = Some(id.to_owned());
        self
    }

    /// What the tool has reported so far.
    pub fn recorded(&self) -> Recorded {
        self.backend.recorded.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ErrorKind;

    #[test]
    fn all_reports_are_recorded() {
        let cx = Context::test();
        cx.progress("reading");
        cx.progress_of(1.0, 4.0);
        cx.progress_with("half", 2.0, 4.0);
        cx.info("hello");
        cx.log(Level::Trace, "details");
        cx.output("stdout", "text");
        cx.output("stderr", [0xff]);
        cx.emit("found", &json!({"n": 1}));

        let recorded = cx.recorded();
        assert_eq!(recorded.progress[0], "reading");
        assert_eq!(
            (recorded.progress[1].done, recorded.progress[1].total),
            (Some(1.0), Some(4.0))
        );
        assert_eq!(recorded.progress[2], "half");
        assert_eq!(
            recorded.logs,
            [
                (Level::Info, "hello".to_owned()),
                (Level::Trace, "details".to_owned())
            ]
        );
        assert_eq!(
            recorded.output,
            [
                ("stdout".to_owned(), b"text".to_vec()),
                ("stderr".to_owned(), vec![0xff])
            ]
        );
        assert_eq!(recorded.events, [("found".to_owned(), json!({"n": 1}))]);
    }

    #[test]
    fn check_returns_the_reason_to_stop() {
        let kind = |cx: &Context| cx.check().map_err(|error| (error.kind(), error.code));
        let code = |name: &str| Err((ErrorKind::Interrupted, Some(name.to_owned())));
        assert_eq!(kind(&Context::test()), Ok(()));
        assert_eq!(
            kind(&Context::test().with_remaining(Duration::ZERO)),
            code("timeout")
        );

        let cx = Context::test().cancelled_after(2);
        assert_eq!([kind(&cx), kind(&cx)], [Ok(()), Ok(())]);
        assert_eq!(
            [kind(&cx), kind(&cx)],
            [code("cancelled"), code("cancelled")]
        );
    }

    #[test]
    fn facts_can_be_set() {
        let cx = Context::test()
            .with_root("/tmp/x", "rw")
            .with_mode("plan")
            .with_user("ann");
        assert_eq!(
            cx.roots(),
            [Root {
                path: "/tmp/x".to_owned(),
                access: "rw".to_owned()
            }]
        );
        assert!(cx.roots()[0].is_writable());
        assert_eq!(
            (cx.mode(), cx.user_id(), cx.call_id()),
            ("plan", Some("ann"), "call-1")
        );
    }
}
