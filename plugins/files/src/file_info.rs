//! `get_file_info`: metadata of a path.

use std::fs;
use std::io;

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::count;

use crate::media;
use crate::path::resolve;
use crate::text::{self, Encoding, size};
use crate::time::iso;

/// Lines of larger files are not counted.
const MOST_BYTES: u64 = 10_000_000;

/// Metadata of a path.
#[data]
pub struct FileInfo {
    /// The path exists.
    exists: bool,
    /// Absolute path.
    path: String,
    /// Size in bytes.
    size: Option<u64>,
    /// Last modification, such as `2026-01-31T09:30:00Z`.
    modified: Option<String>,
    /// Creation time, if known.
    created: Option<String>,
    /// Last access, if known.
    accessed: Option<String>,
    /// Directory, or link to one.
    #[arg(rename = "isDirectory")]
    is_directory: Option<bool>,
    /// File, or link to one.
    #[arg(rename = "isFile")]
    is_file: Option<bool>,
    /// Symbolic link.
    #[arg(rename = "isSymlink")]
    is_symlink: Option<bool>,
    /// Target of the link.
    target: Option<String>,
    /// Media type, such as `text/plain`.
    mime: Option<String>,
    /// Text encoding: `utf-8`, `utf-16le` …; absent if not text.
    encoding: Option<String>,
    /// Number of lines of a text.
    lines: Option<usize>,
}

/// Get type, size and times of a path or whether it exists; for text up to 10 MB also encoding and lines.
#[tool(
    reads,
    idempotent,
    plain_text,
    category = "file",
    kind = "read",
    icon = "info",
    tags = ["file"],
    output = FileInfo,
    example(description = "Check whether a README exists", input = r#"{"path": "README.md"}"#),
)]
pub fn get_file_info(
    cx: &Context,
    /// Workspace-relative or absolute.
    #[arg(aliases = ["file_path", "filePath", "absolute_path", "notebook_path", "dir_path", "directory", "target_file"])]
    path: String,
) -> Result<Outcome> {
    let target = resolve(cx, &path)?;
    let shown = &target.shown;
    let mut info = FileInfo {
        exists: false,
        path: target.path.display().to_string(),
        size: None,
        modified: None,
        created: None,
        accessed: None,
        is_directory: None,
        is_file: None,
        is_symlink: None,
        target: None,
        mime: None,
        encoding: None,
        lines: None,
    };
    let own = match fs::symlink_metadata(&target.path) {
        Ok(own) => own,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            // A missing path is a result, not an error.
            return Ok(Outcome::text(target.not_found().message())
                .summary(format!("{shown} does not exist"))
                .structured(&info));
        }
        Err(error) => return Err(target.error(&error)),
    };
    // A link that is dangling or leaves the workspace is described itself.
    let metadata = fs::metadata(&target.path).unwrap_or_else(|_| own.clone());
    info.exists = true;
    info.size = Some(metadata.len());
    info.modified = metadata.modified().ok().and_then(iso);
    info.created = metadata.created().ok().and_then(iso);
    info.accessed = metadata.accessed().ok().and_then(iso);
    info.is_directory = Some(metadata.is_dir());
    info.is_file = Some(metadata.is_file());
    info.is_symlink = Some(own.is_symlink());
    if own.is_symlink() {
        info.target = fs::read_link(&target.path)
            .ok()
            .map(|target| target.display().to_string());
    }
    if metadata.is_file() && metadata.len() <= MOST_BYTES {
        let bytes = fs::read(&target.path).map_err(|error| target.error(&error))?;
        info.mime = Some(media::media_type(&target.path, &bytes).to_owned());
        if !media::is_binary(&bytes)
            && let Ok(decoded) = text::view(bytes, Encoding::Auto, shown)
        {
            info.encoding = Some(decoded.charset.as_str().to_owned());
            info.lines = Some(decoded.text.split_inclusive('\n').count());
        }
    }
    let description = describe(shown, &info);
    Ok(Outcome::text(&*description)
        .summary(&*description)
        .structured(&info))
}

