//! `code_run`: runs a script and reports its result and its output.

use std::fmt::Write as _;
use std::time::Duration;

use toolhost_sdk::prelude::*;

use crate::console::Console;
use crate::interpreter::Interpreter;
use crate::json;
use crate::source;

/// Limit of the text for the model in bytes. Known MCP clients show this much without cuts.
const MOST_BYTES_OF_TEXT: usize = 38_000;

/// The language of a script.
#[data]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Javascript,
}

/// Result of a script.
#[data]
pub struct CodeResult {
    /// Value of the last expression as JSON.
    result: Value,
    /// What the script printed.
    output: String,
    /// Bytes of output that are left out at its end.
    omitted_bytes: u64,
}

/// Run a script in a sandbox without network, programs, modules or timers. The value of its last expression (or `return`)
/// is the result. It has `console.log`, `readFile(path)`, `writeFile(path, text)`, `listFiles(path)` ([{name, type, size}])
/// and `input`.
#[tool(
    writes,
    plain_text,
    category = "code",
    kind = "other",
    icon = "braces",
    timeout = "1m",
    aliases = ["run_code", "execute_code", "javascript"],
    tags = ["code", "script", "javascript", "compute"],
    requires = ["fs.read", "fs.write"],
    output = CodeResult,
    example(description = "Compute", input = r#"{"code": "const words = input.text.split(' ');\nwords.length", "input": {"text": "one two three"}}"#),
)]
pub fn code_run(
    cx: &Context,
    /// JavaScript (ES2025).
    #[arg(min_len = 1, aliases = ["script", "source"])]
    code: String,
    /// Language.
    #[arg(default = "javascript", aliases = ["lang"])]
    language: Language,
    /// Value of the variable `input`.
    input: Option<Value>,
    /// Time limit.
    #[arg(default = 30_000, min = 1, max = 600_000, aliases = ["timeout"])]
    timeout_ms: u32,
) -> Result<Outcome> {
    match language {
        Language::Javascript => {}
    }
    if code.len() > source::MOST_BYTES {
        let (size, most) = (code.len(), source::MOST_BYTES);
        let message = format!("the script has {size} bytes; the limit is {most}");
        return Err(Error::invalid_input(message)
            .code("script_too_large")
            .recommend("pass data as `input`, or read it with readFile"));
    }
    let input = input.unwrap_or_default();
    check_numbers(&input)?;
    let timeout = Duration::from_millis(timeout_ms.into());
    let mut interpreter = Interpreter::new(cx, &input, timeout)?;
    let ended = interpreter.run(&code);
    let console = interpreter.console();
    Ok(report(ended, &console.borrow()))
}

/// Refuses integers that JavaScript would round.
fn check_numbers(value: &Value) -> Result<()> {
    match value {
        Value::Array(items) => items.iter().try_for_each(check_numbers),
        Value::Object(members) => members.values().try_for_each(check_numbers),
        Value::Number(number) if !json::is_exact(number) => {
            let message = format!("`input` has the integer {number}, which JavaScript would round");
            Err(Error::invalid_input(message)
                .code("number_out_of_range")
                .recommend("pass it as a string, and convert it with BigInt(text)"))
        }
        _ => Ok(()),
    }
}

fn report(ended: Result<Value>, console: &Console) -> Outcome {
    let mut text = console.text().to_owned();
    if console.omitted() > 0 {
        let _ = write!(
            text,
            "\n[{} bytes of output omitted; print less, or write it to a file with writeFile]\n",
            console.omitted()
        );
    }
    let (result, error) = match ended {
        Ok(result) => (result, None),
        Err(error) => (Value::Null, Some(error)),
    };
    match &error {
        None => push_result(&mut text, &result),
        Some(error) => push_error(&mut text, error),
    }
    let shown = console.text().len() as u64;
    let outcome = if text.is_empty() {
        Outcome::new()
    } else {
        Outcome::text(text)
    };
    let outcome = outcome.structured(&CodeResult {
        result,
        output: console.text().to_owned(),
        omitted_bytes: console.omitted(),
    });
    let outcome = if console.omitted() > 0 {
        outcome.truncated(shown + console.omitted(), shown)
    } else {
        outcome
    };
    match error {
        Some(error) => outcome.logical_error(error),
        None => outcome,
    }
}

/// Hosts show models the text, and the error only if there is no text.
fn push_error(text: &mut String, error: &Error) {
    if text.is_empty() {
        return;
    }
    text.push_str(&error.message);
    for recommendation in &error.recommendations {
        let _ = write!(text, "\n- {recommendation}");
    }
}

fn push_result(text: &mut String, result: &Value) {
    if text.is_empty() && result.is_null() {
        text.push_str("null (the value of the last expression is the result)");
        return;
    }
    if !text.is_empty() {
        text.push_str("result: ");
    }
    let json = result.to_string();
    let room = MOST_BYTES_OF_TEXT.saturating_sub(text.len());
    if json.len() <= room {
        text.push_str(&json);
        return;
    }
    let kept = &json[..json.floor_char_boundary(room)];
    let left = json.len() - kept.len();
    text.push_str(kept);
    let _ = write!(
        text,
        "\n[{left} bytes of the result omitted; return less, or write it to a file with writeFile]"
    );
}

#[cfg(test)]
mod tests;
