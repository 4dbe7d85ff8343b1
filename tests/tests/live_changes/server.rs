//! A running host that tests change.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use e2e::test_env::{TestEnv, poll_until};
use e2e::{CommandResult, root};
use serde_json::{Value, json};

/// Longer than any answer takes, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A host with its own plugin directory, controlled over MCP.
pub struct Server {
    pub env: TestEnv,
    pub child: Child,
    pub stdin: ChildStdin,
    pub messages: Receiver<Value>,
    next: u32,
}

impl Server {
    pub fn start(plugins: &[&str], flags: &[&str]) -> Self {
        let env = TestEnv::new("");
        fs::create_dir(env.path("plugins")).unwrap();
        for plugin in plugins {
            fs::copy(shipped(plugin), env.path(&format!("plugins/{plugin}.wasm"))).unwrap();
        }
        Self::start_in(env, flags)
    }

    pub fn start_in(env: TestEnv, flags: &[&str]) -> Self {
        let mut command = env.command(&["run", "--plugins", "plugins", "--config", "host.toml"]);
        command.args(flags).stderr(Stdio::null());
        Self::start_command(env, command)
    }

    pub fn start_command(env: TestEnv, command: Command) -> Self {
        let mut child = spawn(command);
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (send, messages) = channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if send.send(serde_json::from_str(&line).unwrap()).is_err() {
                    return;
                }
            }
        });
        let mut server = Self {
            stdin: child.stdin.take().unwrap(),
            env,
            child,
            messages,
            next: 0,
        };
        server.request(
            "initialize",
            &json!({"protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": {"name": "test", "version": "0"}}),
        );
        server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        // The socket exists once all plugins are loaded.
        server.control_file();
        server
    }

    pub fn control_file(&self) -> PathBuf {
        control_file(&self.env, self.child.id())
    }

    pub fn send(&mut self, message: &Value) {
        writeln!(self.stdin, "{message}").unwrap();
    }

    /// Sends a request without waiting for its answer. Returns its id.
    pub fn start_request(&mut self, method: &str, params: &Value) -> u32 {
        self.next += 1;
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    pub fn receive(&self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.messages.recv_timeout(TIMEOUT).expect("a message");
            if is_wanted(&message) {
                return message;
            }
        }
    }

    pub fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.start_request(method, params);
        self.receive(|message| message["id"] == id)["result"].clone()
    }

    pub fn tools(&mut self) -> Vec<String> {
        let listed = self.request("tools/list", &json!({}));
        let tools = listed["tools"].as_array().unwrap().iter();
        tools
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    }

    pub fn wait_until_listed(&mut self, tool: &str, is_listed: bool) {
        poll_until(|| (self.has_tool(tool) == is_listed).then_some(()));
    }

    pub fn has_tool(&mut self, name: &str) -> bool {
        self.tools().iter().any(|tool| tool == name)
    }

    /// Calls a tool with text and returns the digest of the component that ran.
    pub fn digest_of_call(&mut self, tool: &str) -> String {
        let calls = |env: &TestEnv| {
            env.run_json(&["calls", "--json"])
                .as_array()
                .unwrap()
                .clone()
        };
        let before = calls(&self.env).len();
        let call = json!({"name": tool, "arguments": {"text": "hi"}});
        let result = self.request("tools/call", &call);
        assert_eq!(result["isError"], json!(false), "{result}");
        // Calls without effects are recorded later.
        let newest = poll_until(|| {
            let calls = calls(&self.env);
            (calls.len() > before).then(|| calls[0]["id"].clone())
        });
        let record = self
            .env
            .run_json(&["calls", newest.as_str().unwrap(), "--json"]);
        record["toolHash"].as_str().unwrap().to_owned()
    }

    pub fn wait_for_list_changed(&self) {
        self.receive(|message| message["method"] == "notifications/tools/list_changed");
    }

    pub fn plugin(&self, name: &str) -> PathBuf {
        self.env.path(&format!("plugins/{name}.wasm"))
    }

    pub fn change(&self, args: &[&str]) -> CommandResult {
        self.env.run(&[&["plugins"], args].concat())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn spawn(mut command: Command) -> Child {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("host starts")
}

/// Waits for the file that describes a running host.
pub fn control_file(env: &TestEnv, pid: u32) -> PathBuf {
    let prefix = format!("{pid}-");
    poll_until(|| {
        let files = fs::read_dir(env.path("state/hosts")).ok()?;
        let mut files = files.flatten().map(|entry| entry.path());
        files.find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(&prefix) && name.ends_with(".json")
        })
    })
}

pub fn shipped(plugin: &str) -> PathBuf {
    root().join(format!("plugins/{plugin}.wasm"))
}
