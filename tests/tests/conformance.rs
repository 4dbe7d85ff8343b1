//! The official MCP conformance suite, run against the server with a component, and with the client.
//!
//! `cargo xtask conformance` runs only this test and prints the counts, which docs/conformance.md explains.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use e2e::client_kits::javascript;
use e2e::http::Server;
use e2e::{CommandResult, Guest, host, root, target};
use regex::Regex;

/// The suite measures tens of milliseconds and opens many connections, so the runs with all fixtures are serialized.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Result of one run of the suite.
struct SuiteRun {
    ended: CommandResult,
    passed: u32,
    failed: u32,
}

/// Runs the suite and reads its counts. `None` if it is not installed.
fn run_suite(name: &str, suite: impl FnOnce(&Path) -> Option<CommandResult>) -> Option<SuiteRun> {
    let folder = results(name);
    let _ = std::fs::remove_dir_all(&folder);
    let ended = suite(&folder)?;
    let total = Regex::new(r"Total: (\d+) passed, (\d+) failed").unwrap();
    let Some(counts) = total.captures(&ended.stdout) else {
        panic!(
            "the suite printed no total: {}\n{}",
            ended.stdout, ended.stderr
        );
    };
    let (passed, failed) = (counts[1].parse().unwrap(), counts[2].parse().unwrap());
    Some(SuiteRun {
        ended,
        passed,
        failed,
    })
}

fn results(name: &str) -> PathBuf {
    target().join("conformance").join(name)
}

/// Prints a line and bypasses the output capture of the test harness.
fn headline(message: &str) {
    let _ = writeln!(std::io::stderr(), "conformance {message}");
}

/// Fails on a failed scenario, unless the requirements do not score it, and on fewer checks than expected.
fn check(name: &str, run: &SuiteRun, at_least: u32) {
    let summary = run
        .ended
        .stdout
        .lines()
        .skip_while(|line| !line.contains("SUMMARY"));
    let telling: Vec<&str> = summary.filter(|line| !line.starts_with('✓')).collect();
    assert_eq!(
        run.ended.code,
        Some(0),
        "{name}: {}\nsee {}",
        telling.join("\n"),
        results(name).display()
    );
    assert!(
        run.passed >= at_least,
        "{name}: {} checks, expected {at_least}",
        run.passed
    );
}

/// Returns the command for the suite, or `None` if it is not installed.
fn suite_command(leg: &str, arguments: &[&str], folder: &Path) -> Option<Command> {
    let (node, packages) = javascript()?;
    let mut command = Command::new(node);
    command
        .arg(packages.join("node_modules/@modelcontextprotocol/conformance/dist/index.js"))
        .arg(leg)
        .args(arguments)
        .arg("--output-dir")
        .arg(folder)
        .stdin(Stdio::null());
    Some(command)
}

fn output_of(mut command: Command) -> CommandResult {
    CommandResult::of(&command.output().expect("the suite starts"))
}

fn fixture_dir() -> PathBuf {
    root().join("tests/tests/conformance")
}

/// The tool of the component that uses sampling, which needs approval otherwise.
const SAMPLING: &str = "test_sampling";

/// Returns the shipped host, or the one with fixtures.
fn program(fixtures: bool, guest: &Guest) -> Command {
    let plain = host(&[]);
    let mut command = if fixtures {
        let mut command = Command::new(env!("CARGO_BIN_EXE_conformance-host"));
        command.arg(guest.plugin()).arg(SAMPLING);
        command
    } else {
        let mut command = Command::new(plain.get_program());
        command.args(["run", "--http", "127.0.0.1:0", "--http-no-token"]);
        command.args(["--allow-tool", SAMPLING]);
        command.arg("--plugins").arg(guest.plugin());
        command.arg("--config").arg(fixture_dir().join("host.toml"));
        command
    };
    let variables = plain.get_envs();
    command.envs(variables.filter_map(|(name, value)| Some((name, value?))));
    command
}

