//! The command line with its help texts: the commands in sections, and examples.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::{Command, CommandFactory as _};

use crate::args::Cli;
use crate::terminal::style::terminal_width;

/// The commands in the order of the help text.
const SECTIONS: &[(&str, &[&str])] = &[
    (
        "Run tools",
        &["init", "run", "ui", "call", "tools", "plugins"],
    ),
    (
        "Changes and records",
        &["undo", "calls", "cancel", "sessions", "audit", "prune"],
    ),
    ("Permissions", &["approve", "deny", "approvals", "policy"]),
    ("Programs that run agents", &["batch", "turns", "mcp"]),
    (
        "Install plugins",
        &[
            "add", "list", "info", "update", "remove", "search", "lock", "sync",
        ],
    ),
    (
        "Write plugins",
        &[
            "new", "dev", "test", "check", "pack", "inspect", "key", "sign", "verify", "publish",
            "revoke",
        ],
    ),
    (
        "This machine",
        &["config", "doctor", "bench", "completions"],
    ),
];

const AFTER_HELP: &str = "\
Examples:
  host init             grant this directory, so that the next commands need no flags
  host run              start a prompt at a terminal, otherwise MCP
  host undo             show and undo the last change of files
  host call grep TODO --plugins ./plugins --allow-path src
  host call write_file path=out/a.txt content=hi --plugins ./plugins --allow-path out:rw

Exit codes:
  0  success
  1  the tool failed
  2  usage error
  3  configuration error
  4  no plugin could be loaded, or a path of --plugins could not
  5  denied
  6  timeout or other limit exceeded
  7  internal error
  8  waiting for approval
  9  the records cannot be read or written
  10 a signature or digest is missing or wrong, or the plugin was revoked
  11 what is installed differs from the lock file
  12 a registry or server did not deliver a package

Plugins cannot use files, environment variables, the network or programs unless you grant it. RUST_LOG=debug prints what
the host does.";

/// Examples of commands that define none themselves.
const EXAMPLES: &[(&str, &str)] = &[
    ("approve", "host approve c-7tq0v0y9a2m5k8xr --scope session"),
    (
        "completions",
        "host completions bash > ~/.local/share/bash-completion/completions/host",
    ),
    (
        "config",
        "host config check\n  host config check ./toolhost.toml",
    ),
    (
        "deny",
        "host deny c-7tq0v0y9a2m5k8xr --note 'write to notes.txt instead'",
    ),
    ("check", "host check\n  host check ./notes.wasm --json"),
    ("dev", "host dev\n  host dev ./notes --allow-path ./data"),
    ("doctor", "host doctor\n  host doctor --json"),
    ("info", "host info notes"),
    ("inspect", "host inspect ./plugins/files.wasm"),
    ("key", "host key new ann > ann.pub\n  host key show ann"),
    ("list", "host list"),
    ("lock", "host lock"),
    (
        "mcp",
        "host mcp add memory -- mcp-server-memory\n  host mcp list",
    ),
    ("new", "host new notes --lang rust"),
    (
        "pack",
        "host pack\n  host pack notes.wasm --manifest plugin.toml",
    ),
    (
        "policy",
        "host policy explain write_file path=a.txt content=x --plugins ./plugins\n  host policy allow 'write_file(notes/**)'",
    ),
    ("prune", "host prune --dry-run"),
    (
        "publish",
        "host publish notes.wasm registry.example.org/me/notes:1.0.0",
    ),
    ("remove", "host remove notes"),
    ("revoke", "host revoke notes --reason 'it leaks files'"),
    ("search", "host search notes"),
    ("sessions", "host sessions --limit 10"),
    ("sign", "host sign notes.wasm --key ann"),
    ("sync", "host sync\n  host sync --check"),
    ("test", "host test\n  host test ./notes.wasm"),
    (
        "tools",
        "host tools --plugins ./plugins\n  host tools --plugins ./plugins --format anthropic",
    ),
    ("update", "host update"),
    ("verify", "host verify notes.wasm --key ann.pub"),
];

