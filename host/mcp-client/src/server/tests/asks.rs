//! Tests of servers that ask the user during a call, with both protocol versions.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::name_of;
use crate::dial::Dial;
use crate::server::Server;
use crate::testing::{
    ScriptedServer, approved, call, config, legacy_response, reply, server_context, tool,
};

/// Makes one call during which the server asks; returns the questions.
async fn asks(dial: Box<dyn Dial>) -> Vec<String> {
    asks_until(dial, &["Ann"]).await
}

/// Gives one answer to each question.
async fn asks_until(dial: Box<dyn Dial>, answers: &[&str]) -> Vec<String> {
    let answers: Vec<_> = answers.iter().map(|&answer| answer.to_owned()).collect();
    let questions = Arc::new(Mutex::new(Vec::new()));
    let (mut context, _) = server_context(&approved(&config("one")));
    context.ask = {
        let questions = Arc::clone(&questions);
        Some(Arc::new(move |queries| {
            let mut questions = questions.lock().unwrap();
            questions.extend(queries.iter().map(|query| query.question.clone()));
            let answer = answers[questions.len() - 1].clone();
            let replies = vec![toolhost_contract::UserAnswer::Text(answer)];
            Box::pin(async move { Ok(replies) })
        }))
    };
    let server = Server::start(config("one"), dial, context);
    server.shared().first_listing().await.unwrap();
    let outcome = call(&server, "mcp__one__greet", json!({})).await.unwrap();
    assert_eq!(outcome.model_text(), "Hello Ann");
    server.stop().await;
    let questions = questions.lock().unwrap();
    questions.clone()
}

fn question() -> Value {
    let schema =
        json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": "Who?", "requestedSchema": schema}})
}

/// A server of the legacy protocol that asks during a call.
fn asking(question: &Value) -> Box<dyn Dial> {
    let mut question = question.clone();
    question["jsonrpc"] = json!("2.0");
    question["id"] = json!("q");
    ScriptedServer::script(move |message| {
        if message["id"] == "q" {
            let name = message["result"]["content"]["name"].as_str().unwrap();
            let content = json!({"content": [{"type": "text", "text": format!("Hello {name}")}]});
            // The ID of the call, which was stored in the question.
            return vec![json!({"jsonrpc": "2.0", "id": 3, "result": content}).to_string()];
        }
        match name_of(message) {
            Some(_) => {
                assert_eq!(message["id"], 3);
                vec![question.to_string()]
            }
            None => legacy_response(message, &json!([tool("greet")])),
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_legacy_server_asks_during_a_call() {
    let dial = asking(&question());
    assert_eq!(asks(dial).await, ["The server one asks: Who?\nname"]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_fit_is_asked_for_once_more() {
    let mut question = question();
    question["params"]["requestedSchema"]["properties"]["name"]["maxLength"] = json!(3);
    let questions = asks_until(asking(&question), &["Annabel", "Ann"]).await;
    let first = "The server one asks: Who?\nname (at most 3 characters)";
    let second = format!("{first}\nIt must be at most 3 characters.");
    assert_eq!(questions, [first, &second]);
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_asks_by_its_result_and_gets_its_state_back() {
    let dial = ScriptedServer::script(|message| {
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

/// A server of the legacy protocol whose tool `asks` asks before it answers. Calls of `waits` are answered when `free`
/// calls of any tool have arrived.
fn side_by_side(free: usize) -> Box<dyn Dial> {
    let waiting: Mutex<Vec<Value>> = Mutex::default();
    let arrivals = std::sync::atomic::AtomicUsize::new(0);
    ScriptedServer::script(move |message| {
        let content = |text: &str| json!({"content": [{"type": "text", "text": text}]});
        if let Some(call) = message["id"].as_str().and_then(|id| id.strip_prefix("q-")) {
            let text = match message["result"]["content"]["name"].as_str() {
                Some(name) => format!("Hello {name}"),
                None => message["error"]["message"]
                    .as_str()
                    .unwrap_or("no response")
                    .to_owned(),
            };
            let id: u64 = call.parse().unwrap();
            return vec![json!({"jsonrpc": "2.0", "id": id, "result": content(&text)}).to_string()];
        }
        let Some(name) = name_of(message) else {
            return legacy_response(message, &json!([tool("asks"), tool("waits")]));
        };
        let mut out = Vec::new();
        if name == "asks" {
            let mut question = question();
            question["jsonrpc"] = json!("2.0");
            question["id"] = json!(format!("q-{}", message["id"]));
            out.push(question.to_string());
        } else {
            waiting.lock().unwrap().push(message.clone());
        }
        if arrivals.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1 >= free {
            let waiting = std::mem::take(&mut *waiting.lock().unwrap());
            out.extend(waiting.iter().map(|call| reply(call, &content("done"))));
        }
        out
    })
}

/// Starts a server; the user's name is Ann.
async fn started(dial: Box<dyn Dial>) -> Server {
    let (mut context, _) = server_context(&approved(&config("one")));
    context.ask = Some(Arc::new(|_| {
        Box::pin(async { Ok(vec![toolhost_contract::UserAnswer::Text("Ann".to_owned())]) })
    }));
    let server = Server::start(config("one"), dial, context);
    server.shared().first_listing().await.unwrap();
    server
}

async fn called(server: &Server, tool: &str) -> String {
    let outcome = call(server, tool, json!({})).await;
    outcome.unwrap().model_text()
}

#[tokio::test(start_paused = true)]
async fn c_03_a_question_waits_for_concurrent_calls() {
    let server = started(side_by_side(4)).await;
    let (asks, a, b, c) = tokio::join!(
        called(&server, "mcp__one__asks"),
        called(&server, "mcp__one__waits"),
        called(&server, "mcp__one__waits"),
        called(&server, "mcp__one__waits"),
    );
    assert_eq!([asks, a, b, c], ["Hello Ann", "done", "done", "done"]);
}

#[tokio::test(start_paused = true)]
async fn c_03_ambiguous_questions_are_refused_and_later_calls_run_alone() {
    let server = started(side_by_side(1)).await;
    let (one, two) = tokio::join!(
        called(&server, "mcp__one__asks"),
        called(&server, "mcp__one__asks"),
    );
    // One call is refused; the other is then the only one.
    let mut both = [one, two];
    both.sort();
    assert!(both[0].starts_with("2 calls are running"), "{both:?}");
    assert_eq!(both[1], "Hello Ann");
    let (one, two) = tokio::join!(
        called(&server, "mcp__one__asks"),
        called(&server, "mcp__one__asks"),
    );
    assert_eq!([one, two], ["Hello Ann", "Hello Ann"]);
}

#[test]
fn c_03_calls_of_an_untrusted_server_can_run_concurrently() {
    let one = serde_json::from_value(tool("t")).unwrap();
    let (adopted, _) =
        crate::tool_conversion::convert_tools(&config("one"), vec![one], &|_| Ok(()));
    let found = adopted[0].descriptor.concurrency;
    assert_eq!(found, toolhost_contract::Concurrency::Parallel);
}
