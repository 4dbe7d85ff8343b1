//! The picture of a terminal session in README.md: the session is run and drawn, and has to look like the file.
//! `cargo xtask picture` draws it again.

use std::fmt::Write as _;

use anstyle_svg::{Term, WIN10_CONSOLE};
use e2e::root;
use e2e::terminal::{KEYS, Terminal, without_progress};
use e2e::test_env::TestEnv;
use expect_test::expect_file;
use regex::Regex;

const NOTES: &str = "# Notes\n\n- buy milk\n- call Ada\n";
/// Where the workspace is in the picture.
const SHOWN: &str = "/home/me/project";

#[test]
fn the_picture_in_the_readme_shows_a_real_session() {
    let env = TestEnv::new("");
    std::fs::write(env.workspace().join("notes.md"), NOTES).unwrap();
    let mut session = String::new();
    for (arguments, keys) in [
        (&["call", "read_file", "path=../secrets.txt"][..], None),
        (
            &[
                "call",
                "edit_file",
                "path=notes.md",
                "old_string=call Ada",
                "new_string=call Grace",
            ][..],
            Some("y"),
        ),
    ] {
        let _ = writeln!(session, "\u{1b}[1m$ host {}\u{1b}[0m", shown(arguments));
        let mut command = env.command_with_plugins(arguments);
        command
            .env_remove("NO_COLOR")
            .env("TERM", "xterm-256color")
            .current_dir(env.workspace());
        let mut terminal = Terminal::start_with_size(&command, "", (60, 120));
        if let Some(keys) = keys {
            terminal.wait_for(KEYS);
            terminal.type_keys(keys);
        }
        let (_, output) = terminal.wait();
        session += &without_progress(&output).replace('\r', "");
    }
    let workspace = env.workspace().display().to_string();
    let session = session.replace(&workspace, SHOWN);
    // The same in each run.
    let id = Regex::new(r"\bc-[0-9a-z]{16}\b").unwrap();
    let session = id.replace_all(&session, "c-7tq0v0y9a2m5k8xr");
    let drawn = Term::new().palette(WIN10_CONSOLE).render_svg(&session);
    expect_file![root().join("docs/pictures/session.svg")].assert_eq(&drawn);
}

/// The arguments as they are typed.
fn shown(arguments: &[&str]) -> String {
    let quote = |argument: &&str| match argument.split_once('=') {
        Some((name, value)) if value.contains(' ') => format!("{name}='{value}'"),
        _ => (*argument).to_owned(),
    };
    arguments.iter().map(quote).collect::<Vec<_>>().join(" ")
}
