//! Wrapper programs such as `sudo`, `xargs` and `bash -c`: finds the commands that they run.

use super::parser::{RESERVED, is_name};
use super::risky_options::UnknownWord;
use super::wrapper_options::{OptionSyntax, PLAIN, option_syntax, skip_options};
use super::{ParseResult, ScriptBuilder, SimpleCommand, UnparsedCommand, Word};

/// Shells whose language this module parses.
const SHELLS: &[&str] = &["sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "rbash"];

/// Programs that run other programs in a way that is not parsed.
const OPAQUE: &[&str] = &[
    "-",
    "bwrap",
    "cgexec",
    "chroot",
    "chrt",
    "csh",
    "dbus-run-session",
    "elvish",
    "entr",
    "expect",
    "fakeroot",
    "firejail",
    "fish",
    "flock",
    "gdb",
    "linux32",
    "linux64",
    "ltrace",
    "nocorrect",
    "noglob",
    "nsenter",
    "nu",
    "numactl",
    "parallel",
    "pkexec",
    "powershell",
    "prlimit",
    "pwsh",
    "repeat",
    "rlwrap",
    "run0",
    "run-parts",
    "runuser",
    "script",
    "setarch",
    "setpriv",
    "ssh-agent",
    "start-stop-daemon",
    "strace",
    "su",
    "systemd-run",
    "taskset",
    "tcsh",
    "unbuffer",
    "unshare",
    "valgrind",
    "watchexec",
    "xvfb-run",
    "xonsh",
];

/// Builtins with flags whose value is a command.
const RUNNING_FLAGS: &[(&str, &str)] = &[
    ("compgen", "CFW"),
    ("complete", "CFW"),
    ("jobs", "x"),
    ("mapfile", "C"),
    ("readarray", "C"),
];

/// Builtins that evaluate an index such as `a[$(rm x)]` in a variable name, even if quoted.
const NAME_BUILTINS: &[&str] = &["getopts", "mapfile", "read", "readarray", "unset"];
const NAME_FLAG_BUILTINS: &[(&str, char)] = &[
    ("[", 'v'),
    ("[[", 'v'),
    ("test", 'v'),
    ("printf", 'v'),
    ("wait", 'p'),
];
const DECLARATION_BUILTINS: &[&str] = &["declare", "export", "local", "readonly", "typeset"];

pub(super) fn is_shell(program: &str) -> bool {
    SHELLS.contains(&program)
}

pub(super) fn is_wrapper(program: &str) -> bool {
    option_syntax(program).is_some()
        || is_shell(program)
        || OPAQUE.contains(&program)
        || program == "eval"
}

/// Adds the commands that `simple`, at `index`, runs. Returns `true` if it executes commands from its input.
pub(super) fn add_wrapped(
    simple: &SimpleCommand,
    index: usize,
    sink: &mut ScriptBuilder,
) -> ParseResult<bool> {
    let Some(program) = simple.program() else {
        return Ok(false);
    };
    if OPAQUE.contains(&program) && !simple.arguments().is_empty() {
        return Err(UnparsedCommand::at(
            "it is not known what is run by",
            program,
        ));
    }
    if may_evaluate_index(simple, program) {
        return Err(UnparsedCommand::at("an index is evaluated by", program));
    }
    let runs_value = RUNNING_FLAGS.iter().any(|(name, flags)| {
        *name == program && flags.chars().any(|flag| simple.has_short_flag(flag))
    });
    if runs_value {
        return Err(UnparsedCommand::at(
            "it is not known what is run by",
            program,
        ));
    }
    match program {
        "alias" | "let" | "enable" => Err(UnparsedCommand::at(
            "later commands may change their meaning after",
            program,
        )),
        "hash" if !simple.arguments().is_empty() => Err(UnparsedCommand::at(
            "later commands may change their meaning after",
            program,
        )),
        "[[" if has_variable_arithmetic(simple) => Err(UnparsedCommand::new(
            "arithmetic on variables can run commands",
        )),
        "." | "source" if simple.has_unknown_word() || reads_stream(simple) => Err(
            UnparsedCommand::at("what it runs is not known in advance:", program),
        ),
        "eval" => {
            let text = literal_text(without_dashes(simple.arguments()).1, program)?;
            sink.parse_nested(&text, "eval").map(|()| false)
        }
        "trap" => trap(simple, sink).map(|()| false),
        "find" => find(simple, index, sink),
        "watch" => watch(simple, sink),
        shell if is_shell(shell) => add_shell_script(simple, shell, sink),
        other => match option_syntax(other) {
            Some(shape) => add_wrapped_command(simple, other, &shape, index, sink),
            None => Ok(false),
        },
    }
}

/// Whether a builtin could run a command that is contained in a variable name.
fn may_evaluate_index(simple: &SimpleCommand, program: &str) -> bool {
    let flagged = NAME_FLAG_BUILTINS.iter().find(|(name, _)| *name == program);
    let declares = DECLARATION_BUILTINS.contains(&program);
    if !declares && flagged.is_none() && !NAME_BUILTINS.contains(&program) {
        return false;
    }
    // An integer variable evaluates every value assigned later, and a nameref refers to another name.
    if declares && (simple.has_short_flag('i') || simple.has_short_flag('n') && program != "export")
    {
        return true;
    }
    let arguments = simple.arguments();
    let expanded = match program {
        "[" | "test" => arguments,
        "printf" if matches!(arguments.first(), Some(Word::Dynamic(_))) => {
            &arguments[..arguments.len().min(2)]
        }
        _ => &[],
    };
    if may_contain_flag(expanded) {
        return true;
    }
    let names = declares || flagged.is_none_or(|(_, flag)| simple.has_short_flag(*flag));
    arguments.iter().any(|word| match word {
        Word::Literal(text) => text.contains('[') && (text.contains("$(") || text.contains('`')),
        Word::Dynamic(text) if declares => !text
            .trim_start_matches('"')
            .split_once('=')
            .is_some_and(|(name, _)| is_name(name)),
        Word::Dynamic(_) => names,
    })
}

/// Whether an expansion could become the flag for a variable name, followed by a name with an index.
fn may_contain_flag(words: &[Word]) -> bool {
    let is_name = |word: Option<&Word>| match word {
        Some(Word::Literal(text)) => text.contains('['),
        Some(Word::Dynamic(_)) => true,
        None => false,
    };
    words.iter().enumerate().any(|(at, word)| match word {
        Word::Literal(_) => false,
        // Numbers.
        Word::Dynamic(text) if matches!(text.as_str(), "$#" | "$?" | "$$" | "$!") => false,
        Word::Dynamic(text) => match UnknownWord::classify(text) {
            UnknownWord::SeveralWords => true,
            UnknownWord::Anything | UnknownWord::LongOption(_) => is_name(words.get(at + 1)),
            UnknownWord::Operand => false,
        },
    })
}

/// Joins words, all of which must be literal.
fn literal_text(words: &[Word], program: &str) -> ParseResult<String> {
    let words: Option<Vec<&str>> = words.iter().map(Word::literal).collect();
    words
        .map(|words| words.join(" "))
        .ok_or_else(|| UnparsedCommand::at("what it runs is not known in advance:", program))
}

fn has_variable_arithmetic(simple: &SimpleCommand) -> bool {
    let compares = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v"]
        .iter()
        .any(|operator| simple.has_argument(operator));
    compares
        && simple.arguments().iter().any(|word| match word.literal() {
            Some(text) => {
                text != "]]"
                    && text != "!"
                    && !text.starts_with('-')
                    && text.parse::<i64>().is_err()
            }
            None => true,
        })
}

/// Adds words found in `via` as a command.
fn add_inner_command(
    words: Vec<Word>,
    via: &str,
    assignments: Vec<String>,
    index: usize,
    sink: &mut ScriptBuilder,
) -> ParseResult<bool> {
    if words.is_empty() {
        return Ok(false);
    }
    match words[0].literal() {
        None => {
            return Err(UnparsedCommand::at(
                "the program it runs is not known in advance:",
                via,
            ));
        }
        // `time ! rm`
        Some(word) if RESERVED.contains(&word) => {
            return Err(UnparsedCommand::at("a command named", word));
        }
        Some(_) => {}
    }
    sink.with_context(via, |sink| {
        let simple = sink.insert(index + 1, words, assignments)?;
        add_wrapped(&simple, index + 1, sink)
    })
}

fn add_wrapped_command(
    simple: &SimpleCommand,
    program: &str,
    shape: &OptionSyntax,
    index: usize,
    sink: &mut ScriptBuilder,
) -> ParseResult<bool> {
    let (start, assignments) = skip_options(simple, program, shape)?;
    let is_option = |word: &Word| {
        word.literal()
            .is_some_and(|text| text.starts_with('-') && text.contains(['v', 'V']))
    };
    // It only says what it would run.
    if program == "command" && simple.words[1..start].iter().any(is_option) {
        return Ok(false);
    }
    let mut words = simple.words[start..].to_vec();
    // `sudo -s` is a shell.
    if words.is_empty() && matches!(program, "sudo" | "doas") {
        return Ok(simple.has_short_flag('s')
            || simple.has_short_flag('i')
            || simple.has_argument("--shell")
            || simple.has_argument("--login"));
    }
    if program == "xargs" && !words.is_empty() {
        let token = replace_token(&simple.words[..start]);
        match token {
            Some(token) => mark_unknown(&mut words, &token),
            None => words.push(Word::Dynamic("…".to_owned())),
        }
    }
    add_inner_command(words, program, assignments, index, sink)
}

/// The text that `xargs -I` replaces with its input.
fn replace_token(options: &[Word]) -> Option<String> {
    let options: Vec<&str> = options.iter().map(Word::as_written).collect();
    options.iter().enumerate().find_map(|(at, option)| {
        let attached = option
            .strip_prefix("-I")
            .or_else(|| option.strip_prefix("-J"))?;
        if attached.is_empty() {
            options.get(at + 1).map(|token| (*token).to_owned())
        } else {
            Some(attached.to_owned())
        }
    })
}

/// Marks every word that contains `token` as unknown.
fn mark_unknown(words: &mut [Word], token: &str) {
    for word in words {
        if word.as_written().contains(token) {
            *word = Word::Dynamic(word.as_written().to_owned());
        }
    }
}

/// Handles `sh -c text`, `sh file` and a shell that reads its input.
fn add_shell_script(
    simple: &SimpleCommand,
    shell: &str,
    sink: &mut ScriptBuilder,
) -> ParseResult<bool> {
    let mut at = 1;
    let mut takes_text = false;
    while let Some(word) = simple.words.get(at) {
        let Some(word) = word.literal() else {
            return Err(UnparsedCommand::at(
                "what it runs is not known in advance:",
                shell,
            ));
        };
        at += 1;
        if matches!(word, "-" | "--") {
            break;
        } else if word.starts_with("--") {
            at += usize::from(matches!(word, "--rcfile" | "--init-file"));
        } else if let Some(cluster) = word.strip_prefix('-').or_else(|| word.strip_prefix('+')) {
            takes_text |= word.starts_with('-') && cluster.contains('c');
            at += usize::from(cluster.contains(['o', 'O']));
        } else {
            at -= 1;
            break;
        }
    }
    if !takes_text && reads_stream(simple) {
        return Err(UnparsedCommand::at(
            "what it runs is not known in advance:",
            shell,
        ));
    }
    if !takes_text {
        return Ok(at >= simple.words.len() || simple.has_short_flag('s'));
    }
    match simple.words.get(at) {
        Some(Word::Literal(text)) => sink
            .parse_nested(text, &format!("{shell} -c"))
            .map(|()| false),
        _ => Err(UnparsedCommand::at(
            "what it runs is not known in advance:",
            &format!("{shell} -c"),
        )),
    }
}

/// Whether the script is a stream such as `/dev/stdin` or `/proc/self/fd/0`, not a file.
fn reads_stream(simple: &SimpleCommand) -> bool {
    simple
        .first_operand()
        .is_some_and(|path| path.starts_with("/dev/") || path.starts_with("/proc/"))
}

/// The words after `--`, and whether it was there.
fn without_dashes(words: &[Word]) -> (bool, &[Word]) {
    match words {
        [Word::Literal(dashes), rest @ ..] if dashes == "--" => (true, rest),
        words => (false, words),
    }
}

fn trap(simple: &SimpleCommand, sink: &mut ScriptBuilder) -> ParseResult {
    let (options_ended, words) = without_dashes(simple.arguments());
    match words {
        [] | [_] => Ok(()),
        [Word::Literal(text), ..] if text.is_empty() || text == "-" => Ok(()),
        [Word::Literal(text), ..] if text.starts_with('-') && !options_ended => Ok(()),
        [Word::Literal(text), ..] => sink.parse_nested(text, "trap"),
        _ => Err(UnparsedCommand::at(
            "what it runs is not known in advance:",
            "trap",
        )),
    }
}

/// Handles `watch`, which passes its words to a shell unless `-x` is given; evaluates both cases.
fn watch(simple: &SimpleCommand, sink: &mut ScriptBuilder) -> ParseResult<bool> {
    let shape = option_syntax("watch").unwrap_or(PLAIN);
    let (start, _) = skip_options(simple, "watch", &shape)?;
    if start < simple.words.len() {
        sink.parse_nested(&literal_text(&simple.words[start..], "watch")?, "watch")?;
    }
    Ok(false)
}

/// Handles `find … -exec command ;`, which may occur more than once.
fn find(simple: &SimpleCommand, index: usize, sink: &mut ScriptBuilder) -> ParseResult<bool> {
    let words = simple.arguments();
    let mut at = 0;
    while at < words.len() {
        match &words[at] {
            // An expansion can produce several words such as `-exec`; globs and braces produce only names.
            Word::Dynamic(text) if text.contains(['$', '`', '{']) => {
                return Err(UnparsedCommand::at(
                    "what it runs is not known in advance:",
                    "find",
                ));
            }
            Word::Literal(text)
                if matches!(text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir") =>
            {
                let rest = &words[at + 1..];
                let length = rest
                    .iter()
                    .enumerate()
                    .position(|(offset, word)| match word.literal() {
                        Some(";") => true,
                        // Elsewhere it is an argument.
                        Some("+") => offset > 0 && rest[offset - 1].literal() == Some("{}"),
                        _ => false,
                    })
                    .ok_or_else(|| UnparsedCommand::at("unterminated command of", text))?;
                let mut inner = rest[..length].to_vec();
                mark_unknown(&mut inner, "{}");
                add_inner_command(inner, &format!("find {text}"), Vec::new(), index, sink)?;
                at += length + 1;
            }
            _ => {}
        }
        at += 1;
    }
    Ok(false)
}
