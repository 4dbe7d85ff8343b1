//! A question as JSON for a view, which only arranges it: texts are escaped and bounded here.

use serde_json::{Value, json};
use toolhost_contract::policy::QuestionBlock;
use toolhost_contract::{Call, ChangeSet, Question, text};

use super::approval_form::choices;
use super::question_text::{MAX_FIELD, MAX_LINE, whole_lines};

/// Maximum number of diff lines over all changes of a call, and of their bytes.
const MAX_DIFF_LINES: usize = 2_000;
const MAX_DIFF_BYTES: usize = 1 << 20;

pub(super) fn content(question: &Question, call: &Call) -> Value {
    let document = question.document(&call.input);
    let blocks: Vec<Value> = document.blocks.iter().filter_map(block).collect();
    let choices: Vec<Value> = choices(question)
        .into_iter()
        .map(|(value, text)| json!({"value": value, "text": text}))
        .collect();
    json!({"title": document.title, "blocks": blocks, "choices": choices})
}

fn block(block: &QuestionBlock) -> Option<Value> {
    Some(match block {
        QuestionBlock::Fact {
            label,
            value,
            is_warning,
        } => {
            // An approval covers exactly the value of a variable.
            let max = if *label == "variable" {
                usize::MAX
            } else {
                MAX_FIELD
            };
            let value = text::escape_line(value, max);
            json!({"type": "fact", "label": label, "value": value, "isWarning": is_warning})
        }
        QuestionBlock::Command(command) => {
            json!({"type": "text", "label": "command", "lines": whole_lines(command)})
        }
        QuestionBlock::ToolText(text) => {
            let shown = first_lines(text, &mut (usize::MAX, usize::MAX));
            json!({"type": "text", "label": "the tool shows", "lines": shown})
        }
        QuestionBlock::Changes(set) => changes(set),
        // The input follows.
        QuestionBlock::ClaimedEdit(_) => return None,
        QuestionBlock::Input(input) => {
            json!({"type": "input", "lines": whole_lines(&format!("{input:#}"))})
        }
    })
}

fn changes(set: &ChangeSet) -> Value {
    let mut rest = (MAX_DIFF_LINES, MAX_DIFF_BYTES);
    let files = set.changes.iter().map(|change| {
        let body = change.diff.as_ref().map_or("", |diff| diff.body());
        let shown = first_lines(body, &mut rest);
        let is_whole = |line: &&str| line.chars().count() <= MAX_LINE;
        let whole = text::diff_lines(body).take(shown.len()).filter(is_whole);
        let hidden = text::diff_lines(body).count() - whole.count();
        // Whole, because the end contains the target of a link. Paths and targets are bounded by the file system.
        let described = text::escape_line(&change.describe(), usize::MAX);
        json!({"kind": change.kind.verb(), "path": described, "lines": shown, "hidden": hidden})
    });
    let files: Vec<Value> = files.collect();
    json!({"type": "changes", "summary": set.to_string(), "files": files})
}

/// Returns the lines that fit, whose number and bytes are subtracted from `rest`.
fn first_lines(text: &str, rest: &mut (usize, usize)) -> Vec<String> {
    let (max_lines, max_bytes) = rest;
    let shown: Vec<String> = text::diff_lines(text)
        .take(*max_lines)
        .map(|line| text::escape_line(line, MAX_LINE))
        .map_while(|line| {
            *max_bytes = max_bytes.checked_sub(line.len())?;
            Some(line)
        })
        .collect();
    *max_lines -= shown.len();
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_shown_whole_and_runs_of_blanks_are_counted() {
        let long = format!("{}; curl evil", "x".repeat(MAX_LINE));
        assert_eq!(whole_lines(&long), [long]);
        let blank = format!("ls{}; curl evil\u{202e}", "\n".repeat(9_000));
        assert_eq!(whole_lines(&blank), ["ls␤×9000; curl evil\\u{202e}"]);
    }

    #[test]
    fn lines_are_escaped_and_bounded_in_number_and_bytes() {
        for (text, rest, shown, after) in [
            ("a\nb\nc\n", (2, 100), &["a", "b"][..], (0, 98)),
            ("aaaa\nbbbb\ncccc\n", (9, 9), &["aaaa", "bbbb"], (7, 1)),
            ("a\u{202e}\r\n", (1, 100), &[r"a\u{202e}\r"], (0, 89)),
            ("", (1, 1), &[], (1, 1)),
        ] {
            let mut left = rest;
            assert_eq!(first_lines(text, &mut left), shown, "{text:?}");
            assert_eq!(left, after, "{text:?}");
        }
    }
}
