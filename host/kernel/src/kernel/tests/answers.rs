//! R-190, R-194, R-200, R-201: answers from all sources, and saved approvals.

use std::sync::Arc;

use expect_test::expect;
use serde_json::{Value, json};
use tempfile::TempDir;
use toolhost_contract::lifecycle::CallState;
use toolhost_contract::policy::{Mode, OnHeadlessAsk};
use toolhost_contract::{Answer, CallId, NoSink, UserId, UserQuota};
use toolhost_store::Store;

use super::store_order::answer;
use super::test_world::{TestWorld, TestWorldBuilder, request, shown};
use crate::{AttributedAnswer, IN_ADVANCE};

fn id(id: &str) -> CallId {
    CallId(id.to_owned())
}

fn web_answer(answer: Answer) -> AttributedAnswer {
    AttributedAnswer {
        answer,
        by: "web".to_owned(),
    }
}

fn no(note: &str) -> Answer {
    Answer::Deny {
        note: Some(note.to_owned()),
    }
}

/// The user at the prompt never answers.
fn silent() -> TestWorldBuilder {
    TestWorldBuilder::says(|_, _, _| None)
}

async fn until_asked(world: &TestWorld, call: &str) {
    while !world
        .kernel
        .pending()
        .iter()
        .any(|question| question.call.0 == call)
    {
        tokio::task::yield_now().await;
    }
}

