//! The host as an MCP server over stdio, tested with raw lines.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use e2e::{Guest, host, root};
use expect_test::expect;
use serde_json::{Value, json};

struct Session {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    next: u64,
    /// The root of the client.
    folder: Option<String>,
}

impl Session {
    fn start(args: &[&str]) -> Self {
        Self::start_in(args, None)
    }

    fn start_in(args: &[&str], folder: Option<&str>) -> Self {
        Self::start_command(host(args), folder)
    }

    fn start_command(mut command: Command, folder: Option<&str>) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut session = Self {
            child,
            stdin,
            stdout,
            next: 0,
            folder: folder.map(str::to_owned),
        };
        let capabilities = folder.map_or_else(|| json!({}), |_| json!({"roots": {}}));
        let hello = session.request(
            "initialize",
            &json!({"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": {"name": "test", "version": "0"}}),
        );
        assert_eq!(hello["result"]["serverInfo"]["name"], "toolhost", "{hello}");
        session.send_line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        session
    }

    fn send_line(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn send(&mut self, method: &str, params: &Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.send_line(
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(),
        );
        id
    }

    /// Reads the next line, which must be a message: nothing else may be on stdout.
    fn receive(&mut self) -> Value {
        let mut line = String::new();
        assert!(
            self.stdout.read_line(&mut line).unwrap() > 0,
            "the server ended"
        );
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("not a message: {line}"))
    }

    fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params);
        loop {
            let answer = self.receive();
            if answer["method"] == json!("roots/list") {
                let uri = format!("file://{}", self.folder.as_ref().unwrap());
                let roots = json!({"roots": [{ "uri": uri }]});
                self.send_line(
                    &json!({"jsonrpc": "2.0", "id": answer["id"], "result": roots}).to_string(),
                );
            } else if answer["id"] == json!(id) {
                return answer;
            }
        }
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.request("tools/call", &json!({"name": tool, "arguments": arguments}))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Guests and programs cannot access files outside of the client's root.
#[test]
fn guests_and_programs_reach_only_the_client_root() {
    let guest = Guest::new("script", &["fs.read", "fs.write"], "");
    let workspace = guest.workspace();
    std::fs::create_dir_all(workspace.join("in/side")).unwrap();
    std::fs::write(workspace.join("in/a"), "of in").unwrap();
    std::fs::write(workspace.join("b"), "of all").unwrap();
    std::fs::write(
        workspace.join("in/program"),
        "cat a; cat ../b; echo x > ../made; echo y > made; echo ended",
    )
    .unwrap();
    let plugin = guest.plugin();
    let shell = root().join("plugins/shell.wasm");
    let memory = root().join("plugins/memory.wasm");
    let state = tempfile::tempdir().unwrap();
    let grant = format!("{}:rw", workspace.display());
    let config = state.path().join("host.toml");
    std::fs::write(&config, "[mcp]\nroots = true\n").unwrap();
    let args = [
        "run",
        "--config",
        &config.to_string_lossy(),
        "--plugins",
        &plugin.to_string_lossy(),
        "--plugins",
        &shell.to_string_lossy(),
        "--plugins",
        &memory.to_string_lossy(),
        "--memory",
        &state.path().to_string_lossy(),
        "--allow-path",
        &grant,
        "--allow-program",
        "bash",
        "--mode",
        "yolo",
    ];
    let folder = workspace.join("in").display().to_string();
    let mut session = Session::start_in(&args, Some(&folder));
    let steps = [
        "read in/a",
        "read b",
        "list .",
        "list in/side",
        "write in/c c",
        "write c c",
    ];
    let answer = session.call("script", &json!({ "steps": steps }));
    expect![[r#"["of in","NotFound","NotFound","","done","NotFound"]"#]].assert_eq(&text(&answer));
    assert_eq!(
        std::fs::read_to_string(workspace.join("in/c")).unwrap(),
        "c"
    );
    assert!(!workspace.join("c").exists());

    let answer = session.call(
        "shell",
        &json!({"command": "bash program", "cwd": "/workspace/in"}),
    );
    let output = text(&answer);
    assert!(
        output.contains("of in") && output.contains("ended"),
        "{answer}"
    );
    assert!(!output.contains("of all"), "{answer}");
    assert!(workspace.join("in/made").exists());
    assert!(!workspace.join("made").exists());

    // Roots do not restrict the memory folder.
    let fact = json!({"action": "write", "scope": "user", "file": "x.md", "content": "kept", "summary": "a fact"});
    let answer = session.call("memory", &fact);
    assert_eq!(answer["result"]["isError"], json!(false), "{answer}");

    let answer = session.call("shell", &json!({"command": "true"}));
    assert!(
        answer.to_string().contains("as `cwd`: /workspace/in"),
        "{answer}"
    );
}

fn session_with_shipped_plugins() -> Session {
    let plugins = root().join("plugins");
    let workspace = root().join("tests/specs/workspace");
    Session::start(&[
        "run",
        "--plugins",
        &plugins.to_string_lossy(),
        "--allow-path",
        &workspace.to_string_lossy(),
    ])
}

fn text(answer: &Value) -> String {
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("{answer}"))
        .to_owned()
}

// R-428
#[test]
fn a_client_lists_the_tools_and_reads_and_searches() {
    let mut session = session_with_shipped_plugins();
    let list = session.request("tools/list", &json!({}));
    let tools = list["result"]["tools"].as_array().unwrap();
    let names: Vec<_> = tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(names, sorted, "a stable order preserves the prompt cache");
    for tool in tools {
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        let effect = &tool["_meta"]["dev.toolhost/capabilities"]["effect"];
        let reads = *effect == "reads" || *effect == "pure";
        assert_eq!(tool["annotations"]["readOnlyHint"], json!(reads), "{tool}");
        assert!(!tool.to_string().contains("x-aliases"), "{tool}");
    }

    assert!(
        text(&session.call("read_file", &json!({"path": "readme.md"}))).contains("A workspace")
    );
    assert!(text(&session.call("glob", &json!({"pattern": "*.rs"}))).contains("src/main.rs"));
    let found = text(&session.call(
        "grep",
        &json!({"pattern": "TODO", "output_mode": "content"}),
    ));
    assert!(
        found.contains("say hello") && !found.contains("hidden from searches"),
        "{found}"
    );
    // Also by its path on the host, which a model may know.
    let real = root().join("tests/specs/workspace/readme.md");
    assert!(text(&session.call("read_file", &json!({"path": real}))).contains("A workspace"));
}

/// Checked by the order of the responses, not by time: compilation takes longer than a response.
#[test]
fn c_04_a_client_is_served_while_plugins_are_compiled() {
    let cache = tempfile::tempdir().unwrap();
    let plugin = root().join("plugins/system.wasm");
    let mut command = host(&["run", "--plugins", &plugin.to_string_lossy()]);
    command.env("TOOLHOST_CACHE_DIR", cache.path());
    let mut session = Session::start_command(command, None);
    let list = session.send("tools/list", &json!({}));
    let call = session.send(
        "tools/call",
        &json!({"name": "current_time", "arguments": {}}),
    );
    let ping = session.send("ping", &json!({}));
    let mut answers = Vec::new();
    while answers.len() < 3 {
        let answer = session.receive();
        if answer["id"].is_u64() {
            assert!(answer["error"].is_null(), "{answer}");
            answers.push(answer);
        }
    }
    let ids: Vec<_> = answers
        .iter()
        .filter_map(|answer| answer["id"].as_u64())
        .collect();
    assert_eq!(ids[0], ping, "{ids:?}");
    assert!(ids.contains(&list) && ids.contains(&call), "{ids:?}");
    // After a list that timed out, the next one is complete.
    let tools = session.request("tools/list", &json!({}))["result"]["tools"].take();
    assert!(tools.to_string().contains("current_time"), "{tools}");
}

/// Errors during the start also end the host while a client is served.
#[test]
fn c_04_a_failed_start_prints_the_reason_and_exits_with_its_code() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    std::fs::create_dir(at("empty")).unwrap();
    std::fs::create_dir(at("broken")).unwrap();
    std::fs::write(at("broken/x.wasm"), "no component").unwrap();
    std::fs::write(at("bad.toml"), "nonsense = 1\n").unwrap();
    std::fs::write(
        at("hook.toml"),
        "[[hook]]\nname = \"h\"\nplugin = \"absent\"\n",
    )
    .unwrap();
    let plugins = root().join("plugins/system.wasm").display().to_string();
    for (args, code, says) in [
        (
            vec!["--plugins", &at("empty")],
            4,
            "no plugin could be loaded",
        ),
        (
            vec!["--plugins", &at("absent")],
            4,
            "no such file or directory",
        ),
        (
            vec!["--plugins", &at("broken")],
            4,
            "not a WebAssembly component",
        ),
        (
            vec!["--plugins", &plugins, "--config", &at("bad.toml")],
            3,
            "nonsense",
        ),
        (
            vec!["--plugins", &plugins, "--config", &at("hook.toml")],
            3,
            "absent",
        ),
        (
            vec!["--plugins", &plugins, "--allow-path", &at("gone")],
            3,
            "gone",
        ),
        (vec![], 2, "no plugins given"),
    ] {
        let mut args = args;
        args.insert(0, "run");
        // The input stays open: no client ends the host.
        let mut child = host(&args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let _input = child.stdin.take();
        let ended = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(code), "{args:?}: {stderr}");
        assert!(stderr.contains(says), "{args:?}: {stderr}");
        // The same without a client.
        let ended = host(&args).output().unwrap();
        assert_eq!(ended.status.code(), Some(code), "{args:?}");
    }
}

