//! `create_directory`: creates a directory and its missing parents.

use std::fs;
use std::io;
use std::path::Path;

use toolhost_sdk::prelude::*;

use crate::path::{Target, resolve};

/// Result of the call.
#[data]
pub struct CreatedDirectory {
    /// Absolute path.
    path: String,
    /// It did not exist before.
    created: bool,
}

/// Create a directory and missing parents. An existing directory is not an error.
#[tool(
    writes,
    idempotent,
    plain_text,
    category = "file",
    kind = "edit",
    icon = "folder",
    aliases = ["make_directory", "mkdir"],
    tags = ["file", "directory"],
    output = CreatedDirectory,
    example(description = "A nested directory", input = r#"{"path": "docs/images"}"#),
)]
pub fn create_directory(
    cx: &Context,
    /// Workspace-relative or absolute.
    #[arg(aliases = ["dir_path", "directory", "file_path", "filePath", "absolute_path", "target_file"])]
    path: String,
) -> Result<Outcome> {
    let target = resolve(cx, &path)?;
    let shown = &target.shown;
    let created = match fs::metadata(&target.path) {
        Ok(metadata) if metadata.is_dir() => false,
        Ok(_) => return Err(target.not_a_directory()),
        Err(_) => {
            target.check_writable()?;
            make(&target)?;
            true
        }
    };
    let summary = if created {
        format!("Created the directory {shown}")
    } else {
        format!("No change: the directory {shown} already exists. Continue with the next step.")
    };
    let made = CreatedDirectory {
        path: target.path.display().to_string(),
        created,
    };
    Ok(Outcome::text(&*summary)
        .summary(&*summary)
        .structured(&made))
}

const FILE_OR_LINK: &str = "a file or a link that is dangling";

/// Creates the directory `target` and its missing parents.
pub fn make(target: &Target) -> Result<()> {
    create_all(target, &target.path, FILE_OR_LINK)
}

/// Creates the parent directory of `target` if it does not exist.
pub fn make_parent(target: &Target) -> Result<()> {
    match target.path.parent() {
        Some(parent) if !parent.is_dir() => create_all(target, parent, FILE_OR_LINK),
        _ => Ok(()),
    }
}

/// Creates `dir`, which belongs to `target`, and its missing parents. `obstacle` is what a part of the path may be
/// instead of a directory.
pub fn create_all(target: &Target, dir: &Path, obstacle: &str) -> Result<()> {
    fs::create_dir_all(dir).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            Error::invalid_input(format!(
                "cannot create {}: a part of its path is {obstacle}",
                target.shown
            ))
            .code("path_is_not_a_directory")
        }
        _ => target.error(&error),
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::testing::Workspace;

    fn check(workspace: &Workspace, path: &str, expected: Expect) {
        expected.assert_eq(&workspace.call::<create_directory>(json!({"path": path})));
    }

    #[test]
    fn creation_is_idempotent() {
        let workspace = Workspace::new(&[]);
        check(
            &workspace,
            "a/b/c",
            expect![[r#"
            Created the directory a/b/c
            summary: Created the directory a/b/c
            {"path":"<root>/a/b/c","created":true}"#]],
        );
        assert!(workspace.path("a/b/c").is_dir());
        check(
            &workspace,
            "a/b/c",
            expect![[r#"
            No change: the directory a/b/c already exists. Continue with the next step.
            summary: No change: the directory a/b/c already exists. Continue with the next step.
            {"path":"<root>/a/b/c","created":false}"#]],
        );
        check(
            &workspace,
            ".",
            expect![[r#"
            No change: the directory . already exists. Continue with the next step.
            summary: No change: the directory . already exists. Continue with the next step.
            {"path":"<root>","created":false}"#]],
        );
    }

    #[test]
    fn invalid_paths() {
        let workspace = Workspace::new(&[("file", "")]);
        check(
            &workspace,
            "file",
            expect!["InvalidInput path_is_not_a_directory: file is a file, not a directory"],
        );
        check(
            &workspace,
            "file/below",
            expect![
                "InvalidInput path_is_not_a_directory: cannot create file/below: a part of its path is a file or a link that is dangling"
            ],
        );
        check(
            &workspace,
            "../elsewhere",
            expect![
                "Denied path_not_in_workspace: Permission denied: Access denied: ../elsewhere is outside the allowed paths (<root>)"
            ],
        );
        check(
            &workspace,
            "",
            expect![
                "InvalidInput invalid_path: the path is empty; pass a file or directory, for example `src/main.rs`"
            ],
        );
        let error = workspace.read_only::<create_directory>(json!({"path": "a"}));
        expect!["Denied permission_denied: Permission denied: Access denied: a is in <root>, which is read-only"].assert_eq(&error);
    }

    #[test]
    fn examples_are_inputs_and_run() {
        toolhost_sdk::testing::check_examples::<create_directory>().unwrap();
        Workspace::new(&[]).run_examples::<create_directory>();
    }
}
