//! Sub-agents that are commands: what they leave behind, whom they may start, and whose tasks may be resumed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use e2e::http::{Client, Server};
use e2e::test_env::{TestEnv, parse_json as parsed, poll_until};
use e2e::{CommandResult, root};
use serde_json::{Value, json};

use super::session::result_value;

const ANN: &str = "ann-has-this-token-and-no-other";
const BOB: &str = "bob-has-this-token-and-no-other";

/// A test environment whose sub-agent is a shell script.
fn test_env(script: &str, timeout: &str) -> TestEnv {
    let env = TestEnv::new("");
    let file = env.path("agent.sh");
    fs::write(&file, script).unwrap();
    let settings = format!(
        "[agents.general]\ndescription = \"x\"\ncommand = [\"sh\", \"{}\"]\ntimeout = \"{timeout}\"\n",
        file.display()
    );
    fs::write(env.path("agents.toml"), settings).unwrap();
    env
}

fn command(env: &TestEnv, arguments: &[&str]) -> Command {
    let mut command = env.command(arguments);
    command
        .arg("--plugins")
        .arg(root().join("plugins/agent.wasm"));
    command.args(["--mode", "yolo", "--config"]);
    command.arg(env.path("agents.toml"));
    command
}

fn task(env: &TestEnv) -> CommandResult {
    let mut command = command(env, &["call", "task", r#"{"prompt": "x"}"#, "--json"]);
    CommandResult::of(&command.output().unwrap())
}

#[test]
fn m_07_nothing_that_a_sub_agent_starts_outlives_its_task() {
    for (end, timeout, expected) in [
        ("sleep 600", "1s", "took longer than 1s"),
        ("echo done", "60s", "done"),
    ] {
        // It leaves the process group and the session of the command, and then writes its process id to `left`.
        let script = "setsid sh -c 'echo $$ > left; exec sleep 600' &\n\
                      while [ ! -s left ]; do sleep 0.05; done\n";
        let env = test_env(&format!("{script}{end}\n"), timeout);
        let ended = task(&env);
        assert!(ended.stdout.contains(expected), "{ended:?}");
        let left = fs::read_to_string(env.path("left")).unwrap();
        let stat = format!("/proc/{}/stat", left.trim());
        poll_until(|| {
            let stat = fs::read_to_string(&stat).unwrap_or_default();
            (stat.is_empty() || stat.contains(") Z ")).then_some(())
        });
    }
}

#[test]
fn m_08_a_host_that_a_sub_agent_starts_without_its_variables_hands_nothing_on() {
    let program = command(&TestEnv::new(""), &[]);
    let program = program.get_program().to_string_lossy();
    let plugin = root().join("plugins/agent.wasm");
    // Each host would start the next one: the count ends that where nothing else does.
    let script = format!(
        "echo x >> count\n[ $(wc -l < count) -lt 5 ] || exit 1\n\
         env -i PATH=\"$PATH\" TOOLHOST_CACHE_DIR=\"$TOOLHOST_CACHE_DIR\" TOOLHOST_STATE_DIR=\"$TOOLHOST_STATE_DIR\" \
         {program} call task '{{\"prompt\": \"x\"}}' --plugins {} --mode yolo --config agents.toml 2>&1\n\
         exit 0\n",
        plugin.display()
    );
    let env = test_env(&script, "60s");
    let ended = task(&env);
    assert!(
        ended.stdout.contains("a sub-agent cannot start sub-agents"),
        "{ended:?}"
    );
    assert_eq!(fs::read_to_string(env.path("count")).unwrap(), "x\n");
}

#[test]
fn m_09_a_user_resumes_no_task_of_another_user() {
    let script = "cat >> asked; echo >> asked\necho '{\"text\": \"done\", \"id\": \"task-1\"}'\n";
    let env = test_env(script, "60s");
    let tokens = env.path("tokens");
    fs::write(&tokens, format!("ann {ANN}\nbob {BOB}\n")).unwrap();
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o600)).unwrap();
    let mut command = command(&env, &["run", "--http", "127.0.0.1:0"]);
    command.arg("--http-token-file").arg(&tokens);
    let server = Server::start(command);
    let greeted = |token: &str| {
        let mut client = Client::connect(&server.address).with_token(token);
        client.start_session();
        client
    };
    let (mut ann, mut bob) = (greeted(ANN), greeted(BOB));
    let (new, resumed) = (
        json!({"prompt": "x"}),
        json!({"prompt": "x", "resume": "task-1"}),
    );
    let run_task = |client: &mut Client, input| client.call(1, "task", input).json().to_string();
    assert!(run_task(&mut bob, &resumed).contains("no task `task-1`"));
    assert!(run_task(&mut ann, &new).contains("done"));
    assert!(run_task(&mut bob, &resumed).contains("no task `task-1`"));
    assert!(run_task(&mut ann, &resumed).contains("done"));
    let recorded = fs::read_to_string(env.path("asked")).unwrap();
    let tasks = recorded.lines().map(serde_json::from_str::<Value>);
    let users: Vec<Value> = tasks.map(|task| task.unwrap()["user"].clone()).collect();
    assert_eq!(users, ["ann", "ann"]);
}

#[test]
fn a_19_an_answer_with_an_integer_that_would_lose_digits_is_passed_on_as_text() {
    for (digits, is_exact) in [
        ("18446744073709551615", true),
        ("-9223372036854775808", true),
        ("18446744073709551616", false),
        ("-9223372036854775809", false),
        ("123456789012345678901234567890", false),
    ] {
        let answer = format!(r#"{{"text": "done", "structured": {{"count": {digits}}}}}"#);
        let env = test_env(&format!("echo '{answer}'\n"), "60s");
        let ended = task(&env);
        assert_eq!(ended.code, Some(0), "{digits}: {ended:?}");
        let report = result_value(&parsed(&ended));
        if is_exact {
            assert_eq!(report["text"], json!("done"), "{digits}: {report}");
            let count = report["structured"]["count"].to_string();
            assert_eq!(count, digits, "{report}");
        } else {
            assert_eq!(report["text"], json!(answer), "{digits}: {report}");
            assert_eq!(report["structured"], Value::Null, "{digits}: {report}");
        }
    }
}
