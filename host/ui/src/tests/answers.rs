//! Answers: the first one counts, and only for what was shown.

use std::future::ready;
use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};
use toolhost_contract::{Answer, ChangeSet, UserAnswer};
use toolhost_kernel::CallbackPrompter;

use super::world::{TestTerminal, World};
use crate::state::Permission;

fn write(name: &str) -> Value {
    json!({"path": format!("/project/{name}"), "old": "one\nthe second line\n", "content": "one\nthe third line\n"})
}

#[tokio::test]
async fn an_approval_applies_the_change_and_names_the_approver() {
    let world = World::new();
    let mut events = world.kernel.subscribe(None, None);
    let call = world.ask("c-1", "write", write("a.txt")).await;
    let browser = world.browser().await;
    let page = browser.get("/").await;
    page.assert_contains("<bdi dir=\"ltr\">Plugin <code>files</code> wants to modify a.txt</bdi>");
    page.assert_contains("Low risk");
    page.assert_contains("<mark>third</mark>");
    let done = browser.answer(&page, "offer:0", &[]).await;
    assert_eq!(done.status, StatusCode::SEE_OTHER, "{}", done.body);
    assert!(call.await.unwrap().result.is_ok());
    assert_eq!(
        *world.committed.lock().unwrap(),
        ["/project/a.txt: one\nthe third line\n"]
    );
    let after = browser
        .get(done.headers["location"].to_str().unwrap())
        .await;
    after.assert_contains("“Plugin `files` wants to modify a.txt” was approved by ui (ann).");
    after.assert_contains("No questions");
    let decided = std::iter::from_fn(|| events.try_next())
        .filter_map(Result::ok)
        .find(|event| event.kind.name() == "call.permission_decided");
    let decided = format!("{:?}", decided.unwrap().kind);
    assert!(decided.contains("ui (ann)"), "{decided}");
}

#[tokio::test]
async fn the_target_of_a_link_is_shown_and_covered_by_the_digest() {
    let world = World::new();
    let input = json!({"path": "/project/link", "content": "", "target": "../<b>"});
    let _call = world.ask("c-1", "write", input).await;
    let browser = world.browser().await;
    let page = browser.get("/").await;
    page.assert_contains("target &quot;../&lt;b&gt;&quot;");
    let text = browser.get("/questions/1/text").await;
    text.assert_contains("target \"../<b>\"");
    let inbox = world.state.inbox();
    let entry = inbox.list(0, 1).remove(0);
    let mut question = entry.question.clone();
    let same = inbox.open(&question, &entry.call);
    let mut changes = ChangeSet::clone(question.changes.as_ref().unwrap());
    changes.changes[0].link_targets.1 = Some("../other".to_owned());
    question.changes = Some(Arc::new(changes));
    let other = inbox.open(&question, &entry.call);
    let digests: Vec<String> = inbox
        .list(0, 3)
        .iter()
        .map(|entry| entry.digest.clone())
        .collect();
    assert_eq!(digests[0], digests[1]);
    assert_ne!(digests[0], digests[2]);
    drop((same, other));
}

