//! Questions of tools to the user, and sampling, with sessions and stateless.

use serde_json::{Value, json};

use crate::approvals::{accept, again, ended, forms, input_required};
use crate::harness::{Client, call, with_capabilities};

pub const QUERIES: &str = r#"[{"question": "Which?", "header": "colour", "options": [{"label": "red", "description": "warm"}, {"label": "blue"}]},
    {"question": "Sure?", "type": "yesno"}]"#;

#[tokio::test(start_paused = true)]
async fn a_tool_question_is_one_form_each() {
    let survey = call(1, "survey", json!({"queries": QUERIES}));
    let filled = [
        accept(&json!({"answer": "blue"})),
        accept(&json!({"answer": true})),
    ];

    let mut older = Client::with_prompts(None)
        .start_session("2025-06-18", forms())
        .await;
    older.send(&survey).await;
    for answer in &filled {
        let prompt = older.receive().await;
        let message = prompt["params"]["message"].as_str().unwrap();
        assert!(message.starts_with("A tool asks you ("), "{message}");
        older
            .send(&json!({"jsonrpc": "2.0", "id": prompt["id"], "result": answer}))
            .await;
    }
    let result = older.receive().await["result"].take();
    assert_eq!(ended(&result), r#"["blue",true]"#);

    let mut newest = Client::with_prompts(None);
    let question = input_required(&mut newest, survey.clone()).await;
    let names: Vec<&String> = question["inputRequests"]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    assert_eq!(names, ["question_1", "question_2"]);
    let mut retry = again(survey, &question, &json!(null));
    retry["params"]["inputResponses"] =
        json!({"question_1": filled[0], "question_2": filled[1], "question_3": 7});
    let result = newest.request(&retry).await["result"].take();
    assert_eq!(ended(&result), r#"["blue",true]"#);
}

#[tokio::test(start_paused = true)]
async fn a_declined_question_skips_the_rest() {
    let mut older = Client::with_prompts(None)
        .start_session("2025-11-25", forms())
        .await;
    older
        .send(&call(1, "survey", json!({"queries": QUERIES})))
        .await;
    let prompt = older.receive().await;
    let no = json!({"action": "decline"});
    older
        .send(&json!({"jsonrpc": "2.0", "id": prompt["id"], "result": no}))
        .await;
    let result = older.receive().await["result"].take();
    assert!(ended(&result).starts_with("dismissed"), "{result}");

    let mut client = Client::with_prompts(None);
    let answer = client
        .request(&with_capabilities(
            call(1, "survey", json!({"queries": QUERIES})),
            json!({}),
        ))
        .await;
    assert!(ended(&answer["result"]).starts_with("no_user"), "{answer}");
}

fn model() -> Value {
    let message = json!({"type": "text", "text": "42"});
    json!({"role": "assistant", "content": message, "model": "m-1", "stopReason": "endTurn"})
}

#[tokio::test(start_paused = true)]
async fn a_client_with_sampling_is_a_sub_agent() {
    let samples = json!({"sampling": {}});
    let task = call(
        1,
        "hand_on",
        json!({"agent": "client", "prompt": "add 40 and 2", "context": "all of it"}),
    );
    let check = |sampling: &Value, params: &Value| {
        assert_eq!(
            sampling["method"],
            json!("sampling/createMessage"),
            "{sampling}"
        );
        let text = json!("all of it\n\nadd 40 and 2");
        assert_eq!(params["messages"][0]["content"]["text"], text, "{sampling}");
        assert_eq!(params["includeContext"], json!("none"));
    };
    let answer = r#"{"text":"42","model":"m-1","stop_reason":"endTurn"}"#;

    let mut older = Client::with_prompts(None)
        .start_session("2025-11-25", samples.clone())
        .await;
    older.send(&task).await;
    let sampling = older.receive().await;
    check(&sampling, &sampling["params"]);
    older
        .send(&json!({"jsonrpc": "2.0", "id": sampling["id"], "result": model()}))
        .await;
    assert_eq!(ended(&older.receive().await["result"]), answer);

    let mut newest = Client::with_prompts(None);
    let question = newest
        .request(&with_capabilities(task.clone(), samples.clone()))
        .await["result"]
        .take();
    let sampling = &question["inputRequests"]["task"];
    check(sampling, &sampling["params"]);
    let mut retry = with_capabilities(task.clone(), samples.clone());
    retry["params"]["requestState"] = question["requestState"].clone();
    retry["params"]["inputResponses"] = json!({"task": model()});
    assert_eq!(ended(&newest.request(&retry).await["result"]), answer);
    retry = with_capabilities(task.clone(), samples);
    let question = newest.request(&retry).await["result"].take();
    retry["params"]["requestState"] = question["requestState"].clone();
    retry["params"]["inputResponses"] = json!({"task": 7});
    let error = ended(&newest.request(&retry).await["result"]);
    assert!(
        error.contains("the MCP client's answer is not a valid sampling result"),
        "{error}"
    );

    // A client without the capability is not asked.
    let error = ended(&newest.request(&with_capabilities(task, forms())).await["result"]);
    assert!(error.contains("does not support sampling"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn progress_is_sent_to_the_current_request() {
    let mut client = Client::with_prompts(None);
    let queries = r#"[{"question": "Sure?", "type": "yesno"}]"#;
    let mut survey = call(1, "survey", json!({"queries": queries}));
    survey["params"]["_meta"]["progressToken"] = json!("first");
    client
        .send(&with_capabilities(survey.clone(), forms()))
        .await;
    let received = client.receive().await;
    let progress = |token, progress| json!({"progressToken": token, "progress": progress});
    assert_eq!(received["params"], progress("first", 1.0), "{received}");
    let question = client.receive().await["result"].take();
    assert_eq!(question["resultType"], json!("input_required"));

    survey["id"] = json!(2);
    survey["params"]["_meta"]["progressToken"] = json!("second");
    let mut retry = again(survey, &question, &json!(null));
    let accepted = accept(&json!({"answer": true}));
    retry["params"]["inputResponses"] = json!({"question_1": accepted});
    client.send(&retry).await;
    let received = client.receive().await;
    assert_eq!(received["params"], progress("second", 2.0), "{received}");
    assert_eq!(ended(&client.receive().await["result"]), "[true]");
    assert_eq!(client.close().await, [] as [Value; 0]);
}
