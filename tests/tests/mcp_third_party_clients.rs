//! The host as an MCP server of third-party clients: the SDKs for Python and TypeScript.
//!
//! A session executes a script in `mcp_third_party_clients/`: `SCRIPT ERA stdio COMMAND ARGS…` or
//! `SCRIPT ERA http URL TOKEN`. It connects, lists the tools, makes the calls in `CALLS`, answers forms with `ANSWER`,
//! and prints `{version, tools, results: [{text, isError, structured} | {refused}], asked: [{message, schema}]}`.

use std::process::Command;

use e2e::client_kits::{copy_beside_packages, http_args, javascript, kit, stdio_args, with_env_of};
use e2e::http::Server;
use e2e::test_env::TestEnv;
use e2e::{CommandResult, host, root};
use serde_json::{Value, json};

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// A client, and the protocol version that it uses in each supported era.
struct Client {
    script: &'static str,
    eras: &'static [(&'static str, &'static str)],
}

const OLD: &[(&str, &str)] = &[("legacy", LEGACY)];
const BOTH: &[(&str, &str)] = &[("legacy", LEGACY), ("auto", MODERN), ("modern", MODERN)];

const PYTHON_1: Client = Client {
    script: "python_1.py",
    eras: OLD,
};
const PYTHON_2: Client = Client {
    script: "python_2.py",
    eras: BOTH,
};
const TYPESCRIPT_1: Client = Client {
    script: "typescript_1.mjs",
    eras: OLD,
};
const TYPESCRIPT_2: Client = Client {
    script: "typescript_2.mjs",
    eras: BOTH,
};

impl Client {
    /// Returns the command for the client, or `None` if it is not installed.
    fn command(&self) -> Option<Command> {
        let script = root()
            .join("tests/tests/mcp_third_party_clients")
            .join(self.script);
        let (program, script) = match self.script {
            "python_1.py" => (kit("python-1")?.join("bin/python"), script),
            "python_2.py" => (kit("python-2")?.join("bin/python"), script),
            _ => {
                let (node, packages) = javascript()?;
                (node, copy_beside_packages(&script, &packages))
            }
        };
        let mut command = with_env_of(&host(&[]), program);
        command.arg(script);
        Some(command)
    }
}

fn session(mut command: Command, arguments: &[String], calls: &Value, answer: &Value) -> Value {
    command
        .args(arguments)
        .env("CALLS", calls.to_string())
        .env("ANSWER", answer.to_string());
    let ended = CommandResult::of(&command.output().expect("the client starts"));
    assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.stderr);
    let last = ended.stdout.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|_| panic!("{ended:?}"))
}

/// Checks each era over each transport.
fn check(client: &Client) {
    for (era, version) in client.eras {
        for over_http in [false, true] {
            let env = TestEnv::new("");
            if !check_session(client, era, version, &env, over_http) {
                return;
            }
        }
    }
}

/// Returns false if the client is not installed.
fn check_session(
    client: &Client,
    era: &str,
    version: &str,
    env: &TestEnv,
    over_http: bool,
) -> bool {
    let asking = ["run", "--ask-client"];
    let server = over_http.then(|| {
        let mut command = env.command_with_plugins(&asking);
        command.args(["--http", "127.0.0.1:0"]);
        Server::start(command)
    });
    let target = server
        .as_ref()
        .map_or_else(|| stdio_args(&env.command_with_plugins(&asking)), http_args);
    let arguments: Vec<String> = std::iter::once(era.to_owned()).chain(target).collect();
    let make = |calls: &Value, answer: &Value| -> Option<Value> {
        let mut command = client.command()?;
        command.env("TOOLHOST_STATE_DIR", env.path("state"));
        Some(session(command, &arguments, calls, answer))
    };
    let hint = format!("{} {era} http {over_http}", client.script);

    let calls = json!([
        ["read_file", {"path": "old.txt"}],
        ["read_file", {"path": "odl.txt"}],
        ["read_file", {"path": 7}],
        ["raed_file", {}],
        ["write_file", {"path": "new.txt", "content": "new"}],
    ]);
    let accept = json!({"action": "accept", "content": {"answer": "once"}});
    let Some(report) = make(&calls, &accept) else {
        return false;
    };
    assert_eq!(report["version"], version, "{hint}");
    let tools = report["tools"].as_array().expect("a list");
    assert!(tools.contains(&json!("read_file")), "{hint}: {tools:?}");
    check_results(&report, &hint);
    assert_eq!(
        report["results"][4]["isError"],
        json!(false),
        "{hint}: {report}"
    );
    let prompts = report["asked"].as_array().expect("a list");
    assert_eq!(prompts.len(), 1, "{hint}: {prompts:?}");
    let message = prompts[0]["message"].as_str().unwrap_or_default();
    assert!(message.contains("write_file"), "{hint}: {message}");
    let written = std::fs::read_to_string(env.workspace().join("new.txt"));
    assert_eq!(written.expect("the user approved it"), "new", "{hint}");

    for no in ["decline", "cancel"] {
        let calls = json!([["write_file", {"path": "no.txt", "content": "no"}]]);
        let report = make(&calls, &json!({"action": no})).expect("it was installed before");
        let result = &report["results"][0];
        assert_eq!(result["isError"], json!(true), "{hint}: {result}");
        assert_eq!(report["asked"].as_array().map(Vec::len), Some(1), "{hint}");
        assert!(!env.workspace().join("no.txt").exists(), "{hint}: {no}");
    }
    true
}

