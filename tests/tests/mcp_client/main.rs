//! Other MCP servers used by the host: approval, tool names, and cleanup after the host ends or is killed.

mod arguments;
mod audit;
mod confined;
mod discovery;
mod home;
mod third_party;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::Stdio;

use e2e::CommandResult;
use e2e::terminal::Terminal;
use serde_json::json;

use self::home::{Home, is_alive, poll_until};

// R-421, R-423, R-424, R-427
#[test]
fn r_423_a_server_is_approved_started_and_its_tools_are_called() {
    let home = Home::new();
    home.server("own", &Home::own_host(&["data"]));
    home.server_with("off", &Home::own_host(&["data"]), "enabled = false");

    // The server is listed but not started.
    let listed = home.run(&["mcp", "list"]);
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    assert!(listed.stdout.contains("not approved"), "{}", listed.stdout);
    assert!(listed.stdout.contains("disabled"), "{}", listed.stdout);
    let input = r#"{"text": "hi"}"#;
    let call = [
        "call",
        "mcp__own__base64_encode",
        input,
        "--allow-tool",
        "mcp__own",
    ];
    let refused = home.run(&call);
    assert_ne!(refused.code, Some(0));
    assert!(
        refused.stderr.contains("`host mcp approve own`"),
        "{}",
        refused.stderr
    );
    assert!(
        refused.stderr.contains("run --no-store --plugins"),
        "{}",
        refused.stderr
    );

    // Without a terminal, approval fails.
    let unasked = home.run(&["mcp", "approve", "own"]);
    assert_eq!(unasked.code, Some(5), "{}", unasked.stderr);
    let approved = home.run(&["mcp", "approve", "own", "--yes"]);
    assert_eq!(approved.code, Some(0), "{}", approved.stderr);

    let called = home.run(&call);
    assert_eq!(called.code, Some(0), "{}", called.stderr);
    assert!(called.stdout.contains("aGk="), "{}", called.stdout);

    // Annotations of the server are not trusted: without a rule, the call is denied because there is no prompter.
    let denied = home.run(&["call", "mcp__own__base64_encode", input]);
    assert_eq!(denied.code, Some(5), "{} {}", denied.stdout, denied.stderr);

    let tools = home.json(&["tools", "--json"]);
    let tool = tools
        .as_array()
        .unwrap()
        .iter()
        .find(|tool| tool["name"] == "mcp__own__base64_encode")
        .unwrap_or_else(|| panic!("{tools}"));
    assert_eq!(tool["category"], "mcp");
    assert_eq!(tool["sandboxed"], false);
    let table = home.run(&["tools"]);
    assert!(table.stdout.contains("(not sandboxed)"), "{}", table.stdout);
}

