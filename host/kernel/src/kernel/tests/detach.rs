//! The caller of a call can move its running command to the background.

use serde_json::json;
use toolhost_contract::lifecycle::CallState;
use toolhost_contract::{CallId, UserId};

use super::test_world::{TestWorld, TestWorldBuilder, shown};
use crate::DetachError;

async fn started(id: &str, tool: &str) -> (TestWorld, tokio::task::JoinHandle<crate::Report>) {
    let world = TestWorldBuilder::default().build();
    let call = world.start(id, tool, json!({"do": "command"}));
    world.until(id, CallState::Executing).await;
    while world.stage.sinks.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    (world, call)
}

#[tokio::test]
async fn a_call_ends_when_its_command_is_detached() {
    let (world, call) = started("c", "background").await;
    let id = CallId("c".to_owned());
    world.kernel.detach(&id, &UserId::Local).unwrap();
    let report = call.await.unwrap();
    assert_eq!(shown(&report), "ok: continues as job-1");
    assert!(!report.stopped);
    let ended = world.kernel.detach(&id, &UserId::Local).unwrap_err();
    assert_eq!(ended.to_string(), "no call `c` is running");
}

//
#[tokio::test]
async fn only_the_user_of_a_call_can_detach_its_command() {
    let (world, call) = started("c", "background").await;
    let id = CallId("c".to_owned());
    let ann = UserId::from_name(Some("ann"));
    let refused = world.kernel.detach(&id, &ann).unwrap_err();
    assert_eq!(refused, DetachError::NotRunning("c".to_owned()));
    assert!(!call.is_finished());
    world.kernel.detach(&id, &UserId::Local).unwrap();
    call.await.unwrap();
}

#[tokio::test]
async fn a_call_that_another_call_made_is_found_by_either_id() {
    for id in ["c/tool-1", "c"] {
        let (world, call) = started("c/tool-1", "background").await;
        let id = CallId(id.to_owned());
        world.kernel.detach(&id, &UserId::Local).unwrap();
        call.await.unwrap();
    }
    let (world, call) = started("c/tool-1", "background").await;
    let other = world
        .kernel
        .detach(&CallId("c/tool".to_owned()), &UserId::Local);
    assert!(matches!(other, Err(DetachError::NotRunning(_))));
    call.abort();
}

#[tokio::test]
async fn a_command_of_a_tool_that_cannot_run_in_the_background_is_not_detached() {
    let (world, call) = started("c", "look").await;
    let id = CallId("c".to_owned());
    let refused = world.kernel.detach(&id, &UserId::Local).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "call `c` runs no command that can continue in the background"
    );
    call.abort();
}
