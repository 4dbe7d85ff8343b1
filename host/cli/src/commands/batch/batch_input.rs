//! Input parsing for `host batch`: a list of calls, or a turn in the format of a model API. Errors state the position.

use std::collections::HashSet;
use std::fmt;
use std::io::{IsTerminal, Read};
use std::path::Path;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::{Map, Value};
use toolhost_contract::usable_json::{replace_unusable, unusable_problem};
use toolhost_contract::{exact_integers, text};
use toolhost_formats::model::{Format, ModelCall};

use super::BatchEntry;
use crate::exit::{CliError, Exit};

/// Limits of one batch: calls, input bytes and bytes of an id.
const MAX_CALLS: usize = 10_000;
const MAX_INPUT: u64 = 64 << 20;
const MAX_ID: usize = 256;
/// JSON values of one batch. Each takes some hundred bytes of memory, however short its text is.
pub const MAX_VALUES: usize = 1_000_000;

/// Reads calls from a file.
pub(super) fn read_entries(file: &Path) -> Result<Vec<BatchEntry>, CliError> {
    let text = read_input(file)?;
    parse(&text).map_err(|message| input_error(file, &message))
}

/// A turn in the format of a model API.
pub struct ModelTurn {
    pub calls: Vec<ModelCall>,
    /// The API's stop reason, if it is not a regular one.
    pub stop_reason: Option<String>,
}

impl ModelTurn {
    /// The message for a turn without calls.
    pub fn note(&self) -> String {
        match &self.stop_reason {
            Some(reason) => {
                format!("note: the turn contains no tool calls; it ended with `{reason}`")
            }
            None => "note: the turn contains no tool calls".to_owned(),
        }
    }
}

pub(super) fn read_turn(file: &Path, format: Format) -> Result<ModelTurn, CliError> {
    let text = read_input(file)?;
    parse_turn(&text, format).map_err(|message| input_error(file, &message))
}

fn parse_turn(text: &[u8], format: Format) -> Result<ModelTurn, String> {
    let text = json_text(text, &format!("a turn in the format `{format}`"))?;
    let turn = serde_json::from_slice(&replace_unusable(text).text);
    let turn: Value = turn.map_err(|error| text::escape_line(&error.to_string(), 300))?;
    turn_from_value(&turn, format)
}

/// Calls whose input has a value that [`replace_unusable`] replaced are not run.
pub fn turn_from_value(turn: &Value, format: Format) -> Result<ModelTurn, String> {
    let mut calls = format.read_turn(turn).map_err(|error| error.to_string())?;
    if calls.len() > MAX_CALLS {
        return Err(too_many_calls());
    }
    for call in &mut calls {
        // The id has to be returned as it is.
        if let Some(problem) = call.id.as_ref().and_then(unusable_problem) {
            return Err(problem);
        }
        if let Some(problem) = unusable_problem(&call.input) {
            call.input = Value::Object(Map::new());
            call.error.get_or_insert(problem);
        }
    }
    let ended = format.abnormal_stop_reason(turn);
    Ok(ModelTurn {
        calls,
        stop_reason: ended,
    })
}

/// The text without a byte order mark, or an error if it cannot be JSON.
pub fn json_text<'a>(text: &'a [u8], wanted: &str) -> Result<&'a [u8], String> {
    if text.starts_with(b"\xff\xfe") || text.starts_with(b"\xfe\xff") {
        return Err("encoded as UTF-16; use UTF-8".to_owned());
    }
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let body = text.trim_ascii_start();
    if body.is_empty() {
        return Err(format!("empty input; expected {wanted}"));
    }
    if [&b"event:"[..], b"data:", b"id:", b"retry:", b":"]
        .iter()
        .any(|field| body.starts_with(field))
    {
        let message =
            "an event stream; request a complete response without `stream`, or assemble the events";
        return Err(message.to_owned());
    }
    if count_values(text) > MAX_VALUES {
        return Err(format!(
            "more than {MAX_VALUES} JSON values, including those in strings; split the input into several batches"
        ));
    }
    Ok(text)
}

