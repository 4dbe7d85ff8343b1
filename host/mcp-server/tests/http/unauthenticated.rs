//! Access checks: origin, host, token and malformed requests.

use serde_json::json;
use toolhost_mcp_server::http::{
    AllowedOrigin, Exposure, HostName, HttpOptions, HttpServer, ListenError,
};

use crate::client::{MODERN, call, headers, modern, request};
use crate::test_server::{ANN, BOB, TestServer, with_tokens, without_tokens};

/// Sends a request and checks the HTTP status and the JSON-RPC error code (0 if none).
async fn check(
    site: &TestServer,
    line: &str,
    extra: &[(&str, &str)],
    body: &str,
    expected: (u16, i64),
) {
    let mut client = site.client().await;
    let answer = client.request(line, extra, body).await;
    let code = serde_json::from_str::<serde_json::Value>(&answer.body)
        .ok()
        .and_then(|answer| answer["error"]["code"].as_i64());
    assert_eq!(
        (answer.status, code.unwrap_or_default()),
        expected,
        "{line} {extra:?} {body}: {answer:?}"
    );
}

#[tokio::test]
async fn invalid_requests_get_the_specified_errors() {
    let site = TestServer::start(without_tokens()).await;
    let post = "POST /mcp";
    let good = modern(call(1, "echo", json!({}))).to_string();
    let with = |extra: &[(&'static str, &'static str)]| {
        let mut headers = headers("tools/call", "echo");
        headers.retain(|(name, _)| extra.iter().all(|(other, _)| name != other));
        headers.extend(extra);
        headers
    };
    check(&site, post, &with(&[]), &good, (200, 0)).await;

    // Origin and host.
    for origin in [
        "http://evil.example",
        "null",
        "http://localhost.evil.example",
    ] {
        check(&site, post, &with(&[("origin", origin)]), &good, (403, 0)).await;
    }
    for origin in [
        "http://localhost:3000",
        "http://127.0.0.1:1",
        "http://[::1]",
    ] {
        check(&site, post, &with(&[("origin", origin)]), &good, (200, 0)).await;
    }
    check(
        &site,
        post,
        &with(&[("host", "evil.example")]),
        &good,
        (403, 0),
    )
    .await;
    check(
        &site,
        post,
        &with(&[("host", "localhost")]),
        &good,
        (200, 0),
    )
    .await;
    check(&site, post, &[("host", "")], &good, (400, 0)).await;

    // Methods and paths.
    let modern_only = [("mcp-protocol-version", MODERN)];
    for method in ["GET", "DELETE"] {
        let line = format!("{method} /mcp");
        check(&site, &line, &[], "", (400, 0)).await;
        check(&site, &line, &modern_only, "", (405, 0)).await;
    }
    check(&site, "PUT /mcp", &[], &good, (405, 0)).await;
    check(&site, "POST /", &[], &good, (404, 0)).await;
    check(&site, "POST /mcp/", &[], &good, (404, 0)).await;
    check(&site, "POST /mcp?token=x", &with(&[]), &good, (400, 0)).await;
    check(&site, "GET /healthz", &[("host", "10.1.2.3")], "", (200, 0)).await;
    check(&site, "POST /healthz", &[], "", (405, 0)).await;

    // Headers that contradict the body.
    check(&site, post, &[], &good, (400, -32020)).await;
    check(
        &site,
        post,
        &with(&[("mcp-method", "")]),
        &good,
        (400, -32020),
    )
    .await;
    check(
        &site,
        post,
        &with(&[("mcp-name", "wait")]),
        &good,
        (400, -32020),
    )
    .await;
    check(
        &site,
        post,
        &with(&[("mcp-protocol-version", "2025-11-25")]),
        &good,
        (400, -32020),
    )
    .await;
    check(
        &site,
        post,
        &with(&[("accept", "application/json")]),
        &good,
        (406, 0),
    )
    .await;
    check(
        &site,
        post,
        &with(&[("content-type", "text/plain")]),
        &good,
        (415, 0),
    )
    .await;

    // Versions.
    let mut future = modern(call(1, "echo", json!({})));
    future["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2030-01-01");
    let version = with(&[("mcp-protocol-version", "2030-01-01")]);
    check(&site, post, &version, &future.to_string(), (400, -32022)).await;
    let mut client = site.client().await;
    let answer = client.post(&version, &future.to_string()).await.json();
    assert_eq!(answer["error"]["data"]["requested"], json!("2030-01-01"));
    assert!(
        answer["error"]["data"]["supported"]
            .to_string()
            .contains(MODERN)
    );
    let nonsense = [("mcp-protocol-version", "tomorrow")];
    check(
        &site,
        post,
        &nonsense,
        &request(1, "ping", json!({})).to_string(),
        (400, 0),
    )
    .await;

    // Methods and parameters of the protocol.
    let unknown = modern(request(1, "plugins/install", json!({}))).to_string();
    check(
        &site,
        post,
        &headers("plugins/install", ""),
        &unknown,
        (404, -32601),
    )
    .await;
    let bare = call(1, "echo", json!({})).to_string();
    check(&site, post, &with(&[]), &bare, (400, -32602)).await;
    let unknown_tool = modern(call(1, "missing", json!({}))).to_string();
    check(
        &site,
        post,
        &headers("tools/call", "missing"),
        &unknown_tool,
        (200, -32602),
    )
    .await;
    let listing = request(1, "tools/list", json!({})).to_string();
    check(&site, post, &[], &listing, (400, 0)).await;
}

