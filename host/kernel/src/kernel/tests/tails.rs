//! R-491: a result may name a call in its place, and that one takes the whole road.

use expect_test::expect;
use serde_json::{Value, json};

use super::world::{Setup, shown};

/// A tail that names a tail that names a tail.
fn tails(depth: usize) -> Value {
    (0..depth).fold(
        json!({}),
        |input, _| json!({"do": "tail", "tool": "look", "input": input}),
    )
}

// R-491
#[tokio::test(start_paused = true)]
async fn r_491_tails_follow_each_other_eight_deep_and_no_deeper() {
    let world = Setup::default().build();
    let report = world.call("c", "look", tails(8)).await;
    assert_eq!(shown(&report), "ok: done");
    let report = world.call("d", "look", tails(9)).await;
    expect!["Failed [too_many_tails]: the result asks for another call, and 8 calls have followed the first one already"]
    .assert_eq(&shown(&report));
    let started = world.stage.started.lock().unwrap().clone();
    assert_eq!(started.len(), 18);
    assert_eq!(started.last().map(String::as_str), Some("d/tail-8"));
    world.story().await;
    let row = world.store().call("d/tail-8").unwrap().unwrap();
    assert_eq!(row.parent.as_deref(), Some("d"));
}

// R-491
#[tokio::test(start_paused = true)]
async fn r_491_a_tail_is_looked_up_and_judged_like_any_call() {
    for (tail, expected) in [
        (
            json!({"do": "tail", "tool": "lok", "input": {}}),
            expect![[
                r#"NotRegistered [tool_not_registered]: Tool "lok" not found. Did you mean: look?"#
            ]],
        ),
        (
            json!({"do": "tail", "tool": "look", "input": {"n": "x"}}),
            expect![[
                r#"InvalidInput [invalid_tool_params]: Parameter validation failed: n: expected integer, got "x""#
            ]],
        ),
        (
            json!({"do": "tail", "tool": "erase", "input": {}}),
            expect![
                "Denied [policy_violation]: Permission denied: rule user:1 deny `erase` forbids `erase`"
            ],
        ),
    ] {
        let world = Setup::default().rules("deny erase").build();
        let report = world.call("c", "look", tail).await;
        expected.assert_eq(&shown(&report));
        world.story().await;
    }
}
