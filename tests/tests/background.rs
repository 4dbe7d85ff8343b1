//! Commands that the user moves to the background, tasks in the background, and the limits of sub-agents that start a
//! host.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::thread::sleep;
use std::time::Duration;

use e2e::test_env::{TestEnv, poll_until};
use e2e::{CommandResult, root};
use serde_json::{Value, json};

/// A `host turns` process with the plugins `shell` and `agent`.
struct Turns {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Turns {
    fn start(env: &TestEnv, flags: &[&str]) -> Self {
        let mut command = env.command(&["turns"]);
        for plugin in ["shell", "agent"] {
            let file = root().join(format!("plugins/{plugin}.wasm"));
            command.arg("--plugins").arg(file);
        }
        let folder = format!("{}:rw", env.workspace().display());
        command.args(["--allow-path", &folder, "--allow-program", "bash"]);
        let mut child = command
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    fn say(&mut self, line: &Value) {
        writeln!(self.input, "{line}").unwrap();
    }

    fn start_call(&mut self, id: &str, tool: &str, input: &Value) {
        self.say(&json!({"calls": [{"id": id, "name": tool, "input": input}]}));
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// The outcome of the only call of a turn.
    fn outcome(&mut self) -> Value {
        let line = self.receive();
        assert_eq!(line["results"][0]["ok"], true, "{line}");
        line["results"][0]["outcome"].clone()
    }

    fn call(&mut self, tool: &str, input: &Value) -> Value {
        self.start_call("next", tool, input);
        self.outcome()
    }

    fn end(self) {
        let Self {
            mut child,
            input,
            output,
        } = self;
        drop((input, output));
        assert!(child.wait().unwrap().success());
    }
}

fn text(outcome: &Value) -> &str {
    outcome["content"][0]["text"].as_str().unwrap_or_default()
}

const LONG: &str = "echo first; until [ -e go ]; do sleep 0.05; done; echo second; sleep 600";

/// Reads the rest of the detached command, and ends it.
fn read_and_stop(turns: &mut Turns, env: &TestEnv, outcome: &Value) {
    let found = &outcome["structured"];
    assert_eq!(
        (&found["background"], &found["status"]),
        (&json!(true), &json!("running"))
    );
    let task = &found["task_id"];
    assert!(
        text(outcome).contains(&format!(
            "moved this command to the background: task {}",
            task.as_str().unwrap()
        )),
        "{outcome}"
    );
    fs::write(env.workspace().join("go"), "").unwrap();
    let mut read = text(outcome).to_owned();
    poll_until(|| {
        let more = turns.call("shell_output", &json!({"task_id": task}));
        read.push_str(text(&more));
        read.contains("second\n").then_some(())
    });
    assert_eq!(read.matches("first\n").count(), 1, "{read}");
    let killed = turns.call("shell_kill", &json!({"task_id": task}));
    assert_eq!(killed["structured"]["task_id"], *task, "{killed}");
}

// R-112
#[test]
fn a_program_moves_a_running_command_to_the_background() {
    let env = TestEnv::new("");
    let mut turns = Turns::start(&env, &["--mode", "yolo"]);
    turns.say(&json!({"detach": "1"}));
    assert_eq!(turns.receive(), json!({"error": "no call `1` is running"}));
    turns.say(&json!({"detach": "1", "strategy": "serial"}));
    assert!(
        turns.receive()["error"]
            .as_str()
            .unwrap()
            .starts_with("expected `calls`")
    );
    // The host replaces an id with such characters.
    let id = "ä/1";
    turns.start_call(
        id,
        "shell",
        &json!({"command": LONG, "timeout_ms": 600_000}),
    );
    // The call is not running yet, or its command has not started.
    let outcome = loop {
        turns.say(&json!({ "detach": id }));
        let line = turns.receive();
        if line.get("results").is_some() {
            break line["results"][0]["outcome"].clone();
        }
        assert!(line["error"].is_string(), "{line}");
        sleep(Duration::from_millis(50));
    };
    read_and_stop(&mut turns, &env, &outcome);
    turns.end();
}

#[test]
fn the_user_moves_a_running_command_to_the_background_from_another_terminal() {
    let env = TestEnv::new("");
    let mut turns = Turns::start(&env, &["--mode", "yolo"]);
    turns.start_call(
        "1",
        "shell",
        &json!({"command": LONG, "timeout_ms": 600_000}),
    );
    let call = poll_until(|| {
        let calls = env.run_json(&["calls", "--running", "--json"]);
        calls[0]["id"].as_str().map(str::to_owned)
    });
    let moved = poll_until(|| {
        let moved = env.run(&["calls", "detach", &call]);
        (moved.code == Some(0)).then_some(moved)
    });
    assert!(
        moved.stdout.contains("moves to the background"),
        "{moved:?}"
    );
    let outcome = turns.outcome();
    read_and_stop(&mut turns, &env, &outcome);
    let again = env.run(&["calls", "detach", &call]);
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.stderr.contains("is running"), "{again:?}");
    turns.end();
}

/// Adds the sub-agent `general`, which runs this script, to the configuration.
fn add_agent(env: &TestEnv, script: &str) -> String {
    let file = env.path("agent.sh");
    fs::write(&file, script).unwrap();
    let config = fs::read_to_string(env.path("host.toml")).unwrap();
    let config = format!(
        "{config}[agents.general]\ndescription = \"x\"\ncommand = [\"sh\", \"{}\"]\ntimeout = \"120s\"\n",
        file.display()
    );
    fs::write(env.path("agents.toml"), config).unwrap();
    env.path("agents.toml").display().to_string()
}

// R-308
#[test]
fn a_task_runs_in_the_background_and_its_answer_is_read_later() {
    let env = TestEnv::new("");
    let config = add_agent(
        &env,
        "until [ -e go ]; do sleep 0.05; done\necho found 3 places\n",
    );
    let mut turns = Turns::start(&env, &["--config", &config]);
    let input = json!({"prompt": "search", "run_in_background": true});
    turns.start_call("1", "task", &input);
    // Only the task is asked about, not the call that starts it.
    let mut outcome = None;
    let mut asked = Vec::new();
    while outcome.is_none() || asked.is_empty() {
        let line = turns.receive();
        if let Some(ask) = line.get("ask") {
            asked.push(ask["input"].clone());
            turns.say(&json!({"answer": {"id": ask["id"], "allow": 0}}));
        } else {
            outcome = Some(line["results"][0]["outcome"].clone());
        }
    }
    assert_eq!(
        asked,
        [json!({"prompt": "search", "agent": "general", "run_in_background": false})]
    );
    let task = outcome.unwrap()["structured"]["task_id"].clone();
    let running = turns.call("shell_output", &json!({"task_id": task}));
    assert_eq!(running["structured"]["status"], "running");
    fs::write(env.path("go"), "").unwrap();
    let input = json!({"task_id": task, "block": true, "timeout_ms": 120_000});
    let ended = turns.call("shell_output", &input);
    assert!(text(&ended).contains("found 3 places"), "{ended}");
    turns.end();
}

#[test]
fn a_task_in_the_background_can_be_denied() {
    let env = TestEnv::new("");
    let config = add_agent(&env, "echo > ran\n");
    let mut turns = Turns::start(&env, &["--config", &config]);
    let input = json!({"prompt": "search", "run_in_background": true});
    turns.start_call("1", "task", &input);
    let mut task = None;
    let mut denied = false;
    while task.is_none() || !denied {
        let line = turns.receive();
        if let Some(ask) = line.get("ask") {
            turns.say(&json!({"answer": {"id": ask["id"], "deny": true}}));
            denied = true;
        } else {
            task = Some(line["results"][0]["outcome"]["structured"]["task_id"].clone());
        }
    }
    turns.start_call(
        "2",
        "shell_output",
        &json!({"task_id": task, "block": true}),
    );
    let line = turns.receive();
    assert_eq!(line["results"][0]["ok"], false, "{line}");
    assert!(line.to_string().contains("user_denied"), "{line}");
    assert!(!env.path("ran").exists());
    turns.end();
}

/// Runs `host` below a sub-agent of a host with these flags, and returns what it prints.
fn below(env: &TestEnv, prefix: &str, child: &[&str], parent: &[&str]) -> String {
    let program = env.command(&[]);
    let program = program.get_program().to_string_lossy().into_owned();
    let plugin = root().join("plugins/files.wasm");
    let child: Vec<String> = child.iter().map(|word| format!("'{word}'")).collect();
    let script = format!(
        "{prefix} {program} call {} --plugins {} 2>&1\nexit 0\n",
        child.join(" "),
        plugin.display()
    );
    let config = add_agent(env, &script);
    let mut command = env.command(&["call", "task", r#"{"prompt": "x"}"#]);
    command
        .arg("--plugins")
        .arg(root().join("plugins/agent.wasm"));
    command
        .args(["--config", &config, "--allow-tool", "task"])
        .args(parent);
    let ended = CommandResult::of(&command.output().unwrap());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.stdout
}

// R-100, R-112
#[test]
fn a_host_below_a_sub_agent_may_do_only_what_its_parent_may() {
    let env = TestEnv::new("");
    let workspace = env.workspace().display().to_string();
    let (rw, ro) = (format!("{workspace}:rw"), format!("{workspace}:ro"));
    let write = r#"{"path": "new.txt", "content": "x"}"#;
    let child = ["write_file", write, "--mode", "yolo", "--allow-path", &rw];
    let file = env.workspace().join("new.txt");
    // The mode of the parent would ask, and the child has no user to ask.
    let out = below(&env, "", &child, &["--allow-path", &rw]);
    assert!(
        out.contains("may not") && out.contains("in a sub-agent"),
        "{out}"
    );
    // Variables that are removed on the way are found in the processes above.
    let cleared = "env -i TOOLHOST_CACHE_DIR=\"$TOOLHOST_CACHE_DIR\" TOOLHOST_STATE_DIR=\"$TOOLHOST_STATE_DIR\"";
    let out = below(&env, cleared, &child, &["--allow-path", &rw]);
    assert!(out.contains("in a sub-agent"), "{out}");
    // A deny rule of the parent applies in a mode that would allow the call.
    let deny = [
        "--mode",
        "yolo",
        "--allow-path",
        &rw,
        "--deny-tool",
        "write_file",
    ];
    let out = below(&env, "", &child, &deny);
    assert!(out.contains("in a sub-agent"), "{out}");
    // The parent can only read the directory, or does not have it.
    let out = below(&env, "", &child, &["--mode", "yolo", "--allow-path", &ro]);
    assert!(out.contains("which is read-only"), "{out}");
    assert!(!file.exists(), "{out}");
    let out = below(&env, "", &child, &["--mode", "yolo"]);
    assert!(
        out.contains("note: not granted, because the host that started this sub-agent"),
        "{out}"
    );
    assert!(!file.exists(), "{out}");
    // What the parent may do without a question, the child may do too.
    let out = below(&env, "", &child, &["--mode", "yolo", "--allow-path", &rw]);
    assert!(file.exists(), "{out}");
    let read = ["read_file", r#"{"path": "old.txt"}"#, "--allow-path", &ro];
    let out = below(&env, "", &read, &["--allow-path", &ro]);
    assert!(out.contains("old"), "{out}");
}

#[test]
fn a_host_below_a_sub_agent_cannot_change_what_its_parent_runs() {
    let env = TestEnv::new("[[hook]]\ncommand = [\"./workspace/hooks/check.sh\"]");
    let hooks = env.workspace().join("hooks");
    let (hook, script) = (hooks.join("check.sh"), "#!/bin/sh\nexit 0\n");
    fs::create_dir(&hooks).unwrap();
    fs::write(&hook, script).unwrap();
    fs::set_permissions(&hook, PermissionsExt::from_mode(0o755)).unwrap();
    let rw = format!("{}:rw", env.workspace().display());
    let write = |path: &str| {
        let input = json!({"path": path, "content": "x", "mode": "overwrite"}).to_string();
        let child = ["write_file", &input, "--mode", "yolo", "--allow-path", &rw];
        below(&env, "", &child, &["--mode", "yolo", "--allow-path", &rw])
    };
    let out = write("hooks/check.sh");
    assert!(out.to_lowercase().contains("denied"), "{out}");
    assert_eq!(fs::read_to_string(&hook).unwrap(), script, "{out}");
    let out = write("hooks/other.sh");
    assert!(hooks.join("other.sh").exists(), "{out}");
}

#[test]
fn a_host_with_unreadable_limits_does_not_start() {
    let env = TestEnv::new("");
    let mut command = env.command_with_plugins(&["call", "read_file", r#"{"path": "old.txt"}"#]);
    command.env("TOOLHOST_INHERITED", "{}");
    let ended = CommandResult::of(&command.output().unwrap());
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(
        ended.stderr.contains("TOOLHOST_INHERITED is not valid"),
        "{ended:?}"
    );
}
