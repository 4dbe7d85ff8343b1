//! The user's answers, by question.

use std::collections::BTreeMap;

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::inline;

use super::Question;

const DISMISSED: &str =
    "the user dismissed the question; continue with your best judgement or ask differently";

/// The user's answers.
#[data]
pub struct Answers {
    /// Answer by question: a label, comma-separated labels, text, `yes` or `no`. Skipped questions are absent.
    pub answers: BTreeMap<String, String>,
    /// All questions in order.
    pub list: Vec<Answered>,
    /// The user answered no question.
    pub dismissed: bool,
}

/// One answer.
#[data]
pub struct Answered {
    /// The question.
    pub question: String,
    /// Its header.
    pub header: String,
    /// Text, a list of labels, or a boolean; null if skipped.
    pub answer: Value,
}

impl Answers {
    pub fn dismissed() -> Self {
        Self {
            answers: BTreeMap::new(),
            list: Vec::new(),
            dismissed: true,
        }
    }

    pub fn read(questions: &[Question], answers: Value) -> Result<Self> {
        let answers = match answers {
            Value::Null => return Ok(Self::dismissed()),
            Value::Array(answers) if answers.len() == questions.len() => answers,
            _ => {
                let message = format!(
                    "the host did not return a list of {} answers",
                    questions.len()
                );
                return Err(Error::failed(message).code("bad_answer"));
            }
        };
        let mut read = Self {
            answers: BTreeMap::new(),
            list: Vec::new(),
            dismissed: false,
        };
        for (
            Question {
                question, header, ..
            },
            answer,
        ) in questions.iter().zip(answers)
        {
            if let Some(text) = text(&answer) {
                read.answers.insert(question.clone(), text);
            }
            read.list.push(Answered {
                question: question.clone(),
                header: header.clone(),
                answer,
            });
        }
        read.dismissed = read.answers.is_empty();
        Ok(read)
    }

    pub fn outcome(&self) -> Outcome {
        if self.dismissed {
            return Outcome::text(DISMISSED)
                .summary("dismissed")
                .structured(self);
        }
        let lines: Vec<String> = self
            .list
            .iter()
            .map(
                |Answered {
                     question, answer, ..
                 }| {
                    // The answer is the user's own text, so it is passed on unchanged, including line breaks.
                    let answer = text(answer).unwrap_or_else(|| "(skipped)".to_owned());
                    format!("{} → {answer}", inline(question, 1000))
                },
            )
            .collect();
        let parts = self
            .list
            .iter()
            .filter_map(|Answered { header, answer, .. }| {
                Some(format!(
                    "{}: {}",
                    inline(header, 12),
                    inline(&text(answer)?, 60)
                ))
            });
        let summary = parts.collect::<Vec<_>>().join("; ");
        Outcome::text(format!("the user answered:\n{}", lines.join("\n")))
            .summary(summary)
            .structured(self)
    }
}

/// `None` for a skipped question.
fn text(answer: &Value) -> Option<String> {
    match answer {
        Value::Null => None,
        Value::Bool(confirmed) => Some(if *confirmed { "yes" } else { "no" }.to_owned()),
        Value::String(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
        Value::Array(labels) => {
            let labels: Vec<String> = labels.iter().filter_map(self::text).collect();
            Some(labels.join(", ")).filter(|labels| !labels.is_empty())
        }
        other => Some(other.to_string()),
    }
}
