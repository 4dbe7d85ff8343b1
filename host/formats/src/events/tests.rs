//! Tests of event formats: the same scenarios in all four formats, one snapshot file per format.

mod answers;
mod results;
mod scenarios;

use std::fmt::Write as _;

use expect_test::{ExpectFile, expect, expect_file};
use serde_json::{Value, json};

use super::gemini::{ConfirmationOutcome, error_type, parse_outcome};
use super::{ApprovalCoverage, FrontEnd, sema};
use scenarios::{RecordedScenario, Scenario};
use toolhost_contract::policy::ApprovalScope;

/// Converts every scenario; one line per event of the other system.
fn check(front_end: FrontEnd, expected: ExpectFile) {
    let mut output = String::new();
    for scenario in scenarios::all() {
        let _ = writeln!(output, "== {}", scenario.name);
        for event in events_of(front_end, scenario, Some("b1")) {
            let _ = writeln!(output, "{event}");
        }
    }
    expected.assert_eq(&output);
}

fn events_of(front_end: FrontEnd, scenario: Scenario, batch: Option<&str>) -> Vec<Value> {
    let mut view = front_end.format();
    let events = RecordedScenario::run(scenario, batch).events;
    events
        .iter()
        .flat_map(|event| view.convert(event))
        .collect()
}

/// Counts the events of this type.
fn count(events: &[Value], kind: &str) -> usize {
    events.iter().filter(|event| event["type"] == kind).count()
}

// R-140, R-193, R-195, R-242, R-243, R-244, R-245, R-247, R-409
#[test]
fn events_of_gemini() {
    check(FrontEnd::Gemini, expect_file!["tests/gemini.txt"]);
}

// R-141, R-202, R-233, R-234, R-235, R-236, R-237, R-238, R-405
#[test]
fn events_of_kode() {
    check(FrontEnd::Kode, expect_file!["tests/kode.txt"]);
}

// R-230, R-231, R-232
#[test]
fn events_of_sema() {
    check(FrontEnd::Sema, expect_file!["tests/sema.txt"]);
}

// R-239, R-240, R-241
#[test]
fn events_of_pegasus() {
    check(FrontEnd::Pegasus, expect_file!["tests/pegasus.txt"]);
}

#[test]
fn every_call_ends_once_in_every_format() {
    for index in 0..scenarios::all().len() {
        for batch in [None, Some("b1")] {
            let events_of_view = |view| events_of(view, scenarios::all().swap_remove(index), batch);
            let gemini = events_of_view(FrontEnd::Gemini);
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
            let kode = events_of_view(FrontEnd::Kode);
            assert_eq!(count(&kode, "tool:start"), 1);
            assert_eq!(count(&kode, "tool:end"), 1);
            let sema = events_of_view(FrontEnd::Sema);
            let ends =
                count(&sema, "tool:execution:complete") + count(&sema, "tool:execution:error");
            assert_eq!(ends, 1);
            let pegasus = events_of_view(FrontEnd::Pegasus);
            let ends = count(&pegasus, "TOOL_CALL_COMPLETED") + count(&pegasus, "TOOL_CALL_FAILED");
            assert_eq!((count(&pegasus, "TOOL_CALL_REQUESTED"), ends), (1, 1));
        }
    }
}

