//! Environment variables of a session: those that affect programs need approval.

use std::time::Duration;

use toolhost_contract::Answer;

use super::ServicesFixtureBuilder;

const INERT: &str = r#"remember shared/env {"LANG":"C"}"#;
const STEERS: &str = r#"remember shared/env {"LANG":"C","MAKEFILES":"x"}"#;

#[tokio::test(start_paused = true)]
async fn a_05_setting_a_variable_that_affects_programs_needs_approval() {
    let answers = [Answer::Deny { note: None }, Answer::once()];
    let house = ServicesFixtureBuilder::rules("allow Edit")
        .answers(answers)
        .build();
    let denied = "Denied [user_denied]: Permission denied: the user rejected `draft`";
    house
        .check(&[
            ("draft", INERT, "done"),
            ("draft", STEERS, denied),
            ("look", "recall shared/env", r#"{"LANG":"C"}"#),
            ("draft", &format!("{STEERS}\nfail"), "no: no luck"),
            ("draft", STEERS, "done"),
            (
                "look",
                "recall shared/env",
                r#"{"LANG":"C","MAKEFILES":"x"}"#,
            ),
            // It is already set, and removing it needs no approval.
            ("draft", STEERS, "done"),
            ("draft", INERT, "done"),
            ("look", "recall shared/env", r#"{"LANG":"C"}"#),
        ])
        .await;
    let question = "may draft (it would set the variable `MAKEFILES` for the programs of this session, which can change what they run)";
    assert_eq!(house.person.shown_questions(), [question, question]);
}

#[tokio::test(start_paused = true)]
async fn a_01_an_unstaged_call_cannot_set_variables_that_affect_programs() {
    let house = ServicesFixtureBuilder::rules("allow act").build();
    house
        .check(&[
            ("act", STEERS, "! not_writable"),
            ("act", INERT, "done"),
            (
                "act",
                r#"remember shared/env {"BASH_FUNC_x%%":"x"}"#,
                "! invalid_environment",
            ),
            (
                "act",
                r#"remember shared/env {"LANG":1}"#,
                "! invalid_environment",
            ),
            ("act", "remember shared/env 1", "! invalid_environment"),
            ("look", "recall shared/env", r#"{"LANG":"C"}"#),
        ])
        .await;
}

/// A call saves what it set, not what it found, because that may have been removed in the meantime.
#[tokio::test(start_paused = true)]
async fn a_05_a_concurrently_removed_variable_is_not_restored() {
    let house = ServicesFixtureBuilder::rules("allow act")
        .answers([Answer::once(), Answer::once()])
        .build();
    house.check(&[("draft", STEERS, "done")]).await;
    // The user takes three seconds for the question about its files.
    let running = house.start("draft", STEERS);
    tokio::time::sleep(Duration::from_secs(1)).await;
    house.check(&[("act", "forget shared/env", "done")]).await;
    running.await.unwrap();
    house
        .check(&[("look", "recall shared/env", r#"{"LANG":"C"}"#)])
        .await;
}
