//! Isolated home directory with configuration and state, to which MCP servers can be added.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use e2e::{CommandResult, root};
use serde_json::Value;
use tempfile::TempDir;

/// Timeout that is far longer than any step takes.
const TIMEOUT: Duration = Duration::from_secs(120);

pub struct Home(TempDir);

impl Home {
    pub fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(home.at("config/toolhost")).unwrap();
        home.clear();
        home
    }

    pub fn at(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }

    pub fn state(&self) -> PathBuf {
        self.at("state")
    }

    pub fn config_file(&self) -> PathBuf {
        self.at("config/toolhost/toolhost.toml")
    }

    pub fn clear(&self) {
        fs::write(self.config_file(), "").unwrap();
    }

    pub fn write(&self, more: &str) {
        let mut text = fs::read_to_string(self.config_file()).unwrap();
        text.push_str(more);
        fs::write(self.config_file(), text).unwrap();
    }

    pub fn server(&self, name: &str, command: &[String]) {
        self.server_with(name, command, "");
    }

    /// A server without a sandbox, unless `more` sets one.
    pub fn server_with(&self, name: &str, command: &[String], more: &str) {
        let mut text = format!("[mcp_servers.{name}]\n");
        let (command, args) = command.split_first().unwrap();
        let _ = writeln!(text, "command = {command:?}\nargs = {args:?}\n{more}");
        if !more.contains("sandbox = ") {
            text.push_str("sandbox = \"none\"\n");
        }
        self.write(&text);
    }

    /// The command of the host itself as an MCP server that supports the stateless protocol.
    pub fn own_host(plugins: &[&str]) -> Vec<String> {
        let program = e2e::host(&[]).get_program().to_string_lossy().into_owned();
        let mut command = vec![program, "run".to_owned(), "--no-store".to_owned()];
        for plugin in plugins {
            let file = root().join(format!("plugins/{plugin}.wasm"));
            command.extend(["--plugins".to_owned(), file.to_string_lossy().into_owned()]);
        }
        command.extend(["--mode".to_owned(), "yolo".to_owned()]);
        command
    }

    pub fn host(&self, args: &[&str]) -> Command {
        let mut command = e2e::host(args);
        command
            .env("XDG_CONFIG_HOME", self.at("config"))
            .env("TOOLHOST_STATE_DIR", self.state())
            .current_dir(self.0.path());
        command
    }

    pub fn run(&self, args: &[&str]) -> CommandResult {
        CommandResult::of(&self.host(args).output().unwrap())
    }

    pub fn json(&self, args: &[&str]) -> Value {
        let ended = self.run(args);
        serde_json::from_str(&ended.stdout)
            .unwrap_or_else(|error| panic!("{args:?}: {error}\n{}\n{}", ended.stdout, ended.stderr))
    }
}

pub fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Polls a condition.
pub fn poll_until(condition: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(
            began.elapsed() < TIMEOUT,
            "waited too long until {condition}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}
