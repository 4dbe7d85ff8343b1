//! Clients that send too much, do not read, or reuse request ids.

use serde_json::json;
use toolhost_mcp_server::http::HttpLimits;

use crate::client::{Client, call, headers, modern};
use crate::test_server::{ANN, TestServer, with_limits, with_tokens, without_tokens};

#[tokio::test]
async fn a_body_that_is_too_large_is_rejected() {
    let site = TestServer::start(with_limits(HttpLimits {
        body: 1 << 20,
        ..HttpLimits::default()
    }))
    .await;
    let of = |size: usize| modern(call(1, "echo", json!({"text": "x".repeat(size)}))).to_string();
    let headers = headers("tools/call", "echo");
    let mut client = site.client().await;
    assert_eq!(client.post(&headers, &of(1_000_000)).await.status, 200);
    assert_eq!(client.post(&headers, &of(2 << 20)).await.status, 413);

    // A chunked body without a declared size.
    let mut client = site.client().await;
    let mut chunked = headers.clone();
    chunked.push(("transfer-encoding", "chunked"));
    let head = client.head("POST /mcp", &chunked, None);
    client.write(head.as_bytes()).await;
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 16, "x".repeat(1 << 16));
    for _ in 0..20 {
        client.write(chunk.as_bytes()).await;
    }
    client.write(b"0\r\n\r\n").await;
    assert_eq!(client.read_response().await.status, 413);

    let mut client = site.client().await;
    let long = "x".repeat(1 << 20);
    let answer = client.request("POST /mcp", &[("x-long", &long)], "").await;
    assert_eq!(answer.status, 431);
    let mut other = site.client().await;
    assert_eq!(
        other
            .call_modern(1, "echo", json!({"text": "on"}))
            .await
            .text(),
        "on"
    );
}

#[tokio::test]
async fn c_10_no_100_continue_is_sent_for_a_rejected_body() {
    let site = TestServer::start(with_tokens()).await;
    let expects = |size: &'static str| [("expect", "100-continue"), ("content-length", size)];
    for (token, size, status) in [
        (Some(ANN), "10000000000", 413),
        (None, "10000000000", 401),
        (None, "2", 401),
    ] {
        let client = site.client().await;
        let mut client = match token {
            Some(token) => client.with_token(token),
            None => client,
        };
        let head = client.head("POST /mcp", &expects(size), None);
        client.write(head.as_bytes()).await;
        // The response starts with the final status, without `100 Continue`.
        assert_eq!(client.read_head().await.status, status, "{size}");
    }
    let mut client = site.client().await.with_token(ANN);
    let head = client.head("POST /mcp", &expects("2"), None);
    client.write(head.as_bytes()).await;
    assert_eq!(client.read_head().await.status, 100);
}

#[tokio::test]
async fn a_message_with_too_many_values_is_rejected() {
    let site = TestServer::start(without_tokens()).await;
    let mut client = site.client().await;
    let arguments = |values: usize| json!({"a": vec![json!([0]); values]});
    let headers = headers("tools/call", "echo");
    let many = modern(call(1, "echo", arguments(200_000))).to_string();
    let answer = client.post(&headers, &many).await;
    assert_eq!((answer.status, answer.code()), (400, -32600));
    assert_eq!(answer.json()["id"], 1);
    let some = modern(call(2, "echo", arguments(20_000))).to_string();
    assert_eq!(client.post(&headers, &some).await.status, 200);
    // Notifications have a lower limit, because they never wait; also with another content type.
    let aside = json!({"jsonrpc": "2.0", "method": "notifications/x", "params": arguments(20_000)});
    for kind in ["application/json", "text/plain"] {
        let answer = client
            .post(&[("content-type", kind)], &aside.to_string())
            .await;
        assert_eq!((answer.status, answer.code()), (400, -32600), "{kind}");
    }
}

#[tokio::test]
async fn a_client_that_never_reads_does_not_block_others() {
    let site = TestServer::start(without_tokens()).await;
    let mut deaf = Vec::new();
    for id in 0..3 {
        let mut client = Client::connect_narrow(site.address).await;
        client
            .send_modern(id, "big", json!({"size": 6 << 20}))
            .await;
        deaf.push(client);
    }
    let mut older = site.client().await;
    older.start_session().await;
    for id in 0..3 {
        let mut client = Client::connect_narrow(site.address).await;
        client.use_session(older.session());
        client
            .send(
                "POST /mcp",
                &[],
                &call(100 + id, "big", json!({"size": 6 << 20})).to_string(),
            )
            .await;
        deaf.push(client);
    }
    let mut other = site.client().await;
    other.start_session().await;
    for id in 0..50 {
        assert_eq!(
            other.call(id, "echo", json!({"text": "on"})).await.text(),
            "on"
        );
    }
}

#[tokio::test]
async fn an_id_in_use_is_rejected() {
    let site = TestServer::start(without_tokens()).await;
    let mut first = site.client().await;
    first.start_session().await;
    first
        .send("POST /mcp", &[], &call(7, "wait", json!({})).to_string())
        .await;
    site.tools.begun.notified().await;
    let mut second = site.client().await;
    second.use_session(first.session());
    let answer = second.call(7, "echo", json!({})).await;
    assert_eq!((answer.status, answer.code()), (400, -32600));
    assert_eq!(answer.json()["id"], 7);
    assert_eq!(
        second.call(8, "echo", json!({"text": "on"})).await.text(),
        "on"
    );
    site.tools.go.notify_one();
    assert_eq!(first.read_response().await.text(), "waited");
    assert_eq!(
        second
            .call(7, "echo", json!({"text": "again"}))
            .await
            .text(),
        "again"
    );

    // Stateless requests may reuse ids.
    let mut modern = site.client().await;
    modern.send_modern(7, "wait", json!({})).await;
    site.tools.begun.notified().await;
    let mut other = site.client().await;
    assert_eq!(
        other
            .call_modern(7, "echo", json!({"text": "on"}))
            .await
            .text(),
        "on"
    );
    site.tools.go.notify_one();
    assert_eq!(modern.read_response().await.text(), "waited");
}

#[tokio::test]
async fn a_disconnect_within_a_request_releases_its_permit() {
    let site = TestServer::start(with_limits(HttpLimits {
        in_flight: 1,
        ..HttpLimits::default()
    }))
    .await;
    for cut in [10, 60, 200] {
        let mut client = site.client().await;
        let message = modern(call(1, "echo", json!({}))).to_string();
        let request = client.head(
            "POST /mcp",
            &headers("tools/call", "echo"),
            Some(message.len()),
        ) + &message;
        client.write(&request.as_bytes()[..cut]).await;
    }
    let mut client = site.client().await;
    for id in 0..3 {
        assert_eq!(
            client
                .call_modern(id, "echo", json!({"text": "on"}))
                .await
                .text(),
            "on"
        );
    }
}
