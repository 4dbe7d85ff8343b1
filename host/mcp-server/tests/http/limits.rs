//! Limits per user: one client cannot exhaust the limits of another.

use std::num::NonZeroU32;
use std::time::Duration;

use serde_json::json;
use toolhost_mcp_server::http::{HttpLimits, HttpOptions};

use crate::client::{call, headers, modern, request};
use crate::test_server::{ANN, BOB, TestServer, with_limits, with_tokens};

#[tokio::test]
async fn the_rate_limit_is_per_user() {
    let site = TestServer::start(HttpOptions {
        limits: HttpLimits {
            rate: NonZeroU32::new(2),
            ..HttpLimits::default()
        },
        ..with_tokens()
    })
    .await;
    let mut ann = site.client().await.with_token(ANN);
    let mut refused = 0;
    for id in 0..20 {
        let answer = ann.call_modern(id, "echo", json!({})).await;
        if answer.status == 429 {
            refused += 1;
            assert_eq!(answer.headers["retry-after"], "1");
        }
    }
    assert!(refused > 0);
    let mut bob = site.client().await.with_token(BOB);
    assert_eq!(bob.call_modern(1, "echo", json!({})).await.status, 200);
}

#[tokio::test]
async fn requests_beyond_the_limit_wait_and_notifications_do_not() {
    let site = TestServer::start(with_limits(HttpLimits {
        in_flight: 1,
        ..HttpLimits::default()
    }))
    .await;
    let mut client = site.client().await;
    // `initialize` releases its permit.
    client.start_session().await;
    client.call(1, "echo", json!({})).await;
    client
        .send("POST /mcp", &[], &call(2, "wait", json!({})).to_string())
        .await;
    site.tools.begun.notified().await;
    let mut second = site.client().await;
    second
        .send_modern(3, "echo", json!({"text": "later"}))
        .await;
    // Streams and notifications need no permit, and the second request still waits.
    let mut third = site.client().await;
    third.use_session(client.session());
    third.send("GET /mcp", &[], "").await;
    assert_eq!(third.read_head().await.status, 200);
    let mut fourth = site.client().await;
    fourth.use_session(client.session());
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#;
    assert_eq!(fourth.post(&[], cancel).await.status, 202);
    site.tools.dropped.notified().await;
    assert_eq!(second.read_response().await.text(), "later");
}

#[tokio::test]
async fn a_subscription_needs_no_request_permit() {
    let site = TestServer::start(with_limits(HttpLimits {
        in_flight: 1,
        sessions: 1,
        ..HttpLimits::default()
    }))
    .await;
    let listen = modern(request(
        1,
        "subscriptions/listen",
        json!({"notifications": {"toolsListChanged": true}}),
    ));
    let mut client = site.client().await;
    client
        .send(
            "POST /mcp",
            &headers("subscriptions/listen", ""),
            &listen.to_string(),
        )
        .await;
    let answer = client.read_head().await;
    let mut other = site.client().await;
    assert_eq!(
        other
            .call_modern(2, "echo", json!({"text": "in"}))
            .await
            .text(),
        "in"
    );
    if answer.headers["content-type"].starts_with("text/event-stream") {
        let again = other
            .post(&headers("subscriptions/listen", ""), &listen.to_string())
            .await;
        assert_eq!(again.status, 429);
    }
}

#[tokio::test]
async fn sessions_are_counted_by_their_owner_and_end_when_idle() {
    let options = |idle| HttpOptions {
        limits: HttpLimits {
            sessions: 2,
            idle,
            ..HttpLimits::default()
        },
        ..with_tokens()
    };
    let site = TestServer::start(options(Duration::from_hours(1))).await;
    for expected in [200, 200, 503] {
        let mut ann = site.client().await.with_token(ANN);
        assert_eq!(ann.start_session().await.status, expected);
    }
    let mut bob = site.client().await.with_token(BOB);
    assert_eq!(bob.start_session().await.status, 200);

    let site = TestServer::start(options(Duration::from_millis(300))).await;
    let mut busy = site.client().await.with_token(ANN);
    busy.start_session().await;
    let mut stream = site.client().await.with_token(ANN);
    stream.use_session(busy.session());
    stream.send("GET /mcp", &[], "").await;
    assert_eq!(stream.read_head().await.status, 200);
    let mut idle = site.client().await.with_token(ANN);
    idle.start_session().await;
    // A new session is accepted as soon as the idle one has ended.
    let mut third = site.client().await.with_token(ANN);
    while third.initialize().await.status != 200 {
        tokio::task::yield_now().await;
    }
    assert_eq!(idle.call(1, "echo", json!({})).await.status, 404);
    assert_eq!(
        busy.call(1, "echo", json!({"text": "on"})).await.text(),
        "on"
    );
}

#[tokio::test]
async fn connections_beyond_the_limit_get_503() {
    let site = TestServer::start(with_limits(HttpLimits {
        connections: 2,
        ..HttpLimits::default()
    }))
    .await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut client = site.client().await;
        assert_eq!(client.call_modern(1, "echo", json!({})).await.status, 200);
        held.push(client);
    }
    let mut third = site.client().await;
    assert_eq!(third.read_head().await.status, 503);
    assert!(third.is_closed().await);
    held.pop();
    let answer = held[0].call_modern(2, "echo", json!({"text": "on"})).await;
    assert_eq!(answer.text(), "on");
}

#[tokio::test]
async fn unauthenticated_connections_do_not_block_clients_with_tokens() {
    // As many as the total limit, and more than the limit for unauthenticated connections.
    for (connections, silent) in [(8, 8), (400, 300)] {
        let site = TestServer::start(HttpOptions {
            limits: HttpLimits {
                connections,
                ..HttpLimits::default()
            },
            ..with_tokens()
        })
        .await;
        let mut known = site.client().await.with_token(ANN);
        let reply = known.call_modern(1, "echo", json!({"text": "in"})).await;
        assert_eq!(reply.text(), "in");
        let mut held = Vec::new();
        for at in 0..silent {
            let mut unauthenticated = site.client().await;
            if at % 2 == 0 {
                let answer = unauthenticated.call_modern(1, "echo", json!({})).await;
                assert_eq!(answer.status, 401);
            }
            held.push(unauthenticated);
        }
        let mut bob = site.client().await.with_token(BOB);
        let reply = bob.call_modern(2, "echo", json!({"text": "in"})).await;
        assert_eq!(reply.text(), "in");
        assert!(held[0].is_closed().await);
        let reply = known.call_modern(3, "echo", json!({"text": "on"})).await;
        assert_eq!(reply.text(), "on");
    }
}
