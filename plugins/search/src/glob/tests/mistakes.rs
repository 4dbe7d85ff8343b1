//! Invalid input, and searches without results.

use super::*;

// R-323, C-12
#[test]
fn mistakes() {
    let rows = [
        (
            json!({"pattern": "../*.rs"}),
            expect![[
                "Denied path_not_in_workspace: Permission denied: Access denied: ../*.rs is outside the allowed paths (/tree)"
            ]],
        ),
        (
            json!({"pattern": "/etc/*"}),
            expect![[
                "Denied path_not_in_workspace: Permission denied: Access denied: /etc/* is outside the allowed paths (/tree)"
            ]],
        ),
        (
            json!({"pattern": "/etc/passwd"}),
            expect![[
                "Denied path_not_in_workspace: Permission denied: Access denied: /etc/passwd is outside the allowed paths (/tree)"
            ]],
        ),
        (
            json!({"pattern": "{a"}),
            expect![[r#"
            InvalidInput invalid_glob: invalid glob `{a`: unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)
            -> escape special characters with a backslash: `\[id\].tsx`"#]],
        ),
        (
            json!({"pattern": "*", "exclude": ["a["]}),
            expect![[r#"
            InvalidInput invalid_glob: invalid glob `a[`: unclosed character class; missing ']'
            -> escape special characters with a backslash: `\[id\].tsx`"#]],
        ),
        (
            json!({"pattern": ""}),
            expect![[
                "InvalidInput invalid_input: `pattern`: a length of 0 is less than the minimum of 1"
            ]],
        ),
        (
            json!({"pattern": "x", "path": "srd"}),
            expect![["NotFound search_path_not_found: File not found: srd. Did you mean: src?"]],
        ),
        (
            json!({"pattern": "x", "path": "build.rs"}),
            expect![[r#"
            InvalidInput search_path_not_a_directory: `build.rs` is a file; glob searches directories
            -> set the directory in `path` and the file in `pattern`"#]],
        ),
        (
            json!({"pattern": "x", "path": "~"}),
            expect![[
                "Denied path_not_in_workspace: Permission denied: Access denied: ~ is outside the allowed paths (/tree)"
            ]],
        ),
        (
            json!({"pattern": "x", "path": "a\0b"}),
            expect![[
                r#"InvalidInput invalid_path: the path "a\0b" contains a NUL character; remove it"#
            ]],
        ),
        (
            json!({"pattern": "x", "limit": 2001}),
            expect![["InvalidInput invalid_input: `limit`: 2001 is more than the maximum of 2000"]],
        ),
        (
            json!({"pattern": "x", "offset": -1}),
            expect![["InvalidInput invalid_input: `offset`: -1 is less than the minimum of 0"]],
        ),
        (
            json!({"pattern": "x", "sort": "size"}),
            expect![[
                r#"InvalidInput invalid_input: `sort`: "size" is not one of ["mtime","path","gem"]"#
            ]],
        ),
        (
            json!({"pattern": "x", "depth": 1}),
            expect![["InvalidInput invalid_input: `depth` is not known"]],
        ),
    ];
    for (input, expected) in rows {
        check(input, expected);
    }
}

#[test]
fn without_roots_everything_is_denied() {
    let tree = tree(&[]);
    let input = json!({"pattern": "x"});
    expect![["Denied path_not_in_workspace: Permission denied: Access denied: . is outside the allowed paths (none are granted; run host with --allow-path DIR)"]].assert_eq(&answer::<Glob>(&Context::test(), tree.path(), input));
}

#[test]
fn no_matches_have_hints() {
    let rows = [
        (
            json!({"pattern": "PART.rs", "case_sensitive": true}),
            expect![[r#"
                [no file matches `PART.rs` in .; 3 ignored (git: 1, tool: 2)]
                [`case_sensitive = false` would find it, for example src/deep/Part.RS]"#]],
        ),
        (
            json!({"pattern": ".env.*", "dot": false}),
            expect![[r#"
            [no file matches `.env.*` in .; 3 ignored (git: 1, tool: 2)]
            [`dot = true` would find it, for example .env.rs]"#]],
        ),
        (
            json!({"pattern": "deep"}),
            expect![[r#"
            [no file matches `deep` in .; 3 ignored (git: 1, tool: 2)]
            [`kind = "any"` would find it, for example src/deep]"#]],
        ),
        (
            json!({"pattern": "src/deep"}),
            expect![[r#"
            [no file matches `src/deep` in .]
            [`kind = "any"` would find src/deep]"#]],
        ),
        (
            json!({"pattern": "out.rs"}),
            expect![[r#"
            [no file matches `out.rs` in .; 3 ignored (git: 1, tool: 2)]
            [`respect_git_ignore = false` would find it, for example target/out.rs]"#]],
        ),
        (
            json!({"pattern": "gone/x.rs", "path": ".", "kind": "dir"}),
            expect![[r#"
                [no directory matches `gone/x.rs` in .]
                [`kind = "any"` would find gone/x.rs]"#]],
        ),
        (
            json!({"pattern": "**/gone/x.*"}),
            expect![[r#"
            [no file matches `**/gone/x.*` in .; 3 ignored (git: 1, tool: 2)]
            [`respect_tool_ignore = false` would find it, for example gone/x.rs]"#]],
        ),
        (
            json!({"pattern": "nowhere"}),
            expect![["[no file matches `nowhere` in .; 3 ignored (git: 1, tool: 2)]"]],
        ),
    ];
    for (input, expected) in rows {
        check(input, expected);
    }
}
