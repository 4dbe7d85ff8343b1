//! Errors of a script for the model: what was thrown, and the line and column.

use std::fmt::Write as _;

use boa_engine::builtins::error::Error as ErrorObject;
use boa_engine::error::{EngineError, RuntimeLimitError};
use boa_engine::{Context, JsError, JsNativeErrorKind, JsObject, JsResult, JsString, js_string};
use toolhost_sdk::prelude::{Error, ErrorKind};
use toolhost_sdk::text;

use crate::interpreter::{MOST_LOOPS, MOST_RECURSION};
use crate::json;
use crate::source::{Code, TOO_DEEP};

/// Limit of the text of a thrown value in characters.
const MOST_CHARACTERS: usize = 2000;
/// Callers that an error names.
const MOST_CALLERS: usize = 4;

/// A place in the script, from 1.
struct Place {
    line: usize,
    column: usize,
    /// Empty for code outside of functions.
    function: String,
}

/// The error of a script that does not compile.
pub fn syntax_error(error: &JsError, code: &Code) -> Error {
    let message = match error.as_native() {
        Some(native) => native.message().to_string(),
        None => error.to_string(),
    };
    if message.contains(TOO_DEEP) {
        return Error::invalid_input(
            "the script is nested too deeply: too many brackets, operators or statements within each other",
        )
        .code("script_too_deep")
        .recommend("store parts in variables, or pass data as `input`");
    }
    let (reason, place) = split_position(&message);
    let reason = match reason {
        "abrupt end" => "it ends within a statement: a bracket, brace or quote is not closed",
        reason => reason,
    };
    let mut message = format!(
        "the script is not JavaScript: {}",
        text::inline(reason, 400)
    );
    if let Some((line, column)) = place {
        push_place(&mut message, code, line, column);
    }
    Error::invalid_input(message).code("syntax_error")
}

/// `reason at line 3, col 5`, as the parser writes it.
fn split_position(message: &str) -> (&str, Option<(usize, usize)>) {
    let parsed = message
        .rsplit_once(" at line ")
        .and_then(|(reason, place)| {
            let (line, column) = place.split_once(", col ")?;
            let end = column
                .find(|character: char| !character.is_ascii_digit())
                .unwrap_or(column.len());
            Some((reason, line.parse().ok()?, column[..end].parse().ok()?))
        });
    match parsed {
        Some((reason, line, column)) => (reason, Some((line, column))),
        None => (message, None),
    }
}

/// The error of a script that threw or reached a limit.
pub fn runtime_error(error: JsError, code: &Code, context: &mut Context) -> Error {
    if let Some(error) = error.as_engine() {
        return limit_error(error);
    }
    let mut places = places(&error);
    places.retain(|place| code.contains(place.line, place.column));
    let (kind, thrown) = describe(error, context);
    let mut message = format!("the script failed: {thrown}");
    if let Some(first) = places.first() {
        push_place(&mut message, code, first.line, first.column);
    }
    for caller in places.iter().skip(1).take(MOST_CALLERS) {
        let (line, column) = code.place(caller.line, caller.column);
        let function = if caller.function.is_empty() {
            String::new()
        } else {
            format!(" in {}", text::inline(&caller.function, 40))
        };
        _ = write!(
            message,
            "\ncalled at line {line}, column {column}{function}"
        );
    }
    if places.len() > MOST_CALLERS + 1 {
        message.push_str("\n…");
    }
    Error::new(kind, message).code("script_error")
}

fn limit_error(error: &EngineError) -> Error {
    match error {
        EngineError::RuntimeLimit(RuntimeLimitError::LoopIteration) => Error::failed(format!(
            "a loop of the script ran more than {MOST_LOOPS} times"
        ))
        .code("loop_limit")
        .recommend("check the condition that ends the loop"),
        EngineError::RuntimeLimit(RuntimeLimitError::Recursion) => Error::failed(format!(
            "the functions of the script call each other more than {MOST_RECURSION} levels deep; calls through \
             functions such as `map` and `sort`, getters and proxies count twice"
        ))
        .code("recursion_limit")
        .recommend("check the condition that ends the recursion, or use a loop with a list of what is left"),
        EngineError::RuntimeLimit(RuntimeLimitError::StackSize) => {
            Error::failed("the script has too many values on its stack")
                .code("stack_limit")
                .recommend("pass fewer arguments at once: a loop in place of `f(...list)`")
        }
        // The engine's own defects, and limits of later versions.
        EngineError::Panic(_) => {
            Error::failed("the interpreter failed; this is a defect of the interpreter")
                .code("interpreter_error")
                .recommend("write the script in a simpler way")
                .cause(error)
        }
    }
}

