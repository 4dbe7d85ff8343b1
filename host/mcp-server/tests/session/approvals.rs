//! Approval prompts to clients, with sessions and stateless.

use futures::FutureExt as _;
use serde_json::{Value, json};
use tokio::time::{Duration, sleep};
use toolhost_contract::Answer;
use toolhost_contract::bus::EventKind;
use toolhost_kernel::AttributedAnswer;

use crate::harness::{Client, call, request, with_capabilities};

const KEY: &[u8] = b"a key that two hosts have together";

pub fn forms() -> Value {
    json!({"elicitation": {"form": {}}})
}

/// Returns the first question of a stateless call.
pub async fn input_required(client: &mut Client, message: Value) -> Value {
    let answer = client.request(&with_capabilities(message, forms())).await;
    assert_eq!(
        answer["result"]["resultType"],
        json!("input_required"),
        "{answer}"
    );
    answer["result"].clone()
}

/// Repeats the call with an answer.
pub fn again(mut message: Value, question: &Value, answer: &Value) -> Value {
    message["params"]["requestState"] = question["requestState"].clone();
    message["params"]["inputResponses"] = json!({"permission": answer});
    with_capabilities(message, forms())
}

pub fn accept(content: &Value) -> Value {
    json!({"action": "accept", "content": content})
}

