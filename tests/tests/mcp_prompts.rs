//! Prompts to MCP clients over stdio, with sessions and stateless: approvals of file changes, and questions of tools.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use e2e::{host, root};
use serde_json::{Value, json};
use tempfile::TempDir;

struct Client {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    folder: TempDir,
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Client {
    fn start(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.txt"), "one\n").unwrap();
        let mut command = serve_command(folder.path());
        let mut child = command
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            stdin: child.stdin.take().unwrap(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
            folder,
        }
    }

    /// A client with a session that supports elicitation and sampling.
    fn start_session(flags: &[&str]) -> Self {
        let mut client = Self::start(flags);
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}, "sampling": {}},
            "clientInfo": {"name": "test", "version": "0"}});
        client.send(&request(0, "initialize", &hello));
        client.receive();
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin, "{message}").unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        assert!(
            self.stdout.read_line(&mut line).unwrap() > 0,
            "the server ended"
        );
        serde_json::from_str(&line).unwrap()
    }

    fn file(&self) -> String {
        fs::read_to_string(self.folder.path().join("a.txt")).unwrap()
    }
}

fn serve_command(folder: &Path) -> Command {
    let plugins = root().join("plugins");
    let granted = format!("{}:rw", folder.display());
    host(&[
        "run",
        "--no-store",
        "--plugins",
        &plugins.to_string_lossy(),
        "--allow-path",
        &granted,
    ])
}

fn request(id: u32, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn write(id: u32) -> Value {
    let arguments = json!({"path": "a.txt", "content": "two\n"});
    let params = json!({"name": "write_file", "arguments": arguments});
    request(id, "tools/call", &params)
}

fn modern(mut message: Value) -> Value {
    message["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    });
    message
}

fn answers() -> [(Value, bool); 4] {
    let accept = |answer: &str| json!({"action": "accept", "content": {"answer": answer}});
    [
        (accept("once"), true),
        (accept("deny"), false),
        (json!({"action": "decline"}), false),
        (json!({"action": "cancel"}), false),
    ]
}

/// Checks that the form shows the change and that the file is not changed yet.
fn check_form(client: &Client, params: &Value) {
    let message = params["message"].as_str().unwrap();
    assert!(message.starts_with("Make these changes?"), "{message}");
    for line in ["  │ -one", "  │ +two", "plugin: files"] {
        assert!(message.lines().any(|one| one == line), "{line}: {message}");
    }
    assert_eq!(client.file(), "one\n");
}

fn check_end(client: &Client, answer: &Value, is_approved: bool) {
    assert_eq!(answer["result"]["isError"], json!(!is_approved), "{answer}");
    assert_eq!(client.file(), if is_approved { "two\n" } else { "one\n" });
}

#[test]
fn a_session_client_approves_or_denies_a_change() {
    for (reply, is_approved) in answers() {
        let mut client = Client::start_session(&["--ask-client"]);
        client.send(&write(1));
        let prompt = client.receive();
        assert_eq!(prompt["method"], "elicitation/create", "{prompt}");
        check_form(&client, &prompt["params"]);
        client.send(&json!({"jsonrpc": "2.0", "id": prompt["id"], "result": reply}));
        let answer = client.receive();
        check_end(&client, &answer, is_approved);
    }
}

#[test]
fn a_stateless_client_approves_or_denies_a_change() {
    for (reply, is_approved) in answers() {
        let mut client = Client::start(&["--ask-client"]);
        client.send(&modern(write(1)));
        let question = client.receive()["result"].take();
        assert_eq!(question["resultType"], "input_required", "{question}");
        check_form(&client, &question["inputRequests"]["permission"]["params"]);
        let mut retry = modern(write(2));
        retry["params"]["requestState"] = question["requestState"].clone();
        retry["params"]["inputResponses"] = json!({"permission": reply});
        client.send(&retry);
        let answer = client.receive();
        check_end(&client, &answer, is_approved);
    }
}

#[test]
fn clients_are_not_prompted_without_ask_client() {
    let mut client = Client::start_session(&[]);
    client.send(&write(1));
    let answer = client.receive();
    let message = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(message.contains("--allow-tool"), "{answer}");
    check_end(&client, &answer, false);
}

#[test]
fn a_tool_question_is_sent_to_the_client() {
    let mut client = Client::start_session(&["--ask-client", "--allow-tool", "ask_user"]);
    let questions = json!([{"question": "Which?", "header": "colour",
        "options": [{"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"}]}]);
    let params = json!({"name": "ask_user", "arguments": {"questions": questions}});
    client.send(&request(1, "tools/call", &params));
    let prompt = client.receive();
    let message = prompt["params"]["message"].as_str();
    let message = message.unwrap_or_else(|| panic!("{prompt}"));
    assert!(message.starts_with("A tool asks you"), "{message}");
    let reply = json!({"action": "accept", "content": {"answer": "blue"}});
    client.send(&json!({"jsonrpc": "2.0", "id": prompt["id"], "result": reply}));
    let answer = client.receive();
    assert_eq!(answer["result"]["isError"], json!(false), "{answer}");
    assert!(answer.to_string().contains("blue"), "{answer}");
}

#[test]
fn sampling_runs_a_task_if_enabled() {
    let configs = tempfile::tempdir().unwrap();
    let config = configs.path().join("host.toml");
    fs::write(&config, "[mcp]\nsampling = true\n").unwrap();
    let flags = [
        "--allow-tool",
        "task",
        "--config",
        &config.to_string_lossy(),
    ];
    let mut client = Client::start_session(&flags);
    let arguments = json!({"prompt": "add 40 and 2", "agent": "client"});
    let params = json!({"name": "task", "arguments": arguments});
    client.send(&request(1, "tools/call", &params));
    let prompt = client.receive();
    assert_eq!(prompt["method"], "sampling/createMessage", "{prompt}");
    let content = json!({"type": "text", "text": "it is 42"});
    let reply = json!({"role": "assistant", "content": content, "model": "m"});
    client.send(&json!({"jsonrpc": "2.0", "id": prompt["id"], "result": reply}));
    let answer = client.receive();
    assert_eq!(answer["result"]["isError"], json!(false), "{answer}");
    assert!(answer.to_string().contains("it is 42"), "{answer}");
}
