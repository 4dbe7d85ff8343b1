//! The host as an MCP server over HTTP: tokens, concurrent clients and shutdown.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use e2e::http::{Client, Server, call, modern, modern_headers};
use e2e::test_env::{TestEnv, poll_until};
use e2e::{CommandResult, Guest, host, root, run};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const LISTEN: [&str; 3] = ["run", "--http", "127.0.0.1:0"];

fn server_with_shipped_plugins() -> Server {
    let plugins = root().join("plugins");
    let workspace = root().join("tests/specs/workspace");
    let mut command = host(&LISTEN);
    command.arg("--http-no-token");
    command.arg("--plugins").arg(plugins);
    command.arg("--allow-path").arg(workspace);
    Server::start(command)
}

/// A server with its own records and a guest that never ends.
fn server_with_guest(env: &TestEnv, guest: &Guest, flags: &[&str]) -> Server {
    let mut command = env.command(&LISTEN);
    command.arg("--plugins").arg(guest.plugin()).args(flags);
    Server::start(command)
}

fn spin() -> Guest {
    Guest::new("spin", &[], "timeout = \"300s\"")
}

/// Waits for a call in this state and returns it.
fn wait_for(env: &TestEnv, state: &str) -> Value {
    poll_until(|| {
        let calls = env.run_json(&["calls", "--state", state, "--json"]);
        calls.get(0).cloned()
    })
}

fn signal(server: &Server, signal: Signal) {
    let pid = Pid::from_child(&server.child);
    kill_process(pid, signal).unwrap();
}

fn exit_code(server: &mut Server) -> Option<i32> {
    poll_until(|| server.child.try_wait().unwrap()).code()
}

