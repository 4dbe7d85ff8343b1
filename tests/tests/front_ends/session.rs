//! A `host turns` process with a front end at its other end.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use e2e::{host, root};
use regex::Regex;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::FrontEnd;

/// Longer than any step takes, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

pub struct Session<'a> {
    front_end: &'a FrontEnd,
    dir: TempDir,
    host: Child,
    input: ChildStdin,
    lines: Receiver<Value>,
    /// The number of answered questions.
    answered: usize,
    /// The last drawing of each call.
    drawn: HashMap<String, String>,
    transcript: String,
}

impl<'a> Session<'a> {
    pub fn start(front_end: &'a FrontEnd) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("project");
        std::fs::create_dir(&project).unwrap();
        std::fs::write(project.join("notes.txt"), "buy milk\n").unwrap();
        let system = front_end.system;
        let mut host = host(&["turns", "--events", "-", "--events-as", system])
            .args(["--profile", system, "--plugins"])
            .arg(root().join("plugins"))
            .args(["--allow-path", &format!("{}:rw", project.display())])
            .args(["--allow-program", "bash"])
            .env("TOOLHOST_STATE_DIR", dir.path().join("state"))
            .current_dir(&project)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(host.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in output.lines() {
                let line = serde_json::from_str(&line.unwrap()).unwrap();
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self {
            front_end,
            dir,
            input: host.stdin.take().unwrap(),
            host,
            lines,
            answered: 0,
            drawn: HashMap::new(),
            transcript: String::new(),
        }
    }

    /// Runs the turn and returns the transcript.
    pub fn run(mut self) -> String {
        let calls = (self.front_end.calls)().into_iter().zip(1..);
        let calls: Vec<Value> = calls
            .map(|((name, input), id)| json!({"id": id.to_string(), "name": name, "input": input}))
            .collect();
        self.send(&json!({ "calls": calls }));
        let (mut asks, mut ended, mut results) = (VecDeque::new(), 0, None);
        while ended < calls.len() || results.is_none() {
            let mut line = self.receive();
            assert!(line["error"].is_null(), "{line}");
            if let Some(event) = line.get("event") {
                self.draw(event);
                ended += (self.front_end.ended_calls)(event);
                self.answer(event);
            } else if let Some(ask) = line.get_mut("ask") {
                asks.push_back(ask.take());
            } else {
                results = Some(line["results"].take());
            }
            // A question can be written before the events of the calls before it.
            if ended == self.answered + 1
                && let Some(ask) = asks.pop_front()
            {
                self.answer(&ask);
            }
        }
        let results = results.unwrap();
        let ok: Vec<bool> = (0..4).map(|index| results[index]["ok"] == true).collect();
        assert_eq!(ok, [false, true, true, false], "{results:#}");
        self.finish()
    }

    pub fn send(&mut self, line: &Value) {
        let line = line.to_string();
        let shown = line.replace(r#"}},{"id""#, "}},\n    {\"id\"");
        let _ = writeln!(self.transcript, "> {shown}");
        writeln!(self.input, "{line}").unwrap();
    }

    pub fn receive(&mut self) -> Value {
        let line = self.lines.recv_timeout(TIMEOUT);
        line.unwrap_or_else(|_| panic!("no line after\n{}", self.transcript))
    }

    /// Returns the first line that is expected.
    pub fn receive_until(&mut self, is_expected: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.receive();
            if is_expected(&line) {
                return line;
            }
        }
    }

    fn draw(&mut self, event: &Value) {
        for drawing in (self.front_end.draw)(event) {
            let before = self.drawn.insert(drawing.call, drawing.text.clone());
            if before.as_ref() != Some(&drawing.text) {
                self.transcript.push_str(&drawing.text);
                self.transcript.push('\n');
            }
        }
    }

    fn answer(&mut self, question: &Value) {
        if let Some(answer) = (self.front_end.answer)(question, self.answered) {
            self.answered += 1;
            if question["offers"].is_array() {
                self.draw(&json!({ "ask": question }));
            }
            self.send(&answer);
        }
    }

    /// Ends the session, checks the files, and replaces what differs between runs.
    fn finish(mut self) -> String {
        drop(self.input);
        assert!(self.host.wait().unwrap().success());
        let project = self.dir.path().join("project");
        let notes = std::fs::read_to_string(project.join("notes.txt")).unwrap();
        assert_eq!(notes, "buy oats\n");
        assert!(!project.join("list.txt").exists());
        let project = project.display().to_string();
        let text = self.transcript.replace(&project, "/home/me/project");
        let batch = Regex::new(r"\bb-[0-9a-z]{16}/").unwrap();
        batch.replace_all(&text, "b-1/").into_owned()
    }
}
