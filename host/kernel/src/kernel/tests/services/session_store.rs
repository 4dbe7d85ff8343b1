//! Stored values of a session: they are saved if the call succeeds, separately for each plugin and agent.

use toolhost_contract::{Answer, SessionKey, UserId, UserQuota};

use super::ServicesFixtureBuilder;

const ACT: &str = "allow act\nallow draft";

#[tokio::test(start_paused = true)]
async fn notes_are_stored_only_if_the_call_succeeds() {
    let house = ServicesFixtureBuilder::rules(ACT).build();
    house
        .check(&[
            // A call sees its own notes at once.
            ("look", "recall a\nremember a 1\nrecall a", "-; done; 1"),
            ("look", "recall a", "1"),
            (
                "look",
                "remember a 2\nsaw /f b\ntrap",
                "Trapped [trap]: it fell over",
            ),
            ("look", "remember a 3\nsaw /f b\nfail", "no: no luck"),
            ("look", "recall a\nseen /f", "1; -"),
            ("look", "forget a\nrecall a\nfail", "no: no luck"),
            ("look", "recall a", "1"),
            ("look", "forget a\nrecall a", "done; -"),
            ("look", "recall a", "-"),
        ])
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_stores_nothing() {
    let house = ServicesFixtureBuilder::default().build();
    let running = house.start("look", "remember a 1\nhang");
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert!(
        house
            .kernel
            .cancel(&toolhost_contract::CallId("c1".to_owned()))
    );
    running.await.unwrap();
    house.check(&[("look", "recall a", "-")]).await;
}

#[tokio::test(start_paused = true)]
async fn notes_of_a_denied_or_failed_change_are_discarded() {
    let no = Answer::Deny { note: None };
    let house = ServicesFixtureBuilder::default()
        .answers([no, Answer::once()])
        .build();
    let denied = "Denied [user_denied]: Permission denied: the user rejected `draft`";
    house
        .check(&[
            ("draft", "remember a 1\nsaw /f a", denied),
            (
                "draft",
                "recall a\nseen /f\nremember a 2\nsaw /f b",
                "-; -; done; done",
            ),
        ])
        .await;
    // No user is available any more, but a failed tool changes nothing.
    house
        .check(&[("draft", "remember a 3\nfail", "no: no luck")])
        .await;
    let house = ServicesFixtureBuilder::rules(ACT).build();
    house
        .check(&[
            ("draft", "remember a 1", "done"),
            ("draft", "remember a 2\nfail", "no: no luck"),
            ("draft", "recall a", "1"),
        ])
        .await;
}

/// A run that ends in a conflict leaves no notes; the next run writes its own.
#[tokio::test(start_paused = true)]
async fn only_the_notes_of_the_last_run_are_stored() {
    let house = ServicesFixtureBuilder::rules(ACT).build();
    *house.held.conflicts.lock().unwrap() = 2;
    let again = "recall a\nremember a 1\nrecall a";
    house
        .check(&[("draft", again, "-; done; 1"), ("draft", "recall a", "1")])
        .await;
    assert_eq!(*house.held.conflicts.lock().unwrap(), 0);
    *house.held.conflicts.lock().unwrap() = 100;
    let failed = house.call("draft", "remember a 2").await;
    assert!(failed.starts_with("Failed [conflict]"), "{failed}");
    *house.held.conflicts.lock().unwrap() = 0;
    house.check(&[("draft", "recall a", "1")]).await;
}

#[tokio::test(start_paused = true)]
async fn a_02_stored_values_are_separate_per_plugin_agent_session_and_user() {
    let house = ServicesFixtureBuilder::default().build();
    house
        .check(&[
            ("look", "remember a 1\nsaw /f a", "done; done"),
            // Another tool of the same plugin.
            ("peek", "recall a", "1"),
            ("other", "recall a", "-"),
            ("look@t", "recall a\nseen /f", "-; -"),
            // A session of another user with the same name.
            (
                "look@ann:s",
                "recall a\nseen /f\nremember a 3",
                "-; -; done",
            ),
            ("look@s/helper", "recall a\nremember a 2", "-; done"),
            ("look", "recall a", "1"),
            ("look@s/helper", "recall a", "2"),
            // File observations of an agent are visible to every plugin, and to no other agent.
            ("other", "seen /f", "aa…"),
            ("other@s/helper", "seen /f", "-"),
        ])
        .await;
    house.kernel.close_session(&SessionKey::local("s"), "test");
    house.check(&[("look", "recall a\nseen /f", "-; -")]).await;
}

// C-28
#[tokio::test(start_paused = true)]
async fn shared_values_are_written_by_writing_tools_and_read_by_all() {
    let house = ServicesFixtureBuilder::rules(ACT).build();
    house
        .check(&[
            ("look", "remember shared/env {}", "! not_writable"),
            ("look", "forget shared/env", "! not_writable"),
            // It needs no approval, so it must not be able to do this.
            ("relay", "remember shared/env {}", "! not_writable"),
            ("act", r#"remember shared/env {"LANG":"C"}"#, "done"),
            ("other", "recall shared/env", r#"{"LANG":"C"}"#),
            ("other@s/helper", "recall shared/env", r#"{"LANG":"C"}"#),
            ("other@t", "recall shared/env", "-"),
            ("act@s/helper", "forget shared/env", "done"),
            ("look", "recall shared/env", "-"),
        ])
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_session_store_is_limited_and_reports_when_it_is_full() {
    let house = ServicesFixtureBuilder::default().build();
    let long = "x".repeat(257);
    house
        .check(&[
            ("look", &format!("recall {long}"), "! invalid_key"),
            ("look", &format!("remember {long} 1"), "! invalid_key"),
            ("look", &format!("remember {} 1", &long[1..]), "done"),
            ("look", &format!("forget {}", &long[1..]), "done"),
            // Keys: 256 of them, and each may be overwritten.
            ("look", "fill 257 1", "! session_full"),
            (
                "look@a",
                "fill 256 1\nremember fill-0 2\nremember more 1",
                "done; done; ! session_full",
            ),
            ("look@a", "remember more 1", "! session_full"),
            (
                "look@a",
                "recall more\nforget fill-1\nremember more 1",
                "-; done; done",
            ),
            ("look@a", "recall more", "1"),
            // Bytes: 1 MiB of values.
            ("look@b", "fill 1 1048575", "! session_full"),
            ("look@b", "fill 3 300000\nremember more 1", "done; done"),
            ("look@b", "fill 4 300000", "! session_full"),
            (
                "look@b",
                "remember fill-3 \"\"\nfill 3 10\nfill 4 300000",
                "done; done; ! session_full",
            ),
            // Another plugin has its own limit.
            ("other@b", "fill 3 300000", "done"),
        ])
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_file_observation_is_a_path_and_a_hash() {
    let house = ServicesFixtureBuilder::default().build();
    let long = format!("saw /{} a", "x".repeat(4_096));
    house
        .check(&[
            ("look", "saw /f short", "! invalid_observation"),
            ("look", "saw /f z", "! invalid_observation"),
            ("look", &long, "! invalid_observation"),
            (
                "look",
                "saw /f a\nsaw /f b\nseen /f\nseen /g",
                "done; done; bb…; -",
            ),
        ])
        .await;
    let many: Vec<String> = (0..10_001).map(|n| format!("saw /{n} a")).collect();
    let output = house.call("look@t", &many.join("\n")).await;
    assert_eq!(output.matches("done").count(), 10_000);
    assert!(
        output.ends_with("! session_full"),
        "the last of them is one too many"
    );
    // Over several calls the session drops some of them and continues.
    house
        .check(&[
            ("look@t", "saw /last a", "done"),
            ("look@t", "seen /last", "aa…"),
        ])
        .await;
}

#[tokio::test(start_paused = true)]
async fn m_11_stored_bytes_are_limited_per_user_across_sessions() {
    let mut plan = ServicesFixtureBuilder::default();
    plan.settings.quotas.session_bytes = UserQuota {
        user: 10_000,
        all: 15_000,
    };
    let house = plan.build();
    let large = r#"start peek {"do": "large 4000"}"#;
    house
        .check(&[
            ("look@ann:1", "fill 1 6000", "done"),
            ("look@ann:2", "fill 1 6000", "! session_full"),
            ("look@ann:2", "fill 1 3000", "done"),
            ("look@bob:1", "fill 1 6500", "! session_full"),
            ("relay@ann:3", large, "peek running"),
            (
                "relay@ann:3",
                "wait $0 1000",
                "Unavailable [too_many_session_bytes]",
            ),
            ("look@ann:1", "forget fill-0", "done"),
            ("look@bob:1", "fill 1 6500", "done"),
            ("relay@ann:3", large, "peek running"),
        ])
        .await;
    let output = house.call("relay@ann:3", "wait $1 1000").await;
    assert!(output.starts_with("(xxx"), "{output}");
    house
        .check(&[("look@ann:1", "fill 1 5000", "! session_full")])
        .await;
    let ended = SessionKey::new(UserId::token("ann"), "3");
    house.kernel.end_session(&ended);
    house.check(&[("look@ann:1", "fill 1 5000", "done")]).await;
}
