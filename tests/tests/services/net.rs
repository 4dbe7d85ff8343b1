//! Requests of guests, to a server of the test's own.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use e2e::test_env::poll_until;
use e2e::{Guest, host};
use serde_json::{Value, json};

use super::session::result_value;

/// Answers every request with 200.
struct Server {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let recorded = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let first = lines.next().unwrap_or(Ok(String::new())).unwrap();
                let headers = lines
                    .map_while(Result::ok)
                    .take_while(|line| !line.is_empty());
                let key = headers.filter_map(|line| Some(line.strip_prefix("x-key: ")?.to_owned()));
                let key = key.last().unwrap_or_default();
                let request = first.trim_end_matches(" HTTP/1.1").to_owned();
                recorded
                    .lock()
                    .unwrap()
                    .push(format!("{request} {key}").trim().to_owned());
                let _ = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi"
                );
            }
        });
        Self { port, requests }
    }

    fn url(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.port)
    }

    fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }
}

fn check(guest: &Guest, tool: &str, input: &Value, flags: &[&str], expected: &str) {
    let flags = [&["--mode", "yolo"], flags].concat();
    let (report, ended) = guest.call_tool(tool, input, &flags);
    assert_eq!(
        result_value(&report),
        json!(expected),
        "{tool} {input}: {report} {}",
        ended.stderr
    );
}

/// A plugin with access to the server could call tools as another user.
#[test]
fn no_rule_lets_a_plugin_reach_the_host_that_runs_it() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let guest = Guest::new("net", &["net:*", "fs.read"], "");
    let (address, rule) = (
        format!("127.0.0.1:{port}"),
        format!("http://127.0.0.1:{port}"),
    );
    let mut command = host(&[
        "run",
        "--http",
        &address,
        "--http-no-token",
        "--allow-tool",
        "net",
    ]);
    command
        .args(["--allow-host", &rule, "--plugins"])
        .arg(guest.plugin());
    let server = e2e::http::Server::start(command);
    let input = json!({ "url": format!("{rule}/mcp") });
    let mut client = server.client();
    let answer = poll_until(|| {
        let answer = client.call_modern(1, "net", &input).json();
        // The plugin may still be loaded.
        answer.get("result").is_some().then_some(answer)
    });
    let text = answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_default();
    assert!(text == "! private_address", "{answer}");
}

#[test]
fn a_request_needs_the_manifest_the_operator_and_the_tools_word() {
    let server = Server::start();
    let (here, rule) = (server.url("127.0.0.1", "/a"), server.url("127.0.0.1", ""));
    let allow = ["--allow-host", rule.as_str()];
    let input = json!({ "url": here });
    let guest = Guest::new("net", &["net:*", "fs.read"], "");
    check(&guest, "net", &input, &[], "capability_missing");
    check(&guest, "net", &input, &allow, "200 hi");
    check(
        &guest,
        "net_not",
        &json!({ "to": here }),
        &allow,
        "! not_granted",
    );
    check(
        &guest,
        "net",
        &input,
        &["--allow-host", "example.org"],
        "! private_address",
    );
    // No pattern reaches what is near.
    check(
        &guest,
        "net",
        &input,
        &["--allow-host", "*"],
        "! private_address",
    );
    let other = Guest::new("net", &["net:example.org"], "");
    check(&other, "net", &input, &allow, "! host_not_allowed");
    let none = Guest::new("net", &[], "");
    check(&none, "net", &input, &allow, "capability_missing");
    assert_eq!(server.take_requests(), ["GET /a"]);
}

#[test]
fn a_request_goes_where_the_input_says_and_a_reading_tool_sends_nothing() {
    let server = Server::start();
    let (here, there) = (server.url("127.0.0.1", "/a"), server.url("localhost", "/b"));
    let rules = [server.url("127.0.0.1", ""), server.url("localhost", "")];
    let allow = [
        "--allow-host",
        rules[0].as_str(),
        "--allow-host",
        rules[1].as_str(),
    ];
    let guest = Guest::new("net", &["net:*"], "");
    for (tool, input, expected) in [
        (
            "net",
            json!({"url": here, "to": there}),
            "! host_not_allowed",
        ),
        (
            "net_send",
            json!({"url": here, "to": there}),
            "! host_not_allowed",
        ),
        (
            "net",
            json!({"url": here, "method": "POST"}),
            "! method_not_allowed",
        ),
        (
            "net",
            json!({"url": here, "method": "DELETE"}),
            "! method_not_allowed",
        ),
        ("net_send", json!({"url": here, "method": "POST"}), "200 hi"),
        // An input without an address leaves it to the operator's list.
        ("net", json!({"to": there}), "200 hi"),
    ] {
        check(&guest, tool, &input, &allow, expected);
    }
    assert_eq!(server.take_requests(), ["POST /a", "GET /b"]);
}