/// Checks the results of calls that need no approval.
fn check_results(report: &Value, hint: &str) {
    let results = report["results"].as_array().expect("a list");
    let text = |index: usize| results[index]["text"].as_str().unwrap_or_default();

    assert!(text(0).contains("old"), "{hint}: {}", results[0]);
    assert_eq!(results[0]["isError"], json!(false), "{hint}");
    // The text is complete, and there is no structured content that a client could show instead.
    assert_eq!(results[0]["structured"], json!(null), "{hint}");

    assert_eq!(results[1]["isError"], json!(true), "{hint}");
    assert!(text(1).starts_with("File not found: odl.txt"), "{hint}");

    // Invalid input is a tool error for the model; an unknown tool is a protocol error.
    assert_eq!(results[2]["isError"], json!(true), "{hint}: {}", results[2]);
    let refused = results[3]["refused"].as_str().unwrap_or_default();
    assert!(refused.contains("read_file"), "{hint}: {}", results[3]);
}

#[test]
fn the_python_sdk_1() {
    check(&PYTHON_1);
}

#[test]
fn the_python_sdk_2_in_both_eras() {
    check(&PYTHON_2);
}

#[test]
fn the_typescript_sdk_1() {
    check(&TYPESCRIPT_1);
}

#[test]
fn the_typescript_client_2_in_both_eras() {
    check(&TYPESCRIPT_2);
}

/// The client settings in the README work with the binary and folders of this checkout.
#[test]
fn the_settings_in_the_readme_work() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let mut found = 0;
    for block in readme.split("```json\n").skip(1) {
        let text = block.split("```").next().unwrap();
        let Ok(settings) = serde_json::from_str::<Value>(text) else {
            continue;
        };
        let servers = [&settings["mcpServers"], &settings["servers"]];
        let Some(servers) = servers.into_iter().find(|servers| servers.is_object()) else {
            continue;
        };
        let server = &servers["toolhost"];
        assert_eq!(server["command"], "/opt/toolhost/host", "{server}");
        let args = server["args"].as_array().expect("a list");
        let args: Vec<&str> = args.iter().filter_map(Value::as_str).collect();
        check_settings(&args);
        found += 1;
    }
    assert_eq!(found, 2, "one for most clients and one for VS Code");
}

fn check_settings(args: &[&str]) {
    let (plugins, workspace) = (root().join("plugins"), root().join("tests/specs/workspace"));
    let args: Vec<String> = args
        .iter()
        .map(|arg| {
            arg.replace("/opt/toolhost/plugins", &plugins.to_string_lossy())
                .replace("/home/me/project", &workspace.to_string_lossy())
                .replace("${workspaceFolder}", &workspace.to_string_lossy())
        })
        .collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let Some(command) = TYPESCRIPT_1.command() else {
        return;
    };
    let arguments: Vec<String> = std::iter::once("legacy".to_owned())
        .chain(stdio_args(&host(&args)))
        .collect();
    let calls = json!([["read_file", {"path": "readme.md"}]]);
    let report = session(command, &arguments, &calls, &json!({"action": "decline"}));
    let text = report["results"][0]["text"].as_str().unwrap_or_default();
    assert!(text.contains("A workspace"), "{report}");
}