#[test]
fn r_147_secrets_are_masked_in_every_format() {
    for view in FrontEnd::ALL {
        for scenario in scenarios::all() {
            let output = json!(events_of(view, scenario, None)).to_string();
            assert!(!output.contains("hunter2"), "{view}: {output}");
            assert!(!output.contains(r#""api_key":"k""#), "{view}: {output}");
        }
    }
}

// R-143; Kode's own state diagram has no edges for calls that fail, are cancelled or are denied before they run.
#[test]
fn r_143_state_sequences_match_kode() {
    let mut edges: Vec<String> = Vec::new();
    for scenario in scenarios::all() {
        let events = events_of(FrontEnd::Kode, scenario, None);
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
fn r_246_cards_are_created_at_start_and_updated_at_end() {
    let mut cards = String::new();
    for index in [0, 11] {
        for event in events_of(FrontEnd::Kode, scenarios::all().swap_remove(index), None) {
            if let Some(card) = FrontEnd::Kode.format().card(&event) {
                let _ = writeln!(cards, "{card}");
            }
        }
    }
    expect![[r#"
        {"id":"c1","name":"Read","input":{"path":"a.txt","password":"***"},"state":"PENDING","status":"executing"}
        {"id":"c1","result":{"content":"hi","size":2},"isError":false,"state":"COMPLETED","status":"success","duration":8,"completedAt":11}
        {"id":"c1","name":"fetch","input":{},"state":"PENDING","status":"executing"}
        {"id":"c1","error":"the tool crashed: unreachable","isError":true,"state":"FAILED","status":"failed","duration":3,"completedAt":5}
    "#]].assert_eq(&cards);
}

#[test]
fn gemini_prompts_end_when_the_input_changes() {
    let scenario = scenarios::all()
        .into_iter()
        .find(|scenario| scenario.name == "modify");
    for event in events_of(FrontEnd::Gemini, scenario.unwrap(), Some("b1")) {
        let call = &event["calls"][0];
        let (args, dialog) = (&call["request"]["args"], &call["confirmationDetails"]);
        if !dialog.is_null() {
            let prompted = dialog["newContent"].as_str().unwrap().trim_end();
            assert_eq!(args["new"], prompted);
        }
    }
}

// R-194
#[test]
fn r_194_gemini_outcomes_are_parsed() {
    let allow = |scope, coverage| Some(ConfirmationOutcome::Allow { scope, coverage });
    for (outcome, meaning) in [
        (
            "ProceedOnce",
            allow(ApprovalScope::Once, ApprovalCoverage::Subject),
        ),
        (
            "proceed_once",
            allow(ApprovalScope::Once, ApprovalCoverage::Subject),
        ),
        (
            "ProceedAlways",
            allow(ApprovalScope::Session, ApprovalCoverage::Subject),
        ),
        (
            "ProceedAlwaysServer",
            allow(ApprovalScope::Session, ApprovalCoverage::Server),
        ),
        (
            "ProceedAlwaysTool",
            allow(ApprovalScope::Session, ApprovalCoverage::Tool),
        ),
        (
            "ProceedAlwaysAndSave",
            allow(ApprovalScope::Project, ApprovalCoverage::Subject),
        ),
        ("ModifyWithEditor", Some(ConfirmationOutcome::Modify)),
        ("Cancel", Some(ConfirmationOutcome::Cancel)),
        ("Whatever", None),
    ] {
        assert_eq!(parse_outcome(outcome), meaning, "{outcome}");
    }
}

#[test]
fn error_codes_map_to_gemini_types() {
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
fn r_192_sema_permission_keys_have_no_mcp_prefix() {
    assert_eq!(sema::permission_key("mcp__tracker_add"), "tracker_add");
    assert_eq!(sema::permission_key("Read"), "Read");
    assert!(FrontEnd::by_name("other").is_none());
}

// R-243: the list contains every call of the batch, in the order of their first events.
#[test]
fn r_243_calls_of_a_batch_share_one_gemini_list() {
    let mut scenarios = scenarios::all();
    let mut view = FrontEnd::Gemini.format();
    let lives: Vec<RecordedScenario> = [scenarios.swap_remove(12), scenarios.swap_remove(3)]
        .into_iter()
        .zip(["c1", "c2"])
        .map(|(scenario, id)| RecordedScenario::run(scenario, Some("b1")).with_id(id))
        .collect();
    let mut lists = String::new();
    let longest = lives.iter().map(|life| life.events.len()).max().unwrap();
    // The last two events of each scenario are about its batch and are omitted.
    for index in 0..longest - 2 {
        for life in &lives {
            let events = &life.events[..life.events.len() - 2];
            for update in events
                .get(index)
                .iter()
                .flat_map(|event| view.convert(event))
            {
                let calls = update["calls"].as_array().unwrap().iter();
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
fn the_gemini_list_is_bounded() {
    let mut view = FrontEnd::Gemini.format();
    let mut last = Value::Null;
    for index in 0..300 {
        let scenario = scenarios::all().swap_remove(3);
        let life = RecordedScenario::run(scenario, Some("b1")).with_id(&format!("c{index}"));
        let end = life.events.iter().find(|event| event.kind.is_terminal());
        last = view.convert(end.unwrap()).remove(0);
    }
    let calls = last["calls"].as_array().unwrap();
    assert_eq!(calls.len(), 256);
    assert_eq!(calls[0]["request"]["callId"], "c44");
}
