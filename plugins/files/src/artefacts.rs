//! Finds what a model writes into a file by mistake: a phrase that stands for code it left out, and what only the
//! output of `read_file` has. Either would destroy a file while looking like a success.

use std::path::Path;

use toolhost_sdk::prelude::*;

/// What begins a comment, longest first where one is the beginning of another.
const MARKERS: &[&str] = &[
    "<!--", "{/*", "/**", "/*", "///", "//", "--", "#", ";;", ";", "%", "*", "\"\"\"", "[", "(",
];
const CLOSERS: &[&str] = &["-->", "*/}", "*/", "\"\"\"", "]", ")"];
/// How a line begins that stands for what was left out.
const PHRASES: &[&str] = &[
    "rest of",
    "the rest of",
    "remaining",
    "the remaining",
    "existing",
    "unchanged",
    "previous code",
    "same as before",
    "same as above",
    "keep existing",
    "code omitted",
    "omitted",
    "code unchanged",
    "code remains",
    "other code",
    "other functions",
    "other methods",
    "no changes",
];
/// In prose these words are what they are.
const PROSE: &[&str] = &["adoc", "md", "markdown", "rst", "txt"];
/// An omission is a few words; a longer line is a remark.
const MOST_WORDS: usize = 10;

/// Refuses `content` for the file `path` if it has something that can only be there by mistake. What was in `old`
/// already is no mistake.
pub fn check(content: &str, old: &str, path: &Path) -> Result<()> {
    let is_prose = path.extension().is_some_and(|extension| {
        PROSE.contains(&extension.to_string_lossy().to_lowercase().as_str())
    });
    let is_new = |line: &str| !old.lines().any(|known| known.trim() == line.trim());
    let mut numbered = 0;
    let mut lines = 0;
    for (index, line) in content.lines().enumerate() {
        let refuse = |what: &str, advice: &str| {
            let line_number = index + 1;
            let message = format!(
                "line {line_number} of `content` is {what}: {:?}; {advice}",
                shorten(line.trim())
            );
            Err(Error::invalid_input(message).code("content_has_artefacts"))
        };
        if !is_prose && is_omission(line) && is_new(line) {
            return refuse("a placeholder for left-out text", "write the whole content");
        }
        if is_notice(line) && is_new(line) {
            return refuse(
                "a notice of read_file and not of the file",
                "leave it out and write the whole content",
            );
        }
        if !line.trim().is_empty() {
            lines += 1;
            numbered += usize::from(is_numbered(line) && is_new(line));
        }
    }
    // One such line may be the topic of a file; when most are, the output of a tool was pasted.
    if numbered > 0 && numbered * 2 > lines {
        let message = format!(
            "{numbered} of {lines} lines of `content` begin with a line number and an arrow, which \
             read_file shows and the file does not have; leave them out"
        );
        return Err(Error::invalid_input(message).code("content_has_artefacts"));
    }
    Ok(())
}

/// Nothing but a comment marker, a known phrase and dots.
fn is_omission(line: &str) -> bool {
    let line = line.trim();
    if !line.contains("...") && !line.contains('…') {
        return false;
    }
    let marked = MARKERS.iter().find_map(|marker| line.strip_prefix(marker));
    let text = marked.unwrap_or(line);
    let text = CLOSERS
        .iter()
        .find_map(|closer| text.strip_suffix(closer))
        .unwrap_or(text)
        .trim();
    let leads = text.starts_with("...") || text.starts_with('…');
    if marked.is_none() && !leads {
        return false;
    }
    let words = text.trim_matches(|c: char| {
        matches!(c, '.' | '…' | '(' | ')' | '[' | ']') || c.is_whitespace()
    });
    let words = words.to_lowercase();
    words.split_whitespace().count() <= MOST_WORDS
        && PHRASES.iter().any(|phrase| words.starts_with(phrase))
}

/// What `read_file` adds after a page, or where it cuts a line.
fn is_notice(line: &str) -> bool {
    let line = line.trim();
    (line.starts_with("(showing lines ") && line.contains("to go on: read_file"))
        || line.rsplit_once("… [+").is_some_and(|(_, rest)| {
            rest.strip_suffix(" chars]")
                .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        })
}

