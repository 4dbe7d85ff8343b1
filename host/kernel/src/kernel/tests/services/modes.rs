//! Changing the mode of a session: immediately if it is stricter, with approval otherwise.

use expect_test::{Expect, expect};
use toolhost_contract::policy::Mode;
use toolhost_contract::{Answer, SessionKey};

use super::interviews::text;
use super::{Replies, ServicesFixtureBuilder};

fn in_mode(mode: Mode) -> ServicesFixtureBuilder {
    ServicesFixtureBuilder::policy(|spec| spec.mode = mode)
}

/// Checks the result of the tool, the mode of the next call, and the questions.
async fn check(from: Mode, to: &str, reply: Replies, expected: Expect) {
    let house = in_mode(from).replies([reply]).build();
    let output = house.call("look", &format!("change {to} the plan")).await;
    let now = house.call("look", "mode").await;
    let shown = house.person.shown_questions().join("\n").replace('\n', " ");
    expected.assert_eq(&format!("{output}, now {now}: {shown}"));
}

#[tokio::test(start_paused = true)]
async fn a_stricter_mode_needs_no_approval() {
    check(Mode::Default, "plan", None, expect!["plan, now plan: "]).await;
    check(
        Mode::Yolo,
        "accept_edits",
        None,
        expect!["accept_edits, now accept_edits: "],
    )
    .await;
    check(Mode::Plan, "plan", None, expect!["plan, now plan: "]).await;
    check(
        Mode::Plan,
        "readonly",
        None,
        expect!["readonly, now readonly: "],
    )
    .await;
    check(
        Mode::Default,
        "free",
        None,
        expect!["! invalid_mode, now default: "],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_less_strict_mode_asks_the_user_who_may_choose_another() {
    check(
        Mode::Plan,
        "default",
        text("default"),
        expect![[r#"default, now default: - p/look: the plan  Leave plan mode? ["default", "accept_edits", "stay"]"#]],
    )
    .await;
    check(
        Mode::Plan,
        "default",
        text("accept_edits"),
        expect![[r#"accept_edits, now accept_edits: - p/look: the plan  Leave plan mode? ["default", "accept_edits", "stay"]"#]],
    )
    .await;
    check(
        Mode::Plan,
        "default",
        text("stay"),
        expect![[r#"! user_denied, now plan: - p/look: the plan  Leave plan mode? ["default", "accept_edits", "stay"]"#]],
    )
    .await;
    // An answer that was not offered is a note and no choice.
    check(
        Mode::Plan,
        "default",
        text("yolo"),
        expect![[r#"! user_denied, now plan: - p/look: the plan  Leave plan mode? ["default", "accept_edits", "stay"]"#]],
    )
    .await;
    check(
        Mode::Plan,
        "default",
        Some(None),
        expect![[r#"! dismissed, now plan: - p/look: the plan  Leave plan mode? ["default", "accept_edits", "stay"]"#]],
    )
    .await;
    check(
        Mode::Plan,
        "default",
        None,
        expect![[r#"! no_user, now plan: - p/look: the plan  Leave plan mode? ["default", "accept_edits", "stay"]"#]],
    )
    .await;
}

/// Plan mode allows notes and asks about commands; readonly does neither.
#[tokio::test(start_paused = true)]
async fn plan_mode_is_less_strict_than_readonly() {
    check(
        Mode::ReadOnly,
        "plan",
        None,
        expect![[
            r#"! no_user, now readonly: - p/look: the plan  Leave readonly mode? ["plan", "stay"]"#
        ]],
    )
    .await;
    check(
        Mode::ReadOnly,
        "plan",
        text("plan"),
        expect![[r#"plan, now plan: - p/look: the plan  Leave readonly mode? ["plan", "stay"]"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_chosen_mode_applies_to_later_calls_of_its_session_only() {
    let house = in_mode(Mode::AcceptEdits).build();
    house
        .check(&[
            ("draft", "mode", "accept_edits"),
            ("look", "change plan x\nmode", "plan; plan"),
            ("look", "mode", "plan"),
            ("look@t", "mode", "accept_edits"),
            ("draft@t", "mode", "accept_edits"),
        ])
        .await;
    let refused = house.call("draft", "mode").await;
    assert!(refused.starts_with("Denied ["), "{refused}");
    house.kernel.close_session(&SessionKey::local("s"), "test");
    house.check(&[("look", "mode", "accept_edits")]).await;
}

/// Choosing a less strict mode approves what it allows.
#[tokio::test(start_paused = true)]
async fn a_less_strict_mode_avoids_the_questions_it_allows() {
    let house = ServicesFixtureBuilder::default()
        .replies([text("accept_edits")])
        .answers([Answer::Deny { note: None }])
        .build();
    house
        .check(&[
            (
                "draft",
                "",
                "Denied [user_denied]: Permission denied: the user rejected `draft`",
            ),
            ("look", "change accept_edits x", "accept_edits"),
            ("draft", "mode", "accept_edits"),
        ])
        .await;
}

#[tokio::test(start_paused = true)]
async fn the_user_is_not_asked_about_a_disabled_mode() {
    let plan = ServicesFixtureBuilder::policy(|spec| spec.disable_yolo = true);
    let house = plan.replies([text("yolo"), text("custom")]).build();
    house
        .check(&[
            ("look", "change yolo x", "! invalid_mode"),
            // It leaves every decision to hooks, and there is none.
            ("look", "change custom x", "! invalid_mode"),
            ("look", "mode", "default"),
        ])
        .await;
    assert!(house.person.shown_questions().is_empty());
    assert!(
        house
            .kernel
            .set_mode(&SessionKey::local("s"), Mode::Yolo)
            .is_err()
    );
}

/// The mode that a caller set for one call does not become the mode of the session.
#[tokio::test(start_paused = true)]
async fn the_mode_of_one_call_does_not_change_the_session() {
    let house = ServicesFixtureBuilder::default().build();
    let mut wanted = house.requested_call(
        "look",
        serde_json::json!({"do": "mode\nchange accept_edits x"}),
    );
    wanted.context.mode = Some(Mode::Yolo);
    let report = house.request(wanted).await;
    assert_eq!(super::shown(&report), "ok: yolo\n! no_user");
    house.check(&[("look", "mode", "default")]).await;
}
