//! A line of the prompt → words, with the quotes of a shell and nothing else of a shell.

/// A quote that is never closed is an error; nothing is expanded.
pub fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('\'') => break,
                        Some(c) => word.push(c),
                        None => return Err("a `'` is never closed".to_owned()),
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
                            Some('n') => word.push('\n'),
                            Some('t') => word.push('\t'),
                            Some(c) => word.extend(['\\', c]),
                            None => return Err("a `\"` is never closed".to_owned()),
                        },
                        Some(c) => word.push(c),
                        None => return Err("a `\"` is never closed".to_owned()),
                    }
                }
            }
            '\\' => match chars.next() {
                Some(c) => word.get_or_insert_default().push(c),
                None => return Err("the line ends in a `\\`".to_owned()),
            },
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
        ] {
            assert_eq!(split(line).unwrap(), words, "{line}");
        }
        for line in ["k='a", "k=\"a", "a\\"] {
            assert!(split(line).is_err(), "{line}");
        }
    }
}
