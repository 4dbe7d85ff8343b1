//! A line → words, with the quotes of a shell and nothing else of a shell.

/// What a person types at the prompt. In `"…"` a `\n` is the end of a line and a `\t` a tab.
pub fn typed(line: &str) -> Result<Vec<String>, String> {
    split(line, &[('n', '\n'), ('t', '\t')], "")
}

/// A program and its arguments, as a configuration or a variable has them on one line. What only a shell could obey is
/// refused, since none reads it.
pub fn command(line: &str) -> Result<Vec<String>, String> {
    let words = split(line, &[], "|&;<>`")?;
    if words.is_empty() {
        return Err("it is empty".to_owned());
    }
    Ok(words)
}

/// `escapes`: what a `\` and a letter are in double quotes. `refused`: what may stand in quotes only.
fn split(line: &str, escapes: &[(char, char)], refused: &str) -> Result<Vec<String>, String> {
    let unclosed = |quote: char| format!("a `{quote}` is never closed");
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next().ok_or_else(|| unclosed('\''))? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next().ok_or_else(|| unclosed('"'))? {
                        '"' => break,
                        '\\' => {
                            let c = chars.next().ok_or_else(|| unclosed('"'))?;
                            let escape = escapes.iter().find(|(letter, _)| *letter == c);
                            match (c, escape) {
                                ('"' | '\\', _) => word.push(c),
                                (_, Some((_, meant))) => word.push(*meant),
                                (_, None) => word.extend(['\\', c]),
                            }
                        }
                        c => word.push(c),
                    }
                }
            }
            '\\' => {
                let c = chars.next().ok_or("the line ends in a `\\`")?;
                word.get_or_insert_default().push(c);
            }
            c if refused.contains(c) => {
                return Err(format!(
                    "no shell reads it, and `{c}` would mean nothing; write a script, or quote it"
                ));
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_at_spaces_that_are_not_quoted() {
        for (line, words) in [
            ("", vec![]),
            ("  a  b ", vec!["a", "b"]),
            ("k='a b' l=\"c d\"", vec!["k=a b", "l=c d"]),
            (r#"k="say \"hi\"\n" e=''"#, vec!["k=say \"hi\"\n", "e="]),
            (r"a\ b '\d+' c\\", vec!["a b", r"\d+", r"c\"]),
            (r#"k="\d""#, vec![r"k=\d"]),
            ("k=a|b", vec!["k=a|b"]),
        ] {
            assert_eq!(typed(line).unwrap(), words, "{line}");
        }
        for line in ["k='a", "k=\"a", "a\\"] {
            assert!(typed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_command_asks_nothing_of_a_shell() {
        for (line, expected) in [
            ("npm run  list-tools", Ok(vec!["npm", "run", "list-tools"])),
            (
                r#"a 'b c' "d \"e\n" f\ g '' x"y"z"#,
                Ok(vec!["a", "b c", r#"d "e\n"#, "f g", "", "xyz"]),
            ),
            ("grep 'a|b'", Ok(vec!["grep", "a|b"])),
            ("", Err("it is empty")),
            ("a 'b", Err("a `'` is never closed")),
            ("a \"b\\", Err("a `\"` is never closed")),
            (
                "a | b",
                Err("no shell reads it, and `|` would mean nothing; write a script, or quote it"),
            ),
        ] {
            let expected = expected
                .map(|words| words.into_iter().map(str::to_owned).collect::<Vec<_>>())
                .map_err(str::to_owned);
            assert_eq!(command(line), expected, "{line}");
        }
    }
}
