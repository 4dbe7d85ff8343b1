//! Conversion of result parts to text and media for all APIs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::Part;

/// The content of a part: text or media.
pub(super) enum Shown<'a> {
    Words(String),
    Media {
        data: &'a [u8],
        media_type: &'a str,
        name: Option<&'a str>,
        /// The file as text, if it is text.
        text: Option<&'a str>,
    },
}

pub(super) fn shown(part: &Part) -> Shown<'_> {
    match part {
        Part::Text(text) => Shown::Words(text.clone()),
        Part::Json(value) => Shown::Words(value.to_string()),
        Part::Image { data, media_type } | Part::Audio { data, media_type } => Shown::Media {
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
        } => Shown::Media {
            data,
            media_type,
            name: name.as_deref().or(uri.as_deref()),
            text: readable(data, media_type),
        },
        Part::ResourceLink {
            uri,
            name,
            media_type,
        } => {
            let mut words = uri.clone();
            if let Some(name) = name {
                words = format!("{name}: {words}");
            }
            if let Some(media_type) = media_type {
                words = format!("{words} ({media_type})");
            }
            Shown::Words(words)
        }
        Part::Other { kind, text } => Shown::Words(
            text.clone()
                .unwrap_or_else(|| format!("content of kind {kind}")),
        ),
    }
}

fn readable<'a>(data: &'a [u8], media_type: &str) -> Option<&'a str> {
    let is_text = media_type.starts_with("text/")
        || media_type.ends_with("json")
        || media_type.ends_with("xml");
    std::str::from_utf8(data).ok().filter(|_| is_text)
}

///
pub(super) fn stand_in(media_type: &str) -> String {
    format!("Binary content of type {media_type}")
}

pub(super) fn encoded(data: &[u8]) -> String {
    STANDARD.encode(data)
}

pub(super) fn data_url(data: &[u8], media_type: &str) -> String {
    format!("data:{media_type};base64,{}", encoded(data))
}

/// Returns whether all of these APIs support the image type.
pub(super) fn is_picture(media_type: &str) -> bool {
    matches!(
        media_type,
        "image/png" | "image/jpeg" | "image/gif" | "image/webp"
    )
}

/// Returns the text of all parts in order, with placeholders for media.
pub(super) fn all_words(parts: &[Part]) -> String {
    let words: Vec<String> = parts
        .iter()
        .map(|part| match shown(part) {
            Shown::Words(words) => words,
            Shown::Media {
                text: Some(text), ..
            } => text.to_owned(),
            Shown::Media {
                media_type, name, ..
            } => match name {
                Some(name) => format!("{} ({name})", stand_in(media_type)),
                None => stand_in(media_type),
            },
        })
        .collect();
    let mut words = words.join("\n");
    if words.is_empty() {
        "(no output)".clone_into(&mut words);
    }
    words
}
