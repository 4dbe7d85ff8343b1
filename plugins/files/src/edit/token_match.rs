//! Search for the tokens of a text in order, ignoring white space.

use memchr::memmem;

use super::find::{MAX_MATCHES, TextReplacement};
use super::indentation::{self, IndentMap};
use super::normalized_text::{self, NormalizedText};

/// Fewer tokens than this match by chance.
const LEAST_TOKENS: usize = 3;

pub fn find(text: &str, old: &str, new: &str) -> Vec<TextReplacement> {
    let wanted = normalized_text::read(old, normalized_text::squeezed);
    if tokens(&wanted) < LEAST_TOKENS {
        return Vec::new();
    }
    let view = NormalizedText::of(text, normalized_text::squeezed);
    let joints: Vec<bool> = joints(old).collect();
    memmem::find_iter(view.text.as_bytes(), wanted.as_bytes())
        .map(|start| view.original(&(start..start + wanted.len())))
        .filter(|range| {
            // `a b` is not `ab`, and neither matches in `aa b`.
            let (before, after) = (&text[..range.start], &text[range.end..]);
            let first = text[range.clone()].chars().next();
            let last = text[range.clone()].chars().next_back();
            !are_joined(before.chars().next_back(), first)
                && !are_joined(last, after.chars().next())
                && self::joints(&text[range.clone()]).eq(joints.iter().copied())
        })
        .take(MAX_MATCHES + 1)
        .map(|range| replacement(text, range.start, range.end, old, new))
        .collect()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn are_joined(a: Option<char>, b: Option<char>) -> bool {
    a.is_some_and(is_word) && b.is_some_and(is_word)
}

fn tokens(squeezed: &str) -> usize {
    let mut before = None;
    squeezed
        .chars()
        .filter(|&c| !are_joined(before.replace(c), Some(c)))
        .count()
}

/// For each two adjacent letters, whether they belong to the same word.
fn joints(text: &str) -> impl Iterator<Item = bool> + '_ {
    let mut before = None;
    let mut is_apart = false;
    text.chars().filter_map(move |c| {
        match normalized_text::squeezed(c) {
            // A character without width does not separate words.
            normalized_text::CharMapping::Drop => {
                is_apart |= !matches!(
                    normalized_text::plain(c),
                    normalized_text::CharMapping::Drop
                );
                return None;
            }
            normalized_text::CharMapping::Keep | normalized_text::CharMapping::As(_) => {}
        }
        let joint = are_joined(before.replace(c), Some(c)).then_some(!is_apart);
        is_apart = false;
        joint
    })
}

/// The text between `start` and `end` equals `old` except for white space. Surrounding white space stays.
fn replacement(
    text: &str,
    mut start: usize,
    mut end: usize,
    old: &str,
    new: &str,
) -> TextReplacement {
    let tail = &old[old.trim_end().len()..];
    let head = &old[..old.len() - old.trim_start().len()];
    let blank_lines = head.rfind('\n').map_or("", |at| &head[..=at]);
    let mut new = new.strip_prefix(blank_lines).unwrap_or(new);
    match new.strip_suffix(tail) {
        Some(body) => new = body,
        // The old text ended with a line break and the new one does not, so it is removed.
        None if tail.contains('\n') => {
            let after = &text[end..];
            let space = after.len() - after.trim_start_matches([' ', '\t', '\r']).len();
            if after[space..].starts_with('\n') {
                end += space + 1;
            }
        }
        None => {}
    }
    let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let before = &text[line_start..start];
    if indentation::of(before).len() < before.len() {
        let new = new.trim_start_matches([' ', '\t']);
        return TextReplacement::new(start..end, new);
    }
    start = line_start;
    let line = text[start..].lines().next().unwrap_or_default();
    let theirs = old.trim_start_matches(['\n', '\r']);
    let theirs = theirs[blank_lines.trim_start_matches(['\n', '\r']).len()..]
        .lines()
        .next()
        .unwrap_or_default();
    let indents = IndentMap::of([(theirs, line)].into_iter());
    TextReplacement::new(start..end, indents.apply(new))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The edited text; `None` if `old` does not match exactly once.
    fn check(text: &str, old: &str, new: &str, expected: Option<&str>) {
        let replacements = find(text, old, new);
        let answer = match replacements.as_slice() {
            [one] => Some(format!(
                "{}{}{}",
                &text[..one.range.start],
                one.new,
                &text[one.range.end..]
            )),
            _ => None,
        };
        assert_eq!(answer.as_deref(), expected, "{old:?} in {text:?}");
    }

    #[test]
    fn white_space_between_words_is_free() {
        check("x = f( a,b );", "f(a, b)", "g(a)", Some("x = g(a);"));
        check("if (a)\n{\n  b;\n}\n", "if (a) { b; }", "c;", Some("c;\n"));
        check(
            "  f(a,\n    b);\n",
            "f(a, b);\n",
            "g(\n  c);\n",
            Some("  g(\n    c);\n"),
        );
        check("  f(a,\n    b);\nx\n", "f(a, b);\n", "", Some("x\n"));
        check(
            "\tf(a,b)\n",
            "\n\n  f(a, b)\n",
            "\n\n  g()\n",
            Some("\tg()\n"),
        );
    }

    #[test]
    fn words_are_whole() {
        check("let ab = 1;", "let a b = 1;", "x", None);
        check("let a b = 1;", "let ab = 1;", "x", None);
        check("outlet a = 1;", "let  a = 1;", "x", None);
        check("let a = 10;", "let  a = 1", "x", None);
        check("f (x)", "(", "x", None);
    }
}
