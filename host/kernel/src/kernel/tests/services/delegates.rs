//! A tool that can do nothing but call others needs no yes of its own, for they need theirs.

use serde_json::json;
use toolhost_contract::policy::Mode;

use super::{Plan, shown};

async fn check(plan: Plan, tool: &str, expected: &str) {
    let house = plan.build();
    let input = json!({"calls": [{"path": "/workspace/.git/config"}], "path": "src/a"});
    let report = house.request(house.wish(tool, input)).await;
    assert!(
        shown(&report).starts_with(expected),
        "{tool}: {}",
        shown(&report)
    );
}

#[tokio::test(start_paused = true)]
async fn what_delegates_is_judged_as_one_that_reads() {
    // Nobody is there to say yes to `act`, which names the same paths.
    check(Plan::default(), "relay", "ok: ").await;
    check(Plan::default(), "act", "Denied [policy_violation]").await;
    let plan = Plan::policy(|spec| spec.mode = Mode::Plan);
    check(plan, "relay", "ok: ").await;
    check(
        Plan::rules("deny relay"),
        "relay",
        "Denied [policy_violation]",
    )
    .await;
    check(
        Plan::rules("ask relay"),
        "relay",
        "Denied [policy_violation]",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_it_calls_is_not() {
    let plan = Plan::policy(|spec| spec.mode = Mode::Plan);
    let house = plan.build();
    let told = house.call("relay", "call act {}\ncall look {}").await;
    assert!(
        told.starts_with("Denied [") && told.ends_with("; ()"),
        "{told}"
    );
}
