//! `read_file`: reads a page of a text file, a notebook, or an image.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest, Sha256};
use toolhost_sdk::prelude::*;

use crate::file_reader::{SizeLimit, open};
use crate::media;
use crate::media_file;
use crate::notebook::notebook_text::NotebookText;
use crate::notebook::{Notebook, is_notebook};
use crate::page::{LineRange, Page, RangeInput};
use crate::pasted_output;
use crate::path::{Target, resolve};
use crate::read_state;
use crate::text::{self, Encoding};

/// The whole file is read, for its hash and line count.
pub const LIMIT: SizeLimit = SizeLimit {
    bytes: 64_000_000,
    tool: "read_file",
    advice: "search it with `grep`",
};
/// From this size on, reading without a range adds advice.
const LARGE: u64 = 10_000_000;
const MOST_IMAGE_BYTES: u64 = 15_000_000;
const MOST_BASE64_BYTES: u64 = 1_000_000;

/// Content and metadata of a file.
#[data]
pub struct FileContent {
    /// Absolute path.
    path: String,
    /// The shown lines as in the file; empty for an image.
    content: String,
    /// Size of the whole file in bytes.
    size: u64,
    /// Encoding: `utf-8`, `utf-16le`, `latin1` …, `base64` if requested, `binary` for an image.
    encoding: String,
    /// `lf`, `crlf`, `mixed` or `none`.
    line_ending: String,
    /// First shown line, from 1; 0 if none.
    start_line: usize,
    /// Last shown line; 0 if none.
    end_line: usize,
    /// Number of lines of the whole file.
    total_lines: usize,
    /// More lines follow, or lines are cut.
    truncated: bool,
    /// SHA-256 of the whole file in hexadecimal, for `expected_sha256`.
    sha256: String,
    /// Last modification, in milliseconds since 1970.
    mtime_ms: Option<u64>,
    /// Media type, such as `text/plain`.
    media_type: String,
}

impl FileContent {
    fn unread(target: &Target, bytes: &[u8], mtime_ms: Option<u64>, media_type: &str) -> Self {
        Self {
            path: target.path.display().to_string(),
            content: String::new(),
            size: bytes.len() as u64,
            encoding: "binary".to_owned(),
            line_ending: "none".to_owned(),
            start_line: 0,
            end_line: 0,
            total_lines: 0,
            truncated: false,
            sha256: sha256(bytes),
            mtime_ms,
            media_type: media_type.to_owned(),
        }
    }
}

/// Read a text file with line numbers (`     1→text`; the prefix is not file content), a Jupyter notebook by cells, or
/// an image. Lines are cut at 2000 characters. For PDF and audio use read_media.
#[tool(
    reads,
    idempotent,
    plain_text,
    category = "file",
    kind = "read",
    icon = "file",
    aliases = ["read", "read_text_file", "fs_read"],
    tags = ["file", "text", "image", "notebook"],
    requires = ["fs.read", "session"],
    output = FileContent,
    example(description = "A whole file", input = r#"{"path": "src/main.rs"}"#),
    example(description = "Lines 200 to 259", input = r#"{"path": "src/main.rs", "offset": 200, "limit": 60}"#),
    example(description = "The end of a log", input = r#"{"path": "build.log", "tail": 50}"#),
)]
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of a tool are its schema"
)]
pub fn read_file(
    cx: &Context,
    /// Workspace-relative or absolute.
    #[arg(aliases = ["file_path", "filePath", "absolute_path", "notebook_path", "dir_path", "directory", "target_file"])]
    path: String,
    /// First line, from 1.
    #[arg(min = 1, aliases = ["start_line"])]
    offset: Option<u32>,
    /// Lines; by default up to 2000 lines or 38 000 bytes.
    #[arg(min = 1)]
    limit: Option<u32>,
    /// Last line, instead of `limit`.
    #[arg(min = 1)]
    end_line: Option<u32>,
    /// Only this many first lines.
    #[arg(min = 1)]
    head: Option<u32>,
    /// Only this many last lines.
    #[arg(min = 1)]
    tail: Option<u32>,
    /// `auto` detects it, `utf-8` shows a notebook's JSON, `base64` any bytes.
    #[arg(default = "auto")]
    encoding: Encoding,
    /// Add line numbers.
    #[arg(default = true)]
    line_numbers: bool,
    /// Not supported; use read_media for a PDF.
    pages: Option<String>,
) -> Result<Outcome> {
    let range = RangeInput {
        offset,
        limit,
        end_line,
        head,
        tail,
    }
    .range()?;
    let target = resolve(cx, &path)?;
    let (bytes, mtime_ms) = open(&target, &LIMIT)?;
    cx.check()?;
    let size = bytes.len() as u64;
    let media_type = media::media_type(&target.path, &bytes);
    if let Some(pages) = pages {
        return Err(no_pages(&target, media_type, &pages));
    }
    let mut file = FileContent::unread(&target, &bytes, mtime_ms, media_type);
    if encoding == Encoding::Base64 {
        read_state::record_seen(cx, &target, &file.sha256, None);
        return base64(&target, &bytes, file);
    }
    if encoding == Encoding::Auto && media::is_binary(&bytes) {
        return binary(&target, bytes, &file);
    }

    let decoded = text::view(bytes, encoding, &target.shown)?;
    let mut notes = Vec::new();
    let is_view = encoding == Encoding::Auto && is_notebook(&target.path);
    let view = is_view
        .then(|| notebook_view(&decoded.text, &target.shown, &mut notes))
        .flatten();
    let text = view.as_ref().map_or(&decoded.text, |view| &view.text);
    let page = Page::of(text, range, &target.shown)?;
    decoded.charset.as_str().clone_into(&mut file.encoding);
    text::line_ending(&decoded.text).clone_into(&mut file.line_ending);
    page.content.clone_into(&mut file.content);
    (file.start_line, file.end_line, file.total_lines) = (page.start, page.end, page.total);
    let mut notices = page.cut_lines();
    file.truncated = page.is_truncated() || !notices.is_empty();

    // Lines of the notebook view do not correspond to lines of the file.
    let lines = (page.start > 1 || page.is_truncated()).then_some((page.start, page.end));
    read_state::record_seen(cx, &target, &file.sha256, lines);
    let mut llm = page.render(line_numbers && view.is_none());
    notes.extend(page.continuation_note(&target.shown));
    notes.extend(Page::cut_note(notices.len(), &target.shown));
    if size > LARGE && page.end < page.total && range == LineRange::default() {
        notes.push(format!(
            "the file has {}: search it with `grep`, or ask for a range",
            text::size(size)
        ));
    }
    notes.extend(decoded.note);
    for note in notes {
        // Writing to a String cannot fail.
        let _ = write!(llm, "\n\n({note})");
        notices.push(format!("({note})"));
    }
    pasted_output::remember_notices(cx, &notices);
    let mut outcome = Outcome::text(llm).summary(page.summary(&target.shown));
    if file.truncated {
        outcome = outcome.truncated(text.len() as u64, page.shown_bytes() as u64);
    }
    let lines = page.start..=page.end;
    let pictures = view.into_iter().flat_map(|view| view.pictures);
    for picture in pictures.filter(|picture| lines.contains(&picture.line)) {
        outcome = outcome.part(picture.part);
    }
    Ok(outcome.structured(&file))
}