/// Runs the suite against a server until `at_least` checks pass, three times at most: the suite waits one second for some
/// answers, which is too short on a busy machine.
fn run_server_suite(
    name: &str,
    fixtures: bool,
    at_least: u32,
    arguments: &[&str],
) -> Option<SuiteRun> {
    let mut run = run_server_suite_once(name, fixtures, arguments)?;
    for _ in 1..3 {
        if run.passed >= at_least {
            break;
        }
        headline(&format!(
            "{name}: {} passed, expected {at_least}: again",
            run.passed
        ));
        run = run_server_suite_once(name, fixtures, arguments)?;
    }
    Some(run)
}

fn run_server_suite_once(name: &str, fixtures: bool, arguments: &[&str]) -> Option<SuiteRun> {
    run_suite(name, |folder| {
        let mut suite = suite_command("server", arguments, folder)?;
        let guest = Guest::new("conformance", &["user", "agents"], "");
        let server = Server::start(program(fixtures, &guest));
        suite
            .arg("--url")
            .arg(format!("http://{}/mcp", server.address));
        Some(output_of(suite))
    })
}

/// The shipped binary with the suite's component alone. Checks without a fixture count as failed; most of the time passes
/// in waiting for them, so other runs of the suite need not wait.
fn shipped_server(name: &str, at_least: u32, revision: &str) {
    let arguments = ["--requirements", revision];
    let Some(run) = run_server_suite(name, false, at_least, &arguments) else {
        return;
    };
    headline(&format!(
        "{name}: {} passed, {} failed (no fixtures: prompts, resources, completions and more are missing)",
        run.passed, run.failed
    ));
    assert!(
        run.passed >= at_least,
        "{name}: {}, expected {at_least}\nsee {}",
        run.passed,
        results(name).display()
    );
}

/// The shipped binary with fixtures, where no check may fail.
fn server(name: &str, at_least: u32, arguments: &[&str]) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(run) = run_server_suite(name, true, at_least, arguments) else {
        return;
    };
    headline(&format!(
        "{name}: {} passed, {} failed (its list puts `test_simple…` first)",
        run.passed, run.failed
    ));
    check(name, &run, at_least);
}

// First by name, because its waits take longest.
#[test]
fn a_shipped_server_passes_what_needs_no_fixture_of_2026_07_28() {
    shipped_server("server-2026-07-28-product", 137, "2026-07-28");
}

#[test]
fn a_shipped_server_passes_what_needs_no_fixture_of_2025_11_25() {
    shipped_server("server-2025-11-25-product", 62, "2025-11-25");
}

#[test]
fn the_server_meets_2026_07_28() {
    // The suite skips one more check.
    server("server-2026-07-28", 196, &["--requirements", "2026-07-28"]);
}

#[test]
fn the_server_meets_2025_11_25() {
    server("server-2025-11-25", 83, &["--requirements", "2025-11-25"]);
}

#[test]
fn the_server_passes_all_scenarios() {
    server("server-all", 233, &["--suite", "all"]);
}

/// A program with the MCP client of the host, built with the tests.
fn client_driver() -> PathBuf {
    target().join("debug/examples/conformance_client")
}

fn client(name: &str, at_least: u32, revision: &str) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let run = run_suite(name, |folder| {
        let driver = client_driver();
        assert!(driver.is_file(), "{} does not exist", driver.display());
        let driver = driver.to_string_lossy();
        let arguments = [
            "--command",
            &driver,
            "--requirements",
            revision,
            "--timeout",
            "60000",
        ];
        suite_command("client", &arguments, folder).map(output_of)
    });
    let Some(run) = run else { return };
    headline(&format!(
        "{name}: {} passed, {} failed",
        run.passed, run.failed
    ));
    check(name, &run, at_least);
}

#[test]
fn the_client_meets_2026_07_28() {
    client("client-2026-07-28", 500, "2026-07-28");
}

#[test]
fn the_client_meets_2025_11_25() {
    client("client-2025-11-25", 340, "2025-11-25");
}
