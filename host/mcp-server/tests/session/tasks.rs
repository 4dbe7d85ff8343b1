//! Tests of tasks and of truncated results.

use serde_json::{Value, json};

use crate::approvals::{accept, ended};
use crate::harness::{Client, call, modern, request, with_capabilities};
use crate::user_questions::QUERIES;

fn task_capabilities() -> Value {
    json!({"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {}})
}

async fn ask(client: &mut Client, message: Value) -> Value {
    client
        .request(&with_capabilities(message, task_capabilities()))
        .await
}

/// Makes a call that becomes a task and returns the task id.
async fn task(client: &mut Client, message: Value) -> String {
    let answer = ask(client, message).await;
    assert_eq!(answer["result"]["resultType"], json!("task"), "{answer}");
    assert_eq!(answer["result"]["status"], json!("working"), "{answer}");
    answer["result"]["taskId"].as_str().unwrap().to_owned()
}

async fn get_task(client: &mut Client, id: &str) -> Value {
    let message = request(9, "tasks/get", json!({"taskId": id}));
    ask(client, message).await["result"].take()
}

/// Waits until the task has this status.
async fn until(client: &mut Client, id: &str, status: &str) -> Value {
    for _ in 0..100 {
        let task = get_task(client, id).await;
        if task["status"] == json!(status) {
            return task;
        }
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    panic!("task {id} never was {status}")
}

#[tokio::test(start_paused = true)]
async fn a_slow_call_becomes_a_task_if_the_client_supports_tasks() {
    let mut client = Client::new();
    let id = task(&mut client, call(1, "wait", json!({}))).await;
    assert_eq!(get_task(&mut client, &id).await["status"], json!("working"));
    client.tools.go.notify_one();
    let done = until(&mut client, &id, "completed").await;
    assert_eq!(done["result"]["content"][0]["text"], json!("waited"));

    // A short call returns its result, and so does a long one of a client without tasks.
    let answer = ask(&mut client, call(2, "echo", json!({"text": "hi"}))).await;
    assert_eq!(ended(&answer["result"]), "hi");
    client.send(&modern(call(3, "wait", json!({})))).await;
    tokio::time::sleep(std::time::Duration::from_secs(20)).await;
    client.tools.go.notify_one();
    assert_eq!(ended(&client.receive().await["result"]), "waited");
    assert_eq!(client.close().await, [] as [Value; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_cancelled_ends_its_call() {
    let mut client = Client::new();
    let id = task(&mut client, call(1, "wait", json!({}))).await;
    ask(
        &mut client,
        request(2, "tasks/cancel", json!({"taskId": id})),
    )
    .await;
    client.tools.dropped.notified().await;
    until(&mut client, &id, "cancelled").await;
    assert_eq!(client.close().await, [] as [Value; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_ends_its_tasks() {
    let mut client = Client::new();
    task(&mut client, call(1, "wait", json!({}))).await;
    let tools = client.tools.clone();
    assert_eq!(client.close().await, [] as [Value; 0]);
    tools.dropped.notified().await;
}

#[tokio::test(start_paused = true)]
async fn prompts_are_sent_through_the_task() {
    let mut client = Client::with_prompts(None);
    let survey = call(1, "survey", json!({"queries": QUERIES, "after": 15}));
    let id = task(&mut client, survey).await;
    for (name, answer) in [
        ("question_1_1", json!({"answer": "red"})),
        ("question_2_2", json!({"answer": false})),
    ] {
        let task = until(&mut client, &id, "input_required").await;
        let method = &task["inputRequests"][name]["method"];
        assert_eq!(method, &json!("elicitation/create"), "{task}");
        let answers = json!({"taskId": id, "inputResponses": {name: accept(&answer)}});
        ask(&mut client, request(2, "tasks/update", answers)).await;
    }
    let done = until(&mut client, &id, "completed").await;
    assert_eq!(ended(&done["result"]), r#"["red",false]"#);
}

#[tokio::test(start_paused = true)]
async fn a_declined_prompt_of_a_task_skips_the_rest() {
    let mut client = Client::with_prompts(None);
    let survey = call(1, "survey", json!({"queries": QUERIES, "after": 15}));
    let id = task(&mut client, survey).await;
    until(&mut client, &id, "input_required").await;
    let no = json!({"question_1_1": {"action": "decline"}});
    let answers = json!({"taskId": id, "inputResponses": no});
    ask(&mut client, request(2, "tasks/update", answers)).await;
    let done = until(&mut client, &id, "completed").await;
    let error = ended(&done["result"]);
    assert!(error.starts_with("dismissed"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_task_is_an_error() {
    let mut client = Client::new();
    client
        .request(&modern(request(1, "tools/list", json!({}))))
        .await;
    for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
        let params = json!({"taskId": "\u{1b}7", "inputResponses": {}});
        let answer = ask(&mut client, request(2, method, params.clone())).await;
        assert_eq!(answer["error"]["code"], json!(-32602), "{answer}");
        assert!(!answer.to_string().contains("\\u001b"), "{answer}");
        let answer = client.request(&modern(request(3, method, params))).await;
        assert_eq!(answer["error"]["code"], json!(-32021), "{answer}");
    }
    let answer = client
        .request(&modern(request(4, "server/discover", json!({}))))
        .await;
    let extensions = &answer["result"]["capabilities"]["extensions"];
    assert_eq!(extensions, &json!({"io.modelcontextprotocol/tasks": {}}));
}

#[tokio::test(start_paused = true)]
async fn tasks_per_user_are_limited() {
    let mut client = Client::new();
    let mut answers = Vec::new();
    for id in 0..32 {
        let survey = call(id, "survey", json!({"queries": QUERIES, "after": id + 25}));
        client
            .send(&with_capabilities(survey, task_capabilities()))
            .await;
    }
    for _ in 0..32 {
        answers.push(client.receive().await);
    }
    for answer in answers {
        assert_eq!(answer["result"]["resultType"], json!("task"), "{answer}");
    }
    // A call beyond the limit does not become a task.
    let survey = call(99, "survey", json!({"queries": QUERIES, "after": 20}));
    let answer = ask(&mut client, survey).await;
    assert_eq!(
        answer["result"]["resultType"],
        json!("complete"),
        "{answer}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_long_text_is_truncated_and_readable_by_its_link() {
    let long = "x".repeat(400 << 10);
    for newest in [false, true] {
        let form = |message: Value| if newest { modern(message) } else { message };
        let mut client = if newest {
            Client::new()
        } else {
            Client::initialized().await
        };
        let echo = form(call(1, "echo", json!({"text": long})));
        let result = client.request(&echo).await["result"].take();
        let shown = result["content"][0]["text"].as_str().unwrap();
        assert!(shown.len() < 100 << 10);
        let link = &result["content"][1];
        assert_eq!(link["type"], json!("resource_link"), "{link}");
        assert_eq!(link["size"], json!(long.len()));
        assert!(shown.contains(link["uri"].as_str().unwrap()));
        let read = form(request(2, "resources/read", json!({"uri": link["uri"]})));
        let read = client.request(&read).await["result"].take();
        assert_eq!(read["contents"][0]["text"], json!(long));
        let gone = form(request(
            3,
            "resources/read",
            json!({"uri": "toolhost://result/7"}),
        ));
        let code = if newest { -32602 } else { -32002 };
        assert_eq!(client.request(&gone).await["error"]["code"], json!(code));
        let list = form(request(4, "resources/list", json!({})));
        assert_eq!(
            client.request(&list).await["result"]["resources"],
            json!([])
        );
    }
}
