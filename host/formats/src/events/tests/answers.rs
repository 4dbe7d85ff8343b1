//! Tests of answers: parsing in each format, and resolving against open questions.

use std::fmt::Write as _;

use expect_test::expect;
use serde_json::{Value, json};
use toolhost_contract::policy::{ApprovalScope, Narrowing, Offer};
use toolhost_contract::{Answer, CallId, ChangeSet};

use super::scenarios::change;
use crate::events::{AnswerTarget, ApprovalCoverage, FrontEnd, FrontEndDecision};

fn parse(front_end: FrontEnd, event: &Value) -> String {
    match front_end.format().parse_answer(event) {
        Ok(answer) => format!(
            "{}: {:?}",
            answer
                .target
                .call
                .or(answer.target.tool)
                .unwrap_or_default(),
            answer.decision
        ),
        Err(error) => format!("error: {error}"),
    }
}

fn parse_all(front_end: FrontEnd, events: impl IntoIterator<Item = Value>) -> String {
    let mut parsed = String::new();
    for event in events {
        let _ = writeln!(parsed, "{}", parse(front_end, &event));
    }
    parsed
}

// R-231
#[test]
fn r_231_sema_answers_are_parsed() {
    let kind = "tool:permission:response";
    let select = |selected: Value| json!({"type": kind, "toolName": "Bash", "selected": selected});
    let parsed = parse_all(
        FrontEnd::Sema,
        [
            select(json!("agree")),
            select(json!("allow")),
            select(json!("refuse")),
            select(json!(" use make instead ")),
            json!({"type": kind, "toolId": "c1", "toolName": "Bash", "selected": "agree"}),
            select(json!("  ")),
            select(json!(["agree"])),
            select(Value::Null),
            json!({"type": kind, "selected": "agree"}),
            json!({"type": kind, "toolName": 7, "selected": "agree"}),
            json!({"type": kind, "toolId": "x".repeat(1_001), "selected": "agree"}),
            json!({"type": "tool:\u{202e}x", "toolName": "Bash"}),
            json!(["tool:permission:response"]),
        ],
    );
    expect![[r#"
        Bash: Allow { scope: Once, coverage: Subject, note: None }
        Bash: Allow { scope: Project, coverage: Subject, note: None }
        Bash: Cancel
        Bash: Deny { note: Some("use make instead") }
        c1: Allow { scope: Once, coverage: Subject, note: None }
        error: member `selected` of the event is not `agree`, `allow`, `refuse` or a text for the model
        error: member `selected` of the event is not `agree`, `allow`, `refuse` or a text for the model
        error: member `selected` of the event is not `agree`, `allow`, `refuse` or a text for the model
        error: member `toolName` of the event is missing; `toolId` is missing too
        error: member `toolName` of the event is not a text
        error: member `toolId` of the event has more than 1000 bytes
        error: `tool:\u{202e}x` does not answer a question; send `tool:permission:response`
        error: `` does not answer a question; send `tool:permission:response`
    "#]].assert_eq(&parsed);
}

// R-194
#[test]
fn r_194_gemini_answers_are_parsed() {
    let confirm = |outcome: &str, payload: Value| json!({"type": "onConfirm", "callId": "c1", "outcome": outcome, "payload": payload});
    let edited = || json!({"newContent": "mine\n"});
    let parsed = parse_all(
        FrontEnd::Gemini,
        [
            confirm("ProceedOnce", Value::Null),
            confirm("proceed_always", Value::Null),
            confirm("ProceedAlwaysAndSave", Value::Null),
            confirm("ProceedAlwaysServer", Value::Null),
            confirm("Cancel", edited()),
            confirm("ModifyWithEditor", edited()),
            confirm("ProceedOnce", edited()),
            confirm("ProceedOnce", json!({})),
            confirm("ModifyWithEditor", Value::Null),
            confirm("ProceedAlways", edited()),
            confirm("ProceedOnce", json!({"newContent": 1})),
            confirm("Proceed", Value::Null),
            json!({"type": "onConfirm", "outcome": "ProceedOnce"}),
            json!({"type": "onToolCallsUpdate", "calls": []}),
        ],
    );
    expect![[r#"
        c1: Allow { scope: Once, coverage: Subject, note: None }
        c1: Allow { scope: Session, coverage: Subject, note: None }
        c1: Allow { scope: Project, coverage: Subject, note: None }
        c1: Allow { scope: Session, coverage: Server, note: None }
        c1: Cancel
        c1: Edit { text: "mine\n" }
        c1: Edit { text: "mine\n" }
        c1: Allow { scope: Once, coverage: Subject, note: None }
        error: member `payload` of the event has no `newContent`; open the editor and send the text that the user saved
        error: member `payload` of the event has `newContent`, which can only be approved once; send `ProceedOnce`
        error: member `payload` of the event has a `newContent` that is not a text
        error: member `outcome` of the event is not one of the outcomes of the dialog
        error: member `callId` of the event is missing
        error: `onToolCallsUpdate` does not answer a question; send `onConfirm`
    "#]].assert_eq(&parsed);
}

// R-238
#[test]
fn r_238_kode_answers_are_parsed() {
    let decide = |kind: &str, decision: &str, note: Value| json!({"type": kind, "callId": "c1", "decision": decision, "note": note});
    let parsed = parse_all(
        FrontEnd::Kode,
        [
            decide("permission_decided", "allow", Value::Null),
            decide("respond", "deny", json!("not now")),
            decide("respond", "deny", json!("")),
            decide("respond", "always", Value::Null),
            decide("respond", "allow", json!(1)),
            json!({"type": "respond", "decision": "allow"}),
        ],
    );
    expect![[r#"
        c1: Allow { scope: Once, coverage: Subject, note: None }
        c1: Deny { note: Some("not now") }
        c1: Deny { note: None }
        error: member `decision` of the event is not `allow` or `deny`
        error: member `note` of the event is not a text
        error: member `callId` of the event is missing
    "#]]
    .assert_eq(&parsed);
    let long = parse(
        FrontEnd::Kode,
        &decide("respond", "deny", json!("x".repeat(5_000))),
    );
    assert!(long.len() < 2_100, "{}", long.len());
}

#[test]
fn pegasus_has_no_answers() {
    expect!["error: the events of Pegasus contain no answers; answer the `ask` line with an `answer` line"].assert_eq(&parse(FrontEnd::Pegasus, &json!({"type": "allow"})));
}

#[test]
fn an_answer_belongs_to_exactly_one_waiting_call() {
    let waiting = [("c1", "shell"), ("c2", "edit_file"), ("c3", "edit_file")]
        .map(|(id, tool)| (CallId(id.to_owned()), tool));
    let mut found = String::new();
    for (call, tool, canonical) in [
        (Some("c1"), None, None),
        (Some("c1"), Some("Bash"), Some("shell")),
        (Some("c1"), Some("Edit"), Some("edit_file")),
        (Some("c9\u{1b}[2J"), None, None),
        (None, Some("Bash"), Some("shell")),
        (None, Some("Edit"), Some("edit_file")),
        (None, Some("Read"), Some("read_file")),
        (None, None, None),
    ] {
        let target = AnswerTarget {
            call: call.map(str::to_owned),
            tool: tool.map(str::to_owned),
        };
        let open = waiting.iter().map(|(id, tool)| (id, *tool));
        let _ = match target.find(canonical, open) {
            Ok(id) => writeln!(found, "{id}"),
            Err(error) => writeln!(found, "error: {error}"),
        };
    }
    expect![[r#"
        c1
        c1
        error: call `c1` is a call of `shell`, not of `Edit`
        error: call `c9\u{1b}[2J` is not waiting for an answer: it is unknown, has ended or has not asked
        c1
        error: 2 calls of `Edit` wait for an answer; name one of them by its id
        error: a call of `Read` is not waiting for an answer: it is unknown, has ended or has not asked
        error: a call of `` is not waiting for an answer: it is unknown, has ended or has not asked
    "#]].assert_eq(&found);
}

fn offer(scope: ApprovalScope, tool: bool) -> Offer {
    Offer {
        scope,
        narrowing: Narrowing {
            tool,
            ..Narrowing::default()
        },
        text: format!("{} {tool}", scope.as_str()),
    }
}

/// An approval with a scope or coverage that is not offered must not become another one.
#[test]
fn an_approval_is_never_wider_than_its_offer() {
    use ApprovalCoverage::{Server, Subject, Tool};
    use ApprovalScope::{Once, Project, Session, User};
    let all = [
        offer(Once, false),
        offer(Session, false),
        offer(Session, true),
    ];
    let only_once = [offer(Once, false)];
    let mut shown = String::new();
    for (offers, scope, coverage) in [
        (&all[..], Once, Subject),
        (&all, Session, Subject),
        (&all, Session, Tool),
        (&all, Session, Server),
        (&all, Project, Subject),
        (&only_once, Session, Subject),
        (&only_once, User, Subject),
        (&only_once, Session, Tool),
    ] {
        let decision = FrontEndDecision::Allow {
            scope,
            coverage,
            note: None,
        };
        let _ = match decision.to_answer(offers, None) {
            Ok(answer) => writeln!(shown, "{answer:?}"),
            Err(error) => writeln!(shown, "error: {error}"),
        };
    }
    expect![[r#"
        Allow { offer: 0, note: None }
        Allow { offer: 1, note: None }
        Allow { offer: 2, note: None }
        error: an approval of every tool of the server for the session is not offered for this call; offered: once false; session false; session true
        error: an approval for the project is not offered for this call; offered: once false; session false; session true
        error: an approval for the session is not offered for this call; offered: once false
        error: an approval for all projects is not offered for this call; offered: once false
        error: an approval of every call of the tool for the session is not offered for this call; offered: once false
    "#]].assert_eq(&shown);
}

#[test]
fn edited_content_needs_exactly_one_editable_file() {
    let decision = FrontEndDecision::Edit {
        text: "mine\n".to_owned(),
    };
    let edit = |changes: Option<&ChangeSet>| match decision.to_answer(&[], changes) {
        Ok(Answer::Edit { edits }) => format!("{}: {:?}", edits[0].path, edits[0].text),
        Ok(other) => format!("{other:?}"),
        Err(error) => error.to_string(),
    };
    let one = change("two");
    let mut both = one.clone();
    both.changes.push(one.changes[0].clone());
    let mut binary = one.clone();
    binary.changes[0].diff = None;
    let results = [Some(&one), None, Some(&both), Some(&binary)].map(edit);
    expect![[r#"
        a.txt: "mine\n"
        the proposed content cannot be replaced: the call has not proposed changes
        the proposed content cannot be replaced: the call does not change exactly one file
        the proposed content cannot be replaced: `a.txt` is not an editable text file; approve or deny it unchanged"#]].assert_eq(&results.join("\n"));
}
