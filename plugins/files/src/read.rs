//! `read_file`: a page of a text file with line numbers, or a picture.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest, Sha256};
use toolhost_sdk::prelude::*;

use crate::media;
use crate::page::{Page, Range, Wish};
use crate::path::{Target, resolve};
use crate::text::{self, Encoding};

/// A file is read as a whole, for its hash and its number of lines.
const MOST_BYTES: u64 = 64_000_000;
/// From here on, reading without a range comes with advice.
const LARGE: u64 = 10_000_000;
const MOST_IMAGE_BYTES: u64 = 15_000_000;
const MOST_BASE64_BYTES: u64 = 1_000_000;

/// What is known of a file that was read.
#[data]
pub struct FileContent {
    /// Absolute path.
    path: String,
    /// The lines shown, as they are in the file; empty for a picture.
    content: String,
    /// Size of the whole file in bytes.
    size: u64,
    /// How the file is stored: `utf-8`, `utf-16le`, `latin1` …, `base64` when asked for, `binary` for a picture.
    encoding: String,
    /// `lf`, `crlf`, `mixed` or `none`.
    line_ending: String,
    /// First line shown, from 1; 0 when there is none.
    start_line: usize,
    /// Last line shown; 0 when there is none.
    end_line: usize,
    /// Number of lines of the whole file.
    total_lines: usize,
    /// There is more after what is shown.
    truncated: bool,
    /// SHA-256 of the whole file, in hexadecimal; `write_file` takes it as `expected_sha256`.
    sha256: String,
    /// Last change, in milliseconds since 1970.
    mtime_ms: Option<u64>,
    /// For example `text/plain` or `image/png`.
    media_type: String,
}

/// Read a text file, or look at a picture (PNG, JPEG, GIF, WebP).
///
/// The text comes with line numbers, `     1→like this`; the number and the arrow are not part of the file. Without
/// a range it shows the first 2000 lines and says how to go on. Very long lines are cut.
#[tool(
    reads,
    idempotent,
    category = "file",
    kind = "read",
    icon = "file",
    aliases = ["read_text_file", "fs_read"],
    tags = ["file", "text", "image"],
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
    /// Path of the file, relative to the workspace or absolute, for example `src/main.rs`.
    #[arg(aliases = ["file_path", "filePath", "absolute_path", "target_file", "notebook_path"])]
    path: String,
    /// First line to show, from 1.
    #[arg(min = 1, aliases = ["start_line"])]
    offset: Option<u32>,
    /// Number of lines to show; 2000 when left out.
    #[arg(min = 1)]
    limit: Option<u32>,
    /// Last line to show, in place of `limit`.
    #[arg(min = 1)]
    end_line: Option<u32>,
    /// Show only the first lines, this many.
    #[arg(min = 1)]
    head: Option<u32>,
    /// Show only the last lines, this many.
    #[arg(min = 1)]
    tail: Option<u32>,
    /// How the file is stored. `auto` goes by the byte order mark, then tries UTF-8; `base64` shows any bytes.
    #[arg(default = "auto")]
    encoding: Encoding,
    /// Put line numbers before the lines.
    #[arg(default = true)]
    line_numbers: bool,
) -> Result<Outcome> {
    let range = Wish {
        offset,
        limit,
        end_line,
        head,
        tail,
    }
    .range()?;
    let target = resolve(cx, &path)?;
    let (bytes, mtime_ms) = load(&target)?;
    cx.check()?;
    let size = bytes.len() as u64;
    let media_type = media::media_type(&target.path, &bytes);
    let mut file = FileContent {
        path: target.path.display().to_string(),
        content: String::new(),
        size,
        encoding: "binary".to_owned(),
        line_ending: "none".to_owned(),
        start_line: 0,
        end_line: 0,
        total_lines: 0,
        truncated: false,
        sha256: sha256(&bytes),
        mtime_ms,
        media_type: media_type.to_owned(),
    };
    if encoding == Encoding::Base64 {
        return base64(&target, &bytes, file);
    }
    if encoding == Encoding::Auto && media::is_binary(&bytes) {
        return binary(&target, bytes, &file);
    }

    let decoded = text::decode(bytes, encoding, &target.shown)?;
    let page = Page::of(&decoded.text, range, &target.shown)?;
    decoded
        .format
        .charset
        .as_str()
        .clone_into(&mut file.encoding);
    text::line_ending(&decoded.text).clone_into(&mut file.line_ending);
    page.content.clone_into(&mut file.content);
    (file.start_line, file.end_line, file.total_lines) = (page.start, page.end, page.total);
    file.truncated = page.is_truncated();

    let mut llm = page.render(line_numbers);
    let mut notes = Vec::new();
    notes.extend(page.how_to_go_on(&target.shown));
    if size > LARGE && page.end < page.total && range == Range::default() {
        notes.push(format!(
            "the file has {}: search it with grep, or ask for a range",
            text::size(size)
        ));
    }
    if decoded.guessed {
        notes.push("the file is not UTF-8; it is shown as latin1, which is a guess: say `encoding` if it is wrong".into());
    }
    for note in notes {
        // Writing to a String cannot fail.
        let _ = write!(llm, "\n\n({note})");
    }
    let mut outcome = Outcome::text(llm).summary(page.summary(&target.shown));
    if file.truncated {
        outcome = outcome.truncated(decoded.text.len() as u64, page.content.len() as u64);
    }
    Ok(outcome.structured(&file))
}

