//! Comparison of `grep` and `glob` with ripgrep's engine (the crates `grep-regex`, `grep-searcher` and `ignore`) on
//! random patterns, hostile texts, ignore rules and globs. Intended differences are listed in docs/tools.md; each has a test here.

use std::collections::BTreeSet;
use std::path::Path;

use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, SearcherBuilder, Sink, SinkMatch};
use ignore::WalkBuilder;
use proptest::prelude::*;
use proptest::sample::select;
use regex_syntax::ParserBuilder;
use regex_syntax::hir::Look;
use toolhost_sdk::testing;

use super::super::Output;
use super::*;

#[derive(Clone, Copy, Debug, Default)]
struct Flags {
    case_insensitive: bool,
    word: bool,
    inverted: bool,
    multiline: bool,
}

/// The matching lines. ripgrep merges matches on adjacent lines, so lines are compared.
type Lines = BTreeSet<u64>;

#[derive(Default)]
struct Matches(Lines);

impl Sink for Matches {
    type Error = std::io::Error;

    fn matched(
        &mut self,
        _: &grep_searcher::Searcher,
        found: &SinkMatch<'_>,
    ) -> Result<bool, Self::Error> {
        let first = found.line_number().unwrap();
        let lines = found.lines().count() as u64;
        self.0.extend(first..first + lines);
        Ok(true)
    }
}

fn matcher(pattern: &str, flags: Flags, crlf: bool) -> Option<RegexMatcher> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .multi_line(true)
        .case_insensitive(flags.case_insensitive)
        .word(flags.word)
        .crlf(crlf);
    if flags.multiline {
        builder.dot_matches_new_line(true);
        if crlf {
            builder.line_terminator(None);
        }
    } else if !crlf {
        builder.line_terminator(Some(b'\n'));
    }
    builder.build(pattern).ok()
}

/// Like `rg`, or like `rg --crlf` if the file contains CR LF.
fn ripgrep(pattern: &str, flags: Flags, file: &Path) -> Option<Lines> {
    let text = std::fs::read(file).unwrap();
    let crlf = decoded(&text).contains("\r\n");
    let matcher = matcher(pattern, flags, crlf)?;
    let mut matches = Matches::default();
    SearcherBuilder::new()
        .line_terminator(if crlf {
            LineTerminator::crlf()
        } else {
            LineTerminator::byte(b'\n')
        })
        .multi_line(flags.multiline)
        .invert_match(flags.inverted)
        .line_number(true)
        .binary_detection(BinaryDetection::quit(0))
        .build()
        .search_path(matcher, file, &mut matches)
        .unwrap();
    Some(matches.0)
}

fn decoded(bytes: &[u8]) -> String {
    let unit: fn([u8; 2]) -> u16 = match bytes {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => return String::from_utf8_lossy(bytes).into_owned(),
    };
    let (pairs, _) = bytes[2..].as_chunks::<2>();
    let units: Vec<u16> = pairs.iter().map(|pair| unit(*pair)).collect();
    String::from_utf16_lossy(&units)
}

fn ours(pattern: &str, flags: Flags, tree: &Path) -> Result<Lines, Error> {
    let letters = [
        (flags.case_insensitive, 'i'),
        (flags.word, 'w'),
        (flags.inverted, 'v'),
        (flags.multiline, 'U'),
    ];
    let letters: String = letters
        .iter()
        .filter(|(on, _)| *on)
        .map(|(_, letter)| letter)
        .collect();
    let cx = Context::test().with_root(tree, "ro");
    let input = json!({
        "pattern": pattern, "flags": letters, "output_mode": "content", "head_limit": 10_000, "auto_context": false,
    });
    let output = testing::call::<Grep>(&cx, input)?.structured.unwrap();
    let output: Output = toolhost_sdk::serde_json::from_value(output).unwrap();
    let matches = output.files.iter().flat_map(|file| &file.matches);
    Ok(matches
        .flat_map(|found| found.line..found.line + found.text.split('\n').count() as u64)
        .collect())
}

