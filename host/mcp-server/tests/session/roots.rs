//! Tests of MCP roots.

use serde_json::{Value, json};

use crate::harness::{Client, call};

async fn rooted() -> Client {
    let capabilities = json!({"roots": {"listChanged": true}});
    Client::with_roots()
        .start_session("2025-11-25", capabilities)
        .await
}

/// Answers a `roots/list` request.
async fn answer_roots(client: &mut Client, uris: &[&str]) {
    let roots_request = client.receive().await;
    assert_eq!(
        roots_request["method"],
        json!("roots/list"),
        "{roots_request}"
    );
    let roots: Vec<Value> = uris.iter().map(|uri| json!({"uri": uri})).collect();
    client
        .send(&json!({"jsonrpc": "2.0", "id": roots_request["id"], "result": {"roots": roots}}))
        .await;
}

fn look_call(path: Option<&str>) -> Value {
    call(
        1,
        "look",
        path.map_or_else(|| json!({}), |path| json!({"path": path})),
    )
}

async fn check(client: &mut Client, path: Option<&str>, may: bool) {
    let result = client.request(&look_call(path)).await["result"].take();
    assert_eq!(result["isError"], json!(!may), "{path:?}: {result}");
}

#[tokio::test(start_paused = true)]
async fn roots_restrict_the_paths_of_calls() {
    let mut client = rooted().await;
    client.send(&look_call(Some("sub/a"))).await;
    answer_roots(
        &mut client,
        &["file:///workspace/sub", "https://example.org"],
    )
    .await;
    assert_eq!(client.receive().await["result"]["isError"], json!(false));
    for (path, may) in [
        (Some("/workspace/sub"), true),
        (Some("/workspace/sub/deep/a"), true),
        (Some("/workspace/subway"), false),
        (Some("sub/../b"), false),
        (Some("/etc/passwd"), false),
        (None, false),
    ] {
        check(&mut client, path, may).await;
    }

    let changed = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
    client.send(&changed).await;
    client
        .request(&crate::harness::request(2, "ping", json!({})))
        .await;
    client.send(&look_call(Some("/workspace/b"))).await;
    answer_roots(&mut client, &["file:///workspace"]).await;
    assert_eq!(client.receive().await["result"]["isError"], json!(false));
    check(&mut client, None, true).await;
}

/// Makes a call and returns the id of the resulting `roots/list` request.
async fn receive_roots_request(client: &mut Client) -> Value {
    client.send(&look_call(Some("/workspace/a"))).await;
    let roots_request = client.receive().await;
    assert_eq!(
        roots_request["method"],
        json!("roots/list"),
        "{roots_request}"
    );
    roots_request["id"].clone()
}

