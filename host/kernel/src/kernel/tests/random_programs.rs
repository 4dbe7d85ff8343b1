//! random programs of calls, answers, hooks and cancellations. Every call takes legal
//! steps to one end, is reported once, and has one result in its position.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use proptest::prelude::*;
use proptest::{prop_oneof, proptest};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use toolhost_contract::bus::BusEvent;
use toolhost_contract::hook::{PreHookDecision, PreHookResponse};
use toolhost_contract::lifecycle::{CallState, ResolvedTool, Transition};
use toolhost_contract::{Answer, Call, CallId, NoSink, Outcome, Question, SessionKey};

use super::test_world::{TestWorld, TestWorldBuilder, batch};
use crate::BatchCall;
use crate::hooks::{CallbackHook, HookCall};
use crate::schedule::Strategy as Cut;

#[derive(Debug, Clone)]
struct RequestedCall {
    tool: &'static str,
    input: Value,
    /// The second at which the call is cancelled.
    cancel: Option<u64>,
}

fn requested_call() -> impl Strategy<Value = RequestedCall> {
    let tool = prop_oneof![
        4 => Just("look"), 2 => Just("step"), 1 => Just("alone"), 3 => Just("write"), 1 => Just("erase"),
        1 => Just("nothing"),
    ];
    let action = prop_oneof![
        6 => Just("well"), 1 => Just("fail"), 1 => Just("panic"), 1 => Just("trap"), 1 => Just("interrupted"),
        1 => Just("hang"), 1 => Just("polite"), 1 => Just("say"), 1 => Just("tail"),
    ];
    let hook = prop_oneof![
        6 => Just("silent"), 1 => Just("deny"), 1 => Just("own"), 1 => Just("ask"), 1 => Just("result"),
        1 => Just("change"), 1 => Just("fall over"),
    ];
    let answer = prop_oneof![
        4 => Just("once"), 1 => Just("session"), 1 => Just("deny"), 1 => Just("cancel"), 1 => Just("modify"),
        1 => Just("no_prompter"), 1 => Just("never"),
    ];
    let cancel = prop_oneof![5 => Just(None), 1 => (0_u64..8).prop_map(Some)];
    (tool, action, hook, answer, 0_u64..4, cancel).prop_map(
        |(tool, action, hook, answer, sleep, cancel)| RequestedCall {
            tool,
            input: json!({
                "do": action, "hook": hook, "answer": answer, "sleep": sleep,
                "tool": "write", "input": {"answer": answer, "hook": hook},
            }),
            cancel,
        },
    )
}

fn says(_: usize, _: &Question, call: &Call) -> Option<Answer> {
    Some(match call.input["answer"].as_str()? {
        "once" => Answer::once(),
        "session" => Answer::Allow {
            offer: 1,
            note: None,
        },
        "deny" => Answer::Deny {
            note: Some("no".to_owned()),
        },
        "cancel" => Answer::Cancel,
        "modify" => Answer::Modify {
            input: json!({"answer": "once"}),
        },
        "no_prompter" => Answer::NoPrompter,
        _ => return None,
    })
}

fn before(call: &HookCall) -> PreHookResponse {
    let decision = match call.call.input["hook"].as_str() {
        Some("deny") => PreHookDecision::Deny {
            reason: None,
            outcome: None,
        },
        Some("own") => PreHookDecision::Deny {
            reason: None,
            outcome: Some(Box::new(Outcome::text("own"))),
        },
        Some("ask") => PreHookDecision::Ask {
            reason: None,
            meta: None,
        },
        Some("result") => PreHookDecision::Result(Box::new(Outcome::text("kept"))),
        Some("fall over") => panic!("the hook fell over"),
        _ => PreHookDecision::Continue,
    };
    let changed = call.call.input["hook"] == "change";
    PreHookResponse {
        decision,
        updated_input: changed.then(|| json!({"hook": "ask", "answer": "once"})),
    }
}