/// Texts built from pieces that are critical for line ends, anchors and encodings.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let piece = select(vec![
        &b"foo"[..],
        b"foo",
        b"bar",
        b"Foo",
        b"o",
        b"f",
        b" ",
        b"\t",
        b"\n",
        b"\n",
        b"\n\n",
        b"\r\n",
        b"\r\n",
        b"\r",
        b"\xe2\x80\xa8",
        b"\xc2\x85",
        b"\x0b",
        b"\x0c",
        b"\xc3\xa9",
        b"\xc5\xbf",
        b"\xef\xbb\xbf",
        b"\xff",
        b"\xc3",
        b"1",
        b"_",
        b"-",
        b"\xcc\x81",
    ]);
    let plain = prop::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat());
    (plain, 0..6_u8).prop_map(|(plain, form)| {
        let units = String::from_utf8_lossy(&plain)
            .encode_utf16()
            .collect::<Vec<u16>>();
        let wide =
            |unit: fn(u16) -> [u8; 2]| units.iter().flat_map(|u| unit(*u)).collect::<Vec<u8>>();
        match form {
            0 => [&b"\xef\xbb\xbf"[..], &plain].concat(),
            1 => [&b"\xff\xfe"[..], &wide(u16::to_le_bytes)].concat(),
            2 => [&b"\xfe\xff"[..], &wide(u16::to_be_bytes), b"\xd8"].concat(),
            _ => plain,
        }
    })
}

fn pattern() -> impl Strategy<Value = String> {
    let atom = select(vec![
        "foo",
        "bar",
        "o",
        "f",
        ".",
        r"\s",
        r"\S",
        r"\w",
        r"\W",
        r"\d",
        "[^o]",
        "[fb]",
        "^",
        "$",
        "^",
        "$",
        r"\A",
        r"\z",
        r"\b",
        r"\B",
        r"\<",
        r"\>",
        "(foo|bar)",
        "(?:o|)",
        "é",
        r"\x{e9}",
        r"(?-u:\xff)",
        r"(?-u:[^a])",
        r"\x{2028}",
        "(?i)S",
        " ",
        "_",
        "[[:space:]]",
        r"\p{L}",
        "(?s:.)",
        "(?m:^)",
        "(?-m:$)",
        r"\t",
        "-",
    ]);
    let count = select(vec!["", "", "", "", "*", "+", "?", "{1,2}", "*?"]);
    let part = (atom, count).prop_map(|(atom, count)| {
        let is_anchor = matches!(
            atom,
            "^" | "$" | r"\A" | r"\z" | r"\b" | r"\B" | r"\<" | r"\>"
        );
        if is_anchor || count.is_empty() {
            atom.to_owned()
        } else {
            format!("(?:{atom}){count}")
        }
    });
    prop::collection::vec(part, 1..4).prop_map(|parts| parts.concat())
}

fn flags() -> impl Strategy<Value = Flags> {
    (any::<bool>(), 0..6_u8, 0..6_u8).prop_map(|(case_insensitive, word, inverted)| Flags {
        case_insensitive,
        word: word == 0,
        inverted: inverted == 0,
        multiline: false,
    })
}

/// The difference, if any.
fn difference(pattern: &str, flags: Flags, text: &[u8]) -> Option<String> {
    let tree = tempfile::tempdir().unwrap();
    let file = tree.path().join("a");
    std::fs::write(&file, text).unwrap();
    let expected = ripgrep(pattern, flags, &file);
    let found = ours(pattern, flags, tree.path());
    match (expected, found) {
        (Some(expected), Ok(found)) if expected == found => None,
        // ripgrep does not accept it; see `d_03_patterns_that_only_we_accept`.
        (None, _) => None,
        (expected, found) => {
            let text = String::from_utf8_lossy(text).into_owned();
            Some(format!(
                "{pattern:?} {flags:?} in {text:?}: rg {expected:?}, grep {found:?}"
            ))
        }
    }
}

/// In such text `rg --crlf` treats two kinds of carriage returns as line ends.
fn has_both_kinds_of_cr(text: &[u8]) -> bool {
    let text = decoded(text);
    text.contains("\r\n") && text.replace("\r\n", "").contains('\r')
}

/// With `--crlf` ripgrep treats a lone LF as part of the line, so `\z` matches after it.
fn is_end_of_mixed(pattern: &str, text: &[u8]) -> bool {
    let text = decoded(text);
    let is_mixed = text.contains("\r\n") && text.replace("\r\n", "").contains('\n');
    is_mixed && has_end(pattern)
}

fn has_end(pattern: &str) -> bool {
    pattern.contains(r"\z") || pattern.contains("(?-m:$)")
}

/// With `--crlf` ripgrep finds an empty match between CR and LF, but not with a pattern that contains the end of the text.
fn is_empty_between_cr_and_lf(pattern: &str, text: &[u8]) -> bool {
    let parsed = ParserBuilder::new().utf8(false).build().parse(pattern);
    let can_be_empty = parsed.is_ok_and(|hir| hir.properties().minimum_len() == Some(0));
    can_be_empty && has_end(pattern) && decoded(text).contains("\r\n")
}

