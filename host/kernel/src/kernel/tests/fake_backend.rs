//! A backend controlled by its input, and a scripted user.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};
use toolhost_contract::{
    Answer, Backend, BoxFuture, Call, CallError, CallId, Descriptor, Failure, Grant, Outcome,
    Question, Sink,
};

use crate::Prompter;

/// Does what the input states: sleep, fail, panic or return a value.
pub(super) struct FakeBackend {
    pub(super) tools: Vec<Descriptor>,
    /// The start and end of calls, with their times.
    pub(super) log: Arc<Mutex<Vec<String>>>,
    pub(super) born: Instant,
}

impl FakeBackend {
    fn note(&self, event: &str, call: &CallId) {
        let line = format!("{}s {call} {event}", self.born.elapsed().as_secs());
        self.log.lock().unwrap().push(line);
    }
}

/// Records if a call is dropped before its end.
struct Running<'a>(&'a FakeBackend, CallId, bool);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0
            .note(if self.2 { "ends" } else { "is dropped" }, &self.1);
    }
}

impl Backend for FakeBackend {
    fn tools(&self) -> &[Descriptor] {
        &self.tools
    }

    fn invoke(
        &self,
        call: Call,
        grant: Grant,
        _: Arc<dyn Sink>,
    ) -> BoxFuture<'_, Result<Outcome, CallError>> {
        let Call { id, input, .. } = call;
        assert!(input.get("panic_early").is_none(), "early");
        Box::pin(async move {
            self.note("starts", &id);
            let mut running = Running(self, id, false);
            if let Some(seconds) = input.get("sleep").and_then(Value::as_u64) {
                sleep(Duration::from_secs(seconds)).await;
            }
            assert!(input.get("panic").is_none(), "late, with a \u{1b} in it");
            running.2 = true;
            if input.get("fail").is_some() {
                return Ok(Outcome {
                    error: Some(Failure::new("no", "no luck")),
                    ..Outcome::default()
                });
            }
            if input.get("timeout").is_some() {
                return Err(CallError::timed_out(grant.timeout()));
            }
            Ok(Outcome {
                structured: input.get("value").cloned(),
                ..Outcome::text("done")
            })
        })
    }
}

/// Takes three seconds for an answer.
#[derive(Default)]
pub(super) struct ScriptedUser {
    pub(super) answers: Mutex<VecDeque<Answer>>,
    pub(super) questions: Mutex<Vec<String>>,
}

impl Prompter for ScriptedUser {
    fn ask<'a>(&'a self, question: &'a Question, call: &'a Call) -> BoxFuture<'a, Answer> {
        self.questions.lock().unwrap().push(format!(
            "{} ({}) for {}",
            question.tool, question.reason, call.input
        ));
        let answer = self
            .answers
            .lock()
            .unwrap()
            .pop_front()
            .unwrap_or(Answer::NoPrompter);
        Box::pin(async {
            sleep(Duration::from_secs(3)).await;
            answer
        })
    }
}
