//! Test helpers that call tools like a host: from JSON, with validation of input and output.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use crate::{Context, Error, Outcome, Result, Tool};

/// Renames aliases, fills in defaults, validates the input against the tool's schema, runs the tool, then validates the
/// structured output against its schema.
///
/// Only the keywords that this SDK generates are checked, without `pattern`; a host checks all of them.
pub fn call<T: Tool>(cx: &Context, mut input: Value) -> Result<Outcome> {
    let descriptor = T::descriptor();
    validate(
        &descriptor.input_schema,
        &mut input,
        "",
        descriptor.strict != Some(false),
    )?;
    let outcome = T::call(cx, input)?;
    if let Some(schema) = &descriptor.output_schema {
        check_output(schema, &outcome)?;
    }
    Ok(outcome)
}

fn check_output(schema: &Value, outcome: &Outcome) -> Result<()> {
    if outcome.error.is_some() {
        return Ok(());
    }
    let invalid = |reason: &str| Error::failed(reason).code("invalid_output");
    let Some(mut value) = outcome.structured.clone() else {
        return Err(invalid(
            "the tool has an output schema and returned no structured output",
        ));
    };
    validate(schema, &mut value, "", true).map_err(|error| {
        let reason = error.message.replacen("the input", "the whole", 1);
        invalid(&format!(
            "the structured output does not match its schema: {reason}"
        ))
    })
}

/// Checks that each example matches the tool's input schema, like a host does when it loads the tool.
pub fn check_examples<T: Tool>() -> Result<()> {
    let descriptor = T::descriptor();
    for example in &descriptor.examples {
        let mut input = serde_json::from_str(&example.input)?;
        validate(&descriptor.input_schema, &mut input, "", true)?;
    }
    Ok(())
}

/// Like [`check_examples`], and calls the tool with each example in a separate context. Fails if there are no examples.
pub fn run_examples<T: Tool>(cx: impl Fn() -> Context) -> Result<()> {
    check_examples::<T>()?;
    let descriptor = T::descriptor();
    if descriptor.examples.is_empty() {
        return Err(Error::failed("the tool has no examples"));
    }
    for example in descriptor.examples {
        let input = serde_json::from_str(&example.input)?;
        let outcome = call::<T>(&cx(), input);
        if let Some(error) = outcome.map_or_else(Some, |outcome| outcome.error) {
            return Err(Error::failed(format!("{}: {error}", example.description)));
        }
    }
    Ok(())
}

/// Formats the result of a call for comparison: the text for the model, the summary, the structured output, and the
/// error with its kind, code and recommendations.
///
/// ```
/// use toolhost_sdk::prelude::*;
/// use toolhost_sdk::testing;
///
/// /// Halve a number.
/// #[tool(pure)]
/// fn halve(
///     /// An even number.
///     number: i64,
/// ) -> Result<i64> {
///     if number % 2 == 1 {
///         return Err(Error::failed("it is odd").code("odd").recommend("take the next one"));
///     }
///     Ok(number / 2)
/// }
///
/// let shown = |number: i64| testing::show::<halve>(&Context::test(), json!({"number": number}));
/// assert_eq!(shown(4), "2\n2");
/// assert_eq!(shown(3), "Failed odd: it is odd\n- take the next one");
/// ```
pub fn show<T: Tool>(cx: &Context, input: Value) -> String {
    let outcome = match call::<T>(cx, input) {
        Ok(outcome) => outcome,
        Err(error) => return failure(&error),
    };
    let mut lines: Vec<String> = outcome
        .llm
        .into_iter()
        .filter_map(|part| part.text)
        .collect();
    lines.extend(outcome.summary.map(|summary| format!("summary: {summary}")));
    lines.extend(outcome.structured.map(|data| data.to_string()));
    lines.extend(
        outcome
            .error
            .map(|error| format!("error: {}", failure(&error))),
    );
    lines.join("\n")
}

/// The text of a successful call, or the message of its error, for the setup steps of a test.
pub fn text<T: Tool>(cx: &Context, input: Value) -> String {
    match call::<T>(cx, input) {
        Ok(outcome) => {
            let parts = outcome.llm.into_iter();
            parts.filter_map(|part| part.text).collect()
        }
        Err(error) => error.to_string(),
    }
}

/// The structured output of a call as JSON, or its error as [`error_line`] formats it.
pub fn data<T: Tool>(cx: &Context, input: Value) -> String {
    match call::<T>(cx, input) {
        Ok(outcome) => outcome.structured.unwrap_or_default().to_string(),
        Err(error) => error_line(&error),
    }
}

/// Kind, code and message of an error.
///
/// ```
/// use toolhost_sdk::{Error, testing::error_line};
///
/// assert_eq!(error_line(&Error::failed("it is odd").code("odd")), "Failed odd: it is odd");
/// ```
pub fn error_line(error: &Error) -> String {
    let code = error.code.as_deref().unwrap_or("-");
    format!("{:?} {code}: {error}", error.kind)
}