/// With -U ripgrep continues after a match as if the text started there, so that `\A`, `^` and `\b` can match in the
/// middle of it. With `--crlf`, so does `$` between CR and LF.
fn looks_behind(pattern: &str, text: &[u8]) -> bool {
    let crlf = decoded(text).contains("\r\n");
    let mut parser = ParserBuilder::new();
    let mut parser = parser.utf8(false).multi_line(true).crlf(crlf).build();
    parser.parse(pattern).is_ok_and(|pattern| {
        let mut assertions = pattern.properties().look_set().iter();
        assertions.any(|look| !matches!(look, Look::End | Look::EndLF))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn d_03_random_patterns_find_the_lines_that_ripgrep_finds(
        pattern in pattern(), flags in flags(), text in text()
    ) {
        prop_assume!(!has_both_kinds_of_cr(&text) && !is_end_of_mixed(&pattern, &text));
        prop_assume!(!is_empty_between_cr_and_lf(&pattern, &text));
        prop_assert_eq!(difference(&pattern, flags, &text), None);
    }

    #[test]
    fn d_03_matches_over_several_lines_are_those_of_ripgrep(
        pattern in pattern(), case_insensitive in any::<bool>(), text in text()
    ) {
        prop_assume!(!looks_behind(&pattern, &text));
        prop_assume!(!has_both_kinds_of_cr(&text) && !is_end_of_mixed(&pattern, &text));
        let flags = Flags { case_insensitive, multiline: true, ..Flags::default() };
        prop_assert_eq!(difference(&pattern, flags, &text), None);
    }
}

#[test]
fn d_03_anchors_and_classes_in_texts_of_every_kind() {
    let texts: [&[u8]; 12] = [
        b"",
        b"\n",
        b"foo",
        b"\xef\xbb\xbffoo\nbar\n",
        b"a\rfoo\nfoo\rb\n",
        b"foo\r\nbar\r\n\r\n",
        b"a\xe2\x80\xa8foo\n",
        b"\xff\xfef\0o\0o\0\n\0b\0",
        b"\xfe\xff\0f\0o\0o\0\n\0",
        b"\xff\xfef\0o\0o\0\r\0\n\0x",
        b"foo\xff\nbar\xc3\n",
        b"\x0bfoo\x0c\n\xc2\x85\n",
    ];
    let patterns = [
        "^foo", "foo$", r"\Afoo", r"foo\z", r"\sfoo", r"foo\s", "^", "$", "^$", r"\s", r"\S$", ".",
        "^.$", "[^f]", "o.",
    ];
    for text in texts {
        for pattern in patterns {
            for inverted in [false, true] {
                let flags = Flags {
                    inverted,
                    ..Flags::default()
                };
                assert_eq!(difference(pattern, flags, text), None);
            }
        }
    }
}

#[test]
fn d_03_every_pattern_finds_an_empty_match_between_cr_and_lf() {
    for (pattern, word, expected) in [
        ("a*", true, Lines::from([1])),
        (r"(?:\z)*", true, Lines::new()),
        (r"(?:a)*\B", false, Lines::from([1])),
        (r"(?:\z)*\B", false, Lines::new()),
    ] {
        let flags = Flags {
            word,
            ..Flags::default()
        };
        let tree = tempfile::tempdir().unwrap();
        let file = tree.path().join("a");
        std::fs::write(&file, "e\r\n").unwrap();
        assert_eq!(ripgrep(pattern, flags, &file), Some(expected), "{pattern}");
        let found = ours(pattern, flags, tree.path()).unwrap();
        assert_eq!(found, Lines::from([1]), "{pattern}");
    }
}

/// ripgrep reports each of these as an error. For a model, a search with a note about the interpretation is more
/// useful.
#[test]
fn d_03_patterns_that_only_we_accept() {
    for (pattern, text, line) in [
        // Contains a line end: multiline search with a note.
        (r"foo\n", "foo\n", 1),
        (r"o\r?\nb", "foo\r\nbar\n", 1),
        // Not a regular expression: literal search with a note.
        ("foo{", "x\nfoo{\n", 2),
        ("interface{}", "interface{}\n", 1),
    ] {
        assert!(
            matcher(pattern, Flags::default(), false).is_none(),
            "{pattern}"
        );
        let tree = tree(&[("a", text)]);
        let found = ours(pattern, Flags::default(), tree.path()).unwrap();
        assert_eq!(found.first(), Some(&line), "{pattern}");
    }
    // Only with --crlf: an explicit carriage return is a character.
    let tree = tree(&[("a", "x\nfoo\r\n")]);
    assert!(matcher(r"\r$", Flags::default(), true).is_none());
    assert_eq!(
        ours(r"\r$", Flags::default(), tree.path()).unwrap(),
        BTreeSet::from([2])
    );
}

fn rule() -> impl Strategy<Value = String> {
    let lead = select(vec!["", "", "", "!", "/", "!/", "**/", "a/"]);
    let name = select(vec![
        "a",
        "b",
        "ab",
        "*.log",
        "*",
        "?",
        "[ab]",
        "a*",
        "*b",
        "**",
        "a/b",
        "a/**/b",
        "a/**",
        "x y",
        r"\#",
        "{a,b}",
        "A",
        "b ",
        "node_modules",
    ]);
    let tail = select(vec!["", "", "", "/"]);
    (lead, name, tail).prop_map(|(lead, name, tail)| format!("{lead}{name}{tail}"))
}

fn rules() -> impl Strategy<Value = String> {
    prop::collection::vec(rule(), 0..4).prop_map(|rules| rules.join("\n"))
}

fn paths() -> impl Strategy<Value = Vec<String>> {
    let name = select(vec![
        "a", "b", "ab", "A", "x y", "#", ".h", "b.log", "c.log",
    ]);
    let path = prop::collection::vec(name, 1..4).prop_map(|names| names.join("/"));
    prop::collection::vec(path, 1..10)
}

/// A tree with a file at each path, unless it is a directory, and some rule files.
fn ruled_tree(paths: &[String], rules: &[(&str, String)]) -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = tree.path().join(path);
        let made = std::fs::create_dir_all(path.parent().unwrap());
        if made.is_ok() && !path.is_dir() {
            std::fs::write(path, text).unwrap();
        }
    };
    for path in paths {
        put(path, "foo\n");
    }
    for (path, text) in rules {
        put(path, text);
    }
    tree
}

