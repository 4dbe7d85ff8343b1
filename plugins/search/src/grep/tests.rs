//! Tests of `grep`.

#![expect(
    clippy::needless_raw_string_hashes,
    reason = "expect-test writes them this way"
)]

mod content;
mod limits;
mod mistakes;
mod ripgrep;
mod windows;

use std::fs;
use std::time::Duration;

use expect_test::{Expect, expect};
use toolhost_sdk::prelude::*;

use super::Grep;
use crate::sample::{answer, context, data, examples, tree};

/// A workspace with various files.
const FILES: &[(&str, &str)] = &[
    (
        "src/main.rs",
        "fn main() {\n    // TODO: start\n    run();\n}\n\nfn run() {\n    // todo later\n}\n",
    ),
    (
        "src/lib.rs",
        "//! Library\npub fn one() -> u8 {\n    1\n}\n",
    ),
    ("docs/guide.md", "# Guide\r\nTODO write\r\nTODO more\r\n"),
    (".github/ci.yml", "# TODO: run\n"),
    ("target/out.rs", "// TODO: hidden secret\n"),
    ("node_modules/x/index.js", "TODO\n"),
    ("data.bin", "TODO\0TODO\n"),
    (".gitignore", "/target\n*.log\n!keep.log\n"),
    ("a.log", "TODO\n"),
    ("keep.log", "TODO\n"),
    (".ignore", "docs/*.txt\n"),
    ("docs/old.txt", "TODO\n"),
    (".git/config", "TODO\n"),
];

#[expect(clippy::needless_pass_by_value, reason = "tests hand over temporaries")]
fn check(input: Value, expected: Expect) {
    let tree = tree(FILES);
    expected.assert_eq(&answer::<Grep>(&context(&tree), tree.path(), input));
}

