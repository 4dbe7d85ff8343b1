//! Conversion between bytes and text that preserves encoding, byte order mark and line endings.

use serde::{Deserialize, Serialize};
use toolhost_sdk::prelude::*;

/// The `encoding` parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub enum Encoding {
    #[serde(rename = "auto")]
    Auto,
    #[serde(rename = "utf-8")]
    Utf8,
    #[serde(rename = "utf-16le")]
    Utf16le,
    #[serde(rename = "utf-16be")]
    Utf16be,
    #[serde(rename = "latin1")]
    Latin1,
    #[serde(rename = "base64")]
    Base64,
}

impl Encoding {
    /// The charset that a call names.
    pub fn charset(self) -> Option<Charset> {
        match self {
            Self::Auto | Self::Base64 => None,
            Self::Utf8 => Some(Charset::Utf8),
            Self::Utf16le => Some(Charset::Utf16le),
            Self::Utf16be => Some(Charset::Utf16be),
            Self::Latin1 => Some(Charset::Latin1),
        }
    }
}

// By hand, because `#[data]` uses snake case and these names do not.
impl Schema for Encoding {
    fn schema() -> Value {
        json!({"type": "string", "enum": ["auto", "utf-8", "utf-16le", "utf-16be", "latin1", "base64"]})
    }
}

/// The character encoding of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charset {
    Utf8,
    Utf16le,
    Utf16be,
    Utf32le,
    Utf32be,
    Latin1,
}

impl Charset {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Utf8 => "utf-8",
            Self::Utf16le => "utf-16le",
            Self::Utf16be => "utf-16be",
            Self::Utf32le => "utf-32le",
            Self::Utf32be => "utf-32be",
            Self::Latin1 => "latin1",
        }
    }

    fn mark(self) -> &'static [u8] {
        match self {
            Self::Utf8 => b"\xef\xbb\xbf",
            Self::Utf16le => b"\xff\xfe",
            Self::Utf16be => b"\xfe\xff",
            Self::Utf32le => b"\xff\xfe\0\0",
            Self::Utf32be => b"\0\0\xfe\xff",
            Self::Latin1 => b"",
        }
    }

    /// The charset of a byte order mark at the start of `bytes`.
    pub fn by_mark(bytes: &[u8]) -> Option<Self> {
        // The UTF-16LE mark is a prefix of the UTF-32LE mark, so longer marks come first.
        [
            Self::Utf32le,
            Self::Utf32be,
            Self::Utf8,
            Self::Utf16le,
            Self::Utf16be,
        ]
        .into_iter()
        .find(|charset| bytes.starts_with(charset.mark()))
    }
}

/// The text of a file, and the format to store it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    pub text: String,
    pub format: Format,
    /// The charset was not specified and is not UTF-8.
    pub guessed: bool,
}

/// The text of a file for reading only: it may not encode to the same bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextView {
    pub text: String,
    pub charset: Charset,
    /// What the text does not show as it is.
    pub note: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    pub charset: Charset,
    pub mark: bool,
}

impl Format {
    pub const UTF8: Self = Self {
        charset: Charset::Utf8,
        mark: false,
    };
}

/// Decodes `bytes` as `encoding`; `auto` detects a byte order mark and valid UTF-8. `base64` is not a charset and is
/// treated like `auto`. Fails if the bytes are evidently in another encoding, because a change would mix the two.
pub fn decode(bytes: Vec<u8>, encoding: Encoding, shown: &str) -> Result<Decoded> {
    check_named(&bytes, encoding, shown)?;
    decode_as(bytes, encoding, shown)
}

