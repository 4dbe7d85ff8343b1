//! The interface `user`: questions, modes and permission requests.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{BoxFuture, CallId, Failure, text};

pub trait UserService: Send + Sync {
    fn ask_user(
        &self,
        queries: Vec<UserQuestion>,
    ) -> BoxFuture<'_, Result<Vec<UserAnswer>, Failure>>;

    /// Requests another mode and returns the mode in effect afterwards.
    fn change_mode(&self, to: String, reason: String) -> BoxFuture<'_, Result<String, Failure>>;

    /// Requests permissions and returns those that were granted.
    fn request_permissions(&self, request: Value) -> BoxFuture<'_, Result<Value, Failure>>;
}

/// A question to the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserQuestion {
    pub question: String,
    /// A short heading.
    #[serde(default)]
    pub header: String,
    #[serde(rename = "type", default)]
    pub kind: UserQuestionKind,
    #[serde(default)]
    pub options: Vec<AnswerOption>,
    #[serde(default)]
    pub multi_select: bool,
    #[serde(default)]
    pub placeholder: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UserQuestionKind {
    #[default]
    Choice,
    Text,
    YesNo,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerOption {
    pub label: String,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub preview: Option<String>,
}

/// The user's answer to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "an answer is true or false, a text, or a list of labels"
)]
pub enum UserAnswer {
    YesNo(bool),
    Labels(Vec<String>),
    /// A label, or free text.
    Text(String),
}

/// Questions from a call to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionForm {
    /// The call that asks the questions.
    pub call: CallId,
    pub plugin: String,
    pub tool: String,
    /// The sub-agent that asks, if any.
    pub agent: Option<String>,
    pub questions: Vec<UserQuestion>,
}

const MAX_QUESTIONS: usize = 4;
const MAX_OPTIONS: usize = 16;
/// Maximum size in bytes of one text of a question. Plans are the longest.
const MAX_TEXT: usize = 16 << 10;

impl UserQuestion {
    /// Parses and validates a JSON list of questions from a plugin.
    pub fn parse(questions: &str) -> Result<Vec<Self>, Failure> {
        let refuse = |reason: String| Failure::new("invalid_question", reason);
        let queries: Vec<Self> = serde_json::from_str(questions).map_err(|error| {
            refuse(format!(
                "invalid questions: {}",
                text::escape_line(&error.to_string(), 200)
            ))
        })?;
        if queries.is_empty() || queries.len() > MAX_QUESTIONS {
            let count = queries.len();
            return Err(refuse(format!(
                "{count} questions; ask 1 to {MAX_QUESTIONS}"
            )));
        }
        for query in &queries {
            query.check().map_err(refuse)?;
        }
        Ok(queries)
    }

    fn check(&self) -> Result<(), String> {
        if self.question.trim().is_empty() {
            return Err("a question is empty".to_owned());
        }
        let shown = text::escape_line(&self.question, 80);
        let options = self.options.len();
        match self.kind {
            UserQuestionKind::Choice if !(2..=MAX_OPTIONS).contains(&options) => {
                return Err(format!(
                    "`{shown}` has {options} options; a choice has 2 to {MAX_OPTIONS}"
                ));
            }
            UserQuestionKind::Text | UserQuestionKind::YesNo if options > 0 => {
                return Err(format!("`{shown}` has options but is not a choice"));
            }
            UserQuestionKind::Choice | UserQuestionKind::Text | UserQuestionKind::YesNo => {}
        }
        for (number, option) in self.options.iter().enumerate() {
            let label = text::escape_line(&option.label, 80);
            if option.label.trim().is_empty() {
                return Err(format!("`{shown}` has an option without a label"));
            }
            if self.options[..number]
                .iter()
                .any(|other| other.label == option.label)
            {
                return Err(format!("`{shown}` has the option `{label}` twice"));
            }
        }
        let texts = [&self.question, &self.header]
            .into_iter()
            .chain(self.placeholder.as_ref());
        let texts = texts.chain(self.options.iter().flat_map(|option| {
            [&option.label, &option.description]
                .into_iter()
                .chain(option.preview.as_ref())
        }));
        match texts.map(String::len).max() {
            Some(longest) if longest > MAX_TEXT => Err(format!(
                "`{shown}` has a text of {longest} bytes; the limit is {MAX_TEXT}"
            )),
            _ => Ok(()),
        }
    }

    /// Returns whether this is a valid answer. Free text is accepted in place of a label.
    pub fn accepts(&self, reply: &UserAnswer) -> bool {
        match (self.kind, reply) {
            (UserQuestionKind::YesNo, UserAnswer::YesNo(_))
            | (UserQuestionKind::Text | UserQuestionKind::Choice, UserAnswer::Text(_)) => true,
            (UserQuestionKind::Choice, UserAnswer::Labels(_)) => self.multi_select,
            (UserQuestionKind::YesNo | UserQuestionKind::Text, _)
            | (UserQuestionKind::Choice, UserAnswer::YesNo(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(questions: &str, expected: Expect) {
        let shown = match UserQuestion::parse(questions) {
            Ok(queries) => format!("{} questions", queries.len()),
            Err(error) => error.message,
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn valid_questions_are_accepted() {
        check(
            r#"[{"question": "Which?", "options": [{"label": "a"}, {"label": "b"}]},
                {"question": "Why?", "type": "text"}, {"question": "Sure?", "type": "yesno"}]"#,
            expect!["3 questions"],
        );
    }

    #[test]
    fn an_invalid_answer_is_reported_with_the_valid_ones() {
        let error = serde_json::from_str::<UserAnswer>("1").unwrap_err();
        expect!["an answer is true or false, a text, or a list of labels"]
            .assert_eq(&error.to_string());
    }

    #[test]
    fn invalid_questions_are_refused() {
        check("[]", expect!["0 questions; ask 1 to 4"]);
        check(
            r#"[{"question": "Which?", "options": [{"label": "a"}]}]"#,
            expect!["`Which?` has 1 options; a choice has 2 to 16"],
        );
        check(
            r#"[{"question": "Which?", "options": [{"label": "a"}, {"label": "a"}]}]"#,
            expect!["`Which?` has the option `a` twice"],
        );
        check(
            r#"[{"question": "Sure?", "type": "yesno", "options": [{"label": "a"}, {"label": "b"}]}]"#,
            expect!["`Sure?` has options but is not a choice"],
        );
        check(
            r#"[{"question": " ", "type": "text"}]"#,
            expect!["a question is empty"],
        );
        check(
            r#"[{"question": "x", "colour": "red"}]"#,
            expect![
                "invalid questions: unknown field `colour`, expected one of `question`, `header`, `type`, `options`, `multi_select`, `placeholder` at line 1 column 27"
            ],
        );
        let long = format!(
            r#"[{{"question": "{}", "type": "text"}}]"#,
            "x".repeat(20_000)
        );
        assert!(
            UserQuestion::parse(&long)
                .unwrap_err()
                .message
                .ends_with("the limit is 16384")
        );
    }
}
