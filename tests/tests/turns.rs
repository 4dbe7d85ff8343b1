//! `host turns`: messages for hooks, and the failures of a task.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use e2e::test_env::TestEnv;
use serde_json::{Value, json};

struct Session {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Session {
    fn start(env: &TestEnv, flags: &[&str]) -> Self {
        let mut command = env.command_with_plugins(&[&["turns"][..], flags].concat());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    /// Writes a line and reads the next one.
    fn say(&mut self, line: &Value) -> Value {
        writeln!(self.input, "{line}").unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {line}: {answer}"))
    }

    fn end(self) {
        let Self {
            mut child, input, ..
        } = self;
        drop(input);
        assert!(child.wait().unwrap().success());
    }
}

fn read(id: &str, path: &str) -> Value {
    json!({"id": id, "name": "read_file", "input": {"path": path}})
}

#[test]
fn r_212_hooks_are_notified_of_the_messages_of_a_session() {
    let script = "cat >> messages; echo >> messages; exit 1";
    let env = TestEnv::new(&format!(
        "[[hook]]\nname = \"log\"\ncommand = [\"sh\", \"-c\", \"{script}\"]\non = [\"messages\"]"
    ));
    let mut session = Session::start(&env, &["--format", "anthropic"]);
    let calls = json!([read("1", "old.txt")]);
    let results = session.say(&json!({"calls": calls, "strategy": "serial"}));
    assert_eq!(results["results"][0]["ok"], true, "{results}");
    // A turn that does not run is not a message.
    let refused = session.say(&json!({"calls": [read("1", "old.txt"), read("1", "old.txt")]}));
    assert!(refused["error"].is_string(), "{refused}");
    let turn = json!({"role": "assistant", "content": [
        {"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": "old.txt"}},
    ]});
    let answer = session.say(&json!({"turn": turn}));
    assert!(answer.to_string().contains("old"), "{answer}");
    session.end();

    let events = fs::read_to_string(env.path("messages")).unwrap();
    let events = events.lines().map(serde_json::from_str::<Value>);
    let events: Vec<Value> = events.map(Result::unwrap).collect();
    for event in &events {
        assert_eq!(event["event"], "MessagesChanged", "{event}");
        assert!(event["session_id"].as_str().unwrap().starts_with("s-"));
    }
    let messages: Vec<&Value> = events.iter().map(|event| &event["messages"]).collect();
    let expected = [
        json!([{ "calls": calls }]),
        json!([results]),
        json!([{ "turn": turn }]),
        json!([answer]),
    ];
    assert_eq!(messages, expected.iter().collect::<Vec<_>>());
}

#[test]
fn r_408_the_failures_of_a_task_are_listed() {
    let env = TestEnv::new("");
    let mut session = Session::start(&env, &["--profile", "pegasus"]);
    let mut run = |task: &str, path: &str| {
        let turn = json!({"calls": [read("1", path)], "task": task});
        session.say(&turn)["results"][0].take()
    };
    let gone = run("t-1", "gone.txt");
    let read = run("t-1", "old.txt");
    let missing = run("t-2", "missing.txt");

    //
    assert_eq!(read["envelope"]["toolName"], "read_file", "{read}");
    assert_eq!(read["envelope"]["success"], true, "{read}");
    assert_eq!(read["reflection"], Value::Null, "{read}");
    assert_eq!(gone["envelope"]["success"], false, "{gone}");
    assert_eq!(gone["reflection"]["verdict"], "replan", "{gone}");

    let mut reflection = |line: Value| session.say(&line)["reflection"].take();
    let of_first = reflection(json!({"reflection": true, "task": "t-1"}));
    assert_eq!(of_first, gone["reflection"]);
    let of_second = reflection(json!({"reflection": true, "task": "t-2"}));
    assert_eq!(of_second, missing["reflection"]);
    assert_ne!(of_first, of_second);
    assert_eq!(reflection(json!({"reflection": true})), Value::Null);
    let refused = session.say(&json!({"reflection": true, "stats": true}));
    assert!(refused["error"].is_string(), "{refused}");
    session.end();

    let mut native = Session::start(&env, &[]);
    let refused = native.say(&json!({"reflection": true}));
    let message = refused["error"].as_str().unwrap();
    assert!(message.contains("--profile pegasus"), "{message}");
    native.end();
}
