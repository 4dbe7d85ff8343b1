//! Tests of a host that serves clients while its plugins are compiled.

use serde_json::{Value, json};
use tokio::sync::watch;
use toolhost_mcp::Readiness;

use crate::fake::{Client, call, modern, request};

fn starting() -> (Client, watch::Sender<Readiness>) {
    let (readiness, heard) = watch::channel(Readiness::Loading);
    (Client::of_starting_host(heard), readiness)
}

fn names(list: &Value) -> Vec<&str> {
    let tools = list["result"]["tools"].as_array().unwrap();
    tools
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn c_04_clients_are_answered_before_the_plugins_are_loaded() {
    let (mut client, readiness) = starting();
    let found = client
        .ask(&modern(request(1, "server/discover", json!({}))))
        .await;
    assert!(
        found["result"]["supportedVersions"][0].is_string(),
        "{found}"
    );
    drop((client, readiness));

    let (client, readiness) = starting();
    let mut client = client.greeted("2025-11-25", json!({})).await;
    client.say(&request(1, "tools/list", json!({}))).await;
    client.say(&call(2, "echo", json!({"text": "hi"}))).await;
    // Both wait: the next response is that of the ping.
    client.ask(&request(3, "ping", json!({}))).await;
    client.register();
    readiness.send_replace(Readiness::Settled);
    let mut heard = [client.hear().await, client.hear().await];
    heard.sort_by_key(|answer| answer["id"].as_u64());
    assert!(names(&heard[0]).contains(&"echo"), "{}", heard[0]);
    assert_eq!(
        heard[1]["result"]["content"][0]["text"], "hi",
        "{}",
        heard[1]
    );
    // No change notification follows.
    assert_eq!(client.close().await, Vec::<Value>::new());
}

#[tokio::test(start_paused = true)]
async fn c_04_a_list_that_came_too_early_is_followed_by_a_change() {
    let (client, readiness) = starting();
    let mut client = client.greeted("2025-11-25", json!({})).await;
    // The clock is paused, so the wait ends at once.
    let early = client.ask(&request(1, "tools/list", json!({}))).await;
    assert_eq!(names(&early), Vec::<&str>::new());
    client.register();
    readiness.send_replace(Readiness::Settled);
    let told = client.hear().await;
    assert_eq!(told["method"], "notifications/tools/list_changed", "{told}");
    let list = client.ask(&request(2, "tools/list", json!({}))).await;
    assert!(names(&list).contains(&"echo"), "{list}");
}

#[tokio::test(start_paused = true)]
async fn c_04_the_version_of_a_client_does_not_decide_what_its_calls_reach() {
    // A host with roots serves only versions that support them.
    let mut client = Client::of_host_with_roots();
    let refused = client
        .ask(&modern(request(1, "server/discover", json!({}))))
        .await;
    assert_eq!(refused["error"]["code"], -32022, "{refused}");
    let mut client = client.greeted("2025-11-25", json!({"roots": {}})).await;
    let called = modern(call(1, "look", json!({"path": "/workspace/a"})));
    let refused = client.ask(&called).await;
    assert_eq!(refused["error"]["code"], -32022, "{refused}");

    // A host without roots does not send `roots/list`.
    let mut client = Client::new()
        .greeted("2025-11-25", json!({"roots": {}}))
        .await;
    let result = client.call("look", json!({"path": "/workspace/a"})).await;
    assert_eq!(result["isError"], false, "{result}");
}
