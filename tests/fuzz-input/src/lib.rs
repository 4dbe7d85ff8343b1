//! What the fuzz targets of all crates share: inputs made of fragments, and the check of the messages that they cause.

/// Reads ASCII as it is and bytes from 0x80 on as fragments of a format, so that most inputs get past its tokenizer.
pub fn assembled(bytes: &[u8], fragments: &[&str]) -> String {
    bytes
        .iter()
        .map(
            |&byte| match fragments.get(usize::from(byte.wrapping_sub(0x80))) {
                Some(fragment) => (*fragment).to_owned(),
                None => char::from(byte).to_string(),
            },
        )
        .collect()
}

/// Panics when a message for users is longer than any screen, or holds characters that move a cursor, reorder text or
/// are invisible. Line breaks and tabs are allowed.
///
/// # Panics
///
/// That is its purpose.
#[track_caller]
pub fn check_message(message: &str) {
    assert!(message.len() < 64 << 10, "{} bytes", message.len());
    let unescaped = message
        .chars()
        .find(|&c| c != '\n' && c != '\t' && is_hostile(c));
    assert_eq!(unescaped, None, "not escaped in {message:?}");
}

fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{e0000}'..='\u{e0fff}')
}
