//! Splits a line into arguments with shell quoting and no other shell syntax.

/// Splits a line of the interactive prompt. Within `"…"`, `\n` is a newline and `\t` a tab.
pub fn split_prompt_line(line: &str) -> Result<Vec<String>, String> {
    split(line, &[('n', '\n'), ('t', '\t')], "")
}

/// Splits a command of a configuration or an environment variable into program and arguments. Shell operators are
/// refused, because no shell interprets them.
pub fn split_command(line: &str) -> Result<Vec<String>, String> {
    let words = split(line, &[], "|&;<>`")?;
    if words.is_empty() {
        return Err("empty command".to_owned());
    }
    Ok(words)
}

/// `escapes` are the meanings of `\` and a letter in double quotes. `refused` are characters that must be quoted.
fn split(line: &str, escapes: &[(char, char)], refused: &str) -> Result<Vec<String>, String> {
    let unclosed = |quote: char| format!("unclosed `{quote}`");
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
                    "`{c}` has no effect without a shell; use a script, or quote it"
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
    fn words_are_split_at_unquoted_spaces() {
        for (line, words) in [
            ("", vec![]),
            ("  a  b ", vec!["a", "b"]),
            ("k='a b' l=\"c d\"", vec!["k=a b", "l=c d"]),
            (r#"k="say \"hi\"\n" e=''"#, vec!["k=say \"hi\"\n", "e="]),
            (r"a\ b '\d+' c\\", vec!["a b", r"\d+", r"c\"]),
            (r#"k="\d""#, vec![r"k=\d"]),
            ("k=a|b", vec!["k=a|b"]),
        ] {
            assert_eq!(split_prompt_line(line).unwrap(), words, "{line}");
        }
        for line in ["k='a", "k=\"a", "a\\"] {
            assert!(split_prompt_line(line).is_err(), "{line}");
        }
    }

    #[test]
    fn shell_operators_in_a_command_are_errors() {
        for (line, expected) in [
            ("npm run  list-tools", Ok(vec!["npm", "run", "list-tools"])),
            (
                r#"a 'b c' "d \"e\n" f\ g '' x"y"z"#,
                Ok(vec!["a", "b c", r#"d "e\n"#, "f g", "", "xyz"]),
            ),
            ("grep 'a|b'", Ok(vec!["grep", "a|b"])),
            ("", Err("empty command")),
            ("a 'b", Err("unclosed `'`")),
            ("a \"b\\", Err("unclosed `\"`")),
            (
                "a | b",
                Err("`|` has no effect without a shell; use a script, or quote it"),
            ),
        ] {
            let expected = expected
                .map(|words| words.into_iter().map(str::to_owned).collect::<Vec<_>>())
                .map_err(str::to_owned);
            assert_eq!(split_command(line), expected, "{line}");
        }
    }
}
