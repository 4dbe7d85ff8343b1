//! A sub-agent may do at most what its parent may, and asks under its own name.

use std::sync::Arc;

use serde_json::json;
use toolhost_contract::policy::{Policy, PolicySpec, Restriction};
use toolhost_contract::{Answer, Principal};

use super::super::CallRequest;
use super::test_world::{TestWorld, TestWorldBuilder, request, rules, shown};

fn always() -> TestWorldBuilder {
    TestWorldBuilder::answers([Answer::Allow {
        offer: 1,
        note: None,
    }])
}

/// A call of a sub-agent that is restricted to these rules.
fn child(id: &str, tool: &str, limits: &str, input: serde_json::Value) -> CallRequest {
    let spec = PolicySpec {
        rules: rules(limits),
        ..PolicySpec::default()
    };
    let mut request = request(id, tool, input);
    request.caller = Principal {
        agent: "helper".to_owned(),
        parent_agent: Some("main".to_owned()),
        ..Principal::default()
    };
    request.context.restriction = Some(Arc::new(Restriction::new(Policy::new(spec).unwrap())));
    request
}

async fn code(world: &TestWorld, request: CallRequest) -> String {
    match world.request(request).await.result {
        Ok(_) => "ok".to_owned(),
        Err(error) => error.code,
    }
}

#[tokio::test]
async fn a_restriction_only_removes_permissions() {
    let world = always().rules("deny erase\nallow write").build();
    for (tool, limits, expected) in [
        ("look", "allow look", "ok"),
        ("write", "allow write", "ok"),
        ("look", "deny look", "policy_violation"),
        ("write", "deny write", "policy_violation"),
        ("erase", "allow erase", "policy_violation"),
    ] {
        let found = code(
            &world,
            child(&format!("{tool} {limits}"), tool, limits, json!({})),
        )
        .await;
        assert_eq!(found, expected, "{tool} {limits}");
    }
    world.event_log().await;
}

// A tail call belongs to the same agent, so it cannot bypass the agent's restrictions.
#[tokio::test]
async fn a_tail_call_is_limited_to_what_its_call_may_do() {
    let world = always().rules("allow write").build();
    let tail = json!({"do": "tail", "tool": "write", "input": {}});
    assert_eq!(
        code(&world, child("c", "look", "deny write", tail)).await,
        "policy_violation"
    );
    assert_eq!(*world.stage.started.lock().unwrap(), ["c"]);
    world.event_log().await;
}

#[tokio::test]
async fn a_question_names_the_agent_and_an_approval_of_the_parent_applies_to_the_child() {
    let world = always().build();
    let first = child("c1", "write", "allow write", json!({}));
    assert_eq!(code(&world, first).await, "ok");
    assert_eq!(*world.stage.questions.lock().unwrap(), ["helper: write {}"]);
    let world = always().build();
    assert_eq!(
        shown(&world.call("p", "write", json!({})).await),
        "ok: done"
    );
    // Within limits that allow it; an approval also covers limits that ask.
    assert_eq!(
        code(&world, child("c2", "write", "allow write", json!({}))).await,
        "ok"
    );
    assert_eq!(*world.stage.questions.lock().unwrap(), ["-: write {}"]);
    let denied = child("c3", "write", "deny write", json!({}));
    assert_eq!(code(&world, denied).await, "policy_violation");
}
