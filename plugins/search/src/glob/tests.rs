//! Tests of `glob`.

#![expect(
    clippy::needless_raw_string_hashes,
    reason = "expect-test writes them this way"
)]

mod mistakes;

use std::fs;
use std::time::{Duration, SystemTime};

use expect_test::{Expect, expect};
use toolhost_sdk::prelude::*;

use super::Glob;
use crate::sample::{answer, context, data, examples, tree};

const FILES: &[(&str, &str)] = &[
    ("src/main.rs", ""),
    ("src/deep/Part.RS", ""),
    ("src/deep/part.rs", ""),
    ("build.rs", ""),
    ("app/[id]/page.tsx", ""),
    ("app/i/page.tsx", ""),
    (".env.rs", ""),
    ("target/out.rs", ""),
    ("node_modules/x.rs", ""),
    (".gitignore", "target"),
    ("gone/.toolignore", "*.rs"),
    ("gone/x.rs", ""),
    ("tests/[a].txt", ""),
    ("with space/a.txt", ""),
];

#[expect(clippy::needless_pass_by_value, reason = "tests hand over temporaries")]
fn check(input: Value, expected: Expect) {
    let tree = tree(FILES);
    expected.assert_eq(&answer::<Glob>(&context(&tree), tree.path(), input));
}

