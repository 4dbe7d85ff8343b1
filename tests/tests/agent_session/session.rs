//! `host turns` with a script at its other end.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use e2e::{CommandResult, host, root};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::spelling::Profile;
use crate::transcript::Transcript;
use crate::workspace;

/// Longer than any turn takes, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(120);

/// The answer of the user.
#[derive(Debug, Clone, Copy)]
pub enum Answer {
    /// The number of an offer; 0 is for this call alone.
    Yes(usize),
    No(&'static str),
    Chooses(&'static str),
}

pub struct Call {
    /// The native name.
    pub tool: &'static str,
    pub input: Value,
}

pub struct Session<'a> {
    profile: &'a Profile,
    dir: TempDir,
    host: Child,
    lines: Receiver<Value>,
    calls: usize,
    transcript: Transcript,
    undo: Vec<String>,
}

impl<'a> Session<'a> {
    pub fn start(profile: &'a Profile, page: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let workspace = dir.path().join("project");
        workspace::make(&workspace);
        let mut host = host(&["turns", "--profile", profile.name, "--plugins"])
            .arg(root().join("plugins"))
            .args(["--allow-path", &format!("{}:rw", workspace.display())])
            .args(["--allow-program", "bash", "--allow-host", page])
            .env("TOOLHOST_STATE_DIR", dir.path().join("state"))
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
        let mut transcript = Transcript::default();
        transcript.hide(&workspace.display().to_string(), "/PROJECT");
        transcript.hide(page, "127.0.0.1:PORT");
        Self {
            profile,
            dir,
            host,
            lines,
            calls: 0,
            transcript,
            undo: Vec::new(),
        }
    }

    pub fn workspace(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    /// A change in the project by another program.
    pub fn meanwhile(&mut self, title: &str, act: impl FnOnce(&Path)) {
        self.transcript.heading(title);
        act(&self.workspace());
    }

    /// Sends one turn of the model. The number of answers must equal the number of questions.
    pub fn turn(&mut self, title: &str, calls: &[Call], answers: &[Answer]) -> Vec<Value> {
        self.transcript.heading(title);
        let spelled = calls.iter().map(|call| {
            self.calls += 1;
            let (name, input) = self.profile.spell(call.tool, &call.input);
            self.transcript.call(&name, &input);
            json!({"id": self.calls.to_string(), "name": name, "input": input})
        });
        let spelled: Vec<Value> = spelled.collect();
        self.say(&json!({"calls": spelled}));
        let mut answers = answers.iter();
        let results = loop {
            let line = self.lines.recv_timeout(PATIENCE).expect("the host answers");
            if let Some(results) = line.get("results") {
                break results.as_array().unwrap().clone();
            }
            let question = line.get("ask").or_else(|| line.get("interview"));
            let question = question.unwrap_or_else(|| panic!("{title}: {line}"));
            let Some(answer) = answers.next() else {
                panic!("{}: {title}: unexpected {question:#}", self.profile.name);
            };
            self.transcript.question(question, *answer);
            let id = &question["id"];
            self.say(&json!({"answer": match answer {
                Answer::Yes(offer) => json!({"id": id, "allow": offer}),
                Answer::No(note) => json!({"id": id, "deny": note}),
                Answer::Chooses(label) => json!({"id": id, "replies": [label]}),
            }}));
        };
        let rest = answers.len();
        assert_eq!(rest, 0, "{}: {title}: {results:#?}", self.profile.name);
        for result in &results {
            self.transcript.result(result);
            let ids = result["undo_ids"].as_array().into_iter().flatten();
            self.undo
                .extend(ids.map(|id| id.as_str().unwrap().to_owned()));
        }
        results
    }

    /// Polls until `is_so`. The polls are not part of the transcript.
    pub fn until(&mut self, tool: &'static str, is_so: impl Fn(&Value) -> bool) {
        let (before, end) = (self.transcript.clone(), Instant::now() + PATIENCE);
        let look = [Call {
            tool,
            input: json!({}),
        }];
        while !is_so(&self.turn("", &look, &[])[0]["outcome"]["structured"]) {
            assert!(Instant::now() < end, "it did not happen");
        }
        self.transcript = before;
    }

    pub fn calls(&self) -> usize {
        self.calls
    }

    pub fn profile(&self) -> &str {
        self.profile.name
    }

    pub fn transcript(&self) -> String {
        self.transcript.text()
    }

    fn say(&mut self, line: &Value) {
        let input = self.host.stdin.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
        input.flush().unwrap();
    }

    /// The end of the input is the end of the session.
    pub fn leave(&mut self) {
        drop(self.host.stdin.take());
        assert_eq!(self.host.wait().unwrap().code(), Some(0));
    }

    pub fn id(&self) -> String {
        let ended = self.look(&["sessions", "--json"]);
        let sessions: Value = serde_json::from_str(&ended.stdout).unwrap();
        sessions[0]["id"].as_str().unwrap().to_owned()
    }

    pub fn last_undo(&self) -> &str {
        self.undo.last().expect("something was changed")
    }

    pub fn undo(&self, selection: &[&str]) {
        let ended = self.look(&[&["undo", "--yes"], selection].concat());
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }

    fn look(&self, args: &[&str]) -> CommandResult {
        let mut command = host(args);
        command.env("TOOLHOST_STATE_DIR", self.dir.path().join("state"));
        CommandResult::of(&command.output().unwrap())
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // After a failed test only; a host that has ended cannot be killed.
        let _ = self.host.kill();
        let _ = self.host.wait();
    }
}