/// Fails if a byte order mark contradicts the encoding that a call names, or if the bytes are UTF-8 and unlikely to be in
/// that encoding.
fn check_named(bytes: &[u8], encoding: Encoding, shown: &str) -> Result<()> {
    let Some(named) = encoding.charset() else {
        return Ok(());
    };
    let is_unlikely = match named {
        Charset::Latin1 => !bytes.is_ascii(),
        // Line breaks and ASCII characters have zero bytes in UTF-16.
        Charset::Utf16le | Charset::Utf16be => !bytes.is_empty() && !bytes.contains(&0),
        Charset::Utf8 | Charset::Utf32le | Charset::Utf32be => false,
    };
    let is_utf8 = || is_unlikely && str::from_utf8(bytes).is_ok();
    let found = Charset::by_mark(bytes).or_else(|| is_utf8().then_some(Charset::Utf8));
    match found {
        Some(found) if found != named => {
            let (found, named) = (found.as_str(), named.as_str());
            let message = format!("{shown} is {found}, not {named}; omit `encoding`");
            Err(Error::invalid_input(message).code("encoding_mismatch"))
        }
        Some(_) | None => Ok(()),
    }
}

fn decode_as(bytes: Vec<u8>, encoding: Encoding, shown: &str) -> Result<Decoded> {
    let by_mark = Charset::by_mark(&bytes);
    let Some(charset) = encoding.charset().or(by_mark) else {
        return Ok(match String::from_utf8(bytes) {
            Ok(text) => Decoded {
                text,
                format: Format::UTF8,
                guessed: false,
            },
            Err(error) => {
                let format = Format {
                    charset: Charset::Latin1,
                    mark: false,
                };
                Decoded {
                    text: latin1(error.as_bytes()),
                    format,
                    guessed: true,
                }
            }
        });
    };
    let invalid = |damaged: Option<usize>| {
        let message = match damaged {
            // Latin-1 would add characters in a second encoding.
            Some(line) => damage(shown, line),
            None => format!(
                "{shown} is not valid {}; set another `encoding`, for example \"latin1\"",
                charset.as_str()
            ),
        };
        Error::invalid_input(message).code("encoding_mismatch")
    };
    let mark = by_mark == Some(charset);
    let body = &bytes[if mark { charset.mark().len() } else { 0 }..];
    let text = match charset {
        Charset::Utf8 if !mark => Some(
            String::from_utf8(bytes).map_err(|error| invalid(damaged_utf8(error.as_bytes())))?,
        ),
        Charset::Utf8 => Some(
            str::from_utf8(body)
                .map_err(|_| invalid(damaged_utf8(&bytes)))?
                .to_owned(),
        ),
        Charset::Utf16le => units(body, u16::from_le_bytes).and_then(utf16),
        Charset::Utf16be => units(body, u16::from_be_bytes).and_then(utf16),
        Charset::Utf32le => units(body, u32::from_le_bytes).and_then(utf32),
        Charset::Utf32be => units(body, u32::from_be_bytes).and_then(utf32),
        Charset::Latin1 => Some(latin1(body)),
    };
    Ok(Decoded {
        text: text.ok_or_else(|| invalid(None))?,
        format: Format { charset, mark },
        guessed: false,
    })
}

/// Decodes `bytes` like [`decode`], but shows any bytes as Latin-1 if it is named, and UTF-8 with some invalid bytes: with
/// replacement characters, and a note.
pub fn view(mut bytes: Vec<u8>, encoding: Encoding, shown: &str) -> Result<TextView> {
    if encoding != Encoding::Latin1 {
        check_named(&bytes, encoding, shown)?;
    }
    let by_mark = Charset::by_mark(&bytes);
    let may_be_utf8 = matches!(encoding, Encoding::Auto | Encoding::Base64 | Encoding::Utf8);
    if may_be_utf8 && by_mark.is_none() {
        match String::from_utf8(bytes) {
            Ok(text) => {
                return Ok(TextView {
                    text,
                    charset: Charset::Utf8,
                    note: None,
                });
            }
            Err(error) => bytes = error.into_bytes(),
        }
    }
    let line = match (encoding, by_mark) {
        (Encoding::Auto | Encoding::Base64, None) => damaged_utf8(&bytes),
        (Encoding::Auto | Encoding::Base64, Some(Charset::Utf8)) | (Encoding::Utf8, _) => {
            Utf8Errors::of(&bytes).map(|errors| errors.line)
        }
        _ => None,
    };
    if let Some(line) = line {
        let body = bytes.strip_prefix(Charset::Utf8.mark()).unwrap_or(&bytes);
        return Ok(TextView {
            text: String::from_utf8_lossy(body).into_owned(),
            charset: Charset::Utf8,
            note: Some(format!(
                "bytes that are not UTF-8 are shown as U+FFFD, first in line {line}"
            )),
        });
    }
    let decoded = decode_as(bytes, encoding, shown)?;
    let note = "the file is not UTF-8 and shown as latin1, which is a guess: set `encoding` if it is wrong";
    Ok(TextView {
        text: decoded.text,
        charset: decoded.format.charset,
        note: decoded.guessed.then(|| note.to_owned()),
    })
}

