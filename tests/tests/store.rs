//! What is kept of calls, and what other processes do with it.

use std::io::Write as _;
use std::process::Stdio;

use e2e::CommandResult;
use e2e::test_env::{TestEnv, parse_json, poll_until, wait_output};
use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const WRITE: [&str; 5] = [
    "call",
    "write_file",
    "path=new.txt",
    "content=hello",
    "--json",
];

const CALLBACK: &str = "on_headless_ask = \"callback\"";
const DEFER: &str = "on_headless_ask = \"defer\"";

fn check(ended: &CommandResult, code: i32, expected: &str) {
    assert!(
        ended.code == Some(code)
            && (ended.stdout.contains(expected) || ended.stderr.contains(expected)),
        "{expected}: {ended:?}"
    );
}

/// Ids and times differ from run to run.
fn plain(text: &str, id: &str) -> String {
    let text = text.replace(id, "[CALL]");
    let time = |word: &str| {
        word.len() == 9 && word.ends_with('Z') && word.bytes().filter(|b| *b == b':').count() == 2
    };
    let date = |word: &str| word.len() == 10 && word.bytes().filter(|b| *b == b'-').count() == 2;
    let lines = text.lines().map(|line| {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        // Where the session's own step stands among those of the call depends on which were written together.
        if words.len() > 3 && words[0].bytes().all(|byte| byte.is_ascii_digit()) {
            words[0] = "[SEQ]";
        }
        for at in 0..words.len() {
            if time(words[at]) {
                words[at] = "[TIME]";
            } else if date(words[at]) {
                words[at] = "[DATE]";
            } else if at > 0 && words[at] == "ms" {
                words[at - 1] = "[N]";
            } else if words[at].ends_with('s')
                && words[at].starts_with(|c: char| c.is_ascii_digit())
            {
                words[at] = "[N]";
            }
        }
        words.join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Takes away what the call has written.
fn forget(env: &TestEnv) {
    std::fs::remove_file(env.workspace().join("new.txt")).unwrap();
}

// R-201
#[test]
fn a_second_process_approves_while_the_first_one_waits() {
    let env = TestEnv::new(CALLBACK);
    let waiting = env.spawn(&WRITE);
    let id = env.wait_for("awaiting_approval");
    let approved = env.run(&["approve", &id, "--note", "go on"]);
    check(
        &approved,
        0,
        &format!("approved: call {id} of write_file is "),
    );
    let ended = wait_output(waiting);
    assert_eq!(
        (ended.code, parse_json(&ended)["ok"].clone()),
        (Some(0), json!(true))
    );
    assert_eq!(
        std::fs::read_to_string(env.workspace().join("new.txt")).unwrap(),
        "hello"
    );
    let shown = env.run_json(&["calls", &id, "--json"]);
    let approval = &shown["approval"];
    assert_eq!(
        [
            &approval["decision"],
            &approval["decidedBy"],
            &approval["scope"],
            &approval["note"]
        ],
        [
            &json!("allow"),
            &json!("cli"),
            &json!("once"),
            &json!("go on")
        ]
    );
    // The record contains the input only while the call waits for approval.
    assert!(shown.get("input").is_none());
    let states: Vec<&str> = shown["auditTrail"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["state"].as_str().unwrap())
        .collect();
    assert_eq!(
        states.join(" "),
        "pending validating validating scheduled executing awaiting_approval approved executing completed"
    );

    for answer in [&["approve", &id][..], &["deny", &id]] {
        check(&env.run(answer), 2, "the call has ended (completed)");
    }
    check(
        &env.run(&["approve", "c-unknown"]),
        2,
        "no call `c-unknown`",
    );
}

#[test]
fn the_note_of_a_no_reaches_the_model() {
    let env = TestEnv::new(CALLBACK);
    let waiting = env.spawn(&WRITE);
    let id = env.wait_for("awaiting_approval");
    check(
        &env.run(&["deny", &id, "--note", "write to notes.txt instead"]),
        0,
        "denied: ",
    );
    let ended = wait_output(waiting);
    let report = parse_json(&ended);
    assert_eq!(ended.code, Some(5));
    assert_eq!(report["error"]["code"], "user_denied");
    let message = report["error"]["message"].as_str().unwrap();
    assert!(message.contains("write to notes.txt instead"), "{message}");
}

#[test]
fn a_question_is_answered_once_and_only_to_the_living() {
    let env = TestEnv::new(CALLBACK);
    let waiting = env.spawn(&WRITE);
    let id = env.wait_for("awaiting_approval");
    let pid = Pid::from_child(&waiting);
    // It lives and does not look: the answer has to wait for it.
    kill_process(pid, Signal::STOP).unwrap();
    check(&env.run(&["approve", &id]), 8, "the answer is saved");
    check(
        &env.run(&["deny", &id]),
        2,
        "`cli` has already answered; the first answer counts",
    );
    kill_process(pid, Signal::CONT).unwrap();
    assert_eq!(wait_output(waiting).code, Some(0));
    // Writing the same content again would change nothing and not prompt.
    forget(&env);

    let waiting = env.spawn(&WRITE);
    let id = env.wait_for("awaiting_approval");
    kill_process(Pid::from_child(&waiting), Signal::KILL).unwrap();
    wait_output(waiting);
    check(&env.run(&["approve", &id]), 2, "the host that asked about");
    // The next host closes the call and reports it.
    let next = env.run_with_plugins(&["call", "read_file", "path=old.txt"]);
    check(&next, 0, "it was waiting for approval and did not run");
    check(&env.run(&["deny", &id]), 2, "the call has ended (sealed)");
}

#[test]
fn a_deferred_call_is_approved_for_the_next_time_and_once() {
    let env = TestEnv::new(DEFER);
    let ended = env.run_with_plugins(&WRITE);
    let report = parse_json(&ended);
    assert_eq!(ended.code, Some(8), "{ended:?}");
    assert_eq!(report["error"]["code"], "approval_pending");
    let id = report["id"].as_str().unwrap();
    let advice = report["error"]["recommendations"][0].as_str().unwrap();
    assert!(advice.contains(&format!("host approve {id}")), "{advice}");
    assert!(!env.workspace().join("new.txt").exists());

    check(
        &env.run(&["approve", id, "--scope", "user"]),
        2,
        "omit --scope",
    );
    check(&env.run(&["approve", id]), 0, "with exactly this input");
    let approvals = env.run_json(&["approvals", "--json"]);
    assert_eq!(approvals[0]["usesLeft"], 1);
    check(&env.run(&["approve", id]), 2, "the call has ended (sealed)");
    expect_test::expect![[r#"
        SEQ AFTER STATE STEP NOTE
        [SEQ] [N] ms pending requested
        [SEQ] [N] ms validating validation_started
        [SEQ] [N] ms validating tool_resolved
        [SEQ] [N] ms scheduled scheduled its changes are judged when they are known
        [SEQ] [N] ms executing started
        [SEQ] [N] ms awaiting_approval approval_requested it changes files
        [SEQ] [N] ms approved approved cli: once
        [SEQ] [N] ms sealed sealed sealed: it was approved and had not started; it is safe to call again"#]]
    .assert_eq(
        plain(&env.run(&["calls", id]).stdout, id)
            .split_once("\n\n")
            .unwrap()
            .1,
    );

    let other = env.run_with_plugins(&["call", "write_file", "path=other.txt", "content=hello"]);
    assert_eq!(other.code, Some(8), "{other:?}");
    assert_eq!(env.run_with_plugins(&WRITE).code, Some(0));
    forget(&env);
    assert_eq!(env.run_with_plugins(&WRITE).code, Some(8));

    let id = env.wait_for("awaiting_approval");
    check(
        &env.run(&["deny", &id, "--note", "no more"]),
        0,
        "has ended",
    );
    check(&env.run(&["calls", &id]), 0, "deny by cli: no more");
}

#[test]
fn an_approval_is_explained_narrowed_and_taken_back() {
    let env = TestEnv::new(CALLBACK);
    let waiting = env.spawn(&WRITE);
    let id = env.wait_for("awaiting_approval");
    check(
        &env.run(&["approve", &id, "--scope", "project"]),
        0,
        "approved",
    );
    assert_eq!(wait_output(waiting).code, Some(0));
    forget(&env);
    // The next one is not asked about.
    assert_eq!(env.run_with_plugins(&WRITE).code, Some(0));

    let list = env.run_json(&["approvals", "--json"]);
    let approval = list[0]["id"].as_str().unwrap();
    assert_eq!(
        (&list[0]["used"], &list[0]["holds"]),
        (&json!(1), &json!(true))
    );
    let explain = env.run_with_plugins(&["approvals", "explain", approval]);
    check(&explain, 0, "state     live");
    let file = env.workspace().join("new.txt");
    check(&explain, 0, &format!("write `{}`", file.display()));

    // Another component under the same name.
    let manifest = env.path("plugin.toml");
    let text = std::fs::read_to_string(e2e::root().join("plugins/files/plugin.toml")).unwrap();
    std::fs::write(&manifest, text.replace("0.1.0", "0.1.1")).unwrap();
    let changed = env.path("files.wasm");
    let packed = env
        .command(&["pack"])
        .arg(e2e::target().join("wasm32-wasip2/plugin-dev/files.wasm"))
        .arg("--manifest")
        .arg(&manifest)
        .arg("--output")
        .arg(&changed)
        .output()
        .unwrap();
    assert!(packed.status.success());
    let changed = changed.to_string_lossy();
    let void = env.run(&["approvals", "explain", approval, "--plugins", &changed]);
    check(&void, 0, "state     void: the tool changed from sha256:");

    check(
        &env.run(&[
            "approvals",
            "narrow",
            approval,
            "--uses",
            "1",
            "--expires",
            "1h",
        ]),
        0,
        " replaces ",
    );
    check(
        &env.run(&["approvals", "narrow", approval, "--uses", "9"]),
        2,
        "is no longer in effect (revoked",
    );
    let list = env.run_json(&["approvals", "--json"]);
    assert_eq!(
        (list.as_array().unwrap().len(), &list[0]["usesLeft"]),
        (1, &json!(1))
    );
    assert!(list[0]["expiresAt"].is_i64());

    check(
        &env.run(&["approvals", "revoke", "a-unknown"]),
        2,
        "no approval `",
    );
    check(
        &env.run(&["approvals", "revoke", "--tool", "write_file"]),
        0,
        "revoked a-",
    );
    assert_eq!(env.run_json(&["approvals", "--json"]), json!([]));
    let all = env.run_json(&["approvals", "--all", "--json"]);
    assert_eq!(all.as_array().unwrap().len(), 2);
    check(
        &env.run(&["approvals", "revoke", "--all"]),
        0,
        "nothing to revoke",
    );
}

// R-494
#[test]
fn a_changed_trail_is_found() {
    let env = TestEnv::new("");
    for _ in 0..3 {
        assert_eq!(
            env.run_with_plugins(&["call", "read_file", "path=old.txt"])
                .code,
            Some(0)
        );
    }
    let verified = env.run(&["audit", "verify"]);
    check(&verified, 0, "ok: 24 steps, head ");
    let export = env.run(&["audit", "export", "--format", "jsonl"]);
    assert_eq!(export.stdout, env.run(&["audit", "export"]).stdout);
    let lines: Vec<Value> = export
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 24);
    let head = lines[23]["hash"].as_str().unwrap();
    assert!(
        verified.stdout.contains(head),
        "{head}: {}",
        verified.stdout
    );
    let after = env.run(&["audit", "export", "--after", "23"]).stdout;
    assert_eq!(after.lines().count(), 1);
    let list = env.run(&["audit", "--after", "0", "--limit", "5"]);
    assert_eq!(list.stdout.lines().count(), 6);
    check(&list, 0, "continue with --after 5");

    let tamper = |sql: &str| {
        let database = Connection::open(env.database()).unwrap();
        database
            .execute_batch(&format!(
                "DROP TRIGGER IF EXISTS transitions_stay_unchanged; DROP TRIGGER IF EXISTS transitions_stay; {sql}"
            ))
            .unwrap();
    };
    // A row holds the steps that were written together, and has the number of the last one. Its hash covers them all.
    tamper(
        "UPDATE transitions SET note = 'nothing to see' WHERE seq = (SELECT max(seq) FROM transitions)",
    );
    check(
        &env.run(&["audit", "verify"]),
        1,
        ": the row does not match its hash",
    );
    tamper("DELETE FROM transitions WHERE seq = (SELECT min(seq) FROM transitions)");
    check(
        &env.run(&["audit", "verify"]),
        1,
        "the audit chain is broken at step 1: the row is missing",
    );
}

/// What another program writes into the file is not printed as if the host had recorded it.
#[test]
fn a_17_a_changed_record_and_an_older_copy_are_found() {
    let env = TestEnv::new("");
    let read = || env.run_with_plugins(&["call", "read_file", "path=old.txt"]);
    assert_eq!(read().code, Some(0));
    let head = || {
        let head = env.run(&["audit", "head"]);
        assert_eq!(head.code, Some(0), "{head:?}");
        head.stdout.trim().to_owned()
    };
    let (early, copy) = (head(), std::fs::read(env.database()).unwrap());
    assert_eq!(read().code, Some(0));
    let late = head();
    for head in [&early, &late] {
        let verified = env.run(&["audit", "verify", "--head", head]);
        check(&verified, 0, "ok: ");
    }
    let listed = env.run(&["calls", "--limit", "1"]);
    let id = listed.stdout.lines().nth(1).unwrap();
    let id = id.split_whitespace().nth(2).unwrap().to_owned();

    for sql in [
        "UPDATE calls SET tool = 'run_command'",
        "UPDATE calls SET state = 'denied'",
        "UPDATE calls SET record = replace(record, 'old.txt', 'new.txt')",
        "UPDATE shapes SET text = replace(text, 'reads', 'pure')",
        "INSERT INTO sessions (id, started_ms, client, mode, detail) VALUES ('planted', 1, 'x', 'yolo', 'null')",
    ] {
        let whole = std::fs::read(env.database()).unwrap();
        let database = Connection::open(env.database()).unwrap();
        assert!(database.execute(sql, []).unwrap() > 0, "{sql}");
        drop(database);
        check(
            &env.run(&["audit", "verify"]),
            1,
            "the audit chain is broken at step ",
        );
        let printed = if sql.contains("sessions") {
            env.run(&["sessions"])
        } else {
            env.run(&["audit", "show", &id])
        };
        assert_eq!(printed.stdout, "", "{sql}");
        check(&printed, 9, "verify the store");
        if !sql.contains("sessions") {
            assert_eq!(env.run(&["calls"]).stdout, "", "{sql}");
        }
        std::fs::write(env.database(), whole).unwrap();
    }

    std::fs::write(env.database(), copy).unwrap();
    check(&env.run(&["audit", "verify"]), 0, "ok: ");
    check(&env.run(&["audit", "verify", "--head", &early]), 0, "ok: ");
    check(
        &env.run(&["audit", "verify", "--head", &late]),
        1,
        "the recorded head is not in the chain",
    );
    check(
        &env.run(&["audit", "verify", "--head", "18"]),
        2,
        "is not a head; pass the output of `host audit head`",
    );
}

#[test]
fn two_processes_share_a_store() {
    let env = TestEnv::new("allow = [\"write_file\"]");
    let running: Vec<_> = (0..4)
        .map(|number| {
            let path = format!("path={number}.txt");
            env.spawn(&["call", "write_file", &path, "content=x"])
        })
        .collect();
    for child in running {
        assert_eq!(wait_output(child).code, Some(0));
    }
    let calls = env.run_json(&[
        "calls",
        "--tool",
        "write_file",
        "--state",
        "completed",
        "--json",
    ]);
    assert_eq!(calls.as_array().unwrap().len(), 4);
    check(&env.run(&["audit", "verify"]), 0, "ok: ");
    let table = env.run(&["calls", "--since", "1h", "--limit", "2"]);
    let id = calls[0]["id"].as_str().unwrap();
    let first = plain(table.stdout.lines().nth(1).unwrap(), id);
    let expected = "[DATE] [TIME] [CALL] write_file completed ";
    assert!(first.starts_with(expected), "{first}");
    assert!(first.contains(".txt rule user:1 allow "), "{first}");
    assert_eq!(table.stdout.lines().count(), 3);
}

#[test]
fn sessions_come_and_go() {
    let env = TestEnv::new("");
    env.run_with_plugins(&["call", "read_file", "path=old.txt"]);
    let mut server = env.command_with_plugins(&["run"]);
    let mut server = server
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "probe", "version": "0"},
    }});
    let mut stdin = server.stdin.take().unwrap();
    writeln!(stdin, "{hello}").unwrap();
    writeln!(
        stdin,
        r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#
    )
    .unwrap();
    poll_until(|| {
        let sessions = env.run_json(&["sessions", "--json"]);
        (sessions[0]["client"] == "mcp: probe").then_some(())
    });
    drop(stdin);
    server.wait().unwrap();
    let sessions = env.run_json(&["sessions", "--json"]);
    let clients: Vec<&Value> = sessions
        .as_array()
        .unwrap()
        .iter()
        .map(|session| {
            assert!(session["endedAt"].is_i64(), "{session}");
            &session["client"]
        })
        .collect();
    assert_eq!(clients, ["mcp: probe", "host call"]);
}