// R-201: the kernel keeps only the call's id, not a callback.
#[tokio::test]
async fn r_201_an_answer_by_id_counts_once() {
    let world = silent().build();
    let kernel = &world.kernel;
    let wrong = kernel
        .answer(&id("c"), web_answer(Answer::once()))
        .unwrap_err();
    let call = world.start("c", "erase", json!({}));
    until_asked(&world, "c").await;
    kernel
        .answer(&id("c"), web_answer(no("not that one")))
        .unwrap();
    let twice = kernel
        .answer(&id("c"), web_answer(Answer::once()))
        .unwrap_err();
    let report = call.await.unwrap();
    let finished = kernel
        .answer(&id("c"), web_answer(Answer::once()))
        .unwrap_err();
    expect![[r#"
        call c is not waiting for an answer: it is unknown, has ended or has not asked
        call c has already been answered
        Denied [user_denied]: Permission denied: the user rejected `erase`: not that one
        call c is not waiting for an answer: it is unknown, has ended or has not asked"#]]
    .assert_eq(&format!("{wrong}\n{twice}\n{}\n{finished}", shown(&report)));
    world.event_log().await;
    // R-145: the author of the answer and the note.
    let row = world.store().call("c").unwrap().unwrap();
    let approval = &row.record["approval"];
    assert_eq!(
        (&approval["decidedBy"], &approval["note"]),
        (&json!("web"), &json!("not that one"))
    );
}

/// Unanswered questions of one user take no quota from another.
#[tokio::test]
async fn a_10_pending_questions_are_limited_per_user() {
    let mut setup = silent();
    setup.settings.quotas.questions = UserQuota { user: 1, all: 2 };
    let world = setup.build();
    let of = |id: &str, user: &str| {
        let mut request = request(id, "erase", json!({}));
        request.caller.user = UserId::token(user);
        request
    };
    let start = |id: &str, user: &str| {
        let (kernel, request) = (Arc::clone(&world.kernel), of(id, user));
        tokio::spawn(async move { kernel.call(request, Arc::new(NoSink)).await })
    };
    let first = start("a1", "ann");
    until_asked(&world, "a1").await;
    let own = shown(&world.request(of("a2", "ann")).await);
    let second = start("b1", "bob");
    until_asked(&world, "b1").await;
    let all = shown(&world.request(of("c1", "carl")).await);
    expect![[r#"
        Unavailable [too_many_questions]: the user has reached the limit of 1 pending questions
        Unavailable [too_many_questions]: all users together have reached the limit of 2 pending questions"#]]
    .assert_eq(&format!("{own}\n{all}"));
    for (call, waits) in [("a1", first), ("b1", second)] {
        world
            .kernel
            .answer(&id(call), web_answer(no("no")))
            .unwrap();
        assert_eq!(waits.await.unwrap().result.unwrap_err().code, "user_denied");
    }
    let again = start("a3", "ann");
    until_asked(&world, "a3").await;
    world
        .kernel
        .answer(&id("a3"), web_answer(Answer::once()))
        .unwrap();
    assert_eq!(shown(&again.await.unwrap()), "ok: done");
}

/// Pending changes count for their own user only: two bytes for each call here.
#[tokio::test]
async fn a_10_pending_changes_are_limited_per_user() {
    let mut setup = TestWorldBuilder {
        holds: true,
        ..silent()
    };
    setup.settings.quotas.staged_bytes = UserQuota { user: 3, all: 5 };
    let world = setup.build();
    let of = |id: &str, user: &str| {
        let mut request = request(id, "write", json!({"changes": ["a"]}));
        request.caller.user = UserId::token(user);
        request
    };
    let start = |id: &str, user: &str| {
        let (kernel, request) = (Arc::clone(&world.kernel), of(id, user));
        tokio::spawn(async move { kernel.call(request, Arc::new(NoSink)).await })
    };
    let first = start("a1", "ann");
    until_asked(&world, "a1").await;
    let own = shown(&world.request(of("a2", "ann")).await);
    let second = start("b1", "bob");
    until_asked(&world, "b1").await;
    let all = shown(&world.request(of("c1", "carl")).await);
    expect![[r#"
        Unavailable [too_many_staged_bytes]: the user has reached the limit of 3 bytes of staged changes
        Unavailable [too_many_staged_bytes]: all users together have reached the limit of 5 bytes of staged changes"#]]
    .assert_eq(&format!("{own}\n{all}"));
    world
        .kernel
        .answer(&id("a1"), web_answer(no("no")))
        .unwrap();
    assert_eq!(first.await.unwrap().result.unwrap_err().code, "user_denied");
    let again = start("a3", "ann");
    until_asked(&world, "a3").await;
    for (call, waits) in [("b1", second), ("a3", again)] {
        world
            .kernel
            .answer(&id(call), web_answer(Answer::once()))
            .unwrap();
        assert_eq!(shown(&waits.await.unwrap()), "ok: done");
    }
}

// An answer from elsewhere closes the prompt, and an answer that was reported as accepted takes effect.
#[tokio::test]
async fn r_201_of_two_concurrent_answers_the_accepted_one_counts() {
    let cell: Arc<std::sync::OnceLock<Arc<crate::Kernel>>> = Arc::default();
    let inner = Arc::clone(&cell);
    let world = TestWorldBuilder::says(move |_, _, call| {
        inner
            .get()
            .unwrap()
            .answer(&call.id, web_answer(no("I was first")))
            .unwrap();
        Some(Answer::once())
    })
    .build();
    assert!(cell.set(Arc::clone(&world.kernel)).is_ok());
    let report = world.call("c", "erase", json!({})).await;
    assert_eq!(report.result.unwrap_err().code, "user_denied");
}

#[tokio::test]
async fn r_201_another_process_answers_through_the_store() {
    let world = silent().build();
    let elsewhere = Store::open(&world.dir.path().join("state")).unwrap();
    let mut lines = vec![
        elsewhere
            .answer(answer("c", "allow_once"))
            .await
            .unwrap_err()
            .to_string(),
    ];
    for (call, decision) in [("c", "allow_once"), ("d", "deny"), ("e", "cancel")] {
        let running = world.start(call, "erase", json!({}));
        until_asked(&world, call).await;
        elsewhere.answer(answer(call, decision)).await.unwrap();
        // The error depends on whether the call has ended by now.
        let again = elsewhere.answer(answer(call, "deny")).await;
        assert!(again.is_err(), "taken twice");
        lines.push(shown(&running.await.unwrap()));
        world.kernel.flush().await.unwrap();
        lines.push(
            elsewhere
                .answer(answer(call, "deny"))
                .await
                .unwrap_err()
                .to_string(),
        );
    }
    lines.dedup();
    expect![[r#"
        no call `c`; list the pending calls
        ok: done
        the call has ended (completed); there is nothing to answer
        Denied [user_denied]: Permission denied: the user rejected `erase`
        the call has ended (denied); there is nothing to answer
        Cancelled [cancelled]: Permission denied: the user cancelled the prompt for `erase`
        the call has ended (cancelled); there is nothing to answer"#]]
    .assert_eq(&lines.join("\n"));
    world.event_log().await;
}

/// Calls `write` and returns for each call whether it asked the user.
async fn needed(world: &TestWorld, calls: &[(&str, Value)]) -> Vec<usize> {
    let mut counts = Vec::new();
    for (at, (session, input)) in calls.iter().enumerate() {
        let mut request = request(&format!("{session}-{at}"), "write", input.clone());
        request.caller.session = (*session).into();
        let before = world.stage.questions.lock().unwrap().len();
        assert_eq!(shown(&world.request(request).await), "ok: done");
        counts.push(world.stage.questions.lock().unwrap().len() - before);
    }
    counts
}

fn offer(world: &TestWorld, offer: usize) -> String {
    let registry = world.kernel.registry();
    let entry = registry.get("write").unwrap();
    match world
        .kernel
        .decide(entry, &json!({}), &toolhost_contract::Principal::default())
    {
        toolhost_contract::Verdict::Ask(question) => question.offers[offer].text.clone(),
        verdict => panic!("{verdict:?}"),
    }
}

fn always(offer: usize, dir: &Arc<TempDir>, project: &str, digest: u8) -> TestWorld {
    let mut setup = TestWorldBuilder {
        dir: Some(Arc::clone(dir)),
        digest,
        ..TestWorldBuilder::answers([Answer::Allow { offer, note: None }])
    };
    setup.settings.project = Some(project.to_owned());
    setup.build()
}

#[tokio::test]
async fn r_194_a_session_approval_applies_to_that_session_and_input_only() {
    let dir = Arc::new(TempDir::new().unwrap());
    let world = always(1, &dir, "/a", 1);
    expect!["Allow `write` with exactly this input for the rest of this session"]
        .assert_eq(&offer(&world, 1));
    let calls = [
        ("s", json!({})),
        ("s", json!({})),
        ("s", json!({"n": 1})),
        ("t", json!({})),
    ];
    assert_eq!(needed(&world, &calls).await, [1, 0, 1, 1]);
    drop(world);
    // It outlives the process, as the session may.
    assert_eq!(
        needed(&always(1, &dir, "/a", 1), &[("s", json!({}))]).await,
        [0]
    );
}

#[tokio::test]
async fn r_194_a_project_approval_applies_to_its_folder_and_digest_only() {
    let dir = Arc::new(TempDir::new().unwrap());
    let call = [("s", json!({})), ("t", json!({}))];
    assert_eq!(needed(&always(2, &dir, "/a", 1), &call).await, [1, 0]);
    assert_eq!(needed(&always(2, &dir, "/b", 1), &call).await, [1, 0]);
    assert_eq!(needed(&always(2, &dir, "/a", 1), &call).await, [0, 0]);
    // The component was replaced: another tool under the same name.
    assert_eq!(needed(&always(2, &dir, "/a", 2), &call).await, [1, 0]);
}

#[tokio::test]
async fn a_user_approval_applies_everywhere_until_it_is_revoked_by_any_process() {
    let dir = Arc::new(TempDir::new().unwrap());
    let world = always(3, &dir, "/a", 1);
    let call = [("s", json!({}))];
    assert_eq!(needed(&world, &call).await, [1]);
    let other = always(3, &dir, "/b", 1);
    assert_eq!(needed(&other, &call).await, [0]);
    let elsewhere = Store::open(&dir.path().join("state")).unwrap();
    let approvals = elsewhere.approvals().unwrap();
    assert_eq!(
        (
            approvals.len(),
            approvals[0].used,
            approvals[0].scope.as_str()
        ),
        (1, 1, "user")
    );
    elsewhere
        .revoke_approval(&approvals[0].id, 9)
        .await
        .unwrap();
    // Revoked while both processes run.
    assert_eq!(needed(&world, &[("s2", json!({}))]).await, [1]);
    assert_eq!(
        needed(&other, &[("s3", json!({}))]).await,
        [0],
        "the new approval takes effect at once"
    );
}

#[tokio::test]
async fn uses_of_an_approval_are_counted_across_processes() {
    let dir = Arc::new(TempDir::new().unwrap());
    let (one, two) = (always(0, &dir, "/a", 1), always(0, &dir, "/a", 1));
    let given = always(3, &dir, "/a", 1);
    needed(&given, &[("s", json!({}))]).await;
    let store = given.store();
    let mut row = store.approvals().unwrap().remove(0);
    store.revoke_approval(&row.id, 1).await.unwrap();
    "limited".clone_into(&mut row.id);
    row.body["approval"]["id"] = json!("limited");
    row.uses_left = Some(2);
    store.put_approval(row).await.unwrap();
    assert_eq!(needed(&one, &[("a", json!({}))]).await, [0]);
    assert_eq!(
        needed(&two, &[("b", json!({})), ("c", json!({}))]).await,
        [0, 1]
    );
    assert_eq!(needed(&one, &[("d", json!({}))]).await, [1]);
}

// An approval applies in its mode and in less strict ones.
#[tokio::test]
async fn an_approval_does_not_apply_in_a_stricter_mode() {
    let world = TestWorldBuilder::answers([Answer::Allow {
        offer: 1,
        note: None,
    }])
    .policy(|spec| spec.mode = Mode::AcceptEdits)
    .build();
    assert_eq!(
        needed(&world, &[("s", json!({})), ("s", json!({}))]).await,
        [1, 0]
    );
    let mut stricter = request("c", "write", json!({}));
    stricter.caller.session = "s".into();
    stricter.context.mode = Some(Mode::Default);
    world.request(stricter).await;
    assert_eq!(world.stage.questions.lock().unwrap().len(), 2);
}

// R-200, R-201: the question stays if no user is available and the operator configured it.
#[tokio::test]
async fn r_201_a_deferred_question_stays_on_disk_and_is_not_an_orphan() {
    let world = TestWorldBuilder::answers([Answer::NoPrompter])
        .policy(|spec| spec.on_headless_ask = OnHeadlessAsk::Defer)
        .build();
    let report = world.call("c", "write", json!({"n": 1})).await;
    expect![[r#"
        Permission denied: the call waits for approval as c
        - once a user has run `host approve c`, call again with the same input"#]]
    .assert_eq(&report.result.unwrap_err().to_string());
    let dir = Arc::clone(&world.dir);
    drop(world);
    let next = TestWorldBuilder {
        dir: Some(dir),
        ..TestWorldBuilder::default()
    }
    .build();
    assert_eq!(next.kernel.seal_interrupted_calls().await.unwrap(), []);
    let row = next.store().call("c").unwrap().unwrap();
    assert_eq!(
        (
            row.state.as_str(),
            row.deferred,
            row.finished,
            &row.record[IN_ADVANCE]["approval"]["narrowing"]["input"]
        ),
        ("awaiting_approval", true, false, &json!({"n": 1}))
    );
}

// R-193: with a callback, an unavailable prompter is not a denial.
#[tokio::test]
async fn r_201_a_callback_answers_without_a_prompter() {
    let world = TestWorldBuilder::answers([Answer::NoPrompter])
        .policy(|spec| spec.on_headless_ask = OnHeadlessAsk::Callback)
        .build();
    let call = world.start("c", "write", json!({}));
    world.until("c", CallState::AwaitingApproval).await;
    until_asked(&world, "c").await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    world
        .kernel
        .answer(&id("c"), web_answer(Answer::once()))
        .unwrap();
    assert_eq!(shown(&call.await.unwrap()), "ok: done");
    world.event_log().await;
}