#[tokio::test]
async fn malformed_messages_are_rejected_and_harmless() {
    let site = TestServer::start(without_tokens()).await;
    let mut session = site.client().await;
    session.start_session().await;
    let id = session.session().to_owned();
    for (body, code) in [
        ("", -32700),
        ("{", -32700),
        ("\0\0\0", -32700),
        ("nonsense", -32700),
        ("[]", -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
        ("1", -32600),
        ("{}", -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, -32600),
    ] {
        check(&site, "POST /mcp", &[], body, (400, code)).await;
        check(
            &site,
            "POST /mcp",
            &[("mcp-session-id", &id)],
            body,
            (400, code),
        )
        .await;
    }
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":{}{}}}}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    check(&site, "POST /mcp", &[], &deep, (400, -32600)).await;
    for strange in [
        r#"{"jsonrpc":"2.0","id":99,"result":{}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/nonsense"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}"#,
    ] {
        check(
            &site,
            "POST /mcp",
            &[("mcp-session-id", &id)],
            strange,
            (202, 0),
        )
        .await;
        check(
            &site,
            "POST /mcp",
            &[("mcp-session-id", &id)],
            strange,
            (202, 0),
        )
        .await;
    }
    assert_eq!(
        session.call(1, "echo", json!({"text": "on"})).await.text(),
        "on"
    );
    assert_eq!(session.call(2, "missing", json!({})).await.code(), -32602);
}

#[tokio::test]
async fn requests_without_a_valid_token_are_rejected() {
    let site = TestServer::start(with_tokens()).await;
    let good = modern(call(1, "echo", json!({"text": "in"}))).to_string();
    let headers = headers("tools/call", "echo");
    let mut client = site.client().await;
    let answer = client.post(&headers, &good).await;
    assert_eq!(answer.status, 401);
    assert_eq!(
        answer.headers["www-authenticate"],
        "Bearer realm=\"toolhost\""
    );
    for wrong in ["Bearer wrong", "Basic abc", &format!("Bearer {ANN}x")] {
        let mut headers = headers.clone();
        headers.push(("authorization", wrong));
        let answer = client.post(&headers, &good).await;
        assert_eq!(answer.status, 401, "{wrong}");
        let challenge = &answer.headers["www-authenticate"];
        assert!(challenge.contains("invalid_token"), "{challenge}");
        assert!(!answer.body.contains(ANN));
    }
    let line = format!("POST /mcp?access_token={ANN}");
    assert_eq!(client.request(&line, &headers, &good).await.status, 400);
    let mut client = client.with_token(ANN);
    assert_eq!(client.post(&headers, &good).await.text(), "in");
}

#[tokio::test]
async fn c_10_a_session_is_usable_by_its_user_only() {
    let site = TestServer::start(with_tokens()).await;
    let mut ann = site.client().await.with_token(ANN);
    ann.start_session().await;
    let mut bob = site.client().await.with_token(BOB);
    bob.use_session(ann.session());
    assert_eq!(bob.call(1, "echo", json!({})).await.status, 404);
    assert_eq!(bob.request("GET /mcp", &[], "").await.status, 404);
    let resume = [("last-event-id", "0/0")];
    assert_eq!(bob.request("GET /mcp", &resume, "").await.status, 404);
    assert_eq!(bob.request("DELETE /mcp", &[], "").await.status, 404);
    assert_eq!(
        ann.call(1, "echo", json!({"text": "still"})).await.text(),
        "still"
    );
    assert_eq!(ann.request("DELETE /mcp", &[], "").await.status, 204);
    assert_eq!(ann.request("DELETE /mcp", &[], "").await.status, 404);
    bob.use_session("0e7a4f3c-0000-4000-8000-000000000000");
    assert_eq!(bob.request("DELETE /mcp", &[], "").await.status, 404);
}

/// Linked texts and task results can be read by the user who made the call, in any session, but by no other user.
#[tokio::test]
async fn a_02_links_and_tasks_belong_to_the_user_who_called() {
    let site = TestServer::start_tasking(with_tokens()).await;
    let mut ann = site.client().await.with_token(ANN);
    let mut bob = site.client().await.with_token(BOB);
    ann.start_session().await;
    bob.start_session().await;
    let long = "x".repeat(300 << 10);
    let answer = ann.call(1, "echo", json!({ "text": long })).await.json();
    let uri = &answer["result"]["content"][1]["uri"];
    assert!(
        uri.as_str()
            .is_some_and(|uri| uri.starts_with("toolhost://")),
        "{answer}"
    );
    let read = request(2, "resources/read", json!({ "uri": uri })).to_string();
    assert!(bob.post(&[], &read).await.json()["error"].is_object());
    let mut again = site.client().await.with_token(ANN);
    again.start_session().await;
    let whole = again.post(&[], &read).await.json();
    assert_eq!(whole["result"]["contents"][0]["text"], json!(long));

    let mut message = modern(call(3, "wait", json!({})));
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = tasks.clone();
    let mut ann = site.client().await.with_token(ANN);
    let call_headers = headers("tools/call", "wait");
    let answer = ann.post(&call_headers, &message.to_string()).await.json();
    let id = answer["result"]["taskId"].as_str().unwrap();
    for (token, is_owner) in [(BOB, false), (ANN, true)] {
        let mut client = site.client().await.with_token(token);
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let params = json!({"taskId": id, "inputResponses": {}});
            let mut message = modern(request(4, method, params));
            message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
                tasks.clone();
            let call_headers = headers(method, id);
            let answer = client
                .post(&call_headers, &message.to_string())
                .await
                .json();
            assert_eq!(
                answer["result"].is_object(),
                is_owner,
                "{token} {method}: {answer}"
            );
        }
    }
}

