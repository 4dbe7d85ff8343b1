//! The official conformance suite, against our server with a component behind it, and with our client.
//!
//! `cargo xtask conformance` runs this alone and shows the counts; docs/conformance.md says what they mean.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use e2e::clients::javascript;
use e2e::http::Server;
use e2e::{Ended, Guest, host, root, target};
use regex::Regex;

/// The suite looks at times of some ten milliseconds, and starts a browser's worth of connections: one run at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Shows how many checks of a run have passed. A failure fails the test, unless it is of a scenario that a frozen set
/// does not score; and so does the disappearance of checks.
fn check(name: &str, at_least: u32, suite: impl FnOnce(&Path) -> Option<Ended>) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = target().join("conformance").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    let Some(ended) = suite(&folder) else {
        return;
    };
    let total = Regex::new(r"Total: (\d+) passed, (\d+) failed").unwrap();
    let Some(counts) = total.captures(&ended.stdout) else {
        panic!(
            "the suite says no total: {}\n{}",
            ended.stdout, ended.stderr
        );
    };
    let (passed, failed): (u32, u32) = (counts[1].parse().unwrap(), counts[2].parse().unwrap());
    // Past the harness's capture: these counts are what the run is for.
    let _ = writeln!(
        std::io::stderr(),
        "conformance {name}: {passed} checks passed, {failed} failed"
    );
    let summary = ended
        .stdout
        .lines()
        .skip_while(|line| !line.contains("SUMMARY"));
    let telling: Vec<&str> = summary.filter(|line| !line.starts_with('✓')).collect();
    assert_eq!(
        ended.code,
        Some(0),
        "{name}: {}\nsee {}",
        telling.join("\n"),
        folder.display()
    );
    assert!(
        passed >= at_least,
        "{name}: {passed} checks and not {at_least}"
    );
}

/// None when it is not installed.
fn suite(leg: &str, words: &[&str], folder: &Path) -> Option<Command> {
    let (node, packages) = javascript()?;
    let mut command = Command::new(node);
    command
        .arg(packages.join("node_modules/@modelcontextprotocol/conformance/dist/index.js"))
        .arg(leg)
        .args(words)
        .arg("--output-dir")
        .arg(folder)
        .stdin(Stdio::null());
    Some(command)
}

fn ended(mut command: Command) -> Ended {
    Ended::of(&command.output().expect("the suite starts"))
}

fn folder_of_this() -> PathBuf {
    root().join("tests/tests/conformance")
}

/// The host that has the fixtures, which is not the one of the other tests.
fn with_fixtures(guest: &Guest) -> Command {
    let program = target().join("conformance/host");
    assert!(
        program.is_file(),
        "{} is not there: `cargo xtask conformance` builds it",
        program.display()
    );
    let plain = host(&[]);
    let mut command = Command::new(program);
    command.envs(
        plain
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    command.args([
        "run",
        "--http",
        "127.0.0.1:0",
        "--http-no-token",
        // It hands a task to the client's model, which a person would be asked about.
        "--allow-tool",
        "test_sampling",
    ]);
    command.arg("--plugins").arg(guest.plugin());
    command
        .arg("--config")
        .arg(folder_of_this().join("host.toml"));
    command
}

fn server(name: &str, at_least: u32, words: &[&str]) {
    check(name, at_least, |folder| {
        let mut suite = suite("server", words, folder)?;
        let guest = Guest::new("conformance", &["people", "agents"], "");
        let server = Server::start(with_fixtures(&guest));
        suite
            .arg("--url")
            .arg(format!("http://{}/mcp", server.address));
        Some(ended(suite))
    });
}

#[test]
fn the_server_meets_2026_07_28() {
    // One more is skipped by the suite itself.
    server("server-2026-07-28", 196, &["--requirements", "2026-07-28"]);
}

#[test]
fn the_server_meets_2025_11_25() {
    server("server-2025-11-25", 83, &["--requirements", "2025-11-25"]);
}

#[test]
fn the_server_passes_every_scenario_there_is() {
    server("server-all", 233, &["--suite", "all"]);
}

/// A program around our own client, built with the tests.
fn driver() -> PathBuf {
    target().join("debug/examples/conformance_client")
}

fn client(name: &str, at_least: u32, revision: &str) {
    check(name, at_least, |folder| {
        let driver = driver();
        assert!(driver.is_file(), "{} is not there", driver.display());
        let driver = driver.to_string_lossy();
        let words = [
            "--command",
            &driver,
            "--requirements",
            revision,
            "--timeout",
            "60000",
        ];
        suite("client", &words, folder).map(ended)
    });
}

#[test]
fn the_client_meets_2026_07_28() {
    client("client-2026-07-28", 500, "2026-07-28");
}

#[test]
fn the_client_meets_2025_11_25() {
    client("client-2025-11-25", 340, "2025-11-25");
}
