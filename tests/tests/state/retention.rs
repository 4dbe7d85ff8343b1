//! Size and pruning of the records.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;

use e2e::CommandResult;
use e2e::test_env::TestEnv;
use serde_json::Value;

use super::said;

/// Bytes of the database for each call, after the log has been written back.
fn bytes_per_call(desk: &TestEnv, calls: u64) -> u64 {
    let database = rusqlite::Connection::open(desk.database()).unwrap();
    database
        .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        .unwrap_or_default();
    drop(database);
    fs::metadata(desk.database()).unwrap().len() / calls
}

fn batch(desk: &TestEnv, count: usize) {
    let mut child = desk
        .command_with_plugins(&["batch", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let call =
        |id| format!(r#"{{"id": "{id}", "name": "read_file", "input": {{"path": "old.txt"}}}}"#);
    let calls: Vec<String> = (0..count).map(call).collect();
    let calls = calls.join(",");
    input.write_all(format!("[{calls}]").as_bytes()).unwrap();
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn an_ordinary_call_takes_less_than_a_kilobyte_of_the_store() {
    let desk = TestEnv::new("");
    batch(&desk, 20);
    let before = fs::metadata(desk.database()).unwrap().len();
    batch(&desk, 2_000);
    let total = bytes_per_call(&desk, 1);
    let each = total.saturating_sub(before) / 2_000;
    eprintln!("{each} bytes for each call");
    assert!(each < 1_024, "{each} bytes for each call");
}

#[test]
fn records_are_pruned_by_command_and_the_chain_stays_verifiable() {
    let desk = TestEnv::new("\n[retention]\nrecords_size = \"0B\"\nrecords_age = \"unlimited\"");
    batch(&desk, 30);
    let head = desk.run(&["audit", "head"]).stdout.trim().to_owned();
    let prune = |more: &[&str]| {
        let mut command = desk.command(&["prune", "--config"]);
        command.arg(desk.path("host.toml")).args(more);
        CommandResult::of(&command.output().unwrap())
    };
    said(&prune(&["--dry-run"]), "would delete 1 segment, ");
    assert_eq!(
        desk.run_json(&["calls", "--json"])
            .as_array()
            .unwrap()
            .len(),
        30
    );
    let ended = prune(&["--export", "old"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    said(&ended, "records: deleted 1 segment with ");
    assert_eq!(
        desk.run_json(&["calls", "--json"]),
        Value::Array(Vec::new())
    );
    let seq: i64 = head.split_once(':').unwrap().0.parse().unwrap();
    let exported = fs::read_to_string(desk.path(&format!("old/steps-1-{seq}.jsonl"))).unwrap();
    assert_eq!(exported.lines().count(), usize::try_from(seq).unwrap());
    let last: Value = serde_json::from_str(exported.lines().last().unwrap()).unwrap();
    assert!(head.ends_with(last["hash"].as_str().unwrap()), "{head}");
    for args in [
        vec!["audit", "verify"],
        vec!["audit", "verify", "--head", &head],
    ] {
        let verified = desk.run(&args);
        assert_eq!(verified.code, Some(0), "{verified:?}");
    }
}

#[test]
fn a_prune_that_is_killed_leaves_a_chain_that_can_be_verified() {
    for step in [
        "prune_checked",
        "prune_deleted",
        "prune_noted",
        "prune_committed",
    ] {
        let desk = TestEnv::new("\n[retention]\nrecords_size = \"0B\"");
        batch(&desk, 3);
        assert_eq!(desk.run(&["audit", "head"]).code, Some(0));
        let mut command = desk.command(&["prune", "--config"]);
        command
            .arg(desk.path("host.toml"))
            .env("TOOLHOST_CRASH_AT", step);
        let killed = command.output().unwrap();
        assert_eq!(killed.status.signal(), Some(9), "{step}: {killed:?}");
        let verified = desk.run(&["audit", "verify"]);
        assert_eq!(verified.code, Some(0), "{step}: {verified:?}");
        let left = desk
            .run_json(&["calls", "--json"])
            .as_array()
            .unwrap()
            .len();
        assert_eq!(
            left,
            if step == "prune_committed" { 0 } else { 3 },
            "{step}"
        );
    }
}

/// A host that runs drops what is old without a command.
#[test]
fn a_host_that_runs_prunes_its_records() {
    let desk = TestEnv::new("\n[retention]\nrecords_size = \"0B\"");
    batch(&desk, 5);
    assert_eq!(desk.run(&["audit", "head"]).code, Some(0));
    let mut child = desk
        .command_with_plugins(&["turns"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let input = child.stdin.take();
    e2e::test_env::poll_until(|| {
        let calls = desk.run_json(&["calls", "--json"]);
        calls.as_array().unwrap().is_empty().then_some(())
    });
    drop(input);
    child.wait().unwrap();
    assert_eq!(desk.run(&["audit", "verify"]).code, Some(0));
}
