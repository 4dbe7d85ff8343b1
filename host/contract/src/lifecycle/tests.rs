//! Which transitions of a call are legal, and how a record changes with them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::CallId;

fn steps() -> Vec<Transition> {
    let text = || "x".to_owned();
    let duration = Duration::ZERO;
    let input = || CallInput::from(json!({}));
    let completed = |supplied_by| Transition::Completed {
        is_error: false,
        supplied_by,
        duration,
    };
    vec![
        Transition::ValidationStarted,
        Transition::ToolResolved(Arc::new(found("reads"))),
        Transition::InputChanged {
            input: input(),
            by: text(),
        },
        Transition::ApprovalRequested {
            reason: text(),
            rule: None,
            meta: None,
        },
        Transition::InputModified {
            input: input(),
            by: text(),
        },
        Transition::Approved {
            by: text(),
            scope: text(),
            note: None,
        },
        Transition::Scheduled {
            by: text(),
            wave: None,
            command: None,
        },
        Transition::Started,
        Transition::CommitAuthorized {
            by: text(),
            commit: None,
        },
        Transition::PostProcessing,
        Transition::OutcomeChanged { by: text() },
        Transition::Backgrounded { task: text() },
        completed(None),
        completed(Some(text())),
        Transition::Failed {
            code: text(),
            message: text(),
            duration,
        },
        Transition::Denied {
            code: text(),
            reason: text(),
            by: None,
            note: None,
            remedy: None,
        },
        Transition::Cancelled {
            reason: text(),
            duration,
        },
        Transition::Sealed,
    ]
}

fn found(effect: &'static str) -> ResolvedTool {
    ResolvedTool {
        tool: "read_file".to_owned(),
        plugin: "files".to_owned(),
        version: "1.0.0".to_owned(),
        digest: None,
        effect,
        mode: "default".to_owned(),
        sources: Vec::new(),
        destinations: Vec::new(),
    }
}

fn record() -> CallRecord {
    CallRecord::new(
        CallId("c1".to_owned()),
        "Read".to_owned(),
        json!({"path": "a", "password": "x"}).into(),
        Arc::default(),
        Timestamp(1_000),
    )
}

