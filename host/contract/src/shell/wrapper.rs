//! Wrapper programs such as `sudo`, `xargs` and `bash -c`: finds the commands that they run.

use super::parser::{RESERVED, is_name};
use super::shape::{PLAIN, Shape, shape, skip_options};
use super::{Parsed, Simple, Sink, Unparsed, Word};

/// Shells whose language this module parses.
const SHELLS: &[&str] = &["sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "rbash"];

/// Programs that run other programs in a way that is not parsed.
const OPAQUE: &[&str] = &[
    "-",
    "bwrap",
    "chroot",
    "chrt",
    "csh",
    "elvish",
    "entr",
    "expect",
    "firejail",
    "fish",
    "flock",
    "gdb",
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
    "run0",
    "runuser",
    "script",
    "setpriv",
    "start-stop-daemon",
    "strace",
    "su",
    "systemd-run",
    "taskset",
    "tcsh",
    "unshare",
    "watchexec",
    "xonsh",
];

/// Builtins that evaluate an index such as `a[$(rm x)]` in a variable name, even if quoted.
const NAMES: &[&str] = &["getopts", "mapfile", "read", "readarray", "unset"];
const NAMES_AFTER_FLAG: &[(&str, char)] = &[
    ("[", 'v'),
    ("[[", 'v'),
    ("test", 'v'),
    ("printf", 'v'),
    ("wait", 'p'),
];
const DECLARES: &[&str] = &["declare", "export", "local", "readonly", "typeset"];

pub(super) fn is_shell(program: &str) -> bool {
    SHELLS.contains(&program)
}

pub(super) fn is_wrapper(program: &str) -> bool {
    shape(program).is_some() || is_shell(program) || OPAQUE.contains(&program) || program == "eval"
}

/// Adds the commands that `simple`, at `index`, runs. Returns `true` if it executes commands from its input.
pub(super) fn unwrap(simple: &Simple, index: usize, sink: &mut Sink) -> Parsed<bool> {
    let Some(program) = simple.program() else {
        return Ok(false);
    };
    if OPAQUE.contains(&program) && !simple.arguments().is_empty() {
        return Err(Unparsed::at("it is not known what is run by", program));
    }
    if evaluates(simple, program) {
        return Err(Unparsed::at("an index is evaluated by", program));
    }
    match program {
        "alias" | "let" | "enable" => Err(Unparsed::at(
            "later commands may change their meaning after",
            program,
        )),
        "hash" if !simple.arguments().is_empty() => Err(Unparsed::at(
            "later commands may change their meaning after",
            program,
        )),
        "mapfile" | "readarray" if simple.has_short('C') => {
            Err(Unparsed::at("it is not known what is run by", program))
        }
        "[[" if compares_variables(simple) => {
            Err(Unparsed::new("arithmetic on variables can run commands"))
        }
        "." | "source" if simple.has_dynamic() || reads_stream(simple) => Err(Unparsed::at(
            "what it runs is not known in advance:",
            program,
        )),
        "eval" => {
            let text = literal_text(simple.arguments(), program)?;
            sink.nested(&text, "eval").map(|()| false)
        }
        "trap" => trap(simple, sink).map(|()| false),
        "find" => find(simple, index, sink),
        "watch" => watch(simple, sink),
        shell if is_shell(shell) => run_shell(simple, shell, sink),
        other => match shape(other) {
            Some(shape) => run_wrapped(simple, other, &shape, index, sink),
            None => Ok(false),
        },
    }
}

/// Whether a builtin could run a command that is contained in a variable name.
fn evaluates(simple: &Simple, program: &str) -> bool {
    let flagged = NAMES_AFTER_FLAG.iter().find(|(name, _)| *name == program);
    let declares = DECLARES.contains(&program);
    if !declares && flagged.is_none() && !NAMES.contains(&program) {
        return false;
    }
    // An integer variable evaluates every value assigned later, and a nameref refers to another name.
    if declares && (simple.has_short('i') || simple.has_short('n') && program != "export") {
        return true;
    }
    let names = declares || flagged.is_none_or(|(_, flag)| simple.has_short(*flag));
    simple.arguments().iter().any(|word| match word {
        Word::Literal(text) => text.contains('[') && (text.contains("$(") || text.contains('`')),
        Word::Dynamic(text) if declares => !text
            .trim_start_matches('"')
            .split_once('=')
            .is_some_and(|(name, _)| is_name(name)),
        Word::Dynamic(_) => names,
    })
}

/// Joins words, all of which must be literal.
fn literal_text(words: &[Word], program: &str) -> Parsed<String> {
    let words: Option<Vec<&str>> = words.iter().map(Word::literal).collect();
    words
        .map(|words| words.join(" "))
        .ok_or_else(|| Unparsed::at("what it runs is not known in advance:", program))
}

fn compares_variables(simple: &Simple) -> bool {
    let compares = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v"]
        .iter()
        .any(|operator| simple.has(operator));
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
fn run(
    words: Vec<Word>,
    via: &str,
    assignments: Vec<String>,
    index: usize,
    sink: &mut Sink,
) -> Parsed<bool> {
    if words.is_empty() {
        return Ok(false);
    }
    match words[0].literal() {
        None => {
            return Err(Unparsed::at(
                "the program it runs is not known in advance:",
                via,
            ));
        }
        // `time ! rm`
        Some(word) if RESERVED.contains(&word) => {
            return Err(Unparsed::at("a command named", word));
        }
        Some(_) => {}
    }
    sink.inside(via, |sink| {
        let simple = sink.insert(index + 1, words, assignments)?;
        unwrap(&simple, index + 1, sink)
    })
}

fn run_wrapped(
    simple: &Simple,
    program: &str,
    shape: &Shape,
    index: usize,
    sink: &mut Sink,
) -> Parsed<bool> {
    let (start, assignments) = skip_options(simple, program, shape)?;
    if program == "command" && (simple.has("-v") || simple.has("-V")) {
        return Ok(false);
    }
    let mut words = simple.words[start..].to_vec();
    // `sudo -s` is a shell.
    if words.is_empty() && matches!(program, "sudo" | "doas") {
        return Ok(simple.has_short('s')
            || simple.has_short('i')
            || simple.has("--shell")
            || simple.has("--login"));
    }
    if program == "xargs" && !words.is_empty() {
        let token = replacement(&simple.words[..start]);
        match token {
            Some(token) => hide(&mut words, &token),
            None => words.push(Word::Dynamic("…".to_owned())),
        }
    }
    run(words, program, assignments, index, sink)
}

/// The text that `xargs -I` replaces with its input.
fn replacement(options: &[Word]) -> Option<String> {
    let options: Vec<&str> = options.iter().map(Word::shown).collect();
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
fn hide(words: &mut [Word], token: &str) {
    for word in words {
        if word.shown().contains(token) {
            *word = Word::Dynamic(word.shown().to_owned());
        }
    }
}

/// Handles `sh -c text`, `sh file` and a shell that reads its input.
fn run_shell(simple: &Simple, shell: &str, sink: &mut Sink) -> Parsed<bool> {
    let mut at = 1;
    let mut takes_text = false;
    while let Some(word) = simple.words.get(at) {
        let Some(word) = word.literal() else {
            return Err(Unparsed::at("what it runs is not known in advance:", shell));
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
        return Err(Unparsed::at("what it runs is not known in advance:", shell));
    }
    if !takes_text {
        return Ok(at >= simple.words.len() || simple.has_short('s'));
    }
    match simple.words.get(at) {
        Some(Word::Literal(text)) => sink.nested(text, &format!("{shell} -c")).map(|()| false),
        _ => Err(Unparsed::at(
            "what it runs is not known in advance:",
            &format!("{shell} -c"),
        )),
    }
}

/// Whether the script is a stream such as `/dev/stdin` or `/proc/self/fd/0`, not a file.
fn reads_stream(simple: &Simple) -> bool {
    simple
        .operand()
        .is_some_and(|path| path.starts_with("/dev/") || path.starts_with("/proc/"))
}

fn trap(simple: &Simple, sink: &mut Sink) -> Parsed {
    let words = match simple.arguments() {
        [Word::Literal(dashes), rest @ ..] if dashes == "--" => rest,
        words => words,
    };
    match words {
        [] | [_] => Ok(()),
        [Word::Literal(text), ..] if text.starts_with('-') || text.is_empty() => Ok(()),
        [Word::Literal(text), ..] => sink.nested(text, "trap"),
        _ => Err(Unparsed::at(
            "what it runs is not known in advance:",
            "trap",
        )),
    }
}

/// Handles `watch`, which passes its words to a shell unless `-x` is given; evaluates both cases.
fn watch(simple: &Simple, sink: &mut Sink) -> Parsed<bool> {
    let shape = shape("watch").unwrap_or(PLAIN);
    let (start, _) = skip_options(simple, "watch", &shape)?;
    if start < simple.words.len() {
        sink.nested(&literal_text(&simple.words[start..], "watch")?, "watch")?;
    }
    Ok(false)
}

/// Handles `find … -exec command ;`, which may occur more than once.
fn find(simple: &Simple, index: usize, sink: &mut Sink) -> Parsed<bool> {
    let words = simple.arguments();
    let mut at = 0;
    while at < words.len() {
        match &words[at] {
            // An expansion can produce several words such as `-exec`; globs and braces produce only names.
            Word::Dynamic(text) if text.contains(['$', '`', '{']) => {
                return Err(Unparsed::at(
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
                    .position(|word| word.literal() == Some(";") || word.literal() == Some("+"))
                    .ok_or_else(|| Unparsed::at("unterminated command of", text))?;
                let mut inner = rest[..length].to_vec();
                hide(&mut inner, "{}");
                run(inner, &format!("find {text}"), Vec::new(), index, sink)?;
                at += length + 1;
            }
            _ => {}
        }
        at += 1;
    }
    Ok(false)
}
