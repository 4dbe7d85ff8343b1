//! Finds the comments, strings, keywords and other tokens in the lines of a diff, for their colors.
//!
//! A hunk does not contain the start of its file, so a line within a long comment or string can be taken for code.

use std::ops::Range;
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

/// Longer lines have no colors, in bytes.
const MAX_LINE: usize = 500;
/// Only the first lines of a diff have colors, in bytes.
const MAX_BYTES: usize = 128 << 10;
/// Lines after this time have no colors: an author of a file controls how long its lines take.
const MAX_TIME: Duration = Duration::from_millis(500);

/// The syntaxes of Sublime Text and bat.
static SYNTAXES: LazyLock<SyntaxSet> = LazyLock::new(two_face::syntax::extra_newlines);

/// The kinds of the scopes that begin with these names. The first that fits the innermost scope counts.
static KINDS: LazyLock<Vec<(Scope, Kind)>> = LazyLock::new(|| {
    let kinds = [
        ("comment", Kind::Comment),
        ("string", Kind::String),
        ("constant.character", Kind::String),
        ("constant", Kind::Constant),
        ("keyword.operator", Kind::Plain),
        ("keyword", Kind::Keyword),
        ("storage", Kind::Keyword),
        ("entity.name.function", Kind::Name),
        ("entity.name.tag", Kind::Name),
        ("entity.name", Kind::Name),
        ("support.type", Kind::Name),
        ("support.class", Kind::Name),
        ("support.function", Kind::Name),
        ("variable.function", Kind::Name),
        ("markup.heading", Kind::Keyword),
        ("markup.raw", Kind::String),
        ("meta.interpolation", Kind::Plain),
    ];
    let scope = |name| Scope::new(name).expect("the name has few parts");
    kinds.map(|(name, kind)| (scope(name), kind)).to_vec()
});

/// What a part of a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Plain,
    Comment,
    String,
    /// A number, or a constant of the language.
    Constant,
    Keyword,
    /// The name of a type, a function or an element where it is defined or used.
    Name,
}

/// A part of a line, in bytes, that is not plain.
pub type Token = (Range<usize>, Kind);

/// A part of a line with one look, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    pub range: Range<usize>,
    pub kind: Kind,
    pub is_marked: bool,
}

/// Divides a line of this length into segments. Tokens and marked ranges are ordered and do not overlap.
pub fn segments(length: usize, tokens: &[Token], marked: &[Range<usize>]) -> Vec<Segment> {
    let tokens_ends = tokens
        .iter()
        .flat_map(|(range, _)| [range.start, range.end]);
    let marked_ends = marked.iter().flat_map(|range| [range.start, range.end]);
    let mut ends: Vec<usize> = tokens_ends.chain(marked_ends).chain([length]).collect();
    ends.retain(|end| (1..=length).contains(end));
    ends.sort_unstable();
    ends.dedup();
    let (mut tokens, mut marked) = (tokens.iter().peekable(), marked.iter().peekable());
    let mut start = 0;
    let segment = |end| {
        while tokens.next_if(|(range, _)| range.end <= start).is_some() {}
        while marked.next_if(|range| range.end <= start).is_some() {}
        let token = tokens.peek().filter(|(range, _)| range.start <= start);
        let segment = Segment {
            range: start..end,
            kind: token.map_or(Kind::Plain, |(_, kind)| *kind),
            is_marked: marked.peek().is_some_and(|range| range.start <= start),
        };
        start = end;
        segment
    };
    ends.into_iter().map(segment).collect()
}

/// The tokens of the lines of a diff of a file with this name. Each line is its sign (`+`, `-`, a space, `@` for the
/// start of a hunk) and its text. Files of an unknown kind have none.
pub fn diff<'a>(file: &str, lines: impl Iterator<Item = (char, &'a str)>) -> Vec<Vec<Token>> {
    let Some(syntax) = syntax(file) else {
        return lines.map(|_| Vec::new()).collect();
    };
    let (mut old, mut new) = (Side::new(syntax), Side::new(syntax));
    let started = Instant::now();
    let mut left = MAX_BYTES;
    let mut tokens_of = |(sign, text): (char, &str)| {
        if sign == '@' {
            (old, new) = (Side::new(syntax), Side::new(syntax));
        }
        if text.len() > MAX_LINE.min(left) || started.elapsed() > MAX_TIME {
            return Vec::new();
        }
        left -= text.len();
        match sign {
            '-' => old.tokens(text),
            '+' => new.tokens(text),
            ' ' => {
                old.tokens(text);
                new.tokens(text)
            }
            _ => Vec::new(),
        }
    };
    lines.map(&mut tokens_of).collect()
}

fn syntax(file: &str) -> Option<&'static SyntaxReference> {
    let path = Path::new(file);
    let by = |part: Option<&std::ffi::OsStr>| SYNTAXES.find_syntax_by_extension(part?.to_str()?);
    let syntax = by(path.file_name()).or_else(|| by(path.extension()))?;
    (syntax.name != "Plain Text").then_some(syntax)
}

