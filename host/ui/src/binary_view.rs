//! Binary files: images before and after, and the bytes that differ.

use std::fmt::Write as _;

use maud::{Markup, html};
use toolhost_contract::BinaryContent;

/// Bytes in a row, and the maximum number of shown rows.
const ROW: usize = 16;
const MAX_ROWS: usize = 48;

/// The side of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Before,
    After,
}

impl Side {
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "before" => Some(Self::Before),
            "after" => Some(Self::After),
            _ => None,
        }
    }

    pub fn of(self, content: &BinaryContent) -> Option<&[u8]> {
        match self {
            Side::Before => content.before.as_deref(),
            Side::After => content.after.as_deref(),
        }
    }
}

/// Returns the media type of an image that browsers show without running anything.
pub fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [
            b'R',
            b'I',
            b'F',
            b'F',
            _,
            _,
            _,
            _,
            b'W',
            b'E',
            b'B',
            b'P',
            ..,
        ] => Some("image/webp"),
        _ => None,
    }
}

/// Shows a change of a binary file. `address` is where its sides are served.
pub fn show(content: &BinaryContent, address: &str) -> Markup {
    let sides = [
        (Side::Before, "before", "Before"),
        (Side::After, "after", "After"),
    ];
    let is_image = sides.iter().any(|(side, ..)| {
        side.of(content)
            .is_some_and(|bytes| image_type(bytes).is_some())
    });
    html! {
        @if is_image {
            div class="images" {
                @for (side, name, label) in sides {
                    @match side.of(content) {
                        Some(bytes) if image_type(bytes).is_some() => figure {
                            img src={ (address) "/" (name) } alt={ "The image " (name) " the change" };
                            figcaption { (label) }
                        },
                        Some(_) => figure { figcaption { (label) ": no image" } },
                        None => {},
                    }
                }
            }
        }
        details class="block" open[!is_image] {
            summary { "Bytes" }
            (hex(content.before.as_deref().unwrap_or_default(), content.after.as_deref().unwrap_or_default()))
        }
    }
}

/// The rows that differ, before and after.
fn hex(before: &[u8], after: &[u8]) -> Markup {
    let row = |bytes: &[u8], at: usize| -> Vec<u8> {
        let bytes = bytes.get(at * ROW..).unwrap_or_default();
        bytes.iter().take(ROW).copied().collect()
    };
    let rows = before.len().max(after.len()).div_ceil(ROW);
    let different: Vec<usize> = (0..rows)
        .filter(|at| row(before, *at) != row(after, *at))
        .collect();
    html! {
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
        @if different.len() > MAX_ROWS { p class="note" { (different.len() - MAX_ROWS) " more rows differ" } }
    }
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
    fn only_rows_that_differ_are_shown_and_only_images_are_served() {
        let before = vec![0; 40];
        let mut after = before.clone();
        after[20] = b'<';
        let content = BinaryContent {
            before: Some(Arc::from(before)),
            after: Some(Arc::from(after)),
        };
        let shown = show(&content, "/x").into_string();
        assert_eq!(shown.matches("<tr").count(), 2, "{shown}");
        assert!(
            shown.contains("00000010") && shown.contains("....&lt;..."),
            "{shown}"
        );
        assert!(!shown.contains("<img"));
        for (bytes, expected) in [
            (&b"\x89PNG\r\n\x1a\n"[..], Some("image/png")),
            (b"<svg xmlns", None),
            (b"<html>", None),
            (b"", None),
        ] {
            assert_eq!(image_type(bytes), expected);
        }
    }
}
