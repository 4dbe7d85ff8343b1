//! The web page in a real browser: Playwright with Debian's Chromium, against a real host with real plugins.
//! Skipped with a line where they cannot be installed.

mod history;
mod mcp_app;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use e2e::client_kits::{copy_beside_packages, kit};
use e2e::test_env::TestEnv;
use e2e::{root, target};
use serde_json::{Value, json};

/// Longer than any step takes, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A host that serves MCP on its standard streams, and the page.
struct UiHost {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    link: String,
    requests: u64,
}

impl UiHost {
    fn start(env: &TestEnv, address: &str, more: &[&str]) -> Self {
        let mut command = env.command_with_plugins(&["run", "--ui", address]);
        command.env("USER", "ann").args(more);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("host starts");
        let link = link_of(child.stderr.take().expect("a pipe"));
        let mut host = Self {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().expect("a pipe")),
            child,
            link: link.recv_timeout(TIMEOUT).expect("the link of the page"),
            requests: 0,
        };
        let client = json!({"name": "test", "version": "1"});
        let about =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
        let id = host.send("initialize", &about);
        host.receive(id);
        host
    }

    fn send(&mut self, method: &str, params: &Value) -> u64 {
        self.requests += 1;
        let line =
            json!({"jsonrpc": "2.0", "id": self.requests, "method": method, "params": params});
        writeln!(self.input.as_ref().expect("open"), "{line}").expect("the host reads");
        self.requests
    }

    /// Starts a call, which will ask.
    fn call(&mut self, tool: &str, input: &Value) -> u64 {
        self.send("tools/call", &json!({"name": tool, "arguments": input}))
    }

    /// Waits for the result of a request.
    fn receive(&mut self, id: u64) -> Value {
        loop {
            let mut line = String::new();
            let length = self.output.read_line(&mut line).expect("the host writes");
            assert!(length > 0, "the host has ended");
            let message: Value = serde_json::from_str(&line).expect("a message");
            if message["id"] == id {
                return message["result"].clone();
            }
        }
    }

    /// Ends the host as a client does.
    fn end(mut self) {
        drop(self.input.take());
        self.child.wait().expect("the host ends");
    }

    fn port(&self) -> &str {
        let (_, rest) = self.link.split_once(".localhost:").expect("a port");
        rest.split_once('/').expect("a path").0
    }
}

impl Drop for UiHost {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Finds the link in the messages of the host, and reads the rest, so that the host does not block.
fn link_of(stderr: std::process::ChildStderr) -> Receiver<String> {
    let (sender, link) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if let Some(rest) = line.strip_prefix("page: ") {
                let link = rest.split(' ').next().unwrap_or_default();
                let _ = sender.send(link.to_owned());
            }
        }
    });
    link
}

