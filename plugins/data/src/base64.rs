//! `base64_encode` and `base64_decode`: base64 encoding and decoding.

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use toolhost_sdk::prelude::*;

/// Base64 text.
#[data]
pub struct Encoded {
    /// Base64 text.
    encoded: String,
}

/// Decoded base64.
#[data]
pub struct Decoded {
    /// Decoded text; absent for binary data.
    #[arg(rename = "decoded")]
    text: Option<String>,
    /// Binary data in standard base64.
    bytes_base64: Option<String>,
    /// The data is not UTF-8 text.
    binary: bool,
    /// Number of bytes.
    size: usize,
}

/// Encode text or bytes as base64, at most 1 MiB of input.
#[tool(
    pure,
    plain_text,
    category = "data",
    kind = "other",
    icon = "binary",
    tags = ["base64", "encode"],
    output = Encoded,
    example(description = "A text", input = r#"{"text": "hello"}"#),
    example(description = "Bytes for a URL", input = r#"{"bytes": [251, 255], "url_safe": true}"#),
)]
pub fn base64_encode(
    /// Encoded as UTF-8.
    text: Option<String>,
    /// Instead of `text`.
    bytes: Option<Vec<u8>>,
    /// Use `-` and `_` instead of `+` and `/`.
    #[arg(default = false)]
    url_safe: bool,
    /// Pad with `=`.
    #[arg(default = true)]
    padding: bool,
) -> Result<Outcome> {
    let bytes = match (text, bytes) {
        (Some(text), None) => text.into_bytes(),
        (None, Some(bytes)) => bytes,
        (Some(_), Some(_)) => {
            return Err(one_of_both(
                "`text` and `bytes` are mutually exclusive; omit one",
            ));
        }
        (None, None) => return Err(one_of_both("nothing to encode; pass `text` or `bytes`")),
    };
    let encoded = engine(url_safe, padding).encode(bytes);
    Ok(Outcome::text(&*encoded).structured(&Encoded { encoded }))
}

/// Decode base64, standard or URL-safe, with or without padding and line breaks, at most 1 MiB of input.
#[tool(
    pure,
    plain_text,
    category = "data",
    kind = "other",
    icon = "binary",
    tags = ["base64", "decode"],
    output = Decoded,
    example(description = "A text", input = r#"{"encoded": "aGVsbG8="}"#),
)]
pub fn base64_decode(
    /// Base64 text or a `data:` URL.
    encoded: String,
) -> Result<Outcome> {
    let compact: String = payload(&encoded)
        .chars()
        .filter(|c| !c.is_whitespace())
        .collect();
    let url_safe = compact.contains(['-', '_']);
    let bytes = engine(url_safe, true).decode(&compact).map_err(|error| {
        let error = error.to_string();
        let message = format!(
            "`encoded` is not base64: {}",
            error.trim_end_matches('.').to_lowercase()
        );
        Error::invalid_input(message).code("invalid_base64")
    })?;
    let size = bytes.len();
    Ok(match String::from_utf8(bytes) {
        Ok(text) => {
            let outcome = Outcome::text(&*text);
            outcome.structured(&Decoded {
                text: Some(text),
                bytes_base64: None,
                binary: false,
                size,
            })
        }
        Err(error) => {
            let plain = engine(false, true).encode(error.as_bytes());
            let message = format!("not text ({size} B); in standard base64: {plain}");
            Outcome::text(message).structured(&Decoded {
                text: None,
                bytes_base64: Some(plain),
                binary: true,
                size,
            })
        }
    })
}

fn engine(url_safe: bool, padding: bool) -> GeneralPurpose {
    // Models often omit padding, which loses no information.
    let config = GeneralPurposeConfig::new()
        .with_encode_padding(padding)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent);
    GeneralPurpose::new(if url_safe { &URL_SAFE } else { &STANDARD }, config)
}

/// The part after `data:…;base64,`.
fn payload(encoded: &str) -> &str {
    let encoded = encoded.trim();
    encoded
        .strip_prefix("data:")
        .and_then(|url| url.split_once(";base64,"))
        .map_or(encoded, |(_, payload)| payload)
}

fn one_of_both(message: &str) -> Error {
    Error::invalid_input(message).code("invalid_input")
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use toolhost_sdk::testing;

    use super::*;

    fn check<T: Tool>(input: Value, expected: Expect) {
        expected.assert_eq(&testing::data::<T>(&Context::test(), input));
    }

    // R-376, C-29
    #[test]
    fn encoding() {
        check::<base64_encode>(json!({"text": "hé"}), expect![[r#"{"encoded":"aMOp"}"#]]);
        check::<base64_encode>(json!({"text": ""}), expect![[r#"{"encoded":""}"#]]);
        check::<base64_encode>(
            json!({"bytes": [251, 255]}),
            expect![[r#"{"encoded":"+/8="}"#]],
        );
        check::<base64_encode>(
            json!({"bytes": [251, 255], "url_safe": true, "padding": false}),
            expect![[r#"{"encoded":"-_8"}"#]],
        );
    }

    #[test]
    fn encoding_takes_one_thing() {
        check::<base64_encode>(
            json!({}),
            expect!["InvalidInput invalid_input: nothing to encode; pass `text` or `bytes`"],
        );
        check::<base64_encode>(
            json!({"text": "a", "bytes": [1]}),
            expect![
                "InvalidInput invalid_input: `text` and `bytes` are mutually exclusive; omit one"
            ],
        );
    }

    // R-377, C-29
    #[test]
    fn decoding() {
        check::<base64_decode>(
            json!({"encoded": "aMOp"}),
            expect![[r#"{"decoded":"hé","binary":false,"size":3}"#]],
        );
        check::<base64_decode>(
            json!({"encoded": "-_8"}),
            expect![[r#"{"bytes_base64":"+/8=","binary":true,"size":2}"#]],
        );
        check::<base64_decode>(
            json!({"encoded": " aGVs\nbG8 "}),
            expect![[r#"{"decoded":"hello","binary":false,"size":5}"#]],
        );
        check::<base64_decode>(
            json!({"encoded": "data:text/plain;base64,aGk="}),
            expect![[r#"{"decoded":"hi","binary":false,"size":2}"#]],
        );
        check::<base64_decode>(
            json!({"encoded": ""}),
            expect![[r#"{"decoded":"","binary":false,"size":0}"#]],
        );
    }

    #[test]
    fn invalid_base64() {
        check::<base64_decode>(
            json!({"encoded": "a*b"}),
            expect![
                "InvalidInput invalid_base64: `encoded` is not base64: invalid symbol 42, offset 1"
            ],
        );
        check::<base64_decode>(
            json!({"encoded": "aGVsb"}),
            expect![
                "InvalidInput invalid_base64: `encoded` is not base64: invalid input length: 5"
            ],
        );
    }

    #[test]
    fn examples_are_inputs() {
        testing::check_examples::<base64_encode>().unwrap();
        testing::check_examples::<base64_decode>().unwrap();
    }
}
