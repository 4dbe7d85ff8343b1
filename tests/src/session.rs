//! `host turns` with a guest, from the side of the program that runs it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::{CommandResult, Guest, host};

pub struct Session {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    turns: usize,
}

impl Session {
    pub fn start(guest: &Guest, flags: &[&str]) -> Self {
        let mut command = host(&["turns", "--plugins"]);
        command.arg(guest.plugin()).args(flags);
        Self::of(command)
    }

    /// A session of this command, which is `host turns`.
    pub fn of(mut command: Command) -> Self {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("host starts");
        Self {
            input: child.stdin.take().expect("a pipe"),
            output: BufReader::new(child.stdout.take().expect("a pipe")),
            child,
            turns: 0,
        }
    }

    pub fn say(&mut self, line: &Value) {
        writeln!(self.input, "{line}").expect("the host reads its input");
    }

    pub fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output
            .read_line(&mut line)
            .expect("the host writes its output");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Sends one call and returns its result and the questions. `answers` are used for the questions in order.
    pub fn call(&mut self, tool: &str, input: &Value, answers: &[Value]) -> (Value, Vec<Value>) {
        self.turns += 1;
        let id = format!("c{}", self.turns);
        self.say(&json!({"calls": [{"id": id, "name": tool, "input": input}]}));
        let (mut answers, mut questions) = (answers.iter(), Vec::new());
        loop {
            let line = self.receive();
            if let Some(results) = line.get("results") {
                assert!(
                    answers.next().is_none(),
                    "asked less than expected: {results}"
                );
                return (results[0].clone(), questions);
            }
            let question = line.get("ask").or_else(|| line.get("interview"));
            let question = question.unwrap_or_else(|| panic!("{line}")).clone();
            let mut answer = answers
                .next()
                .unwrap_or_else(|| panic!("asked: {line}"))
                .clone();
            answer["id"] = question["id"].clone();
            questions.push(question);
            self.say(&json!({ "answer": answer }));
        }
    }

    /// The results of the steps of a guest.
    pub fn steps(&mut self, tool: &str, steps: &[&str], answers: &[Value]) -> Value {
        let (result, _) = self.call(tool, &json!({ "steps": steps }), answers);
        result_value(&result)
    }

    /// The end of the input is the end of the session.
    pub fn end(self) -> CommandResult {
        let Self {
            child,
            input,
            output,
            ..
        } = self;
        drop((input, output));
        CommandResult::of(&child.wait_with_output().expect("host ends"))
    }
}

/// The value or text of a result, or the code of its error.
pub fn result_value(report: &Value) -> Value {
    if report["ok"] == json!(true) {
        let outcome = &report["outcome"];
        let structured = outcome["structured"].clone();
        // An outcome with only text has no structured content.
        return if structured.is_null() {
            outcome["content"][0]["text"].clone()
        } else {
            structured
        };
    }
    report["error"]["code"].clone()
}
