//! Parser for lines of the interactive prompt.

use toolhost_contract::text;

use crate::shell_words;

#[derive(Debug, PartialEq, Eq)]
pub enum PromptLine {
    Call {
        tool: String,
        arguments: Vec<String>,
    },
    Help {
        tool: Option<String>,
    },
    Tools,
    /// All plugins, or one.
    Plugins {
        name: Option<String>,
    },
    Inspect {
        tool: String,
    },
    /// The last change of the session, or that of a call or a path.
    Undo {
        what: Option<String>,
    },
    Redo {
        what: Option<String>,
    },
    Diff {
        what: Option<String>,
    },
    /// The calls of the session, or one.
    Calls {
        call: Option<String>,
    },
    Mode {
        name: Option<String>,
    },
    Allow {
        rule: String,
    },
    Quit,
}

/// Commands. Those without a slash are words that are no tools.
pub const COMMANDS: [&str; 17] = [
    "/allow", "/calls", "/diff", "/exit", "/help", "/inspect", "/mode", "/plugins", "/redo",
    "/tools", "/undo", "call", "help", "inspect", "plugins", "quit", "tools",
];

pub fn parse(line: &str) -> Result<PromptLine, String> {
    let line = line.trim();
    let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let argument = || (!rest.is_empty()).then(|| rest.to_owned());
    let missing = |what: &str| format!("missing {what}; use `{first} {}`", what.to_uppercase());
    match first {
        "/exit" | "/quit" | "quit" | "exit" => Ok(PromptLine::Quit),
        "/tools" | "tools" => Ok(PromptLine::Tools),
        "/plugins" | "plugins" => Ok(PromptLine::Plugins { name: argument() }),
        "/help" | "help" | "?" => Ok(PromptLine::Help { tool: argument() }),
        "/inspect" | "inspect" => {
            let tool = argument().ok_or_else(|| missing("tool"))?;
            Ok(PromptLine::Inspect { tool })
        }
        "/undo" => Ok(PromptLine::Undo { what: path(rest)? }),
        "/redo" => Ok(PromptLine::Redo { what: path(rest)? }),
        "/diff" => Ok(PromptLine::Diff { what: path(rest)? }),
        "/calls" => Ok(PromptLine::Calls { call: argument() }),
        "/mode" => Ok(PromptLine::Mode { name: argument() }),
        "/allow" => {
            let rule = argument().ok_or_else(|| missing("rule"))?;
            Ok(PromptLine::Allow {
                rule: unquoted(rule),
            })
        }
        // For a tool with the name of a command.
        "call" => match rest.split_once(char::is_whitespace).unwrap_or((rest, "")) {
            ("", _) => Err(missing("tool")),
            (tool, rest) => call(tool, rest.trim()),
        },
        command if command.starts_with('/') => Err(format!(
            "no command `{}`; /help lists the commands",
            text::escape_line(command, 40)
        )),
        tool => call(tool, rest),
    }
}

/// A path as it is, or quoted as in a shell, as completions are.
fn path(rest: &str) -> Result<Option<String>, String> {
    if !rest.contains(['\\', '\'', '"']) {
        return Ok((!rest.is_empty()).then(|| rest.to_owned()));
    }
    match <[String; 1]>::try_from(shell_words::split_prompt_line(rest)?) {
        Ok([path]) => Ok(Some(path)),
        Err(_) => Err("quote the whole path".to_owned()),
    }
}

/// A rule as messages quote it for a shell.
fn unquoted(rule: String) -> String {
    let inner = rule
        .strip_prefix('\'')
        .and_then(|rule| rule.strip_suffix('\''));
    inner.map_or(rule.clone(), ToOwned::to_owned)
}

/// Whether the line ends within a JSON object, so that the next line continues it.
pub fn is_incomplete(line: &str) -> bool {
    let Some(at) = line.find('{') else {
        return false;
    };
    let before = &line[..at];
    // The object is the whole input, or the value of `key:=`.
    let is_input = before.ends_with(char::is_whitespace) && !before.contains('=');
    let is_value = before.ends_with(":=");
    (is_input || is_value)
        && serde_json::from_str::<serde_json::Value>(&line[at..]).is_err_and(|error| error.is_eof())
}

fn call(tool: &str, rest: &str) -> Result<PromptLine, String> {
    // JSON quoting differs from shell quoting.
    let arguments = if rest.starts_with('{') {
        vec![rest.to_owned()]
    } else {
        shell_words::split_prompt_line(rest)?
    };
    Ok(PromptLine::Call {
        tool: tool.to_owned(),
        arguments,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_command_or_a_call() {
        let call = |tool: &str, arguments: &[&str]| PromptLine::Call {
            tool: tool.to_owned(),
            arguments: arguments
                .iter()
                .map(|argument| (*argument).to_owned())
                .collect(),
        };
        for (line, expected) in [
            (
                "grep pattern='a b' path=x",
                call("grep", &["pattern=a b", "path=x"]),
            ),
            (
                "  grep {\"pattern\": \"it's\"} ",
                call("grep", &["{\"pattern\": \"it's\"}"]),
            ),
            ("grep", call("grep", &[])),
            ("call help key=1", call("help", &["key=1"])),
            ("help", PromptLine::Help { tool: None }),
            (
                "help  grep ",
                PromptLine::Help {
                    tool: Some("grep".to_owned()),
                },
            ),
            (
                "inspect grep",
                PromptLine::Inspect {
                    tool: "grep".to_owned(),
                },
            ),
            ("tools", PromptLine::Tools),
            ("plugins", PromptLine::Plugins { name: None }),
            (
                "/plugins files",
                PromptLine::Plugins {
                    name: Some("files".to_owned()),
                },
            ),
            ("/undo", PromptLine::Undo { what: None }),
            (
                "/undo a b.txt",
                PromptLine::Undo {
                    what: Some("a b.txt".to_owned()),
                },
            ),
            (
                r"/undo a\ b\'s.txt",
                PromptLine::Undo {
                    what: Some("a b's.txt".to_owned()),
                },
            ),
            (
                "/diff 'a  b.txt'",
                PromptLine::Diff {
                    what: Some("a  b.txt".to_owned()),
                },
            ),
            ("/redo", PromptLine::Redo { what: None }),
            ("/diff", PromptLine::Diff { what: None }),
            ("/calls", PromptLine::Calls { call: None }),
            (
                "/mode plan",
                PromptLine::Mode {
                    name: Some("plan".to_owned()),
                },
            ),
            (
                "/allow 'Bash(git *)'",
                PromptLine::Allow {
                    rule: "Bash(git *)".to_owned(),
                },
            ),
            ("/exit", PromptLine::Quit),
            ("exit", PromptLine::Quit),
        ] {
            assert_eq!(parse(line), Ok(expected), "{line}");
        }
        for line in [
            "inspect",
            "call",
            "grep pattern='",
            "/allow",
            "/no_such",
            "/undo it's",
            r"/undo a b\ c",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_line_continues_until_its_json_is_complete() {
        for (line, incomplete) in [
            ("grep {\"pattern\": \"x\",", true),
            ("grep {", true),
            ("grep {\"pattern\": \"x\"}", false),
            ("grep {\"pattern\": x", false),
            ("grep pattern=a{2", false),
            ("grep pattern='fn {'", false),
            ("tool list:={\"a\": [", true),
            ("/help", false),
        ] {
            assert_eq!(is_incomplete(line), incomplete, "{line}");
        }
    }
}