// R-301, R-323
#[test]
fn the_examples_work() {
    let tree = tree(FILES);
    expect![[r#"
        All Rust files: 5 files match `**/*.rs`
        Directories named tests: 1 directory matches `tests`
    "#]]
    .assert_eq(&examples::<Glob>(&context(&tree)));
}

#[test]
fn newest_first_and_at_any_depth() {
    check(
        json!({"pattern": "*.rs"}),
        expect![[r#"
        src/main.rs
        src/deep/Part.RS
        src/deep/part.rs
        build.rs
        .env.rs

        [5 files match `*.rs` in .; 3 ignored (git: 1, tool: 2)]
        [a pattern without `/` matches at any depth; `./*.rs` matches only in this directory]"#]],
    );
    check(
        json!({"pattern": "**/*.rs", "sort": "path"}),
        expect![[r#"
        .env.rs
        build.rs
        src/deep/Part.RS
        src/deep/part.rs
        src/main.rs

        [5 files match `**/*.rs` in .; 3 ignored (git: 1, tool: 2)]"#]],
    );
}

#[test]
fn a_slash_ties_a_pattern_to_its_place() {
    check(
        json!({"pattern": "./*.rs"}),
        expect![[r#"
        build.rs
        .env.rs

        [2 files match `./*.rs` in .; 2 ignored (git: 1, tool: 1)]"#]],
    );
    check(
        json!({"pattern": "src/*.rs"}),
        expect![[r#"
            src/main.rs

            [1 file matches `src/*.rs` in .]"#]],
    );
    check(
        json!({"pattern": "*/*.rs", "path": "src"}),
        expect![[r#"
        src/deep/Part.RS
        src/deep/part.rs

        [2 files match `*/*.rs` in src]"#]],
    );
    check(
        json!({"pattern": "SRC/**/part.*", "sort": "path"}),
        expect![[r#"
        src/deep/Part.RS
        src/deep/part.rs

        [2 files match `SRC/**/part.*` in .; 3 ignored (git: 1, tool: 2)]"#]],
    );
}

#[test]
fn a_path_that_is_there_is_no_pattern() {
    check(
        json!({"pattern": "app/[id]/page.tsx"}),
        expect![[r#"
            app/[id]/page.tsx

            [1 file matches `app/[id]/page.tsx` in .]"#]],
    );
    check(
        json!({"pattern": "app/[id]", "kind": "any"}),
        expect![[r#"
            app/[id]

            [1 entry matches `app/[id]` in .]"#]],
    );
    check(
        json!({"pattern": "app/[id]/*.tsx"}),
        expect![[r#"
        app/[id]/page.tsx

        [1 file matches `app/[id]/*.tsx` in .]"#]],
    );
    check(
        json!({"pattern": "[a].txt", "path": "tests"}),
        expect![[r#"
            tests/[a].txt

            [1 file matches `[a].txt` in tests]"#]],
    );
    check(
        json!({"pattern": "app/[ij]/*.tsx"}),
        expect![[r#"
            app/i/page.tsx

            [1 file matches `app/[ij]/*.tsx` in .]"#]],
    );
}

#[test]
fn letter_case_and_dots() {
    check(
        json!({"pattern": "part.rs", "case_sensitive": true}),
        expect![[r#"
            src/deep/part.rs

            [1 file matches `part.rs` in .; 3 ignored (git: 1, tool: 2)]
            [a pattern without `/` matches at any depth; `./part.rs` matches only in this directory]"#]],
    );
    check(
        json!({"pattern": "*.rs", "dot": false, "exclude": ["src/"]}),
        expect![[r#"
            build.rs

            [1 file matches `*.rs` in .; 3 ignored (git: 1, tool: 2)]"#]],
    );
}

#[test]
fn ignored_files_on_request() {
    check(
        json!({"pattern": "out.rs"}),
        expect![[r#"
            [no file matches `out.rs` in .; 3 ignored (git: 1, tool: 2)]
            [`respect_git_ignore = false` would find it, for example target/out.rs]"#]],
    );
    check(
        json!({"pattern": "target/*"}),
        expect![[r#"
            target/out.rs

            [1 file matches `target/*` in .]"#]],
    );
    let all = json!({"pattern": "*.rs", "respect_git_ignore": false, "respect_tool_ignore": false, "sort": "path"});
    check(
        all,
        expect![[r#"
        .env.rs
        build.rs
        gone/x.rs
        node_modules/x.rs
        src/deep/Part.RS
        src/deep/part.rs
        src/main.rs
        target/out.rs

        [8 files match `*.rs` in .]
        [a pattern without `/` matches at any depth; `./*.rs` matches only in this directory]"#]],
    );
}

#[test]
fn directories() {
    check(
        json!({"pattern": "d*", "kind": "dir"}),
        expect![[r#"
            src/deep

            [1 directory matches `d*` in .; 3 ignored (git: 1, tool: 2)]
            [a pattern without `/` matches at any depth; `./d*` matches only in this directory]"#]],
    );
    check(
        json!({"pattern": "app/**", "kind": "any", "sort": "path"}),
        expect![[r#"
        app/[id]
        app/[id]/page.tsx
        app/i
        app/i/page.tsx

        [4 entries match `app/**` in .]"#]],
    );
}

#[test]
fn limits_say_how_to_go_on() {
    check(
        json!({"pattern": "*.rs", "sort": "path", "limit": 2, "offset": 1}),
        expect![[r#"
        build.rs
        src/deep/Part.RS

        [5 files match `*.rs` in .; 3 ignored (git: 1, tool: 2)]
        [a pattern without `/` matches at any depth; `./*.rs` matches only in this directory]
        [showing 2 from 1; more exist: continue with `offset = 3`]"#]],
    );
}

// C-24
#[test]
fn three_orders() {
    let input = |sort: &str| json!({"pattern": "*.txt", "sort": sort});
    let tree = tree(&[
        ("b.txt", ""),
        ("a.txt", ""),
        ("new.txt", ""),
        ("newest.txt", ""),
    ]);
    let touch = |name: &str, ago: u64| {
        let file = fs::File::options().write(true).open(tree.path().join(name));
        let time = SystemTime::now() - Duration::from_secs(ago);
        file.unwrap().set_modified(time).unwrap();
    };
    touch("new.txt", 7200);
    touch("newest.txt", 60);
    for (sort, expected) in [
        (
            "mtime",
            expect![[r#"
            newest.txt
            new.txt
            b.txt
            a.txt"#]],
        ),
        (
            "path",
            expect![[r#"
            a.txt
            b.txt
            new.txt
            newest.txt"#]],
        ),
        (
            "gem",
            expect![[r#"
            newest.txt
            new.txt
            a.txt
            b.txt"#]],
        ),
    ] {
        let text = answer::<Glob>(&context(&tree), tree.path(), input(sort));
        expected.assert_eq(text.split("\n\n").next().unwrap());
    }
}

#[test]
fn long_answers_end_at_the_limit() {
    let names: Vec<String> = (0..300)
        .map(|number| format!("{number:0100}.txt"))
        .collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let tree = tree(&files);
    let input = json!({"pattern": "*.txt", "sort": "path", "limit": 2000});
    let answer = answer::<Glob>(&context(&tree), tree.path(), input);
    assert!(answer.len() < 20_300, "{}", answer.len());
    assert!(
        answer.ends_with("[showing 190 from 0; more exist: continue with `offset = 190`]"),
        "{answer}"
    );
}

#[test]
fn path_notations() {
    let rows = [
        (
            json!({"pattern": "*.rs", "path": "@src"}),
            expect![[r#"
            src/main.rs
            src/deep/Part.RS
            src/deep/part.rs

            [3 files match `*.rs` in src]
            [a pattern without `/` matches at any depth; `./*.rs` matches only in this directory]"#]],
        ),
        (
            json!({"pattern": "*.tsx", "path": "\"app/[id]/\"\n"}),
            expect![[r#"
                app/[id]/page.tsx

                [1 file matches `*.tsx` in app/[id]]"#]],
        ),
        (
            json!({"pattern": "*.txt", "dir_path": r"with\ space"}),
            expect![[r#"
                with space/a.txt

                [1 file matches `*.txt` in with space]"#]],
        ),
        (
            json!({"pattern": "*.txt", "cwd": "", "absolute": true}),
            expect![[r#"
                /tree/tests/[a].txt
                /tree/with space/a.txt

                [2 files match `*.txt` in .; 3 ignored (git: 1, tool: 2)]
                [a pattern without `/` matches at any depth; `./*.txt` matches only in this directory]"#]],
        ),
    ];
    for (input, expected) in rows {
        check(input, expected);
    }
}

#[test]
fn data_for_programs() {
    let tree = tree(FILES);
    expect![[r#"
        {
          "matches": [
            "app/[id]/page.tsx"
          ],
          "count": 1,
          "total_known": 2,
          "truncated": true,
          "ignored": {
            "git": 1,
            "tool": 2
          },
          "timed_out": false
        }"#]]
    .assert_eq(&data::<Glob>(
        &context(&tree),
        json!({"pattern": "*.tsx", "limit": 1}),
    ));
}

#[test]
fn without_time_the_answer_is_partial() {
    let tree = tree(FILES);
    let cx = context(&tree).with_remaining(Duration::ZERO);
    expect![[r#"
        [no file matches `*.rs` in .]
        [the search stopped at the time limit; narrow it with `path` or a longer prefix]"#]]
    .assert_eq(&answer::<Glob>(
        &cx,
        tree.path(),
        json!({"pattern": "*.rs"}),
    ));
}

#[test]
fn a_name_cannot_look_like_another_file() {
    let tree = tree(&[("a\nb.rs", ""), ("c.rs", "")]);
    let input = json!({"pattern": "*.rs"});
    expect![[r#"
        "a\nb.rs"
        c.rs

        [2 files match `*.rs` in .]"#]]
    .assert_eq(&answer::<Glob>(&context(&tree), tree.path(), input.clone()));
    assert!(data::<Glob>(&context(&tree), input).contains(r#""a\nb.rs""#));
}