/// `     1→like this`
fn is_numbered(line: &str) -> bool {
    line.trim_start()
        .split_once('→')
        .is_some_and(|(number, _)| {
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        })
}

fn shorten(line: &str) -> String {
    match line.char_indices().nth(60) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(content: &str, old: &str, path: &str, expected: Expect) {
        let answer = super::check(content, old, Path::new(path));
        expected.assert_eq(
            &answer
                .err()
                .map_or_else(|| "fine".to_owned(), |error| error.to_string()),
        );
    }

    #[test]
    fn a_phrase_for_left_out_code_is_refused() {
        check(
            "fn a() {}\n// ... existing code ...\n",
            "",
            "a.rs",
            expect![[
                r#"line 2 of `content` is a placeholder for left-out text: "// ... existing code ..."; write the whole content"#
            ]],
        );
        check(
            "a = 1\n# rest of the file unchanged...\n",
            "",
            "a.py",
            expect![[
                r##"line 2 of `content` is a placeholder for left-out text: "# rest of the file unchanged..."; write the whole content"##
            ]],
        );
        check(
            "<p>\n<!-- ... remaining sections ... -->\n",
            "",
            "a.html",
            expect![[
                r#"line 2 of `content` is a placeholder for left-out text: "<!-- ... remaining sections ... -->"; write the whole content"#
            ]],
        );
        check(
            "{\n  /* … unchanged … */\n}",
            "",
            "a.json",
            expect![[
                r#"line 2 of `content` is a placeholder for left-out text: "/* … unchanged … */"; write the whole content"#
            ]],
        );
        check(
            "(a)\n... rest of the code ...\n",
            "",
            "a.lisp",
            expect![[
                r#"line 2 of `content` is a placeholder for left-out text: "... rest of the code ..."; write the whole content"#
            ]],
        );
    }

    #[test]
    fn the_phrases_of_other_systems_are_known() {
        for line in [
            "(rest of methods ...)",
            "// rest of code ...",
            "// (unchanged methods ...)",
            "# ... other methods stay as they are ...",
            "// ... code remains the same ...",
        ] {
            assert!(is_omission(line), "{line}");
        }
        for line in ["(rest list)", "f(rest...)", "(unless ...)", "foo(...)"] {
            assert!(!is_omission(line), "{line}");
        }
    }

    #[test]
    fn what_only_looks_like_one_is_fine() {
        check(
            "// ... existing code ...\n",
            "x\n  // ... existing code ...\n",
            "a.rs",
            expect!["fine"],
        );
        check("# Rest of the story ...\n", "", "a.md", expect!["fine"]);
        check(
            "// loading...\nprint(\"existing ...\")\n",
            "",
            "a.js",
            expect!["fine"],
        );
        check(
            "// rest of the arguments\nfn f(...args) {}\n",
            "",
            "a.js",
            expect!["fine"],
        );
        let remark = "// existing callers hand over a list of names and we must not break them by asking for more...\n";
        check(remark, "", "a.js", expect!["fine"]);
    }

    #[test]
    fn output_of_read_file_is_refused() {
        check(
            "     1→fn a() {}\n     2→\n",
            "",
            "a.rs",
            expect![
                "2 of 2 lines of `content` begin with a line number and an arrow, which read_file shows and the file does not have; leave them out"
            ],
        );
        check(
            "a\n\n(showing lines 1-1 of 2; 1 line left; to go on: read_file with …)",
            "",
            "a.md",
            expect![[
                r#"line 3 of `content` is a notice of read_file and not of the file: "(showing lines 1-1 of 2; 1 line left; to go on: read_file wi…"; leave it out and write the whole content"#
            ]],
        );
        check(
            "aaaa… [+17 chars]\n",
            "",
            "a.md",
            expect![[
                r#"line 1 of `content` is a notice of read_file and not of the file: "aaaa… [+17 chars]"; leave it out and write the whole content"#
            ]],
        );
    }

    #[test]
    fn arrows_may_be_what_a_file_is_about() {
        check("map:\n1→2\nend\n", "", "a.txt", expect!["fine"]);
        check("1→2\n2→3\n", "1→2\n2→3\n", "a.txt", expect!["fine"]);
        check("", "", "a.txt", expect!["fine"]);
    }
}
