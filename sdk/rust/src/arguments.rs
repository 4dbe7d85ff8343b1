//! Deserialization of a call's arguments from its JSON input.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{Error, Result};

/// The members of an input. The host has validated them against the schema; invalid input is still an error, never a
/// panic.
#[derive(Debug)]
pub struct Arguments(Map<String, Value>);

impl Arguments {
    pub fn new(input: Value) -> Result<Self> {
        match input {
            Value::Object(members) => Ok(Self(members)),
            _ => Err(Error::invalid_input("the input is not a JSON object").code("invalid_input")),
        }
    }

    /// Takes a required member.
    pub fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<T> {
        match self.0.remove(name) {
            Some(value) => read(name, value),
            None => {
                Err(Error::invalid_input(format!("missing field `{name}`")).code("invalid_input"))
            }
        }
    }

    /// Takes an optional member; `None` if it is missing or null.
    pub fn take_optional<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => read(name, value),
        }
    }

    /// Takes a member that has a default.
    pub fn take_or<T: DeserializeOwned>(
        &mut self,
        name: &str,
        default: impl FnOnce() -> Value,
    ) -> Result<T> {
        let value = self.0.remove(name).unwrap_or_else(default);
        read(name, value)
    }
}

fn read<T: DeserializeOwned>(name: &str, value: Value) -> Result<T> {
    serde_json::from_value(value)
        .map_err(|error| Error::invalid_input(format!("`{name}`: {error}")).code("invalid_input"))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "tests hand over temporaries")]
    fn check<T: DeserializeOwned + std::fmt::Debug>(
        input: Value,
        take: impl FnOnce(&mut Arguments) -> Result<T>,
        expected: Expect,
    ) {
        let text = match Arguments::new(input).and_then(|mut arguments| take(&mut arguments)) {
            Ok(value) => format!("{value:?}"),
            Err(error) => format!("{:?}: {error}", error.kind()),
        };
        expected.assert_eq(&text);
    }

    #[test]
    fn an_input_is_an_object() {
        check(
            json!([1]),
            |arguments| arguments.take::<u8>("n"),
            expect!["InvalidInput: the input is not a JSON object"],
        );
    }

    #[test]
    fn a_required_member() {
        check(
            json!({"n": 7}),
            |arguments| arguments.take::<u8>("n"),
            expect!["7"],
        );
        check(
            json!({}),
            |arguments| arguments.take::<u8>("n"),
            expect!["InvalidInput: missing field `n`"],
        );
    }

    #[test]
    fn type_errors_contain_the_message_of_serde() {
        check(
            json!({"n": 700}),
            |arguments| arguments.take::<u8>("n"),
            expect!["InvalidInput: `n`: invalid value: integer `700`, expected u8"],
        );
        check(
            json!({"n": "7"}),
            |arguments| arguments.take_or::<u8>("n", || json!(1)),
            expect![[r#"InvalidInput: `n`: invalid type: string "7", expected u8"#]],
        );
    }

    #[test]
    fn an_optional_member() {
        check(
            json!({"n": 7}),
            |arguments| arguments.take_optional::<u8>("n"),
            expect!["Some(7)"],
        );
        check(
            json!({"n": null}),
            |arguments| arguments.take_optional::<u8>("n"),
            expect!["None"],
        );
        check(
            json!({}),
            |arguments| arguments.take_optional::<u8>("n"),
            expect!["None"],
        );
    }

    #[test]
    fn a_member_with_a_default() {
        check(
            json!({}),
            |arguments| arguments.take_or::<u8>("n", || json!(9)),
            expect!["9"],
        );
    }
}