// R-140, R-141, R-142, R-143: the complete table of states and transitions.
#[test]
fn transitions_match_the_table() {
    let mut table = String::new();
    for step in steps() {
        let ways: Vec<String> = CallState::ALL
            .into_iter()
            .filter_map(|from| Some(format!("{from}→{}", step.next_state(from)?)))
            .collect();
        let supplied = matches!(
            &step,
            Transition::Completed {
                supplied_by: Some(_),
                ..
            }
        );
        let name = if supplied { "supplied" } else { step.kind() };
        table.extend([name, ": ", &ways.join(" "), "\n"]);
    }
    expect_test::expect![[r#"
        validation_started: pending→validating awaiting_approval→validating executing→validating
        tool_resolved: validating→validating
        input_changed: validating→validating
        approval_requested: validating→awaiting_approval executing→awaiting_approval
        modified: awaiting_approval→awaiting_approval
        approved: awaiting_approval→approved
        scheduled: validating→scheduled approved→scheduled
        started: scheduled→executing
        commit_authorized: approved→executing executing→executing
        post_processing: executing→executing
        outcome_changed: executing→executing
        backgrounded: executing→executing
        completed: executing→completed
        supplied: validating→completed approved→completed
        failed: validating→failed scheduled→failed executing→failed
        denied: validating→denied awaiting_approval→denied approved→denied executing→denied
        cancelled: pending→cancelled validating→cancelled awaiting_approval→cancelled approved→cancelled scheduled→cancelled executing→cancelled
        sealed: pending→sealed validating→sealed awaiting_approval→sealed approved→sealed scheduled→sealed executing→sealed
    "#]]
    .assert_eq(&table);
}

#[test]
fn a_terminal_record_never_changes() {
    let terminal = CallState::ALL
        .into_iter()
        .filter(|state| state.is_terminal());
    for state in terminal {
        for step in steps() {
            let mut record = record();
            record.state = state;
            let before = record.clone();
            assert!(record.apply(step, Timestamp(2)).is_err());
            assert_eq!(record, before);
        }
    }
}

#[test]
fn every_state_can_be_sealed_or_cancelled() {
    for state in CallState::ALL
        .into_iter()
        .filter(|state| !state.is_terminal())
    {
        for step in [
            Transition::Sealed,
            Transition::Cancelled {
                reason: String::new(),
                duration: Duration::ZERO,
            },
        ] {
            assert!(step.next_state(state).is_some_and(CallState::is_terminal));
        }
    }
}

// R-144, R-145, R-146, R-149
#[test]
fn a_snapshot_contains_the_complete_lifecycle() {
    let mut record = record();
    let steps = [
        (Transition::ValidationStarted, 1_001),
        (Transition::ToolResolved(Arc::new(found("writes"))), 1_002),
        (
            Transition::ApprovalRequested {
                reason: "it changes files".to_owned(),
                rule: None,
                meta: Some(json!({"risk": "high"})),
            },
            1_003,
        ),
        (
            Transition::Approved {
                by: "user".to_owned(),
                scope: "once".to_owned(),
                note: Some("ok".to_owned()),
            },
            60_000,
        ),
        (
            Transition::Scheduled {
                by: "user".to_owned(),
                wave: Some(0),
                command: None,
            },
            60_001,
        ),
        (Transition::Started, 60_002),
        (Transition::PostProcessing, 60_010),
        (
            Transition::Completed {
                is_error: false,
                supplied_by: None,
                duration: Duration::from_millis(8),
            },
            60_011,
        ),
    ];
    for (step, at) in steps {
        record.apply(step, Timestamp(at)).unwrap();
    }
    let shown = serde_json::to_string_pretty(Snapshot::new(Arc::new(record)).json()).unwrap();
    expect_test::expect_file!["snapshot.json"].assert_eq(&(shown + "\n"));
}

#[test]
fn a_backward_clock_jump_affects_neither_order_nor_duration() {
    let mut record = record();
    record
        .apply(Transition::ValidationStarted, Timestamp(5))
        .unwrap();
    let step = Transition::Failed {
        code: "invalid_tool_params".to_owned(),
        message: "no".to_owned(),
        duration: Duration::from_millis(3),
    };
    record.apply(step, Timestamp(1)).unwrap();
    let order: Vec<_> = record
        .trail
        .iter()
        .map(|line| line.state.as_str())
        .collect();
    assert_eq!(order, ["pending", "validating", "failed"]);
    assert_eq!(record.duration, Some(Duration::from_millis(3)));
}

#[test]
fn a_sealed_call_has_the_advice_for_its_last_state() {
    let advice: Vec<String> = CallState::ALL
        .into_iter()
        .filter(|state| !state.is_terminal())
        .map(|state| {
            let mut record = record();
            record.state = state;
            record.apply(Transition::Sealed, Timestamp(9)).unwrap();
            format!("{state}: {}", record.error.unwrap().message)
        })
        .collect();
    expect_test::expect![[r"
        pending: it had not started; it is safe to call again
        validating: it had not started; it is safe to call again
        awaiting_approval: it was waiting for approval and did not run; call again to ask again
        approved: it was approved and had not started; it is safe to call again
        scheduled: it had not started; it is safe to call again
        executing: it was interrupted while it ran; verify its side effects before calling again"]]
    .assert_eq(&advice.join("\n"));
}

#[test]
fn state_names_round_trip() {
    for state in CallState::ALL {
        assert_eq!(CallState::parse(state.as_str()), Some(state));
    }
    assert_eq!(CallState::parse("done"), None);
    assert_eq!(
        Snapshot::new(Arc::new(record())).json()["password"],
        Value::Null
    );
}
