//! Tests of a host that serves clients while its plugins are compiled.

use serde_json::{Value, json};
use tokio::sync::watch;
use toolhost_mcp_server::Readiness;

use crate::harness::{Client, call, modern, request};

fn starting() -> (Client, watch::Sender<Readiness>) {
    let (readiness, received) = watch::channel(Readiness::Loading);
    (Client::while_starting(received), readiness)
}

fn names(list: &Value) -> Vec<&str> {
    let tools = list["result"]["tools"].as_array().unwrap();
    tools
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn c_04_clients_are_served_before_the_plugins_are_loaded() {
    let (mut client, readiness) = starting();
    let found = client
        .request(&modern(request(1, "server/discover", json!({}))))
        .await;
    assert!(
        found["result"]["supportedVersions"][0].is_string(),
        "{found}"
    );
    drop((client, readiness));

    let (client, readiness) = starting();
    let mut client = client.start_session("2025-11-25", json!({})).await;
    client.send(&request(1, "tools/list", json!({}))).await;
    client.send(&call(2, "echo", json!({"text": "hi"}))).await;
    // Both wait: the next response is that of the ping.
    client.request(&request(3, "ping", json!({}))).await;
    client.register();
    readiness.send_replace(Readiness::Settled);
    let mut received = [client.receive().await, client.receive().await];
    received.sort_by_key(|answer| answer["id"].as_u64());
    assert!(names(&received[0]).contains(&"echo"), "{}", received[0]);
    assert_eq!(
        received[1]["result"]["content"][0]["text"], "hi",
        "{}",
        received[1]
    );
    // No change notification follows.
    assert_eq!(client.close().await, Vec::<Value>::new());
}

#[tokio::test(start_paused = true)]
async fn c_04_an_incomplete_list_is_followed_by_a_change() {
    let (client, readiness) = starting();
    let mut client = client.start_session("2025-11-25", json!({})).await;
    // The clock is paused, so the wait ends at once.
    let early = client.request(&request(1, "tools/list", json!({}))).await;
    assert_eq!(names(&early), Vec::<&str>::new());
    client.register();
    readiness.send_replace(Readiness::Settled);
    let notification = client.receive().await;
    assert_eq!(
        notification["method"], "notifications/tools/list_changed",
        "{notification}"
    );
    let list = client.request(&request(2, "tools/list", json!({}))).await;
    assert!(names(&list).contains(&"echo"), "{list}");
}

#[tokio::test(start_paused = true)]
async fn c_04_a_client_cannot_avoid_roots_by_its_version() {
    // A host with roots serves only versions that support them.
    let mut client = Client::with_roots();
    let refused = client
        .request(&modern(request(1, "server/discover", json!({}))))
        .await;
    assert_eq!(refused["error"]["code"], -32022, "{refused}");
    let mut client = client
        .start_session("2025-11-25", json!({"roots": {}}))
        .await;
    let called = modern(call(1, "look", json!({"path": "/workspace/a"})));
    let refused = client.request(&called).await;
    assert_eq!(refused["error"]["code"], -32022, "{refused}");

    // A host without roots does not send `roots/list`.
    let mut client = Client::new()
        .start_session("2025-11-25", json!({"roots": {}}))
        .await;
    let result = client.call("look", json!({"path": "/workspace/a"})).await;
    assert_eq!(result["isError"], false, "{result}");
}