/// An upper bound of the number of JSON values. The content of strings counts too, escapes included, because arguments
/// of calls can be JSON in a string.
pub fn count_values(text: &[u8]) -> usize {
    text.iter().filter(|byte| b",:[{\\".contains(byte)).count()
}

fn input_error(file: &Path, message: &str) -> CliError {
    let shown = if file.as_os_str() == "-" {
        "standard input".to_owned()
    } else {
        text::escape_line(&file.to_string_lossy(), 400)
    };
    CliError::new(Exit::Usage, format!("{shown}: {message}"))
}

fn read_input(file: &Path) -> Result<Vec<u8>, CliError> {
    let stdin = file.as_os_str() == "-";
    if stdin && std::io::stdin().is_terminal() {
        return Err(CliError::new(
            Exit::Usage,
            "no calls given; name a file or pass them on standard input",
        ));
    }
    let mut text = Vec::new();
    let read = if stdin {
        let stdin = std::io::stdin().lock();
        stdin.take(MAX_INPUT + 1).read_to_end(&mut text)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(MAX_INPUT + 1).read_to_end(&mut text))
    };
    read.map_err(|error| input_error(file, &format!("cannot be read: {error}")))?;
    if text.len() as u64 > MAX_INPUT {
        let message = format!(
            "larger than {} MiB; split the input into several batches",
            MAX_INPUT >> 20
        );
        return Err(input_error(file, &message));
    }
    Ok(text)
}

/// Parses an array or a sequence of objects. JSON errors state the line and column.
fn parse(text: &[u8]) -> Result<Vec<BatchEntry>, String> {
    let text = json_text(text, "a list of calls")?;
    exact_integers::check_integers(text).map_err(|error| error.to_string())?;
    let is_list = text
        .iter()
        .find(|byte| !byte.is_ascii_whitespace())
        .is_none_or(|byte| *byte == b'[');
    let entries = if is_list {
        serde_json::from_slice::<BatchEntries>(text).map(|entries| entries.0)
    } else {
        let stream = serde_json::Deserializer::from_slice(text).into_iter::<BatchEntry>();
        // One more than allowed, to detect an excess without storing it.
        stream.take(MAX_CALLS + 1).collect()
    };
    let entries = entries.map_err(|error| {
        let message = error.to_string();
        let guessed = error.is_data().then(|| guess_format(text)).flatten();
        let hint = match guessed {
            Some(format) => format!("; this looks like a model turn, add `--format {format}`"),
            None if message.starts_with("unknown field") => {
                "; a model turn requires `--format`".to_owned()
            }
            None => String::new(),
        };
        text::escape_line(&message, 300) + &hint
    })?;
    check(&entries)?;
    Ok(entries)
}

/// Guesses the format of a turn from its first value.
fn guess_format(text: &[u8]) -> Option<Format> {
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<Value>();
    Format::detect(&values.next()?.ok()?)
}

pub(in crate::commands) fn check(entries: &[BatchEntry]) -> Result<(), String> {
    if entries.len() > MAX_CALLS {
        return Err(too_many_calls());
    }
    let mut ids = HashSet::new();
    for (index, entry) in entries.iter().enumerate() {
        let wrong = |problem: &str| Err(format!("call {}: {problem}", index + 1));
        if entry.id.is_empty() {
            return wrong("the id is empty; give each call a unique id");
        }
        if entry.id.len() > MAX_ID {
            return wrong(&format!(
                "the id has {} bytes; the maximum is {MAX_ID}",
                entry.id.len()
            ));
        }
        if !ids.insert(&entry.id) {
            let id = text::escape_line(&entry.id, 80);
            return wrong(&format!("duplicate id `{id}`; ids must be unique"));
        }
    }
    Ok(())
}

fn too_many_calls() -> String {
    format!("more than {MAX_CALLS} calls; split them into several batches")
}

