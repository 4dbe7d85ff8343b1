//! Asks the program at the other end of `host turns` over its JSON lines.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use toolhost_contract::variables::Variables;
use toolhost_contract::{Answer, BoxFuture, Call, Question, QuestionForm, UserAnswer, text};
use toolhost_kernel::Prompter;

use super::write_line;
use crate::json;

/// The prompter that asks the program over its JSON lines.
#[derive(Default)]
pub struct JsonLinesPrompter(Mutex<OpenQuestions>);

#[derive(Default)]
struct OpenQuestions {
    last_id: u64,
    is_closed: bool,
    asks: HashMap<String, oneshot::Sender<Answer>>,
    interviews: HashMap<String, oneshot::Sender<Option<Vec<UserAnswer>>>>,
}

impl JsonLinesPrompter {
    fn lock(&self) -> MutexGuard<'_, OpenQuestions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn answer(&self, line: AnswerLine) -> Result<(), String> {
        let mut waiting = self.lock();
        // An answer that is not received belongs to a call that was just cancelled.
        let not_pending = |id: &str| format!("no pending question `{}`", text::escape_line(id, 80));
        if let Some(interview) = waiting.interviews.remove(&line.id) {
            return interview
                .send(line.replies)
                .map_err(|_| not_pending(&line.id));
        }
        let answer = match line {
            AnswerLine { cancel: true, .. } => Answer::Cancel,
            AnswerLine {
                allow: Some(offer), ..
            } => Answer::Allow { offer, note: None },
            AnswerLine {
                deny: Some(why), ..
            } => Answer::Deny {
                note: why.as_str().map(str::to_owned),
            },
            AnswerLine { .. } => {
                return Err("an answer needs `allow`, `deny`, `cancel` or `replies`".to_owned());
            }
        };
        let ask = waiting.asks.remove(&line.id);
        ask.and_then(|ask| ask.send(answer).ok())
            .ok_or_else(|| not_pending(&line.id))
    }

    pub fn close(&self) {
        let mut waiting = self.lock();
        waiting.is_closed = true;
        waiting.asks.clear();
        waiting.interviews.clear();
    }

    fn next_id(waiting: &mut OpenQuestions) -> String {
        // Drop questions of cancelled calls.
        waiting.asks.retain(|_, ask| !ask.is_closed());
        waiting
            .interviews
            .retain(|_, interview| !interview.is_closed());
        waiting.last_id += 1;
        format!("q-{}", waiting.last_id)
    }
}

impl Prompter for JsonLinesPrompter {
    fn name(&self) -> &'static str {
        "the program at the other end"
    }

    fn ask<'a>(&'a self, question: &'a Question, call: &'a Call) -> BoxFuture<'a, Answer> {
        let (sender, answer) = oneshot::channel();
        let id = {
            let mut waiting = self.lock();
            if waiting.is_closed {
                return Box::pin(std::future::ready(Answer::NoPrompter));
            }
            let id = Self::next_id(&mut waiting);
            waiting.asks.insert(id.clone(), sender);
            id
        };
        let changes = question.changes.as_ref().map(|set| {
            let changes = set.changes.iter();
            changes.map(json::change).collect::<Vec<_>>()
        });
        let mut line = json!({"ask": {
            "id": id,
            "call": call.id.0,
            "plugin": question.plugin,
            "tool": question.tool,
            "effect": question.effect.as_str(),
            "kind": question.kind.as_str(),
            "reason": question.reason,
            "agent": question.agent,
            "input": call.input,
            "changes": changes,
            "offers": question.offers.iter().map(|offer| offer.text.as_str()).collect::<Vec<_>>(),
        }});
        if !question.variables.is_empty() {
            let variables = question.variables.iter().cloned();
            line["ask"]["variables"] = json!(variables.collect::<Variables>());
        }
        write_line(&line);
        Box::pin(async move { answer.await.unwrap_or(Answer::NoPrompter) })
    }

    fn interview<'a>(
        &'a self,
        interview: &'a QuestionForm,
    ) -> BoxFuture<'a, Option<Option<Vec<UserAnswer>>>> {
        let (sender, replies) = oneshot::channel();
        let id = {
            let mut waiting = self.lock();
            if waiting.is_closed {
                return Box::pin(std::future::ready(None));
            }
            let id = Self::next_id(&mut waiting);
            waiting.interviews.insert(id.clone(), sender);
            id
        };
        write_line(&json!({"interview": {
            "id": id,
            "plugin": interview.plugin,
            "tool": interview.tool,
            "agent": interview.agent,
            "queries": interview.questions,
        }}));
        Box::pin(async move { replies.await.ok() })
    }
}

/// An answer of the program to a question.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerLine {
    id: String,
    #[serde(default)]
    allow: Option<usize>,
    #[serde(default)]
    deny: Option<Value>,
    #[serde(default)]
    cancel: bool,
    #[serde(default)]
    replies: Option<Vec<UserAnswer>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h_12_an_answer_to_a_closed_question_is_an_error() {
        let lines = JsonLinesPrompter::default();
        let answer_line = |id: &str| AnswerLine {
            id: id.to_owned(),
            allow: Some(0),
            deny: None,
            cancel: false,
            replies: None,
        };
        for id in ["q-1", "q-2"] {
            let (sender, answer) = oneshot::channel();
            lines.lock().asks.insert(id.to_owned(), sender);
            drop(answer);
        }
        assert_eq!(
            lines.answer(answer_line("q-1")).unwrap_err(),
            "no pending question `q-1`"
        );
        // Cancelled questions are dropped.
        JsonLinesPrompter::next_id(&mut lines.lock());
        assert!(lines.lock().asks.is_empty());
        let long = lines.answer(answer_line(&"q".repeat(1 << 20))).unwrap_err();
        assert!(long.len() < 200, "{long}");
    }
}