#[tokio::test]
async fn a_configured_origin_may_send_requests_with_a_token() {
    let site = TestServer::start(HttpOptions {
        hosts: vec![HostName::parse("tools.example.org").unwrap()],
        origins: vec![AllowedOrigin::parse("https://app.example.org").unwrap()],
        ..with_tokens()
    })
    .await;
    let page = [
        ("host", "tools.example.org"),
        ("origin", "https://app.example.org"),
    ];
    let mut client = site.client().await;
    let mut ask = page.to_vec();
    ask.push(("access-control-request-method", "POST"));
    let answer = client.request("OPTIONS /mcp", &ask, "").await;
    assert_eq!(answer.status, 204);
    assert_eq!(
        answer.headers["access-control-allow-origin"],
        "https://app.example.org"
    );
    assert!(answer.headers["access-control-allow-headers"].contains("authorization"));
    let mut client = client.with_token(ANN);
    let mut headers = headers("tools/call", "echo");
    headers.extend(page);
    let message = modern(call(1, "echo", json!({"text": "in"}))).to_string();
    let answer = client.post(&headers, &message).await;
    assert_eq!(answer.text(), "in");
    assert_eq!(
        answer.headers["access-control-allow-origin"],
        "https://app.example.org"
    );
}

#[tokio::test]
async fn c_10_the_preflight_of_a_page_agrees_with_its_request() {
    let site = TestServer::start(with_tokens()).await;
    let message = modern(call(1, "echo", json!({"text": "in"}))).to_string();
    for (origin, may) in [
        ("http://localhost:3000", true),
        ("http://[::1]", true),
        ("http://localhost.evil.example", false),
        ("null", false),
    ] {
        let ask = [
            ("origin", origin),
            ("access-control-request-method", "POST"),
        ];
        let mut client = site.client().await;
        let preflight = client.request("OPTIONS /mcp", &ask, "").await;
        let mut headers = headers("tools/call", "echo");
        headers.push(("origin", origin));
        let mut client = client.with_token(ANN);
        let answer = client.post(&headers, &message).await;
        let statuses = if may { (204, 200) } else { (403, 403) };
        assert_eq!((preflight.status, answer.status), statuses, "{origin}");
        for answer in [preflight, answer] {
            let allowed = answer.headers.get("access-control-allow-origin");
            let allowed = allowed.map(String::as_str);
            assert_eq!(allowed, may.then_some(origin), "{origin}");
        }
    }
}

#[tokio::test]
async fn c_10_the_host_of_an_absolute_target_is_checked() {
    let site = TestServer::start(without_tokens()).await;
    let good = modern(call(1, "echo", json!({}))).to_string();
    let headers = headers("tools/call", "echo");
    let own = format!("POST http://{}/mcp", site.address);
    check(&site, &own, &headers, &good, (200, 0)).await;
    let foreign = "POST http://evil.example/mcp";
    check(&site, foreign, &headers, &good, (400, 0)).await;
    let mut renamed = headers.clone();
    renamed.push(("host", "evil.example"));
    check(&site, foreign, &renamed, &good, (403, 0)).await;
}

#[tokio::test]
async fn public_addresses_need_a_flag_and_a_token() {
    let everywhere = "0.0.0.0:0".parse().unwrap();
    let bind = |options| async move { HttpServer::bind(everywhere, options).await.err() };
    assert!(matches!(
        bind(with_tokens()).await,
        Some(ListenError::NotLoopback(_))
    ));
    let public = |options| HttpOptions {
        exposure: Exposure::Network,
        ..options
    };
    assert!(matches!(
        bind(public(without_tokens())).await,
        Some(ListenError::TokenRequired(_))
    ));
    assert!(bind(public(with_tokens())).await.is_none());
}
