//! Parser for lines of the interactive prompt.

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
    Plugins,
    Inspect {
        tool: String,
    },
    Quit,
}

/// Words that are commands and not tools.
pub const COMMANDS: [&str; 6] = ["call", "help", "inspect", "plugins", "quit", "tools"];

pub fn parse(line: &str) -> Result<PromptLine, String> {
    let line = line.trim();
    let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let argument = || (!rest.is_empty()).then(|| rest.to_owned());
    match first {
        "quit" | "exit" => Ok(PromptLine::Quit),
        "tools" => Ok(PromptLine::Tools),
        "plugins" => Ok(PromptLine::Plugins),
        "help" | "?" => Ok(PromptLine::Help { tool: argument() }),
        "inspect" => argument()
            .map(|tool| PromptLine::Inspect { tool })
            .ok_or_else(|| "missing tool name; use `inspect TOOL`".to_owned()),
        // For a tool with the name of a command.
        "call" => match rest.split_once(char::is_whitespace).unwrap_or((rest, "")) {
            ("", _) => Err("missing tool name; use `call TOOL`".to_owned()),
            (tool, rest) => call(tool, rest.trim()),
        },
        tool => call(tool, rest),
    }
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
            ("plugins", PromptLine::Plugins),
            ("exit", PromptLine::Quit),
        ] {
            assert_eq!(parse(line), Ok(expected), "{line}");
        }
        for line in ["inspect", "call", "grep pattern='"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
