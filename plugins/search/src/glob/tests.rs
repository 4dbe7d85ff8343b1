//! What callers of `glob` see.

#![expect(
    clippy::needless_raw_string_hashes,
    reason = "expect-test writes them this way"
)]

use std::time::Duration;

use expect_test::{Expect, expect};
use toolhost_sdk::prelude::*;
use toolhost_sdk::testing;

use super::Glob;
use crate::sample::{answer, context, data, tree};

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
];

#[expect(clippy::needless_pass_by_value, reason = "tests hand over temporaries")]
fn check(input: Value, expected: Expect) {
    let tree = tree(FILES);
    expected.assert_eq(&answer::<Glob>(&context(&tree), tree.path(), input));
}

#[test]
fn examples_fit_the_schema() {
    testing::check_examples::<Glob>().unwrap();
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
        [a pattern without `/` holds at any depth; `./*.rs` would mean this directory only]"#]],
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
            [a pattern without `/` holds at any depth; `./part.rs` would mean this directory only]"#]],
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
            [ignored files are found with `respect_git_ignore = false` and `respect_tool_ignore = false`]"#]],
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
        [a pattern without `/` holds at any depth; `./*.rs` would mean this directory only]"#]],
    );
}

#[test]
fn directories() {
    check(
        json!({"pattern": "d*", "kind": "dir"}),
        expect![[r#"
            src/deep

            [1 directory matches `d*` in .; 3 ignored (git: 1, tool: 2)]
            [a pattern without `/` holds at any depth; `./d*` would mean this directory only]"#]],
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
        [a pattern without `/` holds at any depth; `./*.rs` would mean this directory only]
        [showing 2 from 1; there are more: continue with `offset = 3`]"#]],
    );
}

#[test]
fn mistakes() {
    check(
        json!({"pattern": "../*.rs"}),
        expect![
            "Denied Permission denied: Access denied: ../*.rs is outside the allowed paths (/tree)"
        ],
    );
    check(
        json!({"pattern": "/etc/*"}),
        expect![
            "Denied Permission denied: Access denied: /etc/* is outside the allowed paths (/tree)"
        ],
    );
    check(
        json!({"pattern": "{a"}),
        expect![
            "InvalidInput invalid glob `{a`: unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)"
        ],
    );
    check(
        json!({"pattern": "x", "path": "srd"}),
        expect!["NotFound File not found: srd. Did you mean: src?"],
    );
    check(
        json!({"pattern": "x", "path": "build.rs"}),
        expect!["InvalidInput `build.rs` is a file; glob searches directories"],
    );
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
        [the time was up before everything was seen; narrow it down with `path` or a longer prefix]"#]]
    .assert_eq(&answer::<Glob>(&cx, tree.path(), json!({"pattern": "*.rs"})));
}
