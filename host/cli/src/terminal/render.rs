//! Rendering of results for users and scripts.

use toolhost_contract::{
    CallError, Display, FileDiff, Outcome, Part, ToolName, Truncation, text, units::format_size,
};
use toolhost_kernel::{RegistrySnapshot, Report};

use super::markdown;
use super::style::{Paint, Style};

/// Whether there is content to show in addition to a failure.
pub fn has_content(outcome: &Outcome) -> bool {
    !outcome.is_error() || !outcome.llm.is_empty() || outcome.display.is_some()
}

/// The form of a tool's text, as its descriptor declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextForm {
    Markdown,
    Plain,
}

impl TextForm {
    pub fn of(registry: &RegistrySnapshot, report: &Report) -> Self {
        let name = report.tool.as_ref().map(ToolName::as_str);
        let entry = name.and_then(|name| registry.get(name));
        match entry {
            Some(entry) if entry.tool.output_markdown => Self::Markdown,
            _ => Self::Plain,
        }
    }
}

/// The tool's output for display, or else the text for the model.
pub fn for_terminal(outcome: &Outcome, form: TextForm, style: Style) -> String {
    match &outcome.display {
        Some(Display {
            diff: Some(diff), ..
        }) => file_diff(diff, style),
        Some(Display {
            kind,
            text: Some(text),
            ..
        }) if kind == "diff" => diff_lines(text, style),
        Some(Display {
            kind,
            text: Some(text),
            ..
        }) if kind == "markdown" => markdown::render(text, style),
        Some(Display {
            text: Some(shown), ..
        }) => text::escape_lines(shown, usize::MAX),
        Some(_) | None if form == TextForm::Markdown && is_text(outcome) => {
            markdown::render(&outcome.model_text(), style)
        }
        Some(_) | None => for_pipe(outcome),
    }
}

/// Whether the text for the model is text of the tool, and not JSON.
fn is_text(outcome: &Outcome) -> bool {
    let mut parts = outcome.llm.iter();
    !outcome.llm.is_empty() && parts.all(|part| matches!(part, Part::Text(_)))
}

/// The content that the tool rendered for users.
pub fn rendering(blocks: &[Display], style: Style) -> String {
    let blocks = blocks
        .iter()
        .map(|block| match (&block.diff, block.table()) {
            (Some(diff), _) => file_diff(diff, style),
            (None, Some(rows)) => table(rows),
            (None, None) if block.kind == "markdown" => {
                markdown::render(&block.plain_text(), style)
            }
            (None, None) => text::escape_lines(&block.plain_text(), usize::MAX),
        });
    blocks.collect::<Vec<_>>().join("\n")
}

fn table(rows: Vec<Vec<String>>) -> String {
    let escape = |cell: String| text::escape_line(&cell, 500);
    let mut rows = rows
        .into_iter()
        .map(|row| row.into_iter().map(escape).collect::<Vec<_>>());
    let header = rows.next().unwrap_or_default();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    super::style::table(&header, rows)
}

/// The text for the model with control characters escaped, because a pipe can end at a terminal too.
pub fn for_pipe(outcome: &Outcome) -> String {
    text::escape_lines(&outcome.model_text(), usize::MAX)
}

/// Notes about a result.
pub fn notes(outcome: &Outcome) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(Truncation {
        original_bytes,
        shown_bytes,
        saved_to,
    }) = &outcome.truncated
    {
        let saved = saved_to
            .as_deref()
            .map(|path| format!("; full output in {}", text::escape_line(path, 300)));
        remarks.push(format!(
            "truncated: {} of {} shown{}",
            size(*shown_bytes),
            size(*original_bytes),
            saved.unwrap_or_default()
        ));
    }
    if let Some(tail) = &outcome.tail {
        let input = text::escape_line(&tail.input.to_string(), 1_000);
        remarks.push(format!(
            "the tool suggests calling `{}` next with {input}",
            text::escape_line(&tail.tool, 80)
        ));
    }
    remarks
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "shown with one decimal"
)]
fn size(bytes: f64) -> String {
    format_size(bytes.max(0.0) as u64)
}

/// The failure that a tool reported.
pub fn failure(outcome: &Outcome) -> Option<String> {
    let failure = outcome.error.as_ref()?;
    let code = failure
        .code
        .as_deref()
        .map(|code| format!(" [{}]", text::escape_line(code, 80)));
    Some(format!(
        "error{}: {}",
        code.unwrap_or_default(),
        text::escape_lines(&failure.for_model(), usize::MAX)
    ))
}

/// Renders an error without the tool's standard error, which was already shown while the tool ran.
pub fn error_after_output(failed: &CallError) -> String {
    error(&CallError {
        stderr: None,
        ..failed.clone()
    })
}