#[tokio::test]
async fn a_declined_call_receives_the_note() {
    let world = World::new();
    let call = world.ask("c-1", "write", write("a.txt")).await;
    let browser = world.browser().await;
    let page = browser.get("/").await;
    // Declining needs no waiting.
    let done = browser
        .answer_now(&page, "deny", &[("note", " use b.txt\r\ninstead ")])
        .await;
    assert_eq!(done.status, StatusCode::SEE_OTHER, "{}", done.body);
    let error = call.await.unwrap().result.unwrap_err();
    assert!(
        error.message.contains("use b.txt\ninstead"),
        "{}",
        error.message
    );
    assert!(world.committed.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_remembered_approval_states_its_scope_and_covers_the_next_call() {
    let world = World::new();
    let call = world.ask("c-1", "write", write("a.txt")).await;
    let browser = world.browser().await;
    let page = browser.get("/").await;
    page.assert_contains("value=\"offer:1\"");
    page.assert_contains("session");
    browser.answer(&page, "offer:1", &[]).await;
    assert!(call.await.unwrap().result.is_ok());
    let request = toolhost_kernel::CallRequest::new(
        toolhost_contract::CallId("c-2".to_owned()),
        "write",
        write("a.txt"),
        toolhost_contract::Principal::default(),
    );
    let second = world
        .kernel
        .call(request, Arc::new(toolhost_contract::NoSink))
        .await;
    assert!(second.result.is_ok());
    // An offer that does not exist answers nothing.
    let call = world
        .ask("c-3", "remove", json!({"path": "/project/a"}))
        .await;
    let page = browser.get("/").await;
    let refused = browser.answer(&page, "offer:99", &[]).await;
    refused.assert_contains("This form is not complete");
    browser.answer(&page, "offer:0", &[]).await;
    assert!(call.await.unwrap().result.is_ok());
}

#[tokio::test]
async fn an_approval_within_half_a_second_is_refused() {
    let world = World::new();
    let call = world.ask("c-1", "write", write("a.txt")).await;
    let browser = world.browser().await;
    let page = browser.get("/").await;
    for _ in 0..2 {
        world.wait(249);
        let early = browser.answer_now(&page, "offer:0", &[]).await;
        assert_eq!(early.status, StatusCode::TOO_EARLY);
        early.assert_contains("That was too fast");
    }
    assert_eq!(world.kernel.pending().len(), 1);
    world.wait(2);
    let done = browser.answer_now(&page, "offer:0", &[]).await;
    assert_eq!(done.status, StatusCode::SEE_OTHER);
    assert!(call.await.unwrap().result.is_ok());
}

#[tokio::test]
async fn two_browsers_answer_and_the_first_one_counts() {
    let world = World::new();
    let call = world.ask("c-1", "write", write("a.txt")).await;
    let (first, second) = (world.browser().await, world.browser().await);
    let (one, two) = (first.get("/").await, second.get("/").await);
    let done = first.answer(&one, "deny", &[]).await;
    assert_eq!(done.status, StatusCode::SEE_OTHER);
    assert!(call.await.unwrap().result.is_err());
    let late = second.answer(&two, "offer:0", &[]).await;
    assert_eq!(late.status, StatusCode::CONFLICT);
    late.assert_contains("was declined by ui (ann). Your answer had no effect.");
    // A replayed form gets the same message.
    let replayed = first.answer(&one, "deny", &[]).await;
    assert_eq!(replayed.status, StatusCode::CONFLICT);
    replayed.assert_contains("This question is already closed");
    // So does the page that still selects it.
    let page = second.get("/?question=1").await;
    page.assert_contains("was declined by ui (ann)");
    assert!(world.committed.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_terminal_and_the_page_ask_at_the_same_time() {
    let terminal = Arc::new(TestTerminal::default());
    let world = World::with(Permission::ReadWrite, Arc::clone(&terminal) as _);
    let call = world.ask("c-1", "write", write("a.txt")).await;
    let browser = world.browser().await;
    let page = browser.get("/").await;
    browser.answer(&page, "offer:0", &[]).await;
    assert!(call.await.unwrap().result.is_ok());
    assert_eq!(*terminal.elsewhere.lock().unwrap(), ["c-1: ui (ann)"]);

    let call = world.ask("c-2", "write", write("b.txt")).await;
    let page = browser.get("/").await;
    terminal.answer.notify_one();
    assert!(call.await.unwrap().result.is_ok());
    let late = browser.answer(&page, "deny", &[]).await;
    assert_eq!(late.status, StatusCode::CONFLICT);
    late.assert_contains("was approved by the terminal");
}

#[tokio::test]
async fn a_question_that_the_terminal_cannot_show_is_asked_on_the_page() {
    let problem = "too long to review at a terminal".to_owned();
    let terminal = CallbackPrompter::new("the terminal", move |_, _| {
        ready(Answer::Unreviewable {
            problem: problem.clone(),
        })
    });
    let world = World::with(Permission::ReadWrite, Arc::new(terminal));
    let call = world.ask("c-1", "write", write("a.txt")).await;
    let browser = world.browser().await;
    let page = browser.get("/").await;
    browser.answer(&page, "offer:0", &[]).await;
    assert!(call.await.unwrap().result.is_ok());
}

#[tokio::test]
async fn a_form_of_another_session_or_question_is_refused() {
    let world = World::new();
    let _call = world.ask("c-1", "write", write("a.txt")).await;
    let _other = world.ask("c-2", "write", write("b.txt")).await;
    let (first, second) = (world.browser().await, world.browser().await);
    let (one, two) = (
        first.get("/?question=1").await,
        first.get("/?question=2").await,
    );
    let theirs = second.get("/?question=1").await;
    world.wait(500);
    let check = async |fields: &[(&str, &str)], expected: StatusCode, text: &str| {
        let page = first.post("/questions/1/answer", fields).await;
        assert_eq!(page.status, expected, "{}", page.body);
        page.assert_contains(text);
    };
    let csrf = one.hidden("csrf");
    let foreign = "This form is not from a page of this session";
    let approve = ("answer", "offer:0");
    let ticket = ("ticket", one.hidden("ticket"));
    check(&[ticket, approve], StatusCode::FORBIDDEN, foreign).await;
    check(
        &[("csrf", theirs.hidden("csrf")), ticket, approve],
        StatusCode::FORBIDDEN,
        foreign,
    )
    .await;
    let other = "The question is not the one that this form has shown";
    for ticket in [
        two.hidden("ticket"),
        theirs.hidden("ticket"),
        "",
        "0.",
        "0.x",
        &one.hidden("ticket")[1..],
    ] {
        check(
            &[("csrf", csrf), ("ticket", ticket), approve],
            StatusCode::CONFLICT,
            other,
        )
        .await;
    }
    check(
        &[("csrf", csrf), ticket],
        StatusCode::BAD_REQUEST,
        "This form is not complete",
    )
    .await;
    check(
        &[("csrf", csrf), ticket, ("answer", "offer:x")],
        StatusCode::BAD_REQUEST,
        "not complete",
    )
    .await;
    assert_eq!(world.kernel.pending().len(), 2);
}

#[tokio::test]
async fn a_call_that_asks_again_is_not_answered_by_the_old_form() {
    let world = World::new();
    let call = world.ask("c-1", "write", write("a.txt")).await;
    let browser = world.browser().await;
    let old = browser.get("/").await;
    let answered = toolhost_kernel::AttributedAnswer {
        answer: toolhost_contract::Answer::Modify {
            input: write("other.txt"),
        },
        by: "cli".to_owned(),
    };
    world.kernel.answer(&call_id("c-1"), answered).unwrap();
    while world.state.inbox().entry(2).is_err() {
        tokio::task::yield_now().await;
    }
    let late = browser.answer(&old, "offer:0", &[]).await;
    assert_eq!(late.status, StatusCode::CONFLICT);
    late.assert_contains("This question has changed");
    late.assert_contains("/?question=2");
    assert!(!call.is_finished());
}

#[tokio::test]
async fn a_withdrawn_question_is_reported() {
    let world = World::new();
    let call = world.ask("c-1", "write", write("a.txt")).await;
    let browser = world.browser().await;
    let page = browser.get("/").await;
    world.kernel.cancel(&call_id("c-1"));
    assert!(call.await.unwrap().result.is_err());
    let late = browser.answer(&page, "offer:0", &[]).await;
    late.assert_contains("was withdrawn: the call ended before there was an answer");
}

#[tokio::test]
async fn similar_questions_are_answered_together() {
    let world = World::new();
    let calls = [
        world.ask("c-1", "write", write("a.txt")).await,
        world.ask("c-2", "write", write("b.txt")).await,
        world.ask("c-3", "write", write("c.txt")).await,
    ];
    let _other = world
        .ask("c-4", "remove", json!({"path": "/project/d"}))
        .await;
    let browser = world.browser().await;
    let page = browser.get("/?question=1").await;
    page.assert_contains("Answer this question and 2 similar at once");
    let items: Vec<&str> = page
        .body
        .split("name=\"item\" value=\"")
        .skip(1)
        .map(|rest| rest.split_once('"').unwrap().0)
        .collect();
    assert_eq!(items.len(), 3);
    let csrf = page.hidden("csrf");
    let selected = [
        ("csrf", csrf),
        ("answer", "approve"),
        ("item", items[0]),
        ("item", items[2]),
    ];
    let early = browser.post("/questions/similar", &selected).await;
    assert_eq!(early.status, StatusCode::TOO_EARLY);
    world.wait(500);
    let done = browser.post("/questions/similar", &selected).await;
    assert_eq!(done.status, StatusCode::SEE_OTHER, "{}", done.body);
    let [first, second, third] = calls;
    assert!(first.await.unwrap().result.is_ok() && third.await.unwrap().result.is_ok());
    assert!(!second.is_finished());
    let again = browser.post("/questions/similar", &selected).await;
    assert_eq!(again.status, StatusCode::CONFLICT);
    again.assert_contains("2 of the selected questions were not answered");
}

fn call_id(id: &str) -> toolhost_contract::CallId {
    toolhost_contract::CallId(id.to_owned())
}

#[tokio::test]
async fn proposed_texts_are_edited_before_the_approval() {
    let world = World::new();
    let call = world.ask("c-1", "write", write("a.txt")).await;
    let browser = world.browser().await;
    browser
        .get("/")
        .await
        .assert_contains("href=\"/questions/1/edit\"");
    let page = browser.get("/questions/1/edit").await;
    page.assert_contains("\none\nthe third line\n</textarea>");
    world.wait(500);
    let fields = [
        ("csrf", page.hidden("csrf")),
        ("ticket", page.hidden("ticket")),
        ("answer", "edit"),
        ("file-0", "mine\r\nthe third line\r\n"),
    ];
    let nul = [fields[0], fields[1], fields[2], ("file-0", "\0")];
    let refused = browser.post("/questions/1/answer", &nul).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    refused.assert_contains("contains a NUL character");
    let done = browser.post("/questions/1/answer", &fields).await;
    assert_eq!(done.status, StatusCode::SEE_OTHER, "{}", done.body);
    // The edited changes are shown again if the rules do not allow them.
    while !call.is_finished() && world.state.inbox().entry(2).is_err() {
        tokio::task::yield_now().await;
    }
    assert!(call.await.unwrap().result.is_ok());
    assert_eq!(
        *world.committed.lock().unwrap(),
        ["/project/a.txt: mine\nthe third line\n"]
    );
}

#[tokio::test]
async fn an_edited_input_is_evaluated_again() {
    let world = World::new();
    let call = world
        .ask("c-1", "remove", json!({"path": "/project/a"}))
        .await;
    let browser = world.browser().await;
    let page = browser.get("/questions/1/edit").await;
    world.wait(500);
    let csrf = page.hidden("csrf");
    let ticket = page.hidden("ticket");
    let send = async |input: &str| {
        let fields = [
            ("csrf", csrf),
            ("ticket", ticket),
            ("answer", "modify"),
            ("input", input),
        ];
        browser.post("/questions/1/answer", &fields).await
    };
    send("[]").await.assert_contains("must be a JSON object");
    assert_eq!(
        send(r#"{"path": "/project/b"}"#).await.status,
        StatusCode::SEE_OTHER
    );
    while world.state.inbox().entry(2).is_err() {
        tokio::task::yield_now().await;
    }
    browser
        .get("/?question=2")
        .await
        .assert_contains("/project/b");
    call.abort();
}

#[tokio::test]
async fn questions_of_a_running_tool_are_answered_once() {
    let world = World::new();
    let questions = r#"[{"question": "Which <b>?", "options": [{"label": "a"}, {"label": "b"}]},
        {"question": "Why?", "type": "text"}, {"question": "Sure?", "type": "yesno"}]"#;
    let asks = toolhost_contract::QuestionForm {
        call: call_id("c-1"),
        plugin: "agent".to_owned(),
        tool: "ask_user".to_owned(),
        agent: None,
        questions: toolhost_contract::UserQuestion::parse(questions).unwrap(),
    };
    let inbox = world.state.inbox();
    let mut guard = inbox.open_interview(&asks);
    let browser = world.browser().await;
    let page = browser.get("/").await;
    page.assert_contains("Plugin <code>agent</code> asks: Which &lt;b&gt;?");
    let csrf = ("csrf", page.hidden("csrf"));
    let missing = [csrf, ("q0", "1"), ("q2", "yes")];
    let early = browser.post("/interviews/1", &missing).await;
    assert_eq!(early.status, StatusCode::TOO_EARLY);
    world.wait(500);
    let incomplete = browser.post("/interviews/1", &missing).await;
    incomplete.assert_contains("Answer question 2 too");
    let fields = [csrf, ("q0", "1"), ("q1-text", "because"), ("q2", "no")];
    let done = browser.post("/interviews/1", &fields).await;
    assert_eq!(done.status, StatusCode::SEE_OTHER, "{}", done.body);
    let replies = vec![
        UserAnswer::Text("b".to_owned()),
        UserAnswer::Text("because".to_owned()),
        UserAnswer::YesNo(false),
    ];
    let given = guard.answer.try_recv().unwrap();
    assert_eq!(given.replies, Some(replies));
    assert_eq!(given.by, "ui (ann)");
    let late = browser.post("/interviews/1", &fields).await;
    assert_eq!(late.status, StatusCode::CONFLICT);
    drop(guard);
    browser.get("/").await.assert_contains("No questions");
}
