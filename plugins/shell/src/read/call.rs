//! Results of tool calls started by background_run.

use std::time::Duration;

use regex::Regex;
use toolhost_sdk::prelude::*;
use toolhost_sdk::text::escape;

use super::window::{Window, WindowEnd, WindowView};
use super::{TaskOutput, check_offset, show_part};

/// The part of a result to show: without `offset` and `filter`, all of it.
pub struct CallPart<'a> {
    pub offset: Option<u64>,
    pub lines: usize,
    pub filter: Option<&'a Regex>,
}

impl CallPart<'_> {
    fn look(&self, id: &str, text: &str) -> Result<WindowView> {
        let from = self.offset.unwrap_or(0);
        check_offset(id, from, text.len() as u64)?;
        let (side, most) = match (self.offset, self.filter) {
            (Some(_), _) => (WindowEnd::First, self.lines),
            (None, Some(_)) => (WindowEnd::Last, self.lines),
            (None, None) => (WindowEnd::First, usize::MAX),
        };
        let window = Window {
            from,
            side,
            most,
            filter: self.filter,
            hold: false,
        };
        let start = usize::try_from(from).unwrap_or(usize::MAX);
        Ok(window.look(&text.as_bytes()[start..], from))
    }
}

pub fn read(cx: &Context, id: &str, wait: Duration, part: CallPart<'_>) -> Result<Outcome> {
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
    let view = part.look(id, &text)?;
    if part.offset.is_some() || part.filter.is_some() {
        (reading.offset, reading.next_offset) = (view.start, view.next);
    }
    let later = view.later(text.len() as u64, WindowEnd::First);
    let part = show_part(&shown, view, later, 0);
    let how = if outcome.error.is_some() {
        "failed"
    } else {
        "ended"
    };
    reading.truncated = part.truncated;
    reading.ending = Some(how.to_owned());
    reading.result.clone_from(&outcome.structured);
    reading.output = part.output;
    let mut text = format!("Task {shown}: {how}\n{}{}", part.before, reading.output);
    if !part.after.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text += &part.after;
    let mut answer = Outcome::text(text)
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
