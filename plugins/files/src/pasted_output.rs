//! Detection of text that a model writes to a file by mistake: placeholders for omitted code, and line numbers or
//! notices from the output of `read_file`. Both destroy a file while the call succeeds.
//!
//! Files about this program contain such lines on purpose. Output of `read_file` is therefore refused only if this
//! session was shown it or all of the content is such output; otherwise the result contains a warning.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::path::Path;

use toolhost_sdk::prelude::*;

use crate::path::Target;
use crate::read::sha256;

/// Comment openers; a longer one precedes its prefixes.
const MARKERS: &[&str] = &[
    "<!--", "{/*", "/**", "/*", "///", "//", "--", "#", ";;", ";", "%", "*", "\"\"\"", "[", "(",
];
const CLOSERS: &[&str] = &["-->", "*/}", "*/", "\"\"\"", "]", ")"];
/// Prefixes of placeholder lines.
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
/// Extensions of prose files, in which these phrases are ordinary text.
const PROSE: &[&str] = &["adoc", "md", "markdown", "rst", "txt"];
/// A longer line is a remark, not a placeholder.
const MOST_WORDS: usize = 10;

/// Lines that look like output of `read_file`. [`reject_pasted`] checks whether this session was shown them, because a file may
/// contain such lines.
#[derive(Debug, Default)]
pub struct SuspectLines {
    /// Line number and text of each line that looks like a notice.
    notices: Vec<(usize, String)>,
    /// Number of lines that start with a line number and an arrow, and of all lines, if they are the majority.
    numbered: Option<(usize, usize)>,
    /// Most of them are lines of the old file with their own numbers.
    is_numbered_copy: bool,
    /// Every line begins like in a result of `read_file`, with numbers in order.
    is_listing: bool,
}

/// Refuses `content` for the file `path` if it contains a placeholder for omitted text that is not in `known`. `file`
/// is the current text of the whole file.
pub fn check(content: &str, known: &str, file: &str, path: &Path) -> Result<SuspectLines> {
    let is_prose = path.extension().is_some_and(|extension| {
        PROSE.contains(&extension.to_string_lossy().to_lowercase().as_str())
    });
    let is_new = |line: &str| !known.lines().any(|known| known.trim() == line.trim());
    let mut lines = content.lines().enumerate();
    let omission = lines.find(|(_, line)| !is_prose && is_omission(line) && is_new(line));
    if let Some((index, line)) = omission {
        return Err(refused(format!(
            "line {} of `content` is a placeholder for omitted text: {:?}; write the whole content",
            index + 1,
            shorten(line.trim())
        )));
    }
    Ok(suspects(content, known, file))
}

/// The parts of `content` that look like output of `read_file` and are not in `known`.
pub fn suspects(content: &str, known: &str, file: &str) -> SuspectLines {
    let known_lines: OnceCell<HashSet<&str>> = OnceCell::new();
    let is_new = |line: &str| {
        let known = known_lines.get_or_init(|| known.lines().map(str::trim).collect());
        !known.contains(line.trim())
    };
    let mut suspects = SuspectLines::default();
    let mut numbered = Vec::new();
    let mut lines = 0;
    for (index, line) in content.lines().enumerate() {
        if is_notice(line) && suspects.notices.len() < MOST_NOTICES && is_new(line) {
            suspects.notices.push((index + 1, line.to_owned()));
        }
        if !line.trim().is_empty() {
            lines += 1;
            numbered.extend(number(line).filter(|_| is_new(line)));
        }
    }
    // A single such line can be intended; a majority is pasted tool output.
    if !numbered.is_empty() && numbered.len() * 2 > lines {
        suspects.numbered = Some((numbered.len(), lines));
        let file: Vec<&str> = file.lines().collect();
        let copied = numbered.iter().filter(|(number, text)| {
            let line = number.checked_sub(1).and_then(|index| file.get(index));
            line.is_some_and(|line| line.trim_end() == text.trim_end())
        });
        suspects.is_numbered_copy = copied.count() * 2 > numbered.len();
        suspects.is_listing =
            numbered.len() == content.lines().count() && is_listing(content, numbered[0].0);
    }
    suspects
}

