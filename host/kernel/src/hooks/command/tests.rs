//! Tests of command hooks with real processes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use expect_test::{Expect, expect};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::json;
use tempfile::TempDir;
use toolhost_contract::{Display, Failure};

use super::*;
use crate::hooks::tests::call;
use crate::hooks::{HookDecision, HookEntry, HookHints, Hooks};

const ALL: [HookEvent; 3] = [
    HookEvent::BeforeTool,
    HookEvent::AfterTool,
    HookEvent::MessagesChanged,
];

/// A script in its own folder. It is read by the shell and never executed directly, because a new file may still be
/// open for writing in a child that another test is starting.
fn script(text: &str) -> (TempDir, CommandHook) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("hook.sh"), text).unwrap();
    let hook = CommandHook {
        program: "sh".into(),
        args: vec!["hook.sh".to_owned()],
        dir: dir.path().to_owned(),
        env: Vec::new(),
        events: ALL.to_vec(),
    };
    (dir, hook)
}

async fn decision_before(hook: &CommandHook, call: &HookCall) -> String {
    match hook.before(call).await {
        Ok(response) => format!("{:?}", response.decision),
        Err(error) => error.to_string(),
    }
}

async fn check(cases: &[(&str, Expect)]) {
    for (text, expected) in cases {
        let (_dir, hook) = script(text);
        expected.assert_eq(&decision_before(&hook, &call()).await);
    }
}