/// The command line of `host` for the arguments of this process. Help texts are built only if they are shown, because the
/// host starts this program for each command of a tool.
pub fn command_for_arguments() -> Command {
    let mut arguments = std::env::args_os().skip(1).peekable();
    let is_shown = |argument: OsString| ["--help", "-h"].iter().any(|help| argument == *help);
    if arguments.peek().is_none() || arguments.any(is_shown) {
        command()
    } else {
        Cli::command()
    }
}

/// The command line of `host`, with all help texts.
pub fn command() -> Command {
    let mut command = Cli::command().after_help(AFTER_HELP);
    for (name, example) in EXAMPLES {
        command = command.mut_subcommand(name, |command| {
            let before = command.get_after_help();
            let before = before.map(|text| format!("{text}\n\n"));
            let before = before.unwrap_or_default();
            command.after_help(format!("{before}Examples:\n  {example}"))
        });
    }
    let sections = format_sections(&command, terminal_width());
    command.help_template(format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{sections}Options:\n{{options}}{{after-help}}"
    ))
}

/// One line for each command, with its description wrapped at words.
fn format_sections(command: &Command, width: Option<usize>) -> String {
    const INDENT: &str = "              ";
    let mut out = String::new();
    for (title, names) in SECTIONS {
        let _ = writeln!(out, "{title}:");
        for name in *names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let first = format!("  {name:<12}");
            let options = textwrap::Options::new(width.unwrap_or(usize::MAX))
                .initial_indent(&first)
                .subsequent_indent(INDENT);
            let _ = writeln!(out, "{}", textwrap::fill(&about, options));
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_command_is_in_one_section_and_has_examples() {
        let mut command = command();
        command.build();
        let listed: Vec<&str> = SECTIONS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        let shown: BTreeSet<&str> = command
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
            .map(Command::get_name)
            .collect();
        assert_eq!(listed.iter().copied().collect::<BTreeSet<_>>(), shown);
        assert_eq!(listed.len(), shown.len(), "a command is listed twice");
        for name in listed {
            let help = command
                .find_subcommand_mut(name)
                .unwrap()
                .render_long_help()
                .to_string();
            assert!(help.contains("Examples:\n"), "{name}: {help}");
        }
    }

    #[test]
    fn the_most_common_options_come_first() {
        let mut command = command();
        command.build();
        let run = command.find_subcommand_mut("run").unwrap();
        let help = run.render_help().to_string();
        let (_, options) = help.split_once("Options:\n").unwrap();
        let names: Vec<&str> = options
            .lines()
            .take_while(|line| !line.ends_with("options:") && !line.starts_with("Options for"))
            .filter_map(|line| line.split_whitespace().find(|word| word.starts_with("--")))
            .collect();
        let common = [
            "--plugins",
            "--allow-path",
            "--allow-host",
            "--allow-tool",
            "--mode",
        ];
        assert_eq!(&names[..5], &common, "{help}");
    }

    #[test]
    fn examples_can_be_parsed() {
        let mut command = command();
        command.build();
        let mut texts = vec![AFTER_HELP.to_owned()];
        let helps = command
            .get_subcommands()
            .filter_map(Command::get_after_help);
        texts.extend(helps.map(ToString::to_string));
        let mut count = 0;
        for line in texts.iter().flat_map(|text| text.lines()) {
            let example = line.trim_start();
            // The description follows after blanks.
            let example = example.split("  ").next().unwrap_or_default();
            let example = example
                .split(['>', '<', '|'])
                .next()
                .unwrap_or_default()
                .trim_end();
            if !example.starts_with("host ") || example.ends_with('\\') {
                continue;
            }
            let words = crate::shell_words::split_prompt_line(example).unwrap();
            if let Err(error) = command.try_get_matches_from_mut(words) {
                panic!("{example}: {error}");
            }
            count += 1;
        }
        assert!(count > 60, "{count}");
    }
}
