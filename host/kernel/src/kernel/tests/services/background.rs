//! Background calls, which continue when the call that started them has ended, and end with their session.

use std::sync::Arc;
use std::time::Duration;

use expect_test::expect;
use serde_json::json;
use toolhost_contract::{NoSink, SessionKey};

use super::{ServicesFixtureBuilder, shown};

const LONG: &str = r#"start peek {"do": "sleep 20"}"#;

#[tokio::test(start_paused = true)]
async fn a_background_call_continues_and_can_be_awaited_later() {
    let house = ServicesFixtureBuilder::default().build();
    house
        .check(&[
            ("relay", LONG, "peek running"),
            (
                "relay",
                "running\nwait $0 1000",
                "1 running, 0 ended; still running",
            ),
            (
                "relay",
                "wait $0 25000\nrunning",
                "(done); 0 running, 1 ended",
            ),
            // The result is kept.
            ("relay", "wait $0 0", "(done)"),
            (
                "relay",
                "wait tool-none 0\nstop tool-none",
                "! task_not_found; ! task_not_found",
            ),
            // Other sessions do not see it.
            (
                "relay@t",
                "running\nwait $0 0\nstop $0",
                "0 running, 0 ended; ! task_not_found; ! task_not_found",
            ),
        ])
        .await;
    expect![[r#"
        - > relay (model) completed
        - > relay (model) completed
        - > relay (model) completed
        - > relay (model) completed
        - > relay (model) completed
        - > relay (model) completed
        c1 > peek (background) completed"#]]
    .assert_eq(&house.records().join("\n"));
}

#[tokio::test(start_paused = true)]
async fn a_background_call_of_a_serial_tool_does_not_delay_others() {
    let house = ServicesFixtureBuilder::default().build();
    house
        .check(&[
            (
                "relay",
                &format!("{LONG}\n{LONG}\n{LONG}"),
                "peek running; peek running; peek running",
            ),
            ("peek", "sleep 1", "done"),
            ("relay", "running", "3 running, 0 ended"),
        ])
        .await;
}

/// A task in the background waits for the background calls of its sub-agent, and would otherwise hold their permit.
#[tokio::test(start_paused = true)]
async fn a_background_call_of_a_sub_agent_does_not_wait_for_its_task() {
    let mut plan = ServicesFixtureBuilder::default();
    plan.settings.pools.agents = 1;
    let house = plan.build();
    house.check(&[("relay", LONG, "peek running")]).await;
    let script = "start peek {\"do\": \"sleep 1\"}\nwait $1 5000";
    let mut request = house.requested_call("relay", json!({"do": script}));
    request.context.depth = 1;
    let report = house.kernel.call(request, Arc::new(NoSink)).await;
    assert_eq!(shown(&report), "ok: peek running\n(done)");
}

#[tokio::test(start_paused = true)]
async fn only_background_capable_tools_run_in_the_background() {
    let house = ServicesFixtureBuilder::rules("deny peek").build();
    house
        .check(&[
            ("relay", "start look {}", "! invalid_tool"),
            ("relay", "start nothing {}", "! tool_not_registered"),
            // It is evaluated like any other call.
            (
                "relay",
                "start peek {}\nwait $0 1000",
                "peek running; Denied [policy_violation]",
            ),
        ])
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_background_call_is_stopped_by_its_id_or_its_timeout() {
    let house = ServicesFixtureBuilder::default().build();
    house
        .check(&[
            (
                "relay",
                "start peek {\"do\": \"hang\"}\nstop $0\nwait $0 1000",
                "peek running; peek; Cancelled [cancelled]",
            ),
            ("relay", "stop $0\nrunning", "peek; 0 running, 1 ended"),
            (
                "relay",
                "brief\nwait $1 500\nwait $1 5000",
                "done; still running; TimedOut [timeout]",
            ),
        ])
        .await;
    // The call that was stopped had not begun, so it has no record.
    let records = house.records();
    let background = records.iter().filter(|line| line.contains("background"));
    expect!["c3 > peek (background) failed"].assert_eq(
        &background
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join("\n"),
    );
}

#[tokio::test(start_paused = true)]
async fn background_calls_are_limited_and_ended_ones_are_dropped_first() {
    let house = ServicesFixtureBuilder::default().build();
    let long = r#"start peek {"do": "hang"}"#;
    let output = house.call("relay", &format!("{long}\n").repeat(33)).await;
    assert_eq!(output.matches("peek running").count(), 32);
    assert!(
        output.ends_with("; ! too_many_background_calls"),
        "{output}"
    );
    house
        .check(&[
            (
                "relay",
                "stop $5\nwait $5 1000",
                "peek; Cancelled [cancelled]",
            ),
            ("relay", LONG, "peek running"),
            (
                "relay",
                "wait $5 0\nrunning",
                "! task_not_found; 32 running, 0 ended",
            ),
        ])
        .await;
}

#[tokio::test(start_paused = true)]
async fn the_most_recent_large_results_are_kept() {
    let house = ServicesFixtureBuilder::default().build();
    let large = r#"start peek {"do": "large 7000000"}"#;
    for _ in 0..4 {
        house.call("relay", &format!("{large}\nsleep 1")).await;
    }
    house
        .check(&[("relay", "running", "0 running, 2 ended")])
        .await;
    // A result that exceeds the total limit is not dropped before it can be read.
    let huge = r#"start peek {"do": "large 20000000"}"#;
    house.call("relay", &format!("{huge}\nsleep 1")).await;
    house
        .check(&[("relay", "running", "0 running, 1 ended")])
        .await;
}

#[tokio::test(start_paused = true)]
async fn background_calls_end_with_their_session() {
    let house = ServicesFixtureBuilder::default().build();
    house.call("relay", r#"start peek {"do": "hang"}"#).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    house.kernel.close_session(&SessionKey::local("s"), "test");
    tokio::time::sleep(Duration::from_secs(1)).await;
    expect![[r#"
        - > relay (model) completed
        c1 > peek (background) cancelled"#]]
    .assert_eq(&house.records().join("\n"));
    house
        .check(&[("relay", "running", "0 running, 0 ended")])
        .await;
}
