//! Rows of a diff as in a code review: line numbers, a sign, and the changed words of a changed line emphasised.

use std::ops::Range;

use toolhost_contract::text;
use toolhost_highlight::{Kind, Token, segments};

use super::untrusted_text::{MIN_WIDTH, TerminalLayout, wrap};
use crate::terminal::style::Paint;

/// Unchanged lines around a change.
const CONTEXT_LINES: usize = 2;

/// Whether the numbers of the lines are known. They are not if a tool claims a change to a file that was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineNumbers {
    Shown,
    Unknown,
}

/// A line of a diff.
#[derive(Debug)]
struct DiffLine {
    /// ` `, `+` or `-`; `\` for a remark on the line above; `@` for the start of a hunk.
    sign: char,
    number: Option<usize>,
    /// Escaped, with long runs of blanks collapsed.
    text: String,
    tokens: Vec<Token>,
    changed: Vec<Range<usize>>,
}

/// Lays out a unified diff of a file with this name, without a header. Every row starts with a mark or a line number before the mark.
pub fn diff_rows(
    file: &str,
    diff: &str,
    numbers: LineNumbers,
    look: TerminalLayout,
) -> Vec<String> {
    let mut lines = parse(diff, numbers);
    if look.style.has_colours() {
        let texts = lines.iter().map(|line| (line.sign, line.text.as_str()));
        let tokens = toolhost_highlight::diff(file, texts);
        for (line, tokens) in lines.iter_mut().zip(tokens) {
            line.tokens = tokens;
        }
    }
    if numbers == LineNumbers::Shown {
        drop_distant_context(&mut lines);
    }
    mark_changed_words(&mut lines);
    let digits = |line: &DiffLine| line.number.map_or(0, |number| number.to_string().len());
    let gutter = lines.iter().map(digits).max().unwrap_or(0).max(3);
    let mut rows = Vec::new();
    for line in &lines {
        add_rows(line, gutter, look, &mut rows);
    }
    rows
}

fn parse(diff: &str, numbers: LineNumbers) -> Vec<DiffLine> {
    let mut lines: Vec<DiffLine> = Vec::new();
    let (mut old, mut new) = (0, 0);
    for line in text::diff_lines(diff) {
        let sign = line.chars().next().unwrap_or(' ');
        let mut number = None;
        let mut shown = line.get(1..).unwrap_or_default();
        match sign {
            '@' if numbers == LineNumbers::Shown => {
                (old, new) = text::hunk_start(line).unwrap_or_default();
                if lines.is_empty() {
                    continue;
                }
                shown = "";
            }
            '-' => number = Some(next(&mut old)),
            '+' => number = Some(next(&mut new)),
            ' ' => {
                number = Some(next(&mut new));
                old += 1;
            }
            '\\' => shown = shown.trim_start(),
            _ => shown = line,
        }
        lines.push(DiffLine {
            sign,
            number: number.filter(|_| numbers == LineNumbers::Shown),
            text: text::decision_lines(shown, usize::MAX),
            tokens: Vec::new(),
            changed: Vec::new(),
        });
    }
    lines
}

fn next(number: &mut usize) -> usize {
    let this = *number;
    *number += 1;
    this
}

/// Removes unchanged lines that are more than [`CONTEXT_LINES`] away from a change.
fn drop_distant_context(lines: &mut Vec<DiffLine>) {
    let is_change = |line: &DiffLine| matches!(line.sign, '+' | '-');
    let is_near: Vec<bool> = (0..lines.len())
        .map(|at| {
            let from = at.saturating_sub(CONTEXT_LINES);
            let to = (at + CONTEXT_LINES).min(lines.len() - 1);
            lines[at].sign != ' ' || lines[from..=to].iter().any(is_change)
        })
        .collect();
    let mut is_near = is_near.into_iter();
    lines.retain(|_| is_near.next().unwrap_or(true));
}

/// Compares the removed lines of a change with the added lines that follow them, one by one.
fn mark_changed_words(lines: &mut [DiffLine]) {
    let mut at = 0;
    while at < lines.len() {
        let count = |from: usize, sign: char| {
            let lines = lines[from..].iter();
            lines.take_while(|line| line.sign == sign).count()
        };
        let removed = count(at, '-');
        let added = count(at + removed, '+');
        for pair in 0..removed.min(added) {
            let (old, new) = (at + pair, at + removed + pair);
            if let Some((words, others)) = text::changed_words(&lines[old].text, &lines[new].text) {
                lines[old].changed = words;
                lines[new].changed = others;
            }
        }
        at += (removed + added).max(1);
    }
}

fn add_rows(line: &DiffLine, gutter: usize, look: TerminalLayout, rows: &mut Vec<String>) {
    let style = look.style;
    if line.sign == '@' && line.text.is_empty() {
        let gap = format!(" {:>gutter$} …", "");
        return rows.push(format!("{}\n", style.paint(Paint::Dim, &gap)));
    }
    let (paint, strong) = match line.sign {
        '+' => (Some(Paint::Green), Paint::GreenReverse),
        '-' => (Some(Paint::Red), Paint::RedReverse),
        '@' => (Some(Paint::Cyan), Paint::Cyan),
        '\\' => (Some(Paint::Dim), Paint::Dim),
        _ => (None, Paint::Bold),
    };
    let prefix = match line.sign {
        ' ' if line.text.is_empty() => String::new(),
        '+' | '-' if line.text.is_empty() => line.sign.to_string(),
        '+' | '-' | ' ' => format!("{} ", line.sign),
        _ => String::new(),
    };
    let shown = format!("{prefix}{}", line.text);
    let segments = segments(line.text.len(), &line.tokens, &line.changed);
    let width = look.width.max(MIN_WIDTH).saturating_sub(gutter + 5);
    let mut start = 0;
    for (at, row) in wrap(&shown, width).iter().enumerate() {
        let number = line.number.filter(|_| at == 0);
        let number = number.map(|number| number.to_string()).unwrap_or_default();
        let number = style.paint(Paint::Dim, &format!("{number:>gutter$}"));
        let mark = if at == 0 { '│' } else { '┊' };
        let mut painted = String::new();
        let mut add = |range: Range<usize>, paint: Option<Paint>| {
            let within = |at: usize| at.clamp(start, start + row.len()) - start;
            let part = &row[within(range.start)..within(range.end)];
            painted += &paint.map_or_else(|| part.to_owned(), |paint| style.paint(paint, part));
        };
        add(0..prefix.len(), paint);
        for segment in &segments {
            let (from, to) = (segment.range.start, segment.range.end);
            let paint = if segment.is_marked {
                Some(strong)
            } else {
                token_paint(segment.kind).or(paint)
            };
            add(from + prefix.len()..to + prefix.len(), paint);
        }
        start += row.len();
        let gap = if painted.is_empty() { "" } else { " " };
        rows.push(format!(" {number} {mark}{gap}{painted}\n"));
    }
}

/// The color of a token. The rest of an added line is green, and of a removed line red.
fn token_paint(kind: Kind) -> Option<Paint> {
    match kind {
        Kind::Plain | Kind::Name => None,
        Kind::Comment => Some(Paint::Dim),
        Kind::String | Kind::Constant => Some(Paint::Cyan),
        Kind::Keyword => Some(Paint::Magenta),
    }
}
