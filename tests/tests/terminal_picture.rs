//! The picture of commands at the terminal in docs/terminal.md: they are run and drawn, and have to look like the file.
//! `cargo xtask picture` draws it again.

use std::fmt::Write as _;

use anstyle_svg::{Term, WIN10_CONSOLE};
use e2e::root;
use e2e::terminal::{Terminal, without_progress};
use e2e::test_env::TestEnv;
use expect_test::expect_file;
use regex::Regex;

const NOTES: &str = "# Notes\n\n- buy milk\n- call Ada\n";
const COLUMNS: usize = 110;
/// Where the environment is in the picture.
const SHOWN: &str = "/home/me/project";
/// What is typed: the part after `host`, and the flags that the picture leaves out, as of a project with `host init`.
const COMMANDS: &[(&str, &[&str])] = &[
    ("call read_file notes.md", &[]),
    (
        "call edit_file path=notes.md old_string=Ada new_string=Grace",
        &["--allow-tool", "edit_file"],
    ),
    ("undo", &[]),
    ("call write_file path=a.txt content=x", &["--mode", "plan"]),
];

#[test]
fn the_picture_of_the_terminal_shows_real_commands() {
    let env = TestEnv::new("");
    std::fs::write(env.workspace().join("notes.md"), NOTES).unwrap();
    let mut session = String::new();
    for (line, flags) in COMMANDS {
        run(&env, &mut session, line, flags);
    }
    let calls = env.run_json(&["calls", "--limit", "1", "--json"]);
    let id = calls[0]["id"].as_str().unwrap();
    let explained = env.run(&["calls", id]);
    let _ = writeln!(session, "\u{1b}[1m$ host calls {id}\u{1b}[0m");
    let shown = |line: &&str| {
        let labels = [
            "call ",
            "tool ",
            "state ",
            "input ",
            "denied by",
            "to allow  host",
        ];
        labels.iter().any(|label| line.starts_with(label))
    };
    for line in explained.stdout.lines().filter(shown) {
        let _ = writeln!(session, "{line}");
    }
    let drawn = Term::new()
        .palette(WIN10_CONSOLE)
        .render_svg(&wrapped(&without_variable_parts(&session, &env)));
    expect_file![root().join("docs/pictures/terminal.svg")].assert_eq(&drawn);
}

/// Runs a command at a terminal, answers `y`, and adds what is seen.
fn run(env: &TestEnv, session: &mut String, line: &str, flags: &[&str]) {
    let _ = writeln!(session, "\u{1b}[1m$ host {line}\u{1b}[0m");
    let words: Vec<&str> = line.split(' ').collect();
    let asks = words == ["undo"];
    let mut command = if asks {
        env.command(&words)
    } else {
        env.command_with_plugins(&words)
    };
    command
        .args(flags)
        .env_remove("NO_COLOR")
        .env("TERM", "xterm-256color")
        .current_dir(env.workspace());
    let size = (60, u16::try_from(COLUMNS).unwrap());
    let mut terminal = Terminal::start_with_size(&command, "", size);
    if asks {
        terminal.wait_for("[y/N] ");
        terminal.type_keys("y\n");
    }
    let (_, output) = terminal.wait();
    *session += &without_progress(&output).replace('\r', "");
}

/// The same ids, times and paths in each run.
fn without_variable_parts(session: &str, env: &TestEnv) -> String {
    let workspace = env.workspace().display().to_string();
    let session = session.replace(&workspace, SHOWN);
    let id = Regex::new(r"\bc-[0-9a-z]{16}\b").unwrap();
    let mut ids = Vec::<String>::new();
    let session = id.replace_all(&session, |found: &regex::Captures| {
        const SHOWN_IDS: [&str; 3] = [
            "c-7tq0v0y9a2m5k8xr",
            "c-0s6d2f9k4m1q8w3e",
            "c-5h3j9l2n7p4r6t8v",
        ];
        let known = ids.iter().position(|known| *known == found[0]);
        let index = known.unwrap_or_else(|| {
            ids.push(found[0].to_owned());
            ids.len() - 1
        });
        SHOWN_IDS[index]
    });
    let time = Regex::new(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ").unwrap();
    time.replace_all(&session, "2026-11-22 03:12:40Z")
        .into_owned()
}

/// Lines without colours as a terminal wraps them.
fn wrapped(session: &str) -> String {
    let wrap = |line: &str| {
        let letters: Vec<char> = line.chars().collect();
        if line.contains('\u{1b}') || letters.len() <= COLUMNS {
            return line.to_owned();
        }
        let rows = letters.chunks(COLUMNS).map(|row| row.iter().collect());
        rows.collect::<Vec<String>>().join("\n")
    };
    session.lines().map(wrap).collect::<Vec<_>>().join("\n") + "\n"
}
