//! `write_file`: creates, overwrites or appends to files while keeping their format.

use std::fs;

use toolhost_sdk::prelude::*;

use crate::edit::diff::DiffStat;
use crate::file_reader::SizeLimit;
use crate::file_writer::{load, store};
use crate::ignore_rules::check_readable;
use crate::new_content::NewContent;
use crate::pasted_output;
use crate::path::{Target, resolve};
use crate::read::sha256;
use crate::read_state;
use crate::text::{self, Encoding};
use crate::text_change::TextChange;

/// Limit of a file to append to: it is in memory twice.
const APPEND_LIMIT: SizeLimit = SizeLimit {
    bytes: 100_000_000,
    tool: "write_file with mode \"append\"",
    advice: "continue in another file",
};

/// If the file exists.
#[data]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteMode {
    Overwrite,
    /// Fail.
    Create,
    Append,
}

/// Result of a write.
#[data]
pub struct Written {
    /// Absolute path.
    path: String,
    /// New size in bytes.
    size: u64,
    /// Bytes written by this call; 0 if the file did not change.
    #[arg(rename = "bytesWritten")]
    stored: u64,
    /// The file is new.
    created: bool,
    /// The file changed.
    changed: bool,
    /// Encoding: `utf-8`, `utf-16le` …, `base64` for bytes.
    encoding: String,
    /// `lf`, `crlf`, `mixed` or `none`.
    line_ending: String,
    /// Lines added and removed; absent if the file is too large to compare.
    diff_stat: Option<DiffStat>,
    /// New SHA-256 in hexadecimal.
    sha256: String,
    /// Possible mistakes in the content, which was written unchanged.
    warnings: Option<Vec<String>>,
}

/// Create, overwrite or append to a file. Encoding and line endings are kept; fails if the file changed since you read
/// it.
#[tool(
    writes,
    plain_text,
    category = "file",
    kind = "edit",
    icon = "pencil",
    aliases = ["write", "fs_write"],
    tags = ["file", "text"],
    requires = ["fs.read", "fs.write", "session"],
    output = Written,
    example(description = "A new file", input = r#"{"path": "notes/todo.md", "content": "- water the plants\n"}"#),
    example(description = "Append a line", input = r#"{"path": "log.txt", "content": "done\n", "mode": "append"}"#),
)]
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of a tool are its schema"
)]
pub fn write_file(
    cx: &Context,
    /// Workspace-relative or absolute.
    #[arg(aliases = ["file_path", "filePath", "absolute_path", "notebook_path", "target_file"])]
    path: String,
    /// Complete, without line numbers or placeholders such as "rest of the code". An input has at most 1 MiB: append the
    /// rest.
    content: String,
    /// If the file exists.
    #[arg(default = "overwrite")]
    mode: WriteMode,
    /// `auto` keeps it, UTF-8 for new files; `base64` decodes `content` to bytes.
    #[arg(default = "auto")]
    encoding: Encoding,
    /// Create missing parent directories.
    #[arg(default = true)]
    create_dirs: bool,
    /// Required SHA-256 of the file, from read_file.
    #[arg(min_len = 64, max_len = 64)]
    expected_sha256: Option<String>,
    /// Allow emptying a file.
    #[arg(default = false)]
    allow_empty: bool,
) -> Result<Outcome> {
    let target = resolve(cx, &path)?;
    target.check_writable()?;
    if mode == WriteMode::Append
        && let Ok(metadata) = fs::metadata(&target.path)
    {
        APPEND_LIMIT.check(metadata.len(), &target.shown)?;
    }
    let old = load(&target)?;
    check_state(&target, old.as_deref(), mode, expected_sha256.as_deref())?;
    if mode == WriteMode::Overwrite
        && expected_sha256.is_none()
        && old
            .as_ref()
            .is_some_and(|old| read_state::is_stale(cx, &target, &sha256(old)))
    {
        let message = format!("{} changed since you read it", target.shown);
        return Err(Error::failed(message)
            .code("edit_stale")
            .recommend("read the file again, then write the new content"));
    }
    if mode != WriteMode::Append
        && !allow_empty
        && content.trim().is_empty()
        && old.as_ref().is_some_and(|old| !old.is_empty())
    {
        let message = format!(
            "this would empty {}; set `allow_empty` if intended",
            target.shown
        );
        return Err(Error::invalid_input(message).code("would_empty_file"));
    }

    let new = match encoding {
        Encoding::Base64 => NewContent::bytes(&content, old.as_deref(), mode)?,
        _ => NewContent::text(cx, &content, old.as_deref(), mode, encoding, &target)?,
    };
    cx.check()?;
    let changed = old.as_ref() != Some(&new.bytes);
    if changed {
        store(&target, old.as_deref(), &new.bytes, create_dirs)?;
    }
    read_state::record_seen(cx, &target, &sha256(&new.bytes), None);
    Ok(report(&target, mode, old.as_deref(), new, changed))
}

