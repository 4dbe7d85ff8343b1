//! One step of the story, and how it has to end.

use serde_json::Value;

use crate::session::Answer::Yes;
use crate::session::{Answer, Call, Session};
use crate::transcript::{code, read, said};

/// A story and who plays it.
pub struct Play<'s, 'a> {
    pub session: &'s mut Session<'a>,
}

impl Play<'_, '_> {
    /// One call that ends so and says this.
    pub fn one(
        &mut self,
        what: &str,
        (tool, input): (&'static str, Value),
        answers: &[Answer],
        (end, says): (&str, &str),
    ) -> Value {
        let mut results = self.session.turn(what, &[Call { tool, input }], answers);
        let result = results.remove(0);
        let told = format!("{}: {what}: {result:#}", self.session.profile());
        assert_eq!(code(&result), end, "{told}");
        assert!(said(&result).contains(says), "no `{says}` in {told}");
        result
    }

    /// Whatever the profile makes of it: what was looked for is in what the model reads.
    pub fn reads(&mut self, what: &str, tool: &'static str, input: Value, says: &str) -> Value {
        let result = self.one(what, (tool, input), &[], ("ok", says));
        let told = format!("{}: {what}: {result:#}", self.session.profile());
        assert!(read(&result).contains(says), "no `{says}` in {told}");
        result
    }

    pub fn asks(&mut self, what: &str, tool: &'static str, input: Value, says: &str) -> Value {
        self.one(what, (tool, input), &[Yes(0)], ("ok", says))
    }

    /// No model would look so often, so this is not told.
    pub fn waits_for(&mut self, started: &Value) {
        self.session.until("shell_list", |list| {
            let mut tasks = list["tasks"].as_array().unwrap().iter();
            let task = tasks.find(|task| task["task_id"] == started["task_id"]);
            task.unwrap()["status"] == "ended"
        });
    }

    pub fn is_told(
        &mut self,
        what: &str,
        tool: &'static str,
        input: Value,
        code: &str,
        says: &str,
    ) {
        self.one(what, (tool, input), &[], (code, says));
    }
}
