//! Compilation of patterns that run over whole files.
//!
//! Running over whole files makes grep fast, but users expect line-based matches. The parsed pattern is therefore
//! rewritten so that it cannot match a line end: `a\s+b` never extends into the next line, and no match has to be
//! verified.
//!
//! Text with CR LF uses a variant in which `$` matches before CR LF and no class matches the CR, like `rg --crlf`. In a
//! pattern over several lines, `\n` also matches CR LF there.
//! Other text is treated like in `rg`.

use memchr::memmem;
use regex_automata::meta::{Config, Regex};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{
    Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look,
    Repetition,
};
use toolhost_sdk::prelude::*;

use crate::candidates::Candidates;

/// Memory limit of a compiled pattern, in bytes.
const SIZE_LIMIT: usize = 10 * 1024 * 1024;

/// How a pattern is interpreted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatternOptions {
    pub case_insensitive: bool,
    pub fixed: bool,
    pub word: bool,
    pub multiline: bool,
}

/// A compiled pattern with its variants.
pub struct Query {
    /// For text in which every line ends in a line feed.
    plain: Matcher,
    /// For text with CR LF, in which a carriage return before a line feed belongs to the line end. `None` if both
    /// variants are equal.
    crlf: Option<Matcher>,
    /// Matching lines that also match this are dropped.
    pub exclude: Option<Regex>,
    /// Matches may span lines.
    pub multiline: bool,
    /// How the interpretation differs from the pattern as written.
    pub note: Option<String>,
}

/// A compiled pattern variant.
pub struct Matcher {
    pub regex: Regex,
    /// Prefilter for candidate positions; only for patterns within a line.
    pub candidates: Option<Candidates>,
}

/// Line endings as seen by a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineEnds {
    Lf,
    Crlf,
}

impl Query {
    pub fn new(pattern: &str, exclude: Option<&str>, reading: PatternOptions) -> Result<Self> {
        let mut note = None;
        let (plain, reading) = match parse(pattern, reading, LineEnds::Lf) {
            // A pattern with braces that is not a regex is usually literal code.
            Err(_) if pattern.contains(['{', '}']) => {
                note = Some(format!(
                    "`{pattern}` is not a regular expression; searched for it as fixed text"
                ));
                let reading = PatternOptions {
                    fixed: true,
                    ..reading
                };
                (parse(pattern, reading, LineEnds::Lf)?, reading)
            }
            parsed => (parsed?, reading),
        };
        let multiline = reading.multiline || contains_byte(&plain, b'\n');
        if multiline && !reading.multiline {
            note = Some(
                "the pattern contains a line end; searched with `multiline = true`".to_owned(),
            );
        }
        // A pattern with an explicit carriage return treats it as a character.
        let crlf = if contains_byte(&plain, b'\r') {
            None
        } else {
            Some(parse(pattern, reading, LineEnds::Crlf)?)
        };
        let finish = |hir: Hir, ends: LineEnds| {
            let hir = match ends {
                _ if !multiline => within_line(hir, ends),
                LineEnds::Lf => hir,
                LineEnds::Crlf => with_crlf(hir),
            };
            if reading.word { as_words(hir) } else { hir }
        };
        let plain = finish(plain, LineEnds::Lf);
        let crlf = crlf
            .map(|hir| finish(hir, LineEnds::Crlf))
            .filter(|hir| *hir != plain);
        let exclude = match exclude {
            Some(exclude) => {
                let reading = PatternOptions {
                    case_insensitive: reading.case_insensitive,
                    ..PatternOptions::default()
                };
                let hir = parse(exclude, reading, LineEnds::Crlf).map_err(of_exclude)?;
                Some(compile(&hir, exclude).map_err(of_exclude)?)
            }
            None => None,
        };
        Ok(Self {
            plain: Matcher::of(&plain, pattern, multiline)?,
            crlf: crlf
                .map(|hir| Matcher::of(&hir, pattern, multiline))
                .transpose()?,
            exclude,
            multiline,
            note,
        })
    }

