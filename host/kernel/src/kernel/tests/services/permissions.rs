//! Permission requests: an approval avoids those questions in the session and grants nothing else.

use expect_test::expect;
use serde_json::json;
use toolhost_contract::{Answer, UserAnswer};

use super::{Replies, ServicesFixture, ServicesFixtureBuilder, shown};

#[expect(
    clippy::unnecessary_wraps,
    reason = "the shape that an interview ends with"
)]
fn approval() -> Replies {
    Some(Some(vec![UserAnswer::YesNo(true)]))
}

fn house(reply: Replies) -> ServicesFixture {
    let no = std::iter::repeat_n(Answer::Deny { note: None }, 20);
    ServicesFixtureBuilder::default()
        .replies([reply])
        .answers(no.collect::<Vec<_>>())
        .build()
}

const REQUEST: &str =
    r#"request {"reason": "to tidy up", "write": ["/workspace/docs"], "hosts": ["Example.org"]}"#;

/// Whether the call runs without a question.
async fn runs(house: &ServicesFixture, who: &str, input: serde_json::Value) -> bool {
    let report = house.request(house.requested_call(who, input)).await;
    let ran = report.result.is_ok();
    assert_eq!(
        ran,
        house.person.shown_questions().is_empty(),
        "{}",
        shown(&report)
    );
    ran
}

#[tokio::test(start_paused = true)]
async fn a_host_that_approves_each_call_separately_is_not_asked() {
    let house = ServicesFixtureBuilder::policy(|spec| spec.disable_always_allow = true)
        .replies([approval()])
        .build();
    let output = house.call("look", REQUEST).await;
    assert_eq!(output, "! policy_violation");
    assert!(house.person.shown_questions().is_empty());
}

#[tokio::test(start_paused = true)]
async fn only_granted_calls_run_without_a_question() {
    let house = house(approval());
    let output = house.call("look", REQUEST).await;
    expect![[
        r#"{"read":[],"write":["/workspace/docs"],"hosts":["Example.org"],"scope":"session"}"#
    ]]
    .assert_eq(&output);
    expect![[r#"
        - p/look: reason given by the tool: to tidy up

        Allow until this session ends?
          change: /workspace/docs
          reach: Example.org []"#]]
    .assert_eq(&house.person.shown_questions().join("\n"));
    for (who, input, expected) in [
        ("edit", json!({"path": "/workspace/docs/a"}), true),
        ("edit", json!({"path": "docs/b/c"}), true),
        ("edit", json!({"path": "docs/../src/a"}), false),
        ("edit", json!({"path": "/workspace/docs2/a"}), false),
        ("edit", json!({"path": "src/a"}), false),
        (
            "edit",
            json!({"path": "docs/a", "target": "x", "paths": ["src/a"]}),
            false,
        ),
        ("edit@t", json!({"path": "docs/a"}), false),
        ("act", json!({"path": "docs/a"}), false),
        ("fetch", json!({"url": "https://example.org/x"}), true),
        ("fetch", json!({"url": "https://evil.example/x"}), false),
        (
            "fetch",
            json!({"url": "https://example.org.evil.example/x"}),
            false,
        ),
        ("fetch@t", json!({"url": "https://example.org/x"}), false),
    ] {
        assert_eq!(
            runs(&house, who, input.clone()).await,
            expected,
            "{who} {input}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_denial_grants_nothing() {
    for (reply, code) in [
        (Some(Some(vec![UserAnswer::YesNo(false)])), "! user_denied"),
        (Some(None), "! dismissed"),
        (None, "! no_user"),
    ] {
        let house = house(reply);
        house.check(&[("look", REQUEST, code)]).await;
        house.person.shown_questions();
        assert!(!runs(&house, "edit", json!({"path": "docs/a"})).await);
    }
    let house = house(approval());
    let long = format!(r#"request {{"write": ["/workspace/{}"]}}"#, "x".repeat(500));
    let many: Vec<String> = (0..10)
        .map(|n| format!("{n}{}", "./".repeat(240)))
        .collect();
    let many = format!("request {}", json!({"read": many}));
    for request in [
        r#"request {"reason": "x", "everything": ["*"]}"#,
        r#"request ["*"]"#,
        r#"request {"write": [""]}"#,
        r#"request {"hosts": [" "]}"#,
        // The user would read one folder and grant another.
        r#"request {"write": ["/workspace/docs/../.."]}"#,
        // Escaped, it would be longer than the user's form shows.
        r#"request {"write": ["/workspace/\u200b\u200b"]}"#,
        &long,
        &many,
    ] {
        house
            .check(&[("look", request, "! invalid_permission_request")])
            .await;
    }
    assert!(house.person.shown_questions().is_empty());
}

/// A granted permission does not override a rule.
#[tokio::test(start_paused = true)]
async fn a_granted_permission_does_not_override_a_deny_rule() {
    let plan = ServicesFixtureBuilder::rules("deny Edit(docs/secret/**)").replies([approval()]);
    let house = plan.build();
    house.call("look", REQUEST).await;
    for (path, expected) in [
        ("docs/a", "ok: "),
        ("docs/secret/a", "Denied [policy_violation]"),
    ] {
        let report = house
            .request(house.requested_call("edit", json!({"path": path})))
            .await;
        assert!(shown(&report).starts_with(expected), "{}", shown(&report));
    }
}
