//! Nested calls and tasks for sub-agents: authorization, records, limits, cancellation and restrictions.

use std::future::ready;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use expect_test::expect;
use serde_json::json;
use toolhost_contract::hook::{PostHookResponse, PreHookDecision, PreHookResponse};
use toolhost_contract::policy::{Mode, Policy, PolicySpec, Restriction};
use toolhost_contract::{Answer, CallId, Outcome};

use super::super::test_world::rules;
use super::ServicesFixtureBuilder;
use crate::hooks::CallbackHook;
use crate::schedule::PoolLimits;

#[tokio::test(start_paused = true)]
async fn a_nested_call_has_a_record_with_its_parent() {
    let house = ServicesFixtureBuilder::rules("allow act").build();
    let script =
        "call other {}\ncall act {\"do\": \"mode\"}\ncall nothing {}\ncall look {\"do\": \"fail\"}";
    let output = house.call("relay", script).await;
    expect![[r#"(); (default); NotRegistered [tool_not_registered]; (no luck)"#]]
        .assert_eq(&output);
    expect![[r#"
        - > relay (model) completed
        c1 > act (tool) completed
        c1 > look (tool) completed
        c1 > nothing (tool) failed
        c1 > other (tool) completed"#]]
    .assert_eq(&house.records().join("\n"));
}

#[tokio::test(start_paused = true)]
async fn nested_calls_are_authorized_separately() {
    let no = Answer::Deny { note: None };
    let house = ServicesFixtureBuilder::rules("allow relay\ndeny look")
        .answers([no, Answer::once()])
        .build();
    let both = "call look {}\ncall act {}";
    house
        .check(&[
            (
                "relay",
                both,
                "Denied [policy_violation]; Denied [user_denied]",
            ),
            ("relay", "call act {}", "()"),
        ])
        .await;
    expect![[r#"
        may act (it may have side effects)
        may act (it may have side effects)"#]]
    .assert_eq(&house.person.shown_questions().join("\n"));
}

#[tokio::test(start_paused = true)]
async fn a_nested_call_cannot_call_tools() {
    let house = ServicesFixtureBuilder::rules("allow act").build();
    let inner = r#"call relay {"do": "call look {}\nstart peek {}"}"#;
    house
        .check(&[
            ("relay", inner, "(Unavailable [nested_call]; ! nested_call)"),
            (
                "relay",
                r#"start peek {"do": "call look {}"}
                wait $0 1000"#,
                "peek running; (Unavailable [nested_call])",
            ),
        ])
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_nested_call_can_delegate_to_sub_agents() {
    let house = ServicesFixtureBuilder::rules("allow act").build();
    let nested = r#"call relay {"do": "task {\"n\":1}"}"#;
    let expected = r#"({"text":"general for main c1/tool-1, default, free","task":{"n":1}})"#;
    house.check(&[("relay", nested, expected)]).await;
}

#[tokio::test(start_paused = true)]
async fn hooks_run_for_nested_calls() {
    let events: Arc<Mutex<Vec<String>>> = Arc::default();
    let (before, after) = (Arc::clone(&events), Arc::clone(&events));
    let hook = CallbackHook::before(move |call| {
        let tool = call.call.tool.to_string();
        before.lock().unwrap().push(format!("before {tool}"));
        let reason = Some("not by a tool".to_owned());
        let outcome = None;
        let decision = match tool.as_str() {
            "look" => PreHookDecision::Deny { reason, outcome },
            _ => PreHookDecision::Continue,
        };
        ready(Ok(PreHookResponse {
            decision,
            updated_input: None,
        }))
    });
    let hook = hook.after(move |call, _| {
        let tool = call.call.tool.to_string();
        after.lock().unwrap().push(format!("after {tool}"));
        ready(Ok(match tool.as_str() {
            "relay" => PostHookResponse::Keep,
            _ => PostHookResponse::Replace(Box::new(Outcome::text("masked"))),
        }))
    });
    let house = ServicesFixtureBuilder {
        hook: Some(hook),
        ..ServicesFixtureBuilder::rules("allow act")
    }
    .build();
    let script = r#"call look {}
        call act {"do": "mode"}
        start peek {"do": "mode"}
        wait $0 1000"#;
    let expected = "Denied [hook_denied]; (masked); peek running; (masked)";
    house.check(&[("relay", script, expected)]).await;
    expect![[r#"
        before relay
        before look
        before act
        after act
        before peek
        after peek
        after relay"#]]
    .assert_eq(&events.lock().unwrap().join("\n"));
}

// R-491
/// The tail of a nested call is nested as well; otherwise tools could call each other forever.
#[tokio::test(start_paused = true)]
async fn a_tail_call_of_a_nested_call_cannot_call_tools() {
    let house = ServicesFixtureBuilder::rules("allow act").build();
    let tail = r#"call relay {"do": "tail peek {\"do\": \"call look {}\"}"}"#;
    house
        .check(&[("relay", tail, "(Unavailable [nested_call])")])
        .await;
    // The tail of the model's own call is not nested.
    let tail = r#"tail peek {"do": "call look {}"}"#;
    house.check(&[("relay", tail, "()")]).await;
}

#[tokio::test(start_paused = true)]
async fn nested_calls_are_limited() {
    let house = ServicesFixtureBuilder::default().build();
    let output = house.call("relay", &"call other {}\n".repeat(65)).await;
    assert_eq!(output.matches("()").count(), 64);
    assert!(
        output.ends_with("; Unavailable [too_many_calls]"),
        "{output}"
    );
    // Background calls and tasks count as well.
    let mixed = format!("{}start peek {{}}\ntask {{}}", "call other {}\n".repeat(64));
    let output = house.call("relay", &mixed).await;
    assert!(
        output.ends_with("; ! too_many_calls; ! too_many_calls"),
        "{output}"
    );
}

#[tokio::test(start_paused = true)]
async fn cancelling_a_call_cancels_its_nested_calls() {
    let house = ServicesFixtureBuilder::default().build();
    let running = house.start("relay", r#"call look {"do": "hang"}"#);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(house.kernel.cancel(&CallId("c1".to_owned())));
    let report = running.await.unwrap();
    assert!(report.stopped);
    tokio::time::sleep(Duration::from_secs(1)).await;
    expect![[r#"
        - > relay (model) cancelled
        c1 > look (tool) cancelled"#]]
    .assert_eq(&house.records().join("\n"));
}

/// A call that works through others holds no permit that they need.
#[tokio::test(start_paused = true)]
async fn one_permit_in_each_pool_is_enough() {
    let mut plan = ServicesFixtureBuilder::rules("allow act\nallow edit\nallow fetch");
    plan.settings.pools = PoolLimits {
        all: 1,
        network: 1,
        processes: 1,
        agents: 1,
        interactive: 1,
    };
    let house = plan.build();
    // The background call holds the only permit of its pool.
    let script = r#"call look {}
        call act {}
        call edit {"path": "a"}
        call relay {"do": "mode"}
        start peek {"do": "sleep 20"}
        call other {}"#;
    let running = house.call("relay", script);
    let output = tokio::time::timeout(Duration::from_secs(60), running).await;
    assert_eq!(output.unwrap(), "(); (); (); (default); peek running; ()");
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_nested_call_does_not_count_for_its_parent() {
    let mut plan = ServicesFixtureBuilder::default();
    plan.settings.timeout = Some(Duration::from_secs(5));
    let house = plan.build();
    let script = r#"call look {"do": "sleep 4"}
        call look {"do": "sleep 4"}
        call look {"do": "sleep 4"}
        call look {"do": "hang"}
        sleep 1"#;
    let report = house.report("relay", script).await;
    assert_eq!(
        super::shown(&report),
        "ok: (done)\n(done)\n(done)\nTimedOut [timeout]\ndone"
    );
    assert_eq!(report.duration.as_secs(), 1);
}

// R-308
#[tokio::test(start_paused = true)]
async fn tasks_go_to_known_agents_only() {
    let house = ServicesFixtureBuilder::default().build();
    let output = house
        .call(
            "relay",
            r#"agents
            task {"prompt": "x"}
            task {"agent": "nobody"}
            task [1]
            task "x""#,
        )
        .await;
    expect![[r#"2 agents; {"text":"general for main c1, default, free","task":{"prompt":"x"}}; ! agent_not_found; ! invalid_task; ! invalid_task"#]]
        .assert_eq(&output);
    let alone = ServicesFixtureBuilder {
        alone: true,
        ..ServicesFixtureBuilder::default()
    };
    let output = alone.build().call("relay", "agents").await;
    assert_eq!(output, "0 agents");
    let running = house.start("relay", r#"task {"agent": "slow"}"#);
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(house.kernel.cancel(&CallId("c2".to_owned())));
    assert!(running.await.unwrap().stopped, "a task ends with its call");
}

/// The runner of a sub-agent gets the restrictions of its parent.
#[tokio::test(start_paused = true)]
async fn a_task_carries_the_restrictions_of_its_parent() {
    let house = ServicesFixtureBuilder::default().build();
    let mut request = house.requested_call("relay", json!({"do": "task {}"}));
    let spec = PolicySpec {
        rules: rules("deny act"),
        ..PolicySpec::default()
    };
    request.context.mode = Some(Mode::Plan);
    request.context.restriction = Some(Arc::new(Restriction::new(Policy::new(spec).unwrap())));
    request.caller.agent = "helper".to_owned();
    let output = super::shown(&house.request(request).await);
    assert_eq!(
        output,
        r#"ok: {"text":"general for helper c1, plan, held","task":{}}"#
    );
}

/// Otherwise the calls would have run when the user is asked.
#[tokio::test(start_paused = true)]
async fn a_tool_that_calls_others_is_asked_about_before_it_runs() {
    let no = Answer::Deny { note: None };
    let house = ServicesFixtureBuilder::rules("ask chain\nallow act")
        .answers([no, Answer::once()])
        .build();
    let denied = house.call("chain", "call act {}").await;
    assert!(denied.starts_with("Denied [user_denied]"), "{denied}");
    assert_eq!(house.records(), ["- > chain (model) denied"]);
    house.check(&[("chain", "call act {}", "()")]).await;
}

/// It is no evidence about the arguments of the nested call.
#[tokio::test(start_paused = true)]
async fn a_nested_call_that_stops_with_its_caller_is_cancelled() {
    let house = ServicesFixtureBuilder::default().build();
    for number in 1..=5 {
        let call = house.start("relay", r#"call look {"do": "obey"}"#);
        tokio::time::sleep(Duration::from_secs(1)).await;
        house.kernel.cancel(&CallId(format!("c{number}")));
        call.await.unwrap();
        assert!(
            house
                .records()
                .contains(&format!("c{number} > look (tool) cancelled"))
        );
    }
}

fn one_agent() -> ServicesFixtureBuilder {
    let mut plan = ServicesFixtureBuilder::rules("allow *");
    plan.settings.pools = PoolLimits {
        agents: 1,
        ..PoolLimits::default()
    };
    plan
}

#[tokio::test(start_paused = true)]
async fn the_tail_of_a_nested_call_needs_no_permit_of_its_own() {
    let house = one_agent().answers([Answer::once()]).build();
    let tail = r#"call act {"do": "tail relay {}"}"#;
    let call = tokio::time::timeout(Duration::from_hours(1), house.call("relay", tail));
    assert_eq!(call.await.expect("it waits for its own caller"), "()");
}

#[tokio::test(start_paused = true)]
async fn calls_in_the_background_do_not_delay_those_that_control_them() {
    let house = one_agent().build();
    let two = "start chain {\"do\": \"hang\"}\n".repeat(2);
    house.call("relay", &two).await;
    let stop = house.call("relay", "running\nstop $0\nstop $1");
    let stopped = tokio::time::timeout(Duration::from_hours(1), stop);
    assert_eq!(
        stopped.await.expect("it waits for what it stops"),
        "2 running, 0 ended; chain; chain"
    );
}