#[tokio::test]
async fn r_210_a_command_answers_with_json_or_with_its_exit_code() {
    check(&[
        ("exit 0", expect!["Continue"]),
        (r#"echo '{"decision": "allow"}'"#, expect!["Allow { reason: None }"]),
        (
            r#"echo '{"decision": "deny", "reason": "no"}'"#,
            expect![[r#"Deny { reason: Some("no"), outcome: None }"#]],
        ),
        (
            r#"echo '{"decision": "ask", "meta": {"risk": "high"}}'"#,
            expect![[r#"Ask { reason: None, meta: Some(Object {"risk": String("high")}) }"#]],
        ),
        (r#"echo '{"result": "cached"}'"#, expect![[r#"Result(Outcome { summary: None, llm: [Text("cached")], structured: None, display: None, error: None, truncated: None, tail: None, meta: None })"#]]),
        ("echo not here >&2; exit 2", expect![[r#"Deny { reason: Some("not here"), outcome: None }"#]]),
        ("echo ignored; exit 2", expect!["Deny { reason: None, outcome: None }"]),
        (r"printf 'no\033[2J\nnever' >&2; exit 2", expect![[r#"Deny { reason: Some("no\\u{1b}[2J\nnever"), outcome: None }"#]]),
    ])
    .await;
}

#[tokio::test]
async fn a_misbehaving_command_is_an_error_with_the_cause() {
    check(&[
        ("echo broken >&2; exit 1", expect!["`sh` ended with exit code 1; exit with 0 to answer or 2 to block: broken"]),
        ("exit 127", expect!["`sh` ended with exit code 127; exit with 0 to answer or 2 to block"]),
        ("kill -9 $$", expect!["`sh` ended with signal: 9 (SIGKILL)"]),
        ("echo hello", expect!["`sh` returned an invalid answer: standard output is not valid JSON (expected value at line 1 column 1); write one object or nothing, and log to standard error"]),
        (r#"echo '{"decide": "deny"}'"#, expect!["`sh` returned an invalid answer: unknown member `decide` in the answer; did you mean `decision`?"]),
        ("yes", expect!["`sh` wrote more than 65536 bytes to standard output; write one JSON object, and log to standard error"]),
        // One byte too many, from a process that has ended.
        ("head -c 65537 /dev/zero", expect!["`sh` wrote more than 65536 bytes to standard output; write one JSON object, and log to standard error"]),
    ])
    .await;
}

// A script that builds its answer from text of the call lets that text add a second decision.
#[tokio::test]
async fn h_04_an_answer_with_duplicate_members_or_inexact_numbers_is_an_error() {
    check(&[
        (
            r#"echo '{"decision": "deny", "reason": "x", "decision": "allow"}'"#,
            expect!["`sh` returned an invalid answer: standard output is not valid JSON (duplicate member `decision` at line 1 column 56); write one object or nothing, and log to standard error"],
        ),
        (
            r#"echo '{"updated_input": {"path": "a", "path": "b"}}'"#,
            expect!["`sh` returned an invalid answer: standard output is not valid JSON (duplicate member `path` at line 1 column 44); write one object or nothing, and log to standard error"],
        ),
        (
            r#"echo '{"updated_input": {"n": 18446744073709551616}}'"#,
            expect!["`sh` returned an invalid answer: standard output is not valid JSON (the integer 18446744073709551616 does not fit into 64 bits and would lose precision; send it as a string); write one object or nothing, and log to standard error"],
        ),
    ])
    .await;
}

// A command gets the text for the model, and nothing of what the user sees.
#[tokio::test]
async fn h_05_text_from_a_hook_replaces_every_copy_of_the_old_text() {
    let (_dir, hook) = script(r#"echo '{"update": {"text": "masked"}}'"#);
    let secret = || "password=hunter2".to_owned();
    let failure = Failure {
        recommendations: vec![secret()],
        retryable: true,
        cause: Some(secret()),
        details: Some(json!({"line": secret()})),
        ..Failure::new("no", secret())
    };
    let outcome = Outcome {
        display: Some(Display {
            kind: "text".to_owned(),
            text: Some(secret()),
            diff: None,
            data: None,
        }),
        error: Some(failure),
        ..Outcome::text(secret())
    };
    let after = hook.after(&call(), &outcome).await.unwrap();
    let expected = Outcome {
        error: Some(Failure {
            retryable: true,
            ..Failure::new("no", "masked")
        }),
        ..Outcome::text("masked")
    };
    assert_eq!(after.apply(outcome.clone()), expected);
    // Additional text removes nothing.
    let (_dir, hook) = script(r#"echo '{"additional_context": "more"}'"#);
    let after = hook.after(&call(), &outcome).await.unwrap();
    assert_eq!(after.apply(outcome.clone()).display, outcome.display);
}

#[tokio::test]
async fn a_command_that_cannot_be_started_is_an_error() {
    let (_dir, mut hook) = script("");
    hook.program = "./no/such\u{1b}program".into();
    expect![[r#"`./no/such\u{1b}program` cannot be started: No such file or directory (os error 2); check that the program exists and is executable"#]].assert_eq(&decision_before(&hook, &call()).await);
    hook.program = "no-such-program-here".into();
    expect!["`no-such-program-here` cannot be started: No such file or directory (os error 2); check that the program exists and is executable"].assert_eq(&decision_before(&hook, &call()).await);
}

#[tokio::test]
async fn unread_and_unwritten_pipes_do_not_block_a_command() {
    // Far more than a pipe holds, in both directions.
    let mut big = call();
    big.call.input = json!({"path": "x".repeat(1 << 20)});
    for text in [
        // never reads its input
        r#"echo '{"decision": "allow"}'"#,
        // closes it
        r#"exec <&-; echo '{"decision": "allow"}'"#,
        // reads it after it has answered
        r#"head -c 1000000 /dev/zero >&2; echo '{"decision": "allow"}'; cat >/dev/null"#,
        // closes its output and goes on
        r#"echo '{"decision": "allow"}'; exec >&- 2>&-; cat >/dev/null"#,
        // leaves a child behind that holds its output open
        r#"sleep 1000 & echo '{"decision": "allow"}'"#,
    ] {
        let (_dir, hook) = script(text);
        let decision = decision_before(&hook, &big).await;
        assert_eq!(decision, "Allow { reason: None }", "{text}");
    }
}

#[tokio::test]
async fn a_child_that_left_the_group_and_holds_the_output_open_is_not_waited_for() {
    let (dir, hook) = script(
        "setsid sh -c 'echo $$ >pid; mv pid left; exec sleep 1000' &
         until [ -e left ]; do :; done
         echo '{\"decision\": \"allow\"}'",
    );
    let decision = decision_before(&hook, &call()).await;
    let left = fs::read_to_string(dir.path().join("left")).unwrap();
    let left = Pid::from_raw(left.trim().parse().unwrap()).unwrap();
    kill_process(left, Signal::KILL).unwrap();
    assert_eq!(decision, "Allow { reason: None }");
}

#[tokio::test]
async fn only_the_end_of_standard_error_is_kept() {
    let (_dir, hook) = script("head -c 100000 /dev/zero | tr '\\0' x >&2; echo end >&2; exit 2");
    let PreHookDecision::Deny {
        reason: Some(reason),
        ..
    } = hook.before(&call()).await.unwrap().decision
    else {
        panic!("not denied")
    };
    assert!(reason.len() <= process::MAX_STDERR && reason.ends_with("xend"));
}

#[tokio::test]
async fn r_210_a_command_reads_the_call_and_sees_only_what_it_needs() {
    let text = r#"cat >event; env | cut -d= -f1 | sort >names; echo "$MINE" >mine"#;
    let (dir, mut hook) = script(text);
    hook.env = vec![("MINE".to_owned(), "yes".to_owned())];
    hook.before(&call()).await.unwrap();
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    let event: Value = serde_json::from_str(&read("event")).unwrap();
    assert_eq!(
        (&event["event"], &event["input"], &event["cwd"]),
        (
            &json!("PreToolUse"),
            &json!({"path": "a"}),
            &json!(dir.path())
        )
    );
    assert_eq!(read("mine"), "yes\n");
    // The shell adds some variables.
    let own = ["MINE", "PWD", "OLDPWD", "SHLVL", "_"];
    for name in read("names").lines() {
        assert!(INHERITED.contains(&name) || own.contains(&name), "{name}");
    }
}

#[tokio::test]
async fn r_211_a_command_changes_or_withholds_the_result() {
    for (text, expected) in [
        ("exit 0", expect!["long"]),
        (r#"echo '{"update": "short"}'"#, expect!["short"]),
        (
            r#"echo '{"additional_context": "run the tests"}'"#,
            expect![[r#"
                long
                run the tests"#]],
        ),
        (
            "echo secret >&2; exit 2",
            expect!["the tool ran, but a hook withheld its result: secret"],
        ),
        (
            r#"grep -q '"text":"long"' && echo '{"replace": "was long"}'"#,
            expect!["was long"],
        ),
    ] {
        let (_dir, hook) = script(text);
        let outcome = Outcome::text("long");
        let after = hook.after(&call(), &outcome).await.unwrap();
        expected.assert_eq(&after.apply(outcome).model_text());
    }
}

#[tokio::test]
async fn r_212_a_command_is_notified_of_changed_messages() {
    let (dir, hook) = script("cat >event; echo whatever");
    let messages = json!([{"role": "user"}]);
    hook.messages_changed("s1", &messages).await.unwrap();
    let event = fs::read(dir.path().join("event")).unwrap();
    let event: Value = serde_json::from_slice(&event).unwrap();
    assert_eq!(
        event,
        json!({
            "event": "MessagesChanged", "session_id": "s1", "cwd": dir.path(), "messages": messages,
        })
    );
    let (_dir, hook) = script("exit 3");
    hook.messages_changed("s1", &messages).await.unwrap_err();
}

#[tokio::test]
async fn a_command_is_not_started_for_other_events() {
    let (dir, mut hook) = script("touch started");
    hook.events = Vec::new();
    let hooks = Hooks::new(vec![HookEntry::new("none", Arc::new(hook))]);
    let decision = hooks.before(&call()).await;
    assert_eq!(decision, HookDecision::Proceed(HookHints::default()));
    let revised = hooks.after(&call(), Outcome::text("x")).await;
    assert!(revised.by.is_empty() && revised.failures.is_empty());
    assert!(hooks.messages_changed("s", &json!([])).await.is_empty());
    assert!(!dir.path().join("started").exists());
}

#[test]
fn events_are_parsed_by_all_known_names() {
    for event in ALL {
        assert_eq!(HookEvent::parse(event.as_str()), Ok(event));
    }
    assert_eq!(HookEvent::parse("AfterTool"), Ok(HookEvent::AfterTool));
    for (name, expected) in [
        (
            "PreToolUs",
            expect!["`PreToolUs` is not a hook event; did you mean `PreToolUse`?"],
        ),
        (
            "zzz\u{1b}",
            expect![[
                r#"`zzz\u{1b}` is not a hook event; use PreToolUse, PostToolUse or MessagesChanged"#
            ]],
        ),
    ] {
        expected.assert_eq(&HookEvent::parse(name).unwrap_err().to_string());
    }
}

fn fifo(dir: &Path) -> PathBuf {
    let fifo = dir.join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    fifo
}

/// Waits for the line of process ids that a script writes to its pipe. A paused clock does not advance during blocking
/// work, so that the hook does not time out before it has begun.
async fn pids(fifo: PathBuf) -> Vec<Pid> {
    let line = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        BufReader::new(fs::File::open(fifo).unwrap())
            .read_line(&mut line)
            .unwrap();
        line
    });
    let pid = |text: &str| Pid::from_raw(text.parse().unwrap()).unwrap();
    line.await.unwrap().split_whitespace().map(pid).collect()
}

/// A zombie counts as gone: reaping a grandchild is up to the init process.
fn is_gone(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    let is_zombie = stat.is_ok_and(|stat| stat.rsplit(") ").next().unwrap().starts_with('Z'));
    is_zombie || test_kill_process(pid).is_err()
}

async fn check_gone(pids: &[Pid]) {
    let start = Instant::now();
    while !pids.iter().all(|pid| is_gone(*pid)) {
        assert!(start.elapsed() < Duration::from_secs(30), "{pids:?} live");
        tokio::task::yield_now().await;
    }
}

/// The script, two children and a grandchild, which run until they are killed.
const HANGS: &str = r#"sleep 1000 & sh -c 'sleep 1000 & echo "$0 $1 $$ $!" >fifo; wait' $$ $!"#;

#[tokio::test(start_paused = true)]
async fn r_210_a_hanging_command_is_killed_with_its_children_at_its_timeout() {
    let (dir, hook) = script(HANGS);
    let fifo = fifo(dir.path());
    let hooks = Hooks::new(vec![HookEntry::new("hangs", Arc::new(hook))]);
    let call = call();
    let (decision, pids) = tokio::join!(hooks.before(&call), pids(fifo));
    let HookDecision::Denied { reason, .. } = decision else {
        panic!("not denied")
    };
    expect!["hook `hangs` failed: no answer within 60000 ms"].assert_eq(&reason.unwrap());
    assert_eq!(pids.len(), 4);
    check_gone(&pids).await;
}

#[tokio::test]
async fn r_210_a_command_dies_with_its_children_when_its_call_is_cancelled() {
    let (dir, hook) = script(HANGS);
    let call = call();
    let pids = tokio::select! {
        response = hook.before(&call) => panic!("{response:?}"),
        pids = pids(fifo(dir.path())) => pids,
    };
    check_gone(&pids).await;
}

#[tokio::test]
async fn a_command_that_exits_leaves_no_process_behind() {
    let (dir, hook) = script(r#"sleep 1000 & echo "$!" >fifo"#);
    let call = call();
    let (response, pids) = tokio::join!(hook.before(&call), pids(fifo(dir.path())));
    assert_eq!(response, Ok(PreHookResponse::default()));
    check_gone(&pids).await;
}
