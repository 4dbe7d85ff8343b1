//! Nested calls: each runs through the whole pipeline, has its parent in its record, and cannot bypass a rule.

use std::future::ready;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use expect_test::expect;
use serde_json::json;
use toolhost_contract::hook::{After, Before, Decision};
use toolhost_contract::policy::{Mode, Policy, PolicySpec, Restriction};
use toolhost_contract::{Answer, CallId, Outcome};

use super::super::world::rules;
use super::Plan;
use crate::hooks::CallbackHook;
use crate::schedule::Limits;

#[tokio::test(start_paused = true)]
async fn a_call_below_a_call_has_a_record_that_names_its_parent() {
    let house = Plan::rules("allow act").build();
    let script =
        "call other {}\ncall act {\"do\": \"mode\"}\ncall nothing {}\ncall look {\"do\": \"fail\"}";
    let told = house.call("relay", script).await;
    expect![[r#"(); (default); NotRegistered [tool_not_registered]; (no luck)"#]].assert_eq(&told);
    expect![[r#"
        - > relay (model) completed
        c1 > act (tool) completed
        c1 > look (tool) completed
        c1 > nothing (tool) failed
        c1 > other (tool) completed"#]]
    .assert_eq(&house.records().join("\n"));
}

#[tokio::test(start_paused = true)]
async fn what_a_tool_calls_is_decided_for_itself() {
    let no = Answer::Deny { note: None };
    let house = Plan::rules("allow relay\ndeny look")
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
    .assert_eq(&house.person.saw().join("\n"));
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_a_tool_called_calls_nobody() {
    let house = Plan::rules("allow act").build();
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
async fn a_tool_that_a_tool_called_hands_tasks_to_sub_agents() {
    let house = Plan::rules("allow act").build();
    let nested = r#"call relay {"do": "task {\"n\":1}"}"#;
    let told = r#"({"text":"general for main c1/tool-1, default, free","task":{"n":1}})"#;
    house.check(&[("relay", nested, told)]).await;
}

#[tokio::test(start_paused = true)]
async fn hooks_hear_the_calls_that_a_tool_makes() {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let (before, after) = (Arc::clone(&heard), Arc::clone(&heard));
    let hook = CallbackHook::before(move |call| {
        let tool = call.call.tool.to_string();
        before.lock().unwrap().push(format!("before {tool}"));
        let reason = Some("not by a tool".to_owned());
        let outcome = None;
        let decision = match tool.as_str() {
            "look" => Decision::Deny { reason, outcome },
            _ => Decision::Continue,
        };
        ready(Ok(Before {
            decision,
            updated_input: None,
        }))
    });
    let hook = hook.after(move |call, _| {
        let tool = call.call.tool.to_string();
        after.lock().unwrap().push(format!("after {tool}"));
        ready(Ok(match tool.as_str() {
            "relay" => After::Keep,
            _ => After::Replace(Box::new(Outcome::text("masked"))),
        }))
    });
    let house = Plan {
        hook: Some(hook),
        ..Plan::rules("allow act")
    }
    .build();
    let script = r#"call look {}
        call act {"do": "mode"}
        start peek {"do": "mode"}
        wait $0 1000"#;
    let told = "Denied [hook_denied]; (masked); peek running; (masked)";
    house.check(&[("relay", script, told)]).await;
    expect![[r#"
        before relay
        before look
        before act
        after act
        before peek
        after peek
        after relay"#]]
    .assert_eq(&heard.lock().unwrap().join("\n"));
}

// R-491
/// The tail of a nested call is nested as well; otherwise tools could call each other forever.
#[tokio::test(start_paused = true)]
async fn a_tail_of_a_called_tool_calls_nobody_either() {
    let house = Plan::rules("allow act").build();
    let tail = r#"call relay {"do": "tail peek {\"do\": \"call look {}\"}"}"#;
    house
        .check(&[("relay", tail, "(Unavailable [nested_call])")])
        .await;
    // The tail of the model's own call is not nested.
    let tail = r#"tail peek {"do": "call look {}"}"#;
    house.check(&[("relay", tail, "()")]).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_makes_so_many_calls_and_no_more() {
    let house = Plan::default().build();
    let told = house.call("relay", &"call other {}\n".repeat(65)).await;
    assert_eq!(told.matches("()").count(), 64);
    assert!(told.ends_with("; Unavailable [too_many_calls]"), "{told}");
    // Background calls and tasks count as well.
    let mixed = format!("{}start peek {{}}\ntask {{}}", "call other {}\n".repeat(64));
    let told = house.call("relay", &mixed).await;
    assert!(
        told.ends_with("; ! too_many_calls; ! too_many_calls"),
        "{told}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_cancelled_takes_its_calls_with_it() {
    let house = Plan::default().build();
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
async fn one_place_in_each_pool_is_enough() {
    let mut plan = Plan::rules("allow act\nallow edit\nallow fetch");
    plan.settings.pools = Limits {
        all: 1,
        network: 1,
        processes: 1,
        agents: 1,
        interactive: 1,
    };
    let house = plan.build();
    // The background call holds the only permit of its pool, and the last one waits for it.
    let script = r#"call look {}
        call act {}
        call edit {"path": "a"}
        call relay {"do": "mode"}
        start peek {"do": "sleep 20"}
        call other {}"#;
    let running = house.call("relay", script);
    let told = tokio::time::timeout(Duration::from_secs(60), running).await;
    assert_eq!(told.unwrap(), "(); (); (); (default); peek running; ()");
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_called_tool_is_its_own() {
    let mut plan = Plan::default();
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
async fn tasks_go_to_agents_that_there_are() {
    let house = Plan::default().build();
    let told = house
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
        .assert_eq(&told);
    let alone = Plan {
        alone: true,
        ..Plan::default()
    };
    let told = alone.build().call("relay", "agents").await;
    assert_eq!(told, "0 agents");
    let running = house.start("relay", r#"task {"agent": "slow"}"#);
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(house.kernel.cancel(&CallId("c2".to_owned())));
    assert!(running.await.unwrap().stopped, "a task ends with its call");
}

/// The runner of a sub-agent gets the restrictions of its parent.
#[tokio::test(start_paused = true)]
async fn a_task_carries_what_its_parent_may_do() {
    let house = Plan::default().build();
    let mut wish = house.wish("relay", json!({"do": "task {}"}));
    let spec = PolicySpec {
        rules: rules("deny act"),
        ..PolicySpec::default()
    };
    wish.within.mode = Some(Mode::Plan);
    wish.within.restriction = Some(Arc::new(Restriction::new(Policy::new(spec).unwrap())));
    wish.caller.agent = "helper".to_owned();
    let told = super::shown(&house.request(wish).await);
    assert_eq!(
        told,
        r#"ok: {"text":"general for helper c1, plan, held","task":{}}"#
    );
}