#[test]
fn a_rule_holds_for_an_address_that_no_input_names() {
    let server = Server::start();
    let (here, there) = (server.url("127.0.0.1", "/a"), server.url("localhost", "/b"));
    let rules = [server.url("127.0.0.1", ""), server.url("localhost", "")];
    let flags = [
        "--allow-host",
        rules[0].as_str(),
        "--allow-host",
        rules[1].as_str(),
        "--deny-tool",
        "net(domain:localhost)",
    ];
    let guest = Guest::new("net", &["net:*"], "");
    // Where a page or the plugin itself sends the call is judged like what the call names.
    check(
        &guest,
        "net",
        &json!({ "to": there }),
        &flags,
        "! host_not_allowed",
    );
    check(&guest, "net", &json!({ "to": here }), &flags, "200 hi");
    assert_eq!(server.take_requests(), ["GET /a"]);
}

#[test]
fn a_secret_is_filled_in_for_its_own_host_only() {
    let server = Server::start();
    let guest = Guest::new("net", &["net:*"], "");
    let own = server.url("127.0.0.1", "");
    let config = guest.workspace().join("host.toml");
    let secrets = format!("[secrets.KEY]\nenv = \"TOOLHOST_TEST_KEY\"\nhosts = [\"{own}\"]\n");
    std::fs::write(&config, secrets).unwrap();
    let (config, other) = (
        config.to_string_lossy().into_owned(),
        server.url("localhost", ""),
    );
    let call = |url: &str, key: &str| {
        let (plugin, input) = (guest.plugin(), json!({"url": url, "key": key}).to_string());
        let plugin = plugin.to_string_lossy().into_owned();
        let args = [
            "call",
            "net",
            &input,
            "--json",
            "--mode",
            "yolo",
            "--plugins",
            &plugin,
            "--config",
            &config,
            "--allow-host",
            &own,
            "--allow-host",
            &other,
        ];
        let output = e2e::host(&args)
            .env("TOOLHOST_TEST_KEY", "s3cret")
            .output()
            .unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert!(!stdout.contains("s3cret"), "{stdout}");
        result_value(&serde_json::from_str(&stdout).unwrap())
    };
    assert_eq!(call(&format!("{own}/a"), "secret:KEY"), json!("200 hi"));
    assert_eq!(
        call(&format!("{other}/b"), "secret:KEY"),
        json!("! secret_not_allowed")
    );
    assert_eq!(
        call(&format!("{own}/c"), "secret:OTHER"),
        json!("! secret_not_allowed")
    );
    assert_eq!(server.take_requests(), ["GET /a s3cret"]);
}

#[test]
fn a_call_that_may_use_the_network_and_fails_leaves_what_it_wrote() {
    let guest = Guest::new("net", &["net:*", "fs.read", "fs.write"], "");
    let folder = format!("{}:rw", guest.workspace().display());
    let flags = ["--mode", "yolo", "--allow-host", "example.org"];
    let flags = [&flags[..], &["--allow-path", &folder]].concat();
    for (tool, is_left) in [("net_write", true), ("file_write", false)] {
        let input = json!({ "path": format!("/workspace/{tool}") });
        let (report, ended) = guest.call_tool(tool, &input, &flags);
        assert_eq!(ended.code, Some(1), "{tool}: {report} {}", ended.stderr);
        assert_eq!(report["error"]["message"], json!("a test"), "{report}");
        let left = std::fs::read_to_string(guest.workspace().join(tool)).ok();
        let expected = is_left.then_some("written");
        assert_eq!(left.as_deref(), expected, "{tool}: {report}");
    }
}