    /// The variant for this text.
    pub fn matcher(&self, text: &[u8]) -> &Matcher {
        match &self.crlf {
            Some(crlf) if memmem::find(text, b"\r\n").is_some() => crlf,
            Some(_) | None => &self.plain,
        }
    }
}

impl Matcher {
    fn of(hir: &Hir, pattern: &str, multiline: bool) -> Result<Self> {
        Ok(Self {
            regex: compile(hir, pattern)?,
            candidates: if multiline { None } else { Candidates::of(hir) },
        })
    }
}

fn as_words(hir: Hir) -> Hir {
    let start = Hir::look(Look::WordStartHalfUnicode);
    Hir::concat(vec![start, hir, Hir::look(Look::WordEndHalfUnicode)])
}

/// `exclude_pattern` must be a regular expression.
fn of_exclude(mut error: Error) -> Error {
    error.message = format!("`exclude_pattern`: {}", error.message);
    error.recommendations.clear();
    error.recommend("escape special characters with a backslash")
}

fn parse(pattern: &str, reading: PatternOptions, ends: LineEnds) -> Result<Hir> {
    let escaped = reading.fixed.then(|| regex_syntax::escape(pattern));
    ParserBuilder::new()
        .case_insensitive(reading.case_insensitive)
        .multi_line(true)
        .crlf(ends == LineEnds::Crlf)
        .dot_matches_new_line(reading.multiline)
        .utf8(false)
        .build()
        .parse(escaped.as_deref().unwrap_or(pattern))
        .map_err(|error| {
            let reason = match &error {
                regex_syntax::Error::Parse(error) => error.kind().to_string(),
                regex_syntax::Error::Translate(error) => error.kind().to_string(),
                other => other.to_string(),
            };
            let advice = if reason.contains("look-around") || reason.contains("backreference") {
                "search for a simpler pattern and choose among the matches, or use `exclude_pattern`"
            } else {
                "escape special characters with a backslash, or set `fixed_strings` to search for the literal text"
            };
            invalid(pattern, &reason).recommend(advice)
        })
}

fn compile(hir: &Hir, pattern: &str) -> Result<Regex> {
    Regex::builder()
        .configure(
            Config::new()
                .utf8_empty(false)
                .nfa_size_limit(Some(SIZE_LIMIT)),
        )
        .build_from_hir(hir)
        .map_err(|error| match error.size_limit() {
            Some(_) => invalid(pattern, "it is too large when compiled")
                .recommend("use smaller repetition counts"),
            None => invalid(pattern, &error.to_string()),
        })
}

fn invalid(pattern: &str, reason: &str) -> Error {
    Error::invalid_input(format!("invalid regex `{pattern}`: {reason}")).code("invalid_regex")
}

/// Whether the pattern contains this byte explicitly (unlike `\s` and `[^a]`).
fn contains_byte(hir: &Hir, byte: u8) -> bool {
    match hir.kind() {
        HirKind::Literal(literal) => literal.0.contains(&byte),
        HirKind::Repetition(repetition) => contains_byte(&repetition.sub, byte),
        HirKind::Capture(capture) => contains_byte(&capture.sub, byte),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().any(|part| contains_byte(part, byte))
        }
        HirKind::Empty | HirKind::Class(_) | HirKind::Look(_) => false,
    }
}

