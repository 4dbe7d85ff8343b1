//! Helpers for messages: counts and suggestions.

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
