//! Tests of the stdio server with session-based and stateless clients.

// Links the coverage runtime, with which `cargo xtask fuzz` compiles this target too.
use bolero as _;

mod approval_forms;
mod approvals;
mod eras;
mod harness;
mod question_views;
mod roots;
mod startup;
mod tasks;
mod user_questions;

use serde_json::{Value, json};
use tokio::time::{Duration, timeout};

use harness::{Client, call, modern, request};

const TOOLS: [&str; 12] = [
    "break_down",
    "count",
    "echo",
    "hand_on",
    "look",
    "odd_schema",
    "panic",
    "refuse",
    "survey",
    "talk",
    "wait",
    "wipe",
];

fn names(answer: &Value) -> Vec<&str> {
    answer["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_session_client_lists_and_calls() {
    for version in ["2025-06-18", "2025-11-25"] {
        let mut client = Client::new();
        let hello = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        let answer = client.request(&request(1, "initialize", hello)).await;
        assert_eq!(answer["result"]["protocolVersion"], json!(version));
        assert_eq!(
            answer["result"]["serverInfo"],
            json!({"name": "host", "version": "1.2.3"})
        );
        assert_eq!(answer["result"]["instructions"], json!("instructions"));
        assert_eq!(
            answer["result"]["capabilities"],
            json!({"logging": {}, "resources": {}, "tools": {"listChanged": true}})
        );
        client
            .send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
        assert_eq!(
            names(&client.request(&request(2, "tools/list", json!({}))).await),
            TOOLS
        );
        let answer = client
            .request(&call(3, "echo", json!({"text": "hi"})))
            .await;
        assert_eq!(
            answer["result"],
            json!({"content": [{"type": "text", "text": "hi"}], "isError": false})
        );
        assert_eq!(client.close().await, [] as [Value; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stateless_client_needs_no_initialize() {
    let mut client = Client::new();
    let answer = client
        .request(&modern(request(1, "server/discover", json!({}))))
        .await;
    let versions = answer["result"]["supportedVersions"].as_array().unwrap();
    assert!(
        versions.contains(&json!("2026-07-28")) && versions.contains(&json!("2025-06-18")),
        "{answer}"
    );
    let answer = client
        .request(&modern(request(2, "tools/list", json!({}))))
        .await;
    assert_eq!(names(&answer), TOOLS);
    assert_eq!(answer["result"]["cacheScope"], json!("private"));
    let answer = client
        .request(&modern(call(3, "echo", json!({"text": "hi"}))))
        .await;
    let content = json!([{"type": "text", "text": "hi"}]);
    let signed =
        json!({"io.modelcontextprotocol/serverInfo": {"name": "host", "version": "1.2.3"}});
    assert_eq!(
        answer["result"],
        json!({"content": content, "isError": false, "resultType": "complete", "_meta": signed})
    );
    assert_eq!(*client.tools.ids.lock().unwrap(), ["s-1"]);
    let answer = client
        .request(&call(4, "echo", json!({"text": "hi"})))
        .await;
    assert_eq!(
        answer["error"]["code"],
        json!(-32602),
        "without its _meta: {answer}"
    );
    assert_eq!(client.close().await, [] as [Value; 0]);
}

#[tokio::test(start_paused = true)]
async fn annotations_match_the_sandbox() {
    let mut client = Client::initialized().await;
    let mut answer = client.request(&request(1, "tools/list", json!({}))).await;
    let tools = answer["result"]["tools"].take();
    assert_eq!(tools[1]["outputSchema"], Value::Null);
    assert_eq!(
        tools[0],
        json!({
            "name": "break_down", "title": "Break Down", "description": "does break_down",
            "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false},
            "_meta": {"dev.toolhost/capabilities": {"effect": "reads", "requires": []}},
        })
    );
    let hints = json!({"readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": false});
    assert_eq!(tools[11]["annotations"], hints);
    let capabilities =
        json!({"dev.toolhost/capabilities": {"effect": "destroys", "requires": ["fs.write"]}});
    assert_eq!(tools[11]["_meta"], capabilities);
    assert_eq!(tools[5]["inputSchema"], json!({"type": "object"}));
    let again = client.request(&request(2, "tools/list", json!({}))).await;
    assert_eq!(again["result"]["tools"], tools);
}

#[tokio::test(start_paused = true)]
async fn failed_calls_are_tool_errors() {
    let mut client = Client::initialized().await;
    for (tool, arguments, expected, class, code) in [
        (
            "echo",
            json!({}),
            "text",
            "invalid_tool_params",
            "invalid_tool_params",
        ),
        (
            "wipe",
            json!({}),
            "--allow-tool wipe",
            "permission_denied",
            "policy_violation",
        ),
        (
            "break_down",
            json!({}),
            "timed out after 1500ms",
            "timeout",
            "timeout",
        ),
        (
            "refuse",
            json!({}),
            "it ended with 1",
            "failed",
            "exit_status",
        ),
        (
            "panic",
            json!({}),
            "internal host error",
            "internal",
            "internal",
        ),
    ] {
        let result = client.call(tool, arguments).await;
        assert_eq!(result["isError"], json!(true), "{tool}");
        assert!(
            result["content"][0]["text"]
                .as_str()
                .unwrap()
                .contains(expected),
            "{tool}: {result}"
        );
        let details = json!({"class": class, "code": code, "retryable": false});
        assert_eq!(result["_meta"]["dev.toolhost/error"], details, "{tool}");
    }
    let result = client.call("count", json!({})).await;
    assert_eq!(result["structuredContent"], json!({"n": 3}));
    assert_eq!(result["content"][0]["text"], json!(r#"{"n":3}"#));
}

#[tokio::test(start_paused = true)]
async fn invalid_requests_are_protocol_errors() {
    let mut client = Client::initialized().await;
    for (request, code, expected) in [
        (call(1, "ecko", json!({})), -32602, "Did you mean: echo?"),
        (call(2, "\u{1b}[2J", json!({})), -32602, r"\u{1b}[2J"),
        (
            call(3, "echo", json!("text")),
            -32602,
            "`arguments` must be an object",
        ),
        (
            call(4, "echo", json!(["text"])),
            -32602,
            "`arguments` must be an object",
        ),
        (
            request(5, "tools/call", json!({"arguments": {}})),
            -32602,
            "`name` is missing",
        ),
        (
            request(6, "tools/call", json!({"name": 7})),
            -32602,
            "`name` must be a string",
        ),
        (
            request(7, "tools/call", json!(null)),
            -32602,
            "must be an object",
        ),
        (
            request(8, "prompts/list", json!({})),
            -32601,
            "prompts/list",
        ),
        (
            request(
                9,
                "completion/complete",
                json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}}),
            ),
            -32601,
            "completion/complete",
        ),
        (
            request(10, "resources/read", json!({"uri": "file:///etc/passwd"})),
            -32002,
            "file:///etc/passwd",
        ),
        (
            request(11, "plugins/install", json!({})),
            -32601,
            "plugins/install",
        ),
    ] {
        let answer = client.request(&request).await;
        assert_eq!(answer["error"]["code"], json!(code), "{answer}");
        assert!(
            answer["error"]["message"]
                .as_str()
                .unwrap()
                .contains(expected),
            "{answer}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn progress_is_sent_only_with_a_token() {
    let mut client = Client::initialized().await;
    client
        .request(&request(1, "logging/setLevel", json!({"level": "error"})))
        .await;
    let mut request_message = call(2, "talk", json!({}));
    request_message["params"]["_meta"]["progressToken"] = json!("p");
    client.send(&request_message).await;
    for step in [1.0, 2.0, 3.0] {
        let message = client.receive().await;
        assert_eq!(message["method"], json!("notifications/progress"));
        assert_eq!(
            message["params"],
            json!({"progressToken": "p", "progress": step, "total": 3.0})
        );
    }
    assert_eq!(
        client.receive().await["result"]["content"][0]["text"],
        json!("talked")
    );
    let result = client.call("talk", json!({})).await;
    assert_eq!(
        result["content"][0]["text"],
        json!("talked"),
        "no progress without a token"
    );
    assert_eq!(client.close().await, [] as [Value; 0]);
}

#[tokio::test(start_paused = true)]
async fn logs_are_sent_at_the_requested_level() {
    let mut older = Client::initialized().await;
    let warning = json!({"level": "warning", "logger": "talk", "data": "Warn"});
    older.send(&call(1, "talk", json!({}))).await;
    assert_eq!(older.receive().await["params"], warning);
    assert_eq!(older.receive().await["id"], json!(1));

    let mut newest = Client::new();
    newest.request(&modern(call(1, "talk", json!({})))).await;
    let mut message = modern(call(2, "talk", json!({})));
    message["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("debug");
    newest.send(&message).await;
    assert_eq!(newest.receive().await["params"]["data"], json!("Debug"));
    assert_eq!(newest.receive().await["params"], warning);
    assert_eq!(newest.receive().await["id"], json!(2));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_is_dropped_and_never_answered() {
    let mut client = Client::initialized().await;
    client.send(&call(1, "wait", json!({}))).await;
    client.tools.begun.notified().await;
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})).await;
    client.tools.dropped.notified().await;
    client.tools.go.notify_one();
    client.request(&request(2, "ping", json!({}))).await;
    assert_eq!(client.close().await, [] as [Value; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_short_call_overtakes_a_long_one() {
    let mut client = Client::initialized().await;
    client.send(&call(1, "wait", json!({}))).await;
    client.tools.begun.notified().await;
    client
        .request(&call(2, "echo", json!({"text": "quick"})))
        .await;
    client.tools.go.notify_one();
    let answer = client.receive().await;
    assert_eq!(
        (&answer["id"], &answer["result"]["content"][0]["text"]),
        (&json!(1), &json!("waited"))
    );
    assert_eq!(*client.tools.ids.lock().unwrap(), ["s-1", "s-2"]);
}

#[tokio::test(start_paused = true)]
async fn garbage_does_not_end_a_session() {
    let long = vec![b'x'; 9 << 20];
    let garbage: [&[u8]; 12] = [
        b"",
        b"{",
        b"\0\0\0",
        b"\xff\xfe{}",
        b"[]",
        b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]",
        b"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":99}}",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/nonsense\"}",
        &long,
    ];
    for begun in [false, true] {
        for line in garbage {
            let mut client = if begun {
                Client::initialized().await
            } else {
                Client::new()
            };
            client.send_line(line).await;
            client.send(&request(7, "ping", json!({}))).await;
            let shown = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
            let mut answer = client.receive().await;
            if answer["id"] != json!(7) {
                let code = answer["error"]["code"].as_i64();
                assert!(matches!(code, Some(-32600 | -32700)), "{shown}: {answer}");
                answer = client.receive().await;
            }
            assert_eq!(answer["result"], json!({}), "{shown}");
            assert_eq!(client.close().await, [] as [Value; 0]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn reading_pauses_for_a_client_that_does_not_read() {
    let mut client = Client::initialized().await;
    let never = Duration::from_mins(1);
    // Each response is a list of all tools. The server stops reading when too many are unread.
    let mut sent = 0;
    while timeout(never, client.send(&request(sent, "tools/list", json!({}))))
        .await
        .is_ok()
    {
        sent += 1;
        assert!(sent < 60_000, "the host takes everything");
    }
    let mut last = 0;
    for _ in 0..sent {
        let answer = client.receive().await;
        assert_eq!(names(&answer), TOOLS);
        last = answer["id"].as_i64().unwrap().max(last);
    }
    assert_eq!(last, i64::from(sent) - 1, "nothing is lost");
}

#[tokio::test(start_paused = true)]
async fn calls_are_not_started_for_a_client_that_does_not_read() {
    let mut client = Client::initialized().await;
    let text = "x".repeat(200_000);
    let mut sent = 0;
    let never = Duration::from_mins(1);
    while timeout(
        never,
        client.send(&call(sent, "echo", json!({"text": text}))),
    )
    .await
    .is_ok()
    {
        sent += 1;
        assert!(sent < 2000, "the host takes everything");
    }
    let begun = client.tools.ids.lock().unwrap().len();
    assert!((70..200).contains(&begun), "{begun} of {sent}");
    let tools = client.tools.clone();
    drop(client);
    assert_eq!(tools.ids.lock().unwrap().len(), begun);
}

#[tokio::test(start_paused = true)]
async fn an_id_in_use_is_rejected_and_its_call_can_be_cancelled() {
    let mut client = Client::initialized().await;
    client.send(&call(6, "wait", json!({}))).await;
    client.tools.begun.notified().await;
    let answer = client
        .request(&call(6, "echo", json!({"text": "hi"})))
        .await;
    assert_eq!(answer["error"]["code"], json!(-32600), "{answer}");
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 6}})).await;
    client.tools.dropped.notified().await;
    assert_eq!(client.tools.ids.lock().unwrap().len(), 1);
    assert_eq!(client.close().await, [] as [Value; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_ping_before_the_session_may_be_followed_by_a_notification() {
    let mut client = Client::new();
    client.request(&request(1, "ping", json!({}))).await;
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})).await;
    client.request(&request(2, "ping", json!({}))).await;
    assert_eq!(client.close().await, [] as [Value; 0]);
}

#[tokio::test(start_paused = true)]
async fn c_05_the_end_of_input_ends_calls_without_more_output() {
    Client::new().close().await;
    let mut client = Client::initialized().await;
    client.send(&call(1, "wait", json!({}))).await;
    client.tools.begun.notified().await;
    let tools = client.tools.clone();
    let rest = client.close().await;
    tools.dropped.notified().await;
    assert_eq!(rest, [] as [Value; 0]);
}
