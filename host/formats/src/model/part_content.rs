//! Conversion of result parts to text and media for all APIs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use toolhost_contract::Part;

/// The content of a part: text or media.
pub(super) enum PartContent<'a> {
    Text(String),
    Media {
        data: &'a [u8],
        media_type: &'a str,
        name: Option<&'a str>,
        /// The file as text, if it is text.
        text: Option<&'a str>,
    },
}

pub(super) fn part_content(part: &Part) -> PartContent<'_> {
    match part {
        Part::Text(text) => PartContent::Text(text.clone()),
        Part::Json(value) => PartContent::Text(value.to_string()),
        Part::Image { data, media_type } | Part::Audio { data, media_type } => PartContent::Media {
            data,
            media_type,
            name: None,
            text: None,
        },
        Part::File {
            data,
            media_type,
            uri,
            name,
        } => PartContent::Media {
            data,
            media_type,
            name: name.as_deref().or(uri.as_deref()),
            text: file_text(data, media_type),
        },
        Part::ResourceLink {
            uri,
            name,
            media_type,
        } => {
            let mut link = uri.clone();
            if let Some(name) = name {
                link = format!("{name}: {link}");
            }
            if let Some(media_type) = media_type {
                link = format!("{link} ({media_type})");
            }
            PartContent::Text(link)
        }
        Part::Other { kind, text } => PartContent::Text(
            text.clone()
                .unwrap_or_else(|| format!("content of kind {kind}")),
        ),
    }
}

fn file_text<'a>(data: &'a [u8], media_type: &str) -> Option<&'a str> {
    let is_text = media_type.starts_with("text/")
        || media_type.ends_with("json")
        || media_type.ends_with("xml");
    std::str::from_utf8(data).ok().filter(|_| is_text)
}

/// Returns the text in place of media that an API does not support.
pub(super) fn placeholder(media_type: &str) -> String {
    format!("Binary content of type {media_type}")
}

/// Returns [`placeholder`] with the name, if any.
pub(super) fn named_placeholder(media_type: &str, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{} ({name})", placeholder(media_type)),
        None => placeholder(media_type),
    }
}

pub(super) fn base64(data: &[u8]) -> String {
    STANDARD.encode(data)
}

pub(super) fn data_url(data: &[u8], media_type: &str) -> String {
    format!("data:{media_type};base64,{}", base64(data))
}

/// Returns whether the APIs of Anthropic and OpenAI support the image type.
pub(super) fn is_supported_image(media_type: &str) -> bool {
    matches!(
        media_type,
        "image/png" | "image/jpeg" | "image/gif" | "image/webp"
    )
}

/// Returns the text of all parts in order, with placeholders for media.
pub(super) fn joined_text(parts: &[Part]) -> String {
    let texts: Vec<String> = parts
        .iter()
        .map(|part| match part_content(part) {
            PartContent::Text(text) => text,
            PartContent::Media {
                text: Some(text), ..
            } => text.to_owned(),
            PartContent::Media {
                media_type, name, ..
            } => named_placeholder(media_type, name),
        })
        .collect();
    let mut text = texts.join("\n");
    if text.is_empty() {
        "(no output)".clone_into(&mut text);
    }
    text
}
