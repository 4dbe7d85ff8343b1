//! Size and pruning of the records.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;

use e2e::CommandResult;
use e2e::test_env::TestEnv;
use serde_json::Value;

use super::assert_output;

/// Bytes of the database for each call, after the log has been written back.
fn bytes_per_call(env: &TestEnv, calls: u64) -> u64 {
    let database = rusqlite::Connection::open(env.database()).unwrap();
    database
        .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        .unwrap_or_default();
    drop(database);
    fs::metadata(env.database()).unwrap().len() / calls
}

fn batch(env: &TestEnv, count: usize) {
    let mut child = env
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
    let env = TestEnv::new("");
    batch(&env, 20);
    let before = fs::metadata(env.database()).unwrap().len();
    batch(&env, 2_000);
    let total = bytes_per_call(&env, 1);
    let each = total.saturating_sub(before) / 2_000;
    eprintln!("{each} bytes for each call");
    assert!(each < 1_024, "{each} bytes for each call");
}

#[test]
fn records_are_pruned_by_command_and_the_chain_stays_verifiable() {
    let env = TestEnv::new("\n[retention]\nrecords_size = \"0B\"\nrecords_age = \"unlimited\"");
    batch(&env, 30);
    let head = env.run(&["audit", "head"]).stdout.trim().to_owned();
    let prune = |more: &[&str]| {
        let mut command = env.command(&["prune", "--config"]);
        command.arg(env.path("host.toml")).args(more);
        CommandResult::of(&command.output().unwrap())
    };
    assert_output(&prune(&["--dry-run"]), "would delete 1 segment, ");
    assert_eq!(
        env.run_json(&["calls", "--json"]).as_array().unwrap().len(),
        30
    );
    let ended = prune(&["--export", "old"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_output(&ended, "records: deleted 1 segment with ");
    assert_eq!(env.run_json(&["calls", "--json"]), Value::Array(Vec::new()));
    let seq: i64 = head.split_once(':').unwrap().0.parse().unwrap();
    let exported = fs::read_to_string(env.path(&format!("old/steps-1-{seq}.jsonl"))).unwrap();
    assert_eq!(exported.lines().count(), usize::try_from(seq).unwrap());
    let last: Value = serde_json::from_str(exported.lines().last().unwrap()).unwrap();
    assert!(head.ends_with(last["hash"].as_str().unwrap()), "{head}");
    for args in [
        vec!["audit", "verify"],
        vec!["audit", "verify", "--head", &head],
    ] {
        let verified = env.run(&args);
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
        let env = TestEnv::new("\n[retention]\nrecords_size = \"0B\"");
        batch(&env, 3);
        assert_eq!(env.run(&["audit", "head"]).code, Some(0));
        let mut command = env.command(&["prune", "--config"]);
        command
            .arg(env.path("host.toml"))
            .env("TOOLHOST_CRASH_AT", step);
        let killed = command.output().unwrap();
        assert_eq!(killed.status.signal(), Some(9), "{step}: {killed:?}");
        let verified = env.run(&["audit", "verify"]);
        assert_eq!(verified.code, Some(0), "{step}: {verified:?}");
        let left = env.run_json(&["calls", "--json"]).as_array().unwrap().len();
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
    let env = TestEnv::new("\n[retention]\nrecords_size = \"0B\"");
    batch(&env, 5);
    assert_eq!(env.run(&["audit", "head"]).code, Some(0));
    let mut child = env
        .command_with_plugins(&["turns"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let input = child.stdin.take();
    e2e::test_env::poll_until(|| {
        let calls = env.run_json(&["calls", "--json"]);
        calls.as_array().unwrap().is_empty().then_some(())
    });
    drop(input);
    child.wait().unwrap();
    assert_eq!(env.run(&["audit", "verify"]).code, Some(0));
}
