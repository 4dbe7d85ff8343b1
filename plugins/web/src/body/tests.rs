//! Recorded response bodies: compressed, mislabelled, in legacy charsets, and hostile.

use std::io::Write;

use expect_test::{Expect, expect};
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

use super::*;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn answer(coding: &str, body: Vec<u8>) -> Response {
    Response {
        status: 200,
        headers: vec![("content-encoding".to_owned(), coding.to_owned())],
        body,
        truncated: false,
    }
}

fn check(coding: &str, body: Vec<u8>, expected: Expect) {
    let shown = match unpack(answer(coding, body), 20) {
        Ok(body) => format!(
            "{:?} {}",
            String::from_utf8_lossy(&body.bytes),
            body.truncated
        ),
        Err(error) => format!("{} {error}", error.code.as_deref().unwrap_or_default()),
    };
    expected.assert_eq(&shown);
}

#[test]
fn packed_answers_are_unpacked() {
    let zlib = || {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(b"hello").unwrap();
        encoder.finish().unwrap()
    };
    let bare = || {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(b"hello").unwrap();
        encoder.finish().unwrap()
    };
    check("gzip", gzip(b"hello"), expect![[r#""hello" false"#]]);
    check(
        "X-GZIP, identity",
        gzip(b"hello"),
        expect![[r#""hello" false"#]],
    );
    check("deflate", zlib(), expect![[r#""hello" false"#]]);
    check("deflate", bare(), expect![[r#""hello" false"#]]);
    check("gzip, gzip", gzip(&gzip(b"")), expect![[r#""" false"#]]);
    check("gzip", Vec::new(), expect![[r#""" false"#]]);
    check("", b"hello".to_vec(), expect![[r#""hello" false"#]]);
}

#[test]
fn what_is_unpacked_is_bounded() {
    check(
        "gzip",
        gzip(&vec![b'x'; 1 << 20]),
        expect![[r#""xxxxxxxxxxxxxxxxxxxx" true"#]],
    );
    let bomb = gzip(&vec![0; 64 << 20]);
    let body = unpack(answer("gzip", bomb), 1 << 20).unwrap();
    assert_eq!((body.bytes.len(), body.truncated), (1 << 20, true));
}

#[test]
fn what_cannot_be_unpacked_is_refused() {
    check(
        "br",
        b"x".to_vec(),
        expect![
            "unsupported_encoding the answer is packed as `br`, which was not asked for and cannot be unpacked"
        ],
    );
    check(
        "gzip, gzip, gzip",
        b"x".to_vec(),
        expect![
            "unsupported_encoding the answer is packed as `gzip, gzip, gzip`, which was not asked for and cannot be unpacked"
        ],
    );
    check(
        "gzip",
        b"hello".to_vec(),
        expect![
            "bad_response the answer is packed and cannot be unpacked: it is damaged or cut off"
        ],
    );
    let whole = gzip(b"hello hello");
    let half = Response {
        truncated: true,
        ..answer("gzip", whole[..whole.len() - 9].to_vec())
    };
    assert!(unpack(half, 99).unwrap().truncated);
}

#[test]
fn body_kinds_are_detected_by_content_and_header() {
    for (declared, bytes, expected) in [
        (
            Some("text/html; charset=utf-8"),
            b"<p>x".as_slice(),
            BodyKind::Html,
        ),
        (Some("application/xhtml+xml"), b"<p>x", BodyKind::Html),
        (None, b"\n<!DOCTYPE HTML><p>", BodyKind::Html),
        (Some("application/octet-stream"), b"<html>", BodyKind::Html),
        (Some("application/problem+json"), b"{}", BodyKind::Json),
        (Some("image/svg+xml"), b"<svg/>", BodyKind::Text),
        (Some("application/toml"), b"a = 1", BodyKind::Text),
        (None, b"words", BodyKind::Text),
        (None, b"", BodyKind::Text),
        (
            Some("text/plain"),
            b"\x89PNG\r\n\x1a\n",
            BodyKind::Image("image/png".to_owned()),
        ),
        (Some("text/html"), b"%PDF-1.7", BodyKind::Pdf),
        (
            Some("text/plain"),
            b"a\0b",
            BodyKind::Other("application/octet-stream".to_owned()),
        ),
        (
            Some("application/zip"),
            b"PK\x03\x04\0\0",
            BodyKind::Other("application/zip".to_owned()),
        ),
        (
            Some("audio/mpeg"),
            b"ID3",
            BodyKind::Other("audio/mpeg".to_owned()),
        ),
        (Some("text/plain"), b"\xff\xfea\0", BodyKind::Text),
        (
            Some("text/html; charset=utf-16le"),
            b"<\0p\0>\0",
            BodyKind::Html,
        ),
        (
            Some("application/json;charset=\"UTF-16BE\""),
            b"\0{\0}",
            BodyKind::Json,
        ),
    ] {
        assert_eq!(kind(declared, bytes), expected, "{declared:?} {bytes:?}");
    }
}

#[test]
fn charsets_are_found_in_order() {
    for (declared, bytes, is_page, expected) in [
        (None, "ż".as_bytes(), false, ("ż", "UTF-8")),
        (None, b"\xe9".as_slice(), false, ("é", "windows-1252")),
        (
            Some("text/plain; charset=ISO-8859-2"),
            b"\xbf",
            false,
            ("ż", "ISO-8859-2"),
        ),
        (
            Some("text/html; charset=\"utf-8\""),
            "ż".as_bytes(),
            true,
            ("ż", "UTF-8"),
        ),
        (
            None,
            b"<meta charset='windows-1251'>\xe6",
            true,
            ("<meta charset='windows-1251'>ж", "windows-1251"),
        ),
        (None, b"\xff\xfea\0", false, ("a", "UTF-16LE")),
        (
            Some("text/plain; charset=utf-8"),
            b"\xfe\xff\0a",
            false,
            ("a", "UTF-16BE"),
        ),
        (
            Some("text/html; charset=utf-16be"),
            b"\0a",
            true,
            ("a", "UTF-16BE"),
        ),
        (
            Some("text/plain; charset=klingon"),
            b"x",
            false,
            ("x", "UTF-8"),
        ),
    ] {
        let (found, name) = text(declared, bytes, is_page);
        assert_eq!((found.as_str(), name), expected, "{declared:?}");
    }
}