/// The files listed by `rg --files --hidden`, without version control data and without requiring a repository.
fn listed(root: &Path, glob: Option<&str>) -> Option<Vec<String>> {
    let mut builder = WalkBuilder::new(root);
    builder
        .hidden(false)
        .parents(false)
        .git_global(false)
        .require_git(false)
        .filter_entry(|entry| !matches!(entry.file_name().to_str(), Some(".git" | "node_modules")));
    if let Some(glob) = glob {
        let mut globs = ignore::overrides::OverrideBuilder::new(root);
        globs.add(glob).ok()?;
        builder.overrides(globs.build().ok()?);
    }
    let files = builder.build().map(Result::unwrap);
    let files = files.filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()));
    let names = files.map(|entry| {
        let path = entry.path().strip_prefix(root).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    Some(names)
}

fn searched(root: &Path, glob: Option<&str>) -> Vec<String> {
    let cx = Context::test().with_root(root, "ro");
    let mut input = json!({"pattern": "^|$", "output_mode": "count", "head_limit": 1000});
    if let Some(glob) = glob {
        input["glob"] = glob.into();
    }
    let output = testing::call::<Grep>(&cx, input)
        .unwrap()
        .structured
        .unwrap();
    let output: Output = toolhost_sdk::serde_json::from_value(output).unwrap();
    let mut names: Vec<String> = output.files.into_iter().map(|file| file.path).collect();
    names.sort();
    names
}

fn globbed(root: &Path, glob: &str) -> Vec<String> {
    let cx = Context::test().with_root(root, "ro");
    let input = json!({"pattern": glob, "limit": 2000});
    let output = testing::call::<crate::glob::Glob>(&cx, input)
        .unwrap()
        .structured
        .unwrap();
    let names = output["matches"].as_array().unwrap().iter();
    let mut names: Vec<String> = names
        .map(|name| name.as_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn d_03_the_files_that_are_searched_are_those_of_ripgrep(
        paths in paths(), git in rules(), ignore in rules(), below in rules()
    ) {
        let rules = [(".gitignore", git), (".ignore", ignore), ("a/.gitignore", below)];
        let tree = ruled_tree(&paths, &rules);
        // An empty file has no line to match.
        let is_empty = |name: &str| std::fs::metadata(tree.path().join(name)).unwrap().len() == 0;
        let mut expected = listed(tree.path(), None).unwrap();
        prop_assert_eq!(&globbed(tree.path(), "**/*"), &expected, "{:?}", rules);
        expected.retain(|name| !is_empty(name));
        prop_assert_eq!(&searched(tree.path(), None), &expected, "{:?}", rules);
    }

    #[test]
    fn d_03_a_glob_chooses_the_files_that_it_chooses_in_ripgrep(
        paths in paths(), glob in rule()
    ) {
        // ripgrep removes a trailing space, as in a rule file.
        prop_assume!(!glob.starts_with('!') && !glob.ends_with(['/', ' ']));
        let tree = ruled_tree(&paths, &[]);
        let Some(expected) = listed(tree.path(), Some(&glob)) else { return Ok(()) };
        prop_assert_eq!(&searched(tree.path(), Some(&glob)), &expected, "{}", glob);
    }
}