pub fn error(error: &CallError) -> String {
    let cause = error.cause.as_deref();
    let cause = cause
        .filter(|cause| !error.message.contains(cause))
        .map(|cause| format!("\ncause: {}", text::escape_lines(cause, 2_000)));
    let code = text::escape_line(&error.code, 80);
    format!(
        "error [{code}]: {}{}",
        text::escape_lines(&error.for_model(), usize::MAX),
        cause.unwrap_or_default()
    )
}

fn file_diff(diff: &FileDiff, style: Style) -> String {
    let name = text::escape_line(&diff.file_name, 300);
    let new = if diff.original.is_none() {
        " (new)"
    } else {
        ""
    };
    format!(
        "{}\n{}",
        style.paint(Paint::Bold, &format!("{name}{new}")),
        diff_lines(&diff.diff, style)
    )
}

fn diff_lines(diff: &str, style: Style) -> String {
    let mut shown = String::with_capacity(diff.len());
    for line in text::diff_lines(diff) {
        let line = text::escape_lines(line, usize::MAX);
        let paint = match line.as_bytes().first() {
            Some(b'+') => Some(Paint::Green),
            Some(b'-') => Some(Paint::Red),
            Some(b'@') => Some(Paint::Cyan),
            _ => None,
        };
        shown.push_str(&paint.map_or(line.clone(), |paint| style.paint(paint, &line)));
        shown.push('\n');
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolhost_contract::{Failure, TailCall};

    use super::*;

    #[test]
    fn display_output_takes_precedence_at_a_terminal() {
        let mut outcome = Outcome::text("for the model\u{1b}[2J");
        assert_eq!(
            for_terminal(&outcome, TextForm::Plain, Style::PLAIN),
            "for the model\\u{1b}[2J"
        );
        let display = |kind: &str, text: Option<&str>, diff| {
            Some(Display {
                kind: kind.to_owned(),
                text: text.map(ToOwned::to_owned),
                diff,
                data: None,
            })
        };
        outcome.display = display("markdown", Some("# For users"), None);
        let shown = for_terminal(&outcome, TextForm::Plain, Style::PLAIN);
        assert_eq!(shown, "# For users");
        let diff = FileDiff {
            file_name: "a\n.txt".into(),
            diff: "@@ -0,0 +1 @@\n+x\u{202e}\t\\t".into(),
            original: None,
            new: "x".into(),
        };
        outcome.display = display("diff", None, Some(diff));
        assert_eq!(
            for_terminal(&outcome, TextForm::Plain, Style::PLAIN),
            "a\\n.txt (new)\n@@ -0,0 +1 @@\n+x\\u{202e}\t\\t\n"
        );
        assert_eq!(for_pipe(&outcome), "for the model\\u{1b}[2J");
    }

    #[test]
    fn r_029_text_is_rendered_as_markdown_if_the_descriptor_says_so() {
        let painted = "\u{1b}[1m# Title\u{1b}[0m\n";
        let text = Outcome::text("# Title\n");
        let value = Outcome {
            llm: vec![Part::Json(json!("# Title"))],
            ..Outcome::default()
        };
        let display = Outcome {
            display: Some(Display {
                kind: "text".to_owned(),
                text: Some("# Title\n".to_owned()),
                diff: None,
                data: None,
            }),
            ..text.clone()
        };
        for (outcome, form, expected) in [
            (&text, TextForm::Markdown, painted),
            (&text, TextForm::Plain, "# Title\n"),
            (&value, TextForm::Markdown, "\"# Title\""),
            (&display, TextForm::Markdown, "# Title\n"),
        ] {
            assert_eq!(for_terminal(outcome, form, Style::COLOURS), expected);
        }
        let shown = for_terminal(&text, TextForm::Markdown, Style::PLAIN);
        assert_eq!(shown, "# Title\n");
    }

    #[test]
    fn failures_and_notes_are_separate_from_the_result() {
        let outcome = Outcome {
            error: Some(Failure::new("file_not_found", "no `a`")),
            truncated: Some(Truncation {
                original_bytes: 4096.0,
                shown_bytes: 1024.0,
                saved_to: None,
            }),
            tail: Some(TailCall {
                tool: "next".to_owned(),
                input: json!({"a": 1}),
            }),
            ..Outcome::default()
        };
        assert_eq!(failure(&outcome).unwrap(), "error [file_not_found]: no `a`");
        assert_eq!(
            notes(&outcome),
            [
                "truncated: 1.0 KiB of 4.0 KiB shown",
                "the tool suggests calling `next` next with {\"a\":1}"
            ]
        );
    }
}