#[test]
fn shipped_tools_work_with_sessions_and_stateless() {
    let server = server_with_shipped_plugins();
    let mut older = server.client();
    older.start_session();
    let listing = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
    let list = older.post("", &listing).json();
    let names: Vec<_> = list["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"read_file"), "{names:?}");
    let path = json!({"path": "readme.md"});
    assert!(
        older
            .call(2, "read_file", &path)
            .text()
            .contains("A workspace")
    );

    let mut newest = server.client();
    let same = newest.post(&modern_headers("tools/list", ""), &modern(listing));
    assert_eq!(same.json()["result"]["tools"], list["result"]["tools"]);
    assert!(
        newest
            .call_modern(2, "read_file", &path)
            .text()
            .contains("A workspace")
    );
    let outside = newest.call_modern(3, "read_file", &json!({"path": "/etc/passwd"}));
    assert_eq!(outside.json()["result"]["isError"], json!(true));
}

#[test]
fn the_token_is_created_once_private_and_printed_once() {
    let env = TestEnv::new("");
    let start = || Server::start(env.command_with_plugins(&LISTEN));
    let first = start();
    let token = first.token.clone().expect("a new token is shown");
    let file = env.path("state/http-token");
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let arguments = json!({"path": "old.txt"});
    let answer = first.client().call_modern(1, "read_file", &arguments);
    assert!(answer.text().contains("old"), "{answer:?}");
    let stranger = Client::connect(&first.address).call_modern(1, "read_file", &arguments);
    assert_eq!(stranger.status, 401);
    assert!(stranger.headers["www-authenticate"].starts_with("Bearer"));
    drop(first);

    let second = start();
    assert_eq!(second.token, None, "{:?}", second.startup_output);
    assert!(!second.startup_output.concat().contains(&token));
    let mut client = Client::connect(&second.address).with_token(&token);
    assert_eq!(client.call_modern(1, "read_file", &arguments).status, 200);

    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = env.run_with_plugins(&LISTEN);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(
        refused
            .stderr
            .contains("readable or writable by other users"),
        "{refused:?}"
    );
    assert!(!refused.stderr.contains(&token), "{refused:?}");
}

#[test]
fn records_contain_user_names() {
    let (env, guest) = (TestEnv::new(""), Guest::new("counter", &[], ""));
    let (ann, bob) = ("ann-ann-ann-ann-ann-ann", "bob-bob-bob-bob-bob-bob");
    let file = env.path("tokens");
    fs::write(&file, format!("ann {ann}\nbob {bob}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let server = server_with_guest(&env, &guest, &["--http-token-file", "./tokens"]);
    for token in [ann, bob] {
        let mut client = Client::connect(&server.address).with_token(token);
        assert_eq!(client.call_modern(1, "counter", &json!({})).text(), "1");
    }
    let calls = poll_until(|| {
        let calls = env.run_json(&["calls", "--state", "completed", "--json"]);
        (calls.as_array().unwrap().len() == 2).then_some(calls)
    });
    let mut users: Vec<_> = [0, 1].map(|of| calls[of]["userId"].clone()).into();
    users.sort_by_key(Value::to_string);
    assert_eq!(users, [json!("ann"), json!("bob")], "{calls}");
}

#[test]
fn public_addresses_need_a_flag() {
    for (flags, code, says) in [
        (&["--http", "0.0.0.0:0"][..], 2, "--http-public"),
        (&["--http", "example.org:80"], 2, "127.0.0.1:8080"),
        (
            &["--http", "0.0.0.0:0", "--http-public", "--http-no-token"],
            2,
            "cannot be used",
        ),
        (&["--http-no-token"], 2, "--http"),
        (
            &["--http", "127.0.0.1:0", "--http-host", "a b"],
            2,
            "is not a host",
        ),
        (
            &["--http", "127.0.0.1:0", "--http-token-file", "/nonexistent"],
            3,
            "token file",
        ),
    ] {
        let plugins = root().join("plugins/system.wasm");
        let mut args = vec!["run", "--plugins", plugins.to_str().unwrap()];
        args.extend(flags);
        let ended = run(&args);
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(ended.stderr.contains(says), "{ended:?}");
        assert!(
            !ended.stderr.contains("token: "),
            "no token is created: {ended:?}"
        );
    }
}

#[test]
fn a_client_that_disconnects_in_mid_call_stops_the_guest() {
    let (env, guest) = (TestEnv::new(""), spin());
    let server = server_with_guest(&env, &guest, &["--http-no-token"]);
    let mut client = server.client();
    client.send_modern(1, "spin", &json!({}));
    wait_for(&env, "executing");
    drop(client);
    wait_for(&env, "cancelled");
}

#[test]
fn a_session_call_continues_until_it_is_cancelled() {
    let (env, guest) = (TestEnv::new(""), spin());
    let server = server_with_guest(&env, &guest, &["--http-no-token"]);
    let mut client = server.client();
    client.start_session();
    let session = client.session().unwrap().to_owned();
    client.send("POST", "", &call(1, "spin", &json!({})).to_string());
    wait_for(&env, "executing");
    drop(client);
    let header = format!("mcp-session-id: {session}\r\n");
    let mut other = server.client();
    let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
    assert_eq!(other.post(&header, &ping).status, 200);
    wait_for(&env, "executing");
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(other.post(&header, &cancel).status, 202);
    wait_for(&env, "cancelled");
}

#[test]
fn a_stopped_server_records_the_ends_of_its_calls() {
    for (first, second) in [(Signal::TERM, None), (Signal::INT, Some(Signal::INT))] {
        let (env, guest) = (TestEnv::new(""), spin());
        let grace = if second.is_some() { "10m" } else { "200ms" };
        let flags = ["--http-no-token", "--http-grace", grace];
        let mut server = server_with_guest(&env, &guest, &flags);
        let (mut newest, mut older) = (server.client(), server.client());
        older.start_session();
        newest.send_modern(1, "spin", &json!({}));
        older.send("POST", "", &call(1, "spin", &json!({})).to_string());
        poll_until(|| {
            let calls = env.run_json(&["calls", "--state", "executing", "--json"]);
            (calls.as_array().unwrap().len() == 2).then_some(())
        });
        signal(&server, first);
        if let Some(second) = second {
            // Two signals in quick succession may be merged.
            poll_until(|| std::net::TcpStream::connect(&server.address).err());
            signal(&server, second);
        }
        assert_eq!(exit_code(&mut server), Some(0));
        let calls = env.run_json(&["calls", "--json"]);
        for call in calls.as_array().unwrap() {
            assert_eq!(call["state"], json!("cancelled"), "{calls}");
        }
        assert_eq!(env.run_json(&["calls", "--running", "--json"]), json!([]));
    }
}

#[test]
fn a_call_that_ends_within_the_grace_period_is_answered() {
    let env = TestEnv::new("");
    let mut command = env.command_with_plugins(&LISTEN);
    command.args(["--http-no-token", "--http-grace", "1m"]);
    let mut server = Server::start(command);
    let mut client = server.client();
    client.send_modern(1, "sleep", &json!({"duration": 2}));
    wait_for(&env, "executing");
    let start = Instant::now();
    signal(&server, Signal::TERM);
    let answer = client.receive();
    assert_eq!(
        answer.json()["result"]["isError"],
        json!(false),
        "{answer:?}"
    );
    assert_eq!(exit_code(&mut server), Some(0));
    assert!(
        start.elapsed() < Duration::from_secs(30),
        "the server waits for nothing else"
    );
}

#[test]
fn two_hundred_concurrent_sessions_cause_no_error() {
    let server = server_with_shipped_plugins();
    std::thread::scope(|scope| {
        for number in 0..200 {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.client();
                client.start_session();
                for id in 1..=5 {
                    let text = format!("{number}-{id}");
                    let encoded = client
                        .call(id, "base64_encode", &json!({"text": text}))
                        .text();
                    let decoded =
                        client.call(id + 10, "base64_decode", &json!({"encoded": encoded}));
                    assert_eq!(decoded.status, 200, "{decoded:?}");
                    assert!(decoded.text().contains(&text), "{decoded:?}");
                }
            });
        }
    });
}

#[test]
fn misbehaving_clients_do_not_affect_others() {
    let server = server_with_shipped_plugins();
    let mut open = Vec::new();
    for _ in 0..20 {
        let mut deaf = server.client();
        let text = "x".repeat(4 << 20);
        deaf.send_modern(1, "base64_encode", &json!({"text": text}));
        let mut slow = server.client();
        slow.write(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\nx-slow:");
        let mut short = server.client();
        short.write(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\ncontent-length: 1000\r\n\r\n{");
        open.extend([deaf, slow, short]);
    }
    let mut wrong = server.client();
    for (body, status) in [("{", 400), ("[]", 400), ("\u{0}", 400), ("{}", 400)] {
        wrong.send("POST", "", body);
        assert_eq!(wrong.receive().status, status, "{body}");
    }
    let mut client = server.client();
    client.start_session();
    for id in 0..20 {
        let answer = client.call(id, "read_file", &json!({"path": "readme.md"}));
        assert!(answer.text().contains("A workspace"), "{answer:?}");
    }
}

/// Health check, as used by load balancers.
#[test]
fn the_health_check_needs_no_token() {
    let server = Server::start(TestEnv::new("").command_with_plugins(&LISTEN));
    let mut client = Client::connect(&server.address);
    client.write(b"GET /healthz HTTP/1.1\r\nhost: 10.0.0.1\r\n\r\n");
    let answer = client.receive();
    assert_eq!((answer.status, answer.body.as_str()), (200, "ok\n"));
}

/// Neither MCP messages nor prompts are written to stdout.
#[test]
fn standard_output_stays_empty() {
    let env = TestEnv::new("");
    let mut command =
        env.command_with_plugins(&["run", "--http", "127.0.0.1:0", "--http-no-token"]);
    command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let pid = Pid::from_child(&child);
    let mut stderr = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("listening on ") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut stderr, &mut line).unwrap() > 0);
    }
    kill_process(pid, Signal::TERM).unwrap();
    let ended = CommandResult::of(&child.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""));
}

