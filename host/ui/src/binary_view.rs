//! Binary files: images before and after, and the bytes that differ.

use std::fmt::Write as _;

use imagesize::ImageType;
use maud::{Markup, html};
use toolhost_contract::units::format_size;
use toolhost_contract::{BinaryContent, ChangeSide};

/// Bytes in a row, and the maximum number of shown rows.
const ROW: usize = 16;
const MAX_ROWS: usize = 48;

/// Maximum size of an image that is shown, in bytes.
const MAX_IMAGE: usize = 256 << 10;
/// Maximum number of its points: a browser needs four bytes for each.
const MAX_PIXELS: usize = 16_000_000;

/// Parses the side of a change in an address.
pub fn parse_side(name: &str) -> Option<ChangeSide> {
    match name {
        "before" => Some(ChangeSide::Before),
        "after" => Some(ChangeSide::After),
        _ => None,
    }
}

/// Returns the content of one side.
pub fn content_of(content: &BinaryContent, side: ChangeSide) -> Option<&[u8]> {
    match side {
        ChangeSide::Before => content.before.as_deref(),
        ChangeSide::After => content.after.as_deref(),
    }
}

/// Returns the media type of an image that browsers show without running anything, unless it is too large to be shown.
pub fn shown_image_type(bytes: &[u8]) -> Option<&'static str> {
    let is_small = imagesize::blob_size(bytes)
        .is_ok_and(|size| size.width.saturating_mul(size.height) <= MAX_PIXELS);
    image_type(bytes).filter(|_| is_small && bytes.len() <= MAX_IMAGE)
}

fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match imagesize::image_type(bytes).ok()? {
        ImageType::Png => Some("image/png"),
        ImageType::Jpeg => Some("image/jpeg"),
        ImageType::Gif => Some("image/gif"),
        ImageType::Webp => Some("image/webp"),
        _ => None,
    }
}

/// Shows a change of a binary file. `address` is where its sides are served. Returns the number of rows that differ and are
/// not shown as well.
pub fn show(content: &BinaryContent, address: &str) -> (Markup, usize) {
    let sides = [
        (content_of(content, ChangeSide::Before), "before", "Before"),
        (content_of(content, ChangeSide::After), "after", "After"),
    ];
    let is_image = |bytes: &[u8]| image_type(bytes).is_some();
    let has_image = sides.iter().any(|(bytes, ..)| bytes.is_some_and(is_image));
    let (rows, hidden) = hex(
        content.before.as_deref().unwrap_or_default(),
        content.after.as_deref().unwrap_or_default(),
    );
    let markup = html! {
        @if has_image {
            div class="images" {
                @for (bytes, name, label) in sides {
                    @if let Some(bytes) = bytes { (figure(bytes, name, label, address)) }
                }
            }
        }
        details class="block" open[!has_image] {
            summary { "Bytes" }
            (rows)
        }
    };
    (markup, hidden)
}

/// One side of a change of an image.
fn figure(bytes: &[u8], name: &str, label: &str, address: &str) -> Markup {
    let size = format_size(bytes.len() as u64);
    html! {
        figure {
            @if shown_image_type(bytes).is_some() {
                img src={ (address) "/" (name) } loading="lazy" alt={ "The image " (name) " the change" };
                figcaption { (label) ", " (size) }
            } @else if image_type(bytes).is_some() {
                figcaption { (label) ": an image of " (size) ", which is not shown: it has more than " (format_size(MAX_IMAGE as u64)) " or 16 million points, or its header is not valid" }
            } @else {
                figcaption { (label) ": no image, " (size) }
            }
        }
    }
}