/// A running script. It says what it has seen, one line each.
struct Script {
    name: &'static str,
    child: Child,
    /// Node ends when this is closed.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Script {
    /// `None` if the browser is not installed.
    fn start(name: &'static str, variables: &[(&str, &str)]) -> Option<Self> {
        let node = kit("node")?.join("program");
        let chromium = kit("chromium")?.join("program");
        let packages = kit("playwright")?;
        let folder = root().join("tests/tests/ui");
        // The name says what it belongs to, because all scripts are next to the packages.
        let shared = std::fs::read(folder.join("browser.mjs")).expect("the script");
        let draft = tempfile::tempdir().expect("a directory");
        let copy = draft.path().join("ui_browser.mjs");
        std::fs::write(&copy, shared).expect("write the script");
        copy_beside_packages(&copy, &packages);
        let script = copy_beside_packages(&folder.join(format!("{name}.mjs")), &packages);
        let mut child = Command::new(node)
            .arg(script)
            .env("CHROMIUM", chromium)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node starts");
        Some(Self {
            name,
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().expect("a pipe")),
            child,
        })
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the script writes");
        assert!(!line.is_empty(), "{}: {:?}", self.name, self.child.wait());
        line.trim_end().to_owned()
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.input.as_ref().expect("open"), "{line}").expect("the script reads");
    }

    fn end(mut self) {
        drop(self.input.take());
        let status = self.child.wait().expect("the script ends");
        assert!(status.success(), "{}: {status}", self.name);
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

fn edit(env: &TestEnv) -> Value {
    let path = env.workspace().join("old.txt");
    json!({"path": path, "old_string": "old", "new_string": "new"})
}

/// Returns a link for another browser.
fn another_link(env: &TestEnv) -> String {
    let ended = env.run(&["ui"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended.stdout.trim().to_owned()
}

#[test]
fn a_change_is_approved_with_one_key_and_the_record_names_the_page() {
    let env = TestEnv::new("");
    let mut host = UiHost::start(&env, "127.0.0.1:0", &[]);
    let call = host.call("edit_file", &edit(&env));
    env.wait_for("awaiting_approval");
    let Some(mut script) = Script::start("approve", &[("LINK", &host.link)]) else {
        return;
    };
    assert_eq!(
        script.hear(),
        "“Plugin `files` wants to modify workspace/old.txt” was approved by ui (ann)."
    );
    script.end();
    let result = host.receive(call);
    assert_eq!(result["isError"], Value::Bool(false), "{result}");
    let text = std::fs::read_to_string(env.workspace().join("old.txt")).unwrap();
    assert_eq!(text, "new\n");
    let calls = env.run_json(&["calls", "--json"]);
    let id = calls[0]["id"].as_str().expect("an id");
    let shown = env.run(&["audit", "show", id]);
    assert!(shown.stdout.contains("ui (ann)"), "{}", shown.stdout);
}

#[test]
fn two_browsers_show_one_question_and_the_first_answer_counts() {
    let env = TestEnv::new("");
    let mut host = UiHost::start(&env, "127.0.0.1:0", &[]);
    let call = host.call("edit_file", &edit(&env));
    env.wait_for("awaiting_approval");
    let links = [("LINK", &*host.link), ("SECOND_LINK", &*another_link(&env))];
    let Some(mut script) = Script::start("two_browsers", &links) else {
        return;
    };
    let hint = script.hear();
    assert!(
        hint.contains("was declined by ui (ann)") && hint.contains("Next question"),
        "{hint}"
    );
    assert_eq!(script.hear(), "declined");
    let result = host.receive(call).to_string();
    assert!(result.contains("use notes.md instead"), "{result}");
    host.call("edit_file", &edit(&env));
    script.tell("next");
    script.end();
    let text = std::fs::read_to_string(env.workspace().join("old.txt")).unwrap();
    assert_eq!(text, "old\n");
}

#[test]
fn an_open_tab_says_that_the_host_has_exited_and_was_started_again() {
    let env = TestEnv::new("");
    let host = UiHost::start(&env, "127.0.0.1:0", &[]);
    let address = format!("127.0.0.1:{}", host.port());
    let Some(mut script) = Script::start("restart", &[("LINK", &host.link)]) else {
        return;
    };
    assert_eq!(script.hear(), "open");
    host.end();
    assert!(script.hear().starts_with("The host has exited."));
    let host = UiHost::start(&env, &address, &[]);
    script.tell(&host.link);
    assert!(script.hear().starts_with("The host was started again."));
    script.end();
}

#[test]
fn every_page_is_accessible_and_shows_hostile_text_as_text() {
    let env = TestEnv::new("");
    let mut host = UiHost::start(&env, "127.0.0.1:0", &[]);
    let hostile = mcp_app::HOSTILE;
    let path = env.workspace().join(hostile);
    host.call(
        "write_file",
        &json!({"path": path, "content": format!("{hostile}\n").repeat(40)}),
    );
    host.call("edit_file", &edit(&env));
    host.call(
        "write_file",
        &json!({"path": env.workspace().join("a/b.md"), "content": "x\n"}),
    );
    host.call(
        "delete_file",
        &json!({"path": env.workspace().join("old.txt")}),
    );
    wait_for_questions(&env, 4);
    let Some(mut script) = Script::start("every_page", &[("LINK", &host.link)]) else {
        return;
    };
    let checked = script.hear();
    let count = checked.strip_prefix("checked ").expect("a count");
    assert!(count.parse::<u32>().unwrap() >= 16, "{checked}");
    script.end();
}

fn wait_for_questions(env: &TestEnv, count: usize) {
    e2e::test_env::poll_until(|| {
        let calls = env.run_json(&["calls", "--state", "awaiting_approval", "--json"]);
        (calls.as_array()?.len() >= count).then_some(())
    });
}

const README: &str = "# Weather station\n\nThe server listens on port 8080.\nIt reads sensors every minute.\n\n\
    ## Use\n\nRun `make`, then open the page.\nStop it with Ctrl-C.\n";

#[test]
fn the_pictures_of_the_documentation_show_the_page() {
    let env = TestEnv::new("");
    let workspace = env.workspace();
    std::fs::write(workspace.join("README.md"), README).unwrap();
    let mut host = UiHost::start(&env, "127.0.0.1:0", &[]);
    let changed = README
        .replace("port 8080", "port 9090 by default")
        .replace("every minute", "every ten seconds");
    host.call(
        "write_file",
        &json!({"path": workspace.join("README.md"), "content": changed}),
    );
    wait_for_questions(&env, 1);
    host.call("delete_file", &json!({"path": workspace.join("old.txt")}));
    wait_for_questions(&env, 2);
    for (number, name) in ["plan", "ideas"].iter().enumerate() {
        let content = format!("# {name}\n\n- first\n- second\n");
        host.call(
            "write_file",
            &json!({"path": workspace.join(format!("{name}.md")), "content": content}),
        );
        wait_for_questions(&env, 3 + number);
    }
    let shots = json!([
        {"name": "page-inbox", "row": "README.md", "width": 1100, "height": 640},
        {"name": "page-inbox-dark", "row": "old.txt", "width": 1100, "height": 560, "dark": true},
        {"name": "page-side-by-side", "row": "README.md", "query": "&view=split", "width": 1100, "height": 640},
        {"name": "page-remember", "row": "README.md", "query": "&view=unified", "width": 768, "height": 600, "key": "a"},
        {"name": "page-phone", "row": "README.md", "width": 390, "height": 800},
    ]);
    let output = target().join("pictures");
    std::fs::create_dir_all(&output).unwrap();
    let renew = std::env::var_os("UPDATE_EXPECT").is_some();
    let shown = |path: &Path| path.display().to_string();
    let variables = [
        ("LINK", host.link.clone()),
        ("SHOTS", shots.to_string()),
        (
            "REPLACEMENTS",
            json!([[shown(&workspace), "/home/ann/weather"]]).to_string(),
        ),
        ("PICTURES", shown(&root().join("docs/pictures"))),
        ("OUTPUT", shown(&output)),
        ("RENEW", if renew { "1" } else { "0" }.to_owned()),
    ];
    let variables: Vec<(&str, &str)> = variables
        .iter()
        .map(|(name, value)| (*name, &**value))
        .collect();
    let Some(mut script) = Script::start("pictures", &variables) else {
        return;
    };
    assert_eq!(script.hear(), "done");
    script.end();
}