fn check_state(
    target: &Target,
    old: Option<&[u8]>,
    mode: WriteMode,
    expected_sha256: Option<&str>,
) -> Result<()> {
    let shown = &target.shown;
    if mode == WriteMode::Create && old.is_some() {
        return Err(Error::invalid_input(format!(
            "{shown} exists; set mode \"overwrite\" to replace it"
        ))
        .code("attempt_to_create_existing_file"));
    }
    match (expected_sha256, old) {
        (None, _) => Ok(()),
        (Some(_), None) => Err(target.not_found()),
        (Some(expected), Some(old)) if sha256(old).eq_ignore_ascii_case(expected) => Ok(()),
        (Some(expected), Some(_)) => {
            // The current hash is not shown: the model has to read what it would overwrite.
            let message =
                format!("{shown} changed since it was read: its sha256 is not {expected}");
            Err(Error::failed(message)
                .code("edit_stale")
                .recommend("read the file again, then write the new content"))
        }
    }
}

fn report(
    target: &Target,
    mode: WriteMode,
    old: Option<&[u8]>,
    new: NewContent,
    changed: bool,
) -> Outcome {
    let (shown, size) = (&target.shown, new.bytes.len() as u64);
    let stat = new.change.as_ref().and_then(TextChange::stat);
    let lines = stat
        .filter(|_| old.is_some())
        .map(|DiffStat { added, removed }| format!(", +{added} -{removed} lines"));
    let lines = lines.unwrap_or_default();
    let sizes = text::size(size);
    let summary = match old {
        _ if !changed => {
            format!("No change: {shown} already has this content. Continue with the next step.")
        }
        None => format!("Created {shown} ({sizes})"),
        Some(_) if mode == WriteMode::Append => format!(
            "Appended {} to {shown} (now {sizes})",
            text::size(new.written as u64)
        ),
        Some(old) => format!(
            "Overwrote {shown} ({} → {sizes}{lines})",
            text::size(old.len() as u64)
        ),
    };
    let written = Written {
        path: target.path.display().to_string(),
        size,
        stored: if changed { new.written as u64 } else { 0 },
        created: old.is_none(),
        changed,
        encoding: new.encoding.to_owned(),
        line_ending: new.line_ending.to_owned(),
        diff_stat: stat,
        sha256: sha256(&new.bytes),
        warnings: pasted_output::output_member(&new.warnings),
    };
    // Content that tools may not read must not appear in the result of a write.
    let may_show = changed && check_readable(target).is_ok();
    let snippet = new.change.as_ref().filter(|_| may_show);
    let mut llm = summary.clone();
    pasted_output::append_warnings(&mut llm, &new.warnings);
    if let Some(snippet) = snippet.and_then(TextChange::snippet) {
        llm.push('\n');
        llm.push_str(snippet.trim_end_matches('\n'));
    }
    let outcome = Outcome::text(llm).summary(summary).structured(&written);
    match new
        .change
        .filter(|_| changed)
        .and_then(TextChange::into_diff)
    {
        Some(diff) => outcome.display(Display::diff(diff)),
        None => outcome,
    }
}

#[cfg(test)]
mod tests;