#[test]
fn r_111_a_server_without_a_sandbox_is_not_called_with_a_limit_of_directories() {
    let home = Home::new();
    home.server("own", &Home::own_host(&["data"]));
    let approved = home.run(&["mcp", "approve", "own", "--yes"]);
    assert_eq!(approved.code, Some(0), "{}", approved.stderr);
    let grant = home.at("work");
    std::fs::create_dir(&grant).unwrap();
    let mut call = vec![
        "call",
        "mcp__own__base64_encode",
        r#"{"text": "hi"}"#,
        "--allow-tool",
        "mcp__own",
        "--allow-path",
        grant.to_str().unwrap(),
    ];
    let called = home.run(&call);
    assert_eq!(called.code, Some(0), "{}", called.stderr);
    call.extend(["--only-path", "."]);
    let refused = home.run(&call);
    assert_eq!(refused.code, Some(5), "{}", refused.stderr);
    let reason = "the server `own` can use files outside them: it runs without a sandbox";
    assert!(refused.stderr.contains(reason), "{}", refused.stderr);
    // Before a user would be asked.
    let mut unapproved = call.clone();
    unapproved.drain(3..5);
    let refused = home.run(&unapproved);
    assert!(refused.stderr.contains(reason), "{}", refused.stderr);

    let plugin = e2e::root().join("plugins/agent.wasm");
    for (tool, input, is_refused) in [
        ("read_mcp_resource", r#"{"uri": "docs://x"}"#, true),
        (
            "read_mcp_resource",
            r#"{"uri": "docs://x", "server": "own"}"#,
            true,
        ),
        ("list_mcp_resources", r#"{"server": "own"}"#, true),
        ("list_mcp_resources", "{}", false),
    ] {
        call[1..3].copy_from_slice(&[tool, input]);
        let mut call = call.clone();
        call.extend(["--mode", "yolo", "--plugins", plugin.to_str().unwrap()]);
        let called = home.run(&call);
        assert_eq!(called.code == Some(1), is_refused, "{}", called.stderr);
        let shown = format!("{}{}", called.stdout, called.stderr);
        assert_eq!(
            shown.contains(reason),
            is_refused,
            "{tool} {input}: {shown}"
        );
    }
}

#[test]
fn an_approval_is_bound_to_the_command_and_stored_for_the_user() {
    let home = Home::new();
    home.server("own", &Home::own_host(&["data"]));
    assert_eq!(home.run(&["mcp", "approve", "own", "--yes"]).code, Some(0));
    assert_eq!(home.run(&["mcp", "test", "own"]).code, Some(0));
    let approval = home.state().join("mcp/approved/own.json");
    assert!(approval.exists());

    // A changed command needs a new approval.
    home.clear();
    home.server("own", &Home::own_host(&["data", "search"]));
    let test = home.run(&["mcp", "test", "own"]);
    assert_eq!(test.code, Some(5), "{}", test.stdout);
    assert!(test.stderr.contains("is not approved"), "{}", test.stderr);

    // Approval files in a project are ignored.
    let stranger = home.at("project");
    std::fs::create_dir_all(stranger.join("mcp/approved")).unwrap();
    std::fs::copy(&approval, stranger.join("mcp/approved/own.json")).unwrap();
    let inside = home
        .host(&["mcp", "test", "own"])
        .current_dir(&stranger)
        .output()
        .unwrap();
    assert_eq!(inside.status.code(), Some(5));
}

#[test]
fn servers_are_added_tested_and_removed_and_comments_are_preserved() {
    let home = Home::new();
    let file = home.config_file();
    std::fs::write(&file, "# mine\ntimeout = \"30s\" # long\n").unwrap();
    let command = Home::own_host(&["data"]);
    let mut add = vec![
        "mcp",
        "add",
        "own",
        "--unconfined",
        "--yes",
        "--trust",
        "--env",
        "A=b",
        "--",
    ];
    add.extend(command.iter().map(String::as_str));
    let added = home.run(&add);
    assert_eq!(added.code, Some(0), "{}", added.stderr);
    assert!(added.stderr.contains("not sandboxed"), "{}", added.stderr);
    assert!(added.stderr.contains("with $A"), "{}", added.stderr);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.starts_with("# mine\ntimeout = \"30s\" # long\n"),
        "{text}"
    );

    let again = home.run(&add);
    assert_eq!(again.code, Some(2), "{}", again.stderr);

    let test = home.json(&["mcp", "test", "own", "--json"]);
    assert_eq!(test["ok"], true, "{test}");
    assert_eq!(test["protocol"], "2026-07-28", "{test}");
    assert_eq!(test["era"], "modern");
    assert!(
        test["tools"]
            .as_array()
            .unwrap()
            .contains(&json!("mcp__own__base64_encode"))
    );
    let list = home.json(&["mcp", "list", "--json"]);
    assert_eq!(list[0]["state"], "connected", "{list}");
    assert_eq!(list[0]["sandboxed"], false);
    assert_eq!(list[0]["env"], json!(["A"]));

    // Annotations of a trusted server are used.
    let tools = home.json(&["tools", "--json"]);
    let tool = tools
        .as_array()
        .unwrap()
        .iter()
        .find(|tool| tool["name"] == "mcp__own__base64_encode");
    assert_eq!(tool.unwrap()["effect"], "reads");

    let removed = home.run(&["mcp", "remove", "own"]);
    assert_eq!(removed.code, Some(0), "{}", removed.stderr);
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text.trim(), "# mine\ntimeout = \"30s\" # long");
    let missing = home.run(&["mcp", "test", "own"]);
    assert_eq!(missing.code, Some(2), "{}", missing.stderr);
    // Added again, it needs a new approval.
    home.server("own", &command);
    assert_eq!(home.run(&["mcp", "test", "own"]).code, Some(5));
}

