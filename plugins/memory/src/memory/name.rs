//! Validation of names of memory files: short relative paths that end in `.md`.

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::inline;

use super::invalid;

const MOST_CHARS: usize = 128;
pub const MOST_LEVELS: usize = 3;

/// `given` in stored form: without `./`, with `.md`.
pub fn checked(given: &str) -> Result<String> {
    let refuse = |reason: &str| {
        let shown = inline(given, MOST_CHARS);
        let advice = "use a name such as `release.md` or `api/errors.md`";
        Err(invalid(format!("{shown:?} is not a valid memory file: {reason}")).recommend(advice))
    };
    let name = given.trim();
    let name = name.strip_prefix("./").unwrap_or(name);
    if name.starts_with(['/', '~']) || name.contains(['\\', ':']) {
        return refuse("it must be a relative path, with `/` between names");
    }
    // Two names that look the same would be different files.
    let combines = |letter| matches!(letter, '\u{300}'..='\u{36f}' | '\u{fe0e}' | '\u{fe0f}');
    if inline(name, usize::MAX) != name || name.chars().any(combines) {
        return refuse("it contains an invisible or combining character");
    }
    let parts: Vec<&str> = name.split('/').collect();
    // Excludes `..` and hidden files of other programs.
    if parts
        .iter()
        .any(|part| part.trim().is_empty() || part.starts_with('.'))
    {
        return refuse("its names must not be empty or start with a dot");
    }
    if parts.len() > MOST_LEVELS {
        return refuse("it must be at most two directories deep");
    }
    let last = parts.last().copied().unwrap_or_default();
    let name = match last.rsplit_once('.') {
        None => format!("{name}.md"),
        Some((_, "md")) => name.to_owned(),
        Some(_) => return refuse("it must end in `.md`"),
    };
    if name.chars().count() > MOST_CHARS {
        return refuse("it is longer than 128 characters");
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use toolhost_fuzz_input::assembled;

    use super::*;

    const FRAGMENTS: &[&str] = &[
        "/",
        "./",
        "../",
        "..",
        ".",
        "~",
        "\\",
        ":",
        ".md",
        ".MD",
        ".txt",
        " ",
        "\n",
        "\0",
        "a",
        "é",
        "\u{202e}",
        "\u{2028}",
        "MEMORY.md",
    ];

    /// An accepted name is a plain relative path and normalizes to itself.
    #[test]
    fn fuzz_name() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let given = assembled(bytes, FRAGMENTS);
            match checked(&given) {
                Err(error) => assert!(error.message.len() < 2_000),
                Ok(name) => {
                    assert_eq!(name.rsplit('.').next(), Some("md"));
                    assert!(name.split('/').count() <= MOST_LEVELS);
                    assert!(!name.split('/').any(|part| part.starts_with('.')), "{name}");
                    assert_eq!(checked(&name).unwrap(), name);
                }
            }
        });
    }

    #[test]
    fn names() {
        for (given, stored) in [
            ("a.md", "a.md"),
            (" ./a/b ", "a/b.md"),
            ("MEMORY.md", "MEMORY.md"),
            ("ä ö.md", "ä ö.md"),
        ] {
            assert_eq!(checked(given).unwrap(), stored);
        }
        let long = "x".repeat(128);
        for given in [
            "",
            " ",
            "/etc/passwd.md",
            "~/a.md",
            "../a.md",
            "a/../../b.md",
            ".hidden.md",
            ".git/a.md",
            "a//b.md",
            "a/",
            "a\\b.md",
            "C:a.md",
            "a\0.md",
            "a\n.md",
            "a\u{202e}b.md",
            "a\u{200b}.md",
            "\u{3164}.md",
            "\u{fe0f}.md",
            "e\u{301}.md",
            "a.txt",
            "a.MD",
            "a/b/c/d.md",
            &long,
        ] {
            assert_eq!(
                checked(given).unwrap_err().code.as_deref(),
                Some("invalid_memory"),
                "{given:?}"
            );
        }
    }
}
