//! Results of tool calls started by background_run.

use std::time::Duration;

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::escape;

use super::{MOST_CHARACTERS, TaskOutput};
use crate::output::{OutputText, RawOutput};

pub fn read(cx: &Context, id: &str, wait: Duration) -> Result<Outcome> {
    let wait_ms = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
    let end = cx
        .wait_tool(id, wait_ms)
        .map_err(|error| advised(error, id))?;
    let shown = escape(id, 80);
    let mut reading = TaskOutput {
        task_id: id.to_owned(),
        pid: None,
        status: "ended".to_owned(),
        output: String::new(),
        exit_code: None,
        signal: None,
        ending: None,
        offset: 0,
        next_offset: 0,
        truncated: false,
        output_file: None,
        result: None,
    };
    let outcome = match end {
        None => {
            "running".clone_into(&mut reading.status);
            let text = format!(
                "Task {shown}: running\nNo result yet. To wait for it: shell_output {{\"task_id\": {shown:?}, \"block\": true}}\n"
            );
            return Ok(Outcome::text(text)
                .structured(&reading)
                .summary(format!("task {shown}: running")));
        }
        Some(Ok(outcome)) => outcome,
        Some(Err(error)) => Outcome {
            error: Some(error),
            ..Outcome::new()
        },
    };
    let texts: Vec<&str> = outcome
        .llm
        .iter()
        .filter_map(|part| part.text.as_deref())
        .collect();
    let text = match (&outcome.structured, &outcome.error) {
        // A tool without text is shown by its structured output.
        (Some(data), None) if texts.is_empty() => data.to_string(),
        (_, Some(error)) if texts.is_empty() => error.message.clone(),
        _ => texts.join("\n"),
    };
    let raw = RawOutput {
        bytes: text.as_bytes(),
        total: text.len() as u64,
    };
    let fitted = OutputText::of(raw).fit(MOST_CHARACTERS, |left| {
        format!(
            "[… {} characters of the result omitted here]",
            left.characters
        )
    });
    let how = if outcome.error.is_some() {
        "failed"
    } else {
        "ended"
    };
    reading.truncated = fitted.cut;
    reading.ending = Some(how.to_owned());
    reading.result.clone_from(&outcome.structured);
    reading.output = fitted.text;
    let mut answer = Outcome::text(format!("Task {shown}: {how}\n{}", reading.output))
        .structured(&reading)
        .summary(format!("task {shown}: {how}"));
    // Images and files are passed through.
    answer
        .llm
        .extend(outcome.llm.into_iter().filter(|part| part.text.is_none()));
    answer.error = outcome.error.or(answer.error);
    Ok(answer)
}

pub fn advised(error: Error, id: &str) -> Error {
    if error.code.as_deref() == Some("task_not_found") {
        return Error {
            kind: ErrorKind::NotFound,
            message: format!("no task `{}` in this session", escape(id, 80)),
            ..error
        }
        .recommend("shell_list shows all tasks");
    }
    error
}
