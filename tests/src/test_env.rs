//! Isolated test environment: state directory, workspace and the shipped plugins.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::{CommandResult, host, root};

/// Timeout that is longer than any step takes, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Short compared with what is waited for, and long enough to leave the processor to it.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

pub struct TestEnv {
    dir: TempDir,
}

impl TestEnv {
    /// `policy` is the content of `[policy]` in the configuration.
    pub fn new(policy: &str) -> Self {
        let env = Self {
            dir: tempfile::tempdir().expect("temporary directory"),
        };
        std::fs::create_dir(env.workspace()).expect("workspace");
        std::fs::write(env.workspace().join("old.txt"), "old\n").expect("a file");
        std::fs::write(env.path("host.toml"), format!("[policy]\n{policy}\n")).expect("config");
        env
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn workspace(&self) -> PathBuf {
        self.path("workspace")
    }

    pub fn database(&self) -> PathBuf {
        self.path("state/store/store.db")
    }

    /// A command with this state directory.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = host(args);
        command
            .env("TOOLHOST_STATE_DIR", self.path("state"))
            .current_dir(self.dir.path());
        command
    }

    /// A command that also loads the plugins `files` and `system` and may write to the workspace.
    pub fn command_with_plugins(&self, args: &[&str]) -> Command {
        let mut command = self.command(args);
        for plugin in ["files", "system"] {
            let file = root().join(format!("plugins/{plugin}.wasm"));
            command.arg("--plugins").arg(file);
        }
        let folder = format!("{}:rw", self.workspace().display());
        command
            .args(["--allow-path", &folder, "--config"])
            .arg(self.path("host.toml"));
        command
    }

    pub fn run(&self, args: &[&str]) -> CommandResult {
        CommandResult::of(&self.command(args).output().expect("host starts"))
    }

    pub fn run_with_plugins(&self, args: &[&str]) -> CommandResult {
        CommandResult::of(
            &self
                .command_with_plugins(args)
                .output()
                .expect("host starts"),
        )
    }

    pub fn run_json(&self, args: &[&str]) -> Value {
        parse_json(&self.run(args))
    }

    /// Starts a program in the background and captures its output.
    pub fn spawn(&self, args: &[&str]) -> Child {
        let mut command = self.command_with_plugins(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("host starts")
    }

    /// Waits for a call in this state and returns its id.
    pub fn wait_for(&self, state: &str) -> String {
        poll_until(|| {
            let calls = self.run_json(&["calls", "--state", state, "--json"]);
            calls[0]["id"].as_str().map(ToOwned::to_owned)
        })
    }
}

pub fn parse_json(ended: &CommandResult) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

pub fn wait_output(child: Child) -> CommandResult {
    CommandResult::of(&child.wait_with_output().expect("host ends"))
}

/// Polls until `ask` returns a value.
pub fn poll_until<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + TIMEOUT;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < end, "timed out");
        std::thread::sleep(POLL_INTERVAL);
    }
}
