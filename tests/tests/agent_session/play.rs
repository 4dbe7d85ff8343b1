//! Steps of the scenario and their expected results.

use serde_json::Value;

use crate::session::Answer::Yes;
use crate::session::{Answer, Call, Session};
use crate::transcript::{code, host_text, read};

/// Runs the steps of the scenario in a session.
pub struct Play<'s, 'a> {
    pub session: &'s mut Session<'a>,
}

impl Play<'_, '_> {
    /// Makes one call and checks its code and that the host's text contains `says`.
    pub fn one(
        &mut self,
        title: &str,
        (tool, input): (&'static str, Value),
        answers: &[Answer],
        (end, says): (&str, &str),
    ) -> Value {
        let mut results = self.session.turn(title, &[Call { tool, input }], answers);
        let result = results.remove(0);
        let context = format!("{}: {title}: {result:#}", self.session.profile());
        assert_eq!(code(&result), end, "{context}");
        assert!(
            host_text(&result).contains(says),
            "no `{says}` in {context}"
        );
        result
    }

    /// Makes a call and checks that the model's text contains `says` in every profile.
    pub fn reads(&mut self, title: &str, tool: &'static str, input: Value, says: &str) -> Value {
        let result = self.one(title, (tool, input), &[], ("ok", says));
        let context = format!("{}: {title}: {result:#}", self.session.profile());
        assert!(read(&result).contains(says), "no `{says}` in {context}");
        result
    }

    pub fn asks(&mut self, title: &str, tool: &'static str, input: Value, says: &str) -> Value {
        self.one(title, (tool, input), &[Yes(0)], ("ok", says))
    }

    /// Polls until a task has ended. Not part of the transcript.
    pub fn waits_for(&mut self, started: &Value) {
        self.session.until("shell_list", |list| {
            let mut tasks = list["tasks"].as_array().unwrap().iter();
            let task = tasks.find(|task| task["task_id"] == started["task_id"]);
            task.unwrap()["status"] == "ended"
        });
    }

    pub fn fails_with(
        &mut self,
        title: &str,
        tool: &'static str,
        input: Value,
        code: &str,
        says: &str,
    ) {
        self.one(title, (tool, input), &[], (code, says));
    }
}