fn step(kind: &str) -> Vec<Transition> {
    let duration = Duration::ZERO;
    let (by, input) = (String::new, || Value::Null.into());
    let completed = |supplied_by| Transition::Completed {
        is_error: false,
        supplied_by,
        duration,
    };
    vec![match kind {
        "validation_started" => Transition::ValidationStarted,
        "tool_resolved" => Transition::ToolResolved(Arc::new(ResolvedTool {
            tool: by(),
            plugin: by(),
            version: by(),
            digest: None,
            effect: "",
            mode: by(),
            sources: Vec::new(),
            destinations: Vec::new(),
        })),
        "input_changed" => Transition::InputChanged {
            input: input(),
            by: by(),
        },
        "approval_requested" => Transition::ApprovalRequested {
            reason: by(),
            rule: None,
            meta: None,
        },
        "modified" => Transition::InputModified {
            input: input(),
            by: by(),
        },
        "approved" => Transition::Approved {
            by: by(),
            scope: by(),
            note: None,
        },
        "scheduled" => Transition::Scheduled {
            by: by(),
            wave: None,
            command: None,
        },
        "started" => Transition::Started,
        "commit_authorized" => Transition::CommitAuthorized {
            by: by(),
            commit: None,
        },
        "post_processing" => Transition::PostProcessing,
        "outcome_changed" => Transition::OutcomeChanged { by: by() },
        "completed" => return vec![completed(None), completed(Some(by()))],
        "failed" => Transition::Failed {
            code: by(),
            message: by(),
            duration,
        },
        "denied" => Transition::Denied {
            code: by(),
            reason: by(),
            by: None,
            note: None,
            remedy: None,
        },
        "cancelled" => Transition::Cancelled {
            reason: by(),
            duration,
        },
        kind => panic!("`{kind}` is no step of these programs"),
    }]
}

/// Checks the trail of an ended call: legal steps from pending to exactly one end.
fn check_trail(event: &BusEvent) {
    let record = &event.snapshot.as_ref().unwrap().json();
    let trail = record["auditTrail"].as_array().unwrap();
    assert_eq!(trail[0]["state"], "pending");
    let mut state = CallState::Pending;
    for line in &trail[1..] {
        let to = CallState::parse(line["state"].as_str().unwrap()).unwrap();
        let steps = step(line["kind"].as_str().unwrap());
        assert!(
            steps.iter().any(|step| step.next_state(state) == Some(to)),
            "{trail:?}"
        );
        state = to;
    }
    assert!(state.is_terminal());
    assert_eq!(record["state"], state.as_str());
}

async fn run(world: &TestWorld, turns: &[Vec<RequestedCall>], cut: Cut) {
    let turns = turns.iter().enumerate().map(|(at, requests)| async move {
        let id = |index: usize| CallId(format!("{at}.{index}"));
        let mut turn = batch(&at.to_string(), []);
        turn.strategy = cut;
        turn.calls = requests
            .iter()
            .enumerate()
            .map(|(index, request)| BatchCall {
                id: id(index),
                tool: request.tool.to_owned(),
                only_paths: None,
                input: request.input.clone(),
            })
            .collect();
        let cancels = requests
            .iter()
            .enumerate()
            .map(|(index, request)| async move {
                if let Some(second) = request.cancel {
                    sleep(Duration::from_secs(second)).await;
                    world.kernel.cancel(&id(index));
                }
                // Calls that wait for a user who never answers.
                loop {
                    sleep(Duration::from_secs(300)).await;
                    world.kernel.cancel(&id(index));
                }
            });
        let reports = tokio::select! {
            reports = world.kernel.schedule(turn, Arc::new(NoSink)) => reports.unwrap(),
            _ = join_all(cancels) => unreachable!("it never ends"),
        };
        assert_eq!(reports.len(), requests.len());
        for (index, report) in reports.iter().enumerate() {
            assert_eq!(report.id, id(index));
        }
    });
    join_all(turns).await;
}

async fn check(turns: Vec<Vec<RequestedCall>>, cut: Cut, stored: bool) {
    let world = TestWorldBuilder::says(says)
        .stored(stored)
        .hook(
            "h",
            CallbackHook::before(|call| async move { Ok(before(&call)) }),
        )
        .build();
    let all = run(&world, &turns, cut);
    // All calls together take less than a day.
    let ended = timeout(Duration::from_secs(86_400), all).await;
    assert!(ended.is_ok(), "some call waits for ever");
    let events = world.events();
    for (at, event) in events.iter().enumerate() {
        assert_eq!(
            event.seq,
            events[0].seq + at as u64,
            "the numbers of the bus have a gap"
        );
        if event.kind.is_terminal() {
            check_trail(event);
        }
    }
    // Each call has one end, the same on the bus and on disk, and the chain is unbroken.
    world.event_log_of(&events).await;
    assert!(world.kernel.pending().is_empty());
    assert!(!world.kernel.is_running(&SessionKey::local("local")));
    assert!(turns.iter().flatten().count() <= events.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn r_142_r_143_r_160_every_call_of_a_random_program_ends_exactly_once(
        turns in prop::collection::vec(prop::collection::vec(requested_call(), 1..6), 1..4),
        cut in prop_oneof![Just(Cut::Waves), Just(Cut::Sema), Just(Cut::Kode), Just(Cut::Serial)],
        stored in prop::bool::weighted(0.3),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(check(turns, cut, stored));
    }
}
