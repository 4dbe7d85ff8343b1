//! Detection of media types by the first bytes, or else by the file extension.

use std::path::Path;

/// Number of leading bytes that decide whether a file is text.
const HEAD: usize = 8 << 10;

/// Unambiguous magic numbers. A longer one precedes its prefixes.
const MAGIC: &[(&[u8], &str)] = &[
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"\0\0\x01\0", "image/x-icon"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"PK\x05\x06", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\0", "application/x-xz"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"\x7fELF", "application/x-executable"),
    (b"\0asm", "application/wasm"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf1", "audio/aac"),
    (b"MThd", "audio/midi"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"\x1aE\xdf\xa3", "video/webm"),
    (b"wOF2", "font/woff2"),
    (b"wOFF", "font/woff"),
    (b"\xca\xfe\xba\xbe", "application/java-vm"),
];

const EXTENSIONS: &[(&str, &str)] = &[
    ("c", "text/x-c"),
    ("cc", "text/x-c++"),
    ("cpp", "text/x-c++"),
    ("cs", "text/x-csharp"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("go", "text/x-go"),
    ("h", "text/x-c"),
    ("hpp", "text/x-c++"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("ipynb", "application/x-ipynb+json"),
    ("java", "text/x-java"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("jsx", "text/javascript"),
    ("kt", "text/x-kotlin"),
    ("md", "text/markdown"),
    ("mjs", "text/javascript"),
    ("php", "text/x-php"),
    ("py", "text/x-python"),
    ("rb", "text/x-ruby"),
    ("rs", "text/x-rust"),
    ("sh", "text/x-shellscript"),
    ("sql", "application/sql"),
    ("svg", "image/svg+xml"),
    ("swift", "text/x-swift"),
    ("toml", "application/toml"),
    ("ts", "text/x-typescript"),
    ("tsv", "text/tab-separated-values"),
    ("tsx", "text/x-typescript"),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
];

/// The media type of the file `path` that starts with `head`.
pub fn media_type(path: &Path, head: &[u8]) -> &'static str {
    if let Some(by_bytes) = by_bytes(head) {
        return by_bytes;
    }
    if is_binary(head) {
        return "application/octet-stream";
    }
    let extension = path
        .extension()
        .map(|extension| extension.to_string_lossy().to_lowercase());
    EXTENSIONS
        .iter()
        .find(|(known, _)| Some(*known) == extension.as_deref())
        .map_or("text/plain", |(_, media_type)| media_type)
}

/// Whether models accept the image type.
pub fn is_image(media_type: &str) -> bool {
    matches!(
        media_type,
        "image/png" | "image/jpeg" | "image/gif" | "image/webp"
    )
}

/// Binary data contains a NUL or more than 30 % control characters. NULs are allowed after a byte order mark.
pub fn is_binary(head: &[u8]) -> bool {
    if crate::text::Charset::by_mark(head).is_some() {
        return false;
    }
    let head = &head[..head.len().min(HEAD)];
    by_bytes(head).is_some() || toolhost_sdk::text::is_binary(head)
}

fn by_bytes(head: &[u8]) -> Option<&'static str> {
    // Three letters do not distinguish text that starts with them from that file type.
    let is_text =
        |magic: &[u8]| magic.is_ascii() && magic.len() <= 3 && str::from_utf8(head).is_ok();
    match (head.get(..4), head.get(4..8), head.get(8..12)) {
        (Some(b"RIFF"), _, Some(b"WEBP")) => Some("image/webp"),
        (Some(b"RIFF"), _, Some(b"WAVE")) => Some("audio/wav"),
        // Images, audio and video share one container format; the brand distinguishes them.
        (_, Some(b"ftyp"), brand) => Some(match brand {
            Some(b"avif" | b"avis") => "image/avif",
            Some(b"heic" | b"heix" | b"mif1") => "image/heic",
            Some(b"M4A " | b"M4B ") => "audio/mp4",
            Some(b"qt  ") => "video/quicktime",
            _ => "video/mp4",
        }),
        _ => MAGIC
            .iter()
            .find(|(magic, _)| head.starts_with(magic) && !is_text(magic))
            .map(|(_, media_type)| *media_type),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, head: &[u8], expected: &str) {
        assert_eq!(media_type(Path::new(name), head), expected, "{name}");
    }

    #[test]
    fn bytes_win_over_names() {
        check("a.txt", b"\x89PNG\r\n\x1a\n", "image/png");
        check("a", b"RIFF\0\0\0\0WEBPVP8 ", "image/webp");
        check("a.md", b"\0asm\x01\0\0\0", "application/wasm");
        check("a.bin", b"plain words", "text/plain");
        check("a.mp4", b"\0\0\0\x18ftypM4A \0", "audio/mp4");
        check("a", b"\0\0\0\x18ftypavif\0", "image/avif");
        check("a", b"\0\0\0\x18ftypisom\0", "video/mp4");
    }

    #[test]
    fn text_is_named_by_its_extension() {
        check("a.ts", b"export const x = 1;", "text/x-typescript");
        check("a.SVG", b"<svg/>", "image/svg+xml");
        check("a.txt", b"ID3 is a tag of music files", "text/plain");
        check("a", b"", "text/plain");
    }

    #[test]
    fn binary_content_is_detected_by_nul_and_control_characters() {
        check("a.txt", b"a\0b", "application/octet-stream");
        check("a.txt", &[1, 2, 3, b'a'], "application/octet-stream");
        check("a.txt", b"\xff\xfea\0", "text/plain");
        check("a.log", b"\x1b[31mred\x1b[0m", "text/plain");
        check("a.txt", "żółć".as_bytes(), "text/plain");
    }
}