/// Refuses text that this session was shown, and returns a warning for text that only looks like it. `parameter` is its
/// name in messages.
pub fn reject_pasted(
    cx: &Context,
    target: &Target,
    suspects: &SuspectLines,
    parameter: &str,
) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    let shown = if suspects.notices.is_empty() {
        Vec::new()
    } else {
        shown(cx)
    };
    for (line, text) in &suspects.notices {
        let notice = format!("line {line} of {parameter} is a notice of read_file");
        let quoted = shorten(text.trim());
        if shown.contains(&fingerprint(text)) {
            return Err(refused(format!(
                "{notice}, not file content: {quoted:?}; remove it and write the whole content"
            )));
        }
        warnings.push(format!(
            "line {line} of {parameter} looks like a notice of read_file and was written unchanged: {quoted:?}"
        ));
    }
    if let Some((numbered, lines)) = suspects.numbered {
        let many = format!(
            "{numbered} of {lines} lines of {parameter} begin with a line number and an arrow"
        );
        let is_seen = || {
            let path = target.path.display().to_string();
            cx.last_observation(&path).ok().flatten().is_some()
        };
        if suspects.is_numbered_copy && is_seen() {
            return Err(refused(format!(
                "{many}, which read_file adds and the file does not contain; remove them"
            )));
        }
        if suspects.is_listing {
            return Err(refused(format!(
                "{many}, which read_file adds; remove them, or in tool_chain use `${{steps.N.structured.content}}`"
            )));
        }
        warnings.push(format!(
            "{many}, like output of read_file; they were written unchanged"
        ));
    }
    Ok(warnings)
}

/// Appends one line per warning.
pub fn append_warnings(text: &mut String, warnings: &[String]) {
    for warning in warnings {
        text.push_str("\nwarning: ");
        text.push_str(warning);
    }
}

/// The warnings as an optional output member, absent if empty.
pub fn output_member(warnings: &[String]) -> Option<Vec<String>> {
    (!warnings.is_empty()).then(|| warnings.to_vec())
}

fn refused(message: String) -> Error {
    Error::invalid_input(message).code("content_has_artefacts")
}

/// Limit of notices checked per content.
const MOST_NOTICES: usize = 20;
/// Limit of notices remembered per session.
const MOST_SHOWN: usize = 500;
/// Session key for the fingerprints of notices that were shown.
const SHOWN: &str = "shown_notices";

/// Remembers notices and cut lines that the model is about to be shown and that are not part of the file. Stores
/// nothing for pages without any.
pub fn remember_notices(cx: &Context, notices: &[String]) {
    let new: Vec<String> = notices
        .iter()
        .filter(|line| is_notice(line))
        .take(MOST_SHOWN)
        .map(|line| fingerprint(line))
        .collect();
    if new.is_empty() {
        return;
    }
    let mut known = shown(cx);
    known.retain(|known| !new.contains(known));
    known.extend(new);
    let from = known.len().saturating_sub(MOST_SHOWN);
    // A host without session state must not prevent reading.
    if let Err(error) = cx.remember(SHOWN, &known[from..].to_vec()) {
        cx.debug(&format!("notices not noted as shown: {error}"));
    }
}

fn shown(cx: &Context) -> Vec<String> {
    cx.recall(SHOWN).ok().flatten().unwrap_or_default()
}

/// Fingerprint of a line without its line number and surrounding white space.
fn fingerprint(line: &str) -> String {
    let line = line.trim();
    let line = number(line).map_or(line, |(_, text)| text);
    let mut hash = sha256(line.trim().as_bytes());
    hash.truncate(16);
    hash
}

