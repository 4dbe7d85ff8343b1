//! Approval prompts to clients, with sessions and stateless.

use serde_json::{Value, json};
use toolhost_contract::bus::Happening;

use crate::fake::{Client, able, call, request};

const KEY: &[u8] = b"a key that two hosts have together";

pub fn forms() -> Value {
    json!({"elicitation": {"form": {}}})
}

/// Returns the first question of a stateless call.
pub async fn input_required(client: &mut Client, asked: Value) -> Value {
    let answer = client.ask(&able(asked, forms())).await;
    assert_eq!(
        answer["result"]["resultType"],
        json!("input_required"),
        "{answer}"
    );
    answer["result"].clone()
}

/// Repeats the call with an answer.
pub fn again(mut asked: Value, question: &Value, answer: &Value) -> Value {
    asked["params"]["requestState"] = question["requestState"].clone();
    asked["params"]["inputResponses"] = json!({"permission": answer});
    able(asked, forms())
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
async fn a_client_with_a_session_is_asked_while_its_call_goes_on() {
    for version in ["2025-06-18", "2025-11-25"] {
        for (answer, becomes) in answers() {
            let mut client = Client::asked(None).greeted(version, forms()).await;
            client.say(&call(1, "wipe", json!({"path": "/a"}))).await;
            let asked = client.hear().await;
            assert_eq!(asked["method"], json!("elicitation/create"), "{asked}");
            client
                .say(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer}))
                .await;
            let result = client.hear().await["result"].take();
            assert_eq!(ended(&result), becomes, "{answer}");
            assert_eq!(client.close().await, [] as [Value; 0]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_without_a_session_comes_back_with_the_answer() {
    for (answer, becomes) in answers() {
        let mut client = Client::asked(None);
        let asked = call(1, "wipe", json!({"path": "/a", "n": 1}));
        let question = input_required(&mut client, asked.clone()).await;
        let asks = &question["inputRequests"]["permission"];
        assert_eq!(asks["method"], json!("elicitation/create"));
        let retry = again(
            call(2, "wipe", json!({"n": 1, "path": "/a"})),
            &question,
            &answer,
        );
        let result = client.ask(&retry).await["result"].take();
        assert_eq!(ended(&result), becomes, "{answer}");
        assert_eq!(
            client.tools.ids.lock().unwrap().len(),
            usize::from(becomes == "wiped")
        );
        assert_eq!(client.close().await, [] as [Value; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_form_shows_all_of_what_is_approved_and_nothing_that_moves_a_cursor() {
    let hostile = json!({"path": "/a\u{1b}[2J\nplugin: trusted", "content": "x\u{202e}y"});
    let mut client = Client::asked(None);
    let question = input_required(&mut client, call(1, "wipe", hostile)).await;
    let params = &question["inputRequests"]["permission"]["params"];
    let message = params["message"].as_str().unwrap();
    for line in [
        "Allow this call?",
        "plugin: fake",
        "tool: wipe",
        "effect: destroys",
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

    let mut older = Client::asked(None).greeted("2025-06-18", forms()).await;
    older.say(&call(1, "wipe", json!({}))).await;
    let asked = older.hear().await;
    let answer = &asked["params"]["requestedSchema"]["properties"]["answer"];
    assert_eq!(answer["enum"][0], json!("once"), "{asked}");
    assert_eq!(answer["enumNames"][0], json!("Allow `wipe` this once"));
}

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_could_read_is_a_no_that_names_the_way() {
    let mut client = Client::asked(None);
    let long = json!({"content": "x".repeat(20_000)});
    let answer = client.ask(&able(call(1, "wipe", long), forms())).await;
    let said = ended(&answer["result"]);
    assert!(said.contains("too long to review in a form"), "{said}");
    assert!(said.contains("--allow-tool wipe"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_yes_for_the_session_spares_the_next_question() {
    let mut client = Client::asked(None);
    let asked = call(1, "wipe", json!({"path": "/a"}));
    let question = input_required(&mut client, asked.clone()).await;
    let yes = accept(&json!({"answer": "session"}));
    client.ask(&again(asked.clone(), &question, &yes)).await;
    let result = client.ask(&able(asked, forms())).await["result"].take();
    assert_eq!(ended(&result), "wiped");
}

/// Returns who approved or denied, in order.
fn deciders(heard: &mut toolhost_kernel::Subscription) -> Vec<String> {
    let mut by = Vec::new();
    while let Some(event) = heard.try_next() {
        if let Happening::PermissionDecided { by: one, .. } = &event.unwrap().happening {
            by.push(one.clone());
        }
    }
    by
}

#[tokio::test(start_paused = true)]
async fn a_client_answers_for_its_session_and_no_further() {
    let check = |answer: &Value| {
        let values = answer["oneOf"].as_array().unwrap().iter();
        let values: Vec<_> = values.map(|one| one["const"].as_str().unwrap()).collect();
        assert_eq!(values, ["once", "session", "session_wider", "deny", "stop"]);
    };
    let yes = |answer: &str| accept(&json!({"answer": answer}));

    let mut newest = Client::asked(None);
    let mut heard = newest.kernel.subscribe(None, None);
    let asked = call(1, "wipe", json!({"n": 1}));
    let mut question = input_required(&mut newest, asked.clone()).await;
    // Other prompters offer more.
    let offers = newest.kernel.pending().remove(0).question.offers;
    assert_eq!(offers.len(), 7, "{offers:?}");
    for beyond in ["project", "user", "user_wider"] {
        let form = &question["inputRequests"]["permission"]["params"];
        check(&form["requestedSchema"]["properties"]["answer"]);
        let retry = again(asked.clone(), &question, &yes(beyond));
        question = newest.ask(&retry).await["result"].take();
    }
    assert!(
        ended(&question).starts_with("policy_violation"),
        "{question}"
    );
    // `session_wider` selects the wider offer, wherever it stands among the offers.
    let question = input_required(&mut newest, asked.clone()).await;
    let retry = again(asked, &question, &yes("session_wider"));
    assert_eq!(ended(&newest.ask(&retry).await["result"]), "wiped");
    let other = able(call(2, "wipe", json!({"n": 2})), forms());
    assert_eq!(ended(&newest.ask(&other).await["result"]), "wiped");
    assert_eq!(deciders(&mut heard)[..2], ["mcp client"; 2]);

    let name = "c\u{1b}".repeat(100);
    let mut older = Client::asked(None);
    let mut heard = older.kernel.subscribe(None, None);
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": forms(), "clientInfo": {"name": name, "version": "1"}});
    older.ask(&request(0, "initialize", hello)).await;
    older
        .say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        .await;
    older.say(&call(1, "wipe", json!({"n": 1}))).await;
    let mut asked = older.hear().await;
    check(&asked["params"]["requestedSchema"]["properties"]["answer"]);
    for answer in ["user_wider", "once"] {
        older
            .say(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": yes(answer)}))
            .await;
        asked = older.hear().await;
    }
    assert_eq!(ended(&asked["result"]), "wiped");
    let by = deciders(&mut heard).remove(0);
    assert!(by.starts_with(r"mcp client c\u{1b}c"), "{by}");
    assert!(by.ends_with("… (+140 characters)"), "{by}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_cannot_ask_gets_a_refusal_that_names_the_grant() {
    let says = |result: &Value| {
        let text = result["content"][0]["text"].as_str().unwrap();
        assert_eq!(result["isError"], json!(true));
        assert!(text.contains("--allow-tool wipe"), "{text}");
    };
    for capabilities in [json!({}), json!({"elicitation": {"url": {}}})] {
        let mut client = Client::asked(None);
        let answer = client
            .ask(&able(call(1, "wipe", json!({})), capabilities.clone()))
            .await;
        says(&answer["result"]);
        let mut client = Client::asked(None)
            .greeted("2025-11-25", capabilities)
            .await;
        says(&client.call("wipe", json!({})).await);
    }
    // A client with forms, but the host does not use them.
    let mut client = Client::new();
    let answer = client.ask(&able(call(1, "wipe", json!({})), forms())).await;
    says(&answer["result"]);
}

#[tokio::test(start_paused = true)]
async fn whoever_says_nothing_about_forms_can_show_them() {
    let mut client = Client::asked(None);
    let asked = able(call(1, "wipe", json!({})), json!({"elicitation": {}}));
    let answer = client.ask(&asked).await;
    assert_eq!(answer["result"]["resultType"], json!("input_required"));
}

#[tokio::test(start_paused = true)]
async fn a_state_is_good_for_its_own_call_and_once() {
    let mut client = Client::asked(None);
    let asked = call(1, "wipe", json!({"path": "/a"}));
    let yes = accept(&json!({"answer": "once"}));
    let question = input_required(&mut client, asked.clone()).await;
    let mut forged = question.clone();
    let state = forged["requestState"].as_str().unwrap().to_owned();
    forged["requestState"] = json!(format!("{}AA", &state[..state.len() - 2]));
    for (retry, why) in [
        (
            again(call(2, "wipe", json!({"path": "/b"})), &question, &yes),
            "was not made for this call",
        ),
        (
            again(call(3, "echo", json!({"path": "/a"})), &question, &yes),
            "was not made for this call",
        ),
        (
            again(asked.clone(), &forged, &yes),
            "was not made for this call",
        ),
    ] {
        let answer = client.ask(&retry).await;
        assert_eq!(answer["error"]["code"], json!(-32602), "{answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(why), "{message}");
    }
    let good = again(asked.clone(), &question, &yes);
    assert_eq!(ended(&client.ask(&good).await["result"]), "wiped");
    let answer = client.ask(&good).await;
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
async fn whoever_comes_back_too_late_is_refused_and_the_call_has_ended() {
    let mut client = Client::asked(None);
    let asked = call(1, "wipe", json!({}));
    let question = input_required(&mut client, asked.clone()).await;
    assert_eq!(client.kernel.pending().len(), 1);
    tokio::time::sleep(std::time::Duration::from_secs(301)).await;
    assert_eq!(client.kernel.pending().len(), 0);
    let yes = accept(&json!({"answer": "once"}));
    let answer = client.ask(&again(asked, &question, &yes)).await;
    assert_eq!(answer["error"]["code"], json!(-32602), "{answer}");
    assert_eq!(client.tools.ids.lock().unwrap().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_missing_or_odd_is_asked_for_again() {
    let mut client = Client::asked(None);
    let asked = call(1, "wipe", json!({}));
    let mut question = input_required(&mut client, asked.clone()).await;
    let mut retry = again(asked.clone(), &question, &json!(null));
    retry["params"]["inputResponses"] = json!({"something else": 7});
    let answer = client.ask(&retry).await["result"].take();
    assert_eq!(answer["resultType"], json!("input_required"));
    assert_ne!(answer["requestState"], question["requestState"]);
    question = answer;
    for odd in [json!(7), accept(&json!({"answer": "always"}))] {
        let answer = client.ask(&again(asked.clone(), &question, &odd)).await["result"].take();
        assert_eq!(answer["resultType"], json!("input_required"), "{odd}");
        question = answer;
    }
    // Repeated invalid answers are neither an approval nor a denial.
    let odd = accept(&json!({}));
    let answer = client.ask(&again(asked, &question, &odd)).await["result"].take();
    assert!(ended(&answer).starts_with("policy_violation"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn another_host_with_the_same_key_takes_an_answer_once() {
    let (mut first, mut second) = (Client::asked(Some(KEY)), Client::asked(Some(KEY)));
    let asked = call(1, "wipe", json!({"path": "/a"}));
    let question = input_required(&mut first, asked.clone()).await;
    let retry = again(asked, &question, &accept(&json!({"answer": "once"})));
    let answer = second.ask(&retry).await;
    assert_eq!(ended(&answer["result"]), "wiped", "{answer}");
    let answer = second.ask(&retry).await;
    assert_eq!(answer["error"]["code"], json!(-32602), "{answer}");
    let answer = Client::asked(None).ask(&retry).await;
    assert_eq!(answer["error"]["code"], json!(-32602), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn so_many_calls_wait_for_one_client_and_no_more() {
    let mut client = Client::asked(None);
    for id in 0..32 {
        input_required(&mut client, call(id, "wipe", json!({"n": id}))).await;
    }
    let answer = client
        .ask(&able(call(99, "wipe", json!({"n": 99})), forms()))
        .await;
    let said = ended(&answer["result"]);
    assert!(said.contains("was not answered in time"), "{said}");
    assert_eq!(client.close().await, [] as [Value; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_question_is_taken_back_when_its_call_is_cancelled() {
    let mut client = Client::asked(None).greeted("2025-11-25", forms()).await;
    client.say(&call(7, "wipe", json!({}))).await;
    let asked = client.hear().await;
    client.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})).await;
    let heard = client.hear().await;
    assert_eq!(heard["method"], json!("notifications/cancelled"));
    assert_eq!(heard["params"]["requestId"], asked["id"]);
    client.ask(&request(8, "ping", json!({}))).await;
    assert_eq!(client.kernel.pending().len(), 0);
    assert_eq!(client.close().await, [] as [Value; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_answered_elsewhere_takes_its_question_back() {
    use toolhost_contract::Answer;
    use toolhost_kernel::Answered;

    let answered = || Answered {
        answer: Answer::once(),
        by: "the dashboard".to_owned(),
    };
    let mut client = Client::asked(None).greeted("2025-11-25", forms()).await;
    client.say(&call(7, "wipe", json!({}))).await;
    client.hear().await;
    let pending = client.kernel.pending().remove(0);
    client.kernel.answer(&pending.call, answered()).unwrap();
    let mut heard = [client.hear().await, client.hear().await];
    heard.sort_by_key(|message| message["method"].is_string());
    assert_eq!(ended(&heard[0]["result"]), "wiped");
    assert_eq!(heard[1]["method"], json!("notifications/cancelled"));

    // A stateless client gets the result with its next request.
    let mut client = Client::asked(None);
    let asked = call(1, "wipe", json!({}));
    let question = input_required(&mut client, asked.clone()).await;
    let pending = client.kernel.pending().remove(0);
    client.kernel.answer(&pending.call, answered()).unwrap();
    let no = json!({"action": "decline"});
    let answer = client.ask(&again(asked, &question, &no)).await;
    assert_eq!(ended(&answer["result"]), "wiped");
}
