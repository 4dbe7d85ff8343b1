//! Test fixtures for the shell parser: command lines and their parse results as text.

mod bounds;
mod classification;
mod differential;
mod evasion;
mod nested;
mod options;
mod parsing;
mod rules;

use super::*;
use expect_test::Expect;
use std::fmt::Write as _;

/// One command line per row, in which `⏎` is a newline and `⇥` a tab.
fn rows(lines: &str) -> impl Iterator<Item = (&str, String)> {
    let rows = lines.lines().map(str::trim).filter(|row| !row.is_empty());
    rows.map(|row| (row, row.replace('⏎', "\n").replace('⇥', "\t")))
}

/// Checks the parse result of every row: `|` separates commands, `«…»` is a dynamic word, `(…)` the enclosing
/// construct, `NAME=` an assignment, `>` and `<` are files, and `?` precedes the reason of a rejection.
fn check(lines: &str, expect: Expect) {
    let mut out = String::new();
    for (row, line) in rows(lines) {
        let _ = writeln!(out, "{row}\n    {}", show(&line));
    }
    expect.assert_eq(&out);
}

fn show(line: &str) -> String {
    let script = match parse(line) {
        Ok(script) => script,
        Err(unparsed) => return format!("? {}", unparsed.reason),
    };
    let mut parts: Vec<String> = script.commands.iter().map(show_command).collect();
    parts.extend(script.writes.iter().map(|target| {
        format!(
            "{} {}",
            if target.append { ">>" } else { ">" },
            show_word(&target.path)
        )
    }));
    parts.extend(
        script
            .reads
            .iter()
            .map(|target| format!("< {}", show_word(&target.path))),
    );
    parts.join(" | ")
}

fn show_command(command: &SimpleCommand) -> String {
    let mut out = String::new();
    if !command.via.is_empty() {
        let _ = write!(out, "({}) ", command.via.join(" "));
    }
    for name in &command.assignments {
        let _ = write!(out, "{name}= ");
    }
    out + &command
        .words
        .iter()
        .map(show_word)
        .collect::<Vec<_>>()
        .join(" ")
}

fn show_word(word: &Word) -> String {
    match word {
        Word::Literal(text) if text.is_empty() || text.contains([' ', '\n', '|']) => {
            format!("{text:?}")
        }
        Word::Literal(text) => text.clone(),
        Word::Dynamic(text) => format!("«{}»", text.replace('\n', "\\n")),
    }
}
