//! Approval questions in the view of an MCP App, with sessions and stateless.

use serde_json::{Value, json};
use tokio::time::{Duration, advance};

use crate::approvals::{ended, forms};
use crate::harness::{Client, call, request, with_capabilities};

/// The id of the request that asks.
const CALL: u32 = 7;

pub fn views() -> Value {
    let types = ["text/html;profile=mcp-app"];
    json!({"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": types}}})
}

/// A client that shows views, with what its view knows.
struct ViewClient {
    client: Client,
    is_modern: bool,
    key: String,
}

impl ViewClient {
    /// Connects, and reads the content of the view as the tool list says.
    async fn start(is_modern: bool) -> Self {
        let client = Client::with_prompts(None);
        let client = if is_modern {
            client
        } else {
            client.start_session("2025-11-25", views()).await
        };
        let mut client = Self {
            client,
            is_modern,
            key: String::new(),
        };
        let content = client.read_view().await;
        let html = content["text"].as_str().unwrap();
        let (_, rest) = html.split_once("name=\"toolhost-key\" content=\"").unwrap();
        rest.split('"').next().unwrap().clone_into(&mut client.key);
        client
    }

    fn message(&self, message: Value) -> Value {
        if self.is_modern {
            with_capabilities(message, views())
        } else {
            message
        }
    }

    async fn send(&mut self, message: Value) {
        let message = self.message(message);
        self.client.send(&message).await;
    }

    async fn request(&mut self, message: Value) -> Value {
        let message = self.message(message);
        self.client.request(&message).await["result"].take()
    }

    async fn tools(&mut self) -> Vec<Value> {
        let mut listed = self.request(request(1, "tools/list", json!({}))).await;
        serde_json::from_value(listed["tools"].take()).unwrap()
    }

    async fn read_view(&mut self) -> Value {
        let tools = self.tools().await;
        let wipe = tools.iter().find(|tool| tool["name"] == "wipe").unwrap();
        let uri = &wipe["_meta"]["ui"]["resourceUri"];
        let read = request(2, "resources/read", json!({"uri": uri}));
        let content = self.request(read).await["contents"][0].take();
        assert_eq!(content["uri"], *uri);
        content
    }

    /// Asks until the call has a question.
    async fn question(&mut self, query: Value) -> Value {
        for _ in 0..10 {
            let mut state = self.poll(query.clone()).await;
            if !state["question"].is_null() {
                assert_eq!(state["running"], json!(true));
                return state["question"].take();
            }
        }
        panic!("no question for {query}");
    }

    /// What a view receives for this query.
    async fn poll(&mut self, query: Value) -> Value {
        let result = self.request(call(3, "toolhost_question", query)).await;
        assert_eq!(result["isError"], json!(false), "{result}");
        result["structuredContent"].clone()
    }

    fn query(&self, arguments: &Value) -> Value {
        json!({"key": self.key, "tool": "wipe", "request": CALL, "arguments": arguments})
    }

    async fn answer(&mut self, ticket: &Value, answer: &str, note: &str) -> Value {
        let given = json!({"ticket": ticket, "answer": answer, "note": note});
        self.request(call(4, "toolhost_answer", given)).await
    }

    /// Sends an answer that is accepted, and returns the result of the call that asked.
    async fn answer_call(&mut self, ticket: &Value, answer: &str, note: &str) -> Value {
        let given = json!({"ticket": ticket, "answer": answer, "note": note});
        self.send(call(4, "toolhost_answer", given)).await;
        let mut answers = [self.client.receive().await, self.client.receive().await];
        answers.sort_by_key(|answer| answer["id"].as_u64());
        assert_eq!(answers[0]["result"]["isError"], json!(false), "{answers:?}");
        assert_eq!(answers[1]["id"], json!(CALL));
        answers[1]["result"].take()
    }
}