#[test]
fn a_sub_agent_runs_in_the_background() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("host.toml");
    let agent = r#"["sh", "-c", "echo '{\"text\": \"found it\"}'"]"#;
    let settings = format!("[mcp]\nstructured = true\n[agents.general]\ncommand = {agent}\n");
    std::fs::write(&config, settings).unwrap();
    let plugins = root().join("plugins");
    let mut session = Session::start(&[
        "run",
        "--plugins",
        &plugins.to_string_lossy(),
        "--config",
        &config.to_string_lossy(),
        "--allow-tool",
        "task",
        "--allow-program",
        "true",
    ]);
    let begun = session.call(
        "background_run",
        &json!({"tool": "task", "params": {"prompt": "Find it."}}),
    );
    let id = &begun["result"]["structuredContent"]["task_id"];
    assert!(id.is_string(), "{begun}");
    let ended = session.call("shell_output", &json!({"task_id": id, "block": true}));
    assert!(text(&ended).contains("found it"), "{ended}");
}

#[test]
fn failures_are_tool_errors_for_the_model() {
    let mut session = session_with_shipped_plugins();
    let outside = session.call("read_file", &json!({"path": "/etc/passwd"}));
    assert_eq!(outside["result"]["isError"], json!(true));
    assert!(
        text(&outside).starts_with("Permission denied: Access denied: "),
        "{outside}"
    );
    let missing = session.call("read_file", &json!({"path": "raedme.md"}));
    assert!(
        text(&missing).starts_with("File not found: raedme.md. Did you mean: "),
        "{missing}"
    );
    let write = session.call("write_file", &json!({"path": "x", "content": "x"}));
    assert_eq!(write["result"]["isError"], json!(true));
    assert!(text(&write).contains("which is read-only"), "{write}");
    let unknown = session.call("raed_file", &json!({}));
    assert_eq!(unknown["error"]["code"], json!(-32602), "{unknown}");
    assert!(
        unknown["error"]["message"]
            .as_str()
            .unwrap()
            .contains("read_file"),
        "{unknown}"
    );
    let wrong = session.call(
        "read_file",
        &json!({"path": "readme.md", "offset": "first"}),
    );
    assert_eq!(wrong["result"]["isError"], json!(true));
    assert!(text(&wrong).contains("offset"), "{wrong}");
    // Invalid JSON does not end the session.
    session.send_line("this is not json");
    session.send_line("{\"jsonrpc\":\"2.0\",");
    assert!(
        text(&session.call("read_file", &json!({"path": "readme.md"}))).contains("A workspace")
    );
}

