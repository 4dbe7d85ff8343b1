//! Asks the program at the other end of `host turns` over its JSON lines.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use toolhost_contract::variables::Variables;
use toolhost_contract::{
    Answer, BoxFuture, Call, Question, QuestionForm, UserAnswer, UserQuestion, text,
};
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
    asks: HashMap<String, OpenAsk>,
    interviews: HashMap<String, OpenInterview>,
}

/// A request for approval that is not answered yet.
struct OpenAsk {
    /// Number of offers.
    offers: usize,
    sender: oneshot::Sender<Answer>,
}

impl OpenAsk {
    fn accept(&self, decision: Decision) -> Result<Answer, String> {
        match decision {
            Decision::Allow(offer) if offer < self.offers => {
                Ok(Answer::Allow { offer, note: None })
            }
            Decision::Allow(offer) => Err(format!(
                "`allow` is {offer}, but the number of offers is {}; the first has the index 0",
                self.offers
            )),
            Decision::Deny(note) => Ok(Answer::Deny { note }),
            Decision::Cancel => Ok(Answer::Cancel),
            Decision::Reply(_) => Err(
                "this is a request for approval; answer with `allow`, `deny` or `cancel`"
                    .to_owned(),
            ),
        }
    }
}

/// Questions of a tool that are not answered yet.
struct OpenInterview {
    questions: Vec<UserQuestion>,
    sender: oneshot::Sender<Option<Vec<UserAnswer>>>,
}

impl OpenInterview {
    fn accept(&self, decision: Decision) -> Result<Option<Vec<UserAnswer>>, String> {
        let replies = match decision {
            Decision::Reply(Replies::Given(replies)) => replies,
            Decision::Reply(Replies::Dismissed) | Decision::Cancel => return Ok(None),
            Decision::Allow(_) | Decision::Deny(_) => {
                return Err("these are questions; answer with `replies` or `cancel`".to_owned());
            }
        };
        if replies.len() != self.questions.len() {
            return Err(format!(
                "the number of `replies` is {}, and that of questions is {}; give one for each",
                replies.len(),
                self.questions.len()
            ));
        }
        let unfit = self
            .questions
            .iter()
            .zip(&replies)
            .position(|(question, reply)| !question.accepts(reply));
        match unfit {
            Some(index) => Err(format!(
                "reply {} does not fit the `type` of its question",
                index + 1
            )),
            None => Ok(Some(replies)),
        }
    }
}

impl JsonLinesPrompter {
    fn lock(&self) -> MutexGuard<'_, OpenQuestions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers an open question. An answer that does not fit is an error, and the question stays open.
    pub fn answer(&self, line: AnswerLine) -> Result<(), String> {
        let (id, decision) = line.parse()?;
        // An answer that is not received belongs to a call that was just cancelled.
        let not_pending = format!("no pending question `{}`", text::escape_line(&id, 80));
        let mut waiting = self.lock();
        if let Entry::Occupied(interview) = waiting.interviews.entry(id.clone()) {
            let replies = interview.get().accept(decision)?;
            let sent = interview.remove().sender.send(replies);
            return sent.map_err(|_| not_pending);
        }
        let Entry::Occupied(ask) = waiting.asks.entry(id) else {
            return Err(not_pending);
        };
        let answer = ask.get().accept(decision)?;
        ask.remove().sender.send(answer).map_err(|_| not_pending)
    }

    pub fn close(&self) {
        let mut waiting = self.lock();
        waiting.is_closed = true;
        waiting.asks.clear();
        waiting.interviews.clear();
    }

    fn next_id(waiting: &mut OpenQuestions) -> String {
        // Drop questions of cancelled calls.
        waiting.asks.retain(|_, ask| !ask.sender.is_closed());
        waiting
            .interviews
            .retain(|_, interview| !interview.sender.is_closed());
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
            let offers = question.offers.len();
            let ask = OpenAsk { offers, sender };
            waiting.asks.insert(id.clone(), ask);
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
            let questions = interview.questions.clone();
            let open = OpenInterview { questions, sender };
            waiting.interviews.insert(id.clone(), open);
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

/// An answer of the program to a question. Valid if it has exactly one member besides the id.
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
    #[serde(default, deserialize_with = "Replies::read")]
    replies: Option<Replies>,
}

enum Replies {
    Given(Vec<UserAnswer>),
    /// `null`.
    Dismissed,
}

impl Replies {
    /// Distinguishes `null` from a missing member.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error> {
        let replies = Option::<Vec<UserAnswer>>::deserialize(deserializer)?;
        Ok(Some(replies.map_or(Self::Dismissed, Self::Given)))
    }
}