#[test]
fn the_file_is_not_changed_before_the_answer_and_never_loses_another_change() {
    let home = Home::new();
    for (answer, code, shown) in [("n", 5, "not added"), ("y", 3, "meanwhile")] {
        let command = home.host(&["mcp", "add", "own", "--", "no-such-program"]);
        let mut terminal = Terminal::start(&command, "");
        terminal.wait_for("[y/N] ");
        home.write("# Written by another program.\n");
        let before = std::fs::read_to_string(home.config_file()).unwrap();
        assert!(!before.contains("own"), "{before}");
        terminal.type_keys(&format!("{answer}\n"));
        let (ended, screen) = terminal.wait();
        assert_eq!(ended, Ok(code), "{screen}");
        assert!(screen.contains(shown), "{screen}");
        let after = std::fs::read_to_string(home.config_file()).unwrap();
        assert_eq!(after, before);
    }
}

#[test]
fn login_needs_an_approved_address() {
    let home = Home::new();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    home.write(&format!(
        "[mcp_servers.web]\nurl = \"http://127.0.0.1:{port}/mcp\"\nheaders = {{ X-Api = \"topsecret\" }}\n"
    ));
    let login = home.run(&["mcp", "login", "web"]);
    assert_eq!(login.code, Some(5), "{}", login.stderr);
    assert!(login.stderr.contains("is not approved"), "{}", login.stderr);
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "the host connected to it");
}

#[test]
fn variable_values_in_urls_are_never_printed() {
    let home = Home::new();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    home.write(&format!(
        "[mcp_servers.web]\nurl = \"http://127.0.0.1:{port}/mcp?key=${{TOK}}\"\n"
    ));
    for args in [
        &["mcp", "list"][..],
        &["mcp", "test", "web"],
        &["mcp", "approve", "web", "--yes"],
        &["mcp", "list"],
        &["mcp", "list", "--json"],
        &["mcp", "test", "web"],
        &["call", "mcp__web__x", "{}", "--allow-tool", "mcp__web"],
    ] {
        let output = home.host(args).env("TOK", "sk-verysecret").output();
        let ended = CommandResult::of(&output.unwrap());
        let text = format!("{} {}", ended.stdout, ended.stderr);
        assert!(!text.contains("verysecret"), "{args:?}: {text}");
        assert!(text.contains("web"), "{args:?}: {text}");
    }
}

#[test]
fn a_server_added_again_needs_a_new_approval() {
    let home = Home::new();
    let command = Home::own_host(&["data"]);
    let mut add = vec!["mcp", "add", "own", "--unconfined"];
    let rest: Vec<&str> = ["--"]
        .into_iter()
        .chain(command.iter().map(String::as_str))
        .collect();
    let with_yes: Vec<&str> = add
        .iter()
        .copied()
        .chain(["--yes"])
        .chain(rest.clone())
        .collect();
    assert_eq!(home.run(&with_yes).code, Some(0));
    home.clear();
    add.extend(rest);
    let added = home.run(&add);
    assert!(
        added.stderr.contains("no terminal to prompt at"),
        "{}",
        added.stderr
    );
    assert_eq!(home.run(&["mcp", "test", "own"]).code, Some(5));
}

