//! What callers of `grep` see.

#![expect(
    clippy::needless_raw_string_hashes,
    reason = "expect-test writes them this way"
)]

use std::fs;
use std::time::Duration;

use expect_test::{Expect, expect};
use toolhost_sdk::prelude::*;
use toolhost_sdk::testing;

use super::Grep;
use crate::sample::{answer, context, data, tree};

/// A workspace with a bit of everything.
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

#[test]
fn examples_fit_the_schema() {
    testing::check_examples::<Grep>().unwrap();
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
fn content_with_context() {
    check(
        json!({"pattern": "TODO", "output_mode": "content", "-C": 1, "glob": "*.{rs,md}"}),
        expect![[r#"
        File: docs/guide.md
        L1- # Guide
        L2: TODO write
        L3: TODO more

        File: src/main.rs
        L1- fn main() {
        L2:     // TODO: start
        L3-     run();

        [3 matching lines in 2 files (searched 3 files in .; 4 ignored (git: 2, tool: 2))]"#]],
    );
    check(
        json!({"pattern": "todo", "-i": true, "output_mode": "content", "-A": 1, "-n": false, "type": "rust"}),
        expect![[r#"
        File: src/main.rs
            // TODO: start
            run();
        --
            // todo later
        }

        [2 matching lines in 1 file (searched 2 files in .; 4 ignored (git: 2, tool: 2))]"#]],
    );
}

#[test]
fn few_matches_are_shown_with_their_surroundings() {
    check(
        json!({"pattern": "later", "output_mode": "content"}),
        expect![[r#"
        File: src/main.rs
        L1- fn main() {
        L2-     // TODO: start
        L3-     run();
        L4- }
        L5- 
        L6- fn run() {
        L7:     // todo later
        L8- }

        [1 matching line in 1 file (searched 7 files in .; 4 ignored (git: 2, tool: 2); 1 binary skipped)]"#]],
    );
    check(
        json!({"pattern": "later", "output_mode": "content", "auto_context": false}),
        expect![[r#"
        File: src/main.rs
        L7:     // todo later

        [1 matching line in 1 file (searched 7 files in .; 4 ignored (git: 2, tool: 2); 1 binary skipped)]"#]],
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
fn limits_say_how_to_go_on() {
    check(
        json!({"pattern": "TODO", "head_limit": 2, "offset": 1}),
        expect![[r#"
        docs/guide.md
        .github/ci.yml

        [4 files contain matches (searched 7 files in .; 4 ignored (git: 2, tool: 2); 1 binary skipped)]
        [showing 2 from 1; there are more: continue with `offset = 3`]"#]],
    );
    check(
        json!({"pattern": "o", "output_mode": "content", "head_limit": 2}),
        expect![[r#"
        File: .gitignore
        L2: *.log
        L3: !keep.log

        [6 matching lines in 5 files (searched 7 files in .; 4 ignored (git: 2, tool: 2); 1 binary skipped)]
        [showing 2 from 0; there are more: continue with `offset = 2`]"#]],
    );
    check(
        json!({"pattern": "TODO", "output_mode": "content", "max_per_file": 1, "path": "docs"}),
        expect![[r#"
            File: docs/guide.md
            L2: TODO write

            [2 matching lines in 1 file (searched 1 file in docs; 1 ignored (git: 0, tool: 1))]
            [showing 1 from 0; there are more: raise `max_per_file` or name a file in `path`]"#]],
    );
    check(
        json!({"pattern": "TODO", "offset": 50}),
        expect![[r#"
        [4 files contain matches (searched 7 files in .; 4 ignored (git: 2, tool: 2); 1 binary skipped)]
        [nothing is left from `offset = 50`]"#]],
    );
}

#[test]
fn nothing_found_says_what_would_have_been() {
    check(
        json!({"pattern": "SECRET"}),
        expect![
            "[no matches for `SECRET` (searched 7 files in .; 4 ignored (git: 2, tool: 2); 1 binary skipped)]"
        ],
    );
    check(
        json!({"pattern": "LIBRARY"}),
        expect![[r#"
        [no matches for `LIBRARY` (searched 7 files in .; 4 ignored (git: 2, tool: 2); 1 binary skipped)]
        [`case_insensitive = true` would find it, for example in src/lib.rs]"#]],
    );
    check(
        json!({"pattern": "hidden secret"}),
        expect![[r#"
        [no matches for `hidden secret` (searched 7 files in .; 4 ignored (git: 2, tool: 2); 1 binary skipped)]
        [`no_ignore = true` would find it, for example in target/out.rs]"#]],
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
fn several_lines() {
    check(
        json!({"pattern": r"start\n\s+run", "output_mode": "content", "auto_context": false}),
        expect![[r#"
        File: src/main.rs
        L2:     // TODO: start
        L3:     run();

        [1 matching line in 1 file (searched 7 files in .; 4 ignored (git: 2, tool: 2); 1 binary skipped)]
        [the pattern names a line end; searched with `multiline = true`]"#]],
    );
}

#[test]
fn mistakes() {
    check(
        json!({"pattern": "foo("}),
        expect!["InvalidInput invalid regex `foo(`: unclosed group"],
    );
    check(
        json!({"pattern": "x", "path": "/etc"}),
        expect![
            "Denied Permission denied: Access denied: /etc is outside the allowed paths (/tree)"
        ],
    );
    check(
        json!({"pattern": "x", "path": "scr/main.rs"}),
        expect!["NotFound File not found: scr/main.rs. Did you mean: src/main.rs?"],
    );
    check(
        json!({"pattern": "x", "type": "rusty"}),
        expect![
            "InvalidInput unknown file type `rusty`; did you mean one of rust, rst, ruby, r, crystal?"
        ],
    );
    check(
        json!({"pattern": "x", "glob": "a["}),
        expect!["InvalidInput invalid glob `a[`: unclosed character class; missing ']'"],
    );
}

#[test]
fn data_for_programs() {
    let tree = tree(FILES);
    let input = json!({"pattern": "write", "output_mode": "content", "context": 1});
    expect![[r##"
        {
          "mode": "content",
          "files": [
            {
              "path": "docs/guide.md",
              "count": 1,
              "matches": [
                {
                  "line": 2,
                  "column": 6,
                  "text": "TODO write",
                  "before": [
                    "# Guide"
                  ],
                  "after": [
                    "TODO more"
                  ]
                }
              ]
            }
          ],
          "total_matches": 1,
          "total_files": 1,
          "truncated": false,
          "timed_out": false
        }"##]]
    .assert_eq(&data::<Grep>(&context(&tree), input));
}

#[test]
fn long_answers_end_at_the_limit() {
    let line = format!("x{}\n", "y".repeat(1500));
    let tree = tree(&[("long.txt", &line.repeat(50))]);
    let input = json!({"pattern": "x", "output_mode": "content"});
    let answer = answer::<Grep>(&context(&tree), tree.path(), input);
    assert!(answer.len() < 21_000, "{}", answer.len());
    assert!(
        answer.ends_with("[showing 13 from 0; there are more: continue with `offset = 13`]"),
        "{answer}"
    );
}

#[test]
fn other_encodings() {
    let tree = tree(&[("latin.txt", "")]);
    let utf16: Vec<u8> = "\u{feff}größe\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    fs::write(tree.path().join("wide.txt"), utf16).unwrap();
    fs::write(tree.path().join("bom.txt"), "\u{feff}größe\n").unwrap();
    fs::write(tree.path().join("latin.txt"), b"gr\xf6\xdfe\n").unwrap();
    let input = json!({"pattern": "^gr", "output_mode": "content"});
    expect![[r#"
        File: bom.txt
        L1: größe

        File: latin.txt
        L1: gr��e

        File: wide.txt
        L1: größe

        [3 matching lines in 3 files (searched 3 files in .)]"#]]
    .assert_eq(&answer::<Grep>(&context(&tree), tree.path(), input));
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

#[test]
fn without_time_the_answer_is_partial() {
    let tree = tree(FILES);
    let cx = context(&tree).with_remaining(Duration::ZERO);
    expect![[r#"
        [no matches for `TODO` (searched 0 files in .)]
        [the time was up before all files were searched; narrow it down with `path`, `glob` or `type`]"#]]
    .assert_eq(&answer::<Grep>(&cx, tree.path(), json!({"pattern": "TODO"})));
}

#[test]
fn a_cancelled_search_is_an_error() {
    let tree = tree(FILES);
    let cx = context(&tree).cancelled_after(0);
    expect!["Interrupted the search was cancelled"].assert_eq(&answer::<Grep>(
        &cx,
        tree.path(),
        json!({"pattern": "TODO"}),
    ));
}

#[test]
fn without_roots_everything_is_denied() {
    let tree = tree(&[]);
    expect!["Denied Permission denied: Access denied: . is outside the allowed paths (none are granted; run host with --allow-path DIR)"].assert_eq(&answer::<Grep>(&Context::test(), tree.path(), json!({"pattern": "x"})));
}

#[test]
fn large_files_are_read_to_their_end() {
    for size in [4096, 16 * 1024, 64 * 1024, 64 * 1024 + 5, 300_000] {
        let text = format!("{}needle", "x\n".repeat(size)).split_off(size + 6);
        let tree = tree(&[("big.txt", &text)]);
        let input = json!({"pattern": "needle", "output_mode": "count"});
        let answer = answer::<Grep>(&context(&tree), tree.path(), input);
        assert!(answer.starts_with("big.txt:1\n"), "{size}: {answer}");
    }
}
