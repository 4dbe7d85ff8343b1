//! Differential tests against bash and dash: the parser finds every program that a shell runs, or rejects the line.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::super::{SimpleCommand, parse};

/// Programs that log their arguments. Lines use no other programs, and PATH contains no others.
const PROGRAMS: [&str; 3] = ["aa", "bb", "cc"];

/// Words and separators, well-formed or not. No loops, functions or background jobs, because a random line with them
/// may not terminate.
const NOISE: &[&str] = &[
    "x",
    "1",
    "-",
    "--",
    "a b",
    "\"",
    "'",
    "\\",
    "\\\n",
    "$'\\''",
    "$\"x\"",
    "'a b'",
    "\"$x\"",
    "$x",
    "${x}",
    "${x:-",
    "}",
    "x=1 ",
    "x=(",
    "#",
    " #",
    "~",
    "*",
    "{aa,bb}",
    "{",
    "!",
    "(",
    ")",
    "> o ",
    "2>&1",
    "<<<x",
    "<<E\nx\nE\n",
    "<",
    "((",
    "))",
    "$((1))",
    "[[ ",
    " ]]",
    "[ ",
    "]",
    "é",
    "\u{a0}",
    "\r",
    "\t",
    "\n",
    ";;",
    "=",
    "+=",
    "if ",
    "fi",
    "command ",
    "exec ",
    "time ",
    "\\",
    "`",
    "$(",
    "bb",
];

fn noise() -> impl Strategy<Value = String> {
    proptest::sample::select(NOISE).prop_map(str::to_owned)
}

/// A line that usually runs some of the programs.
fn line() -> impl Strategy<Value = String> {
    let simple = (
        proptest::sample::select(&PROGRAMS[..]),
        proptest::collection::vec((any::<bool>(), noise()), 0..3),
    )
        .prop_map(|(program, words)| {
            words
                .into_iter()
                .fold(program.to_owned(), |line, (apart, word)| {
                    line + if apart { " " } else { "" } + &word
                })
        });
    simple.prop_recursive(4, 16, 3, |inner| {
        let joined = (
            inner.clone(),
            proptest::sample::select(&[";", "\n", "&&", "||", "|", " ; "][..]),
            inner.clone(),
        );
        let wrapped = (proptest::sample::select(WRAPPERS), inner.clone());
        prop_oneof![
            3 => joined.prop_map(|(one, between, other)| one + between + &other),
            3 => wrapped.prop_map(|(around, inside)| around.replace('@', &inside)),
            1 => (inner, noise()).prop_map(|(line, more)| line + &more),
        ]
    })
}

/// `@` stands for another line.
const WRAPPERS: &[&str] = &[
    "( @ )",
    "{ @; }",
    "aa $(@)",
    "bb \"$(@)\"",
    "cc `@`",
    "if @; then aa; fi",
    "if aa; then @; else bb; fi",
    "! @",
    "case x in x) @ ;; esac",
    "eval '@'",
    "eval \"@\"",
    "command @",
    "x=$(@)",
    "aa ${x:-$(@)}",
    "aa <<E\n$(@)\nE\n",
    "aa <<'E'\n$(@)\nE\n",
    "aa <<< \"$(@)\"",
    "aa # @",
    "aa '@'",
    "[[ -n $(@) ]]",
    "aa $((1 + $(@)))",
    "@ > o 2>&1",
];

/// The arguments that a program was started with.
type Started = Vec<String>;

fn started_by(shell: &str, line: &str, dir: &Path) -> Vec<Started> {
    // A separate log for each run, because a background program may write after the run.
    let run = tempfile::tempdir_in(dir).unwrap();
    let (log, work) = (run.path().join("log"), run.path().join("work"));
    fs::write(&log, "").unwrap();
    fs::create_dir_all(&work).unwrap();
    let ended = Command::new(shell)
        .args(["-c", line])
        .env_clear()
        .env("PATH", dir.join("bin"))
        .env("LOG", &log)
        // An unquoted `~` is read as a literal word that begins with `~`.
        .env("HOME", "~")
        .current_dir(&work)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    ended.expect("the shell starts");
    let log = fs::read_to_string(&log).expect("UTF-8");
    let runs = log.split_terminator("\u{1}\0");
    runs.map(|run| run.split_terminator('\0').map(str::to_owned).collect())
        .collect()
}

/// Whether the command may be the started program. A dynamic word may be anything; the policy asks about it.
fn covers(command: &SimpleCommand, started: &Started) -> bool {
    let Some(program) = command.words.first() else {
        return false;
    };
    program.literal().is_none()
        || program.literal() == Some(&started[0])
            && (command.has_unknown_word()
                || command
                    .words
                    .iter()
                    .map(|word| word.literal().unwrap_or_default())
                    .eq(started.iter()))
}

/// Returns the number of programs that the shell ran.
fn check(shell: &str, line: &str, dir: &Path) -> Result<usize, TestCaseError> {
    let Ok(script) = parse(line) else {
        return Ok(0);
    };
    let all = started_by(shell, line, dir);
    for started in &all {
        prop_assert!(
            script
                .commands
                .iter()
                .any(|command| covers(command, started)),
            "{} ran {:?} of {:?}; the parser read {:?}",
            shell,
            started,
            line,
            script.commands
        );
    }
    Ok(all.len())
}

/// Shells of this machine by full path, because the test clears PATH.
fn shells() -> Vec<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    ["bash", "dash"]
        .iter()
        .filter_map(|name| {
            path.split(':')
                .map(|dir| format!("{dir}/{name}"))
                .find(|file| Path::new(file).is_file())
        })
        .collect()
}

#[test]
fn programs_run_by_bash_and_dash_are_found_by_the_parser() {
    let shells = shells();
    if shells.len() < 2 {
        println!("skipped in part: of bash and dash only {shells:?} are installed");
    }
    let dir = tempfile::tempdir().unwrap();
    let bin = dir.path().join("bin");
    fs::create_dir(&bin).unwrap();
    for program in PROGRAMS {
        let file = bin.join(program);
        fs::write(
            &file,
            "#!/bin/sh\nprintf '%s\\0' \"${0##*/}\" \"$@\" '\u{1}' >> \"$LOG\"\n",
        )
        .unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let config = ProptestConfig {
        cases: 1_500,
        ..ProptestConfig::default()
    };
    let ran = Cell::new(0);
    proptest!(config, |(line in line())| {
        for shell in &shells {
            ran.set(ran.get() + check(shell, &line, dir.path())?);
        }
    });
    assert!(
        shells.is_empty() || ran.get() > 1_000,
        "only {} programs ran",
        ran.get()
    );
}
