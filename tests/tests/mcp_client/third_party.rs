//! Third-party MCP servers: three session-based ones for Node and a stateless one for Python.
//!
//! If a server cannot be installed, the test prints that and is skipped.

use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use e2e::target;
use serde_json::{Value, json};

use crate::home::{Home, poll_until};

const NODE: [&str; 3] = [
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-memory@2026.8.31",
];
const PYTHON: [&str; 3] = [
    "mcp-server-time==2026.10.19",
    "mcp-server-git==2026.10.19",
    "mcp-server-fetch==2026.10.24",
];

/// Returns the command of a Node server. Packages are installed once below the target folder.
pub fn node(server: &str) -> Option<Vec<String>> {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    let folder = target().join("mcp-servers/node");
    let installed = *INSTALLED.get_or_init(|| {
        let last = folder.join("node_modules/@modelcontextprotocol/server-memory/dist/index.js");
        last.exists() || {
            fs::create_dir_all(&folder).unwrap();
            let mut npm = Command::new("npm");
            npm.args(["install", "--no-fund", "--no-audit", "--prefix"])
                .arg(&folder)
                .args(NODE);
            succeeds(npm) && last.exists()
        }
    });
    if !installed {
        skip(server);
        return None;
    }
    let file = folder.join(format!(
        "node_modules/@modelcontextprotocol/{server}/dist/index.js"
    ));
    Some(vec!["node".to_owned(), file.to_string_lossy().into_owned()])
}

/// Returns the command of a Python server. Packages are installed once below the target folder.
pub fn python(server: &str) -> Option<Vec<String>> {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    let folder = target().join("mcp-servers/python");
    let installed = *INSTALLED.get_or_init(|| {
        let last = folder.join("bin/mcp-server-fetch");
        last.exists() || {
            let mut venv = Command::new("python3");
            venv.args(["-m", "venv"]).arg(&folder);
            let mut pip = Command::new(folder.join("bin/pip"));
            pip.args(["install", "--quiet"]).args(PYTHON);
            succeeds(venv) && succeeds(pip) && last.exists()
        }
    });
    if !installed {
        skip(server);
        return None;
    }
    let program = folder.join("bin").join(server);
    Some(vec![program.to_string_lossy().into_owned()])
}

fn succeeds(mut command: Command) -> bool {
    let run = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    run.is_ok_and(|status| status.success())
}

fn skip(server: &str) {
    // Bypasses the output capture of the test harness, so that skipped tests are visible.
    let _ = writeln!(
        std::io::stderr(),
        "skipped: {server} cannot be installed here"
    );
}

pub fn call(home: &Home, tool: &str, input: Value) -> Value {
    let input = input.to_string();
    home.json(&["call", tool, &input, "--json", "--mode", "yolo"])
}