/// Returns the cells of a notebook. An invalid notebook is shown as text, so that it can be repaired.
fn notebook_view(text: &str, shown: &str, notes: &mut Vec<String>) -> Option<NotebookText> {
    match Notebook::parse(text, shown) {
        Ok(notebook) => Some(NotebookText::of(&notebook)),
        Err(error) => {
            notes.push(format!("{}; it is shown as text", error.message()));
            None
        }
    }
}

pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .fold(String::with_capacity(64), |mut hex, byte| {
            // Writing to a String cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
}

fn no_pages(target: &Target, media_type: &str, pages: &str) -> Error {
    let shown = &target.shown;
    if media_type == "application/pdf" {
        let message = format!(
            "pages {pages:?} of {shown} cannot be read: single PDF pages are not supported"
        );
        Error::unavailable(message)
            .code("pages_not_supported")
            .recommend(format!(
                "read the whole document: read_media with path {shown:?}"
            ))
    } else {
        let message = format!("`pages` is for PDF files, but {shown} is {media_type}; omit it");
        Error::invalid_input(message)
            .code("invalid_range")
            .recommend("for a part of a text, use `offset` and `limit`")
    }
}

fn base64(target: &Target, bytes: &[u8], mut file: FileContent) -> Result<Outcome> {
    if file.size > MOST_BASE64_BYTES {
        let (shown, size, most) = (
            &target.shown,
            text::size(file.size),
            text::size(MOST_BASE64_BYTES),
        );
        return Err(Error::failed(format!(
            "{shown} has {size}; the limit for base64 is {most}"
        ))
        .code("file_too_large"));
    }
    file.content = BASE64.encode(bytes);
    "base64".clone_into(&mut file.encoding);
    let summary = format!("{} in base64 of {}", text::size(file.size), target.shown);
    Ok(Outcome::text(file.content.clone())
        .summary(summary)
        .structured(&file))
}

/// Shows an image; other binary files are refused.
fn binary(target: &Target, bytes: Vec<u8>, file: &FileContent) -> Result<Outcome> {
    let (shown, media_type, size) = (&target.shown, &file.media_type, text::size(file.size));
    if !media::is_image(media_type) {
        return Err(Error::invalid_input(format!("{shown} is not text: {media_type}, {size}"))
            .code("binary_file")
            .recommend(format!("to read it as a binary file: read_media with path {shown:?}"))
            .recommend("to see its bytes, set `encoding` to \"base64\"")
            .recommend("to read it as text anyway, set its encoding, for example \"utf-16le\" or \"latin1\""));
    }
    if file.size > MOST_IMAGE_BYTES {
        let most = text::size(MOST_IMAGE_BYTES);
        return Err(
            Error::failed(format!("the image {shown} has {size}; the limit is {most}"))
                .code("file_too_large"),
        );
    }
    Ok(Outcome::new()
        .part(media_file::part(target, bytes, media_type))
        .summary(format!("{shown}: {media_type}, {size}"))
        .structured(file))
}

#[cfg(test)]
mod tests;
