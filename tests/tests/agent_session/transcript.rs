//! The session as text: calls, prompts, answers and results. Values that differ between runs are replaced.

use std::fmt::Write as _;

use regex::Regex;
use serde_json::Value;

use crate::session::Answer;

#[derive(Clone, Default)]
pub struct Transcript {
    text: String,
    steps: usize,
    hidden: Vec<(String, String)>,
}

/// Times and what is derived from them.
const VARY: &[(&str, &str)] = &[
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
    (
        r#""(mtime_ms|started_ms|duration_ms|modified)":[\d.]+"#,
        r#""$1":NUMBER"#,
    ),
    (r#""(pid|pgid)":( ?)\d+"#, r#""$1":${2}PID"#),
    (r"(Process Group: |Background PIDs: |\bpid )\d+", "${1}PID"),
    (r"\btool-[0-9a-z]{16}\b", "tool-ID"),
    (r"\b[\d.]+ (ms|s)\b", "SOME $1"),
    (r"/output/\d+\.log", "/output/FILE.log"),
];

impl Transcript {
    pub fn hide(&mut self, text: &str, placeholder: &str) {
        self.hidden.push((text.to_owned(), placeholder.to_owned()));
    }

    pub fn heading(&mut self, title: &str) {
        self.steps += 1;
        let _ = writeln!(self.text, "\n# {}. {title}", self.steps);
    }

    pub fn call(&mut self, name: &str, input: &Value) {
        let _ = writeln!(self.text, "{name} {input}");
    }

    pub fn question(&mut self, question: &Value, answer: Answer) {
        let tool = question["tool"].as_str().unwrap();
        let about = match question.get("queries") {
            Some(queries) => queries[0]["question"].clone(),
            None => question["reason"].clone(),
        };
        let _ = writeln!(self.text, "? {tool}: {}", one_line(about.as_str().unwrap()));
        for change in question["changes"].as_array().into_iter().flatten() {
            let kind = change["kind"].as_str().unwrap();
            let _ = writeln!(self.text, "?   {kind} {}", change["path"].as_str().unwrap());
        }
        let reply = match answer {
            Answer::Yes(offer) => format!("yes: {}", question["offers"][offer].as_str().unwrap()),
            Answer::No(note) => format!("no: {note}"),
            Answer::Chooses(label) => label.to_owned(),
        };
        let _ = writeln!(self.text, "! {reply}");
    }

    pub fn result(&mut self, result: &Value) {
        let code = code(result);
        let _ = writeln!(self.text, "= {code}");
        for line in read(result).lines() {
            let _ = writeln!(self.text, "{}", format!("  | {line}").trim_end());
        }
    }

    pub fn text(&self) -> String {
        let mut text = self.text.trim_start().to_owned();
        for (hidden, placeholder) in &self.hidden {
            text = text.replace(hidden, placeholder);
        }
        for (pattern, placeholder) in VARY {
            let pattern = Regex::new(pattern).unwrap();
            text = pattern.replace_all(&text, *placeholder).into_owned();
        }
        text
    }
}

/// `ok` or the error code.
pub fn code(result: &Value) -> &str {
    if result["ok"] == true {
        return "ok";
    }
    let of_outcome = &result["outcome"]["error"]["code"];
    result["error"]["code"]
        .as_str()
        .or(of_outcome.as_str())
        .unwrap_or_else(|| panic!("no code: {result:#}"))
}

/// The text that the model reads.
pub fn read(result: &Value) -> String {
    match result.get("model") {
        Some(model) => text(model),
        None => host_text(result),
    }
}

/// The host's text, before a profile formats it.
pub fn host_text(result: &Value) -> String {
    let message = result["error"]["message"].as_str();
    message.map_or_else(|| text(&result["outcome"]), str::to_owned)
}

fn text(content: &Value) -> String {
    let parts = content["content"].as_array().into_iter().flatten();
    let parts = parts.map(|part| match part["text"].as_str() {
        Some(text) => text.to_owned(),
        None => format!("({})", part["type"].as_str().unwrap()),
    });
    parts.collect::<Vec<_>>().join("\n")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