/// The first rows that differ, before and after, and the number of the others.
fn hex(before: &[u8], after: &[u8]) -> (Markup, usize) {
    let row = |bytes: &[u8], at: usize| -> Vec<u8> {
        let bytes = bytes.get(at * ROW..).unwrap_or_default();
        bytes.iter().take(ROW).copied().collect()
    };
    let rows = before.len().max(after.len()).div_ceil(ROW);
    let different: Vec<usize> = (0..rows)
        .filter(|at| row(before, *at) != row(after, *at))
        .collect();
    let hidden = different.len().saturating_sub(MAX_ROWS);
    let markup = html! {
        div class="diff-scroll" tabindex="0" role="region" aria-label="Bytes that differ" {
            table class="diff hex" {
                tbody {
                    @for at in different.iter().take(MAX_ROWS) {
                        @for (class, sign, bytes) in [("removed", "−", row(before, *at)), ("added", "+", row(after, *at))] {
                            @if !bytes.is_empty() {
                                tr class=(class) {
                                    td class="number" { (format!("{:08x}", at * ROW)) }
                                    td class="sign" { (sign) }
                                    td class="line" { (dump(&bytes)) }
                                }
                            }
                        }
                    }
                }
            }
        }
        @if hidden > 0 { p class="note" { (hidden) " more lines differ" } }
    };
    (markup, hidden)
}

/// Bytes as hexadecimal numbers and as ASCII.
fn dump(bytes: &[u8]) -> String {
    let mut out = String::new();
    for byte in bytes {
        let _ = write!(out, "{byte:02x} ");
    }
    let width = 3 * ROW + 1;
    let ascii = bytes.iter().map(|byte| match byte {
        b' '..=b'~' => char::from(*byte),
        _ => '.',
    });
    format!("{out:width$}{}", ascii.collect::<String>())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn large_images_are_not_shown_and_their_size_is_stated() {
        let image_of = |width: u32, length: usize| {
            let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
            bytes.extend(width.to_be_bytes());
            bytes.extend(4_000_u32.to_be_bytes());
            bytes.resize(length, 0);
            bytes
        };
        let image = |length| image_of(1, length);
        let content = BinaryContent {
            before: Some(Arc::from(image(MAX_IMAGE))),
            after: Some(Arc::from(image(MAX_IMAGE * 2))),
        };
        let (shown, hidden) = show(&content, "/x");
        let shown = shown.into_string();
        assert_eq!(
            hidden,
            (MAX_IMAGE * 2).div_ceil(ROW) - MAX_IMAGE.div_ceil(ROW) - MAX_ROWS
        );
        assert!(shown.contains("src=\"/x/before\""), "{shown}");
        assert!(shown.contains("Before, 256.0 KiB"), "{shown}");
        assert!(!shown.contains("/x/after"), "{shown}");
        assert!(
            shown.contains("After: an image of 512.0 KiB, which"),
            "{shown}"
        );
        assert_eq!(shown_image_type(&image(MAX_IMAGE + 1)), None);
        assert!(shown_image_type(&image_of(4_000, 100)).is_some());
        assert_eq!(shown_image_type(&image_of(4_001, 100)), None);
        assert_eq!(shown_image_type(b"\x89PNG\r\n\x1a\n"), None);
    }

    #[test]
    fn only_rows_that_differ_are_shown_and_only_images_are_served() {
        let before = vec![0; 40];
        let mut after = before.clone();
        after[20] = b'<';
        let content = BinaryContent {
            before: Some(Arc::from(before)),
            after: Some(Arc::from(after)),
        };
        let (shown, hidden) = show(&content, "/x");
        let shown = shown.into_string();
        assert_eq!(hidden, 0);
        assert_eq!(shown.matches("<tr").count(), 2, "{shown}");
        assert!(
            shown.contains("00000010") && shown.contains("....&lt;..."),
            "{shown}"
        );
        assert!(!shown.contains("<img"));
        for (bytes, expected) in [
            (&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], Some("image/png")),
            (b"<svg xmlns", None),
            (b"<html>", None),
            (b"", None),
        ] {
            assert_eq!(image_type(bytes), expected);
        }
    }
}
