//! Invalid input, and searches without results.

use super::*;

// R-324, C-11
#[test]
fn mistakes() {
    let rows = [
        (
            json!({"pattern": "foo("}),
            expect![[r#"
            InvalidInput invalid_regex: invalid regex `foo(`: unclosed group
            -> escape special characters with a backslash, or set `fixed_strings` to search for the literal text"#]],
        ),
        (
            json!({"pattern": r"(a)\1"}),
            expect![[r#"
            InvalidInput invalid_regex: invalid regex `(a)\1`: backreferences are not supported
            -> search for a simpler pattern and choose among the matches, or use `exclude_pattern`"#]],
        ),
        (
            json!({"pattern": "a(?=b)"}),
            expect![[r#"
            InvalidInput invalid_regex: invalid regex `a(?=b)`: look-around, including look-ahead and look-behind, is not supported
            -> search for a simpler pattern and choose among the matches, or use `exclude_pattern`"#]],
        ),
        (
            json!({"pattern": "a", "exclude_pattern": "*"}),
            expect![[r#"
                InvalidInput invalid_regex: `exclude_pattern`: invalid regex `*`: repetition operator missing expression
                -> escape special characters with a backslash"#]],
        ),
        (
            json!({"pattern": r"\w{1000}{1000}"}),
            expect![[r#"
            InvalidInput invalid_regex: invalid regex `\w{1000}{1000}`: it is too large when compiled
            -> use smaller repetition counts"#]],
        ),
        (
            json!({"pattern": ""}),
            expect![[
                "InvalidInput invalid_input: `pattern`: a length of 0 is less than the minimum of 1"
            ]],
        ),
        (
            json!({"pattern": "x", "path": "/etc"}),
            expect![[
                "Denied path_not_in_workspace: Permission denied: Access denied: /etc is outside the allowed paths (/tree)"
            ]],
        ),
        (
            json!({"pattern": "x", "path": "~/.ssh"}),
            expect![[
                "Denied path_not_in_workspace: Permission denied: Access denied: ~/.ssh is outside the allowed paths (/tree)"
            ]],
        ),
        (
            json!({"pattern": "x", "path": "../.."}),
            expect![[
                "Denied path_not_in_workspace: Permission denied: Access denied: ../.. is outside the allowed paths (/tree)"
            ]],
        ),
        (
            json!({"pattern": "x", "path": "a\0b"}),
            expect![[
                r#"InvalidInput invalid_path: the path "a\0b" contains a NUL character; remove it"#
            ]],
        ),
        (
            json!({"pattern": "x", "path": "scr/main.rs"}),
            expect![[
                "NotFound search_path_not_found: File not found: scr/main.rs. Did you mean: src/main.rs?"
            ]],
        ),
        (
            json!({"pattern": "x", "path": "src/main.rs/x"}),
            expect![[
                "NotFound search_path_not_found: File not found: src/main.rs/x. Did you mean: src/main.rs?"
            ]],
        ),
        (
            json!({"pattern": "x", "type": "rusty"}),
            expect![[r#"
            InvalidInput unknown_file_type: unknown file type `rusty`; did you mean one of rust, rst, ruby, r, crystal?
            -> use `glob`, for example "*.ext""#]],
        ),
        (
            json!({"pattern": "x", "glob": "a["}),
            expect![[r#"
            InvalidInput invalid_glob: invalid glob `a[`: unclosed character class; missing ']'
            -> escape special characters with a backslash: `\[id\].tsx`"#]],
        ),
        (
            json!({"pattern": "x", "exclude": ["{a"]}),
            expect![[r#"
            InvalidInput invalid_glob: invalid glob `{a`: unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)
            -> escape special characters with a backslash: `\[id\].tsx`"#]],
        ),
        (
            json!({"pattern": "x", "head_limit": 0}),
            expect![["InvalidInput invalid_input: `head_limit`: 0 is less than the minimum of 1"]],
        ),
        (
            json!({"pattern": "x", "before": 5000}),
            expect![[
                "InvalidInput invalid_input: `before`: 5000 is more than the maximum of 1000"
            ]],
        ),
        (
            json!({"pattern": "x", "output_mode": "lines"}),
            expect![[
                r#"InvalidInput invalid_input: `output_mode`: "lines" is not one of ["files_with_matches","content","count"]"#
            ]],
        ),
        (
            json!({"pattern": "x", "regexp": true}),
            expect![["InvalidInput invalid_input: `regexp` is not known"]],
        ),
    ];
    for (input, expected) in rows {
        check(input, expected);
    }
}

#[test]
fn without_roots_everything_is_denied() {
    let tree = tree(&[]);
    expect![["Denied path_not_in_workspace: Permission denied: Access denied: . is outside the allowed paths (none are granted; run host with --allow-path DIR)"]].assert_eq(&answer::<Grep>(&Context::test(), tree.path(), json!({"pattern": "x"})));
}

#[test]
fn no_matches_have_hints() {
    check(
        json!({"pattern": "SECRET"}),
        expect![[r#"
            [no matches for `SECRET` (searched 7 files in .; 4 ignored (git: 2, tool: 2); 1 binary skipped)]
            [`case_insensitive = true` with `no_ignore = true` would find it, for example in target/out.rs]"#]],
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
