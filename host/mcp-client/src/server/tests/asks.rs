//! Servers that ask a person in the middle of a call, in either era.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::name_of;
use crate::dial::Dial;
use crate::server::Server;
use crate::testing::{Played, approved, call, config, decent, reply, surroundings, tool};

/// One call that makes the server ask, in either era.
async fn asks(dial: Box<dyn Dial>) -> Vec<String> {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (mut around, _) = surroundings(&approved(&config("one")));
    around.ask = {
        let asked = Arc::clone(&asked);
        Some(Arc::new(move |queries| {
            let mut asked = asked.lock().unwrap();
            asked.extend(queries.iter().map(|query| query.question.clone()));
            let replies = vec![toolhost_contract::Reply::Text("Ann".to_owned())];
            Box::pin(async move { Ok(replies) })
        }))
    };
    let server = Server::start(config("one"), dial, around);
    server.shared().first().await.unwrap();
    let outcome = call(&server, "mcp__one__greet", json!({})).await.unwrap();
    assert_eq!(outcome.model_text(), "Hello Ann");
    server.stop().await;
    let asked = asked.lock().unwrap();
    asked.clone()
}

fn question() -> Value {
    let schema =
        json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": "Who?", "requestedSchema": schema}})
}

#[tokio::test(start_paused = true)]
async fn a_server_of_the_older_era_asks_through_the_call() {
    let dial = Played::script(|message| {
        if message["id"] == "q" {
            let name = message["result"]["content"]["name"].as_str().unwrap();
            let content = json!({"content": [{"type": "text", "text": format!("Hello {name}")}]});
            // The number of the call, which was kept in the question.
            return vec![json!({"jsonrpc": "2.0", "id": 3, "result": content}).to_string()];
        }
        match name_of(message) {
            Some(_) => {
                assert_eq!(message["id"], 3);
                let mut question = question();
                question["jsonrpc"] = json!("2.0");
                question["id"] = json!("q");
                vec![question.to_string()]
            }
            None => decent(message, &json!([tool("greet")])),
        }
    });
    assert_eq!(asks(dial).await, ["The server one asks: Who?\nname"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_of_the_new_era_asks_by_its_result_and_gets_its_state_back() {
    let dial = Played::script(|message| {
        let result = match (
            message["method"].as_str(),
            message["params"].get("inputResponses"),
        ) {
            (Some("server/discover"), _) => json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "new", "version": "1"}, "ttlMs": 0, "cacheScope": "private",
            }),
            (Some("tools/list"), _) => json!({
                "resultType": "complete", "tools": [tool("greet")], "ttlMs": 0, "cacheScope": "private",
            }),
            (Some("tools/call"), None) => json!({
                "resultType": "input_required", "inputRequests": {"k": question()}, "requestState": "s-1",
            }),
            (Some("tools/call"), Some(answers)) => {
                assert_eq!(message["params"]["requestState"], "s-1");
                assert_eq!(answers["k"]["action"], "accept");
                let name = answers["k"]["content"]["name"].as_str().unwrap();
                json!({"resultType": "complete", "content": [{"type": "text", "text": format!("Hello {name}")}]})
            }
            _ => return Vec::new(),
        };
        vec![reply(message, &result)]
    });
    assert_eq!(asks(dial).await, ["The server one asks: Who?\nname"]);
}