fn ui_members(tools: &[Value]) -> Vec<(&str, &Value)> {
    let all = tools.iter();
    all.map(|tool| (tool["name"].as_str().unwrap(), &tool["_meta"]["ui"]))
        .filter(|(_, ui)| !ui.is_null())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn only_clients_that_show_views_and_no_forms_get_the_view() {
    for is_modern in [false, true] {
        let mut client = ViewClient::start(is_modern).await;
        let tools = client.tools().await;
        let members = ui_members(&tools);
        assert_eq!(members.len(), tools.len());
        for (name, ui) in members {
            // The view can call its own tools only.
            let is_own = ["toolhost_question", "toolhost_answer"].contains(&name);
            let visibility = if is_own { "app" } else { "model" };
            assert_eq!(ui["visibility"], json!([visibility]), "{name}");
            match name {
                "wipe" => assert!(ui["resourceUri"].is_string(), "{ui}"),
                // Only reads.
                "count" | "echo" => assert_eq!(ui["resourceUri"], Value::Null, "{name}"),
                _ => {}
            }
        }
    }
    let mut with_forms = views();
    with_forms["elicitation"] = json!({});
    let wrong_type =
        json!({"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html"]}}});
    for (client, capabilities) in [
        (Client::with_prompts(None), json!({})),
        (Client::with_prompts(None), with_forms),
        (Client::with_prompts(None), wrong_type),
        (Client::new(), views()),
    ] {
        let mut client = client.start_session("2025-11-25", capabilities).await;
        let mut listed = client.request(&request(1, "tools/list", json!({}))).await;
        let tools: Vec<Value> = serde_json::from_value(listed["result"]["tools"].take()).unwrap();
        assert_eq!(ui_members(&tools), [], "{tools:?}");
        let refused = client
            .request(&call(2, "toolhost_question", json!({})))
            .await;
        assert_eq!(refused["error"]["code"], json!(-32602), "{refused}");
        let uri = "ui://toolhost/question/0";
        let read = request(3, "resources/read", json!({"uri": uri}));
        assert!(!client.request(&read).await["error"].is_null());
    }
}

#[tokio::test(start_paused = true)]
async fn the_view_loads_nothing() {
    let mut client = ViewClient::start(false).await;
    let content = client.read_view().await;
    assert_eq!(content["mimeType"], json!("text/html;profile=mcp-app"));
    let csp = &content["_meta"]["ui"]["csp"];
    for domains in [
        "connectDomains",
        "resourceDomains",
        "frameDomains",
        "baseUriDomains",
    ] {
        assert_eq!(csp[domains], json!([]));
    }
    let html = content["text"].as_str().unwrap();
    assert!(
        html.contains("default-src 'none'; script-src 'sha256-"),
        "{html}"
    );
    assert!(!html.contains("unsafe-inline"));
}

