//! Differences between session-based and stateless clients.

use std::sync::Arc;

use serde_json::{Value, json};
use toolhost_contract::{
    Backend, BoxFuture, Call, CallError, Descriptor, Grant, Outcome, PluginName, Sink, ToolName,
};
use toolhost_kernel::PluginInfo;

use crate::harness::{Client, call, modern, request};

/// A plugin whose tools do nothing.
struct Idle(Vec<Descriptor>);

impl Idle {
    fn new(count: usize) -> Arc<Self> {
        let name = |number| ToolName::parse(&format!("idle_{number:04}")).unwrap();
        let tools = (0..count).map(|number| Descriptor::new(name(number), "does nothing"));
        Arc::new(Self(tools.collect()))
    }
}

impl Backend for Idle {
    fn tools(&self) -> &[Descriptor] {
        &self.0
    }

    fn invoke(
        &self,
        _call: Call,
        _grant: Grant,
        _sink: Arc<dyn Sink>,
    ) -> BoxFuture<'_, Result<Outcome, CallError>> {
        Box::pin(async { Ok(Outcome::default()) })
    }
}

fn load(client: &Client, count: usize) {
    let info = PluginInfo {
        name: PluginName::parse("idle").unwrap(),
        version: "1.0.0".to_owned(),
        digest: None,
        timeout: None,
    };
    client.kernel.register(info, Idle::new(count)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_long_list_comes_in_pages_of_a_hundred() {
    let mut client = Client::initialized().await;
    client.request(&request(1, "ping", json!({}))).await;
    load(&client, 200);
    assert_eq!(
        client.receive().await["method"],
        json!("notifications/tools/list_changed")
    );
    let (mut sizes, mut names, mut cursor) = (Vec::new(), Vec::new(), None);
    loop {
        let params = cursor.map_or_else(|| json!({}), |cursor: Value| json!({"cursor": cursor}));
        let answer = client.request(&request(1, "tools/list", params)).await;
        let tools = answer["result"]["tools"].as_array().unwrap();
        sizes.push(tools.len());
        names.extend(tools.iter().map(|tool| tool["name"].to_string()));
        match answer["result"].get("nextCursor") {
            Some(next) => cursor = Some(next.clone()),
            None => break,
        }
    }
    assert_eq!(sizes, [100, 100, 12]);
    let sorted = {
        let mut sorted = names.clone();
        sorted.sort();
        sorted.dedup();
        sorted
    };
    assert_eq!(names, sorted);
    let answer = client
        .request(&request(2, "tools/list", json!({"cursor": "7"})))
        .await;
    assert_eq!(answer["error"]["code"], json!(-32602), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn session_clients_are_notified_of_new_tools() {
    let mut client = Client::initialized().await;
    client.request(&request(1, "ping", json!({}))).await;
    load(&client, 1);
    let received = client.receive().await;
    assert_eq!(
        received["method"],
        json!("notifications/tools/list_changed")
    );
    client
        .kernel
        .unregister(&PluginName::parse("idle").unwrap());
    let received = client.receive().await;
    assert_eq!(
        received["method"],
        json!("notifications/tools/list_changed")
    );
    assert_eq!(client.close().await, [] as [Value; 0]);
}

#[tokio::test(start_paused = true)]
async fn subscribers_are_notified_of_new_tools() {
    let mut client = Client::new();
    client
        .request(&modern(request(1, "tools/list", json!({}))))
        .await;
    let wanted = json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true}});
    client
        .send(&modern(request(2, "subscriptions/listen", wanted)))
        .await;
    let first = client.receive().await;
    assert_eq!(
        first["method"],
        json!("notifications/subscriptions/acknowledged")
    );
    assert_eq!(
        first["params"]["notifications"],
        json!({"toolsListChanged": true}),
        "only supported notifications: {first}"
    );
    load(&client, 1);
    let received = client.receive().await;
    assert_eq!(
        received["method"],
        json!("notifications/tools/list_changed")
    );
    let id = &received["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    assert_eq!(id, &json!(2), "{received}");

    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
    client.send(&cancelled).await;
    client
        .request(&modern(request(3, "tools/list", json!({}))))
        .await;
    load_again(&client);
    client
        .request(&modern(request(4, "tools/list", json!({}))))
        .await;
    assert_eq!(client.close().await, [] as [Value; 0]);
}

fn load_again(client: &Client) {
    let name = PluginName::parse("idle").unwrap();
    assert!(client.kernel.unregister(&name));
}

#[tokio::test(start_paused = true)]
async fn each_era_has_only_its_own_methods() {
    let mut older = Client::initialized().await;
    let mut newest = Client::new();
    newest
        .request(&modern(request(1, "tools/list", json!({}))))
        .await;
    for method in ["ping", "logging/setLevel", "resources/subscribe"] {
        let params = json!({"level": "info", "uri": "a:b"});
        let answer = newest.request(&modern(request(2, method, params))).await;
        assert_eq!(answer["error"]["code"], json!(-32601), "{method}: {answer}");
    }
    let listen = request(2, "subscriptions/listen", json!({"notifications": {}}));
    let answer = older.request(&listen).await;
    assert_eq!(answer["error"]["code"], json!(-32601), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_version_is_answered_with_the_supported_ones() {
    let mut client = Client::new();
    let mut message = modern(request(1, "tools/list", json!({})));
    message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2030-01-01");
    let answer = client.request(&message).await;
    assert_eq!(answer["error"]["code"], json!(-32022), "{answer}");
    assert_eq!(answer["error"]["data"]["requested"], json!("2030-01-01"));
    let supported = answer["error"]["data"]["supported"].as_array().unwrap();
    assert!(supported.contains(&json!("2026-07-28")));

    let hello = json!({"protocolVersion": "2030-01-01", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    let answer = client.request(&request(2, "initialize", hello)).await;
    assert_eq!(answer["result"]["protocolVersion"], json!("2025-11-25"));
}

#[tokio::test(start_paused = true)]
async fn results_contain_server_info_and_ttl() {
    let mut client = Client::new();
    let signature = json!({"name": "host", "version": "1.2.3"});
    for (method, params) in [
        ("server/discover", json!({})),
        ("tools/list", json!({})),
        (
            "tools/call",
            json!({"name": "echo", "arguments": {"text": "hi"}}),
        ),
    ] {
        let answer = client.request(&modern(request(1, method, params))).await;
        let result = &answer["result"];
        assert_eq!(
            result["_meta"]["io.modelcontextprotocol/serverInfo"], signature,
            "{answer}"
        );
        assert_eq!(result["resultType"], json!("complete"), "{answer}");
        if method != "tools/call" {
            assert!(result["ttlMs"].as_u64().unwrap() > 0, "{answer}");
            assert_eq!(result["cacheScope"], json!("private"), "{answer}");
        }
    }
    let mut older = Client::initialized().await;
    let answer = older.request(&request(1, "tools/list", json!({}))).await;
    assert_eq!(
        answer["result"]
            .as_object()
            .unwrap()
            .keys()
            .collect::<Vec<_>>(),
        ["tools"]
    );
}

#[tokio::test(start_paused = true)]
async fn late_and_repeated_cancellations_are_ignored() {
    let cancel = |id: u32| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    for newest in [false, true] {
        let mut client = if newest {
            Client::new()
        } else {
            Client::initialized().await
        };
        let form = |message: Value| if newest { modern(message) } else { message };
        client
            .request(&form(call(1, "echo", json!({"text": "hi"}))))
            .await;
        client.send(&cancel(1)).await;
        client.send(&cancel(99)).await;
        client.send(&form(call(2, "wait", json!({})))).await;
        client.tools.begun.notified().await;
        client.send(&cancel(2)).await;
        client.send(&cancel(2)).await;
        client.tools.dropped.notified().await;
        client
            .request(&form(call(3, "echo", json!({"text": "hi"}))))
            .await;
        assert_eq!(client.close().await, [] as [Value; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_states_the_agent_and_the_task_of_a_call() {
    let mut client = Client::initialized().await;
    let mut events = client.kernel.subscribe(None, None);
    let mut stated = call(1, "echo", json!({"text": "hi"}));
    stated["params"]["_meta"] =
        json!({"dev.toolhost/agent": "reviewer", "dev.toolhost/task": "t-1"});
    let answer = client.request(&stated).await;
    assert_eq!(answer["result"]["isError"], json!(false), "{answer}");
    let event = events.try_next().unwrap().unwrap();
    let caller = &event.caller;
    assert_eq!((&*caller.agent, &*caller.task), ("reviewer", "t-1"));
    stated["params"]["_meta"]["dev.toolhost/agent"] = json!("a b");
    let refused = client.request(&stated).await;
    assert_eq!(refused["error"]["code"], json!(-32602), "{refused}");
}
