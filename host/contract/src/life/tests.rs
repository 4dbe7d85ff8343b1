use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::CallId;

fn steps() -> Vec<Step> {
    let words = || "x".to_owned();
    let duration = Duration::ZERO;
    let input = || Input::from(json!({}));
    let completed = |supplied_by| Step::Completed {
        is_error: false,
        supplied_by,
        duration,
    };
    vec![
        Step::Picked,
        Step::Found(Arc::new(found("reads"))),
        Step::InputChanged {
            input: input(),
            by: words(),
        },
        Step::Asked {
            reason: words(),
            rule: None,
            meta: None,
        },
        Step::Modified {
            input: input(),
            by: words(),
        },
        Step::Approved {
            by: words(),
            scope: words(),
            note: None,
        },
        Step::Scheduled {
            by: words(),
            wave: None,
            command: None,
        },
        Step::Started,
        Step::Released {
            by: words(),
            commit: None,
        },
        Step::PostProcessing,
        Step::OutcomeChanged { by: words() },
        Step::Backgrounded { task: words() },
        completed(None),
        completed(Some(words())),
        Step::Failed {
            code: words(),
            message: words(),
            duration,
        },
        Step::Denied {
            code: words(),
            reason: words(),
            by: None,
            note: None,
        },
        Step::Cancelled {
            reason: words(),
            duration,
        },
        Step::Sealed,
    ]
}

fn found(effect: &'static str) -> Found {
    Found {
        tool: "read_file".to_owned(),
        plugin: "files".to_owned(),
        version: "1.0.0".to_owned(),
        digest: None,
        effect,
        mode: "default".to_owned(),
    }
}

fn record() -> Record {
    Record::new(
        CallId("c1".to_owned()),
        "Read".to_owned(),
        json!({"path": "a", "password": "x"}).into(),
        Arc::default(),
        Millis(1_000),
    )
}

// R-140, R-141, R-142, R-143: the complete table of states and transitions.
#[test]
fn every_step_leads_where_the_table_says_and_nowhere_else() {
    let mut table = String::new();
    for step in steps() {
        let ways: Vec<String> = CallState::ALL
            .into_iter()
            .filter_map(|from| Some(format!("{from}→{}", step.leads(from)?)))
            .collect();
        let supplied = matches!(
            &step,
            Step::Completed {
                supplied_by: Some(_),
                ..
            }
        );
        let name = if supplied { "supplied" } else { step.kind() };
        table.extend([name, ": ", &ways.join(" "), "\n"]);
    }
    expect_test::expect![[r#"
        picked: pending→validating awaiting_approval→validating executing→validating
        found: validating→validating
        input_changed: validating→validating
        asked: validating→awaiting_approval executing→awaiting_approval
        modified: awaiting_approval→awaiting_approval
        approved: awaiting_approval→approved
        scheduled: validating→scheduled approved→scheduled
        started: scheduled→executing
        released: approved→executing executing→executing
        post_processing: executing→executing
        outcome_changed: executing→executing
        backgrounded: executing→executing
        completed: executing→completed
        supplied: validating→completed
        failed: validating→failed scheduled→failed executing→failed
        denied: validating→denied awaiting_approval→denied executing→denied
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
            assert!(record.take(step, Millis(2)).is_err());
            assert_eq!(record, before);
        }
    }
}

#[test]
fn from_every_state_a_call_can_end() {
    for state in CallState::ALL
        .into_iter()
        .filter(|state| !state.is_terminal())
    {
        for step in [
            Step::Sealed,
            Step::Cancelled {
                reason: String::new(),
                duration: Duration::ZERO,
            },
        ] {
            assert!(step.leads(state).is_some_and(CallState::is_terminal));
        }
    }
}

// R-144, R-145, R-146, R-149
#[test]
fn a_record_tells_the_whole_story() {
    let mut record = record();
    let story = [
        (Step::Picked, 1_001),
        (Step::Found(Arc::new(found("writes"))), 1_002),
        (
            Step::Asked {
                reason: "it changes files".to_owned(),
                rule: None,
                meta: Some(json!({"risk": "high"})),
            },
            1_003,
        ),
        (
            Step::Approved {
                by: "person".to_owned(),
                scope: "once".to_owned(),
                note: Some("ok".to_owned()),
            },
            60_000,
        ),
        (
            Step::Scheduled {
                by: "person".to_owned(),
                wave: Some(0),
                command: None,
            },
            60_001,
        ),
        (Step::Started, 60_002),
        (Step::PostProcessing, 60_010),
        (
            Step::Completed {
                is_error: false,
                supplied_by: None,
                duration: Duration::from_millis(8),
            },
            60_011,
        ),
    ];
    for (step, at) in story {
        record.take(step, Millis(at)).unwrap();
    }
    let shown = serde_json::to_string_pretty(Snapshot::of(Arc::new(record)).json()).unwrap();
    expect_test::expect_file!["snapshot.json"].assert_eq(&(shown + "\n"));
}

#[test]
fn a_clock_that_jumps_back_changes_no_order_and_no_duration() {
    let mut record = record();
    record.take(Step::Picked, Millis(5)).unwrap();
    let step = Step::Failed {
        code: "invalid_tool_params".to_owned(),
        message: "no".to_owned(),
        duration: Duration::from_millis(3),
    };
    record.take(step, Millis(1)).unwrap();
    let order: Vec<_> = record
        .trail
        .iter()
        .map(|line| line.state.as_str())
        .collect();
    assert_eq!(order, ["pending", "validating", "failed"]);
    assert_eq!(record.duration, Some(Duration::from_millis(3)));
}

#[test]
fn a_sealed_call_comes_with_the_advice_of_its_last_state() {
    let advice: Vec<String> = CallState::ALL
        .into_iter()
        .filter(|state| !state.is_terminal())
        .map(|state| {
            let mut record = record();
            record.state = state;
            record.take(Step::Sealed, Millis(9)).unwrap();
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
fn state_names_are_read_back() {
    for state in CallState::ALL {
        assert_eq!(CallState::parse(state.as_str()), Some(state));
    }
    assert_eq!(CallState::parse("done"), None);
    assert_eq!(
        Snapshot::of(Arc::new(record())).json()["password"],
        Value::Null
    );
}
