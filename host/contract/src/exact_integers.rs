//! Detection of JSON integers that exceed 64 bits.
//!
//! The JSON library converts such an integer to the nearest floating-point number without an error, so a 30-digit
//! identifier would be changed before it reaches a tool. Text that becomes the input or the result of a call is
//! therefore checked before it is parsed.

use crate::text;

/// An integer in a JSON text that does not fit into 64 bits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the integer {shown} does not fit into 64 bits and would lose precision; send it as a string"
)]
pub struct InexactInteger {
    pub(crate) shown: String,
}

/// Returns an error for an integer below `-2^63` or above `2^64 - 1`. Numbers with a fraction or an exponent are
/// floating-point by intent and are skipped. Invalid JSON is left to the parser.
pub fn check_integers(json: &[u8]) -> Result<(), InexactInteger> {
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        match byte {
            b'"' => at = end_of_string(json, at + 1),
            b'-' | b'0'..=b'9' => {
                let end = end_of_number(json, at);
                check_number(&json[at..end])?;
                at = end;
            }
            _ => at += 1,
        }
    }
    Ok(())
}

/// Checks integers with [`check_integers`], then parses the text.
pub fn parse_exact<T: serde::de::DeserializeOwned>(json: &str) -> Result<T, String> {
    check_integers(json.as_bytes()).map_err(|error| error.to_string())?;
    serde_json::from_str(json).map_err(|error| error.to_string())
}

pub(crate) fn end_of_string(json: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = json.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    at
}

pub(crate) fn end_of_number(json: &[u8], start: usize) -> usize {
    let part = |byte: &u8| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
    let length = json[start..].iter().take_while(|byte| part(byte)).count();
    start + length
}

pub(crate) fn check_number(number: &[u8]) -> Result<(), InexactInteger> {
    // Non-ASCII bytes cannot occur in a number.
    let Ok(number) = str::from_utf8(number) else {
        return Ok(());
    };
    let is_integer = number
        .trim_start_matches('-')
        .bytes()
        .all(|byte| byte.is_ascii_digit());
    if !is_integer || number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok() {
        return Ok(());
    }
    // A sign without digits is not JSON.
    if number.trim_start_matches('-').is_empty() {
        return Ok(());
    }
    Err(InexactInteger {
        shown: text::escape_line(number, 40),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_19_integers_beyond_64_bits_are_rejected() {
        for (json, exact) in [
            ("18446744073709551615", true),
            ("18446744073709551616", false),
            ("-9223372036854775808", true),
            ("-9223372036854775809", false),
            ("123456789012345678901234567890", false),
            ("[1, {\"a\": 123456789012345678901234567890}]", false),
            ("{\"a\":-123456789012345678901234567890}", false),
            ("1e30", true),
            ("123456789012345678901234567890.0", true),
            ("\"123456789012345678901234567890\"", true),
            ("{\"123456789012345678901234567890\": 1}", true),
            (r#""\" 123456789012345678901234567890""#, true),
            (r#"["\\", 123456789012345678901234567890]"#, false),
            ("00000000000000000000000000000001", true),
            ("-", true),
            ("", true),
            ("\"", true),
            ("\"\\", true),
        ] {
            assert_eq!(check_integers(json.as_bytes()).is_ok(), exact, "{json}");
            // Accepted integers keep their digits.
            if let (true, Ok(Value::Number(number))) = (exact, serde_json::from_str(json))
                && !json.contains(['.', 'e'])
            {
                assert_eq!(number.to_string(), json);
            }
        }
        let error = check_integers(b"[123456789012345678901234567890]").unwrap_err();
        assert!(error.to_string().contains("123456789012345678901234567890"));
    }
}
