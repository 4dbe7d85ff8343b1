//! The host as an MCP server of the MCP Inspector: its one-shot CLI, which cannot answer prompts, and `mcpdo` of the
//! same package, which keeps a connection and can.

use std::path::Path;
use std::process::Command;

use e2e::client_kits::{http_args, javascript, stdio_args, with_env_of};
use e2e::http::Server;
use e2e::test_env::{TestEnv, parse_json};
use e2e::{CommandResult, host, root};
use serde_json::Value;

/// Runs the one-shot CLI of the Inspector. `None` if it is not installed.
fn inspector(era: &str, flags: &[&str], target: &[String]) -> Option<CommandResult> {
    let (node, packages) = javascript()?;
    let program = packages.join("node_modules/.bin/mcp-inspector");
    let mut command = with_env_of(&host(&[]), node);
    command
        .arg(std::fs::canonicalize(program).expect("the Inspector is installed"))
        .args(["--cli", "--protocol-era", era])
        // On a new machine, the host first compiles all plugins.
        .args(["--connect-timeout", "300000"])
        .args(flags)
        // Keeps its state file out of the home of the user who runs the tests.
        .env("MCP_CATALOG_PATH", packages.join("inspector.json"))
        .env("MCP_INSPECTOR_SECRET_STORE", "memory");
    match target {
        [kind, url, token] if kind == "http" => command
            .args(["--server-url", url, "--transport", "http", "--header"])
            .arg(format!("Authorization: Bearer {token}")),
        _ => command.arg("--").args(&target[1..]),
    };
    Some(CommandResult::of(
        &command.output().expect("the Inspector starts"),
    ))
}

/// Checks each era over both transports, with all shipped plugins.
fn check_inspector(flags: &[&str], expected: &[&str]) {
    let plugins = root().join("plugins");
    let workspace = root().join("tests/specs/workspace");
    for era in ["legacy", "auto", "modern"] {
        for over_http in [false, true] {
            let env = TestEnv::new("");
            let mut command = env.command(&["run", "--plugins"]);
            command.arg(&plugins).arg("--allow-path").arg(&workspace);
            let server = over_http.then(|| {
                let mut command = env.command(&["run", "--http", "127.0.0.1:0", "--plugins"]);
                command.arg(&plugins).arg("--allow-path").arg(&workspace);
                Server::start(command)
            });
            let target = server
                .as_ref()
                .map_or_else(|| stdio_args(&command), http_args);
            let Some(ended) = inspector(era, flags, &target) else {
                return;
            };
            assert_eq!(ended.code, Some(0), "{era} {over_http}: {}", ended.stderr);
            let output = ended.stdout + &ended.stderr;
            for text in expected {
                assert!(output.contains(text), "{era} {over_http}: {output}");
            }
        }
    }
}

#[test]
fn the_inspector_lists_tools_with_valid_schemas() {
    check_inspector(
        &["--method", "tools/list", "--strict", "--format", "json"],
        &["0 errors", "\"read_file\""],
    );
}

#[test]
fn the_inspector_calls_a_tool() {
    let arguments =
        "--method tools/call --tool-name read_file --tool-arg path=readme.md --format json";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    check_inspector(&arguments, &["A workspace"]);
}

/// `mcpdo`, whose daemon keeps connections until this is dropped.
struct Mcpdo<'a> {
    env: &'a TestEnv,
    node: &'a Path,
    program: &'a Path,
}

impl Mcpdo<'_> {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = with_env_of(&host(&[]), self.node.to_owned());
        command
            .arg(self.program)
            .args(arguments)
            .env("HOME", self.env.path("home"))
            .env("MCP_INSPECTOR_SECRET_STORE", "file");
        command
    }

    fn run(&self, arguments: &[&str]) -> CommandResult {
        CommandResult::of(&self.command(arguments).output().expect("mcpdo starts"))
    }

    /// `server` is a host to start, or one that listens.
    fn connect(&self, era: &str, server: Result<&Command, &Server>) {
        let mut command = self.command(&["connect", "@it", "--era", era]);
        command.args(["--connect-timeout", "300000"]);
        match server {
            Ok(server) => {
                command.arg("--").args(&stdio_args(server)[1..]);
            }
            Err(server) => {
                let [_, url, token] = <[String; 3]>::try_from(http_args(server)).expect("three");
                command.arg(url);
                command.args(["--transport", "http", "--header"]);
                command.arg(format!("Authorization: Bearer {token}"));
            }
        }
        let ended = CommandResult::of(&command.output().expect("mcpdo starts"));
        assert_eq!(ended.code, Some(0), "{era}: {ended:?}");
    }

    /// Calls `write_file` and answers the prompt.
    fn write(&self, path: &str, answer: &[&str]) -> Value {
        let arguments = ["@it", "tools/call", "write_file", "--format", "json"];
        let input = [format!("path:={path}"), "content:=new".to_owned()];
        let arguments: Vec<&str> = arguments
            .into_iter()
            .chain(input.iter().map(String::as_str))
            .collect();
        let called = parse_json(&self.run(&arguments));
        let pending = &called["elicitationPending"];
        let message = pending["message"].as_str().unwrap_or_default();
        assert!(
            message.contains("write_file") && message.contains("+new"),
            "{called}"
        );
        assert!(!self.env.workspace().join(path).exists(), "{called}");
        let id = pending["elicitationId"].as_str().expect("an id");
        let arguments = ["elicitation/respond", id, "--format", "json"];
        parse_json(&self.run(&[&arguments, answer].concat()))
    }
}

impl Drop for Mcpdo<'_> {
    fn drop(&mut self) {
        let _ = self.command(&["daemon", "stop"]).output();
    }
}

#[test]
fn the_inspector_answers_prompts() {
    let Some((node, packages)) = javascript() else {
        return;
    };
    let program = packages.join("node_modules/.bin/mcpdo");
    let program = std::fs::canonicalize(program).expect("mcpdo is installed");
    for era in ["legacy", "modern"] {
        for over_http in [false, true] {
            let env = TestEnv::new("");
            std::fs::create_dir(env.path("home")).unwrap();
            let asking = ["run", "--ask-client"];
            let mcpdo = Mcpdo {
                env: &env,
                node: &node,
                program: &program,
            };
            let server = over_http.then(|| {
                let mut command = env.command_with_plugins(&asking);
                command.args(["--http", "127.0.0.1:0"]);
                Server::start(command)
            });
            match &server {
                Some(server) => mcpdo.connect(era, Err(server)),
                None => mcpdo.connect(era, Ok(&env.command_with_plugins(&asking))),
            }
            let hint = format!("{era} {over_http}");
            let written = mcpdo.write("new.txt", &["answer:=once"]);
            assert_eq!(written["isError"], Value::Bool(false), "{hint}: {written}");
            let text = std::fs::read_to_string(env.workspace().join("new.txt"));
            assert_eq!(text.expect("the user approved it"), "new", "{hint}");
            let refused = mcpdo.write("no.txt", &["--decline"]);
            assert_eq!(refused["isError"], Value::Bool(true), "{hint}: {refused}");
            assert!(!env.workspace().join("no.txt").exists(), "{hint}");
        }
    }
}
