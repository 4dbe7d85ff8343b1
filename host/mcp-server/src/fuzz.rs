//! Message fragments for the fuzz targets of this crate.

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

pub(crate) fn message(bytes: &[u8]) -> String {
    toolhost_fuzz_input::assembled(bytes, FRAGMENTS)
}
