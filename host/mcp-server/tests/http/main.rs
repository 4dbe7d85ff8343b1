//! Tests of the HTTP server with well-behaved and hostile clients of all protocol versions.

// Links the coverage runtime, with which `cargo xtask fuzz` compiles this target too.
use bolero as _;

mod client;
mod limits;
mod malformed;
mod prompts;
mod question_views;
mod test_server;
mod unauthenticated;

use futures::FutureExt as _;
use serde_json::json;

use client::{MODERN, headers, modern, request};
use test_server::{ANN, BOB, TestServer, with_tokens, without_tokens};

#[tokio::test]
async fn sessions_and_stateless_requests_list_and_call() {
    let site = TestServer::start(without_tokens()).await;
    let mut older = site.client().await;
    let hello = older.start_session().await;
    assert_eq!(hello.json()["result"]["serverInfo"]["name"], json!("host"));
    assert!(older.session().len() >= 32, "session ids are unguessable");
    let list = older
        .post(&[], &request(1, "tools/list", json!({})).to_string())
        .await;
    assert_eq!(list.json()["result"]["tools"].as_array().unwrap().len(), 3);
    assert_eq!(list.headers["x-accel-buffering"], "no");
    assert_eq!(
        older.call(2, "echo", json!({"text": "hi"})).await.text(),
        "hi"
    );

    let mut newest = site.client().await;
    let discover = modern(request(1, "server/discover", json!({}))).to_string();
    let answer = newest
        .post(&headers("server/discover", ""), &discover)
        .await;
    let versions = answer.json()["result"]["supportedVersions"].to_string();
    assert!(versions.contains(MODERN), "{versions}");
    let list = modern(request(2, "tools/list", json!({}))).to_string();
    let list = newest.post(&headers("tools/list", ""), &list).await;
    assert_eq!(list.json()["result"]["tools"].as_array().unwrap().len(), 3);
    assert!(list.json()["result"]["ttlMs"].is_u64(), "{list:?}");
    assert!(!list.headers.contains_key("mcp-session-id"));
    let answer = newest.call_modern(3, "echo", json!({"text": "hi"})).await;
    assert_eq!(answer.text(), "hi");
}

#[tokio::test]
async fn delete_ends_a_session() {
    let site = TestServer::start(without_tokens()).await;
    let mut client = site.client().await;
    client.start_session().await;
    assert_eq!(client.request("DELETE /mcp", &[], "").await.status, 204);
    assert_eq!(client.call(1, "echo", json!({})).await.status, 404);
    client.use_session("00000000-0000-0000-0000-000000000000");
    assert_eq!(client.call(1, "echo", json!({})).await.status, 404);
    assert_eq!(client.request("GET /mcp", &[], "").await.status, 404);
}

#[tokio::test]
async fn stateless_requests_may_reach_different_servers() {
    let (one, other) = (
        TestServer::start(with_tokens()).await,
        TestServer::start(with_tokens()).await,
    );
    for id in 0..4 {
        for site in [&one, &other] {
            let mut client = site.client().await.with_token(ANN);
            let answer = client.call_modern(id, "echo", json!({"text": "hi"})).await;
            assert_eq!(answer.text(), "hi");
        }
    }
}

#[tokio::test]
async fn a_11_calls_are_recorded_with_user_and_full_session_key() {
    let site = TestServer::start(with_tokens()).await;
    let mut ann = site.client().await.with_token(ANN);
    let mut bob = site.client().await.with_token(BOB);
    let mut modern = site.client().await.with_token(ANN);
    ann.start_session().await;
    bob.start_session().await;
    ann.call(1, "echo", json!({})).await;
    bob.call(1, "echo", json!({})).await;
    // A session id in a stateless request is ignored.
    let made_up = bob.session().to_owned();
    modern.use_session(&made_up);
    modern.call_modern(1, "echo", json!({})).await;
    modern.call_modern(1, "echo", json!({})).await;
    let calls = site.tools.calls.lock().unwrap();
    let users: Vec<_> = calls.iter().map(|(_, caller)| caller.user.name()).collect();
    assert_eq!(users, [Some("ann"), Some("bob"), Some("ann"), Some("ann")]);
    let sessions: Vec<_> = calls.iter().map(|(_, caller)| &caller.session).collect();
    assert_ne!(sessions[0], sessions[1]);
    assert_ne!(sessions[1], sessions[2]);
    assert_eq!(sessions[2], sessions[3]);
    for session in &sessions[..2] {
        assert!(session.as_str().len() >= 16, "80 random bits: {session}");
    }
    assert!(
        !sessions[1].as_str().contains(&made_up),
        "records do not contain session ids"
    );
    let mut ids: Vec<_> = calls.iter().map(|(id, _)| id).collect();
    ids.dedup();
    assert_eq!(ids.len(), 4);
}

