//! Tests of MCP roots.

use serde_json::{Value, json};

use crate::fake::{Client, call};

async fn rooted() -> Client {
    let capabilities = json!({"roots": {"listChanged": true}});
    Client::of_host_with_roots()
        .greeted("2025-11-25", capabilities)
        .await
}

/// Answers a `roots/list` request.
async fn tell(client: &mut Client, uris: &[&str]) {
    let asked = client.hear().await;
    assert_eq!(asked["method"], json!("roots/list"), "{asked}");
    let roots: Vec<Value> = uris.iter().map(|uri| json!({"uri": uri})).collect();
    client
        .say(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": roots}}))
        .await;
}

fn look(path: Option<&str>) -> Value {
    call(
        1,
        "look",
        path.map_or_else(|| json!({}), |path| json!({"path": path})),
    )
}

async fn check(client: &mut Client, path: Option<&str>, may: bool) {
    let result = client.ask(&look(path)).await["result"].take();
    assert_eq!(result["isError"], json!(!may), "{path:?}: {result}");
}

#[tokio::test(start_paused = true)]
async fn the_folders_of_a_client_narrow_what_its_calls_may_name() {
    let mut client = rooted().await;
    client.say(&look(Some("sub/a"))).await;
    tell(
        &mut client,
        &["file:///workspace/sub", "https://example.org"],
    )
    .await;
    assert_eq!(client.hear().await["result"]["isError"], json!(false));
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
    client.say(&changed).await;
    client
        .ask(&crate::fake::request(2, "ping", json!({})))
        .await;
    client.say(&look(Some("/workspace/b"))).await;
    tell(&mut client, &["file:///workspace"]).await;
    assert_eq!(client.hear().await["result"]["isError"], json!(false));
    check(&mut client, None, true).await;
}

/// Makes a call and returns the id of the resulting `roots/list` request.
async fn asked(client: &mut Client) -> Value {
    client.say(&look(Some("/workspace/a"))).await;
    let asked = client.hear().await;
    assert_eq!(asked["method"], json!("roots/list"), "{asked}");
    asked["id"].clone()
}

/// Returns the result of the call and skips other messages.
async fn ended(client: &mut Client) -> Value {
    loop {
        let heard = client.hear().await;
        if heard["id"] == json!(1) && heard["result"].is_object() {
            return heard["result"].clone();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_without_folders_is_not_narrowed() {
    let mut client = rooted().await;
    client.say(&look(Some("/workspace/a"))).await;
    tell(&mut client, &[]).await;
    assert_eq!(client.hear().await["result"]["isError"], json!(false));
    // A client that does not implement `roots/list` has no roots.
    let mut client = rooted().await;
    let id = asked(&mut client).await;
    let error = json!({"code": -32601, "message": "what?"});
    client
        .say(&json!({"jsonrpc": "2.0", "id": id, "error": error}))
        .await;
    assert_eq!(ended(&mut client).await["isError"], json!(false));
    check(&mut client, Some("/workspace/b"), true).await;
}

#[tokio::test(start_paused = true)]
async fn folders_that_nobody_here_knows_are_not_all_of_them() {
    for uri in [
        "https://example.org",
        "file:///workspace/sub?x",
        "file://elsewhere/home/x",
        "vscode-remote://x/y",
    ] {
        let mut client = rooted().await;
        client.say(&look(Some("/workspace/sub"))).await;
        tell(&mut client, &[uri]).await;
        let refused = client.hear().await["result"].take();
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
async fn of_a_longer_list_the_first_64_folders_count() {
    // Unusable entries count towards the limit.
    for first in ["file:///workspace/0", "https://example.org"] {
        let mut uris = vec![first.to_owned()];
        uris.extend((1..=64).map(|number| format!("file:///workspace/{number}")));
        let uris: Vec<&str> = uris.iter().map(String::as_str).collect();
        let mut client = rooted().await;
        client.say(&look(Some("/workspace/1/a"))).await;
        tell(&mut client, &uris).await;
        assert_eq!(client.hear().await["result"]["isError"], json!(false));
        check(&mut client, Some("/workspace/63/a"), true).await;
        check(&mut client, Some("/workspace/64/a"), false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_late_counts_and_nothing_is_open_before() {
    let mut client = rooted().await;
    let id = asked(&mut client).await;
    let refused = ended(&mut client).await;
    assert_eq!(refused["isError"], json!(true), "{refused}");
    assert!(refused.to_string().contains("roots/list"), "{refused}");
    // Later calls do not wait.
    let start = tokio::time::Instant::now();
    check(&mut client, Some("/workspace/sub/a"), false).await;
    assert_eq!(start.elapsed(), std::time::Duration::ZERO);
    let roots = json!({"roots": [{"uri": "file:///workspace/sub"}]});
    client
        .say(&json!({"jsonrpc": "2.0", "id": id, "result": roots}))
        .await;
    check(&mut client, Some("/workspace/sub/a"), true).await;
    check(&mut client, Some("/workspace/a"), false).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_say_is_asked_again() {
    // After an error, the next call asks again; without an answer, a call after 30 s does.
    for says_no in [true, false] {
        let mut client = rooted().await;
        let id = asked(&mut client).await;
        if says_no {
            let error = json!({"code": -1, "message": "not now"});
            client
                .say(&json!({"jsonrpc": "2.0", "id": id, "error": error}))
                .await;
        }
        assert_eq!(ended(&mut client).await["isError"], json!(true));
        if !says_no {
            tokio::time::sleep(std::time::Duration::from_secs(30)).await;
        }
        client.say(&look(Some("/workspace/sub/a"))).await;
        let again = loop {
            let heard = client.hear().await;
            if heard["method"] == json!("roots/list") {
                break heard;
            }
        };
        let roots = json!({"roots": [{"uri": "file:///workspace/sub"}]});
        client
            .say(&json!({"jsonrpc": "2.0", "id": again["id"], "result": roots}))
            .await;
        assert_eq!(ended(&mut client).await["isError"], json!(false));
        check(&mut client, Some("/workspace/b"), false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_that_is_not_told_opens_nothing() {
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
    for (before, path, may) in [
        (&["file:///workspace/sub"][..], "/workspace/sub/a", true),
        (&["file:///workspace/sub"][..], "/workspace/a", false),
        (&[][..], "/workspace/a", false),
    ] {
        let mut client = rooted().await;
        client.say(&look(Some("/workspace/sub"))).await;
        tell(&mut client, before).await;
        assert_eq!(client.hear().await["result"]["isError"], json!(false));
        client.say(&changed).await;
        client
            .ask(&crate::fake::request(2, "ping", json!({})))
            .await;
        client.say(&look(Some(path))).await;
        let is_error = ended(&mut client).await["isError"].take();
        assert_eq!(is_error, json!(!may), "{before:?} {path}");
    }
}
