//! Small front ends of other systems: each draws the events that `host turns` writes in the format of its system, and
//! answers with events of that system. What they draw is compared with the transcripts in docs/profiles.md.

mod gemini;
mod kode;
mod pegasus;
mod sema;
mod session;

use std::fmt::Write as _;
use std::thread;

use e2e::root;
use expect_test::{expect, expect_file};
use serde_json::{Value, json};

use session::Session;

const BEGIN: &str =
    "<!-- front ends: written by tests/tests/front_ends/main.rs, with UPDATE_EXPECT=1 -->\n";
const END: &str = "\n<!-- end of front ends -->\n";
const FRONT_ENDS: [FrontEnd; 4] = [
    gemini::FRONT_END,
    kode::FRONT_END,
    sema::FRONT_END,
    pegasus::FRONT_END,
];

/// A front end of one system, and the turn that its model makes: a read that fails, an edit and a background command
/// that the user allows, and a new file that the user refuses.
struct FrontEnd {
    /// The argument of `--events-as` and `--profile`.
    system: &'static str,
    title: &'static str,
    /// Names and inputs of the calls.
    calls: fn() -> [(&'static str, Value); 4],
    /// Draws an event.
    draw: fn(&Value) -> Vec<Drawing>,
    /// Answers a line that asks. The number is that of the questions before it.
    answer: fn(&Value, usize) -> Option<Value>,
    /// The number of calls that this event ends.
    ended_calls: fn(&Value) -> usize,
}

/// What is drawn for a call: a line, and an indented block.
struct Drawing {
    call: String,
    text: String,
}

impl Drawing {
    fn new(call: &Value, line: &str, block: &Value) -> Self {
        let mut drawn = format!("< {line}");
        for line in block.as_str().unwrap_or_default().lines() {
            let _ = write!(drawn, "\n    {line}");
        }
        Self {
            call: call.to_string(),
            text: drawn,
        }
    }
}

#[test]
fn front_ends_of_other_systems_drive_a_turn() {
    let transcripts: Vec<String> = thread::scope(|scope| {
        let running: Vec<_> = FRONT_ENDS
            .iter()
            .map(|front_end| scope.spawn(|| Session::start(front_end).run()))
            .collect();
        let ended = running.into_iter();
        ended.map(|one| one.join().expect("a front end")).collect()
    });
    let mut section = String::new();
    for (FrontEnd { title, .. }, transcript) in FRONT_ENDS.iter().zip(transcripts) {
        let _ = write!(section, "\n### {title}\n\n```text\n{transcript}```\n");
    }
    let path = root().join("docs/profiles.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page
        .split_once(BEGIN)
        .expect("the transcripts have a start");
    let (_, after) = rest.split_once(END).expect("the transcripts have an end");
    expect_file![path].assert_eq(&format!("{before}{BEGIN}{section}{END}{after}"));
}

/// Answers come from other programs, so a wrong one must neither answer a question nor end the session.
#[test]
fn a_wrong_answer_leaves_the_question_open() {
    let mut session = Session::start(&kode::FRONT_END);
    let input = json!({"path": "list.txt", "content": "bread\n"});
    session.send(&json!({"calls": [{"id": "1", "name": "fs_write", "input": input}]}));
    let asked = session.receive_until(|line| line["event"]["type"] == "permission_required");
    let call = &asked["event"]["call"]["id"];
    let mut errors = String::new();
    let decide = |call: &Value, decision: &str| json!({"type": "permission_decided", "callId": call, "decision": decision});
    for event in [
        decide(call, "always"),
        decide(&json!("b-1/\u{202e}1"), "allow"),
        decide(&json!("1"), "allow"),
        decide(&json!(1), "allow"),
        json!({"type": "onConfirm", "callId": call, "outcome": "ProceedOnce"}),
        json!("allow"),
    ] {
        session.send(&json!({ "event": event }));
        let line = session.receive_until(|line| line.get("error").is_some());
        let _ = writeln!(errors, "{}", text(&line["error"]));
    }
    session.send(&json!({"event": decide(call, "deny"), "agent": "a"}));
    let line = session.receive_until(|line| line.get("error").is_some());
    let _ = writeln!(errors, "{}", text(&line["error"]));
    expect![[r#"
        invalid event: member `decision` of the event is not `allow` or `deny`
        invalid event: call `b-1/\u{202e}1` is not waiting for an answer: it is unknown, has ended or has not asked
        invalid event: call `1` is not waiting for an answer: it is unknown, has ended or has not asked
        invalid event: member `callId` of the event is not a text
        invalid event: `onConfirm` does not answer a question; send `permission_decided` or `respond`
        invalid event: `` does not answer a question; send `permission_decided` or `respond`
        expected `calls`, a `turn`, an `answer`, an `event`, `detach`, `stats` or `reflection`
    "#]].assert_eq(&errors);
    session.send(&json!({"event": decide(call, "allow")}));
    let line = session.receive_until(|line| line.get("results").is_some());
    assert_eq!(line["results"][0]["ok"], true, "{line:#}");
    // An answer counts once.
    session.send(&json!({"event": decide(call, "allow")}));
    let line = session.receive_until(|line| line.get("error").is_some());
    assert!(
        text(&line["error"]).contains("is not waiting for an answer"),
        "{line}"
    );
}

/// Returns the content of a text, or the JSON of another value.
fn text(value: &Value) -> String {
    let text = value.as_str().map(str::to_owned);
    text.unwrap_or_else(|| value.to_string())
}