#[test]
fn a_failing_server_does_not_affect_others() {
    let home = Home::new();
    home.server("own", &Home::own_host(&["data"]));
    home.server(
        "broken",
        &["sh", "-c", "echo why not >&2; exit 3"].map(str::to_owned),
    );
    home.server("missing", &["no-such-program".to_owned()]);
    home.server_with(
        "unset",
        &["x".to_owned()],
        "env = { A = \"${NOT_SET_ANYWHERE}\" }",
    );
    for name in ["own", "broken", "missing"] {
        home.run(&["mcp", "approve", name, "--yes"]);
    }
    let called = home.run(&[
        "call",
        "mcp__own__base64_encode",
        r#"{"text": "hi"}"#,
        "--allow-tool",
        "mcp__own",
    ]);
    assert_eq!(called.code, Some(0), "{}", called.stderr);
    // The call needs no other server.
    assert!(!called.stderr.contains("why not"), "{}", called.stderr);
    let listed = home.run(&["tools"]);
    assert!(
        listed.stdout.contains("mcp__own__base64_encode"),
        "{}",
        listed.stdout
    );
    let stderr = &listed.stderr;
    assert!(stderr.contains("why not"), "{stderr}");
    assert!(
        stderr.contains("program `no-such-program` was not found"),
        "{stderr}"
    );
    assert!(
        stderr.contains("NOT_SET_ANYWHERE, which is not set"),
        "{stderr}"
    );
}

#[test]
fn a_slow_server_does_not_delay_unrelated_calls() {
    let home = Home::new();
    let own = Home::own_host(&["data"]);
    let quoted: Vec<String> = own.iter().map(|argument| format!("'{argument}'")).collect();
    let script = format!(
        "touch '{}'; while [ ! -e '{}' ]; do sleep 0.05; done; exec {}",
        home.at("started").display(),
        home.at("go").display(),
        quoted.join(" ")
    );
    home.server("slow", &["sh".to_owned(), "-c".to_owned(), script]);
    std::fs::write(home.at("go"), "").unwrap();
    let approved = home.run(&["mcp", "approve", "slow", "--yes"]);
    assert_eq!(approved.code, Some(0), "{}", approved.stderr);
    for file in ["go", "started"] {
        let _ = std::fs::remove_file(home.at(file));
    }

    // It is not started for a call that does not need it.
    let data = e2e::root().join("plugins/data.wasm").display().to_string();
    let input = r#"{"text": "hi"}"#;
    let called = home.run(&["call", "base64_encode", input, "--plugins", &data]);
    assert_eq!(called.stdout.trim(), "aGk=", "{}", called.stderr);
    assert!(!home.at("started").exists());
    // Nor for a call of another server.
    home.server("own", &own);
    assert_eq!(home.run(&["mcp", "approve", "own", "--yes"]).code, Some(0));
    let other = "mcp__own__base64_encode";
    let called = home.run(&["call", other, input, "--allow-tool", other]);
    assert_eq!(called.stdout.trim(), "aGk=", "{}", called.stderr);
    assert!(!home.at("started").exists());

    let mut child = home
        .host(&["run", "--plugins", &data])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ask = |id: u32, method: &str, params: serde_json::Value| -> serde_json::Value {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(input, "{request}").unwrap();
        loop {
            let line = lines.next().expect("an answer").unwrap();
            let answer: serde_json::Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == json!(id) {
                return answer["result"].clone();
            }
        }
    };
    let client = json!({"name": "test", "version": "0"});
    ask(
        1,
        "initialize",
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}),
    );
    let call = json!({"name": "base64_encode", "arguments": {"text": "hi"}});
    let answer = ask(2, "tools/call", call);
    assert_eq!(answer["content"][0]["text"], "aGk=", "{answer}");

    // Its tools are listed once it has started.
    std::fs::write(home.at("go"), "").unwrap();
    let mut id = 2;
    while !ask(id, "tools/list", json!({}))
        .to_string()
        .contains("mcp__slow__base64_encode")
    {
        id += 1;
        assert!(id < 2_000, "the tools never appeared");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    drop(input);
    child.wait().unwrap();
}

#[test]
fn a_server_gets_only_configured_variables() {
    let home = Home::new();
    let script = format!(
        "env > {}; exec {}",
        home.at("env").display(),
        Home::own_host(&["data"]).join(" ")
    );
    home.server_with(
        "own",
        &["sh".to_owned(), "-c".to_owned(), script],
        "env = { GIVEN = \"${SECRET_TOKEN}\" }",
    );
    let mut host = home.host(&["mcp", "approve", "own", "--yes"]);
    let ended = host
        .env("SECRET_TOKEN", "s3cret")
        .env("OTHER", "x")
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let variables = std::fs::read_to_string(home.at("env")).unwrap();
    assert!(variables.contains("GIVEN=s3cret"), "{variables}");
    assert!(
        !variables.contains("SECRET_TOKEN") && !variables.contains("OTHER="),
        "{variables}"
    );
    assert!(variables.contains("PATH="), "{variables}");
}