/// States the damage of a UTF-8 file whose first invalid byte is in `line`.
pub fn damage(shown: &str, line: usize) -> String {
    format!("{shown} has bytes that are not UTF-8, first in line {line}")
}

/// The first line of UTF-8 text with an invalid byte. `None` for valid UTF-8 and for text that is probably Latin-1.
pub fn damaged_utf8(bytes: &[u8]) -> Option<usize> {
    let errors = Utf8Errors::of(bytes)?;
    // In Latin-1 text, few bytes form a valid sequence.
    (errors.invalid <= errors.valid).then_some(errors.line)
}

/// What in a text is not UTF-8.
struct Utf8Errors {
    /// The first line with an invalid byte, from 1.
    line: usize,
    /// Number of invalid bytes.
    invalid: usize,
    /// Number of valid sequences of several bytes.
    valid: usize,
}

impl Utf8Errors {
    fn of(bytes: &[u8]) -> Option<Self> {
        let end = str::from_utf8(bytes).err()?.valid_up_to();
        let breaks = bytes[..end].iter().filter(|byte| **byte == b'\n');
        let mut errors = Self {
            line: breaks.count() + 1,
            invalid: 0,
            valid: 0,
        };
        for chunk in bytes.utf8_chunks() {
            errors.invalid += chunk.invalid().len();
            errors.valid += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        }
        Some(errors)
    }
}

/// Encodes `text`; the inverse of `decode`.
pub fn encode(text: &str, format: Format) -> Result<Vec<u8>> {
    let Format { charset, mark } = format;
    let mut bytes = if mark {
        charset.mark().to_vec()
    } else {
        Vec::new()
    };
    match charset {
        Charset::Utf8 => bytes.extend_from_slice(text.as_bytes()),
        Charset::Utf16le => bytes.extend(text.encode_utf16().flat_map(u16::to_le_bytes)),
        Charset::Utf16be => bytes.extend(text.encode_utf16().flat_map(u16::to_be_bytes)),
        Charset::Utf32le => bytes.extend(text.chars().flat_map(|c| u32::from(c).to_le_bytes())),
        Charset::Utf32be => bytes.extend(text.chars().flat_map(|c| u32::from(c).to_be_bytes())),
        Charset::Latin1 => {
            for c in text.chars() {
                bytes.push(u8::try_from(c).map_err(|_| {
                    let message = format!(
                        "latin1 has no character {c:?}; remove it or set `encoding` to \"utf-8\""
                    );
                    Error::invalid_input(message).code("encoding_mismatch")
                })?);
            }
        }
    }
    Ok(bytes)
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

/// `None` if the last unit is incomplete.
fn units<T, const N: usize>(bytes: &[u8], unit: fn([u8; N]) -> T) -> Option<Vec<T>> {
    let (chunks, rest) = bytes.as_chunks::<N>();
    rest.is_empty()
        .then(|| chunks.iter().map(|chunk| unit(*chunk)).collect())
}

fn utf16(units: Vec<u16>) -> Option<String> {
    char::decode_utf16(units).collect::<Result<_, _>>().ok()
}

fn utf32(units: Vec<u32>) -> Option<String> {
    units.into_iter().map(char::from_u32).collect()
}

/// The line endings: `lf`, `crlf`, `mixed`, or `none` without line breaks.
pub fn line_ending(text: &str) -> &'static str {
    let (mut lf, mut crlf) = (false, false);
    for line in text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
    {
        let is_crlf = line.ends_with("\r\n");
        crlf |= is_crlf;
        lf |= !is_crlf;
    }
    match (lf, crlf) {
        (false, false) => "none",
        (true, false) => "lf",
        (false, true) => "crlf",
        (true, true) => "mixed",
    }
}

