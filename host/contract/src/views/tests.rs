//! Tests of event formats: the same scenarios in all four formats, one snapshot file per format.

mod results;
mod stories;

use std::fmt::Write as _;

use expect_test::{ExpectFile, expect, expect_file};
use serde_json::{Value, json};

use super::gemini::{Reply, Width, error_type, reply};
use super::{NAMES, kode, named, sema};
use stories::{Story, Told};

/// Converts every scenario; one line per event of the other system.
fn check(view: &str, expected: ExpectFile) {
    let mut told = String::new();
    for story in stories::all() {
        let _ = writeln!(told, "== {}", story.name);
        for event in said(view, story, Some("b1")) {
            let _ = writeln!(told, "{event}");
        }
    }
    expected.assert_eq(&told);
}

fn said(view: &str, story: Story, batch: Option<&str>) -> Vec<Value> {
    let mut view = named(view).unwrap();
    let events = Told::tell(story, batch).events;
    events.iter().flat_map(|event| view.take(event)).collect()
}

/// Counts the events of this type.
fn count(events: &[Value], kind: &str) -> usize {
    events.iter().filter(|event| event["type"] == kind).count()
}

// R-140, R-193, R-195, R-242, R-243, R-244, R-245, R-247, R-409
#[test]
fn the_lives_of_calls_as_gemini_tells_them() {
    check("gemini", expect_file!["tests/gemini.txt"]);
}

// R-141, R-202, R-233, R-234, R-235, R-236, R-237, R-238, R-405
#[test]
fn the_lives_of_calls_as_kode_tells_them() {
    check("kode", expect_file!["tests/kode.txt"]);
}

// R-230, R-231, R-232
#[test]
fn the_lives_of_calls_as_sema_tells_them() {
    check("sema", expect_file!["tests/sema.txt"]);
}

// R-239, R-240, R-241
#[test]
fn the_lives_of_calls_as_pegasus_tells_them() {
    check("pegasus", expect_file!["tests/pegasus.txt"]);
}

#[test]
fn every_call_has_one_end_in_every_view() {
    for story in 0..stories::all().len() {
        for batch in [None, Some("b1")] {
            let tell = |view| said(view, stories::all().swap_remove(story), batch);
            let gemini = tell("gemini");
            assert_eq!(count(&gemini, "onAllToolCallsComplete"), 1);
            let ended = |event: &&Value| {
                event["type"] == "onToolCallsUpdate"
                    && event["calls"][0]["responseSubmittedToGemini"] == false
                    && ["success", "error", "cancelled"]
                        .contains(&event["calls"][0]["status"].as_str().unwrap())
            };
            assert_eq!(gemini.iter().filter(ended).count(), 1);
            let complete = gemini
                .iter()
                .find(|event| event["type"] == "onAllToolCallsComplete");
            let status = &complete.unwrap()["calls"][0]["status"];
            assert!(["success", "error", "cancelled"].contains(&status.as_str().unwrap()));
            let kode = tell("kode");
            assert_eq!(count(&kode, "tool:start"), 1);
            assert_eq!(count(&kode, "tool:end"), 1);
            let sema = tell("sema");
            let ends =
                count(&sema, "tool:execution:complete") + count(&sema, "tool:execution:error");
            assert_eq!(ends, 1);
            let pegasus = tell("pegasus");
            let ends = count(&pegasus, "TOOL_CALL_COMPLETED") + count(&pegasus, "TOOL_CALL_FAILED");
            assert_eq!((count(&pegasus, "TOOL_CALL_REQUESTED"), ends), (1, 1));
        }
    }
}