#[test]
fn a_server_ends_with_the_host_even_if_killed() {
    let home = Home::new();
    let script = format!(
        "echo $$ > {}; sleep 1000 & echo $! > {}; exec {}",
        home.at("pid").display(),
        home.at("child").display(),
        Home::own_host(&["data"]).join(" ")
    );
    home.server("own", &["sh".to_owned(), "-c".to_owned(), script]);
    assert_eq!(home.run(&["mcp", "approve", "own", "--yes"]).code, Some(0));
    for kill in [false, true] {
        let mut host = home
            .host(&["run"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        for file in ["pid", "child"] {
            std::fs::write(home.at(file), "").unwrap();
        }
        let pid = |file: &str| {
            let text = std::fs::read_to_string(home.at(file)).unwrap_or_default();
            text.trim().parse::<i32>().ok()
        };
        poll_until("the server runs", || pid("pid").zip(pid("child")).is_some());
        let (server, child) = (pid("pid").unwrap(), pid("child").unwrap());
        if kill {
            host.kill().unwrap();
        } else {
            let mut stdin = host.stdin.take().unwrap();
            let _ = stdin.write_all(b"\n");
            drop(stdin);
        }
        host.wait().unwrap();
        poll_until("all of it is gone", || {
            !is_alive(server) && !is_alive(child)
        });
    }
}

#[test]
fn a_resource_is_read_from_a_named_server_only() {
    let home = Home::new();
    for name in ["one", "two"] {
        home.server(name, &Home::own_host(&["data"]));
        assert_eq!(home.run(&["mcp", "approve", name, "--yes"]).code, Some(0));
    }
    let plugin = e2e::root().join("plugins/agent.wasm");
    let plugin = plugin.to_string_lossy();
    let read = home.run(&[
        "call",
        "read_mcp_resource",
        r#"{"uri": "docs://x"}"#,
        "--mode",
        "yolo",
        "--plugins",
        &plugin,
    ]);
    assert_ne!(read.code, Some(0), "{}", read.stdout);
    let shown = format!("{}{}", read.stdout, read.stderr);
    assert!(
        shown.contains("set `server` to one of: one, two"),
        "{shown}"
    );
}

#[test]
fn oauth_is_removed_if_a_server_gets_another_origin() {
    let home = Home::new();
    let url = "https://a.example/mcp";
    for (arguments, is_kept) in [
        (&["--url", "https://a.example:443/other"][..], true),
        (&["--url", url, "--timeout", "9s"], true),
        (&["--url", "https://b.example/mcp"], false),
        (&["--url", "https://a.example:444/mcp"], false),
        (&["--url", "http://a.example/mcp", "--insecure"], false),
        (&["--", "x"], false),
    ] {
        home.clear();
        home.write(&format!(
            "[mcp_servers.a]\nurl = \"{url}\"\n[mcp_servers.a.oauth]\nclient_secret = \"s3cret\"\n"
        ));
        let update = [&["mcp", "update", "a", "--yes"], arguments].concat();
        let updated = home.run(&update);
        assert_eq!(updated.code, Some(0), "{}", updated.stderr);
        let file = std::fs::read_to_string(home.config_file()).unwrap();
        assert_eq!(file.contains("s3cret"), is_kept, "{file}");
        let is_noted = updated.stderr.contains("its `oauth` is removed");
        assert_eq!(is_noted, !is_kept, "{}", updated.stderr);
    }
}

#[test]
fn servers_with_colliding_tool_names_are_not_started() {
    let home = Home::new();
    home.server("a-b", &Home::own_host(&["data"]));
    home.server("a_b", &Home::own_host(&["data"]));
    for name in ["a-b", "a_b"] {
        let approved = home.run(&["mcp", "approve", name, "--yes"]);
        assert_eq!(approved.code, Some(3), "{}", approved.stderr);
        assert!(
            approved.stderr.contains("would collide with those of"),
            "{}",
            approved.stderr
        );
    }
}
