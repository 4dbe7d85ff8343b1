//! Fragments of messages, for the fuzz targets of this crate.

const FRAGMENTS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "null",
    "true",
    "1",
    "-1",
    "1e9",
    " ",
    "\"jsonrpc\":\"2.0\"",
    "\"id\":",
    "\"method\":",
    "\"params\":",
    "\"result\":",
    "\"error\":",
    "\"initialize\"",
    "\"tools/call\"",
    "\"subscriptions/listen\"",
    "\"a\"",
    "\"\\u0069d\"",
    "\u{feff}",
];

/// Reads ASCII as it is and bytes from 0x80 on as fragments.
pub(crate) fn message(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(
            |&byte| match FRAGMENTS.get(usize::from(byte.wrapping_sub(0x80))) {
                Some(fragment) => (*fragment).to_owned(),
                None => char::from(byte).to_string(),
            },
        )
        .collect()
}