/// A one-line description.
fn describe(shown: &str, info: &FileInfo) -> String {
    let kind = match (info.is_directory, info.is_file) {
        (Some(true), _) => "directory",
        (_, Some(true)) => "file",
        _ if info.is_symlink == Some(true) => "link that is dangling or leaves the allowed paths",
        _ => "neither file nor directory",
    };
    let mut facts = vec![kind.to_owned()];
    facts.extend(
        info.target
            .as_ref()
            .map(|target| format!("link to {target}")),
    );
    if info.is_file == Some(true) {
        facts.extend(info.size.map(size));
        facts.extend(info.mime.clone());
        facts.extend(info.encoding.clone());
        facts.extend(info.lines.map(|lines| count(lines, "line")));
    }
    facts.extend(
        info.modified
            .as_ref()
            .map(|modified| format!("changed {modified}")),
    );
    format!("{shown}: {}", facts.join(", "))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::testing::Workspace;

    fn check(workspace: &Workspace, path: &str, expected: Expect) {
        expected.assert_eq(&workspace.call::<get_file_info>(json!({"path": path})));
    }

    // R-369
    #[test]
    fn files() {
        let workspace = Workspace::new(&[("a.rs", "fn a() {}\n")]);
        workspace.write("a.png", b"\x89PNG\r\n\x1a\n");
        workspace.touch("a.rs", 1_700_000_000);
        workspace.touch("a.png", 1_700_000_000);
        check(
            &workspace,
            "a.rs",
            expect![[r#"
            a.rs: file, 10 B, text/x-rust, utf-8, 1 line, changed 2023-11-14T22:13:20Z
            summary: a.rs: file, 10 B, text/x-rust, utf-8, 1 line, changed 2023-11-14T22:13:20Z
            {"exists":true,"path":"<root>/a.rs","size":10,"modified":"<time>","created":"<time>","accessed":"<time>","isDirectory":false,"isFile":true,"isSymlink":false,"mime":"text/x-rust","encoding":"utf-8","lines":1}"#]],
        );
        check(
            &workspace,
            "a.png",
            expect![[r#"
            a.png: file, 8 B, image/png, changed 2023-11-14T22:13:20Z
            summary: a.png: file, 8 B, image/png, changed 2023-11-14T22:13:20Z
            {"exists":true,"path":"<root>/a.png","size":8,"modified":"<time>","created":"<time>","accessed":"<time>","isDirectory":false,"isFile":true,"isSymlink":false,"mime":"image/png"}"#]],
        );
    }

    #[test]
    fn missing_paths_are_results() {
        let workspace = Workspace::new(&[("a.rs", "")]);
        check(
            &workspace,
            "a.ts",
            expect![[r#"
            File not found: a.ts. Did you mean: a.rs?
            summary: a.ts does not exist
            {"exists":false,"path":"<root>/a.ts"}"#]],
        );
        check(
            &workspace,
            "a.rs/x",
            expect![[r#"
            File not found: a.rs/x
            summary: a.rs/x does not exist
            {"exists":false,"path":"<root>/a.rs/x"}"#]],
        );
    }

    #[test]
    fn outside_paths_are_denied() {
        check(
            &Workspace::new(&[]),
            "/etc/passwd",
            expect![
                "Denied path_not_in_workspace: Permission denied: Access denied: /etc/passwd is outside the allowed paths (<root>)"
            ],
        );
    }

    #[test]
    fn a_directory() {
        let workspace = Workspace::new(&[("src/a.rs", "")]);
        let outcome =
            toolhost_sdk::testing::call::<get_file_info>(&workspace.cx(), json!({"path": "src"}))
                .unwrap();
        let data = outcome.structured.unwrap();
        assert_eq!(
            (&data["isDirectory"], &data["isFile"]),
            (&json!(true), &json!(false))
        );
    }

    #[cfg(unix)]
    #[test]
    fn links() {
        let workspace = Workspace::new(&[("a.rs", "x")]);
        workspace.touch("a.rs", 1_700_000_000);
        std::os::unix::fs::symlink("a.rs", workspace.path("link")).unwrap();
        std::os::unix::fs::symlink("nowhere", workspace.path("dangling")).unwrap();
        check(
            &workspace,
            "link",
            expect![[r#"
            link: file, link to a.rs, 1 B, text/plain, utf-8, 1 line, changed 2023-11-14T22:13:20Z
            summary: link: file, link to a.rs, 1 B, text/plain, utf-8, 1 line, changed 2023-11-14T22:13:20Z
            {"exists":true,"path":"<root>/link","size":1,"modified":"<time>","created":"<time>","accessed":"<time>","isDirectory":false,"isFile":true,"isSymlink":true,"target":"a.rs","mime":"text/plain","encoding":"utf-8","lines":1}"#]],
        );
        let outcome = toolhost_sdk::testing::call::<get_file_info>(
            &workspace.cx(),
            json!({"path": "dangling"}),
        )
        .unwrap();
        assert_eq!(outcome.structured.unwrap()["target"], "nowhere");
        let summary = outcome.summary.unwrap();
        assert!(
            summary.starts_with("dangling: link that is dangling"),
            "{summary}"
        );
    }

    #[test]
    fn examples_are_inputs_and_run() {
        toolhost_sdk::testing::check_examples::<get_file_info>().unwrap();
        Workspace::new(&[]).run_examples::<get_file_info>();
    }
}
