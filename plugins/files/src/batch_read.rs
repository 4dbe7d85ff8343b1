//! `read_many_files`: reads several files by name, directory or glob.

use std::fmt::Write as _;

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::{count, file_name};

use crate::file_reader::{SizeLimit, open};
use crate::ignore_rules::AppliedRules;
use crate::listing::Ignored;
use crate::media;
use crate::media_file;
use crate::notebook::notebook_text::NotebookText;
use crate::notebook::{Notebook, is_notebook};
use crate::page::{self, LineRange, Page};
use crate::pasted_output;
use crate::read::sha256;
use crate::read_state;
use crate::text::{self, Encoding, size};

use selection::{FileSelection, SelectedFile, SkippedFile, select};

mod selection;

const LIMIT: SizeLimit = SizeLimit {
    bytes: 20_000_000,
    tool: "read_many_files",
    advice: "read it alone with read_file",
};
const MOST_FILES: usize = 1000;
/// Limit of images and audio together, which do not count as text.
const MOST_MEDIA_BYTES: u64 = 15_000_000;
/// Limit of skipped files that are listed with a reason.
const MAX_REPORTED_SKIPS: usize = 10;

/// Result of the call.
#[data]
pub struct ReadManyOutput {
    /// All files, read and skipped, in the order of the output.
    files: Vec<FileRead>,
    /// Number of files read.
    read: usize,
    /// Number of files skipped.
    skipped: usize,
    /// Number of ignored entries.
    ignored: Ignored,
}

/// One file.
#[data]
pub struct FileRead {
    /// Absolute path; as requested if not found.
    path: String,
    /// Bytes of it in the output.
    bytes: u64,
    /// The text was cut.
    truncated: bool,
    /// Why it was not read.
    error: Option<String>,
}

/// Read several files, at most 2000 lines each, without line numbers. Images, audio and PDFs are read only if named or
/// matched by extension.
#[tool(
    reads,
    idempotent,
    plain_text,
    category = "file",
    kind = "read",
    icon = "files",
    aliases = ["read_multiple_files"],
    tags = ["file", "text", "image"],
    requires = ["fs.read", "session"],
    output = ReadManyOutput,
    example(description = "Two files", input = r#"{"include": ["README.md", "src/main.rs"]}"#),
    example(description = "All of src except tests", input = r#"{"include": ["src/**/*.rs"], "exclude": ["**/tests/**"]}"#),
)]
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of a tool are its schema"
)]
pub fn read_many_files(
    cx: &Context,
    /// Files, directories, or globs such as `src/**/*.rs`; without `/` a glob matches at any depth.
    #[arg(min_len = 1, max_len = 500, aliases = ["paths", "files"])]
    include: Vec<String>,
    /// Globs to exclude.
    exclude: Option<Vec<String>>,
    /// Descend into subdirectories.
    #[arg(default = true)]
    recursive: bool,
    /// Exclude `node_modules`, `.git`, `bower_components`, `.svn` and `.hg`.
    #[arg(default = true, aliases = ["useDefaultExcludes"])]
    use_default_excludes: bool,
    /// Apply `.gitignore`, except to named files.
    #[arg(default = true)]
    respect_git_ignore: bool,
    /// Omit `.toolignore` entries; with `false` they are reported as skipped, never read.
    #[arg(default = true, aliases = ["respect_gemini_ignore"])]
    respect_tool_ignore: bool,
    /// Maximum bytes of text in total.
    #[arg(default = 38_000, min = 1, max = 2_000_000)]
    max_bytes: usize,
) -> Result<Outcome> {
    let selected = select(
        cx,
        &FileSelection {
            include,
            exclude: exclude.unwrap_or_default(),
            recursive,
            use_default_excludes,
            respect: AppliedRules {
                git: respect_git_ignore,
                tool: respect_tool_ignore,
            },
        },
    )?;
    let mut answer = ResultBuilder {
        left: max_bytes,
        max_bytes,
        skipped: selected.skipped,
        ..ResultBuilder::default()
    };
    for (index, file) in selected.files.iter().enumerate() {
        cx.check()?;
        let read = if index < MOST_FILES {
            answer.read(cx, file)
        } else {
            Err(format!("there are more than {MOST_FILES} files"))
        };
        if let Err(reason) = read {
            answer.skipped.push(SkippedFile {
                path: file.target.shown.clone(),
                reason,
            });
        }
    }
    pasted_output::remember_notices(cx, &answer.notices);
    Ok(answer.outcome(selected.ignored))
}

/// The result so far.
#[derive(Default)]
struct ResultBuilder {
    text: String,
    /// Notices in the text that are not file content.
    notices: Vec<String>,
    media: Vec<Part>,
    media_bytes: u64,
    /// Remaining bytes for text.
    left: usize,
    max_bytes: usize,
    files: Vec<FileRead>,
    skipped: Vec<SkippedFile>,
}

