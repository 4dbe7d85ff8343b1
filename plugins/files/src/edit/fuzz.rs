//! Fuzz target for edits: file text, old text and new text.

use toolhost_fuzz_input::assembled;

use super::find::{Leniency, TextReplacement, delete_lines, find};

/// Separator of the three texts.
const BETWEEN: &str = "\u{1}";

const FRAGMENTS: &[&str] = &[
    BETWEEN,
    "\n",
    "\r\n",
    "\r",
    "    ",
    "\t",
    "  ",
    " ",
    "\u{a0}",
    "\u{feff}",
    "\u{2018}",
    "\u{201c}",
    "\u{2014}",
    "\u{2026}",
    "'",
    "\"",
    "-",
    "...",
    "\\n",
    "\\t",
    "\\\"",
    "     1\t",
    "12\u{2192}",
    "3: ",
    "fn f() {\n",
    "}\n",
    "if x:\n",
    "return",
    "let x = 1;\n",
    "let y = 2;\n",
    "é",
    "e\u{301}",
    "\u{1f600}",
    "{\"a\": 1}",
];

#[test]
fn fuzz_edit() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let input = assembled(bytes, FRAGMENTS);
        let mut texts = input.splitn(3, BETWEEN);
        let text = texts.next().unwrap_or_default();
        let (Some(old), Some(new)) = (texts.next(), texts.next()) else {
            return;
        };
        if old.is_empty() {
            return;
        }
        for leniency in [Leniency::Free, Leniency::Indented, Leniency::Data] {
            let mut found = find(text, old, new, leniency);
            let edited = apply(text, &found.replacements);
            // Reference: text that occurs exactly is replaced exactly.
            assert_eq!(found.strategy == "exact", text.contains(old), "{input:?}");
            if found.strategy == "exact" {
                assert_eq!(
                    found.replacements.len(),
                    text.matches(old).count(),
                    "{input:?}"
                );
                // New text adopts the line endings of the file.
                let ends = |mut text: String| {
                    // `\r\r\n` becomes another CRLF.
                    while text.contains("\r\n") {
                        text = text.replace("\r\n", "\n");
                    }
                    text
                };
                assert_eq!(ends(edited), ends(replaced(text, old, new)), "{input:?}");
            }
            if new.is_empty() {
                delete_lines(text, old, &mut found.replacements);
                apply(text, &found.replacements);
            }
        }
    });
}

/// Like `str::replace`, except that a CRLF whose second byte is in `old` is replaced as a whole.
fn replaced(text: &str, old: &str, new: &str) -> String {
    let (mut edited, mut at) = (String::new(), 0);
    for (start, _) in text.match_indices(old) {
        let before = &text[at..start];
        let cr = before.strip_suffix('\r').filter(|_| old.starts_with('\n'));
        edited.push_str(cr.unwrap_or(before));
        edited.push_str(new);
        at = start + old.len();
    }
    edited.push_str(&text[at..]);
    edited
}

/// Places are on character boundaries, ascending and disjoint.
fn apply(text: &str, replacements: &[TextReplacement]) -> String {
    let (mut edited, mut at) = (String::new(), 0);
    for replacement in replacements {
        edited.push_str(&text[at..replacement.range.start]);
        edited.push_str(&replacement.new);
        at = replacement.range.end;
        assert!(replacement.range.start <= at);
    }
    edited.push_str(&text[at..]);
    edited
}
