//! The folders that a client works in.

use serde_json::{Value, json};

use crate::fake::{Client, call};

async fn rooted() -> Client {
    let capabilities = json!({"roots": {"listChanged": true}});
    Client::new().greeted("2025-11-25", capabilities).await
}

/// Answers when the server asks for the folders.
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

#[tokio::test(start_paused = true)]
async fn a_client_without_folders_is_not_narrowed() {
    for uris in [&[][..], &["https://example.org"]] {
        let mut client = rooted().await;
        client.say(&look(Some("/workspace/a"))).await;
        tell(&mut client, uris).await;
        assert_eq!(client.hear().await["result"]["isError"], json!(false));
    }
    // One that never says.
    let mut client = rooted().await;
    client.say(&look(Some("/workspace/a"))).await;
    client.hear().await;
    let answer = loop {
        // Its request for the folders is taken back first.
        let heard = client.hear().await;
        if heard["id"] == json!(1) {
            break heard;
        }
    };
    assert_eq!(answer["result"]["isError"], json!(false));
    check(&mut client, Some("/workspace/b"), true).await;
}
