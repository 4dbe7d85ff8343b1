//! Staged calls: they run, their changes are evaluated, and are then committed or dropped.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use toolhost_contract::bus::EventKind;
use toolhost_contract::hook::{PostHookResponse, PreHookDecision, PreHookResponse};
use toolhost_contract::policy::Mode;
use toolhost_contract::{Answer, Outcome, Question};
use toolhost_store::{CommitFilter, CommitState};

use crate::Kernel;
use crate::hooks::{CallbackHook, HookCall};

use super::test_world::{TestWorld, TestWorldBuilder, shown};

fn holding(setup: TestWorldBuilder) -> TestWorld {
    let world = TestWorldBuilder {
        holds: true,
        ..setup
    };
    world.build()
}

fn no() -> Answer {
    Answer::Deny { note: None }
}

/// Checks the result, the event log, the committed files, and the commit journal.
async fn check(world: TestWorld, tool: &str, input: Value, expected: Expect) {
    let report = world.call("c", tool, input).await;
    let undo = report.commits.len();
    let event_log = world.event_log().await;
    let commits = world.store().commits(&CommitFilter::default()).unwrap();
    let commits: Vec<&str> = commits.iter().map(|row| row.state.as_str()).collect();
    expected.assert_eq(&format!(
        "{} by {:?}\n{event_log}\nreal: {:?}, asked: {}, commits: {commits:?}, undo ids: {undo}",
        shown(&report),
        report.allowed_by,
        world.stage.real.lock().unwrap(),
        world.stage.questions.lock().unwrap().len(),
    ));
}

