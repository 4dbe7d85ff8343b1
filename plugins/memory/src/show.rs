//! Texts of others in a line of our own: escaped, cut, counted.

/// One line of at most `most` characters, without control characters.
pub fn inline(text: &str, most: usize) -> String {
    let mut line = String::new();
    for (count, letter) in text.trim().chars().enumerate() {
        if count == most {
            line.push('…');
            break;
        }
        match letter {
            '\n' | '\r' | '\t' => line.push(' '),
            letter if letter.is_control() || is_invisible(letter) => {
                line.extend(letter.escape_unicode());
            }
            letter => line.push(letter),
        }
    }
    line
}

/// What turns the direction of a text or takes no room in it can make a reader see another text.
fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// `1 task`, `2 tasks`
pub fn count(number: usize, word: &str) -> String {
    match number {
        1 => format!("1 {word}"),
        _ => format!("{number} {word}s"),
    }
}

/// The one of `known` that `word` was probably meant to be.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&word, &name.to_lowercase()), name))
        .filter(|(likeness, _)| *likeness >= 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line() {
        assert_eq!(inline(" a\nb\u{1b}c\u{202e} ", 20), "a b\\u{1b}c\\u{202e}");
        assert_eq!(inline("äöü", 2), "äö…");
    }

    #[test]
    fn numbers_and_names() {
        assert_eq!(
            (count(1, "file"), count(0, "file")),
            ("1 file".to_owned(), "0 files".to_owned())
        );
        assert_eq!(
            nearest("relase.md", ["api.md", "release.md"]),
            Some("release.md")
        );
        assert_eq!(nearest("xyz", ["api.md"]), None);
    }
}
