//! Helpers for end-to-end tests: the host binary, packed guests, temporary workspaces.

pub mod client_kits;
pub mod console;
pub mod http;
pub mod registry;
pub mod session;
pub mod terminal;
pub mod test_env;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// The folder that `cargo xtask test` builds into.
pub fn target() -> PathBuf {
    let target = std::env::var_os("TOOLHOST_TEST_TARGET");
    PathBuf::from(
        target.expect("run these tests with `cargo xtask test`, which builds what they need"),
    )
}

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests have a parent")
        .to_owned()
}

/// A command line of `host` with a compiled-code cache that all tests share.
pub fn host(args: &[&str]) -> Command {
    let program =
        std::env::var_os("TOOLHOST_BIN").map_or_else(|| target().join("debug/host"), PathBuf::from);
    let mut command = Command::new(program);
    command
        .args(args)
        .env("TOOLHOST_CACHE_DIR", target().join("test-cache"))
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .env("TOOLHOST_STATE_DIR", target().join("test-state"))
        .env("NO_COLOR", "1")
        .stdin(Stdio::null());
    command
}

/// Exit code and output of a finished `host`.
#[derive(Debug)]
pub struct CommandResult {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl CommandResult {
    pub fn of(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

pub fn run(args: &[&str]) -> CommandResult {
    CommandResult::of(&host(args).output().expect("host starts"))
}

/// A packed guest in a temporary folder, next to a workspace.
pub struct Guest {
    name: String,
    dir: TempDir,
}

impl Guest {
    /// `needs` are capabilities, optionally with names as in `env:LANG,TZ`; `limits` is the content of `[limits]`.
    pub fn new(name: &str, needs: &[&str], limits: &str) -> Self {
        let guest = Self {
            name: name.to_owned(),
            dir: tempfile::tempdir().expect("temporary directory"),
        };
        let needs: String = needs
            .iter()
            .map(|need| match need.split_once(':') {
                Some((need, names)) => {
                    let names: Vec<&str> = names.split(',').collect();
                    format!(
                        "[[needs]]\ncapability = \"{need}\"\nnames = {names:?}\nwhy = \"a test\"\n"
                    )
                }
                None => format!("[[needs]]\ncapability = \"{need}\"\nwhy = \"a test\"\n"),
            })
            .collect();
        let manifest = format!(
            "name = \"{}\"\nversion = \"0.1.0\"\ndescription = \"A guest\"\n{needs}[limits]\n{limits}\n",
            name.replace('_', "-")
        );
        let file = guest.dir.path().join("plugin.toml");
        std::fs::write(&file, manifest).expect("manifest");
        let component = target().join(format!("guests/{name}.wasm"));
        let packed = run(&[
            "pack",
            // Some guests are refused when they are loaded, which is what their tests show.
            "--force",
            &component.to_string_lossy(),
            "--manifest",
            &file.to_string_lossy(),
            "--output",
            &guest.plugin().to_string_lossy(),
        ]);
        assert_eq!(packed.code, Some(0), "{}", packed.stderr);
        std::fs::create_dir(guest.workspace()).expect("workspace");
        guest
    }

    pub fn plugin(&self) -> PathBuf {
        self.dir.path().join(format!("{}.wasm", self.name))
    }

    /// The folder for `--allow-path`. Its parent is not granted.
    pub fn workspace(&self) -> PathBuf {
        self.dir.path().join("workspace")
    }

    /// Calls the tool with the name of the guest and returns the report.
    pub fn call(&self, input: &Value, flags: &[&str]) -> (Value, CommandResult) {
        self.call_tool(&self.name, input, flags)
    }

    /// Calls a tool with another name than its guest.
    pub fn call_tool(&self, tool: &str, input: &Value, flags: &[&str]) -> (Value, CommandResult) {
        let (plugin, input) = (self.plugin(), input.to_string());
        let mut args = vec!["call", tool, input.as_str(), "--json", "--plugins"];
        let plugin = plugin.to_string_lossy();
        args.push(&plugin);
        args.extend(flags);
        let ended = run(&args);
        let report = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| {
            panic!(
                "{}: {error}\nstdout {}\nstderr {}",
                self.name, ended.stdout, ended.stderr
            )
        });
        (report, ended)
    }
}