#[tokio::test(start_paused = true)]
async fn approval_commits_the_shown_changes_and_denial_none() {
    let sees = |_: usize, question: &Question, _: &_| {
        let changes = question.changes.as_ref().expect("it has run");
        assert_eq!(changes.paths(), ["a", "b"]);
        Some(Answer::once())
    };
    let input = json!({"changes": ["b", "a"]});
    check(
        holding(TestWorldBuilder::says(sees)),
        "write",
        input.clone(),
        expect![[r#"
            ok: done by Some("the user, once")
            c: [created], validating, validating, scheduled, executing, awaiting_approval, [permission_request], [decided allow], approved, executing, CALL.COMPLETED
              on disk: requested, validation_started, tool_resolved, scheduled, started, approval_requested, approved, commit_authorized, completed
            real: ["a", "b"], asked: 1, commits: ["done"], undo ids: 1"#]],
    )
    .await;
    check(
        holding(TestWorldBuilder::answers([no()])),
        "write",
        input.clone(),
        expect![[r#"
            Denied [user_denied]: Permission denied: the user rejected `write` by None
            c: [created], validating, validating, scheduled, executing, awaiting_approval, [permission_request], [decided deny], CALL.DENIED
              on disk: requested, validation_started, tool_resolved, scheduled, started, approval_requested, denied
            real: [], asked: 1, commits: [], undo ids: 0"#]],
    )
    .await;
    check(
        holding(TestWorldBuilder::answers([Answer::NoPrompter])),
        "write",
        input,
        expect![[r#"
            Denied [policy_violation]: Permission denied: `write` requires approval (it changes files), and no terminal is available to ask for it by None
            c: [created], validating, validating, scheduled, executing, awaiting_approval, [permission_request], CALL.DENIED
              on disk: requested, validation_started, tool_resolved, scheduled, started, approval_requested, denied
            real: [], asked: 1, commits: [], undo ids: 0"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn r_196_the_user_is_not_asked_about_a_change_that_failed() {
    for failure in ["fail", "trap", "timeout", "panic"] {
        let world = holding(TestWorldBuilder::answers([Answer::once()]));
        let input = json!({"do": failure, "changes": ["a"]});
        let report = world.call("c", "write", input).await;
        let succeeded = report.result.is_ok_and(|outcome| !outcome.is_error());
        assert!(!succeeded, "{failure}");
        let questions = world.stage.questions.lock().unwrap();
        assert!(questions.is_empty(), "{failure}: {questions:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_run_whose_reads_were_approved_is_a_failure() {
    let mask = || CallbackHook::default().after(|_, _| async { Ok(PostHookResponse::Keep) });
    for hooks in [false, true] {
        let setup = TestWorldBuilder::answers([Answer::once()]).rules("ask write");
        let setup = if hooks {
            setup.hook("mask", mask())
        } else {
            setup
        };
        let world = holding(setup);
        let report = world.call("c", "write", json!({"do": "trap"})).await;
        assert!(shown(&report).starts_with("Trapped"), "{}", shown(&report));
        assert_eq!(world.stage.questions.lock().unwrap().len(), 1);
        world.event_log().await;
        let (last, _) = world.transitions("c").pop().unwrap();
        assert_eq!(last, "failed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_mode_that_is_set_while_the_user_decides_applies() {
    for holds in [true, false] {
        let kernel = Arc::new(OnceLock::<Arc<Kernel>>::new());
        let switched = Arc::clone(&kernel);
        let setup = TestWorldBuilder::says(move |_, _, call| {
            let kernel = switched.get().unwrap();
            kernel
                .set_mode(&call.caller.session_key(), Mode::Plan)
                .unwrap();
            Some(Answer::once())
        });
        let world = TestWorldBuilder { holds, ..setup }.build();
        assert!(kernel.set(Arc::clone(&world.kernel)).is_ok());
        let report = world.call("c", "write", json!({"changes": ["a"]})).await;
        assert!(shown(&report).starts_with("Denied"), "{}", shown(&report));
        assert!(world.stage.real.lock().unwrap().is_empty());
        world.event_log().await;
    }
}

#[tokio::test(start_paused = true)]
async fn events_of_a_staged_call_are_published_once_its_reads_are_approved() {
    for (answer, published) in [(Answer::once(), 2), (no(), 0)] {
        let world = holding(TestWorldBuilder::answers([answer]).rules("ask write"));
        world.call("c", "write", json!({"do": "say"})).await;
        let events = world.events();
        let of_tool = events
            .iter()
            .filter(|event| matches!(event.kind, EventKind::Call(_)));
        assert_eq!(of_tool.count(), published);
    }
}

// Found by a plugin with its own hooks: the refusal was reported as an internal error.
#[tokio::test(start_paused = true)]
async fn post_hooks_do_not_run_for_changes_that_the_user_refused() {
    let mask = CallbackHook::default()
        .after(|_, _| async { Ok(PostHookResponse::Replace(Box::new(Outcome::text("***")))) });
    check(
        holding(TestWorldBuilder::answers([no()]).hook("mask", mask)),
        "write",
        json!({"changes": ["a"]}),
        expect![[r#"
            Denied [user_denied]: Permission denied: the user rejected `write` by None
            c: [created], validating, validating, scheduled, executing, awaiting_approval, [permission_request], [decided deny], CALL.DENIED
              on disk: requested, validation_started, tool_resolved, scheduled, started, approval_requested, denied
            real: [], asked: 1, commits: [], undo ids: 0"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn actual_changes_are_evaluated_rather_than_the_input() {
    let input = json!({"path": "docs/a", "changes": ["src/a"]});
    let rules = |text| holding(TestWorldBuilder::answers([no()]).rules(text));
    check(
        rules("allow write\ndeny Edit(src/**)"),
        "write",
        input.clone(),
        expect![[r#"
            Denied [policy_violation]: Permission denied: rule user:2 deny `Edit(src/**)` forbids `write` by None
            c: [created], validating, validating, scheduled, executing, CALL.DENIED
              on disk: requested, validation_started, tool_resolved, scheduled, started, denied
            real: [], asked: 0, commits: [], undo ids: 0"#]],
    )
    .await;
    check(
        rules("allow Edit(docs/**)"),
        "write",
        input.clone(),
        expect![[r#"
            Denied [user_denied]: Permission denied: the user rejected `write` by None
            c: [created], validating, validating, scheduled, executing, awaiting_approval, [permission_request], [decided deny], CALL.DENIED
              on disk: requested, validation_started, tool_resolved, scheduled, started, approval_requested, denied
            real: [], asked: 1, commits: [], undo ids: 0"#]],
    )
    .await;
    check(
        rules("allow Edit(src/**)"),
        "write",
        input.clone(),
        expect![[r#"
            ok: done by Some("mode default: read, rule user:1 allow `Edit(src/**)`")
            c: [created], validating, validating, scheduled, executing, executing, CALL.COMPLETED
              on disk: requested, validation_started, tool_resolved, scheduled, started, commit_authorized, completed
            real: ["src/a"], asked: 0, commits: ["done"], undo ids: 1"#]],
    )
    .await;
    // A call that is forbidden by name does not run.
    check(rules("deny write"), "write", input, expect![[r#"
        Denied [policy_violation]: Permission denied: rule user:1 deny `write` forbids `write` by None
        c: [created], validating, validating, CALL.DENIED
          on disk: requested, validation_started, tool_resolved, denied
        real: [], asked: 0, commits: [], undo ids: 0"#]]).await;
}

#[tokio::test(start_paused = true)]
async fn a_staged_call_without_changes_counts_as_a_read() {
    check(
        holding(TestWorldBuilder::answers([no()])),
        "write",
        json!({}),
        expect![[r#"
            ok: done by Some("mode default: read")
            c: [created], validating, validating, scheduled, executing, executing, CALL.COMPLETED
              on disk: requested, validation_started, tool_resolved, scheduled, started, commit_authorized, completed
            real: [], asked: 0, commits: [], undo ids: 0"#]],
    )
    .await;
    check(
        holding(TestWorldBuilder::answers([no()]).rules("ask write")),
        "write",
        json!({}),
        expect![[r#"
            Denied [user_denied]: Permission denied: the user rejected `write` by None
            c: [created], validating, validating, scheduled, executing, awaiting_approval, [permission_request], [decided deny], CALL.DENIED
              on disk: requested, validation_started, tool_resolved, scheduled, started, approval_requested, denied
            real: [], asked: 1, commits: [], undo ids: 0"#]],
    )
    .await;
    check(
        holding(TestWorldBuilder::answers([no()])),
        "look",
        json!({}),
        expect![[r#"
            ok: done by Some("mode default: read")
            c: [created], validating, validating, scheduled, executing, CALL.COMPLETED
              on disk: requested, validation_started, tool_resolved, scheduled, started, completed
            real: [], asked: 0, commits: [], undo ids: 0"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_call_commits_nothing() {
    for failure in ["fail", "trap", "timeout", "panic"] {
        let world = holding(TestWorldBuilder::default().rules("allow write"));
        let input = json!({"do": failure, "changes": ["a"]});
        world.call("c", "write", input).await;
        assert!(world.stage.real.lock().unwrap().is_empty(), "{failure}");
        assert!(
            world
                .store()
                .commits(&CommitFilter::default())
                .unwrap()
                .is_empty()
        );
    }
    let full = json!({"changes": ["full"]});
    check(
        holding(TestWorldBuilder::default().rules("allow write")),
        "write",
        full,
        expect![[r#"
            Failed [commit_failed]: no space left by Some("rule user:1 allow `write`")
            c: [created], validating, validating, scheduled, executing, executing, CALL.FAILED
              on disk: requested, validation_started, tool_resolved, scheduled, started, commit_authorized, failed
            real: [], asked: 0, commits: ["reverted"], undo ids: 0"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn accept_edits_mode_commits_without_asking() {
    let world =
        holding(TestWorldBuilder::answers([no()]).policy(|spec| spec.mode = Mode::AcceptEdits));
    check(
        world,
        "write",
        json!({"changes": ["a"]}),
        expect![[r#"
            ok: done by Some("mode accept_edits: write")
            c: [created], validating, validating, scheduled, executing, executing, CALL.COMPLETED
              on disk: requested, validation_started, tool_resolved, scheduled, started, commit_authorized, completed
            real: ["a"], asked: 0, commits: ["done"], undo ids: 1"#]],
    )
    .await;
    let world =
        holding(TestWorldBuilder::answers([no()]).policy(|spec| spec.mode = Mode::AcceptEdits));
    check(
        world,
        "write",
        json!({"changes": [".git/config"]}),
        expect![[r#"
            Denied [user_denied]: Permission denied: the user rejected `write` by None
            c: [created], validating, validating, scheduled, executing, awaiting_approval, [permission_request], [decided deny], CALL.DENIED
              on disk: requested, validation_started, tool_resolved, scheduled, started, approval_requested, denied
            real: [], asked: 1, commits: [], undo ids: 0"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_conflict_makes_a_call_run_again_up_to_a_limit() {
    let world = holding(TestWorldBuilder::answers([Answer::once()]));
    world.stage.conflicts.store(2, Relaxed);
    check(world, "write", json!({"changes": ["a"]}), expect![[r#"
        ok: done by Some("the user, once")
        c: [created], validating, validating, scheduled, executing, awaiting_approval, [permission_request], [decided allow], approved, executing, validating, scheduled, executing, awaiting_approval, [permission_request], [decided allow], approved, executing, validating, scheduled, executing, awaiting_approval, [permission_request], [decided allow], approved, executing, CALL.COMPLETED
          on disk: requested, validation_started, tool_resolved, scheduled, started, approval_requested, approved, commit_authorized, validation_started, scheduled, started, approval_requested, approved, commit_authorized, validation_started, scheduled, started, approval_requested, approved, commit_authorized, completed
        real: ["a"], asked: 3, commits: ["done"], undo ids: 1"#]]).await;
    let world = holding(TestWorldBuilder::default().rules("allow write"));
    world.stage.conflicts.store(100, Relaxed);
    check(world, "write", json!({"changes": ["a"]}), expect![[r#"
        Failed [conflict]: the call was run 5 times and no change was kept; the same files are being changed concurrently: a by Some("rule user:1 allow `write`")
        c: [created], validating, validating, scheduled, executing, executing, validating, scheduled, executing, executing, validating, scheduled, executing, executing, validating, scheduled, executing, executing, validating, scheduled, executing, executing, validating, CALL.FAILED
          on disk: requested, validation_started, tool_resolved, scheduled, started, commit_authorized, validation_started, scheduled, started, commit_authorized, validation_started, scheduled, started, commit_authorized, validation_started, scheduled, started, commit_authorized, validation_started, scheduled, started, commit_authorized, validation_started, failed
        real: [], asked: 0, commits: [], undo ids: 0"#]]).await;
}

#[tokio::test(start_paused = true)]
async fn an_input_changed_by_the_user_is_run_again() {
    let says = |at: usize, _: &Question, _: &_| {
        Some(match at {
            0 => Answer::Modify {
                input: json!({"changes": ["z"]}),
            },
            _ => Answer::once(),
        })
    };
    check(
        holding(TestWorldBuilder::says(says)),
        "write",
        json!({"changes": ["a"]}),
        expect![[r#"
            ok: done by Some("the user, once")
            c: [created], validating, validating, scheduled, executing, awaiting_approval, [permission_request], [decided modify], awaiting_approval, validating, scheduled, executing, awaiting_approval, [permission_request], [decided allow], approved, executing, CALL.COMPLETED
              on disk: requested, validation_started, tool_resolved, scheduled, started, approval_requested, modified, validation_started, scheduled, started, approval_requested, approved, commit_authorized, completed
            real: ["z"], asked: 2, commits: ["done"], undo ids: 1"#]],
    )
    .await;
}

/// A hook that changes an input and asks about it sees the original input again when the call runs again.
#[tokio::test(start_paused = true)]
async fn a_hook_that_changed_the_input_asks_about_each_run() {
    let replace = |from: &'static str, to: &'static str| {
        CallbackHook::before(move |call: HookCall| async move {
            if call.call.input != json!({"changes": [from]}) {
                return Ok(PreHookResponse::default());
            }
            Ok(PreHookResponse {
                decision: PreHookDecision::Ask {
                    reason: Some(format!("saw {from}")),
                    meta: None,
                },
                updated_input: Some(json!({"changes": [to]})),
            })
        })
    };
    let says = |_: usize, question: &Question, _: &_| {
        assert!(
            question.reason.contains("saw danger; saw half"),
            "{}",
            question.reason
        );
        Some(Answer::once())
    };
    let setup = TestWorldBuilder::says(says)
        .policy(|spec| spec.mode = Mode::AcceptEdits)
        .hook("one", replace("danger", "half"))
        .hook("two", replace("half", "clean"));
    let world = holding(setup);
    world.stage.conflicts.store(1, Relaxed);
    let report = world
        .call("c", "write", json!({"changes": ["danger"]}))
        .await;
    assert_eq!(shown(&report), "ok: done");
    assert_eq!(report.allowed_by.as_deref(), Some("the user, once"));
    assert_eq!(world.stage.questions.lock().unwrap().len(), 2);
    assert_eq!(*world.stage.real.lock().unwrap(), ["clean"]);
}

/// Dropping the caller during a commit does not leave it incomplete.
#[tokio::test(start_paused = true)]
async fn a_commit_in_progress_is_completed() {
    let world = holding(TestWorldBuilder::default().rules("allow write"));
    let running = world.start("c", "write", json!({"changes": ["a"]}));
    while world
        .store()
        .commits(&CommitFilter::default())
        .unwrap()
        .is_empty()
    {
        tokio::task::yield_now().await;
    }
    running.abort();
    let _ = running.await;
    loop {
        let commits = world.store().commits(&CommitFilter::default()).unwrap();
        if commits[0].state == CommitState::Done {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(*world.stage.real.lock().unwrap(), ["a"]);
}