#[test]
fn a_19_an_integer_that_would_lose_digits_is_refused_over_http() {
    let mut command = host(&LISTEN);
    command
        .args(["--http-no-token", "--plugins"])
        .arg(root().join("plugins/data.wasm"));
    let server = Server::start(command);
    let (mut older, mut newest) = (server.client(), server.client());
    older.start_session();
    let tool = "json_stringify";
    let newer_headers = modern_headers("tools/call", tool);
    for (digits, is_exact) in [
        ("18446744073709551615", true),
        ("-9223372036854775808", true),
        ("18446744073709551616", false),
        ("-9223372036854775809", false),
        ("123456789012345678901234567890", false),
    ] {
        let message = call(1, tool, &json!({"data": {"count": "DIGITS"}}));
        for (client, headers, message) in [
            (&mut older, "", message.clone()),
            (&mut newest, &*newer_headers, modern(message)),
        ] {
            let body = message.to_string().replace("\"DIGITS\"", digits);
            client.send("POST", headers, &body);
            let answer = client.receive();
            if is_exact {
                let expected = format!(r#"{{"count":{digits}}}"#);
                assert_eq!(answer.text(), expected, "{answer:?}");
            } else {
                assert_eq!(answer.status, 400, "{digits}: {answer:?}");
                assert_eq!(answer.json()["error"]["code"], json!(-32602));
                assert!(
                    answer.body.contains("does not fit into 64 bits"),
                    "{answer:?}"
                );
            }
        }
    }
}

#[test]
fn the_token_file_in_a_granted_folder_is_hidden_from_tools_and_programs() {
    let env = TestEnv::new("");
    let token = "ann-ann-ann-ann-ann-ann";
    let (file, text) = (env.workspace().join("tokens"), format!("ann {token}\n"));
    fs::write(&file, &text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let mut command = env.command_with_plugins(&LISTEN);
    command
        .args(["--allow-tool", "*", "--allow-program", "bash"])
        .arg("--http-token-file")
        .arg(&file);
    for plugin in ["search", "shell"] {
        let plugin = root().join(format!("plugins/{plugin}.wasm"));
        command.arg("--plugins").arg(plugin);
    }
    let server = Server::start(command);
    let mut client = Client::connect(&server.address).with_token(token);
    let script = "cat old.txt tokens; cp tokens copy; ln tokens hard; ln -s tokens link; cat copy hard link; \
                  echo eve >> tokens; mv tokens moved; cat moved; rm -f tokens; echo ended";
    // Each result must contain the expected text, so that no call fails for another reason.
    for (tool, input, expected) in [
        ("read_file", json!({"path": "old.txt"}), "old"),
        ("read_file", json!({"path": "tokens"}), "isError\":true"),
        ("read_file", json!({"path": file}), "isError\":true"),
        (
            "grep",
            json!({"pattern": "ann|old", "output_mode": "content"}),
            "old.txt",
        ),
        (
            "move_file",
            json!({"source": "tokens", "destination": "moved"}),
            "isError\":true",
        ),
        (
            "write_file",
            json!({"path": "tokens", "content": "eve", "mode": "overwrite"}),
            "isError\":true",
        ),
        ("delete_file", json!({"path": "tokens"}), "isError\":true"),
        ("shell", json!({"command": script}), "ended"),
    ] {
        let answer = client.call_modern(1, tool, &input);
        assert!(answer.body.contains(expected), "{tool} {input}: {answer:?}");
        assert!(!answer.body.contains(token), "{tool} {input}: {answer:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), text, "{tool} {input}");
    }
    let listed = client.call_modern(1, "list_directory", &json!({"path": "."}));
    let listed = listed.text();
    assert!(
        listed.contains("old.txt") && !listed.contains("tokens"),
        "{listed}"
    );
}
