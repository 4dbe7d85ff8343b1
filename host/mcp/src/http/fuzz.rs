//! The fuzz target for bodies of requests.

use serde_json::Value;

use super::message::look;
use crate::fuzz::message;
use crate::shape::values;

#[test]
fn fuzz_body() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let body = message(bytes);
        let looked = look(body.as_bytes());
        let Ok(value) = serde_json::from_str::<Value>(&body) else {
            return;
        };
        assert!(count(&value) <= values(body.as_bytes()), "{body}");
        if !value.is_object() {
            assert!(looked.is_err(), "{body}");
        }
    });
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(elements) => elements.iter().map(count).sum::<usize>(),
        Value::Object(members) => members.values().map(|value| 1 + count(value)).sum(),
        _ => 0,
    }
}