/// Writes files below a directory and creates their parent directories.
///
/// # Panics
///
/// If a file cannot be written.
pub fn write_files(dir: &Path, files: &[(&str, &str)]) {
    for (path, content) in files {
        let path = dir.join(path);
        let parent = path
            .parent()
            .expect("a file below a directory has a parent");
        fs::create_dir_all(parent).expect("a directory of a test can be created");
        fs::write(path, content).expect("a file of a test can be written");
    }
}

fn failure(error: &Error) -> String {
    let mut text = error_line(error);
    for advice in &error.recommendations {
        text.push_str("\n- ");
        text.push_str(advice);
    }
    text
}

/// Validates the subset of JSON Schema that this SDK generates, except `pattern`, which is left to the host.
fn validate(schema: &Value, value: &mut Value, path: &str, strict: bool) -> Result<()> {
    let refuse = |reason: String| {
        let location = if path.is_empty() { "the input" } else { path };
        Err(Error::invalid_input(format!("{location}: {reason}")).code("invalid_input"))
    };
    if let Some([content, null]) = schema["anyOf"].as_array().map(Vec::as_slice)
        && null["type"] == "null"
    {
        return if value.is_null() {
            Ok(())
        } else {
            validate(content, value, path, strict)
        };
    }
    if let Some(kind) = schema["type"].as_str()
        && !is(value, kind)
    {
        return refuse(format!("{value} is not of type {kind}"));
    }
    if let Some(values) = schema["enum"].as_array()
        && !values.contains(value)
    {
        return refuse(format!("{value} is not one of {}", schema["enum"]));
    }
    if let Some(number) = value.as_f64() {
        if schema["minimum"]
            .as_f64()
            .is_some_and(|least| number < least)
        {
            return refuse(format!(
                "{value} is less than the minimum of {}",
                schema["minimum"]
            ));
        }
        if schema["maximum"].as_f64().is_some_and(|most| number > most) {
            return refuse(format!(
                "{value} is more than the maximum of {}",
                schema["maximum"]
            ));
        }
    }
    let length = match &*value {
        Value::String(text) => Some((text.chars().count(), "minLength", "maxLength")),
        Value::Array(items) => Some((items.len(), "minItems", "maxItems")),
        _ => None,
    };
    if let Some((length, least, most)) = length {
        let limit = |keyword: &str| {
            schema[keyword]
                .as_u64()
                .and_then(|limit| usize::try_from(limit).ok())
        };
        if let Some(least) = limit(least).filter(|least| length < *least) {
            return refuse(format!(
                "a length of {length} is less than the minimum of {least}"
            ));
        }
        if let Some(most) = limit(most).filter(|most| length > *most) {
            return refuse(format!(
                "a length of {length} is more than the maximum of {most}"
            ));
        }
    }
    match value {
        Value::Object(members) => validate_members(schema, members, path, strict),
        Value::Array(items) => items.iter_mut().enumerate().try_for_each(|(index, item)| {
            validate(&schema["items"], item, &format!("{path}[{index}]"), strict)
        }),
        _ => Ok(()),
    }
}