/// A list of calls. Reading stops when it is too long.
struct BatchEntries(Vec<BatchEntry>);

impl<'de> Deserialize<'de> for BatchEntries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = BatchEntries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of calls")
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<BatchEntries, S::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = seq.next_element()? {
                    if entries.len() == MAX_CALLS {
                        return Err(S::Error::custom(too_many_calls()));
                    }
                    entries.push(entry);
                }
                Ok(BatchEntries(entries))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(text: &str, expected: Result<&[&str], &str>) {
        let parsed = parse(text.as_bytes());
        let shown = parsed.as_ref().map_err(String::as_str).map(|entries| {
            entries
                .iter()
                .map(|entry| entry.id.as_str())
                .collect::<Vec<_>>()
        });
        assert_eq!(shown, expected.map(<[&str]>::to_vec), "{text}");
    }

    #[test]
    fn a_batch_is_an_array_or_a_sequence_of_objects() {
        check(r#"[{"id": "1", "name": "a", "input": {}}]"#, Ok(&["1"]));
        check(" \n[]", Ok(&[]));
        check(
            "{\"id\": \"x\", \"name\": \"a\"}\n{\"id\": \"y\",\n \"name\": \"b\"}\n",
            Ok(&["x", "y"]),
        );
        assert_eq!(
            parse(br#"[{"id": "1", "name": "a"}]"#).unwrap()[0].input,
            json!({})
        );
    }

    #[test]
    fn errors_state_their_position() {
        check("", Err("empty input; expected a list of calls"));
        check(" \n", Err("empty input; expected a list of calls"));
        check(
            "[\n  {\"id\": \"1\",, \"name\": \"a\"}\n]",
            Err("key must be a string at line 2 column 14"),
        );
        check(
            "{\"id\": \"x\", \"name\": \"a\"}\n{\"id\": 5, \"name\": \"b\"}",
            Err("invalid type: integer `5`, expected a string at line 2 column 8"),
        );
        check(
            r#"[{"id": "1", "tool": "a"}]"#,
            Err(
                "unknown field `tool`, expected one of `id`, `name`, `input`, `only_paths` at line 1 column 19; a model turn requires `--format`",
            ),
        );
        check(
            r#"[{"id": "1", "name": "a"}, {"id": "1", "name": "b"}]"#,
            Err("call 2: duplicate id `1`; ids must be unique"),
        );
        check(
            r#"[{"id": "", "name": "a"}]"#,
            Err("call 1: the id is empty; give each call a unique id"),
        );
        let long = format!("[{{\"id\": \"{}\", \"name\": \"a\"}}]", "x".repeat(257));
        check(
            &long,
            Err("call 1: the id has 257 bytes; the maximum is 256"),
        );
    }

    #[test]
    fn a_model_turn_is_distinguished_from_calls() {
        for (text, format) in [
            (
                r#"{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "a", "input": {}}]}"#,
                "anthropic",
            ),
            (
                r#"[{"id": "1", "type": "function", "function": {"name": "a", "arguments": "{}"}}]"#,
                "openai",
            ),
            (
                r#"[{"type": "function_call", "name": "a"}]"#,
                "openai-responses",
            ),
            (r#"{"candidates": []}"#, "gemini"),
            ("{\"jsonrpc\": \"2.0\"}\n{\"jsonrpc\": \"2.0\"}", "mcp"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            let hint = format!("; this looks like a model turn, add `--format {format}`");
            assert!(error.ends_with(&hint), "{error}");
        }
    }

    #[test]
    fn text_before_the_json_is_skipped_or_reported() {
        let call = r#"[{"id": "1", "name": "a"}]"#;
        check(&format!("\u{feff}{call}"), Ok(&["1"]));
        let stream =
            "an event stream; request a complete response without `stream`, or assemble the events";
        for (text, expected) in [
            (&b"\xef\xbb\xbf[]"[..], None),
            (b"[", Some("EOF while parsing a list at line 1 column 1")),
            (
                b"",
                Some("empty input; expected a turn in the format `anthropic`"),
            ),
            (
                b"\xef\xbb\xbf\n",
                Some("empty input; expected a turn in the format `anthropic`"),
            ),
            (b"event: message_start\ndata: {}\n", Some(stream)),
            (b"\ndata: {\"choices\": []}\n", Some(stream)),
            (b": ping\n", Some(stream)),
            (b"\xff\xfe[\0]\0", Some("encoded as UTF-16; use UTF-8")),
        ] {
            let turn = parse_turn(text, Format::Anthropic);
            let error = turn.map(|turn| turn.calls.len()).err();
            assert_eq!(error.as_deref(), expected);
        }
    }

    #[test]
    fn only_the_calls_with_an_unusable_value_fail() {
        let long = "123456789012345678901234567890";
        let deep = "[".repeat(1_000) + &"]".repeat(1_000);
        let turn = format!(
            r#"[{{"functionCall": {{"name": "a", "args": {{"n": [{long}]}}}}}},
                {{"functionCall": {{"name": "b", "args": {{"n": {deep}}}}}}},
                {{"functionCall": {{"name": "c", "args": {{"n": 1e30}}}}}},
                {{"text": "x", "tokens": {long}}}]"#
        );
        let turn = parse_turn(turn.as_bytes(), Format::Gemini).unwrap();
        let errors: Vec<_> = turn.calls.iter().map(|call| &call.error).collect();
        let part = |error: &Option<String>, part: &str| {
            error.as_ref().is_some_and(|error| error.contains(part))
        };
        assert!(part(errors[0], "does not fit into 64 bits"), "{errors:?}");
        assert!(part(errors[1], "levels deep"), "{errors:?}");
        assert_eq!(errors[2..], [&None]);
        assert_eq!(turn.calls[2].input, json!({"n": 1e30}));
        let request =
            format!(r#"{{"id": {long}, "method": "tools/call", "params": {{"name": "a"}}}}"#);
        let error = parse_turn(request.as_bytes(), Format::Mcp).err().unwrap();
        assert!(error.contains("does not fit into 64 bits"), "{error}");
    }

    #[test]
    fn a_turn_without_calls_reports_its_stop_reason() {
        for (text, note) in [
            ("[]", "note: the turn contains no tool calls"),
            (
                r#"{"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]}"#,
                "note: the turn contains no tool calls; it ended with `MALFORMED_FUNCTION_CALL`",
            ),
        ] {
            let turn = parse_turn(text.as_bytes(), Format::Gemini).unwrap();
            assert_eq!((turn.calls.len(), turn.note().as_str()), (0, note));
        }
    }

    #[test]
    fn h_09_the_number_of_values_is_limited_including_those_in_strings() {
        let many = MAX_VALUES + 1;
        for values in [
            "0,".repeat(many),
            format!("\"{}\"", "0,".repeat(many)),
            format!("\"{}\"", r"0\u002c".repeat(many)),
        ] {
            let text = format!("[{{\"id\": \"1\", \"name\": \"a\", \"input\": [{values}]}}]");
            let error = "more than 1000000 JSON values, including those in strings; split the input into several batches";
            assert_eq!(parse(text.as_bytes()).unwrap_err(), error);
            let turn = parse_turn(text.as_bytes(), Format::OpenAi);
            assert_eq!(turn.err().as_deref(), Some(error));
        }
    }

    #[test]
    fn the_number_of_calls_is_limited() {
        let call = |index: usize| format!("{{\"id\": \"{index}\", \"name\": \"a\"}}");
        for (calls, fits) in [(MAX_CALLS, true), (MAX_CALLS + 1, false)] {
            let all: Vec<String> = (0..calls).map(call).collect();
            for text in [format!("[{}]", all.join(",")), all.join("\n")] {
                match parse(text.as_bytes()) {
                    Ok(entries) => assert!(fits && entries.len() == calls),
                    Err(error) => assert!(!fits && error.contains("more than 10000 calls")),
                }
            }
        }
    }
}
