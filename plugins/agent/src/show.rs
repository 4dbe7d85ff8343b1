//! Helpers for untrusted text in single lines: truncation, counts and suggestions.

use toolhost_sdk::text::inline;

/// The first `most` characters and the number of omitted ones.
pub fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => {
            let left = text[end..].chars().count();
            format!("{}… [+{left} characters]", &text[..end])
        }
    }
}

/// `a, b, c and 4 more`
pub fn names<'a>(names: impl IntoIterator<Item = &'a str>, most: usize) -> String {
    let names: Vec<String> = names.into_iter().map(|name| inline(name, 64)).collect();
    let shown = names[..names.len().min(most)].join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        left => format!("{shown} and {left} more"),
    }
}

/// `1 task`, `2 tasks`
pub fn count(number: usize, word: &str) -> String {
    match number {
        1 => format!("1 {word}"),
        _ => format!("{number} {word}s"),
    }
}

/// The most similar entry of `known`.
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
    fn omitted_characters_are_counted() {
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöü", 1), "ä… [+2 characters]");
    }

    #[test]
    fn names_and_numbers() {
        assert_eq!(names(["a", "b", "c"], 2), "a, b and 1 more");
        assert_eq!(
            (count(1, "task"), count(0, "task")),
            ("1 task".to_owned(), "0 tasks".to_owned())
        );
        assert_eq!(nearest("comit", ["review", "commit"]), Some("commit"));
        assert_eq!(nearest("xyz", ["review", "commit"]), None);
    }
}