/// The old or the new text of a hunk, read up to some line.
struct Side {
    state: ParseState,
    scopes: ScopeStack,
}

impl Side {
    fn new(syntax: &SyntaxReference) -> Self {
        Self {
            state: ParseState::new(syntax),
            scopes: ScopeStack::new(),
        }
    }

    /// Reads the next line. A line that cannot be parsed has no tokens.
    fn tokens(&mut self, line: &str) -> Vec<Token> {
        let with_end = format!("{line}\n");
        let Ok(operations) = self.state.parse_line(&with_end, &SYNTAXES) else {
            return Vec::new();
        };
        let mut tokens: Vec<Token> = Vec::new();
        let mut start = 0;
        for (at, operation) in operations {
            let at = at.min(line.len());
            self.add(start..at, &mut tokens);
            start = at;
            if self.scopes.apply(&operation).is_err() {
                return Vec::new();
            }
        }
        self.add(start..line.len(), &mut tokens);
        tokens
    }

    fn add(&self, range: Range<usize>, tokens: &mut Vec<Token>) {
        let kind = self.scopes.scopes.iter().rev().find_map(|scope| {
            let fits = |(prefix, _): &&(Scope, Kind)| prefix.is_prefix_of(*scope);
            KINDS.iter().find(fits).map(|(_, kind)| *kind)
        });
        let Some(kind) = kind.filter(|kind| *kind != Kind::Plain && !range.is_empty()) else {
            return;
        };
        match tokens.last_mut() {
            Some((last, before)) if *before == kind && last.end == range.start => {
                last.end = range.end;
            }
            _ => tokens.push((range, kind)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(file: &str, lines: &[(char, &str)]) -> String {
        let tokens = diff(file, lines.iter().copied());
        let lines = lines.iter().zip(tokens).map(|((sign, text), tokens)| {
            let words = tokens.iter().map(|(range, kind)| {
                let word = &text[range.clone()];
                format!(" {kind:?}({word})")
            });
            format!("{sign}{}\n", words.collect::<String>())
        });
        lines.collect()
    }

    #[test]
    fn each_side_of_a_hunk_is_read_by_itself() {
        let lines = [
            ('@', ""),
            (' ', "fn main() {"),
            ('-', "    /* one"),
            ('+', "    let a = \"two\"; // 2"),
            ('+', "    f(0x1F);"),
            (' ', "    let b: u8 = 1;"),
            ('@', ""),
            ('-', "let c = 2;"),
        ];
        let expected = "@\n  Keyword(fn) Name(main)\n- Comment(/* one)\n\
            + Keyword(let) String(\"two\") Comment(// 2)\n+ Name(f) Constant(0x1F)\n  \
            Keyword(let) Keyword(u8) Constant(1)\n@\n- Keyword(let) Constant(2)\n";
        assert_eq!(shown("src/main.rs", &lines), expected);
    }

    #[test]
    fn tokens_and_marked_ranges_may_overlap() {
        let tokens = [(1..4, Kind::Keyword), (4..6, Kind::String)];
        let shown: Vec<_> = segments(8, &tokens, &[3..5, 7..9])
            .into_iter()
            .map(|segment| (segment.range, segment.kind, segment.is_marked))
            .collect();
        assert_eq!(
            shown,
            [
                (0..1, Kind::Plain, false),
                (1..3, Kind::Keyword, false),
                (3..4, Kind::Keyword, true),
                (4..5, Kind::String, true),
                (5..6, Kind::String, false),
                (6..7, Kind::Plain, false),
                (7..8, Kind::Plain, true),
            ]
        );
        assert!(segments(0, &[], &[]).is_empty());
    }

    #[test]
    fn languages_are_found_by_name_or_extension() {
        for (file, line) in [
            ("a/Makefile", "# one"),
            ("a.toml", "# one"),
            ("a.ts", "// one"),
            ("Dockerfile", "# one"),
            ("a.yaml", "# one"),
        ] {
            let shown = shown(file, &[('+', line)]);
            assert!(shown.contains("Comment"), "{file}: {shown}");
        }
        for file in ["a", "a.txt", "", "/", "a.unknown"] {
            assert_eq!(shown(file, &[('+', "let a = 1")]), "+\n");
        }
    }

    #[test]
    fn long_and_late_lines_have_no_colors() {
        let long = format!("let a = 1;{}", " ".repeat(MAX_LINE));
        assert_eq!(shown("a.rs", &[('+', &long)]), "+\n");
        let line = format!("let a = \"{}\";", "x".repeat(400));
        let many: Vec<(char, &str)> = (0..400).map(|_| ('+', line.as_str())).collect();
        let tokens = diff("a.rs", many.into_iter());
        assert!(tokens.last().unwrap().is_empty() && tokens.len() == 400);
    }
}
