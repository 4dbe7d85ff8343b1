//! `move_file`: moves or renames a file or directory.

use std::fs::{self, Metadata};
use std::io;

use toolhost_sdk::prelude::*;

use crate::move_tree::{MoveMethod, relocate};
use crate::new_directory::make_parent;
use crate::path::{Target, resolve};
use crate::protected_paths;

/// Result of a move.
#[data]
pub struct MovedFile {
    /// Always true; failures are errors.
    success: bool,
    /// Former absolute path.
    from: String,
    /// New absolute path.
    to: String,
    /// An existing file was replaced.
    overwritten: bool,
    /// The bytes were copied, because source and destination are on different devices.
    copied: bool,
}

/// Move or rename a file or directory. An existing directory is never replaced.
#[tool(
    writes,
    plain_text,
    category = "file",
    kind = "move",
    icon = "move",
    aliases = ["rename_file"],
    tags = ["file", "directory"],
    output = MovedFile,
    example(description = "Rename a file", input = r#"{"from": "notes/old.md", "to": "notes/new.md"}"#),
)]
pub fn move_file(
    cx: &Context,
    /// Workspace-relative or absolute.
    #[arg(aliases = ["source", "src", "old_path", "source_path"])]
    from: String,
    /// New path including the name; missing parents are created.
    #[arg(aliases = ["destination", "dest", "dst", "target", "new_path", "destination_path"])]
    to: String,
    /// Replace an existing file.
    #[arg(default = false)]
    overwrite: bool,
) -> Result<Outcome> {
    let from = resolve(cx, &from)?;
    let to = resolve(cx, &to)?;
    protected_paths::check(cx, &from, "moved")?;
    to.check_writable()?;
    let metadata = fs::symlink_metadata(&from.path).map_err(|error| from.error(&error))?;
    let overwritten = check_ends(&from, &metadata, &to, overwrite)?;
    make_parent(&to)?;
    let way = relocate(cx, &from, &to, |from, to| fs::rename(from, to))?;

    let kind = if metadata.is_dir() { "directory " } else { "" };
    let replaced = if overwritten {
        ", replacing the existing file"
    } else {
        ""
    };
    let summary = format!("Moved {kind}{} to {}{replaced}", from.shown, to.shown);
    Ok(Outcome::text(&*summary)
        .summary(&*summary)
        .structured(&MovedFile {
            success: true,
            from: from.path.display().to_string(),
            to: to.path.display().to_string(),
            overwritten,
            copied: way == MoveMethod::Copied,
        }))
}

/// Checks both ends; returns whether an existing file will be replaced.
fn check_ends(from: &Target, metadata: &Metadata, to: &Target, overwrite: bool) -> Result<bool> {
    let refuse = |code: &str, message: String| Err(Error::invalid_input(message).code(code));
    let (was, is) = (&from.shown, &to.shown);
    if from.path == to.path {
        return refuse(
            "edit_no_change",
            format!("`from` and `to` are both {was}; choose another destination"),
        );
    }
    if metadata.is_dir() && to.path.starts_with(&from.path) {
        return refuse(
            "invalid_path",
            format!("{is} is inside {was}: a directory cannot be moved into itself"),
        );
    }
    let name = from.path.file_name().unwrap_or_default().to_string_lossy();
    let inside = format!("{}/{name}", is.trim_end_matches('/'));
    let there = match fs::symlink_metadata(&to.path) {
        Ok(there) => there,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(to.error(&error));
        }
        // A trailing slash means a directory.
        Err(_) if is.ends_with('/') && !metadata.is_dir() => {
            return refuse(
                "invalid_path",
                format!("`to` {is:?} is a directory; to move {was} into it, use {inside:?}"),
            );
        }
        Err(_) => return Ok(false),
    };
    if there.is_dir() {
        let error = Error::invalid_input(format!("{is} is a directory and cannot be replaced"))
            .code("attempt_to_create_existing_file")
            .recommend(format!("to move {was} into it, use `to` {inside:?}"));
        return Err(error);
    }
    if metadata.is_dir() {
        return refuse(
            "path_is_not_a_directory",
            format!("{is} is a file, but {was} is a directory; choose another destination"),
        );
    }
    if !overwrite {
        return refuse(
            "attempt_to_create_existing_file",
            format!("{is} exists already; set `overwrite` to replace it"),
        );
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
