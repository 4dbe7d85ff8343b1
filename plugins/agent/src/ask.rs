//! `ask_user`: asks the user one to four questions.

mod answers;

use std::collections::HashSet;

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::inline;

use self::answers::Answers;

/// Type of answer.
#[data]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerKind {
    /// One of the options, or several with `multi_select`.
    Choice,
    Text,
    Yesno,
}

/// One option.
#[data]
#[derive(Debug)]
pub struct AnswerOption {
    /// 1 to 5 words.
    #[arg(min_len = 1, max_len = 60)]
    pub label: String,
    /// What this option means.
    #[arg(max_len = 500)]
    pub description: String,
    /// Code or sketch of the result.
    #[arg(max_len = 4000)]
    pub preview: Option<String>,
}

/// One question.
#[data]
#[derive(Debug)]
pub struct Question {
    /// Full question, with a question mark.
    #[arg(min_len = 1, max_len = 1000)]
    pub question: String,
    /// Short label.
    #[arg(min_len = 1, max_len = 12)]
    pub header: String,
    /// Type of answer.
    #[arg(rename = "type", default = "choice")]
    pub kind: AnswerKind,
    /// For `choice`: 2 to 4 options; "Other" is added automatically.
    #[arg(max_len = 4)]
    pub options: Option<Vec<AnswerOption>>,
    /// Allow more than one option.
    #[arg(default = false, aliases = ["multiSelect"])]
    pub multi_select: bool,
    /// For `text`: hint.
    #[arg(max_len = 200)]
    pub placeholder: Option<String>,
}

/// Origin of the questions.
#[data]
pub struct Metadata {
    /// For example the name of a skill.
    #[arg(max_len = 200)]
    source: Option<String>,
}

/// Ask the user 1 to 4 questions about decisions that are the user's to make. Not for facts you can look up or for
/// permission to use a tool.
// `reads`: the call changes nothing, but no permission mode may answer in the user's place.
#[tool(
    reads,
    interactive,
    plain_text,
    requires = ["user"],
    category = "interact",
    kind = "communicate",
    icon = "message-circle-question",
    concurrency = "exclusive",
    aliases = ["askuserquestion", "ask_user_question"],
    tags = ["question", "user", "clarify"],
    output = Answers,
    example(
        description = "A choice",
        input = r#"{"questions": [{"question": "Which database should I use?", "header": "Database", "options": [{"label": "SQLite", "description": "One file, no server"}, {"label": "PostgreSQL", "description": "A server, many writers"}]}]}"#
    ),
    example(
        description = "A text",
        input = r#"{"questions": [{"question": "What should the package be called?", "header": "Name", "type": "text", "placeholder": "lower-case letters"}]}"#
    ),
)]
pub fn ask_user(
    cx: &Context,
    /// Shown together.
    #[arg(min_len = 1, max_len = 4)]
    questions: Vec<Question>,
    /// Origin of the questions.
    metadata: Option<Metadata>,
) -> Result<Outcome> {
    check(&questions)?;
    if let Some(source) = metadata.and_then(|metadata| metadata.source) {
        cx.debug(&format!("asked for {}", inline(&source, 200)));
    }
    match cx.ask(&json!(questions)) {
        Ok(answers) => Ok(Answers::read(&questions, answers)?.outcome()),
        Err(error) if is_dismissed(&error) => Ok(Answers::dismissed().outcome()),
        Err(error) => Err(user_unavailable(error)),
    }
}

fn check(questions: &[Question]) -> Result<()> {
    let mut unique = HashSet::new();
    for (position, question) in questions.iter().enumerate() {
        let refuse = |reason: String| {
            let message = format!(
                "questions[{position}] ({}): {reason}",
                inline(&question.header, 12)
            );
            Err(Error::invalid_input(message).code("invalid_question"))
        };
        if question.question.trim().is_empty() || question.header.trim().is_empty() {
            return refuse("`question` and `header` must not be empty".to_owned());
        }
        // Answers are keyed by question text.
        if !unique.insert(question.question.trim().to_lowercase()) {
            return refuse("the same question is given twice; ask it once".to_owned());
        }
        let options = question.options.as_deref().unwrap_or_default();
        if question.kind != AnswerKind::Choice {
            if !options.is_empty() || question.multi_select {
                return refuse(
                    "`options` and `multi_select` need the type `choice`; omit them".to_owned(),
                );
            }
            continue;
        }
        if options.len() < 2 {
            return refuse(format!(
                "a choice needs 2 to 4 options, this one has {}; use the type `text` for a free answer",
                options.len()
            ));
        }
        let mut labels = HashSet::new();
        for option in options {
            let label = option.label.trim().to_lowercase();
            if label.is_empty() {
                return refuse("an option has an empty label".to_owned());
            }
            if label == "other" {
                return refuse("\"Other\" is added automatically; omit it".to_owned());
            }
            if !labels.insert(label) {
                let label = inline(&option.label, 60);
                return refuse(format!(
                    "two options have the label {label:?}; labels are unique"
                ));
            }
        }
    }
    Ok(())
}

/// Whether `error` means that the user dismissed the question.
pub fn is_dismissed(error: &Error) -> bool {
    matches!(error.code.as_deref(), Some("user_denied" | "dismissed"))
}

/// An unavailable user is reported with advice to continue.
fn user_unavailable(error: Error) -> Error {
    if error.code.as_deref() != Some("no_user") {
        return error;
    }
    Error::unavailable(format!("no user is available to answer: {}", error.message))
        .code("no_user")
        .recommend("continue with your best judgement and state your assumptions at the end")
}

#[cfg(test)]
mod tests;