/// The same pattern, unable to match a line end. Groups are removed, because they are unused and slow.
fn within_line(hir: Hir, ends: LineEnds) -> Hir {
    let all = |parts: Vec<Hir>| -> Vec<Hir> {
        let parts = parts.into_iter();
        parts.map(|part| within_line(part, ends)).collect()
    };
    match hir.into_kind() {
        HirKind::Empty => Hir::empty(),
        HirKind::Literal(literal) => Hir::literal(literal.0),
        HirKind::Class(class) => Hir::class(without_ends(class, ends)),
        HirKind::Look(look) => Hir::look(match (look, ends) {
            (Look::Start, _) => Look::StartLF,
            (Look::End, LineEnds::Lf) => Look::EndLF,
            (Look::End, LineEnds::Crlf) => Look::EndCRLF,
            (look, _) => look,
        }),
        HirKind::Repetition(mut repetition) => {
            *repetition.sub = within_line(*repetition.sub, ends);
            Hir::repetition(repetition)
        }
        HirKind::Capture(capture) => within_line(*capture.sub, ends),
        HirKind::Concat(parts) => Hir::concat(all(parts)),
        HirKind::Alternation(parts) => Hir::alternation(all(parts)),
    }
}

/// The same pattern, in which each explicit line feed also matches CR LF.
fn with_crlf(hir: Hir) -> Hir {
    let all = |parts: Vec<Hir>| -> Vec<Hir> { parts.into_iter().map(with_crlf).collect() };
    match hir.into_kind() {
        HirKind::Literal(literal) => {
            let optional_cr = || {
                Hir::repetition(Repetition {
                    min: 0,
                    max: Some(1),
                    greedy: true,
                    sub: Box::new(Hir::literal(*b"\r")),
                })
            };
            let lines = literal.0.split_inclusive(|byte| *byte == b'\n');
            let parts = lines.flat_map(|line| match line.strip_suffix(b"\n") {
                Some(line) => vec![Hir::literal(line), optional_cr(), Hir::literal(*b"\n")],
                None => vec![Hir::literal(line)],
            });
            Hir::concat(parts.collect())
        }
        HirKind::Repetition(mut repetition) => {
            *repetition.sub = with_crlf(*repetition.sub);
            Hir::repetition(repetition)
        }
        HirKind::Capture(mut capture) => {
            *capture.sub = with_crlf(*capture.sub);
            Hir::capture(capture)
        }
        HirKind::Concat(parts) => Hir::concat(all(parts)),
        HirKind::Alternation(parts) => Hir::alternation(all(parts)),
        HirKind::Empty => Hir::empty(),
        HirKind::Class(class) => Hir::class(class),
        HirKind::Look(look) => Hir::look(look),
    }
}

