//! From a caller's pattern to something that can be run over a whole file at once.
//!
//! Running over whole files is what makes grep fast, and lines are what people mean. So the parsed pattern is edited
//! until it cannot match a line's end any more: `a\s+b` then never reaches into the next line, and no match has to be
//! looked at twice.

use regex_automata::meta::{Config, Regex};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{
    Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look,
};
use toolhost_sdk::prelude::*;

use crate::candidates::Candidates;

/// Memory for one compiled pattern.
const SIZE_LIMIT: usize = 10 * 1024 * 1024;

/// How a pattern is to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    pub case_insensitive: bool,
    pub fixed: bool,
    pub word: bool,
    pub multiline: bool,
}

/// A pattern, ready to run.
pub struct Query {
    pub regex: Regex,
    /// Where to look for matches first; only for patterns that stay within a line.
    pub candidates: Option<Candidates>,
    /// Matching lines that match this as well do not count.
    pub exclude: Option<Regex>,
    /// What was read differently from what was written.
    pub note: Option<String>,
}

impl Query {
    pub fn new(pattern: &str, exclude: Option<&str>, reading: Reading) -> Result<Self> {
        let mut note = None;
        let hir = match parse(pattern, reading) {
            // Code with braces is meant as it stands more often than not.
            Err(_) if pattern.contains(['{', '}']) => {
                note = Some(format!(
                    "`{pattern}` is not a regular expression; searched for it as fixed text"
                ));
                parse(
                    pattern,
                    Reading {
                        fixed: true,
                        ..reading
                    },
                )?
            }
            parsed => parsed?,
        };
        let multiline = reading.multiline || names_line_end(&hir);
        if multiline && !reading.multiline {
            note =
                Some("the pattern names a line end; searched with `multiline = true`".to_owned());
        }
        let hir = if multiline { hir } else { within_line(hir) };
        let hir = if reading.word {
            let edge = |look| Hir::look(look);
            Hir::concat(vec![
                edge(Look::WordStartHalfUnicode),
                hir,
                edge(Look::WordEndHalfUnicode),
            ])
        } else {
            hir
        };
        let candidates = if multiline {
            None
        } else {
            Candidates::of(&hir)
        };
        let exclude = match exclude {
            Some(exclude) => {
                let reading = Reading {
                    case_insensitive: reading.case_insensitive,
                    ..Reading::default()
                };
                let hir = parse(exclude, reading).map_err(of_exclude)?;
                Some(compile(&hir, exclude).map_err(of_exclude)?)
            }
            None => None,
        };
        Ok(Self {
            regex: compile(&hir, pattern)?,
            candidates,
            exclude,
            note,
        })
    }
}

/// There, only a regular expression will do.
fn of_exclude(mut error: Error) -> Error {
    error.message = format!("`exclude_pattern`: {}", error.message);
    error.recommendations.clear();
    error.recommend("escape special characters with a backslash")
}

fn parse(pattern: &str, reading: Reading) -> Result<Hir> {
    let escaped = reading.fixed.then(|| regex_syntax::escape(pattern));
    ParserBuilder::new()
        .case_insensitive(reading.case_insensitive)
        .multi_line(true)
        .crlf(true)
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
                "escape special characters with a backslash, or set `fixed_strings` to search for the text as it is"
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

/// Does the pattern ask for a line end in so many words? (`\s` and `[^a]` do not.)
fn names_line_end(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Literal(literal) => literal.0.contains(&b'\n'),
        HirKind::Repetition(repetition) => names_line_end(&repetition.sub),
        HirKind::Capture(capture) => names_line_end(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(names_line_end),
        HirKind::Empty | HirKind::Class(_) | HirKind::Look(_) => false,
    }
}

/// The same pattern, unable to match a line end. Groups go: nobody asks for them, and engines are faster without.
fn within_line(hir: Hir) -> Hir {
    match hir.into_kind() {
        HirKind::Empty => Hir::empty(),
        HirKind::Literal(literal) => Hir::literal(literal.0),
        HirKind::Class(Class::Unicode(mut class)) => {
            class.difference(&ClassUnicode::new([ClassUnicodeRange::new('\n', '\n')]));
            Hir::class(Class::Unicode(class))
        }
        HirKind::Class(Class::Bytes(mut class)) => {
            class.difference(&ClassBytes::new([ClassBytesRange::new(b'\n', b'\n')]));
            Hir::class(Class::Bytes(class))
        }
        HirKind::Look(look) => Hir::look(match look {
            Look::Start | Look::StartLF => Look::StartCRLF,
            Look::End | Look::EndLF => Look::EndCRLF,
            look => look,
        }),
        HirKind::Repetition(mut repetition) => {
            *repetition.sub = within_line(*repetition.sub);
            Hir::repetition(repetition)
        }
        HirKind::Capture(capture) => within_line(*capture.sub),
        HirKind::Concat(parts) => Hir::concat(parts.into_iter().map(within_line).collect()),
        HirKind::Alternation(parts) => {
            Hir::alternation(parts.into_iter().map(within_line).collect())
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
    fn check(pattern: &str, reading: Reading, text: &str, expected: Expect) {
        let answer = match Query::new(pattern, None, reading) {
            Ok(query) => {
                let found: Vec<&str> = query
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

    const PLAIN: Reading = Reading {
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
            Reading {
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
                r#"["a\nb"] (the pattern names a line end; searched with `multiline = true`)"#
            ]],
        );
    }

    #[test]
    fn words_and_letter_case() {
        check(
            "foo",
            Reading {
                word: true,
                ..PLAIN
            },
            "foobar foo",
            expect![[r#"["foo"]"#]],
        );
        check(
            "foo|bar",
            Reading {
                word: true,
                case_insensitive: true,
                ..PLAIN
            },
            "FOO food Bar",
            expect![[r#"["FOO", "Bar"]"#]],
        );
        check(
            "a.b(",
            Reading {
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
