//! A JSON parser that rejects duplicate members and integers that do not fit into 64 bits.
//!
//! serde_json keeps the last of two members with the same name. A script that builds its answer from text of the call,
//! `{"decision": "deny", "reason": "$path"}`, would let that text overwrite the decision.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use toolhost_contract::{exact_integers, text};

/// Parses one JSON value.
pub(super) fn parse(json: &[u8]) -> Result<Value, String> {
    exact_integers::check_integers(json).map_err(|error| error.to_string())?;
    serde_json::from_slice::<Strict>(json)
        .map(|strict| strict.0)
        .map_err(|error| error.to_string())
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Strict;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Strict, E> {
        Ok(Strict(Value::Null))
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Strict, E> {
        Ok(Strict(Value::Bool(flag)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Strict, E> {
        Ok(Strict(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Strict, E> {
        Ok(Strict(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Strict, E> {
        Ok(Strict(
            Number::from_f64(number).map_or(Value::Null, Value::Number),
        ))
    }

    fn visit_str<E>(self, text: &str) -> Result<Strict, E> {
        Ok(Strict(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Strict, A::Error> {
        let mut list = Vec::new();
        while let Some(Strict(element)) = elements.next_element()? {
            list.push(element);
        }
        Ok(Strict(Value::Array(list)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Strict, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let Strict(member) = members.next_value()?;
            if object.contains_key(&name) {
                let name = text::escape_line(&name, 80);
                return Err(A::Error::custom(format_args!("duplicate member `{name}`")));
            }
            object.insert(name, member);
        }
        Ok(Strict(Value::Object(object)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h_04_json_without_duplicates_parses_as_usual() {
        for json in [
            "null",
            "[true, -1, 18446744073709551615, 1.5, \"a\", {}]",
            r#"{"a": {"a": [1]}, "b": {"a": 1}}"#,
        ] {
            let usual: Value = serde_json::from_str(json).unwrap();
            assert_eq!(parse(json.as_bytes()), Ok(usual));
        }
        let deep = "[".repeat(200);
        assert!(parse(deep.as_bytes()).unwrap_err().contains("recursion"));
    }
}