fn without_ends(class: Class, ends: LineEnds) -> Class {
    let bytes: &[u8] = match ends {
        LineEnds::Lf => b"\n",
        LineEnds::Crlf => b"\n\r",
    };
    match class {
        Class::Unicode(mut class) => {
            let chars = bytes.iter().map(|byte| char::from(*byte));
            let ranges = chars.map(|char| ClassUnicodeRange::new(char, char));
            class.difference(&ClassUnicode::new(ranges));
            Class::Unicode(class)
        }
        Class::Bytes(mut class) => {
            let ranges = bytes.iter().map(|byte| ClassBytesRange::new(*byte, *byte));
            class.difference(&ClassBytes::new(ranges));
            Class::Bytes(class)
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::needless_raw_string_hashes,
        reason = "expect-test writes them this way"
    )]

    use expect_test::{Expect, expect};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "tests hand over temporaries")]
    fn check(pattern: &str, reading: PatternOptions, text: &str, expected: Expect) {
        let answer = match Query::new(pattern, None, reading) {
            Ok(query) => {
                let found: Vec<&str> = query
                    .matcher(text.as_bytes())
                    .regex
                    .find_iter(text)
                    .map(|found| &text[found.range()])
                    .collect();
                format!(
                    "{found:?}{}",
                    query
                        .note
                        .map(|note| format!(" ({note})"))
                        .unwrap_or_default()
                )
            }
            Err(error) => error.to_string(),
        };
        expected.assert_eq(&answer);
    }

    const PLAIN: PatternOptions = PatternOptions {
        case_insensitive: false,
        fixed: false,
        word: false,
        multiline: false,
    };

    #[test]
    fn a_match_stays_within_its_line() {
        check(r"a\s+b", PLAIN, "a\nb a  b", expect![[r#"["a  b"]"#]]);
        check(r"(?s)a.*b", PLAIN, "a\nb axb", expect![[r#"["axb"]"#]]);
        check(
            r#""[^"]*""#,
            PLAIN,
            "\"a\nb\" \"c\"",
            expect![[r#"["\" \""]"#]],
        );
        check(
            r"\Aa|b\z",
            PLAIN,
            "a\na b\nb",
            expect![[r#"["a", "a", "b", "b"]"#]],
        );
    }

    #[test]
    fn a_line_may_end_in_two_ways() {
        check("^b$", PLAIN, "a\r\nb\r\nc", expect![[r#"["b"]"#]]);
    }

    #[test]
    fn several_lines_on_request() {
        check(
            r"a.b",
            PatternOptions {
                multiline: true,
                ..PLAIN
            },
            "a\nb",
            expect![[r#"["a\nb"]"#]],
        );
        check(
            r"a\nb",
            PLAIN,
            "a\nb",
            expect![[
                r#"["a\nb"] (the pattern contains a line end; searched with `multiline = true`)"#
            ]],
        );
    }

    #[test]
    fn a_line_feed_in_the_pattern_matches_both_line_ends() {
        let multiline = PatternOptions {
            multiline: true,
            ..PLAIN
        };
        let fixed = PatternOptions {
            fixed: true,
            ..multiline
        };
        let text = "a\r\nb\nc\r\n\r\nd";
        check(r"a\nb\nc", multiline, text, expect![[r#"["a\r\nb\nc"]"#]]);
        check(
            r"(c$\n{2}d|x)",
            multiline,
            text,
            expect![[r#"["c\r\n\r\nd"]"#]],
        );
        check("a\nb", fixed, text, expect![[r#"["a\r\nb"]"#]]);
        check(r"a\nb", multiline, "a\nb", expect![[r#"["a\nb"]"#]]);
        check(r"b\r\nc|c\r\n", multiline, text, expect![[r#"["c\r\n"]"#]]);
    }

    #[test]
    fn words_and_letter_case() {
        check(
            "foo",
            PatternOptions {
                word: true,
                ..PLAIN
            },
            "foobar foo",
            expect![[r#"["foo"]"#]],
        );
        check(
            "foo|bar",
            PatternOptions {
                word: true,
                case_insensitive: true,
                ..PLAIN
            },
            "FOO food Bar",
            expect![[r#"["FOO", "Bar"]"#]],
        );
        check(
            "a.b(",
            PatternOptions {
                fixed: true,
                ..PLAIN
            },
            "axb( a.b(",
            expect![[r#"["a.b("]"#]],
        );
    }

    #[test]
    fn code_with_braces_is_searched_as_it_stands() {
        check(
            "fn main() {",
            PLAIN,
            "fn main() {}",
            expect![[
                r#"["fn main() {"] (`fn main() {` is not a regular expression; searched for it as fixed text)"#
            ]],
        );
        check(
            "interface{}",
            PLAIN,
            "interface{} x",
            expect![[
                r#"["interface{}"] (`interface{}` is not a regular expression; searched for it as fixed text)"#
            ]],
        );
    }

    #[test]
    fn other_mistakes_are_errors() {
        check(
            "foo(",
            PLAIN,
            "",
            expect!["invalid regex `foo(`: unclosed group"],
        );
        check(
            r"(a)\1",
            PLAIN,
            "",
            expect![[r#"invalid regex `(a)\1`: backreferences are not supported"#]],
        );
        check(
            r"a(?=b)",
            PLAIN,
            "",
            expect![
                "invalid regex `a(?=b)`: look-around, including look-ahead and look-behind, is not supported"
            ],
        );
        check(
            r"\w{1000}{1000}",
            PLAIN,
            "",
            expect![[r#"invalid regex `\w{1000}{1000}`: it is too large when compiled"#]],
        );
    }
}