#[test]
fn a_denial_names_the_flags_that_allow_or_prompt() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = Session::start(&[
        "run",
        "--plugins",
        &root().join("plugins").to_string_lossy(),
        "--allow-path",
        &format!("{}:rw", folder.path().display()),
    ]);
    let refused = session.call("write_file", &json!({"path": "x", "content": "x"}));
    assert!(text(&refused).contains("--allow-tool"), "{refused}");
    assert!(text(&refused).contains("--ask-client"), "{refused}");
}

#[test]
fn a_guest_cannot_forge_a_message() {
    let guest = Guest::new("fake_frames", &[], "");
    let mut session = Session::start(&["run", "--plugins", &guest.plugin().to_string_lossy()]);
    for _ in 0..3 {
        let answer = session.call("fake_frames", &json!({}));
        assert_eq!(text(&answer), "done");
        assert!(!answer.to_string().contains("forged"), "{answer}");
    }
}

#[test]
fn calls_end_with_the_client() {
    let guest = Guest::new("spin", &[], "timeout = \"300s\"");
    let mut session = Session::start(&["run", "--plugins", &guest.plugin().to_string_lossy()]);
    for _ in 0..4 {
        session.send("tools/call", &json!({"name": "spin", "arguments": {}}));
    }
    std::thread::sleep(Duration::from_millis(200));
    drop(session.stdin.take());
    let start = Instant::now();
    while session.child.try_wait().unwrap().is_none() {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "four endless calls keep the server alive"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Claude Code ends its servers with SIGINT. The records must then contain the end of the session and its calls.
#[test]
fn c_11_sigint_leaves_no_unfinished_records() {
    let env = e2e::test_env::TestEnv::new("");
    let mut session = Session::start_command(env.command_with_plugins(&["run"]), None);
    session.call("current_time", &json!({}));
    session.send(
        "tools/call",
        &json!({"name": "sleep", "arguments": {"duration": 300}}),
    );
    env.wait_for("executing");
    let id = session.child.id().to_string();
    let killed = Command::new("kill").args(["-INT", &id]).status().unwrap();
    assert!(killed.success());
    assert_eq!(session.child.wait().unwrap().code(), Some(0));
    let calls = env.run_json(&["calls", "--running", "--json"]);
    assert_eq!(calls, json!([]));
    let again = env.run_with_plugins(&["call", "current_time"]);
    assert!(!again.stderr.contains("did not finish"), "{again:?}");
}

#[test]
fn a_cancelled_call_releases_its_permit() {
    let guest = Guest::new("spin", &[], "timeout = \"300s\"");
    let other = Guest::new("counter", &[], "");
    let mut session = Session::start(&[
        "run",
        "--plugins",
        &guest.plugin().to_string_lossy(),
        "--plugins",
        &other.plugin().to_string_lossy(),
    ]);
    for _ in 0..20 {
        let id = session.send("tools/call", &json!({"name": "spin", "arguments": {}}));
        session.send_line(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}).to_string());
    }
    let answer = session.call("counter", &json!({}));
    assert_eq!(text(&answer), "1");
}

/// Clients send the list of tools to the model with every request.
#[test]
fn the_list_of_shipped_tools_stays_within_60_kib() {
    let plugins = root().join("plugins").display().to_string();
    let mut session = Session::start(&["run", "--no-store", "--plugins", &plugins]);
    let (mut size, mut count, mut cursor) = (0, 0, Value::Null);
    loop {
        let params = if cursor.is_null() {
            json!({})
        } else {
            json!({ "cursor": cursor })
        };
        let page = session.request("tools/list", &params)["result"].take();
        size += page["tools"].to_string().len();
        count += page["tools"].as_array().unwrap().len();
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert!(count >= 50, "{count} tools");
    assert!(size <= 60 << 10, "{count} tools take {size} bytes");
}