#[tokio::test]
async fn a_disconnect_ends_stateless_calls_but_not_session_calls() {
    let site = TestServer::start(without_tokens()).await;
    let mut client = site.client().await;
    client.send_modern(1, "wait", json!({})).await;
    site.tools.begun.notified().await;
    drop(client);
    site.tools.dropped.notified().await;

    let mut client = site.client().await;
    client.start_session().await;
    let message = client::call(1, "wait", json!({})).to_string();
    client.send("POST /mcp", &[], &message).await;
    site.tools.begun.notified().await;
    let mut other = site.client().await;
    other.use_session(client.session());
    drop(client);
    assert_eq!(
        other.call(2, "echo", json!({"text": "on"})).await.text(),
        "on"
    );
    // The call continues until it is cancelled in the session.
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    assert_eq!(other.post(&[], cancel).await.status, 202);
    site.tools.dropped.notified().await;
}

#[tokio::test]
async fn two_hundred_sessions_work_concurrently() {
    let site = TestServer::start(without_tokens()).await;
    let mut clients = Vec::new();
    for number in 0..200 {
        let mut client = site.client().await;
        clients.push(tokio::spawn(async move {
            assert_eq!(client.start_session().await.status, 200);
            for id in 1..=5 {
                let text = format!("{number}-{id}");
                let answer = client.call(id, "echo", json!({"text": text})).await;
                assert_eq!(answer.text(), text);
            }
        }));
    }
    for client in clients {
        client.await.unwrap();
    }
    assert_eq!(site.tools.calls.lock().unwrap().len(), 1000);
}

#[tokio::test]
async fn a_server_that_stops_lets_calls_finish() {
    let mut site = TestServer::start(without_tokens()).await;
    let (mut older, mut newest) = (site.client().await, site.client().await);
    older.start_session().await;
    let mut stream = site.client().await;
    stream.use_session(older.session());
    stream.send("GET /mcp", &[], "").await;
    assert_eq!(stream.read_head().await.status, 200);
    let message = client::call(1, "wait", json!({})).to_string();
    older.send("POST /mcp", &[], &message).await;
    site.tools.begun.notified().await;
    newest.send_modern(1, "wait", json!({})).await;
    site.tools.begun.notified().await;
    site.stop();
    while tokio::net::TcpStream::connect(site.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    site.tools.go.notify_one();
    site.tools.go.notify_one();
    // Both calls continue and are answered.
    assert_eq!(older.read_response().await.text(), "waited");
    site.tools.go.notify_one();
    assert_eq!(newest.read_response().await.text(), "waited");
    site.end().await;
}

#[tokio::test]
async fn remaining_calls_are_cancelled_after_the_grace_period() {
    for hurry in [false, true] {
        let mut options = without_tokens();
        options.limits.grace = if hurry {
            test_server::NEVER * 10
        } else {
            std::time::Duration::from_millis(50)
        };
        let mut site = TestServer::start(options).await;
        let (mut older, mut newest) = (site.client().await, site.client().await);
        older.start_session().await;
        let message = client::call(1, "wait", json!({})).to_string();
        older.send("POST /mcp", &[], &message).await;
        site.tools.begun.notified().await;
        newest.send_modern(1, "wait", json!({})).await;
        site.tools.begun.notified().await;
        site.stop();
        if hurry {
            site.hurry();
        }
        let tools = std::sync::Arc::clone(&site.tools);
        site.end().await;
        tools.dropped.notified().await;
    }
}

#[tokio::test]
async fn tasks_get_the_grace_period() {
    for finishes in [true, false] {
        let mut options = without_tokens();
        options.limits.grace = if finishes {
            test_server::NEVER * 10
        } else {
            std::time::Duration::from_millis(50)
        };
        let mut site = TestServer::start_tasking(options).await;
        let mut client = site.client().await;
        let mut message = modern(client::call(1, "wait", json!({})));
        let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
        let headers = headers("tools/call", "wait");
        let answer = client.post(&headers, &message.to_string()).await.json();
        assert_eq!(answer["result"]["resultType"], json!("task"), "{answer}");
        site.tools.begun.notified().await;
        site.stop();
        while tokio::net::TcpStream::connect(site.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        let tools = std::sync::Arc::clone(&site.tools);
        if finishes {
            tools.go.notify_one();
            site.end().await;
            assert!(tools.dropped.notified().now_or_never().is_none());
        } else {
            site.end().await;
            tools.dropped.notified().await;
        }
    }
}
