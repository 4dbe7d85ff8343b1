//! Fuzz target for lines that cannot be parsed.

use serde_json::Value;

use super::id_scanner::scan;
use crate::fuzz::message;

#[test]
fn fuzz_line() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let line = message(bytes);
        let scanned = scan(line.as_bytes());
        if let Ok(Value::Object(_)) = serde_json::from_str(&line) {
            assert_eq!(scanned.messages.len(), 1, "{line}");
            assert!(scanned.messages[0].is_complete, "{line}");
        }
    });
}