/// The bytes of a regular file and the time of its last change.
fn load(target: &Target) -> Result<(Vec<u8>, Option<u64>)> {
    let metadata = fs::metadata(&target.path).map_err(|error| target.error(&error))?;
    let shown = &target.shown;
    if metadata.is_dir() {
        return Err(target.is_directory());
    }
    // A pipe or a device may never end.
    if !metadata.is_file() {
        return Err(
            Error::invalid_input(format!("{shown} is not a regular file")).code("not_a_file"),
        );
    }
    if metadata.len() > MOST_BYTES {
        let (size, most) = (text::size(metadata.len()), text::size(MOST_BYTES));
        return Err(Error::failed(format!(
            "{shown} has {size}, and read_file takes at most {most}"
        ))
        .code("file_too_large")
        .recommend("search it with grep"));
    }
    let bytes = fs::read(&target.path).map_err(|error| target.error(&error))?;
    Ok((bytes, metadata.modified().ok().and_then(milliseconds)))
}

/// Milliseconds since 1970; nothing for what lies before.
pub fn milliseconds(time: std::time::SystemTime) -> Option<u64> {
    u64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
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

fn base64(target: &Target, bytes: &[u8], mut file: FileContent) -> Result<Outcome> {
    if file.size > MOST_BASE64_BYTES {
        let (shown, size, most) = (
            &target.shown,
            text::size(file.size),
            text::size(MOST_BASE64_BYTES),
        );
        return Err(Error::failed(format!(
            "{shown} has {size}, and base64 is for at most {most}"
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

/// A picture is shown; of anything else a model could make nothing.
fn binary(target: &Target, bytes: Vec<u8>, file: &FileContent) -> Result<Outcome> {
    let (shown, media_type, size) = (&target.shown, &file.media_type, text::size(file.size));
    if !media::is_image(media_type) {
        return Err(Error::invalid_input(format!("{shown} is not text: {media_type}, {size}"))
            .code("binary_file")
            .recommend("to see its bytes, say encoding \"base64\"")
            .recommend("to read it as text all the same, say its encoding, for example \"utf-16le\" or \"latin1\""));
    }
    if file.size > MOST_IMAGE_BYTES {
        let most = text::size(MOST_IMAGE_BYTES);
        return Err(Error::failed(format!(
            "the picture {shown} has {size}, and at most {most} can be shown"
        ))
        .code("file_too_large"));
    }
    let name = Path::new(shown)
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let image = Part {
        name,
        ..Part::image(bytes, media_type.clone())
    };
    Ok(Outcome::new()
        .part(image)
        .summary(format!("{shown}: {media_type}, {size}"))
        .structured(file))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::testing::Workspace;

    /// What the model reads, what people read, and the data without what changes from run to run.
    fn check(workspace: &Workspace, input: Value, expected: Expect) {
        expected.assert_eq(&workspace.call::<read_file>(input));
    }

    #[test]
    fn a_text_file() {
        let workspace = Workspace::new(&[("src/a.rs", "fn a() {}\n\nfn b() {}\n")]);
        check(
            &workspace,
            json!({"path": "src/a.rs"}),
            expect![[r#"
                 1→fn a() {}
                 2→
                 3→fn b() {}
            summary: 3 lines of src/a.rs
            {"path":"<root>/src/a.rs","content":"fn a() {}\n\nfn b() {}\n","size":21,"encoding":"utf-8","line_ending":"lf","start_line":1,"end_line":3,"total_lines":3,"truncated":false,"sha256":"<hash>","mtime_ms":"<time>","media_type":"text/x-rust"}"#]],
        );
        check(
            &workspace,
            json!({"file_path": "src/a.rs", "start_line": 2, "end_line": 2, "line_numbers": false}),
            expect![[r#"


            (showing lines 2-2 of 3; 1 line left; to go on: read_file with path "src/a.rs" and offset 3)
            summary: lines 2-2 of 3 of src/a.rs
            {"path":"<root>/src/a.rs","content":"\n","size":21,"encoding":"utf-8","line_ending":"lf","start_line":2,"end_line":2,"total_lines":3,"truncated":true,"sha256":"<hash>","mtime_ms":"<time>","media_type":"text/x-rust"}"#]],
        );
    }

    #[test]
    fn an_empty_file() {
        let workspace = Workspace::new(&[("a.txt", "")]);
        check(
            &workspace,
            json!({"path": "a.txt"}),
            expect![[r#"
            (file is empty)
            summary: 0 lines of a.txt
            {"path":"<root>/a.txt","content":"","size":0,"encoding":"utf-8","line_ending":"none","start_line":0,"end_line":0,"total_lines":0,"truncated":false,"sha256":"<hash>","mtime_ms":"<time>","media_type":"text/plain"}"#]],
        );
    }

    #[test]
    fn encodings() {
        let workspace = Workspace::new(&[]);
        workspace.write("u16.txt", b"\xff\xfeh\0i\0");
        workspace.write("latin.txt", b"caf\xe9\r\n");
        check(
            &workspace,
            json!({"path": "u16.txt"}),
            expect![[r#"
                 1→hi
            summary: 1 line of u16.txt
            {"path":"<root>/u16.txt","content":"hi","size":6,"encoding":"utf-16le","line_ending":"none","start_line":1,"end_line":1,"total_lines":1,"truncated":false,"sha256":"<hash>","mtime_ms":"<time>","media_type":"text/plain"}"#]],
        );
        check(
            &workspace,
            json!({"path": "latin.txt"}),
            expect![[r#"
                 1→café

            (the file is not UTF-8; it is shown as latin1, which is a guess: say `encoding` if it is wrong)
            summary: 1 line of latin.txt
            {"path":"<root>/latin.txt","content":"café\r\n","size":6,"encoding":"latin1","line_ending":"crlf","start_line":1,"end_line":1,"total_lines":1,"truncated":false,"sha256":"<hash>","mtime_ms":"<time>","media_type":"text/plain"}"#]],
        );
        check(
            &workspace,
            json!({"path": "latin.txt", "encoding": "utf-8"}),
            expect![[
                r#"InvalidInput encoding_mismatch: latin.txt is not valid utf-8; say another `encoding`, for example "latin1""#
            ]],
        );
        check(
            &workspace,
            json!({"path": "latin.txt", "encoding": "base64"}),
            expect![[r#"
            Y2Fm6Q0K
            summary: 6 B in base64 of latin.txt
            {"path":"<root>/latin.txt","content":"Y2Fm6Q0K","size":6,"encoding":"base64","line_ending":"none","start_line":0,"end_line":0,"total_lines":0,"truncated":false,"sha256":"<hash>","mtime_ms":"<time>","media_type":"text/plain"}"#]],
        );
    }

    #[test]
    fn pictures_are_shown_and_other_binaries_refused() {
        let workspace = Workspace::new(&[]);
        workspace.write("a.png", b"\x89PNG\r\n\x1a\n1234");
        workspace.write("a.bin", b"\x7fELF\0\0");
        workspace.write("u16.txt", b"h\0i\0");
        check(
            &workspace,
            json!({"path": "a.png"}),
            expect![[r#"
            [image image/png a.png 12 bytes]
            summary: a.png: image/png, 12 B
            {"path":"<root>/a.png","content":"","size":12,"encoding":"binary","line_ending":"none","start_line":0,"end_line":0,"total_lines":0,"truncated":false,"sha256":"<hash>","mtime_ms":"<time>","media_type":"image/png"}"#]],
        );
        check(
            &workspace,
            json!({"path": "a.bin"}),
            expect!["InvalidInput binary_file: a.bin is not text: application/x-executable, 6 B"],
        );
        check(
            &workspace,
            json!({"path": "u16.txt"}),
            expect!["InvalidInput binary_file: u16.txt is not text: application/octet-stream, 4 B"],
        );
        check(
            &workspace,
            json!({"path": "u16.txt", "encoding": "utf-16le"}),
            expect![[r#"
                 1→hi
            summary: 1 line of u16.txt
            {"path":"<root>/u16.txt","content":"hi","size":4,"encoding":"utf-16le","line_ending":"none","start_line":1,"end_line":1,"total_lines":1,"truncated":false,"sha256":"<hash>","mtime_ms":"<time>","media_type":"application/octet-stream"}"#]],
        );
    }

    #[test]
    fn what_cannot_be_read() {
        let workspace = Workspace::new(&[("src/main.rs", "")]);
        check(
            &workspace,
            json!({"path": "src"}),
            expect!["InvalidInput target_is_directory: src is a directory, not a file"],
        );
        check(
            &workspace,
            json!({"path": "src/man.rs"}),
            expect![
                "NotFound file_not_found: File not found: src/man.rs. Did you mean: src/main.rs?"
            ],
        );
        check(
            &workspace,
            json!({"path": "/etc/passwd"}),
            expect![
                "Denied path_not_in_workspace: Permission denied: Access denied: /etc/passwd is outside the allowed paths (<root>)"
            ],
        );
        check(
            &workspace,
            json!({"path": "src/main.rs", "offset": 0}),
            expect!["InvalidInput invalid_input: `offset`: 0 is less than the minimum of 1"],
        );
        check(
            &workspace,
            json!({"path": "src/main.rs", "encoding": "ebcdic"}),
            expect![[
                r#"InvalidInput invalid_input: `encoding`: "ebcdic" is not one of ["auto","utf-8","utf-16le","utf-16be","latin1","base64"]"#
            ]],
        );
    }

    #[test]
    fn a_huge_file_is_refused_and_a_large_one_comes_with_advice() {
        let workspace = Workspace::new(&[("large.txt", "")]);
        let file = fs::File::create(workspace.path("huge.txt")).unwrap();
        file.set_len(MOST_BYTES + 1_000_000).unwrap();
        check(
            &workspace,
            json!({"path": "huge.txt"}),
            expect![
                "Failed file_too_large: huge.txt has 65.0 MB, and read_file takes at most 64.0 MB"
            ],
        );
        workspace.write("large.txt", "word\n".repeat(2_200_000).as_bytes());
        let outcome =
            toolhost_sdk::testing::call::<read_file>(&workspace.cx(), json!({"path": "large.txt"}))
                .unwrap();
        let text = outcome.llm[0].text.as_deref().unwrap();
        let end = text.find("\n\n").unwrap();
        expect![[r#"


            (showing lines 1-2000 of 2200000; 2198000 lines left; to go on: read_file with path "large.txt" and offset 2001)

            (the file has 11.0 MB: search it with grep, or ask for a range)"#]].assert_eq(&text[end..]);
    }

    #[test]
    fn a_cancelled_call_stops() {
        let workspace = Workspace::new(&[("a.txt", "a")]);
        let cx = workspace.cx().cancelled_after(0);
        let error =
            toolhost_sdk::testing::call::<read_file>(&cx, json!({"path": "a.txt"})).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Interrupted);
    }

    #[test]
    fn examples_are_inputs() {
        toolhost_sdk::testing::check_examples::<read_file>().unwrap();
    }
}