#[tokio::test(start_paused = true)]
async fn a_question_is_answered_in_the_view() {
    for is_modern in [false, true] {
        for (answer, becomes) in [
            ("once", "wiped"),
            ("session", "wiped"),
            (
                "deny",
                r"user_denied: Permission denied: the user rejected `wipe`: not\u{1b} now",
            ),
            (
                "stop",
                "cancelled: Permission denied: the user cancelled the prompt for `wipe`",
            ),
        ] {
            let mut client = ViewClient::start(is_modern).await;
            let input = json!({"path": "/a\u{202e}<script>", "n": 1});
            client.send(call(CALL, "wipe", input.clone())).await;
            let question = client.question(client.query(&input)).await;
            let content = question["content"].to_string();
            assert!(
                content.contains(r"\\u{202e}<script>"),
                "escaped text: {content}"
            );
            assert_eq!(question["content"]["title"], json!("Allow this call?"));
            let values = question["content"]["choices"].as_array().unwrap().iter();
            let values: Vec<_> = values.map(|one| one["value"].as_str().unwrap()).collect();
            // Scopes beyond the session are for the operator.
            assert_eq!(values, ["once", "session", "deny", "stop"]);
            advance(Duration::from_millis(500)).await;
            let note = "not\u{1b} now";
            let result = client.answer_call(&question["ticket"], answer, note).await;
            assert_eq!(ended(&result), becomes, "{answer}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_early_wrong_or_late_have_no_effect() {
    let mut client = ViewClient::start(false).await;
    let input = json!({"path": "/a"});
    client.send(call(CALL, "wipe", input.clone())).await;
    let question = client.question(client.query(&input)).await;
    let ticket = &question["ticket"];
    let early = client.answer(ticket, "once", "").await;
    assert!(ended(&early).starts_with("question_too_early"), "{early}");
    // A view that shows the question already gets it without its content, when it has waited for news.
    let mut known = client.query(&input);
    known["shown"] = ticket.clone();
    let unchanged = json!({"ticket": ticket, "armingMs": 500, "content": null});
    assert_eq!(client.poll(known).await["question"], unchanged);
    for wider in ["project", "user", ""] {
        let invalid = client.answer(ticket, wider, "").await;
        assert!(ended(&invalid).starts_with("invalid_answer"), "{invalid}");
    }
    let foreign = client.answer(&json!("0123"), "once", "").await;
    assert!(ended(&foreign).starts_with("question_closed"), "{foreign}");
    assert!(client.client.tools.ids.lock().unwrap().is_empty());
    let ticket = ticket.clone();
    assert_eq!(
        ended(&client.answer_call(&ticket, "once", "").await),
        "wiped"
    );
    let late = client.answer(&ticket, "once", "").await;
    assert!(ended(&late).starts_with("question_closed"), "{late}");
    // The call has ended.
    let state = client.poll(client.query(&input)).await;
    assert_eq!(state, json!({"running": false, "question": null}));
}

#[tokio::test(start_paused = true)]
async fn a_caller_without_the_key_of_the_view_gets_no_question() {
    let mut client = ViewClient::start(true).await;
    client.send(call(CALL, "wipe", json!({}))).await;
    for query in [json!({}), json!({"key": "", "arguments": {}})] {
        let refused = client.request(call(3, "toolhost_question", query)).await;
        assert_eq!(refused["isError"], json!(true), "{refused}");
        assert_eq!(refused["structuredContent"], Value::Null);
    }
    let other = ViewClient::start(true).await;
    assert_ne!(other.key, client.key, "each host has its own");
}

#[tokio::test(start_paused = true)]
async fn a_view_finds_its_call_by_arguments_and_request() {
    let mut client = ViewClient::start(false).await;
    let (one, two) = (
        json!({"path": "/one", "n": 1}),
        json!({"path": "/two", "n": 2}),
    );
    client.send(call(CALL, "wipe", one.clone())).await;
    client.send(call(CALL + 1, "wipe", two.clone())).await;
    let key = client.key.clone();
    for (query, path) in [
        // Clients need not tell the view the request or the tool.
        (
            json!({"key": key, "arguments": {"n": 1, "path": "/one"}}),
            "/one",
        ),
        (
            json!({"key": key, "arguments": two, "request": CALL}),
            "/two",
        ),
        // Another notation of the same number.
        (
            json!({"key": key, "arguments": {"path": "/two", "n": 2.0}, "request": CALL + 1, "tool": "wipe"}),
            "/two",
        ),
    ] {
        let content = client.question(query.clone()).await["content"].to_string();
        assert!(content.contains(path), "{query}: {content}");
    }
    let state = client.poll(json!({"key": key, "arguments": {}})).await;
    assert_eq!(state, json!({"running": false, "question": null}));
}

#[tokio::test(start_paused = true)]
async fn a_question_that_no_view_fetches_is_refused_as_without_a_user() {
    let mut client = ViewClient::start(true).await;
    let result = client.request(call(CALL, "wipe", json!({}))).await;
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("--allow-tool wipe"), "{text}");
    assert!(ended(&result).starts_with("policy_violation"), "{result}");
}

#[tokio::test(start_paused = true)]
async fn a_view_that_waits_is_told_of_a_question_and_of_its_end() {
    let mut client = ViewClient::start(false).await;
    let query = client.query(&json!({}));
    client
        .send(call(3, "toolhost_question", query.clone()))
        .await;
    client.send(call(CALL, "wipe", json!({}))).await;
    let first = client.client.receive().await;
    assert_eq!(first["id"], json!(3));
    assert_eq!(first["result"]["structuredContent"]["running"], json!(true));
    let question = client.question(query.clone()).await;
    let mut waiting = query;
    waiting["shown"] = question["ticket"].clone();
    client.send(call(5, "toolhost_question", waiting)).await;
    let cancel = json!({"requestId": CALL});
    client
        .send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel}))
        .await;
    let news = client.client.receive().await;
    assert_eq!(news["id"], json!(5));
    assert_eq!(news["result"]["structuredContent"]["question"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_too_long_for_a_view_is_denied_with_a_hint() {
    let mut client = ViewClient::start(true).await;
    let long = json!({"content": "x".repeat(20_000)});
    let error = ended(&client.request(call(CALL, "wipe", long)).await);
    assert!(error.contains("too long to review in a view"), "{error}");
    // A client with forms is asked with a form.
    let mut capabilities = views();
    capabilities["elicitation"] = forms()["elicitation"].take();
    let message = with_capabilities(call(1, "wipe", json!({})), capabilities);
    let asked = client.client.request(&message).await;
    assert_eq!(asked["result"]["resultType"], json!("input_required"));
}

#[tokio::test(start_paused = true)]
async fn a_view_answers_although_as_many_calls_as_possible_wait() {
    let mut client = ViewClient::start(false).await;
    for number in 0..70 {
        let input = json!({"n": number});
        client.send(call(CALL + number, "wipe", input)).await;
    }
    let question = client.question(client.query(&json!({"n": 0}))).await;
    advance(Duration::from_millis(500)).await;
    let result = client.answer_call(&question["ticket"], "once", "").await;
    assert_eq!(ended(&result), "wiped");
}