/// Human-readable size, such as `1.2 KB`.
#[expect(clippy::cast_precision_loss, reason = "one digit is shown")]
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} KB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(bytes: &[u8], encoding: Encoding, expected: Expect) {
        let answer = match decode(bytes.to_vec(), encoding, "a.txt") {
            Ok(Decoded {
                text,
                format,
                guessed,
            }) => {
                assert_eq!(encode(&text, format).unwrap(), bytes, "the way back");
                let mark = if format.mark { " with mark" } else { "" };
                let guessed = if guessed { ", guessed" } else { "" };
                format!("{text:?} in {}{mark}{guessed}", format.charset.as_str())
            }
            Err(error) => error.to_string(),
        };
        expected.assert_eq(&answer);
    }

    #[test]
    fn byte_order_marks_are_detected() {
        check(
            b"\xef\xbb\xbfh\xc3\xa9",
            Encoding::Auto,
            expect![[r#""hé" in utf-8 with mark"#]],
        );
        check(
            b"\xff\xfeh\0\xe9\0",
            Encoding::Auto,
            expect![[r#""hé" in utf-16le with mark"#]],
        );
        check(
            b"\xfe\xff\0h\0\xe9",
            Encoding::Auto,
            expect![[r#""hé" in utf-16be with mark"#]],
        );
        check(
            b"\xff\xfe\0\0h\0\0\0",
            Encoding::Auto,
            expect![[r#""h" in utf-32le with mark"#]],
        );
        check(
            b"\0\0\xfe\xff\0\0\0h",
            Encoding::Auto,
            expect![[r#""h" in utf-32be with mark"#]],
        );
    }

    #[test]
    fn without_a_mark_utf8_is_tried_and_anything_else_is_a_guess() {
        check(
            "hé".as_bytes(),
            Encoding::Auto,
            expect![[r#""hé" in utf-8"#]],
        );
        check(
            b"h\xe9",
            Encoding::Auto,
            expect![[r#""hé" in latin1, guessed"#]],
        );
    }

    #[test]
    fn explicit_encodings_apply() {
        check(
            b"h\0\xe9\0",
            Encoding::Utf16le,
            expect![[r#""hé" in utf-16le"#]],
        );
        check(b"\0h", Encoding::Utf16be, expect![[r#""h" in utf-16be"#]]);
        check(b"h\xe9", Encoding::Latin1, expect![[r#""hé" in latin1"#]]);
    }

    #[test]
    fn invalid_explicit_encodings_fail() {
        check(
            b"h\xe9",
            Encoding::Utf8,
            expect![[r#"a.txt is not valid utf-8; set another `encoding`, for example "latin1""#]],
        );
        check(
            b"od\0",
            Encoding::Utf16le,
            expect![[
                r#"a.txt is not valid utf-16le; set another `encoding`, for example "latin1""#
            ]],
        );
        check(
            b"\x00\xd8",
            Encoding::Utf16le,
            expect![[
                r#"a.txt is not valid utf-16le; set another `encoding`, for example "latin1""#
            ]],
        );
    }

    #[test]
    fn an_encoding_that_the_bytes_contradict_is_refused() {
        for (bytes, encoding, found) in [
            ("é\n".as_bytes(), Encoding::Latin1, "utf-8, not latin1"),
            (b"\xef\xbb\xbfa", Encoding::Latin1, "utf-8, not latin1"),
            (b"\xff\xfea\0", Encoding::Latin1, "utf-16le, not latin1"),
            (b"\xff\xfea\0", Encoding::Utf16be, "utf-16le, not utf-16be"),
            (b"\xff\xfea\0", Encoding::Utf8, "utf-16le, not utf-8"),
            (b"abcd", Encoding::Utf16le, "utf-8, not utf-16le"),
        ] {
            let message = format!("a.txt is {found}; omit `encoding`");
            let error = decode(bytes.to_vec(), encoding, "a.txt").unwrap_err();
            assert_eq!(error.message, message);
            // Reading changes nothing, so any bytes can be shown as Latin-1.
            let view = view(bytes.to_vec(), encoding, "a.txt");
            match encoding {
                Encoding::Latin1 => assert_eq!(view.unwrap().charset, Charset::Latin1),
                _ => assert_eq!(view.unwrap_err().message, message),
            }
        }
        for (bytes, encoding) in [
            (&b"ascii"[..], Encoding::Latin1),
            (b"", Encoding::Utf16le),
            (b"\xff\xfea\0", Encoding::Utf16le),
            (b"\xef\xbb\xbfa", Encoding::Utf8),
        ] {
            decode(bytes.to_vec(), encoding, "a.txt").unwrap();
        }
    }

    #[test]
    fn text_is_utf8_while_most_of_it_is() {
        let note = "bytes that are not UTF-8 are shown as U+FFFD, first in line";
        for (bytes, encoding, text, expected) in [
            (
                &b"\xc3\xa9\n\xffa"[..],
                Encoding::Auto,
                "\u{e9}\n\u{fffd}a",
                Some(2),
            ),
            (b"caf\xe9", Encoding::Utf8, "caf\u{fffd}", Some(1)),
            (b"\xef\xbb\xbfa\xff", Encoding::Auto, "a\u{fffd}", Some(1)),
            (b"\xc3\xa9\n", Encoding::Auto, "\u{e9}\n", None),
        ] {
            let view = view(bytes.to_vec(), encoding, "a.txt").unwrap();
            assert_eq!((view.charset, view.text.as_str()), (Charset::Utf8, text));
            assert_eq!(view.note, expected.map(|line| format!("{note} {line}")));
        }
        let view = view(b"\xe9t\xe9 \xc3\xa9".to_vec(), Encoding::Auto, "a.txt").unwrap();
        assert_eq!(view.charset, Charset::Latin1);
        assert_eq!(damaged_utf8(b"\xe9t\xe9 \xc3\xa9"), None);
        let error = decode(b"\xc3\xa9\xff".to_vec(), Encoding::Utf8, "a.txt").unwrap_err();
        assert_eq!(
            error.message,
            "a.txt has bytes that are not UTF-8, first in line 1"
        );
    }

    #[test]
    fn latin1_does_not_have_every_character() {
        let error = encode(
            "5 €",
            Format {
                charset: Charset::Latin1,
                mark: false,
            },
        )
        .unwrap_err();
        expect![[r#"latin1 has no character '€'; remove it or set `encoding` to "utf-8""#]]
            .assert_eq(&error.to_string());
    }

    #[test]
    fn line_endings() {
        for (text, expected) in [
            ("a", "none"),
            ("a\n", "lf"),
            ("a\r\nb\r\n", "crlf"),
            ("a\r\nb\n", "mixed"),
        ] {
            assert_eq!(line_ending(text), expected, "{text:?}");
        }
    }

    #[test]
    fn sizes() {
        for (bytes, expected) in [
            (999, "999 B"),
            (1_200, "1.2 KB"),
            (2_500_000, "2.5 MB"),
            (1 << 30, "1.1 GB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
    }
}