impl ResultBuilder {
    /// Adds a file, or returns why not.
    fn read(&mut self, cx: &Context, file: &SelectedFile) -> Result<(), String> {
        if self.left == 0 {
            return Err(format!(
                "no room was left: `max_bytes` is {}",
                self.max_bytes
            ));
        }
        let (target, message) = (&file.target, |error: Error| error.message().to_owned());
        let (bytes, _) = open(target, &LIMIT).map_err(message)?;
        if media::is_binary(&bytes) {
            return self.media(file, bytes);
        }
        let hash = sha256(&bytes);
        let decoded = text::view(bytes, Encoding::Auto, &target.shown).map_err(message)?;
        let notebook = is_notebook(&target.path)
            .then(|| Notebook::parse(&decoded.text, &target.shown).ok())
            .flatten();
        let view = notebook.map(|notebook| NotebookText::of(&notebook).text);
        let all = view.as_ref().unwrap_or(&decoded.text);
        // `max_bytes` limits the text.
        let range = LineRange::From(1, page::LINES);
        let page = Page::of(all, range, &target.shown).map_err(message)?;
        let rendered = page.render(false);
        let shown = fitting(&rendered, self.left);
        let is_cut = shown.len() < rendered.len();
        let cut_lines = page.cut_lines();
        let has_more = is_cut || page.is_truncated();
        let lines = has_more.then_some((1, shown.lines().count()));
        read_state::record_seen(cx, target, &hash, lines);
        self.left -= shown.len();

        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "--- {} ---\n{shown}", file_name(&target.shown));
        let mut notes = Vec::from_iter(decoded.note.clone());
        if is_cut {
            let end = shown.lines().count();
            self.left = 0;
            notes.push(format!(
                "showing lines 1-{end} of {}, because `max_bytes` is {}; to go on: read_file with path {:?} and offset {}",
                page.total,
                self.max_bytes,
                target.shown,
                end + 1
            ));
        } else {
            notes.extend(page.continuation_note(&target.shown));
        }
        notes.extend(Page::cut_note(cut_lines.len(), &target.shown));
        let truncated = has_more || !cut_lines.is_empty();
        self.notices.extend(cut_lines);
        for note in notes {
            let notice = format!("({note})");
            let _ = writeln!(self.text, "{notice}");
            self.notices.push(notice);
        }
        self.text.push('\n');
        self.done(file, shown.len() as u64, truncated);
        Ok(())
    }

    fn media(&mut self, file: &SelectedFile, bytes: Vec<u8>) -> Result<(), String> {
        let media_type = media::media_type(&file.target.path, &bytes);
        let length = bytes.len() as u64;
        let described = format!("{media_type}, {}", size(length));
        let can_be_shown = ["image/", "audio/", "application/pdf"]
            .iter()
            .any(|kind| media_type.starts_with(kind));
        if !can_be_shown {
            return Err(format!("it is not text: {described}"));
        }
        if !file.is_explicit {
            return Err(format!(
                "it is not text: {described}; name it explicitly to read it"
            ));
        }
        if self.media_bytes + length > MOST_MEDIA_BYTES {
            let most = size(MOST_MEDIA_BYTES);
            return Err(format!(
                "no room was left: {described}, and the limit of images and audio together is {most}"
            ));
        }
        self.media_bytes += length;
        let _ = writeln!(
            self.text,
            "--- {} ---\n({described}, below)\n",
            file_name(&file.target.shown)
        );
        self.media
            .push(media_file::part(&file.target, bytes, media_type));
        self.done(file, length, false);
        Ok(())
    }

    fn done(&mut self, file: &SelectedFile, bytes: u64, truncated: bool) {
        self.files.push(FileRead {
            path: file.target.path.display().to_string(),
            bytes,
            truncated,
            error: None,
        });
    }

    fn outcome(mut self, ignored: Ignored) -> Outcome {
        let (read, skipped) = (self.files.len(), self.skipped.len());
        if read > 0 {
            self.text.push_str("--- end of content ---\n");
        }
        if skipped > 0 {
            let _ = writeln!(self.text, "Skipped {}:", count(skipped, "file"));
            for SkippedFile { path, reason } in self.skipped.iter().take(MAX_REPORTED_SKIPS) {
                let _ = writeln!(self.text, "- {}: {reason}", file_name(path));
            }
            if skipped > MAX_REPORTED_SKIPS {
                let _ = writeln!(self.text, "- … and {} more", skipped - MAX_REPORTED_SKIPS);
            }
        }
        let Ignored { git, tool } = ignored;
        if git + tool > 0 {
            let _ = writeln!(
                self.text,
                "({} ignored: git {git}, tool {tool})",
                git + tool
            );
        }
        let listed = self.skipped.into_iter().take(MOST_FILES);
        self.files
            .extend(listed.map(|SkippedFile { path, reason }| FileRead {
                path,
                bytes: 0,
                truncated: false,
                error: Some(reason),
            }));
        let mut outcome = Outcome::text(self.text.trim_end())
            .summary(format!("{}, {skipped} skipped", count(read, "file")))
            .structured(&ReadManyOutput {
                files: self.files,
                read,
                skipped,
                ignored,
            });
        outcome.llm.extend(self.media);
        if read > 0 {
            return outcome;
        }
        let error = Error::not_found("no file was read: none was found or all were skipped")
            .code("file_not_found")
            .recommend("list the directory to see its entries");
        outcome.logical_error(error)
    }
}

/// As many lines as fit, or the start of the first.
fn fitting(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let cut = &text[..text.floor_char_boundary(bytes)];
    cut.rfind('\n').map_or(cut, |end| &cut[..end])
}

#[cfg(test)]
mod tests;