fn approved(name: &str, command: &[String], more: &str) -> Home {
    let home = Home::new();
    home.server_with(name, command, more);
    let ended = home.run(&["mcp", "approve", name, "--yes"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    home
}

pub fn content_text(report: &Value) -> String {
    report["outcome"]["content"].to_string()
}

#[test]
fn server_everything() {
    let Some(mut command) = node("server-everything") else {
        return;
    };
    command.push("stdio".to_owned());
    let home = approved("every", &command, "exclude_tools = [\"get-env\"]");
    let test = home.json(&["mcp", "test", "every", "--json"]);
    assert_eq!(test["era"], "legacy", "{test}");
    let tools = test["tools"].to_string();
    assert!(
        tools.contains("mcp__every__echo") && !tools.contains("get_env"),
        "{tools}"
    );

    let report = call(&home, "mcp__every__echo", json!({"message": "hello"}));
    assert!(content_text(&report).contains("Echo: hello"), "{report}");
    // By the name that the server uses.
    let report = call(&home, "mcp__every__get-sum", json!({"a": 2, "b": 3}));
    assert!(content_text(&report).contains('5'), "{report}");
    let report = call(&home, "mcp__every__get_tiny_image", json!({}));
    assert!(content_text(&report).contains("image/png"), "{report}");
    let report = call(
        &home,
        "mcp__every__get_structured_content",
        json!({"location": "Chicago"}),
    );
    assert!(report["outcome"]["structured"].is_object(), "{report}");
    let report = call(
        &home,
        "mcp__every__trigger_long_running_operation",
        json!({"duration": 1, "steps": 2}),
    );
    assert_eq!(report["ok"], true, "{report}");

    // Its resources, through the shipped tools.
    let plugin = e2e::root().join("plugins/agent.wasm");
    let ask = |tool: &str, input: Value| {
        let input = input.to_string();
        let plugin = plugin.to_string_lossy();
        home.json(&[
            "call",
            tool,
            &input,
            "--json",
            "--mode",
            "yolo",
            "--plugins",
            &plugin,
        ])
    };
    let report = ask("list_mcp_resources", json!({"server": "every"}));
    let listed = report.to_string();
    assert!(
        listed.contains("\"every\"") || listed.contains("every"),
        "{report}"
    );
    let uri = first_uri(&report).unwrap_or_else(|| panic!("{report}"));
    let report = ask("read_mcp_resource", json!({"server": "every", "uri": uri}));
    assert_eq!(report["ok"], true, "{report}");
}

//
#[test]
fn r_426_server_everything_over_http() {
    let Some(mut command) = node("server-everything") else {
        return;
    };
    command.push("streamableHttp".to_owned());
    let port = TcpListener::bind(("127.0.0.1", 0))
        .and_then(|listener| listener.local_addr())
        .unwrap()
        .port();
    let mut server = Command::new(&command[0])
        .args(&command[1..])
        .env("PORT", port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    poll_until("the server listens", || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    let home = Home::new();
    let url = format!("http://127.0.0.1:{port}/mcp");
    home.write(&format!(
        "[mcp_servers.web]\nurl = {url:?}\nheaders = {{ X-Key = \"${{HOME}}\" }}\n"
    ));
    let unapproved = home.run(&["mcp", "test", "web"]);
    let approved = home.run(&["mcp", "approve", "web", "--yes"]);
    let report = call(&home, "mcp__web__echo", json!({"message": "hello"}));
    server.kill().unwrap();
    server.wait().unwrap();
    let gone = home.run(&["mcp", "test", "web"]);
    assert_eq!(unapproved.code, Some(5), "{}", unapproved.stderr);
    assert!(
        unapproved.stderr.contains("with the header X-Key"),
        "{}",
        unapproved.stderr
    );
    assert_eq!(approved.code, Some(0), "{}", approved.stderr);
    assert!(content_text(&report).contains("Echo: hello"), "{report}");
    assert_eq!(gone.code, Some(1));
    assert!(gone.stderr.contains("cannot be reached"), "{}", gone.stderr);
}

fn first_uri(value: &Value) -> Option<String> {
    match value {
        Value::Object(object) => object
            .get("uri")
            .and_then(Value::as_str)
            .map(str::to_owned)
            .or_else(|| object.values().find_map(first_uri)),
        Value::Array(list) => list.iter().find_map(first_uri),
        _ => None,
    }
}

#[test]
fn server_filesystem() {
    let Some(mut command) = node("server-filesystem") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let folder: PathBuf = dir.path().canonicalize().unwrap();
    fs::write(folder.join("a.txt"), "inside").unwrap();
    command.push(folder.to_string_lossy().into_owned());
    let home = approved("files", &command, "trust = true");
    let read = |path: &Path| {
        let input = json!({"path": path}).to_string();
        home.json(&[
            "call",
            "mcp__files__read_text_file",
            &input,
            "--json",
            "--mode",
            "yolo",
        ])
    };
    let report = read(&folder.join("a.txt"));
    assert!(content_text(&report).contains("inside"), "{report}");
    // The server's own restriction: the host sends no roots, which would change it.
    let report = read(Path::new("/etc/hostname"));
    assert_eq!(report["ok"], false, "{report}");
    let tools = home.json(&["tools", "--json"]);
    let hints = |name: &str| {
        let all = tools.as_array().unwrap();
        all.iter().find(|tool| tool["name"] == name).unwrap()["effect"].clone()
    };
    assert_eq!(hints("mcp__files__read_text_file"), "reads");
    assert_eq!(hints("mcp__files__write_file"), "destroys");
}

#[test]
fn server_memory() {
    let Some(command) = node("server-memory") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("memory.jsonl");
    let more = format!(
        "env = {{ MEMORY_FILE_PATH = {:?} }}",
        file.to_string_lossy()
    );
    let home = approved("memory", &command, &more);
    let entity =
        json!({"entities": [{"name": "Ann", "entityType": "person", "observations": ["tall"]}]});
    let report = call(&home, "mcp__memory__create_entities", entity);
    assert_eq!(report["ok"], true, "{report}");
    let report = call(&home, "mcp__memory__read_graph", json!({}));
    assert!(content_text(&report).contains("Ann"), "{report}");
    assert!(file.exists());
}

#[test]
fn server_time() {
    let Some(command) = python("mcp-server-time") else {
        return;
    };
    let home = approved("time", &command, "");
    let test = home.json(&["mcp", "test", "time", "--json"]);
    assert_eq!(
        (&test["era"], &test["protocol"]),
        (&json!("modern"), &json!("2026-07-28")),
        "{test}"
    );
    let report = call(
        &home,
        "mcp__time__get_current_time",
        json!({"timezone": "Europe/Berlin"}),
    );
    assert!(content_text(&report).contains("Europe/Berlin"), "{report}");
    let report = call(
        &home,
        "mcp__time__get_current_time",
        json!({"timezone": "Mars/Base"}),
    );
    assert_eq!(report["ok"], false, "{report}");
}
