//! Fuzz target for model turns. `cargo test` replays its corpus, `cargo xtask fuzz` searches for new inputs.

use serde_json::Value;
use toolhost_fuzz_input::{assembled, check_message};

use crate::model::Format;

const TURN: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "null",
    "true",
    "1",
    "\"role\":",
    "\"assistant\"",
    "\"model\"",
    "\"content\":",
    "\"type\":",
    "\"tool_use\"",
    "\"tool_calls\":",
    "\"id\":",
    "\"name\":",
    "\"input\":",
    "\"function\":",
    "\"arguments\":",
    "\"{}\"",
    "\"parts\":",
    "\"functionCall\":",
    "\"args\":",
    "\"candidates\":",
    "\"choices\":",
    "\"message\":",
    "\"output\":",
    "\"function_call\"",
    "\"call_id\":",
    "\"error\":",
    "\"a\"",
    "\"\\u202e\"",
];

#[test]
fn fuzz_model_turn() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let Ok(turn) = serde_json::from_str::<Value>(&assembled(bytes, TURN)) else {
            return;
        };
        Format::detect(&turn);
        for format in Format::ALL {
            format.abnormal_stop_reason(&turn);
            if let Err(error) = format.read_turn(&turn) {
                check_message(&error.to_string());
            }
        }
    });
}
