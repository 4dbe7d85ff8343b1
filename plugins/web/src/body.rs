//! Decoding of response bodies: decompression, media type detection and text decoding.

use std::io::Read;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use toolhost_sdk::prelude::*;
use toolhost_sdk::services::http::Response;
use toolhost_sdk::text::is_binary;

use crate::untrusted_text::inline;

/// Supported encodings, for `Accept-Encoding`.
pub const ENCODINGS: &str = "gzip, deflate";

/// Limit of nested encodings.
const LAYERS: usize = 2;

#[derive(Debug)]
pub struct Body {
    pub bytes: Vec<u8>,
    /// More bytes follow.
    pub truncated: bool,
}

/// Decompresses the body, at most `most` bytes, because a few compressed bytes can expand to very many.
pub fn unpack(response: Response, most: usize) -> Result<Body> {
    let coding = response
        .header("content-encoding")
        .unwrap_or_default()
        .to_ascii_lowercase();
    let codings: Vec<&str> = coding
        .split(',')
        .map(str::trim)
        .filter(|coding| !coding.is_empty() && *coding != "identity")
        .collect();
    let mut body = Body {
        bytes: response.body,
        truncated: response.truncated,
    };
    if codings.len() > LAYERS {
        return Err(unreadable(&coding));
    }
    // A response to HEAD names an encoding but has no body.
    if body.bytes.is_empty() {
        return Ok(body);
    }
    for coding in codings.into_iter().rev() {
        body = layer(coding, &body, most)?;
    }
    body.truncated |= body.bytes.len() > most;
    body.bytes.truncate(most);
    Ok(body)
}

fn layer(coding: &str, packed: &Body, most: usize) -> Result<Body> {
    let bytes = packed.bytes.as_slice();
    match coding {
        "gzip" | "x-gzip" => read(MultiGzDecoder::new(bytes), packed, most),
        // The standard format is zlib, but some servers send raw deflate.
        "deflate" if bytes.first().is_some_and(|first| first & 0x0f == 8) => {
            read(ZlibDecoder::new(bytes), packed, most)
        }
        "deflate" => read(DeflateDecoder::new(bytes), packed, most),
        other => Err(unreadable(other)),
    }
}

fn read(decoder: impl Read, packed: &Body, most: usize) -> Result<Body> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    let end = decoder.take(limit).read_to_end(&mut bytes);
    match end {
        Err(error) if !packed.truncated => Err(Error::unavailable(
            "the answer is packed and cannot be unpacked: it is damaged or cut off",
        )
        .code("bad_response")
        .cause(error)
        .retryable()),
        Ok(_) | Err(_) => Ok(Body {
            truncated: packed.truncated || bytes.len() > most,
            bytes,
        }),
    }
}

fn unreadable(coding: &str) -> Error {
    let message = format!(
        "the answer is packed as `{}`, which was not asked for and cannot be unpacked",
        inline(coding)
    );
    Error::failed(message).code("unsupported_encoding")
}

/// The kind of a response body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyKind {
    Html,
    Json,
    Text,
    Image(String),
    Pdf,
    Other(String),
}

/// `declared` is the `content-type` header, which is used unless the bytes contradict it.
pub fn kind(declared: Option<&str>, bytes: &[u8]) -> BodyKind {
    let charset = declared.and_then(|declared| charset(declared.as_bytes()));
    let declared = media_type(declared);
    if let Some(found) = by_magic(bytes) {
        return found;
    }
    if bytes.is_empty() {
        return BodyKind::Text;
    }
    let is_utf16 = charset.is_some_and(|charset| [UTF_16LE, UTF_16BE].contains(&charset));
    let wide = is_utf16 || Encoding::for_bom(bytes).is_some();
    if !wide && is_binary(bytes) {
        return BodyKind::Other(if is_text_type(&declared) || declared.is_empty() {
            "application/octet-stream".to_owned()
        } else {
            declared
        });
    }
    match declared.as_str() {
        "text/html" | "application/xhtml+xml" => BodyKind::Html,
        "application/json" | "text/json" => BodyKind::Json,
        declared if declared.ends_with("+json") => BodyKind::Json,
        "" | "application/octet-stream" | "text/plain" if is_html(bytes) => BodyKind::Html,
        declared if is_text_type(declared) => BodyKind::Text,
        declared if starts(declared, &["image/", "audio/", "video/", "font/"]) => {
            BodyKind::Other(declared.to_owned())
        }
        // It contains only bytes of text.
        _ => BodyKind::Text,
    }
}

/// The media type in lower case without parameters; empty if invalid, since servers can send any text.
pub fn media_type(declared: Option<&str>) -> String {
    let declared = declared.unwrap_or_default();
    let essence = declared.split(';').next().unwrap_or_default();
    let essence = essence.trim().to_ascii_lowercase();
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || b"/+-._".contains(&c);
    if essence.len() <= 100 && essence.contains('/') && essence.bytes().all(is_plain) {
        essence
    } else {
        String::new()
    }
}

fn is_text_type(declared: &str) -> bool {
    starts(declared, &["text/"])
        || declared.ends_with("+xml")
        || matches!(
            declared,
            "application/xml"
                | "application/javascript"
                | "application/x-ndjson"
                | "application/yaml"
        )
}

fn starts(text: &str, with: &[&str]) -> bool {
    with.iter().any(|start| text.starts_with(start))
}

fn by_magic(bytes: &[u8]) -> Option<BodyKind> {
    let image = |name: &str| Some(BodyKind::Image(format!("image/{name}")));
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        return image("webp");
    }
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => image("png"),
        [0xff, 0xd8, 0xff, ..] => image("jpeg"),
        [b'G', b'I', b'F', b'8', ..] => image("gif"),
        [b'%', b'P', b'D', b'F', b'-', ..] => Some(BodyKind::Pdf),
        _ => None,
    }
}

fn is_html(bytes: &[u8]) -> bool {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(512)]).to_ascii_lowercase();
    let head = head.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
    starts(head, &["<!doctype html", "<html", "<head", "<body"])
}

/// The text and its charset, which is taken from the byte order mark, header or page, else UTF-8 if valid, else the
/// browsers' default.
pub fn text(declared: Option<&str>, bytes: &[u8], is_page: bool) -> (String, &'static str) {
    let label = declared
        .and_then(|declared| charset(declared.as_bytes()))
        .or_else(|| {
            let head = &bytes[..bytes.len().min(1024)];
            is_page.then(|| charset(head)).flatten()
        });
    let encoding = label.unwrap_or(if str::from_utf8(bytes).is_ok() {
        UTF_8
    } else {
        WINDOWS_1252
    });
    let (text, used, _) = encoding.decode(bytes);
    (text.into_owned(), used.name())
}

/// The value of the first `charset=`.
fn charset(head: &[u8]) -> Option<&'static Encoding> {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let (_, rest) = head.split_once("charset")?;
    let rest = rest.trim_start().strip_prefix('=')?;
    let rest = rest.trim_start().trim_start_matches(['"', '\'']);
    let end = rest.find(|c: char| !c.is_ascii_graphic() || "\"'/;>".contains(c));
    Encoding::for_label(&rest.as_bytes()[..end.unwrap_or(rest.len())])
}

#[cfg(test)]
mod tests;
