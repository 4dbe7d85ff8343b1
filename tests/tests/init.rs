//! `host init` and `host doctor`: what they write, refuse and report.

use std::fs;
use std::path::PathBuf;

use e2e::terminal::Terminal;
use e2e::test_env::{TestEnv, parse_json};
use e2e::{CommandResult, root};
use serde_json::Value;

struct Home(TestEnv);

impl Home {
    fn new() -> Self {
        Self(TestEnv::new(""))
    }

    /// A command in the workspace with its own configuration directory.
    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = self.0.command(arguments);
        command
            .env("XDG_CONFIG_HOME", self.0.path("config"))
            .current_dir(self.0.workspace());
        command
    }

    fn run(&self, arguments: &[&str]) -> CommandResult {
        CommandResult::of(&self.command(arguments).output().unwrap())
    }

    fn init(&self, arguments: &[&str]) -> CommandResult {
        let plugins = root().join("plugins/files.wasm");
        let plugins = plugins.to_str().unwrap();
        self.run(&[&["init", "--plugins", plugins], arguments].concat())
    }

    fn file(&self) -> PathBuf {
        self.0.path("config/toolhost/toolhost.toml")
    }
}

#[test]
fn init_writes_what_the_flags_say_and_never_overwrites() {
    let home = Home::new();
    let flags = [
        "--allow-path",
        ".:rw",
        "--allow-host",
        "docs.rs",
        "--changes",
        "allow",
    ];
    let written = home.init(&flags);
    assert_eq!(written.code, Some(0), "{written:?}");
    let text = fs::read_to_string(home.file()).unwrap();
    assert!(text.contains("allowed_hosts = [\"docs.rs\"]\n"), "{text}");
    assert!(written.stdout.contains(&text), "{written:?}");
    let checked = home.run(&["config", "check"]).stdout;
    let workspace = home.0.workspace();
    assert!(
        checked.contains(&format!("project: {}\n", workspace.display()))
            && checked.contains("mode: accept_edits\n"),
        "{checked}"
    );
    let made = home.run(&["call", "write_file", "path=new.txt", "content=x"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    assert_eq!(fs::read_to_string(workspace.join("new.txt")).unwrap(), "x");
    let again = home.init(&["--allow-path", "."]);
    assert_eq!(again.code, Some(2), "{again:?}");
    assert!(again.stderr.contains("already"), "{again:?}");
    assert_eq!(fs::read_to_string(home.file()).unwrap(), text);
}

#[test]
fn what_the_host_would_refuse_is_not_written() {
    let home = Home::new();
    let state = home.0.path("state");
    fs::create_dir(&state).unwrap();
    let state = state.to_str().unwrap();
    for (flags, code, reason) in [
        (&[][..], 2, "no terminal to ask at; pass --allow-path"),
        (&["--allow-path", "missing"], 3, "missing"),
        (&["--allow-path", "/"], 3, "dangerous"),
        (&["--allow-path", state], 3, state),
        (
            &["--allow-path", ".", "--allow-host", "https://"],
            2,
            "https://",
        ),
        (&["--allow-path", ".", "--changes", "maybe"], 2, "maybe"),
        (
            &["--allow-path", ".", "--plugins", "none"],
            3,
            "none does not exist",
        ),
    ] {
        let refused = home.init(flags);
        assert_eq!(refused.code, Some(code), "{refused:?}");
        assert!(refused.stderr.contains(reason), "{reason}: {refused:?}");
        assert!(!home.file().exists(), "{flags:?}");
    }
    // Without plugins there is nothing to start.
    let refused = home.run(&["init", "--allow-path", "."]);
    assert!(
        refused.stderr.contains("no plugins were installed"),
        "{refused:?}"
    );
    fs::create_dir_all(home.file().parent().unwrap()).unwrap();
    fs::write(home.file(), "plugins = [\n").unwrap();
    let refused = home.init(&["--allow-path", "."]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.stderr.contains("toolhost.toml:"), "{refused:?}");
    assert_eq!(fs::read_to_string(home.file()).unwrap(), "plugins = [\n");
}

#[test]
fn init_asks_three_questions_and_repeats_one_with_a_wrong_answer() {
    let home = Home::new();
    let plugins = root().join("plugins/files.wasm");
    let command = home.command(&["init", "--plugins", plugins.to_str().unwrap()]);
    let mut terminal = Terminal::start(&command, "");
    for (shown, answer) in [
        ("1/3", "nothing-here"),
        ("1/3", ".:rw"),
        ("2/3", "none"),
        ("3/3", "perhaps"),
        ("3/3", "ask"),
    ] {
        terminal.wait_for(shown);
        terminal.wait_for("answer: ");
        terminal.type_keys(&format!("{answer}\n"));
    }
    let (_, screen) = terminal.wait();
    assert!(screen.contains("`nothing-here` does not exist"), "{screen}");
    assert!(screen.contains("answer ask or allow"), "{screen}");
    let text = fs::read_to_string(home.file()).unwrap();
    assert!(
        text.contains("allowed_paths = [\".:rw\"]\nmode = \"default\"\n"),
        "{text}"
    );
}

#[test]
fn nothing_is_written_if_the_questions_are_not_answered() {
    let home = Home::new();
    let mut terminal = Terminal::start(&home.command(&["init"]), "");
    terminal.wait_for("answer: ");
    terminal.type_keys("\u{4}");
    let (_, screen) = terminal.wait();
    assert!(screen.contains("nothing was written"), "{screen}");
    assert!(!home.file().exists());
}

/// The status and remedy of each check.
fn checks(ended: &CommandResult) -> Vec<(String, String, Option<String>)> {
    let checks = parse_json(ended);
    let text = |check: &Value, key: &str| check[key].as_str().map(str::to_owned);
    let checks = checks.as_array().unwrap().iter();
    checks
        .map(|check| {
            let [name, status] = ["check", "status"].map(|key| text(check, key).unwrap());
            (name, status, text(check, "remedy"))
        })
        .collect()
}

#[test]
fn doctor_finds_nothing_missing_where_the_host_works() {
    let home = Home::new();
    let plugins = root().join("plugins/data.wasm");
    let healthy = home.run(&["doctor", "--json", "--plugins", plugins.to_str().unwrap()]);
    assert_eq!(healthy.code, Some(0), "{healthy:?}");
    let checks = checks(&healthy);
    for name in [
        "kernel",
        "state directory",
        "cache directory",
        "configuration",
        "plugins",
    ] {
        let found = checks.iter().find(|(known, ..)| known == name);
        assert_eq!(found.unwrap().1, "ok", "{checks:?}");
    }
    // Whether the machine can confine programs depends on its kernel.
    assert!(
        checks
            .iter()
            .any(|(name, ..)| name == "sandbox of programs")
    );
    assert!(!home.0.path("config").exists(), "it only reads");
}

#[test]
fn doctor_reports_each_problem_with_a_remedy() {
    let home = Home::new();
    fs::create_dir(home.0.path("plugins")).unwrap();
    fs::write(home.0.path("plugins/bad.wasm"), "not wasm").unwrap();
    fs::create_dir_all(home.file().parent().unwrap()).unwrap();
    let config = format!(
        "plugins = [\"{}\"]\nmcp_servers.gone = {{ command = \"no-such-program\" }}\n",
        home.0.path("plugins").display()
    );
    fs::write(home.file(), config).unwrap();
    let ended = home.run(&["doctor", "--json"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let checks = checks(&ended);
    let broken = home.0.path("plugins/bad.wasm");
    for name in [
        "plugins",
        "MCP server gone",
        &format!("plugin {}", broken.display()),
    ] {
        let found = checks.iter().find(|(known, ..)| known == name);
        let (_, status, remedy) = found.unwrap_or_else(|| panic!("{name}: {checks:?}"));
        assert_eq!(
            (status.as_str(), remedy.is_some()),
            ("error", true),
            "{checks:?}"
        );
    }
    let text = home.run(&["doctor"]);
    assert!(
        text.stdout
            .contains("    remedy: install `no-such-program`"),
        "{text:?}"
    );
    // A configuration that cannot be read is a problem among others.
    fs::write(home.file(), "wrong = 1\n").unwrap();
    let ended = home.run(&["doctor"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.stdout.contains("error    configuration: "),
        "{ended:?}"
    );
}
