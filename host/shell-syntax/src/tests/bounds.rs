//! Tests of limits: hostile texts cause no stack overflow, no panic and no excessive work.

use super::*;

/// Parses on a stack as small as that of a host thread; an overflow aborts the test run.
fn on_a_small_stack(text: String) -> Result<usize, String> {
    std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(move || {
            parse(&text)
                .map(|script| script.commands.len())
                .map_err(|unparsed| unparsed.reason)
        })
        .expect("a thread")
        .join()
        .expect("no panic")
}

/// Kinds of nesting: the text that opens a level and the one that closes it.
const NESTS: &[(&str, &str)] = &[
    ("(", ")"),
    ("{ ", ";}"),
    ("$(", ")"),
    ("\"$(", ")\""),
    ("echo $(", ")"),
    ("${x:-", "}"),
    ("<(", ")"),
    ("a <(", ")"),
    ("`", "`"),
    ("if ", ";then a;fi"),
    ("while ", ";do a;done"),
    ("for x in y;do ", ";done"),
    ("case x in x)", ";;esac"),
    ("f()(", ")"),
    ("f(){ ", ";}"),
    ("function f { ", ";}"),
    ("x=$(", ")"),
    ("x=(", ")"),
    ("$((", "))"),
    ("$[", "]"),
    ("[[ ", " ]]"),
    ("sudo ", ""),
    ("eval ", ""),
    ("env A=", ""),
    ("xargs ", ""),
    ("find . -exec ", " ;"),
    ("time ", ""),
    ("! ", ""),
    ("bash -c ", ""),
    ("cat <<E\n$(", ")\nE\n"),
    ("cat <<E\n", "\nE\n"),
    ("${x:-\"", "\"}"),
    ("\"${x:-", "}\""),
    ("a|", ""),
    ("a&&", ""),
    ("a;", ""),
    ("a\n", ""),
    ("\\\n", ""),
    ("'", "'"),
    ("\"", "\""),
    ("{", "}"),
    ("[", "]"),
    ("a <<", ""),
    ("<", ""),
    (">", ""),
    ("$", ""),
    ("~", ""),
    ("\\", ""),
    ("a=(", ")"),
];

#[test]
fn nesting_of_every_kind_fits_a_small_stack() {
    for (open, close) in NESTS {
        for levels in [
            1,
            MAX_SCRIPTS,
            MAX_DEPTH - 1,
            MAX_DEPTH,
            MAX_DEPTH + 1,
            200,
            2000,
            MAX_BYTES,
        ] {
            for core in ["x", "", "'"] {
                let levels = levels.min(MAX_BYTES / (open.len() + close.len()));
                let text = format!("{}{core}{}", open.repeat(levels), close.repeat(levels));
                // The result does not matter here.
                let _ = on_a_small_stack(text);
                let _ = on_a_small_stack(open.repeat(levels));
            }
        }
    }
}

#[test]
fn the_deepest_mixtures_fit_the_stack() {
    let mix = "if a \"${x:-$(b <(c `d ";
    for levels in 1..=MAX_DEPTH {
        let _ = on_a_small_stack(mix.repeat(levels));
    }
    assert_eq!(
        on_a_small_stack(format!(
            "{}a{}",
            "( ".repeat(MAX_DEPTH),
            ")".repeat(MAX_DEPTH)
        )),
        Ok(1)
    );
    assert_eq!(
        on_a_small_stack(format!(
            "{}a{}",
            "echo \"$(".repeat(MAX_DEPTH),
            ")\"".repeat(MAX_DEPTH)
        )),
        Ok(MAX_DEPTH + 1)
    );
    let deeper = MAX_DEPTH + 1;
    assert_eq!(
        on_a_small_stack(format!("{}a{}", "( ".repeat(deeper), ")".repeat(deeper))),
        Err("it is nested more than 32 levels deep".to_owned())
    );
}

#[test]
fn limits_are_exact() {
    let commands = |count: usize| "a;".repeat(count);
    assert_eq!(on_a_small_stack(commands(MAX_COMMANDS)), Ok(MAX_COMMANDS));
    assert_eq!(
        on_a_small_stack(commands(MAX_COMMANDS + 1)),
        Err("it contains more than 500 commands".to_owned())
    );
    assert_eq!(on_a_small_stack("a".repeat(MAX_BYTES)), Ok(1));
    assert_eq!(
        on_a_small_stack("a".repeat(MAX_BYTES + 1)),
        Err("it is 16385 bytes long (at most 16384)".to_owned())
    );
    assert_eq!(on_a_small_stack("eval eval eval eval ls".to_owned()), Ok(5));
    assert_eq!(
        on_a_small_stack("eval eval eval eval eval ls".to_owned()),
        Err("a shell starts a shell more than 4 times".to_owned())
    );
    assert_eq!(
        on_a_small_stack(";".repeat(10_000)),
        Err("unexpected `;`".to_owned())
    );
    assert_eq!(
        on_a_small_stack(format!("ls {}", "x ".repeat(8_000))),
        Ok(1)
    );
    assert_eq!(
        on_a_small_stack(format!("{}ls", "sudo ".repeat(MAX_DEPTH))),
        Ok(MAX_DEPTH + 1)
    );
}

/// Parses every short text over the special characters, and a sequence of longer ones.
#[test]
fn no_text_makes_the_parser_panic() {
    let alphabet: Vec<char> = "a \n;&|<>(){}[]$`'\"\\#~!*=-1E\t\u{a0}é".chars().collect();
    for a in &alphabet {
        for b in &alphabet {
            for c in &alphabet {
                let _ = parse(&[*a, *b, *c].iter().collect::<String>());
            }
        }
    }
    let pieces = [
        "a", " ", "\n", ";", "&", "|", "<", ">", "(", ")", "{", "}", "$", "`", "'", "\"", "\\",
        "#", "~", "if ", "then ", "fi", "do ", "done", "case ", "in ", "esac", "for ", "x", "=",
        "<<", "E", "\nE\n", "$(", "${", "((", "))", "sudo ", "bash -c ", "eval ", "find ",
        "-exec ", "xargs ", "-I", "{}", "[", "]", "[[ ", "2>", "&>", "\\\n", "$'", "é", "f()",
        "trap ", "watch ", "env ", "A=",
    ];
    // A fixed sequence, so that failures are reproducible.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).expect("31 bits")
    };
    for _ in 0..60_000 {
        let length = 1 + next() % 14;
        let text: String = (0..length).map(|_| pieces[next() % pieces.len()]).collect();
        if let Ok(script) = parse(&text) {
            let _ = (is_read_only(&script), describe_danger(&script));
            for command in &script.commands {
                let _ = (approval_prefix(command), command.text(), command.program());
            }
        }
    }
}