// R-302, R-324
#[test]
fn the_examples_work() {
    let tree = tree(FILES);
    expect![[r#"
        Which files mention it: 4 files contain matches
        Definitions with the lines below them: no matches for `fn \w+_tool`
    "#]]
    .assert_eq(&examples::<Grep>(&context(&tree)));
}

#[test]
fn files_newest_first_without_ignored_and_binary_ones() {
    check(
        json!({"pattern": "TODO"}),
        expect![[r#"
        src/main.rs
        docs/guide.md
        .github/ci.yml
        keep.log

        [4 files contain matches (searched 7 files in .; 4 ignored (git: 2, tool: 2); 1 binary skipped)]"#]],
    );
}

#[test]
fn ignored_files_on_request() {
    check(
        json!({"pattern": "TODO", "no_ignore": true}),
        expect![[r#"
        src/main.rs
        docs/guide.md
        .github/ci.yml
        target/out.rs
        node_modules/x/index.js
        a.log
        keep.log
        docs/old.txt

        [8 files contain matches (searched 11 files in .; 1 binary skipped)]"#]],
    );
}

#[test]
fn rules_from_above_hold_below() {
    check(
        json!({"pattern": "TODO", "path": "docs"}),
        expect![[r#"
        docs/guide.md

        [1 file contains a match (searched 1 file in docs; 1 ignored (git: 0, tool: 1))]"#]],
    );
}

#[test]
fn a_named_place_is_searched_whatever_the_rules_say() {
    check(
        json!({"pattern": "secret", "path": "target"}),
        expect![[r#"
        target/out.rs

        [1 file contains a match (searched 1 file in target)]"#]],
    );
    check(
        json!({"pattern": "TODO", "path": "data.bin", "output_mode": "count"}),
        expect![[r#"
        data.bin:1

        [1 matching line in 1 file (searched 1 file in data.bin)]"#]],
    );
}

#[test]
fn counts() {
    check(
        json!({"pattern": "TODO", "output_mode": "count", "exclude": [".github", "**/*.log"]}),
        expect![[r#"
        docs/guide.md:2
        src/main.rs:1

        [3 matching lines in 2 files (searched 5 files in .; 3 ignored (git: 1, tool: 2); 1 binary skipped)]"#]],
    );
    check(
        json!({"pattern": "TODO", "output_mode": "count", "flags": "v", "path": "docs/guide.md"}),
        expect![[r#"
        docs/guide.md:1

        [1 matching line in 1 file (searched 1 file in docs/guide.md)]"#]],
    );
}

#[test]
fn lines_and_files_can_be_left_out() {
    check(
        json!({"pattern": "TODO", "exclude_pattern": "write|run", "output_mode": "count"}),
        expect![[r#"
        docs/guide.md:1
        keep.log:1
        src/main.rs:1

        [3 matching lines in 3 files (searched 7 files in .; 4 ignored (git: 2, tool: 2); 1 binary skipped)]"#]],
    );
    check(
        json!({"pattern": "TODO", "glob": "!docs/**"}),
        expect![[r#"
        src/main.rs
        .github/ci.yml
        keep.log

        [3 files contain matches (searched 6 files in .; 3 ignored (git: 2, tool: 1); 1 binary skipped)]"#]],
    );
}

#[test]
fn patterns_with_braces() {
    check(
        json!({"pattern": "fn main() {"}),
        expect![[r#"
        src/main.rs

        [1 file contains a match (searched 7 files in .; 4 ignored (git: 2, tool: 2); 1 binary skipped)]
        [`fn main() {` is not a regular expression; searched for it as fixed text]"#]],
    );
}

#[test]
fn a_nested_repository_has_its_own_rules() {
    let tree = tree(&[
        (".gitignore", "*.txt"),
        ("a.txt", "x"),
        ("inner/.git/info/exclude", "b.txt"),
        ("inner/a.txt", "x"),
        ("inner/b.txt", "x"),
        ("plain/a.txt", "x"),
        (".toolignore", "!plain/a.txt"),
    ]);
    expect![[r#"
        .gitignore
        inner/a.txt
        plain/a.txt
        .toolignore

        [4 files contain matches (searched 4 files in .; 2 ignored (git: 2, tool: 0))]"#]]
    .assert_eq(&answer::<Grep>(
        &context(&tree),
        tree.path(),
        json!({"pattern": "x"}),
    ));
}

// C-11
#[test]
fn flags_are_those_of_ripgrep() {
    let rows = [
        (
            "i",
            "todo: RUN",
            expect![[r#"
            .github/ci.yml:1

            [1 matching line in 1 file (searched 7 files in .; 4 ignored (git: 2, tool: 2); 1 binary skipped)]"#]],
        ),
        (
            "w",
            "tod",
            expect![[
                "[no matches for `tod` (searched 7 files in .; 4 ignored (git: 2, tool: 2); 1 binary skipped)]"
            ]],
        ),
        (
            "F",
            "one()",
            expect![[r#"
            src/lib.rs:1

            [1 matching line in 1 file (searched 7 files in .; 4 ignored (git: 2, tool: 2); 1 binary skipped)]"#]],
        ),
        (
            "v",
            "^",
            expect![[
                "[no matches for `^` (searched 7 files in .; 4 ignored (git: 2, tool: 2); 1 binary skipped)]"
            ]],
        ),
        (
            "iw",
            "LIBRARY",
            expect![[r#"
            src/lib.rs:1

            [1 matching line in 1 file (searched 7 files in .; 4 ignored (git: 2, tool: 2); 1 binary skipped)]"#]],
        ),
        (
            "U",
            "start.*run",
            expect![[r#"
            src/main.rs:1

            [1 matching line in 1 file (searched 7 files in .; 4 ignored (git: 2, tool: 2); 1 binary skipped)]"#]],
        ),
        (
            "m",
            "start.*run",
            expect![[r#"
            src/main.rs:1

            [1 matching line in 1 file (searched 7 files in .; 4 ignored (git: 2, tool: 2); 1 binary skipped)]"#]],
        ),
    ];
    for (flags, pattern, expected) in rows {
        let input = json!({"pattern": pattern, "flags": flags, "output_mode": "count"});
        check(input, expected);
    }
}

// R-490
#[test]
fn matches_are_shown_while_the_search_runs() {
    let files: Vec<(String, &str)> = (0..200)
        .map(|number| {
            (
                format!("{number:03}.txt"),
                if number % 70 == 0 { "x\n" } else { "" },
            )
        })
        .collect();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(name, text)| (name.as_str(), *text))
        .collect();
    let tree = tree(&files);
    let pieces = |mode: &str, stream: Value| {
        let cx = context(&tree);
        let input =
            json!({"pattern": "x", "output_mode": mode, "auto_context": false, "stream": stream});
        answer::<Grep>(&cx, tree.path(), input);
        let output = cx.recorded().output.into_iter();
        output
            .map(|(stream, bytes)| format!("{stream}: {}", String::from_utf8(bytes).unwrap()))
            .collect::<Vec<String>>()
    };
    for (mode, stream, expected) in [
        (
            "files_with_matches",
            json!(true),
            expect![[r#"
            [
                "stdout: 000.txt\n",
                "stdout: 070.txt\n",
                "stdout: 140.txt\n",
            ]
        "#]],
        ),
        (
            "count",
            json!(true),
            expect![[r#"
            [
                "stdout: 000.txt:1\n",
                "stdout: 070.txt:1\n",
                "stdout: 140.txt:1\n",
            ]
        "#]],
        ),
        (
            "content",
            json!(true),
            expect![[r#"
            [
                "stdout: File: 000.txt\nL1: x\n\n",
                "stdout: File: 070.txt\nL1: x\n\n",
                "stdout: File: 140.txt\nL1: x\n\n",
            ]
        "#]],
        ),
        (
            "content",
            json!(false),
            expect![[r#"
            []
        "#]],
        ),
    ] {
        expected.assert_debug_eq(&pieces(mode, stream));
    }
    // Must not take a second.
    let cx = context(&tree);
    answer::<Grep>(&cx, tree.path(), json!({"pattern": "x"}));
    assert_eq!(cx.recorded().output, []);
}

#[test]
fn what_is_mostly_no_text_is_binary_without_a_zero_too() {
    let tree = tree(&[("a.dat", "\u{1}\u{2}\u{3}TODO"), ("b.txt", "\u{1b}[1mTODO")]);
    let input = json!({"pattern": "TODO"});
    expect![[r#"
        b.txt

        [1 file contains a match (searched 1 file in .; 1 binary skipped)]"#]]
    .assert_eq(&answer::<Grep>(&context(&tree), tree.path(), input));
}

#[test]
fn a_line_feed_in_the_pattern_is_found_in_text_with_cr_lf() {
    let tree = tree(&[("a.txt", "x\r\na\r\nb\r\n")]);
    let input = json!({"pattern": "a\nb", "output_mode": "content", "multiline": true});
    expect![[r#"
        File: a.txt
        L1- x
        L2: a
        L3: b

        [1 matching line in 1 file (searched 1 file in .)]"#]]
    .assert_eq(&answer::<Grep>(&context(&tree), tree.path(), input));
}

#[test]
fn a_name_cannot_look_like_another_file() {
    let tree = tree(&[("a\nFile: b.rs", "x\n"), ("c.rs", "x\n")]);
    for (mode, expected) in [
        (
            "files_with_matches",
            expect![[r#"
            "a\nFile: b.rs"
            c.rs

            [2 files contain matches (searched 2 files in .)]"#]],
        ),
        (
            "count",
            expect![[r#"
            "a\nFile: b.rs":1
            c.rs:1

            [2 matching lines in 2 files (searched 2 files in .)]"#]],
        ),
        (
            "content",
            expect![[r#"
            File: "a\nFile: b.rs"
            L1: x

            File: c.rs
            L1: x

            [2 matching lines in 2 files (searched 2 files in .)]"#]],
        ),
    ] {
        let input = json!({"pattern": "x", "output_mode": mode});
        expected.assert_eq(&answer::<Grep>(&context(&tree), tree.path(), input));
    }
}