#[test]
fn nothing_runs_when_its_records_cannot_be_kept() {
    let env = TestEnv::new("allow = [\"write_file\"]");
    std::fs::create_dir_all(env.database().parent().unwrap()).unwrap();
    std::fs::write(
        env.database(),
        "this is no database, however one looks at it",
    )
    .unwrap();
    for args in [&WRITE[..], &["calls"], &["audit", "verify"]] {
        let ended = match args[0] {
            "call" => env.run_with_plugins(args),
            _ => env.run(args),
        };
        check(
            &ended,
            9,
            "is not a database of this program; end all hosts and move it away",
        );
    }
    let folder = env.database().parent().unwrap().to_owned();
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::write(&folder, "").unwrap();
    check(
        &env.run_with_plugins(&WRITE),
        9,
        "is not a directory; choose another state directory",
    );
    assert!(!env.workspace().join("new.txt").exists());
    // The operator can disable records explicitly.
    let ended = CommandResult::of(
        &env.command_with_plugins(&WRITE)
            .arg("--no-store")
            .output()
            .unwrap(),
    );
    check(&ended, 0, "\"ok\": true");
}

#[test]
fn a_read_only_state_directory_is_an_error() {
    use std::os::unix::fs::PermissionsExt as _;
    // Permissions do not bind the superuser.
    if rustix::process::geteuid().is_root() {
        return;
    }
    let env = TestEnv::new("allow = [\"write_file\"]");
    let dir = env.database().parent().unwrap().to_owned();
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o500)).unwrap();
    check(&env.run_with_plugins(&WRITE), 9, "cannot be written");
    assert!(!env.workspace().join("new.txt").exists());
}
