//! Removal of text that models paste along: line numbers of `read_file` and one level of escapes.

/// `old` and `new` without line numbers, if every line of `old` has one and they ascend.
pub fn without_numbers(old: &str, new: &str) -> Option<(String, String)> {
    let mut expected = None;
    for line in old.lines().filter(|line| !line.trim().is_empty()) {
        let (number, _) = numbered(line)?;
        if expected.is_some_and(|expected| expected != number) {
            return None;
        }
        expected = Some(number + 1);
    }
    expected?;
    something(strip(old), strip(new))
}

/// White space alone would match anywhere.
fn something(old: String, new: String) -> Option<(String, String)> {
    (!old.trim().is_empty()).then_some((old, new))
}

fn strip(text: &str) -> String {
    text.split_inclusive('\n')
        .map(|line| numbered(line).map_or(line, |(_, rest)| rest))
        .collect()
}

/// The number and the line after it: `  12→line`, or with a tab.
fn numbered(line: &str) -> Option<(u64, &str)> {
    let line = line.trim_start_matches(' ');
    let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let rest = line[digits..].strip_prefix(['→', '\t'])?;
    // No file has line numbers of more than ten digits.
    let number = line.get(..digits).filter(|digits| digits.len() <= 10)?;
    Some((number.parse().ok()?, rest))
}

/// `old` and `new` with escapes such as `\n` and `\"` decoded, if `old` contains any.
pub fn without_escapes(old: &str, new: &str) -> Option<(String, String)> {
    let plain = unescape(old);
    if plain == old {
        return None;
    }
    something(plain, unescape(new))
}

fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        let mut chars = rest[at + 1..].chars();
        let known = match chars.next() {
            Some('n') => Some('\n'),
            Some('t') => Some('\t'),
            Some('r') => Some('\r'),
            Some(c @ ('\\' | '"' | '\'' | '`' | '\n')) => Some(c),
            _ => None,
        };
        if let Some(c) = known {
            plain.push(c);
            rest = chars.as_str();
        } else {
            plain.push('\\');
            rest = &rest[at + 1..];
        }
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_numbers_are_taken_away_where_every_line_has_one() {
        for (old, new, expected) in [
            (
                "    12→a\n    13→  b\n",
                "    12→c\nd\n",
                Some(("a\n  b\n", "c\nd\n")),
            ),
            ("1\ta\n\n2\tb", "c", Some(("a\n\nb", "c"))),
            ("12→a\n14→b", "c", None),
            ("12→a\nb", "c", None),
            ("→a", "c", None),
            ("99999999999→a", "c", None),
            ("\n", "c", None),
            ("1→\n2→", "c", None),
            ("a", "c", None),
        ] {
            let expected = expected.map(|(old, new)| (old.to_owned(), new.to_owned()));
            assert_eq!(without_numbers(old, new), expected, "{old:?}");
        }
    }

    #[test]
    fn one_layer_of_escapes_is_taken_away() {
        for (old, new, expected) in [
            (r#"a(\"b\");\n"#, r"c\n", Some(("a(\"b\");\n", "c\n"))),
            (r"a\\nb", r"\\d", Some((r"a\nb", r"\d"))),
            (r"\d+", "c", None),
            ("a", r"\n", None),
            ("a\\", "c", None),
            (r"\n\t", "c", None),
        ] {
            let expected = expected.map(|(old, new)| (old.to_owned(), new.to_owned()));
            assert_eq!(without_escapes(old, new), expected, "{old:?}");
        }
    }
}