enum Decision {
    /// The index of an offer.
    Allow(usize),
    /// A message to the model.
    Deny(Option<String>),
    Cancel,
    Reply(Replies),
}

impl AnswerLine {
    fn parse(self) -> Result<(String, Decision), String> {
        let deny = match self.deny {
            None => None,
            Some(Value::String(message)) => Some(Decision::Deny(Some(message))),
            Some(Value::Bool(true)) => Some(Decision::Deny(None)),
            Some(_) => return Err("`deny` is neither a message nor true".to_owned()),
        };
        let given = [
            self.allow.map(Decision::Allow),
            deny,
            self.cancel.then_some(Decision::Cancel),
            self.replies.map(Decision::Reply),
        ];
        // An answer that both allows and denies must not be read as an approval.
        let mut given = given.into_iter().flatten();
        match (given.next(), given.next()) {
            (Some(decision), None) => Ok((self.id, decision)),
            _ => Err(
                "an answer needs exactly one of `allow`, `deny`, `cancel` and `replies`".to_owned(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(answer: Value) -> AnswerLine {
        serde_json::from_value(answer).unwrap()
    }

    #[test]
    fn h_12_an_answer_to_a_closed_question_is_an_error() {
        let lines = JsonLinesPrompter::default();
        let answer_line = |id: &str| line(json!({"id": id, "allow": 0}));
        for id in ["q-1", "q-2"] {
            let (sender, answer) = oneshot::channel();
            let ask = OpenAsk { offers: 1, sender };
            lines.lock().asks.insert(id.to_owned(), ask);
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

    #[test]
    fn an_answer_that_does_not_fit_is_refused_and_the_question_stays_open() {
        let lines = JsonLinesPrompter::default();
        let (sender, mut answer) = oneshot::channel();
        let ask = OpenAsk { offers: 2, sender };
        lines.lock().asks.insert("q-1".to_owned(), ask);
        for (members, part) in [
            (json!({}), "exactly one of"),
            (json!({"allow": 0, "deny": "no"}), "exactly one of"),
            (json!({"allow": 0, "cancel": true}), "exactly one of"),
            (json!({"allow": 0, "replies": null}), "exactly one of"),
            (json!({"deny": 5}), "neither a message nor true"),
            (json!({"deny": false}), "neither a message nor true"),
            (json!({"allow": 2}), "the number of offers is 2"),
            (json!({"replies": ["x"]}), "a request for approval"),
            (json!({"replies": null}), "a request for approval"),
        ] {
            let mut given = members.clone();
            given["id"] = json!("q-1");
            let error = lines.answer(line(given)).expect_err(&members.to_string());
            assert!(error.contains(part), "{members}: {error}");
            assert!(answer.try_recv().is_err(), "{members}");
        }
        lines
            .answer(line(json!({"id": "q-1", "allow": 1})))
            .unwrap();
        let allowed = Answer::Allow {
            offer: 1,
            note: None,
        };
        assert_eq!(answer.try_recv(), Ok(allowed));
    }

    #[test]
    fn replies_have_to_fit_the_questions() {
        let questions = json!([
            {"question": "Which?", "options": [{"label": "a"}, {"label": "b"}]},
            {"question": "Sure?", "type": "yesno"},
        ]);
        for (members, expected) in [
            (json!({"replies": ["a", true]}), Ok(Some(2))),
            (json!({"replies": null}), Ok(None)),
            (json!({"cancel": true}), Ok(None)),
            (json!({}), Err("exactly one of")),
            (json!({"allow": 0}), Err("these are questions")),
            (json!({"deny": true}), Err("these are questions")),
            (
                json!({"replies": ["a"]}),
                Err("of `replies` is 1, and that of questions is 2"),
            ),
            (json!({"replies": ["a", "b"]}), Err("reply 2 does not fit")),
            (
                json!({"replies": [["a"], true]}),
                Err("reply 1 does not fit"),
            ),
        ] {
            let lines = JsonLinesPrompter::default();
            let (sender, mut replies) = oneshot::channel();
            let questions = UserQuestion::parse(&questions.to_string()).unwrap();
            let interview = OpenInterview { questions, sender };
            lines.lock().interviews.insert("q-1".to_owned(), interview);
            let mut given = members.clone();
            given["id"] = json!("q-1");
            match (lines.answer(line(given)), expected) {
                (Ok(()), Ok(count)) => {
                    let replies = replies.try_recv().unwrap();
                    assert_eq!(replies.map(|replies| replies.len()), count, "{members}");
                }
                (Err(error), Err(part)) => {
                    assert!(error.contains(part), "{members}: {error}");
                    assert!(lines.lock().interviews.contains_key("q-1"), "{members}");
                }
                (found, _) => panic!("{members}: {found:?}"),
            }
        }
    }
}
