//! `delete_file`: deletes a file, link or directory. The host keeps what was deleted for undo.

use std::fs::{self, Metadata};
use std::io;
use std::path::Path;

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::plural;

use crate::path::{Target, resolve};
use crate::protected_paths;
use crate::text::size;

/// Result of a deletion.
#[data]
pub struct Deletion {
    /// Absolute path.
    path: String,
    /// It existed and was deleted.
    deleted: bool,
    /// Number of deleted files, links and directories.
    entries: usize,
    /// Bytes in the deleted files.
    bytes: u64,
}

/// Delete a file, directory or symbolic link (not its target), except allowed directories and `.git`.
#[tool(
    destroys,
    plain_text,
    category = "file",
    kind = "delete",
    icon = "trash",
    aliases = ["remove_file", "delete_directory"],
    tags = ["file", "directory"],
    output = Deletion,
    example(description = "A file", input = r#"{"path": "notes/old.md"}"#),
    example(description = "A directory and its contents, if it exists", input = r#"{"path": "build", "recursive": true, "missing_ok": true}"#),
)]
pub fn delete_file(
    cx: &Context,
    /// Workspace-relative or absolute.
    #[arg(aliases = ["file_path", "filePath", "absolute_path", "dir_path", "directory", "target_file", "notebook_path"])]
    path: String,
    /// Delete a non-empty directory.
    #[arg(default = false)]
    recursive: bool,
    /// Succeed if the path does not exist.
    #[arg(default = false)]
    missing_ok: bool,
) -> Result<Outcome> {
    let target = resolve(cx, &path)?;
    protected_paths::check(cx, &target, "deleted")?;
    let metadata = match fs::symlink_metadata(&target.path) {
        Ok(metadata) => metadata,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(missing_outcome(&target, missing_ok));
        }
        Err(error) => return Err(target.error(&error)),
    };
    let mut gone = DeletionCount::default();
    if metadata.is_dir() {
        let held = fs::read_dir(&target.path)
            .map_err(|error| target.error(&error))?
            .count();
        if held > 0 && !recursive {
            let message = format!(
                "{} is a directory with {} in it; set `recursive` to delete them too",
                target.shown,
                plural(held, "entry", "entries")
            );
            return Err(Error::invalid_input(message)
                .code("directory_not_empty")
                .recommend(format!(
                    "look at it first: list_directory with path {:?}",
                    target.shown
                )));
        }
        gone.directory(cx, &target, &target.path)?;
    } else {
        gone.file(&target, &target.path, &metadata)?;
    }
    let shown = &target.shown;
    let summary = if metadata.is_dir() {
        match gone.entries - 1 {
            0 => format!("Deleted the empty directory {shown}"),
            held => format!(
                "Deleted the directory {shown} with {} in it ({})",
                plural(held, "entry", "entries"),
                size(gone.bytes)
            ),
        }
    } else if metadata.is_symlink() {
        format!("Deleted the link {shown}; its target was not touched")
    } else {
        format!("Deleted {shown} ({})", size(gone.bytes))
    };
    Ok(Outcome::text(&*summary)
        .summary(&*summary)
        .structured(&Deletion {
            path: target.path.display().to_string(),
            deleted: true,
            entries: gone.entries,
            bytes: gone.bytes,
        }))
}

/// Result for a missing path: an error unless `missing_ok` is set.
fn missing_outcome(target: &Target, missing_ok: bool) -> Outcome {
    let shown = &target.shown;
    let outcome = Outcome::new()
        .summary(format!("{shown} does not exist"))
        .structured(&Deletion {
            path: target.path.display().to_string(),
            deleted: false,
            entries: 0,
            bytes: 0,
        });
    if missing_ok {
        outcome.part(Part::text(format!(
            "No change: {shown} does not exist. Go on to the next step."
        )))
    } else {
        outcome.logical_error(target.not_found())
    }
}

/// What has been deleted so far.
#[derive(Default)]
struct DeletionCount {
    entries: usize,
    bytes: u64,
}

impl DeletionCount {
    fn file(&mut self, target: &Target, path: &Path, metadata: &Metadata) -> Result<()> {
        fs::remove_file(path).map_err(|error| target.error(&error))?;
        self.entries += 1;
        if metadata.is_file() {
            self.bytes += metadata.len();
        }
        Ok(())
    }

    /// Not `remove_dir_all`, so that cancellation stops it. Links are deleted, not followed.
    fn directory(&mut self, cx: &Context, target: &Target, dir: &Path) -> Result<()> {
        cx.check()?;
        let explain = |error: io::Error| target.error(&error);
        for entry in fs::read_dir(dir).map_err(explain)? {
            let entry = entry.map_err(explain)?;
            let path = entry.path();
            let metadata = fs::symlink_metadata(&path).map_err(explain)?;
            if metadata.is_dir() {
                self.directory(cx, target, &path)?;
            } else {
                self.file(target, &path, &metadata)?;
            }
        }
        fs::remove_dir(dir).map_err(explain)?;
        self.entries += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