/// Returns the error code and first line of a result, or its text.
pub fn ended(result: &Value) -> String {
    let code = &result["_meta"]["dev.toolhost/error"]["code"];
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    match code.as_str() {
        Some(code) => format!("{code}: {}", text.lines().next().unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Answers and the expected ends of the call.
fn answers() -> Vec<(Value, &'static str)> {
    vec![
        (accept(&json!({"answer": "once"})), "wiped"),
        (
            accept(&json!({"answer": "session", "note": "go on"})),
            "wiped",
        ),
        (
            accept(&json!({"answer": "deny", "note": "not\u{1b} now"})),
            r"user_denied: Permission denied: the user rejected `wipe`: not\u{1b} now",
        ),
        (
            accept(&json!({"answer": "stop"})),
            "cancelled: Permission denied: the user cancelled the prompt for `wipe`",
        ),
        (
            json!({"action": "decline"}),
            "user_denied: Permission denied: the user rejected `wipe`",
        ),
        (
            json!({"action": "cancel"}),
            "cancelled: Permission denied: the user cancelled the prompt for `wipe`",
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_session_client_is_prompted_during_its_call() {
    for version in ["2025-06-18", "2025-11-25"] {
        for (answer, becomes) in answers() {
            let mut client = Client::with_prompts(None)
                .start_session(version, forms())
                .await;
            client.send(&call(1, "wipe", json!({"path": "/a"}))).await;
            let prompt = client.receive().await;
            assert_eq!(prompt["method"], json!("elicitation/create"), "{prompt}");
            client
                .send(&json!({"jsonrpc": "2.0", "id": prompt["id"], "result": answer}))
                .await;
            let result = client.receive().await["result"].take();
            assert_eq!(ended(&result), becomes, "{answer}");
            assert_eq!(client.close().await, [] as [Value; 0]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stateless_client_returns_with_the_answer() {
    for (answer, becomes) in answers() {
        let mut client = Client::with_prompts(None);
        let wipe = call(1, "wipe", json!({"path": "/a", "n": 1}));
        let question = input_required(&mut client, wipe.clone()).await;
        let asks = &question["inputRequests"]["permission"];
        assert_eq!(asks["method"], json!("elicitation/create"));
        let retry = again(
            call(2, "wipe", json!({"n": 1, "path": "/a"})),
            &question,
            &answer,
        );
        let result = client.request(&retry).await["result"].take();
        assert_eq!(ended(&result), becomes, "{answer}");
        assert_eq!(
            client.tools.ids.lock().unwrap().len(),
            usize::from(becomes == "wiped")
        );
        assert_eq!(client.close().await, [] as [Value; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_form_shows_the_complete_call_without_control_characters() {
    let hostile = json!({"path": "/a\u{1b}[2J\nplugin: trusted", "content": "x\u{202e}y"});
    let mut client = Client::with_prompts(None);
    let question = input_required(&mut client, call(1, "wipe", hostile)).await;
    let params = &question["inputRequests"]["permission"]["params"];
    let message = params["message"].as_str().unwrap();
    for line in [
        "Allow this call?",
        "plugin: fake",
        "tool: wipe",
        "effect: may destroy data",
        "reason: it may destroy data",
        r#"  │   "path": "/a\u001b[2J\nplugin: trusted","#,
        r#"  │   "content": "x\u{202e}y""#,
    ] {
        assert!(message.lines().any(|one| one == line), "{line}: {message}");
    }
    let schema = &params["requestedSchema"];
    assert_eq!(schema["required"], json!(["answer"]));
    let answer = &schema["properties"]["answer"];
    assert_eq!(answer["default"], json!("deny"));
    let values: Vec<&str> = answer["oneOf"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["const"].as_str().unwrap())
        .collect();
    assert_eq!(values[0], "once");
    assert_eq!(values[values.len() - 2..], ["deny", "stop"]);

    let mut older = Client::with_prompts(None)
        .start_session("2025-06-18", forms())
        .await;
    older.send(&call(1, "wipe", json!({}))).await;
    let prompt = older.receive().await;
    let answer = &prompt["params"]["requestedSchema"]["properties"]["answer"];
    assert_eq!(answer["enum"][0], json!("once"), "{prompt}");
    assert_eq!(answer["enumNames"][0], json!("Allow `wipe` this once"));
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_too_long_is_denied_with_a_hint() {
    let mut client = Client::with_prompts(None);
    let long = json!({"content": "x".repeat(20_000)});
    let answer = client
        .request(&with_capabilities(call(1, "wipe", long), forms()))
        .await;
    let error = ended(&answer["result"]);
    assert!(error.contains("too long to review in a form"), "{error}");
    assert!(error.contains("--allow-tool wipe"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_approval_for_the_session_skips_the_next_prompt() {
    let mut client = Client::with_prompts(None);
    let wipe = call(1, "wipe", json!({"path": "/a"}));
    let question = input_required(&mut client, wipe.clone()).await;
    let session_approval = accept(&json!({"answer": "session"}));
    client
        .request(&again(wipe.clone(), &question, &session_approval))
        .await;
    let result = client.request(&with_capabilities(wipe, forms())).await["result"].take();
    assert_eq!(ended(&result), "wiped");
}

/// Returns who approved or denied, in order.
fn deciders(received: &mut toolhost_kernel::Subscription) -> Vec<String> {
    let mut by = Vec::new();
    while let Some(event) = received.try_next() {
        if let EventKind::PermissionDecided { by: one, .. } = &event.unwrap().kind {
            by.push(one.clone());
        }
    }
    by
}

#[tokio::test(start_paused = true)]
async fn a_client_can_only_approve_for_its_session() {
    let check = |answer: &Value| {
        let values = answer["oneOf"].as_array().unwrap().iter();
        let values: Vec<_> = values.map(|one| one["const"].as_str().unwrap()).collect();
        assert_eq!(values, ["once", "session", "session_wider", "deny", "stop"]);
    };
    let approve = |answer: &str| accept(&json!({"answer": answer}));

    let mut newest = Client::with_prompts(None);
    let mut received = newest.kernel.subscribe(None, None);
    let wipe = call(1, "wipe", json!({"n": 1}));
    let mut question = input_required(&mut newest, wipe.clone()).await;
    // Other prompters offer more.
    let offers = newest.kernel.pending().remove(0).question.offers;
    assert_eq!(offers.len(), 7, "{offers:?}");
    for wider in ["project", "user", "user_wider"] {
        let form = &question["inputRequests"]["permission"]["params"];
        check(&form["requestedSchema"]["properties"]["answer"]);
        let retry = again(wipe.clone(), &question, &approve(wider));
        question = newest.request(&retry).await["result"].take();
    }
    assert!(
        ended(&question).starts_with("policy_violation"),
        "{question}"
    );
    // `session_wider` selects the wider offer, wherever it stands among the offers.
    let question = input_required(&mut newest, wipe.clone()).await;
    let retry = again(wipe, &question, &approve("session_wider"));
    assert_eq!(ended(&newest.request(&retry).await["result"]), "wiped");
    let other = with_capabilities(call(2, "wipe", json!({"n": 2})), forms());
    assert_eq!(ended(&newest.request(&other).await["result"]), "wiped");
    assert_eq!(deciders(&mut received)[..2], ["mcp client"; 2]);

    let name = "c\u{1b}".repeat(100);
    let mut older = Client::with_prompts(None);
    let mut received = older.kernel.subscribe(None, None);
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": forms(), "clientInfo": {"name": name, "version": "1"}});
    older.request(&request(0, "initialize", hello)).await;
    older
        .send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        .await;
    older.send(&call(1, "wipe", json!({"n": 1}))).await;
    let mut prompt = older.receive().await;
    check(&prompt["params"]["requestedSchema"]["properties"]["answer"]);
    for answer in ["user_wider", "once"] {
        older
            .send(&json!({"jsonrpc": "2.0", "id": prompt["id"], "result": approve(answer)}))
            .await;
        prompt = older.receive().await;
    }
    assert_eq!(ended(&prompt["result"]), "wiped");
    let by = deciders(&mut received).remove(0);
    assert!(by.starts_with(r"mcp client c\u{1b}c"), "{by}");
    assert!(by.ends_with("… (+140 characters)"), "{by}");
}

#[tokio::test(start_paused = true)]
async fn a_client_without_forms_gets_a_denial_with_a_hint() {
    let check_denial = |result: &Value| {
        let text = result["content"][0]["text"].as_str().unwrap();
        assert_eq!(result["isError"], json!(true));
        assert!(text.contains("--allow-tool wipe"), "{text}");
    };
    for capabilities in [json!({}), json!({"elicitation": {"url": {}}})] {
        let mut client = Client::with_prompts(None);
        let answer = client
            .request(&with_capabilities(
                call(1, "wipe", json!({})),
                capabilities.clone(),
            ))
            .await;
        check_denial(&answer["result"]);
        let mut client = Client::with_prompts(None)
            .start_session("2025-11-25", capabilities)
            .await;
        check_denial(&client.call("wipe", json!({})).await);
    }
    // A client with forms, but the host does not use them.
    let mut client = Client::new();
    let answer = client
        .request(&with_capabilities(call(1, "wipe", json!({})), forms()))
        .await;
    check_denial(&answer["result"]);
}

#[tokio::test(start_paused = true)]
async fn an_empty_elicitation_capability_means_forms() {
    let mut client = Client::with_prompts(None);
    let wipe = with_capabilities(call(1, "wipe", json!({})), json!({"elicitation": {}}));
    let answer = client.request(&wipe).await;
    assert_eq!(answer["result"]["resultType"], json!("input_required"));
}

#[tokio::test(start_paused = true)]
async fn a_request_state_is_valid_once_for_its_call() {
    let mut client = Client::with_prompts(None);
    let wipe = call(1, "wipe", json!({"path": "/a"}));
    let approval = accept(&json!({"answer": "once"}));
    let question = input_required(&mut client, wipe.clone()).await;
    let mut forged = question.clone();
    let state = forged["requestState"].as_str().unwrap().to_owned();
    forged["requestState"] = json!(format!("{}AA", &state[..state.len() - 2]));
    for (retry, why) in [
        (
            again(call(2, "wipe", json!({"path": "/b"})), &question, &approval),
            "was not made for this call",
        ),
        (
            again(call(3, "echo", json!({"path": "/a"})), &question, &approval),
            "was not made for this call",
        ),
        (
            again(wipe.clone(), &forged, &approval),
            "was not made for this call",
        ),
    ] {
        let answer = client.request(&retry).await;
        assert_eq!(answer["error"]["code"], json!(-32602), "{answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(why), "{message}");
    }
    let good = again(wipe.clone(), &question, &approval);
    assert_eq!(ended(&client.request(&good).await["result"]), "wiped");
    let answer = client.request(&good).await;
    assert!(
        answer["error"]["message"]
            .as_str()
            .unwrap()
            .contains("already used"),
        "{answer}"
    );
    assert_eq!(client.tools.ids.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_is_rejected_and_the_call_has_ended() {
    let mut client = Client::with_prompts(None);
    let wipe = call(1, "wipe", json!({}));
    let question = input_required(&mut client, wipe.clone()).await;
    assert_eq!(client.kernel.pending().len(), 1);
    sleep(Duration::from_secs(301)).await;
    assert_eq!(client.kernel.pending().len(), 0);
    let approval = accept(&json!({"answer": "once"}));
    let answer = client.request(&again(wipe, &question, &approval)).await;
    assert_eq!(answer["error"]["code"], json!(-32602), "{answer}");
    assert_eq!(client.tools.ids.lock().unwrap().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_missing_or_invalid_answer_repeats_the_question() {
    let mut client = Client::with_prompts(None);
    let wipe = call(1, "wipe", json!({}));
    let mut question = input_required(&mut client, wipe.clone()).await;
    let mut retry = again(wipe.clone(), &question, &json!(null));
    retry["params"]["inputResponses"] = json!({"something else": 7});
    let answer = client.request(&retry).await["result"].take();
    assert_eq!(answer["resultType"], json!("input_required"));
    assert_ne!(answer["requestState"], question["requestState"]);
    question = answer;
    for invalid in [json!(7), accept(&json!({"answer": "always"}))] {
        let answer = client
            .request(&again(wipe.clone(), &question, &invalid))
            .await["result"]
            .take();
        assert_eq!(answer["resultType"], json!("input_required"), "{invalid}");
        question = answer;
    }
    // Repeated invalid answers are neither an approval nor a denial.
    let invalid = accept(&json!({}));
    let answer = client.request(&again(wipe, &question, &invalid)).await["result"].take();
    assert!(ended(&answer).starts_with("policy_violation"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn another_host_with_the_same_key_accepts_an_answer_once() {
    let (mut first, mut second) = (
        Client::with_prompts(Some(KEY)),
        Client::with_prompts(Some(KEY)),
    );
    let wipe = call(1, "wipe", json!({"path": "/a"}));
    let question = input_required(&mut first, wipe.clone()).await;
    let retry = again(wipe, &question, &accept(&json!({"answer": "once"})));
    let answer = second.request(&retry).await;
    assert_eq!(ended(&answer["result"]), "wiped", "{answer}");
    let answer = second.request(&retry).await;
    assert_eq!(answer["error"]["code"], json!(-32602), "{answer}");
    let answer = Client::with_prompts(None).request(&retry).await;
    assert_eq!(answer["error"]["code"], json!(-32602), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn suspended_calls_per_client_are_limited() {
    let mut client = Client::with_prompts(None);
    for id in 0..32 {
        input_required(&mut client, call(id, "wipe", json!({"n": id}))).await;
    }
    let answer = client
        .request(&with_capabilities(
            call(99, "wipe", json!({"n": 99})),
            forms(),
        ))
        .await;
    let error = ended(&answer["result"]);
    assert!(error.contains("got no valid answer"), "{error}");
    assert_eq!(client.close().await, [] as [Value; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_prompt_is_cancelled_with_its_call() {
    let mut client = Client::with_prompts(None)
        .start_session("2025-11-25", forms())
        .await;
    client.send(&call(7, "wipe", json!({}))).await;
    let prompt = client.receive().await;
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})).await;
    let received = client.receive().await;
    assert_eq!(received["method"], json!("notifications/cancelled"));
    assert_eq!(received["params"]["requestId"], prompt["id"]);
    client.request(&request(8, "ping", json!({}))).await;
    assert_eq!(client.kernel.pending().len(), 0);
    assert_eq!(client.close().await, [] as [Value; 0]);
}

/// Approves the pending call like the web page does.
pub fn approve_elsewhere(client: &Client) {
    let pending = client.kernel.pending().remove(0);
    let answer = AttributedAnswer {
        answer: Answer::once(),
        by: "the dashboard".to_owned(),
    };
    client.kernel.answer(&pending.call, answer).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_prompt_is_cancelled_when_answered_elsewhere() {
    let mut client = Client::with_prompts(None)
        .start_session("2025-11-25", forms())
        .await;
    client.send(&call(7, "wipe", json!({}))).await;
    client.receive().await;
    approve_elsewhere(&client);
    let mut received = [client.receive().await, client.receive().await];
    received.sort_by_key(|message| message["method"].is_string());
    assert_eq!(ended(&received[0]["result"]), "wiped");
    assert_eq!(received[1]["method"], json!("notifications/cancelled"));

    // A stateless client gets the result with its next request.
    let mut client = Client::with_prompts(None);
    let wipe = call(1, "wipe", json!({}));
    let question = input_required(&mut client, wipe.clone()).await;
    approve_elsewhere(&client);
    let no = json!({"action": "decline"});
    let answer = client.request(&again(wipe, &question, &no)).await;
    assert_eq!(ended(&answer["result"]), "wiped");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_approved_elsewhere_runs_until_its_end() {
    let wipe = call(1, "wipe", json!({"content": "wait"}));
    let mut client = Client::with_prompts(None);
    input_required(&mut client, wipe.clone()).await;
    approve_elsewhere(&client);
    client.tools.begun.notified().await;
    // Longer than the client can return with its state.
    sleep(Duration::from_secs(330)).await;
    client.tools.go.notify_one();
    sleep(Duration::from_secs(1)).await;
    assert!(client.tools.dropped.notified().now_or_never().is_none());
    assert!(client.tools.go.notified().now_or_never().is_none());

    // A client that returns in time gets the result.
    let question = input_required(&mut client, wipe.clone()).await;
    approve_elsewhere(&client);
    client.tools.begun.notified().await;
    client.tools.go.notify_one();
    sleep(Duration::from_mins(4)).await;
    let no = json!({"action": "decline"});
    let answer = client.request(&again(wipe.clone(), &question, &no)).await;
    assert_eq!(ended(&answer["result"]), "wiped");

    // The end of the session ends the call.
    input_required(&mut client, wipe).await;
    approve_elsewhere(&client);
    client.tools.begun.notified().await;
    sleep(Duration::from_secs(330)).await;
    let tools = client.tools.clone();
    assert_eq!(client.close().await, [] as [Value; 0]);
    tools.dropped.notified().await;
}
