//! `read_media`: images, audio and other binary files.

use std::path::Path;

use toolhost_sdk::prelude::*;

use crate::file_reader::{SizeLimit, open};
use crate::media;
use crate::path::{Target, resolve};
use crate::read::sha256;
use crate::text;

pub const LIMIT: SizeLimit = SizeLimit {
    bytes: 20_000_000,
    tool: "read_media",
    advice: "make a smaller copy of it first",
};

/// Metadata of a file.
#[data]
pub struct MediaInfo {
    /// Absolute path.
    path: String,
    /// Media type detected from the bytes, such as `image/png`.
    media_type: String,
    /// Size in bytes.
    size: u64,
    /// SHA-256 in hexadecimal.
    sha256: String,
}

/// Read an image, audio file, PDF or other binary file, at most 20 MB. For text use read_file.
#[tool(
    reads,
    idempotent,
    plain_text,
    category = "file",
    kind = "read",
    icon = "image",
    aliases = ["read_media_file", "view_image", "image_read"],
    tags = ["file", "image", "audio", "pdf"],
    output = MediaInfo,
    example(description = "A picture", input = r#"{"path": "docs/logo.png"}"#),
)]
pub fn read_media(
    cx: &Context,
    /// Workspace-relative or absolute.
    #[arg(aliases = ["file_path", "filePath", "absolute_path", "target_file", "notebook_path", "image_path"])]
    path: String,
) -> Result<Outcome> {
    let target = resolve(cx, &path)?;
    let (bytes, _) = open(&target, &LIMIT)?;
    cx.check()?;
    let shown = &target.shown;
    let media_type = media::media_type(&target.path, &bytes);
    if !media::is_binary(&bytes) {
        let message = format!("{shown} is text ({media_type}), not an image or audio file");
        return Err(Error::invalid_input(message)
            .code("not_media")
            .recommend(format!("use read_file with path {shown:?}")));
    }
    let size = bytes.len() as u64;
    let described = MediaInfo {
        path: target.path.display().to_string(),
        media_type: media_type.to_owned(),
        size,
        sha256: sha256(&bytes),
    };
    Ok(Outcome::new()
        .part(part(&target, bytes, media_type))
        .summary(format!("{shown}: {media_type}, {}", text::size(size)))
        .structured(&described))
}

/// The content part for the model: image or audio data, or a file resource with an address.
pub fn part(target: &Target, bytes: Vec<u8>, media_type: &str) -> Part {
    let part = match media_type.split_once('/') {
        Some(("image", _)) => Part::image(bytes, media_type),
        Some(("audio", _)) => Part::audio(bytes, media_type),
        _ => Part {
            uri: Some(format!("file://{}", target.path.display())),
            ..Part::file(bytes, media_type)
        },
    };
    let name = Path::new(&target.shown)
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    Part { name, ..part }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use expect_test::{Expect, expect};

    use super::*;
    use crate::testing::Workspace;

    fn check(workspace: &Workspace, path: &str, expected: Expect) {
        expected.assert_eq(&workspace.call::<read_media>(json!({"path": path})));
    }

    #[test]
    fn each_media_type_has_its_part_kind() {
        let workspace = Workspace::new(&[]);
        workspace.write("docs/a.png", b"\x89PNG\r\n\x1a\n1234");
        workspace.write("a.ogg", b"OggS\0\x02");
        workspace.write("a.pdf", b"%PDF-1.7 ...");
        workspace.write("a.dat", b"\0\x01\x02");
        check(
            &workspace,
            "docs/a.png",
            expect![[r#"
            [image image/png a.png 12 bytes]
            summary: docs/a.png: image/png, 12 B
            {"path":"<root>/docs/a.png","media_type":"image/png","size":12,"sha256":"<hash>"}"#]],
        );
        check(
            &workspace,
            "a.ogg",
            expect![[r#"
            [audio audio/ogg a.ogg 6 bytes]
            summary: a.ogg: audio/ogg, 6 B
            {"path":"<root>/a.ogg","media_type":"audio/ogg","size":6,"sha256":"<hash>"}"#]],
        );
        check(
            &workspace,
            "a.pdf",
            expect![[r#"
            [file application/pdf a.pdf 12 bytes]
            summary: a.pdf: application/pdf, 12 B
            {"path":"<root>/a.pdf","media_type":"application/pdf","size":12,"sha256":"<hash>"}"#]],
        );
        check(
            &workspace,
            "a.dat",
            expect![[r#"
            [file application/octet-stream a.dat 3 bytes]
            summary: a.dat: application/octet-stream, 3 B
            {"path":"<root>/a.dat","media_type":"application/octet-stream","size":3,"sha256":"<hash>"}"#]],
        );
    }

    #[test]
    fn a_file_has_an_address_and_a_picture_a_name() {
        let workspace = Workspace::new(&[]);
        workspace.write("a.pdf", b"%PDF-1.7 ...");
        let input = json!({"path": "a.pdf"});
        let outcome = toolhost_sdk::testing::call::<read_media>(&workspace.cx(), input).unwrap();
        let uri = outcome.llm[0].uri.as_deref().unwrap();
        assert_eq!(workspace.normalize(uri), "file://<root>/a.pdf");
    }

    #[test]
    fn refused_files() {
        let workspace = Workspace::new(&[
            ("a.txt", "words"),
            ("logo.svg", "<svg/>"),
            ("empty", ""),
            ("dir/x", ""),
            (".toolignore", "hidden.png\n"),
        ]);
        workspace.write("hidden.png", b"\x89PNG\r\n\x1a\n1234");
        let file = fs::File::create(workspace.path("huge.png")).unwrap();
        file.set_len(LIMIT.bytes + 1_000_000).unwrap();
        check(
            &workspace,
            "a.txt",
            expect![
                "InvalidInput not_media: a.txt is text (text/plain), not an image or audio file"
            ],
        );
        check(
            &workspace,
            "logo.svg",
            expect![
                "InvalidInput not_media: logo.svg is text (image/svg+xml), not an image or audio file"
            ],
        );
        check(
            &workspace,
            "empty",
            expect![
                "InvalidInput not_media: empty is text (text/plain), not an image or audio file"
            ],
        );
        check(
            &workspace,
            "dir",
            expect!["InvalidInput target_is_directory: dir is a directory, not a file"],
        );
        check(
            &workspace,
            "huge.png",
            expect![
                "Failed file_too_large: huge.png has 21.0 MB; the limit of read_media is 20.0 MB"
            ],
        );
        check(
            &workspace,
            "hidden.png",
            expect![
                "Denied permission_denied: Permission denied: Access denied: hidden.png is excluded by a `.toolignore`, `.geminiignore` or `.aiexclude` file"
            ],
        );
        check(
            &workspace,
            "none.png",
            expect!["NotFound file_not_found: File not found: none.png"],
        );
        check(
            &workspace,
            "/etc/logo.png",
            expect![
                "Denied path_not_in_workspace: Permission denied: Access denied: /etc/logo.png is outside the allowed paths (<root>)"
            ],
        );
    }

    #[test]
    fn examples_are_inputs_and_run() {
        toolhost_sdk::testing::check_examples::<read_media>().unwrap();
        let workspace = Workspace::new(&[]);
        workspace.write("docs/logo.png", b"\x89PNG\r\n\x1a\n1234");
        workspace.run_examples::<read_media>();
    }
}
