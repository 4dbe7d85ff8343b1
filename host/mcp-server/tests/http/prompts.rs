//! Prompts over HTTP: sent on the stream of the request in a session, or with a request state bound to its user.

use serde_json::{Value, json};

use crate::client::{Client, call, headers, modern, request};
use crate::test_server::{ANN, BOB, TestServer, with_tokens, without_tokens};

fn forms() -> Value {
    json!({"elicitation": {}})
}

fn approval() -> Value {
    json!({"action": "accept", "content": {"answer": "once"}})
}

/// A stateless call by a client that supports forms.
async fn call_wipe(client: &mut Client, state: Option<&Value>) -> Value {
    let mut message = modern(call(1, "wipe", json!({})));
    message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = forms();
    if let Some(state) = state {
        message["params"]["requestState"] = state.clone();
        message["params"]["inputResponses"] = json!({"permission": approval()});
    }
    let headers = headers("tools/call", "wipe");
    client.post(&headers, &message.to_string()).await.json()
}

#[tokio::test]
async fn a_request_state_is_accepted_on_any_connection_of_its_user() {
    let site = TestServer::start_asking(with_tokens()).await;
    let mut ann = site.client().await.with_token(ANN);
    let question = call_wipe(&mut ann, None).await;
    assert_eq!(
        question["result"]["resultType"],
        json!("input_required"),
        "{question}"
    );
    let state = &question["result"]["requestState"];

    let mut bob = site.client().await.with_token(BOB);
    let stolen = call_wipe(&mut bob, Some(state)).await;
    assert_eq!(stolen["error"]["code"], json!(-32602), "{stolen}");
    assert!(site.tools.calls.lock().unwrap().is_empty());

    let mut ann = site.client().await.with_token(ANN);
    let answer = call_wipe(&mut ann, Some(state)).await;
    assert_eq!(
        answer["result"]["content"][0]["text"],
        json!("wiped"),
        "{answer}"
    );
    let again = call_wipe(&mut ann, Some(state)).await;
    assert_eq!(again["error"]["code"], json!(-32602), "{again}");
}

#[tokio::test]
async fn prompts_are_sent_on_the_stream_of_the_call() {
    let site = TestServer::start_asking(without_tokens()).await;
    let mut client = client_with_session(&site, forms()).await;
    let session = client.session().to_owned();
    let message = call(1, "wipe", json!({})).to_string();
    client.send("POST /mcp", &[], &message).await;
    assert_eq!(client.read_head().await.status, 200);
    let question = next_message(&mut client).await;
    assert_eq!(
        question["method"],
        json!("elicitation/create"),
        "{question}"
    );
    let mut other = site.client().await;
    other.use_session(&session);
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": approval()});
    assert_eq!(other.post(&[], &answer.to_string()).await.status, 202);
    let result = next_message(&mut client).await;
    assert_eq!(
        result["result"]["content"][0]["text"],
        json!("wiped"),
        "{result}"
    );
}

#[tokio::test]
async fn roots_are_requested_on_the_stream_of_the_call() {
    let site = TestServer::start_with_roots(without_tokens()).await;
    let mut client = client_with_session(&site, json!({"roots": {}})).await;
    let message = call(1, "echo", json!({"text": "hi"})).to_string();
    client.send("POST /mcp", &[], &message).await;
    assert_eq!(client.read_head().await.status, 200);
    let question = next_message(&mut client).await;
    assert_eq!(question["method"], json!("roots/list"), "{question}");
    let mut other = site.client().await;
    other.use_session(client.session());
    let roots = json!({"roots": [{"uri": "file:///workspace"}]});
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": roots});
    assert_eq!(other.post(&[], &answer.to_string()).await.status, 202);
    let result = next_message(&mut client).await;
    assert_eq!(
        result["result"]["content"][0]["text"],
        json!("hi"),
        "{result}"
    );
}

#[tokio::test]
async fn an_approval_for_the_session_ends_with_the_session() {
    let site = TestServer::start_asking(without_tokens()).await;
    let mut first = client_with_session(&site, forms()).await;
    first
        .send("POST /mcp", &[], &call(1, "wipe", json!({})).to_string())
        .await;
    assert_eq!(first.read_head().await.status, 200);
    let question = next_message(&mut first).await;
    let mut other = site.client().await;
    other.use_session(first.session());
    let session_approval = json!({"action": "accept", "content": {"answer": "session"}});
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": session_approval});
    assert_eq!(other.post(&[], &answer.to_string()).await.status, 202);
    let result = next_message(&mut first).await;
    assert_eq!(result["result"]["content"][0]["text"], json!("wiped"));
    // The same call in the same session needs no second approval.
    let again = other.call(2, "wipe", json!({})).await;
    assert_eq!(again.text(), "wiped");

    check_is_asked(&site).await;
    assert_eq!(other.request("DELETE /mcp", &[], "").await.status, 204);
    check_is_asked(&site).await;
}

/// Checks that a new session of the same user must approve the call.
async fn check_is_asked(site: &TestServer) {
    let mut client = client_with_session(site, forms()).await;
    client
        .send("POST /mcp", &[], &call(1, "wipe", json!({})).to_string())
        .await;
    assert_eq!(client.read_head().await.status, 200);
    let question = next_message(&mut client).await;
    assert_eq!(
        question["method"],
        json!("elicitation/create"),
        "{question}"
    );
}

/// A client with a session and these capabilities.
async fn client_with_session(site: &TestServer, capabilities: Value) -> Client {
    let mut client = site.client().await;
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "c", "version": "1"}});
    let greeted = client
        .post(&[], &request(0, "initialize", hello).to_string())
        .await;
    let session = greeted.headers["mcp-session-id"].clone();
    client.use_session(&session);
    let notification = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(client.post(&[], notification).await.status, 202);
    client
}

/// Returns the next message on the stream.
async fn next_message(client: &mut Client) -> Value {
    let mut text = String::new();
    while let Some(chunk) = client.chunk().await {
        text.push_str(&chunk);
        let messages = text.lines().filter_map(|line| line.strip_prefix("data:"));
        for message in messages {
            if let Ok(message @ Value::Object(_)) = serde_json::from_str(message) {
                return message;
            }
        }
    }
    panic!("no message in {text}")
}