#[test]
fn r_147_no_view_tells_a_secret_of_the_input_or_the_result() {
    for view in NAMES {
        for story in stories::all() {
            let told = json!(said(view, story, None)).to_string();
            assert!(!told.contains("hunter2"), "{view}: {told}");
            assert!(!told.contains(r#""api_key":"k""#), "{view}: {told}");
        }
    }
}

// R-143; Kode's own state diagram has no edges for calls that fail, are cancelled or are denied before they run.
#[test]
fn r_143_states_follow_one_another_as_in_kode() {
    let mut edges: Vec<String> = Vec::new();
    for story in stories::all() {
        let events = said("kode", story, None);
        let trail = events.last().unwrap()["call"]["auditTrail"].clone();
        let states: Vec<&str> = trail
            .as_array()
            .unwrap()
            .iter()
            .map(|line| line["state"].as_str().unwrap())
            .collect();
        edges.extend(
            states
                .windows(2)
                .filter(|pair| pair[0] != pair[1])
                .map(|pair| pair.join("→")),
        );
    }
    edges.sort();
    edges.dedup();
    expect![[r#"
        APPROVAL_REQUIRED→APPROVED
        APPROVAL_REQUIRED→DENIED
        APPROVAL_REQUIRED→FAILED
        APPROVAL_REQUIRED→SEALED
        APPROVED→EXECUTING
        EXECUTING→COMPLETED
        EXECUTING→FAILED
        EXECUTING→SEALED
        PENDING→APPROVAL_REQUIRED
        PENDING→COMPLETED
        PENDING→DENIED
        PENDING→EXECUTING
        PENDING→FAILED"#]]
    .assert_eq(&edges.join("\n"));
}

// R-246
#[test]
fn r_246_a_screen_gets_a_card_at_the_start_and_changes_it_at_the_end() {
    let mut told = String::new();
    for index in [0, 11] {
        for event in said("kode", stories::all().swap_remove(index), None) {
            if let Some(card) = kode::card(&event) {
                let _ = writeln!(told, "{card}");
            }
        }
    }
    expect![[r#"
        {"id":"c1","name":"Read","input":{"path":"a.txt","password":"***"},"state":"PENDING","status":"executing"}
        {"id":"c1","result":{"content":"hi","size":2},"isError":false,"state":"COMPLETED","status":"success","duration":8,"completedAt":11}
        {"id":"c1","name":"fetch","input":{},"state":"PENDING","status":"executing"}
        {"id":"c1","error":"the tool crashed: unreachable","isError":true,"state":"FAILED","status":"failed","duration":3,"completedAt":5}
    "#]].assert_eq(&told);
}

#[test]
fn geminis_dialog_is_gone_once_its_input_has_changed() {
    let story = stories::all()
        .into_iter()
        .find(|story| story.name == "modify");
    for event in said("gemini", story.unwrap(), Some("b1")) {
        let call = &event["calls"][0];
        let (args, dialog) = (&call["request"]["args"], &call["confirmationDetails"]);
        if !dialog.is_null() {
            let asked = dialog["newContent"].as_str().unwrap().trim_end();
            assert_eq!(args["new"], asked);
        }
    }
}

// R-194
#[test]
fn r_194_answers_of_geminis_dialogs_have_a_meaning_here() {
    let allow = |scope, width| Some(Reply::Allow { scope, width });
    for (outcome, meaning) in [
        ("ProceedOnce", allow("once", Width::AsAsked)),
        ("proceed_once", allow("once", Width::AsAsked)),
        ("ProceedAlways", allow("session", Width::AsAsked)),
        ("ProceedAlwaysServer", allow("session", Width::Server)),
        ("ProceedAlwaysTool", allow("session", Width::Tool)),
        ("ProceedAlwaysAndSave", allow("project", Width::AsAsked)),
        ("ModifyWithEditor", Some(Reply::Modify)),
        ("Cancel", Some(Reply::Cancel)),
        ("Whatever", None),
    ] {
        assert_eq!(reply(outcome), meaning, "{outcome}");
    }
}

#[test]
fn codes_have_a_type_in_gemini() {
    for (code, kind) in [
        ("policy_violation", "policy_violation"),
        ("hook_denied", "policy_violation"),
        ("capability_missing", "policy_violation"),
        ("path_not_in_workspace", "path_not_in_workspace"),
        ("invalid_json", "invalid_tool_params"),
        ("tool_not_registered", "tool_not_registered"),
        ("edit_no_change", "edit_no_change"),
        ("timeout", "execution_failed"),
        ("sealed", "execution_failed"),
        ("trap", "unhandled_exception"),
        ("a word of a tool", "execution_failed"),
    ] {
        assert_eq!(error_type(code), kind, "{code}");
    }
}

#[test]
fn r_192_sema_knows_tools_of_mcp_servers_without_their_prefix() {
    assert_eq!(sema::permission_key("mcp__tracker_add"), "tracker_add");
    assert_eq!(sema::permission_key("Read"), "Read");
    assert!(named("other").is_none());
}

// R-243: the list contains every call of the batch, in the order of their first events.
#[test]
fn r_243_calls_of_one_batch_share_geminis_list() {
    let mut stories = stories::all();
    let mut view = named("gemini").unwrap();
    let lives: Vec<Told> = [stories.swap_remove(12), stories.swap_remove(3)]
        .into_iter()
        .zip(["c1", "c2"])
        .map(|(story, id)| Told::tell(story, Some("b1")).renamed(id))
        .collect();
    let mut lists = String::new();
    let longest = lives.iter().map(|life| life.events.len()).max().unwrap();
    // The last two events of each scenario are about its batch and are omitted.
    for index in 0..longest - 2 {
        for life in &lives {
            let events = &life.events[..life.events.len() - 2];
            for said in events.get(index).iter().flat_map(|event| view.take(event)) {
                let calls = said["calls"].as_array().unwrap().iter();
                let states: Vec<String> = calls
                    .map(|call| format!("{}: {}", call["request"]["callId"], call["status"]))
                    .collect();
                let _ = writeln!(lists, "{}", states.join(", ").replace('"', ""));
            }
        }
    }
    expect![[r#"
        c1: validating
        c1: validating, c2: validating
        c1: scheduled, c2: validating
        c1: scheduled, c2: error
        c1: executing, c2: error
        c1: cancelled, c2: error
    "#]]
    .assert_eq(&lists);
}

#[test]
fn geminis_list_is_bounded() {
    let mut view = named("gemini").unwrap();
    let mut last = Value::Null;
    for index in 0..300 {
        let story = stories::all().swap_remove(3);
        let life = Told::tell(story, Some("b1")).renamed(&format!("c{index}"));
        let end = life.events.iter().find(|event| event.happening.ends_call());
        last = view.take(end.unwrap()).remove(0);
    }
    let calls = last["calls"].as_array().unwrap();
    assert_eq!(calls.len(), 256);
    assert_eq!(calls[0]["request"]["callId"], "c44");
}