/// Returns the result of the call and skips other messages.
async fn ended(client: &mut Client) -> Value {
    loop {
        let received = client.receive().await;
        if received["id"] == json!(1) && received["result"].is_object() {
            return received["result"].clone();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_without_roots_is_not_restricted() {
    let mut client = rooted().await;
    client.send(&look_call(Some("/workspace/a"))).await;
    answer_roots(&mut client, &[]).await;
    assert_eq!(client.receive().await["result"]["isError"], json!(false));
    // A client that does not implement `roots/list` has no roots.
    let mut client = rooted().await;
    let id = receive_roots_request(&mut client).await;
    let error = json!({"code": -32601, "message": "what?"});
    client
        .send(&json!({"jsonrpc": "2.0", "id": id, "error": error}))
        .await;
    assert_eq!(ended(&mut client).await["isError"], json!(false));
    check(&mut client, Some("/workspace/b"), true).await;
    // One that does not declare roots is not asked for them.
    let mut client = Client::with_roots()
        .start_session("2025-11-25", json!({}))
        .await;
    let looked = client.call("look", json!({"path": "/workspace/a"})).await;
    assert_eq!(looked["isError"], json!(false));
}

#[tokio::test(start_paused = true)]
async fn unusable_roots_do_not_mean_no_restriction() {
    for uri in [
        "https://example.org",
        "file:///workspace/sub?x",
        "file://elsewhere/home/x",
        "vscode-remote://x/y",
    ] {
        let mut client = rooted().await;
        client.send(&look_call(Some("/workspace/sub"))).await;
        answer_roots(&mut client, &[uri]).await;
        let refused = client.receive().await["result"].take();
        assert_eq!(refused["isError"], json!(true), "{uri}");
        assert!(refused.to_string().contains("roots = true"), "{refused}");
        // Calls that access no files are not restricted.
        assert_eq!(
            client.call("echo", json!({"text": "hi"})).await["isError"],
            json!(false)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_first_64_roots_are_used() {
    // Unusable entries count towards the limit.
    for first in ["file:///workspace/0", "https://example.org"] {
        let mut uris = vec![first.to_owned()];
        uris.extend((1..=64).map(|number| format!("file:///workspace/{number}")));
        let uris: Vec<&str> = uris.iter().map(String::as_str).collect();
        let mut client = rooted().await;
        client.send(&look_call(Some("/workspace/1/a"))).await;
        answer_roots(&mut client, &uris).await;
        assert_eq!(client.receive().await["result"]["isError"], json!(false));
        check(&mut client, Some("/workspace/63/a"), true).await;
        check(&mut client, Some("/workspace/64/a"), false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_roots_answer_is_used_and_access_is_denied_before() {
    let mut client = rooted().await;
    let id = receive_roots_request(&mut client).await;
    let refused = ended(&mut client).await;
    assert_eq!(refused["isError"], json!(true), "{refused}");
    assert!(refused.to_string().contains("roots/list"), "{refused}");
    // Later calls do not wait.
    let start = tokio::time::Instant::now();
    check(&mut client, Some("/workspace/sub/a"), false).await;
    assert_eq!(start.elapsed(), std::time::Duration::ZERO);
    let roots = json!({"roots": [{"uri": "file:///workspace/sub"}]});
    client
        .send(&json!({"jsonrpc": "2.0", "id": id, "result": roots}))
        .await;
    check(&mut client, Some("/workspace/sub/a"), true).await;
    check(&mut client, Some("/workspace/a"), false).await;
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_roots_request_is_repeated() {
    // After an error, the next call asks again; without an answer, a call after 30 s does.
    for says_no in [true, false] {
        let mut client = rooted().await;
        let id = receive_roots_request(&mut client).await;
        if says_no {
            let error = json!({"code": -1, "message": "not now"});
            client
                .send(&json!({"jsonrpc": "2.0", "id": id, "error": error}))
                .await;
        }
        assert_eq!(ended(&mut client).await["isError"], json!(true));
        if !says_no {
            tokio::time::sleep(std::time::Duration::from_secs(30)).await;
        }
        client.send(&look_call(Some("/workspace/sub/a"))).await;
        let again = loop {
            let received = client.receive().await;
            if received["method"] == json!("roots/list") {
                break received;
            }
        };
        let roots = json!({"roots": [{"uri": "file:///workspace/sub"}]});
        client
            .send(&json!({"jsonrpc": "2.0", "id": again["id"], "result": roots}))
            .await;
        assert_eq!(ended(&mut client).await["isError"], json!(false));
        check(&mut client, Some("/workspace/b"), false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_roots_change_grants_nothing() {
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
    for (before, path, may) in [
        (&["file:///workspace/sub"][..], "/workspace/sub/a", true),
        (&["file:///workspace/sub"][..], "/workspace/a", false),
        (&[][..], "/workspace/a", false),
    ] {
        let mut client = rooted().await;
        client.send(&look_call(Some("/workspace/sub"))).await;
        answer_roots(&mut client, before).await;
        assert_eq!(client.receive().await["result"]["isError"], json!(false));
        client.send(&changed).await;
        client
            .request(&crate::harness::request(2, "ping", json!({})))
            .await;
        client.send(&look_call(Some(path))).await;
        let is_error = ended(&mut client).await["isError"].take();
        assert_eq!(is_error, json!(!may), "{before:?} {path}");
    }
}
