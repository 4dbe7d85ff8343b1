//! Return types of tool functions.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use serde_json::Value;

use crate::{Error, Outcome, Result};

/// A value that a tool can return.
///
/// Texts become content for the model, numbers and `bool` content and data, everything else data, which the host
/// shows as JSON. [`data`](crate::data) writes this for an author's own types.
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    label = "neither text, number, list, JSON value, `Outcome` nor a `#[data]` type",
    note = "put `#[data]` on the type, or build an `Outcome` of it"
)]
pub trait IntoOutcome: Sized {
    fn into_outcome(self) -> Result<Outcome>;

    /// The outcome of a tool with `output = Type`, in which texts and `()` are data too, because the host checks the data
    /// against the schema of that type.
    fn into_structured_outcome(self) -> Result<Outcome> {
        self.into_outcome()
    }

    /// The schema of the structured output, if known.
    fn output_schema() -> Option<Value> {
        None
    }
}

impl<T: IntoOutcome, E: Into<Error>> IntoOutcome for Result<T, E> {
    fn into_outcome(self) -> Result<Outcome> {
        self.map_err(Into::into)?.into_outcome()
    }

    fn into_structured_outcome(self) -> Result<Outcome> {
        self.map_err(Into::into)?.into_structured_outcome()
    }

    fn output_schema() -> Option<Value> {
        T::output_schema()
    }
}

impl IntoOutcome for Outcome {
    fn into_outcome(self) -> Result<Outcome> {
        Ok(self)
    }
}

impl IntoOutcome for () {
    fn into_outcome(self) -> Result<Outcome> {
        Ok(Outcome::new())
    }

    fn into_structured_outcome(self) -> Result<Outcome> {
        Outcome::of_data(&self)
    }
}

impl IntoOutcome for String {
    fn into_outcome(self) -> Result<Outcome> {
        Ok(Outcome::text(self))
    }

    fn into_structured_outcome(self) -> Result<Outcome> {
        self.as_str().into_structured_outcome()
    }
}

impl IntoOutcome for &str {
    fn into_outcome(self) -> Result<Outcome> {
        Ok(Outcome::text(self))
    }

    fn into_structured_outcome(self) -> Result<Outcome> {
        Ok(Outcome::text(self).structured(&self))
    }
}

impl IntoOutcome for Value {
    fn into_outcome(self) -> Result<Outcome> {
        Ok(Outcome {
            structured: Some(self),
            ..Outcome::new()
        })
    }
}

impl<T: Serialize> IntoOutcome for Vec<T> {
    fn into_outcome(self) -> Result<Outcome> {
        Outcome::of_data(&self)
    }
}

impl<T: Serialize> IntoOutcome for BTreeMap<String, T> {
    fn into_outcome(self) -> Result<Outcome> {
        Outcome::of_data(&self)
    }
}

impl<T: Serialize, S> IntoOutcome for HashMap<String, T, S> {
    fn into_outcome(self) -> Result<Outcome> {
        // Sorted, so that the text is deterministic.
        Outcome::of_data(&self.iter().collect::<BTreeMap<_, _>>())
    }
}

macro_rules! scalars {
    ($($scalar:ty)*) => {$(
        impl IntoOutcome for $scalar {
            fn into_outcome(self) -> Result<Outcome> {
                Ok(Outcome::text(self.to_string()).structured(&self))
            }
        }
    )*};
}

scalars!(bool u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64);

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;
    use crate::data;

    #[expect(clippy::needless_pass_by_value, reason = "tests hand over temporaries")]
    fn check(value: impl IntoOutcome, expected: Expect) {
        let text = match value.into_outcome() {
            Ok(Outcome {
                llm, structured, ..
            }) => {
                let texts: Vec<_> = llm.into_iter().filter_map(|part| part.text).collect();
                format!("{texts:?} {}", structured.unwrap_or_default())
            }
            Err(error) => format!("{:?}: {error}", error.kind()),
        };
        expected.assert_eq(&text);
    }

    #[data]
    struct Point {
        /// To the right.
        x: i32,
        /// A word about it.
        label: Option<String>,
    }

    #[test]
    fn nothing() {
        check((), expect!["[] null"]);
    }

    #[test]
    fn text() {
        check("hello", expect![[r#"["hello"] null"#]]);
        check("hello".to_owned(), expect![[r#"["hello"] null"#]]);
    }

    #[test]
    fn numbers() {
        check(3_u8, expect![[r#"["3"] 3"#]]);
        check(-2.5, expect![[r#"["-2.5"] -2.5"#]]);
        check(true, expect![[r#"["true"] true"#]]);
    }

    #[test]
    fn data_is_structured_and_leaves_the_text_to_the_host() {
        check(Point { x: 1, label: None }, expect![[r#"[] {"x":1}"#]]);
        check(vec![1, 2], expect!["[] [1,2]"]);
        check(json!({"any": null}), expect![[r#"[] {"any":null}"#]]);
        check(
            HashMap::from([("b".to_owned(), 1), ("a".to_owned(), 2)]),
            expect![[r#"[] {"a":2,"b":1}"#]],
        );
    }

    #[test]
    fn results() {
        check(Ok::<_, Error>(1), expect![[r#"["1"] 1"#]]);
        check(
            Err::<(), _>(Error::denied("not here")),
            expect!["Denied: not here"],
        );
        check(
            Err::<(), _>(std::io::Error::from(std::io::ErrorKind::NotFound)),
            expect!["NotFound: no such file or directory"],
        );
    }

    #[data]
    struct Shares {
        /// Of one.
        one: Option<f64>,
        /// Of several.
        several: BTreeMap<String, Vec<f32>>,
    }

    #[test]
    fn numbers_that_json_does_not_have_are_errors() {
        let shares = |one, other| Shares {
            one,
            several: BTreeMap::from([("others".to_owned(), vec![0.5, other])]),
        };
        check(
            shares(None, 1.0),
            expect![[r#"[] {"several":{"others":[0.5,1.0]}}"#]],
        );
        check(
            shares(Some(f64::NAN), 1.0),
            expect!["Failed: the tool's data cannot be written as JSON: `one` is NaN or infinite"],
        );
        check(
            shares(Some(1.0), f32::INFINITY),
            expect![
                "Failed: the tool's data cannot be written as JSON: `several.others[1]` is NaN or infinite"
            ],
        );
    }

    #[test]
    fn only_data_knows_its_schema() {
        assert!(<Result<Point>>::output_schema().is_some());
        assert!(<Result<Vec<Point>>>::output_schema().is_none());
    }

    #[test]
    fn data_that_cannot_be_json_is_an_error_of_the_outcome() {
        let outcome = Outcome::text("x").structured(&BTreeMap::from([((1, 2), 3)]));
        assert_eq!(
            outcome.error.and_then(|error| error.code).as_deref(),
            Some("bad_output")
        );
    }
}