fn validate_members(
    schema: &Value,
    members: &mut Map<String, Value>,
    path: &str,
    strict: bool,
) -> Result<()> {
    let refuse = |reason: String| Err(Error::invalid_input(reason).code("invalid_input"));
    let inner = |name: &str| {
        if path.is_empty() {
            format!("`{name}`")
        } else {
            format!("{path}.`{name}`")
        }
    };
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    for (name, property) in properties {
        for alias in property["x-aliases"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            if !members.contains_key(name)
                && let Some(value) = members.remove(alias)
            {
                members.insert(name.clone(), value);
            }
        }
        if let Some(default) = property.get("default") {
            members.entry(name).or_insert_with(|| default.clone());
        }
    }
    for name in schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        if !members.contains_key(name) {
            return refuse(format!("{} is missing", inner(name)));
        }
    }
    if schema["additionalProperties"] == false {
        if !strict {
            members.retain(|name, _| properties.contains_key(name));
        } else if let Some(name) = members.keys().find(|name| !properties.contains_key(*name)) {
            return refuse(format!("{} is not known", inner(name)));
        }
    }
    for (name, value) in members {
        let schema = properties
            .get(name)
            .unwrap_or(&schema["additionalProperties"]);
        validate(schema, value, &inner(name), strict)?;
    }
    Ok(())
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => {
            value.is_i64()
                || value.is_u64()
                || value.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;
    use crate::tool;

    /// A place in a text.
    #[crate::data]
    struct Place {
        /// Line, from 1.
        #[arg(min = 1)]
        line: u32,
        /// Column.
        #[arg(default = 1)]
        column: u32,
    }

    /// Say what came in.
    #[tool(pure, example(description = "a short one", input = r#"{"text": "x"}"#))]
    fn echo(
        cx: &Context,
        /// Any text.
        #[arg(max_len = 5, aliases = ["message"])]
        text: String,
        /// How often.
        #[arg(default = 2, max = 3)]
        times: u8,
        /// Where.
        places: Option<Vec<Place>>,
    ) -> Result<String> {
        cx.check()?;
        let places = places.unwrap_or_default();
        let places: Vec<_> = places
            .iter()
            .map(|Place { line, column }| format!("{line}:{column}"))
            .collect();
        Ok(format!("{} {places:?}", text.repeat(times.into())))
    }

    /// Take what is there.
    #[tool(pure, lenient)]
    fn easy_going(
        /// A number.
        number: Option<i32>,
    ) -> i32 {
        number.unwrap_or_default()
    }

    #[expect(clippy::needless_pass_by_value, reason = "tests hand over temporaries")]
    fn check<T: Tool>(input: Value, expected: Expect) {
        let text = match call::<T>(&Context::test(), input) {
            Ok(outcome) => outcome.llm[0].text.clone().unwrap_or_default(),
            Err(error) => format!("{:?}: {error}", error.kind()),
        };
        expected.assert_eq(&text);
    }

    #[test]
    fn defaults_and_aliases() {
        check::<echo>(json!({"message": "ab"}), expect!["abab []"]);
    }

    #[test]
    fn nested_defaults() {
        check::<echo>(
            json!({"text": "ab", "places": [{"line": 7}]}),
            expect![[r#"abab ["7:1"]"#]],
        );
    }

    #[test]
    fn schema_violations() {
        check::<echo>(
            json!([]),
            expect!["InvalidInput: the input: [] is not of type object"],
        );
        check::<echo>(json!({}), expect!["InvalidInput: `text` is missing"]);
        check::<echo>(
            json!({"text": 1}),
            expect!["InvalidInput: `text`: 1 is not of type string"],
        );
        check::<echo>(
            json!({"text": "abcdef"}),
            expect!["InvalidInput: `text`: a length of 6 is more than the maximum of 5"],
        );
        check::<echo>(
            json!({"text": "a", "times": 4}),
            expect!["InvalidInput: `times`: 4 is more than the maximum of 3"],
        );
        check::<echo>(
            json!({"text": "a", "tmies": 4}),
            expect!["InvalidInput: `tmies` is not known"],
        );
        check::<echo>(
            json!({"text": "a", "places": [{"line": 0}]}),
            expect!["InvalidInput: `places`[0].`line`: 0 is less than the minimum of 1"],
        );
        check::<echo>(
            json!({"text": "a", "places": [{"line": 1, "row": 2}]}),
            expect!["InvalidInput: `places`[0].`row` is not known"],
        );
    }

    #[test]
    fn a_lenient_tool_ignores_unknown_members() {
        check::<easy_going>(json!({"number": 3, "colour": "red"}), expect!["3"]);
    }

    #[test]
    fn values_that_the_schema_accepts_and_the_type_rejects() {
        check::<easy_going>(
            json!({"number": 3_000_000_000_u32}),
            expect!["InvalidInput: `number`: invalid value: integer `3000000000`, expected i32"],
        );
    }

    #[test]
    fn a_context_reaches_the_tool() {
        let error =
            call::<echo>(&Context::test().cancelled_after(0), json!({"text": "a"})).unwrap_err();
        assert_eq!(error.code.as_deref(), Some("cancelled"));
    }

    /// Measure it.
    #[tool(pure, output = BTreeMap<String, Vec<Option<u8>>>)]
    fn measure(
        /// What to return.
        result: Value,
    ) -> Value {
        result
    }

    /// Say a word, or nothing.
    #[tool(pure, output = Option<String>)]
    fn say(
        /// The word.
        #[arg(default = [])]
        words: Vec<String>,
    ) -> Result<String> {
        Ok(words.concat())
    }

    /// Say nothing.
    #[tool(pure, output = Option<String>)]
    fn say_nothing() {}

    #[test]
    fn results_match_the_output_schema() {
        let measured = |result: Value| data::<measure>(&Context::test(), json!({"result": result}));
        assert_eq!(measured(json!({"a": [1, null]})), r#"{"a":[1,null]}"#);
        expect![[r#"Failed invalid_output: the structured output does not match its schema: the whole: [1] is not of type object"#]]
            .assert_eq(&measured(json!([1])));
        expect![[r#"Failed invalid_output: the structured output does not match its schema: `a`[1]: 256 is more than the maximum of 255"#]]
            .assert_eq(&measured(json!({"a": [null, 256]})));
    }

    #[test]
    fn with_an_output_type_texts_and_nothing_are_structured() {
        let cx = Context::test();
        assert_eq!(show::<say>(&cx, json!({"words": ["a", "b"]})), "ab\n\"ab\"");
        assert_eq!(show::<say>(&cx, json!({})), "\n\"\"");
        assert_eq!(show::<say_nothing>(&cx, json!({})), "null");
    }

    #[test]
    fn examples_are_inputs() {
        assert_eq!(check_examples::<echo>(), Ok(()));
    }
}
