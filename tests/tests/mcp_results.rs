//! Results of each shipped tool over MCP, which must be complete in text and in structured content.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use e2e::{host, root};
use regex::Regex;
use serde_json::{Value, json};

struct Session {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    next: u64,
}

impl Session {
    fn start(args: &[String]) -> Self {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut child = host(&args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut session = Self {
            child,
            stdin,
            stdout,
            next: 0,
        };
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}});
        session.request("initialize", &hello);
        session.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        session
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.stdin, "{message}").unwrap();
    }

    fn request(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let mut line = String::new();
            assert!(
                self.stdout.read_line(&mut line).unwrap() > 0,
                "the server ended"
            );
            let mut answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == json!(id) {
                assert!(answer["error"].is_null(), "{method} {params}: {answer}");
                return answer["result"].take();
            }
        }
    }

    /// Waits until all tools are loaded and returns them.
    fn tools(&mut self) -> Vec<Value> {
        self.call("current_time", &json!({}));
        let list = self.request("tools/list", &json!({}));
        list["tools"].as_array().unwrap().clone()
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

/// Answers every request with the same page.
fn serve_page() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 4096]);
            let page = "the page says so";
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{page}",
                page.len()
            );
        }
    });
    port
}

fn workspace(at: &Path) {
    let cell = json!({"cell_type": "code", "id": "c1", "source": ["x = 1"], "metadata": {}, "outputs": [], "execution_count": null});
    let notebook = json!({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5});
    std::fs::write(at.join("a.txt"), "first line\nsecond needle\n").unwrap();
    std::fs::write(at.join("b.txt"), "other words\n").unwrap();
    std::fs::write(at.join("n.ipynb"), notebook.to_string()).unwrap();
    std::fs::write(at.join("p.png"), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR").unwrap();
    std::fs::create_dir_all(at.join("skills/greet")).unwrap();
    let skill = "---\nname: greet\ndescription: Greets\n---\nSay hello to all.\n";
    std::fs::write(at.join("skills/greet/SKILL.md"), skill).unwrap();
}

fn args(at: &Path, port: u16, config: &str) -> Vec<String> {
    let file = at.join("host.toml");
    std::fs::write(&file, config).unwrap();
    let at = at.display();
    let plugins = root().join("plugins");
    let mut args = vec![
        "run".to_owned(),
        format!("--config={}", file.display()),
        format!("--plugins={}", plugins.display()),
        format!("--allow-path={at}:rw"),
        "--mode=yolo".to_owned(),
        "--allow-program=bash".to_owned(),
        format!("--allow-host=http://127.0.0.1:{port}"),
        format!("--memory={at}/memory"),
        format!("--skills={at}/skills"),
    ];
    for tool in [
        "http_get",
        "http_post",
        "http_request",
        "web_fetch",
        "web_search",
    ] {
        args.push(format!("--allow-tool={tool}"));
    }
    for tool in ["list_mcp_resources", "read_mcp_resource"] {
        args.push(format!("--allow-tool={tool}"));
    }
    args
}

/// Every shipped tool with a call and the texts that its result must contain. `TASK` is the background task that
/// `shell` started.
fn calls(port: u16) -> Vec<(&'static str, Value, &'static [&'static str])> {
    let url = format!("http://127.0.0.1:{port}/");
    vec![
        (
            "read_file",
            json!({"path": "a.txt", "limit": 1}),
            &["     1→first line", "offset 2"],
        ),
        (
            "read_many_files",
            json!({"include": ["*.txt"]}),
            &["--- a.txt ---", "second needle", "other words"],
        ),
        ("read_media", json!({"path": "p.png"}), &[]),
        ("list_directory", json!({"path": "."}), &["a.txt (25 B)"]),
        ("directory_tree", json!({"path": "."}), &["b.txt"]),
        (
            "get_file_info",
            json!({"path": "a.txt"}),
            &["25 B", "2 lines"],
        ),
        ("list_allowed_directories", json!({}), &["/workspace"]),
        ("glob", json!({"pattern": "*.txt"}), &["a.txt", "b.txt"]),
        (
            "grep",
            json!({"pattern": "needle", "output_mode": "content"}),
            &["File: a.txt", "L2: second needle"],
        ),
        (
            "write_file",
            json!({"path": "new.txt", "content": "new\n"}),
            &["Created new.txt"],
        ),
        (
            "edit_file",
            json!({"path": "a.txt", "old_string": "first", "new_string": "1st"}),
            &["     1→1st line"],
        ),
        (
            "multi_edit",
            json!({"path": "a.txt", "edits": [{"old_string": "1st", "new_string": "one"}]}),
            &["one line"],
        ),
        (
            "apply_patch",
            json!({"patch": "*** Begin Patch\n*** Add File: c.txt\n+added\n*** End Patch\n"}),
            &["A c.txt"],
        ),
        (
            "notebook_edit",
            json!({"path": "n.ipynb", "cell_id": "c1", "new_source": "x = 2", "edit_mode": "replace"}),
            &["x = 2"],
        ),
        ("create_directory", json!({"path": "dir"}), &["dir"]),
        (
            "move_file",
            json!({"source": "new.txt", "destination": "moved.txt"}),
            &["moved.txt"],
        ),
        (
            "delete_file",
            json!({"path": "moved.txt"}),
            &["Deleted moved.txt"],
        ),
        (
            "code_run",
            json!({"code": "console.log('from the script'); [6 * 7]"}),
            &["from the script", "result: [42]"],
        ),
        ("json_parse", json!({"text": "{\"a\": 1}"}), &[r#""a":1"#]),
        ("json_stringify", json!({"data": {"a": 1}}), &["a"]),
        ("base64_encode", json!({"text": "hello"}), &["aGVsbG8="]),
        ("base64_decode", json!({"encoded": "aGVsbG8="}), &["hello"]),
        ("current_time", json!({}), &["UTC"]),
        ("sleep", json!({"duration": 0.001}), &[]),
        ("get_env", json!({"name": "NOPE"}), &["not set"]),
        (
            "set_env",
            json!({"name": "COLOUR", "value": "blue"}),
            &["COLOUR"],
        ),
        ("shell", json!({"command": "echo said"}), &["said"]),
        (
            "shell",
            json!({"command": "bash", "run_in_background": true, "tty": true}),
            &["Started in the background"],
        ),
        ("shell_list", json!({}), &["1 running"]),
        (
            "shell_input",
            json!({"task_id": "TASK", "text": "echo from bash\n"}),
            &[],
        ),
        ("shell_output", json!({"task_id": "TASK"}), &[]),
        ("shell_kill", json!({"task_id": "TASK"}), &[]),
        (
            "todo_write",
            json!({"todos": [{"content": "do it", "status": "pending"}]}),
            &["do it"],
        ),
        ("todo_read", json!({}), &["do it"]),
        ("memory", json!({"action": "list"}), &["no notes yet"]),
        ("skill", json!({"name": "greet"}), &["Say hello to all."]),
        (
            "tool_search",
            json!({"query": "read a file"}),
            &["read_file"],
        ),
        (
            "tool_chain",
            json!({"steps": [{"tool": "base64_encode", "params": {"text": "x"}}]}),
            &["eA=="],
        ),
        (
            "background_run",
            json!({"tool": "current_time", "params": {}}),
            &["cannot run in the background"],
        ),
        ("task", json!({"prompt": "x"}), &["agents"]),
        (
            "ask_user",
            json!({"questions": [{"question": "Which?", "header": "h", "options": [{"label": "a", "description": "a"}, {"label": "b", "description": "b"}]}]}),
            &["no user is available"],
        ),
        (
            "request_permissions",
            json!({"reason": "x"}),
            &["no permission is requested"],
        ),
        ("list_mcp_resources", json!({}), &[]),
        ("read_mcp_resource", json!({"uri": "x://y"}), &[]),
        ("http_get", json!({ "url": url }), &["the page says so"]),
        (
            "http_post",
            json!({"url": url, "body": "x"}),
            &["the page says so"],
        ),
        ("http_request", json!({ "url": url }), &["the page says so"]),
        ("web_fetch", json!({ "url": url }), &["the page says so"]),
        ("web_search", json!({"query": "x"}), &[]),
        ("enter_plan_mode", json!({}), &["plan mode"]),
        (
            "exit_plan_mode",
            json!({"plan": "a plan"}),
            &["no user is available"],
        ),
    ]
}

/// Returns the text of a result and checks that structured content, if any, is equal to it.
fn complete_text(tool: &str, result: &Value) -> String {
    let content = result["content"].as_array().unwrap();
    let texts = content.iter().filter_map(|block| block["text"].as_str());
    let text = texts.collect::<Vec<_>>().join("\n");
    if let Some(value) = result.get("structuredContent") {
        let parsed: Value =
            serde_json::from_str(&text).unwrap_or_else(|_| panic!("{tool}: {result}"));
        assert_eq!(&parsed, value, "{tool}");
        assert_eq!(content.len(), 1, "{tool}");
    }
    assert!(!content.is_empty(), "{tool}");
    text
}

#[test]
fn c_01_text_and_structured_content_of_every_tool_are_complete() {
    let folder = tempfile::tempdir().unwrap();
    workspace(folder.path());
    let port = serve_page();
    let mut session = Session::start(&args(folder.path(), port, ""));
    let tools = session.tools();
    for tool in &tools {
        assert!(tool["outputSchema"].is_null(), "{tool}");
    }
    let listed: BTreeSet<&str> = tools
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    let calls = calls(port);
    let tried: BTreeSet<&str> = calls.iter().map(|(tool, ..)| *tool).collect();
    assert_eq!(listed, tried, "each shipped tool has a row");

    let task = Regex::new(r"task (job-\d+)").unwrap();
    let mut started = String::new();
    for (tool, arguments, needs) in calls {
        let arguments = arguments.to_string().replace("TASK", &started);
        let arguments = serde_json::from_str(&arguments).unwrap();
        let text = complete_text(tool, &session.call(tool, &arguments));
        for needed in needs {
            assert!(
                text.contains(needed),
                "{tool} {arguments}: {needed}: {text}"
            );
        }
        if let Some(found) = task.captures(&text) {
            started = found[1].to_owned();
        }
    }
}

#[test]
fn c_01_structured_content_and_schemas_are_sent_if_enabled() {
    let folder = tempfile::tempdir().unwrap();
    workspace(folder.path());
    let mut session = Session::start(&args(folder.path(), 1, "[mcp]\nstructured = true\n"));
    for tool in session.tools() {
        assert_eq!(tool["outputSchema"]["type"], "object", "{tool}");
    }
    let read = session.call("read_file", &json!({"path": "a.txt"}));
    assert_eq!(
        read["structuredContent"]["path"], "/workspace/a.txt",
        "{read}"
    );
}

#[test]
fn c_13_a_large_file_is_read_in_a_window_that_clients_show_completely() {
    let folder = tempfile::tempdir().unwrap();
    workspace(folder.path());
    let lines: Vec<String> = (0..3_000)
        .map(|number| format!("line {number} of a long file with some sixty characters in it"))
        .collect();
    std::fs::write(folder.path().join("long.txt"), lines.join("\n")).unwrap();
    let mut session = Session::start(&args(folder.path(), 1, ""));
    for (tool, arguments) in [
        ("read_file", json!({"path": "long.txt"})),
        ("read_many_files", json!({"include": ["long.txt", "a.txt"]})),
    ] {
        let text = complete_text(tool, &session.call(tool, &arguments));
        assert!(text.len() < 40_000, "{tool}: {}", text.len());
        assert!(text.contains("to go on: read_file"), "{tool}");
    }
}

// R-124, R-148, R-407, R-408
#[test]
fn r_124_results_of_pegasus_have_the_envelope_in_meta() {
    let folder = tempfile::tempdir().unwrap();
    workspace(folder.path());
    let mut flags = args(folder.path(), 1, "");
    flags.push("--profile=pegasus".to_owned());
    let mut session = Session::start(&flags);
    let read = session.call("read_file", &json!({"path": "a.txt"}));
    let envelope = &read["_meta"]["dev.toolhost/envelope"];
    assert_eq!(envelope["toolName"], "read_file", "{read}");
    assert_eq!(envelope["success"], true, "{read}");
    assert!(envelope["startedAt"].is_u64() && envelope["durationMs"].is_f64());
    // The content has it already.
    assert_eq!(envelope["result"], Value::Null, "{read}");
    assert_eq!(read["_meta"]["dev.toolhost/reflection"], Value::Null);

    let gone = session.call("read_file", &json!({"path": "gone.txt"}));
    assert_eq!(gone["_meta"]["dev.toolhost/envelope"]["success"], false);
    let reflection = &gone["_meta"]["dev.toolhost/reflection"];
    assert_eq!(reflection["verdict"], "replan", "{gone}");
    let failure = &reflection["toolFailures"][0];
    assert_eq!(failure["error"], gone["content"][0]["text"], "{gone}");

    flags.pop();
    let mut native = Session::start(&flags);
    let read = native.call("read_file", &json!({"path": "a.txt"}));
    assert_eq!(read["_meta"]["dev.toolhost/envelope"], Value::Null);
}
