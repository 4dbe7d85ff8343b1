//! Interviews: who asks, who answers, which answers are valid, and the clock in the meantime.

use std::time::Duration;

use expect_test::expect;
use toolhost_contract::UserAnswer;
use toolhost_contract::policy::Mode;
use toolhost_store::Store;

use super::{Replies, ServicesFixtureBuilder};

const CHOICE: &str = r#"ask [{"question": "Which?", "options": [{"label": "a"}, {"label": "b"}]}]"#;
const MANY: &str = r#"ask [{"question": "Which?", "options": [{"label": "a"}, {"label": "b"}], "multi_select": true}]"#;
const WORDS: &str = r#"ask [{"question": "Why?", "type": "text"}]"#;
const SURE: &str = r#"ask [{"question": "Sure?", "type": "yesno"}]"#;

#[expect(
    clippy::unnecessary_wraps,
    reason = "the shape that an interview ends with"
)]
pub(super) fn text(answer: &str) -> Replies {
    Some(Some(vec![UserAnswer::Text(answer.to_owned())]))
}

fn labels(labels: &[&str]) -> UserAnswer {
    UserAnswer::Labels(labels.iter().map(ToString::to_string).collect())
}

async fn check(question: &str, replies: Replies, expected: &str) {
    let house = ServicesFixtureBuilder::default()
        .replies([replies.clone()])
        .build();
    let output = house.call("look", question).await;
    assert_eq!(output, expected, "{question} {replies:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_match_its_question_is_rejected() {
    let one = |reply| Some(Some(vec![reply]));
    check(CHOICE, text("a"), r#"["a"]"#).await;
    check(
        CHOICE,
        text("words of their own"),
        r#"["words of their own"]"#,
    )
    .await;
    check(CHOICE, one(labels(&["a"])), "! invalid_answer").await;
    check(CHOICE, one(UserAnswer::YesNo(true)), "! invalid_answer").await;
    check(CHOICE, Some(Some(Vec::new())), "! invalid_answer").await;
    check(MANY, one(labels(&["a", "b"])), r#"[["a","b"]]"#).await;
    check(WORDS, text("because"), r#"["because"]"#).await;
    check(WORDS, one(UserAnswer::YesNo(true)), "! invalid_answer").await;
    check(SURE, one(UserAnswer::YesNo(false)), "[false]").await;
    check(SURE, text("yes"), "! invalid_answer").await;
    let two = Some(Some(vec![UserAnswer::YesNo(true), UserAnswer::YesNo(true)]));
    check(SURE, two, "! invalid_answer").await;
    check(SURE, Some(None), "! dismissed").await;
    check(SURE, None, "! no_user").await;
}

#[tokio::test(start_paused = true)]
async fn an_interview_names_the_plugin_tool_and_agent() {
    let house = ServicesFixtureBuilder::default()
        .replies([text("a"), text("a")])
        .build();
    house.call("look", CHOICE).await;
    house.call("other@s/helper", CHOICE).await;
    expect![[r#"
        - p/look: Which? ["a", "b"]
        helper q/other: Which? ["a", "b"]"#]]
    .assert_eq(&house.person.shown_questions().join("\n"));
}

#[tokio::test(start_paused = true)]
async fn the_record_names_who_answered_questions_and_mode_requests() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("state")).unwrap();
    let mut plan = ServicesFixtureBuilder::policy(|spec| spec.mode = Mode::Plan).replies([
        text("a"),
        Some(None),
        None,
        text("default"),
    ]);
    plan.store = Some(store.clone());
    let house = plan.build();
    house
        .call(
            "look",
            &format!("{CHOICE}\n{CHOICE}\n{CHOICE}\nchange default the plan"),
        )
        .await;
    store.flush().await.unwrap();
    let events = store.events(Some("control"), 0, 100).unwrap();
    let answered = events.iter().map(|(_, event)| &event.body);
    let answered: Vec<String> = answered.map(ToString::to_string).collect();
    expect![[r#"
        {"about":"questions","outcome":"answered","by":"user"}
        {"about":"questions","outcome":"dismissed","by":"user"}
        {"about":"mode","outcome":"answered","by":"user","replies":["default"]}"#]]
    .assert_eq(&answered.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn questions_per_call_are_limited() {
    let house = ServicesFixtureBuilder::default().build();
    let output = house.call("look", &format!("{SURE}\n").repeat(17)).await;
    assert_eq!(output.matches("! no_user").count(), 16);
    assert!(output.ends_with("; ! too_many_questions"), "{output}");
    assert_eq!(house.person.shown_questions().len(), 16);
    // The limit applies per call.
    house.check(&[("look", SURE, "! no_user")]).await;
}

// R-149
/// Time that the user takes does not count: neither for the deadline nor in the record.
#[tokio::test(start_paused = true)]
async fn the_clock_of_a_call_is_paused_while_the_user_is_asked() {
    let mut plan = ServicesFixtureBuilder::default();
    plan.settings.timeout = Some(Duration::from_secs(1));
    let house = plan.build();
    // 10 × 3 seconds of waiting, with a timeout of one second and a grace period of five.
    let script = format!("sleep 1\n{}sleep 1", format!("{SURE}\n").repeat(10));
    let report = house.report("look", &script).await;
    assert!(report.result.is_ok(), "{report:?}");
    assert_eq!(report.duration.as_secs(), 2, "{:?}", report.duration);
    let late = house.call("look", "hang").await;
    assert!(late.starts_with("TimedOut"), "{late}");
    let late = house.call("look", &format!("{SURE}\nhang")).await;
    assert!(late.starts_with("TimedOut"), "{late}");
}

#[tokio::test(start_paused = true)]
async fn a_call_is_cancelled_while_the_user_decides() {
    let house = ServicesFixtureBuilder::default().build();
    let running = house.start("look", &format!("{SURE}\n").repeat(16));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(
        house
            .kernel
            .cancel(&toolhost_contract::CallId("c1".to_owned()))
    );
    let report = running.await.unwrap();
    assert!(report.stopped);
    assert_eq!(house.person.shown_questions().len(), 4);
}
