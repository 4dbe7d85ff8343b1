//! The new bytes of a file: the content of a call in the file's existing encoding and line endings.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use toolhost_sdk::prelude::*;

use crate::eol::wants_crlf;
use crate::media;
use crate::pasted_output;
use crate::path::Target;
use crate::text::{self, Charset, Decoded, Encoding, Format};
use crate::text_change::TextChange;
use crate::write::WriteMode;

/// Limit of a file that is decoded to append to it. Texts and their encoded forms are in memory at the same time.
const MOST_DECODED: usize = 20_000_000;
/// The beginning of a larger file that is decoded.
const BEGINNING: usize = 64 << 10;

/// The new content of a file.
pub struct NewContent {
    pub bytes: Vec<u8>,
    /// Bytes of this call's content.
    pub written: usize,
    pub encoding: &'static str,
    pub line_ending: &'static str,
    /// The change to display; `None` for bytes.
    pub change: Option<TextChange>,
    /// Possible mistakes in the content.
    pub warnings: Vec<String>,
}

impl NewContent {
    /// From base64 content.
    pub fn bytes(content: &str, old: Option<&[u8]>, mode: WriteMode) -> Result<Self> {
        let content = BASE64.decode(content.trim()).map_err(|error| {
            let error = error.to_string();
            let message = format!("`content` is not base64: {}", error.trim_end_matches('.'));
            Error::invalid_input(message).code("invalid_base64")
        })?;
        let written = content.len();
        let bytes = match (mode, old) {
            (WriteMode::Append, Some(old)) => [old, &content].concat(),
            _ => content,
        };
        Ok(Self {
            bytes,
            written,
            encoding: "base64",
            line_ending: "none",
            change: None,
            warnings: Vec::new(),
        })
    }

    /// From text content, stored like the old file unless specified otherwise.
    pub fn text(
        cx: &Context,
        content: &str,
        old: Option<&[u8]>,
        mode: WriteMode,
        encoding: Encoding,
        target: &Target,
    ) -> Result<Self> {
        if mode == WriteMode::Append
            && let Some(old) = old.filter(|old| old.len() > MOST_DECODED)
        {
            return Self::appended_to_large(cx, content, old, encoding, target);
        }
        let old_text = old
            .map(|old| decode_old(old, encoding, mode, target))
            .transpose()?
            .flatten();
        let known = old_text.as_ref().map_or("", |old| &old.text);
        let suspects = pasted_output::check(content, known, known, &target.path)?;
        let warnings = pasted_output::reject_pasted(cx, target, &suspects, "`content`")?;
        let format = format_for(encoding, old_text.as_ref());
        // The byte order mark belongs to the format, not to the content.
        let content = content.strip_prefix('\u{feff}').unwrap_or(content);
        let content = match &old_text {
            // Models write LF for every file. Content that contains CR LF is kept as is.
            Some(old)
                if text::line_ending(&old.text) == "crlf" && text::line_ending(content) == "lf" =>
            {
                content.replace('\n', "\r\n")
            }
            None if old.is_none() && text::line_ending(content) == "lf" && wants_crlf(target) => {
                content.replace('\n', "\r\n")
            }
            _ => content.to_owned(),
        };
        let written = text::encode(
            &content,
            Format {
                mark: false,
                ..format
            },
        )?
        .len();
        let new_text = match (mode, &old_text) {
            (WriteMode::Append, Some(old)) => format!("{}{content}", old.text),
            _ => content,
        };
        let (bytes, line_ending) = (
            text::encode(&new_text, format)?,
            text::line_ending(&new_text),
        );
        // A binary file that becomes text has no old text to compare.
        let change = (old.is_some() == old_text.is_some())
            .then(|| TextChange::new(&target.shown, old_text.map(|old| old.text), new_text));
        Ok(Self {
            bytes,
            written,
            encoding: format.charset.as_str(),
            line_ending,
            change,
            warnings,
        })
    }

    /// Appends text to a file whose beginning determines the format.
    fn appended_to_large(
        cx: &Context,
        content: &str,
        old: &[u8],
        encoding: Encoding,
        target: &Target,
    ) -> Result<Self> {
        let Ok(text) = str::from_utf8(old) else {
            let (shown, has) = (&target.shown, text::size(old.len() as u64));
            let most = text::size(MOST_DECODED as u64);
            let message = format!(
                "{shown} has {has} and is not UTF-8; the limit of appending text to such a file is {most}"
            );
            return Err(Error::failed(message)
                .code("file_too_large")
                .recommend("append bytes with encoding \"base64\""));
        };
        let beginning = &old[..text.floor_char_boundary(BEGINNING)];
        let new = Self::text(
            cx,
            content,
            Some(beginning),
            WriteMode::Append,
            encoding,
            target,
        )?;
        Ok(Self {
            bytes: [old, &new.bytes[beginning.len()..]].concat(),
            change: None,
            ..new
        })
    }
}

/// Decodes the old file. `None` for a binary file or another encoding, which can be replaced but not appended to.
fn decode_old(
    old: &[u8],
    encoding: Encoding,
    mode: WriteMode,
    target: &Target,
) -> Result<Option<Decoded>> {
    let shown = &target.shown;
    if encoding == Encoding::Auto && media::is_binary(old) {
        return match mode {
            WriteMode::Append => Err(Error::invalid_input(format!(
                "{shown} is not text; append bytes with encoding \"base64\""
            ))
            .code("binary_file")),
            WriteMode::Overwrite | WriteMode::Create => Ok(None),
        };
    }
    match text::decode(old.to_vec(), encoding, shown) {
        Ok(text) if !text.guessed => Ok(Some(text)),
        // A guessed encoding suffices for reading, not for writing.
        Ok(_) if encoding == Encoding::Auto => {
            let message = match text::damaged_utf8(old) {
                Some(line) => text::damage(shown, line),
                None => {
                    format!("{shown} is not UTF-8; set `encoding`, for example to \"latin1\"")
                }
            };
            Err(Error::invalid_input(message)
                .code("encoding_unknown")
                .recommend("to convert it to UTF-8, set `encoding` to \"utf-8\""))
        }
        Err(error) if mode == WriteMode::Append => Err(error),
        Ok(_) | Err(_) => Ok(None),
    }
}

fn format_for(encoding: Encoding, old: Option<&Decoded>) -> Format {
    match (encoding.charset(), old) {
        (None, old) => old.map_or(Format::UTF8, |old| old.format),
        (Some(charset), Some(old)) if old.format.charset == charset => old.format,
        // UTF-16 without a byte order mark is generally taken for binary.
        (Some(charset), _) => Format {
            charset,
            mark: matches!(charset, Charset::Utf16le | Charset::Utf16be),
        },
    }
}