/// What was thrown, in one line.
fn describe(error: JsError, context: &mut Context) -> (ErrorKind, String) {
    if let Some(native) = error.as_native() {
        let name = match native.kind() {
            JsNativeErrorKind::Type => "TypeError",
            JsNativeErrorKind::Range => "RangeError",
            JsNativeErrorKind::Reference => "ReferenceError",
            JsNativeErrorKind::Syntax => "SyntaxError",
            JsNativeErrorKind::Eval => "EvalError",
            JsNativeErrorKind::Uri => "URIError",
            JsNativeErrorKind::Aggregate(_) => "AggregateError",
            _ => "Error",
        };
        let message = native.message().to_string();
        return (
            ErrorKind::Failed,
            text::inline(&format!("{name}: {message}"), MOST_CHARACTERS),
        );
    }
    let Some(thrown) = error.as_opaque() else {
        return (ErrorKind::Failed, "an unknown error".to_owned());
    };
    let described = match thrown.as_object() {
        Some(object) if object.is::<ErrorObject>() => describe_error(&object, context),
        _ => json::show(thrown, MOST_CHARACTERS, context)
            .map(|shown| format!("it threw {shown}, which is not an Error")),
    };
    let described =
        described.unwrap_or_else(|_| "it threw a value that cannot be shown".to_owned());
    (ErrorKind::Failed, text::inline(&described, MOST_CHARACTERS))
}

/// Name and message of an error object; both can be replaced by the script.
pub fn describe_error(error: &JsObject, context: &mut Context) -> JsResult<String> {
    let mut member = |name: JsString| {
        let value = error.get(name, context)?;
        JsResult::Ok(value.as_string().map(|text| text.to_std_string_lossy()))
    };
    let name = member(js_string!("name"))?.unwrap_or_else(|| "Error".to_owned());
    let message = member(js_string!("message"))?.unwrap_or_default();
    let described = if message.is_empty() {
        name
    } else {
        format!("{name}: {message}")
    };
    Ok(text::truncate(&described, MOST_CHARACTERS))
}

/// The places in the script on the stack of calls, the innermost first.
///
/// The engine shows the stack only as text, after the text of the error, which can be any text.
fn places(error: &JsError) -> Vec<Place> {
    let thrown = match (error.as_native(), error.as_opaque()) {
        (Some(native), _) => native.to_string(),
        (_, Some(value)) => value.display().to_string(),
        _ => return Vec::new(),
    };
    let shown = error.to_string();
    let stack = shown.strip_prefix(&thrown).unwrap_or_default();
    stack.lines().filter_map(place).collect()
}

/// `    at name (script:3:5)`.
fn place(line: &str) -> Option<Place> {
    let (name, place) = line.trim_start().strip_prefix("at ")?.rsplit_once(" (")?;
    let place = place
        .strip_prefix(Code::NAME)?
        .strip_prefix(':')?
        .strip_suffix(')')?;
    let (line, column) = place.split_once(':')?;
    Some(Place {
        line: line.parse().ok()?,
        column: column.parse().ok()?,
        function: if name == "<main>" { "" } else { name }.to_owned(),
    })
}

/// Appends ` at line 3, column 5:` and the line with a marker below.
fn push_place(message: &mut String, code: &Code, line: usize, column: usize) {
    const AROUND: usize = 40;
    let (line, column) = code.place(line, column);
    _ = write!(message, " at line {line}, column {column}");
    let Some(content) = code.line(line) else {
        return;
    };
    let characters: Vec<char> = content.chars().collect();
    let at = (column - 1).min(characters.len());
    let start = at.saturating_sub(AROUND);
    let end = (at + AROUND).min(characters.len());
    let shown: String = characters[start..end]
        .iter()
        .map(|character| {
            if character.is_control() {
                ' '
            } else {
                *character
            }
        })
        .collect();
    if !shown.trim().is_empty() {
        _ = write!(message, ":\n{}\n{}^", shown, " ".repeat(at - start));
    }
}
