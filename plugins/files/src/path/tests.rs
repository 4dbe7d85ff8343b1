//! Tests of path resolution and its errors.

use expect_test::{Expect, expect};
use toolhost_sdk::testing;

use super::*;
use crate::testing::Workspace;

/// The target or the error, with the temporary directory replaced.
fn check(workspace: &Workspace, given: &str, expected: Expect) {
    let answer = match resolve(&workspace.cx(), given) {
        Ok(target) if target.path.exists() => {
            format!("{} as {}", target.path.display(), target.shown)
        }
        Ok(target) => target.not_found().to_string(),
        Err(error) => testing::error_line(&error),
    };
    expected.assert_eq(&workspace.normalize(&answer));
}

fn sample() -> Workspace {
    Workspace::new(&[
        ("src/main.rs", "fn main() {}"),
        ("src/lib.rs", ""),
        ("README.md", ""),
        ("@types/index.d.ts", ""),
        ("my notes.txt", ""),
    ])
}

#[test]
fn what_surrounds_a_path_is_taken_off() {
    let workspace = sample();
    for given in [
        "src/main.rs",
        "./src/../src//main.rs",
        "\"src/main.rs\"",
        "`src/main.rs`\n",
        "@src/main.rs",
    ] {
        assert_eq!(
            resolve(&workspace.cx(), given).unwrap().path,
            workspace.path("src/main.rs"),
            "{given}"
        );
    }
}

#[test]
fn a_name_that_exists_is_taken_literally() {
    let workspace = sample();
    check(
        &workspace,
        "@types/index.d.ts",
        expect!["<root>/@types/index.d.ts as @types/index.d.ts"],
    );
    check(
        &workspace,
        "my notes.txt",
        expect!["<root>/my notes.txt as my notes.txt"],
    );
    check(
        &workspace,
        "my\\ notes.txt",
        expect!["<root>/my notes.txt as my notes.txt"],
    );
}

#[test]
fn a_new_file_keeps_its_at_sign_only_in_a_directory_that_has_one() {
    let workspace = sample();
    for (given, expected) in [
        ("@types/new.d.ts", "@types/new.d.ts"),
        ("@src/new.rs", "src/new.rs"),
        ("@new", "new"),
    ] {
        assert_eq!(
            resolve(&workspace.cx(), given).unwrap().path,
            workspace.path(expected)
        );
    }
}

#[test]
fn absolute_paths_work_inside_the_workspace() {
    let workspace = sample();
    let path = workspace.path("src/lib.rs");
    check(
        &workspace,
        path.to_str().unwrap(),
        expect!["<root>/src/lib.rs as <root>/src/lib.rs"],
    );
    let path = workspace.path("src/libs.rs");
    check(
        &workspace,
        path.to_str().unwrap(),
        expect!["File not found: <root>/src/libs.rs. Did you mean: <root>/src/lib.rs?"],
    );
}

#[test]
fn outside_is_outside() {
    let workspace = sample();
    check(
        &workspace,
        "/etc/passwd",
        expect![
            "Denied path_not_in_workspace: Permission denied: Access denied: /etc/passwd is outside the allowed paths (<root>)"
        ],
    );
    check(
        &workspace,
        "../other/file",
        expect![
            "Denied path_not_in_workspace: Permission denied: Access denied: ../other/file is outside the allowed paths (<root>)"
        ],
    );
    check(
        &workspace,
        "src/../../x",
        expect![
            "Denied path_not_in_workspace: Permission denied: Access denied: src/../../x is outside the allowed paths (<root>)"
        ],
    );
    check(
        &workspace,
        "~/.ssh/id_ed25519",
        expect![
            "Denied path_not_in_workspace: Permission denied: Access denied: ~/.ssh/id_ed25519 is outside the allowed paths (<root>)"
        ],
    );
    let sibling = format!(
        "{}-other/file",
        workspace
            .path("")
            .display()
            .to_string()
            .trim_end_matches('/')
    );
    check(
        &workspace,
        &sibling,
        expect![
            "Denied path_not_in_workspace: Permission denied: Access denied: <root>-other/file is outside the allowed paths (<root>)"
        ],
    );
}

#[test]
fn without_any_directory_the_message_says_what_to_do() {
    let error = resolve(&Context::test(), "a.txt").unwrap_err();
    expect!["Permission denied: Access denied: a.txt is outside the allowed paths (none are granted; run host with --allow-path DIR)"].assert_eq(&error.to_string());
}

#[test]
fn the_innermost_directory_decides() {
    let workspace = sample();
    let cx = workspace
        .cx()
        .with_root(workspace.path("src").to_str().unwrap(), "ro");
    for (given, writable) in [("README.md", true), ("src/lib.rs", false), ("srcs", true)] {
        assert_eq!(resolve(&cx, given).unwrap().writable, writable, "{given}");
    }
}

#[test]
fn a_missing_file_error_suggests_similar_names() {
    let workspace = sample();
    check(
        &workspace,
        "src/mian.rs",
        expect!["File not found: src/mian.rs. Did you mean: src/main.rs?"],
    );
    check(
        &workspace,
        "src/main.ts",
        expect!["File not found: src/main.ts. Did you mean: src/main.rs?"],
    );
    check(
        &workspace,
        "scr/main.rs",
        expect!["File not found: scr/main.rs. Did you mean: src/main.rs?"],
    );
    check(
        &workspace,
        "readme.md",
        expect!["File not found: readme.md. Did you mean: README.md?"],
    );
    check(
        &workspace,
        "elsewhere/entirely.txt",
        expect!["File not found: elsewhere/entirely.txt"],
    );
    check(
        &workspace,
        "README.md/x",
        expect!["File not found: README.md/x"],
    );
}

#[test]
fn paths_that_make_no_sense() {
    let workspace = sample();
    check(
        &workspace,
        "",
        expect![
            "InvalidInput invalid_path: the path is empty; pass a file or directory, for example `src/main.rs`"
        ],
    );
    check(
        &workspace,
        " '' ",
        expect![
            "InvalidInput invalid_path: the path is empty; pass a file or directory, for example `src/main.rs`"
        ],
    );
    check(
        &workspace,
        "a\0b",
        expect![[
            r#"InvalidInput invalid_path: the path "a\0b" contains a NUL character; remove it"#
        ]],
    );
}

#[test]
fn errors_of_the_system() {
    let workspace = sample();
    let target = resolve(&workspace.cx(), "README.md").unwrap();
    let errors = [
        io::ErrorKind::PermissionDenied,
        io::ErrorKind::ReadOnlyFilesystem,
        io::ErrorKind::IsADirectory,
        io::ErrorKind::StorageFull,
        io::ErrorKind::Other,
    ];
    let errors = errors.map(io::Error::from).into_iter();
    let errors = errors.chain([io::Error::from_raw_os_error(OVERFLOW)]);
    let messages = errors.map(|error| {
        let error = target.error(&error);
        format!("{}\n", testing::error_line(&error))
    });
    expect![[r#"
        Denied permission_denied: Permission denied: Access denied: README.md is protected, not accessible to the user of the host, or a symbolic link that leaves the allowed paths
        Denied permission_denied: Permission denied: Access denied: README.md is protected, not accessible to the user of the host, or a symbolic link that leaves the allowed paths
        InvalidInput target_is_directory: README.md is a directory, not a file
        Failed no_space_left: no space left on the device for README.md
        Failed io_error: cannot access README.md: other error
        Failed too_many_entries: README.md has more entries than the host's limit
    "#]].assert_eq(&messages.collect::<String>());
}
