//! Questions in views: only for the user who called.

use std::time::Instant;

use serde_json::{Value, json};

use crate::client::{Client, call, headers, modern, request};
use crate::test_server::{ANN, BOB, NEVER, TestServer, with_tokens};

/// Adds the capabilities of a client that shows views.
fn viewing(message: Value) -> Value {
    let mut message = modern(message);
    let types = ["text/html;profile=mcp-app"];
    message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": types}}});
    message
}

async fn call_tool(client: &mut Client, tool: &str, arguments: Value) -> Value {
    let message = viewing(call(2, tool, arguments)).to_string();
    client
        .post(&headers("tools/call", tool), &message)
        .await
        .json()["result"]
        .take()
}

/// Returns the key in the content of the view.
async fn key_of_view(client: &mut Client) -> String {
    let listing = viewing(request(1, "tools/list", json!({}))).to_string();
    let listed = client
        .post(&headers("tools/list", ""), &listing)
        .await
        .json();
    let tools = listed["result"]["tools"].as_array().expect("tools");
    let wipe = tools.iter().find(|tool| tool["name"] == "wipe").unwrap();
    let uri = wipe["_meta"]["ui"]["resourceUri"].as_str().unwrap();
    let reading = viewing(request(2, "resources/read", json!({"uri": uri}))).to_string();
    let read = client
        .post(&headers("resources/read", uri), &reading)
        .await
        .json();
    let html = read["result"]["contents"][0]["text"].as_str().unwrap();
    let (_, rest) = html.split_once("name=\"toolhost-key\" content=\"").unwrap();
    rest.split('"').next().unwrap().to_owned()
}

/// A connection whose call waits for an answer, another one for its view, and the ticket of the question.
async fn asked(site: &TestServer, token: &str) -> (Client, Client, Value) {
    let mut calling = site.client().await.with_token(token);
    let message = viewing(call(1, "wipe", json!({}))).to_string();
    let line = headers("tools/call", "wipe");
    calling.send("POST /mcp", &line, &message).await;
    let mut view = site.client().await.with_token(token);
    let key = key_of_view(&mut view).await;
    let query = json!({"key": key, "arguments": {}, "request": 1, "tool": "wipe"});
    let start = Instant::now();
    loop {
        let state = call_tool(&mut view, "toolhost_question", query.clone()).await;
        let ticket = &state["structuredContent"]["question"]["ticket"];
        if ticket.is_string() {
            return (calling, view, ticket.clone());
        }
        assert!(start.elapsed() < NEVER, "no question: {state}");
    }
}

#[tokio::test]
async fn a_question_is_shown_and_answered_by_its_user_only() {
    let site = TestServer::start_asking(with_tokens()).await;
    let (mut ann_calling, mut ann, ann_ticket) = asked(&site, ANN).await;
    // The same call of another user has its own question.
    let (_bob_calling, mut bob, bob_ticket) = asked(&site, BOB).await;
    assert_ne!(ann_ticket, bob_ticket);
    let start = Instant::now();
    loop {
        let given = json!({"ticket": ann_ticket, "answer": "once"});
        let stolen = call_tool(&mut bob, "toolhost_answer", given.clone()).await;
        let code = &stolen["_meta"]["dev.toolhost/error"]["code"];
        assert_eq!(*code, json!("question_closed"), "{stolen}");
        let answered = call_tool(&mut ann, "toolhost_answer", given).await;
        if answered["isError"] == json!(false) {
            break;
        }
        let code = &answered["_meta"]["dev.toolhost/error"]["code"];
        assert_eq!(*code, json!("question_too_early"), "{answered}");
        assert!(start.elapsed() < NEVER, "never accepted");
    }
    assert_eq!(ann_calling.read_response().await.text(), "wiped");
    let calls = site.tools.calls.lock().unwrap();
    let users: Vec<_> = calls.iter().map(|(_, caller)| caller.user.name()).collect();
    assert_eq!(users, [Some("ann")]);
}