/// Whether the line consists only of a comment marker, a known phrase and dots.
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
    let normalized = text.trim_matches(|c: char| {
        matches!(c, '.' | '…' | '(' | ')' | '[' | ']') || c.is_whitespace()
    });
    let normalized = normalized.to_lowercase();
    normalized.split_whitespace().count() <= MOST_WORDS
        && PHRASES.iter().any(|phrase| normalized.starts_with(phrase))
}

/// Whether the line is a notice that `read_file` adds after a page or at a cut line.
fn is_notice(line: &str) -> bool {
    let line = line.trim();
    (line.starts_with("(showing lines ") && line.contains("to go on: read_file"))
        || line.rsplit_once("… [+").is_some_and(|(_, rest)| {
            rest.strip_suffix(" chars]")
                .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        })
}

/// Splits `     1→text` into number and line.
fn number(line: &str) -> Option<(usize, &str)> {
    let (number, text) = line.trim_start().split_once('→')?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    Some((number.parse().ok().filter(|_| is_number)?, text))
}

/// Whether the lines have the numbers from `first` on, in the form of `read_file`. A single line with another number can
/// be intended.
fn is_listing(content: &str, first: usize) -> bool {
    let mut lines = content.lines().zip(first..);
    let is_numbered = |(line, number): (&str, usize)| line.starts_with(&format!("{number:>6}→"));
    (first == 1 || content.lines().nth(1).is_some()) && lines.all(is_numbered)
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
    use crate::path::resolve;
    use crate::testing::Workspace;

    fn check(content: &str, old: &str, path: &str, expected: Expect) {
        let answer = super::check(content, old, old, Path::new(path));
        expected.assert_eq(&match answer {
            Ok(_) => "fine".to_owned(),
            Err(error) => error.to_string(),
        });
    }

    /// Checks `content` in a session that was shown `notice` and has read `a.txt`.
    fn check_shown(content: &str, old: &str, notice: &str, expected: Expect) {
        let workspace = Workspace::new(&[("a.txt", old)]);
        let cx = workspace.cx();
        let target = resolve(&cx, "a.txt").unwrap();
        cx.record_observation(&target.path.display().to_string(), "0", None)
            .unwrap();
        remember_notices(&cx, &[notice.to_owned()]);
        let suspects = super::check(content, old, old, &target.path).unwrap();
        let answer = reject_pasted(&cx, &target, &suspects, "`content`");
        expected.assert_eq(&match answer {
            Ok(warnings) if warnings.is_empty() => "fine".to_owned(),
            Ok(warnings) => format!("warning: {}", warnings.join("\nwarning: ")),
            Err(error) => error.to_string(),
        });
    }

    #[test]
    fn a_phrase_for_left_out_code_is_refused() {
        check(
            "fn a() {}\n// ... existing code ...\n",
            "",
            "a.rs",
            expect![[
                r#"line 2 of `content` is a placeholder for omitted text: "// ... existing code ..."; write the whole content"#
            ]],
        );
        check(
            "a = 1\n# rest of the file unchanged...\n",
            "",
            "a.py",
            expect![[
                r##"line 2 of `content` is a placeholder for omitted text: "# rest of the file unchanged..."; write the whole content"##
            ]],
        );
        check(
            "<p>\n<!-- ... remaining sections ... -->\n",
            "",
            "a.html",
            expect![[
                r#"line 2 of `content` is a placeholder for omitted text: "<!-- ... remaining sections ... -->"; write the whole content"#
            ]],
        );
        check(
            "{\n  /* … unchanged … */\n}",
            "",
            "a.json",
            expect![[
                r#"line 2 of `content` is a placeholder for omitted text: "/* … unchanged … */"; write the whole content"#
            ]],
        );
        check(
            "(a)\n... rest of the code ...\n",
            "",
            "a.lisp",
            expect![[
                r#"line 2 of `content` is a placeholder for omitted text: "... rest of the code ..."; write the whole content"#
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
    fn similar_lines_are_accepted() {
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

    const NOTICE: &str = "(showing lines 1-1 of 2; 1 line left; to go on: read_file with …)";

    #[test]
    fn d_02_output_of_read_file_is_refused_where_this_session_was_shown_it() {
        check_shown(
            &format!("a\n\n{NOTICE}"),
            "a\n",
            NOTICE,
            expect![[
                r#"line 3 of `content` is a notice of read_file, not file content: "(showing lines 1-1 of 2; 1 line left; to go on: read_file wi…"; remove it and write the whole content"#
            ]],
        );
        check_shown(
            "  aaaa… [+17 chars]\n",
            "",
            "aaaa… [+17 chars]",
            expect![[
                r#"line 1 of `content` is a notice of read_file, not file content: "aaaa… [+17 chars]"; remove it and write the whole content"#
            ]],
        );
        check_shown(
            "     1→fn a() {}\n     2→\n",
            "fn a() {}\n\n",
            "",
            expect![
                "2 of 2 lines of `content` begin with a line number and an arrow, which read_file adds and the file does not contain; remove them"
            ],
        );
    }

    #[test]
    fn d_02_a_file_may_contain_what_only_looks_like_output_of_read_file() {
        check_shown(
            &format!("a\n\n{NOTICE}"),
            "",
            "(showing lines 1-1 of 3; 2 lines left; to go on: read_file with …)",
            expect![[
                r#"warning: line 3 of `content` looks like a notice of read_file and was written unchanged: "(showing lines 1-1 of 2; 1 line left; to go on: read_file wi…""#
            ]],
        );
        check_shown(
            "1→fn a() {}\n2→\n",
            "fn b() {}\n",
            "",
            expect![
                "warning: 2 of 2 lines of `content` begin with a line number and an arrow, like output of read_file; they were written unchanged"
            ],
        );
        check_shown(NOTICE, NOTICE, NOTICE, expect!["fine"]);
    }

    #[test]
    fn all_of_a_result_of_read_file_is_refused_without_having_been_shown() {
        for content in [
            "     1→a\n     2→\n     3→b",
            "     1→a",
            " 99999→a\n100000→b\n",
        ] {
            let suspects = super::check(content, "", "", Path::new("a.txt")).unwrap();
            assert!(suspects.is_listing, "{content}");
        }
        check_shown(
            " 99999→a\n100000→b\n",
            "",
            "",
            expect![
                "2 of 2 lines of `content` begin with a line number and an arrow, which read_file adds; remove them, or in tool_chain use `${steps.N.structured.content}`"
            ],
        );
        for content in [
            "     1→a\n     3→b\n",
            "     1→a\n\n     2→b\n",
            "     7→a\n",
        ] {
            let suspects = super::check(content, "", "", Path::new("a.txt")).unwrap();
            assert!(!suspects.is_listing, "{content}");
        }
        let known = "     1→a\n     2→b\n";
        check_shown(known, known, "", expect!["fine"]);
    }

    #[test]
    fn files_may_contain_arrows() {
        check_shown("map:\n1→2\nend\n", "", "", expect!["fine"]);
        check_shown("1→2\n2→3\n", "1→2\n2→3\n", "", expect!["fine"]);
        check_shown("", "", "", expect!["fine"]);
    }

    #[test]
    fn a_session_remembers_a_bounded_number_of_notices() {
        let workspace = Workspace::new(&[]);
        let cx = workspace.cx();
        for page in 0..30 {
            let lines: Vec<String> = (0..50).map(|n| format!("{page}x{n}… [+7 chars]")).collect();
            remember_notices(&cx, &lines);
        }
        let known = shown(&cx);
        assert_eq!(known.len(), MOST_SHOWN);
        assert!(known.contains(&fingerprint("29x49… [+7 chars]")));
    }
}
