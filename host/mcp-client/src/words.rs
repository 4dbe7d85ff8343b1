//! A command as it is written on one line: words, with quotes where a word has spaces. No shell sees it.

/// `npm run 'list tools'` is three words.
pub fn split_words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('\'') => break,
                        Some(c) => word.push(c),
                        None => return Err("a `'` without its partner".to_owned()),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('"') => break,
                        Some('\\') => match chars.next() {
                            Some(c @ ('"' | '\\')) => word.push(c),
                            Some(c) => word.extend(['\\', c]),
                            None => return Err("a `\"` without its partner".to_owned()),
                        },
                        Some(c) => word.push(c),
                        None => return Err("a `\"` without its partner".to_owned()),
                    }
                }
            }
            '\\' => match chars.next() {
                Some(c) => word.get_or_insert_default().push(c),
                None => return Err("a `\\` at the end".to_owned()),
            },
            '|' | '&' | ';' | '<' | '>' | '`' => {
                return Err(format!(
                    "no shell reads it, and `{c}` would mean nothing; write a script, or quote it"
                ));
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if words.is_empty() {
        return Err("it is empty".to_owned());
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_words() {
        for (line, expected) in [
            ("npm run  list-tools", Ok(vec!["npm", "run", "list-tools"])),
            (
                r#"a 'b c' "d \"e" f\ g '' x"y"z"#,
                Ok(vec!["a", "b c", "d \"e", "f g", "", "xyz"]),
            ),
            ("", Err("it is empty")),
            ("a 'b", Err("a `'` without its partner")),
            ("a \"b", Err("a `\"` without its partner")),
            (
                "a | b",
                Err("no shell reads it, and `|` would mean nothing; write a script, or quote it"),
            ),
        ] {
            let expected = expected
                .map(|words| words.into_iter().map(str::to_owned).collect::<Vec<_>>())
                .map_err(str::to_owned);
            assert_eq!(split_words(line), expected, "{line}");
        }
    }
}
