//! A prompter with prepared answers, for tests.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use toolhost_contract::{Answer, BoxFuture, Call, CallId, Question};

use super::Prompter;
use crate::PendingQuestion;

/// A prompter that gives prepared answers in order and records the questions. After the last answer there is no user.
#[derive(Default)]
pub struct ScriptedPrompter(Mutex<Script>);

#[derive(Default)]
struct Script {
    answers: VecDeque<Answer>,
    questions: Vec<PendingQuestion>,
    elsewhere: Vec<(CallId, String)>,
}

impl ScriptedPrompter {
    pub fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        let script = Script {
            answers: answers.into_iter().collect(),
            ..Script::default()
        };
        Self(Mutex::new(script))
    }

    /// Returns the questions so far.
    pub fn asked(&self) -> Vec<PendingQuestion> {
        self.script().questions.clone()
    }

    /// Returns the calls that were answered elsewhere, with the author of the answer.
    pub fn answered_elsewhere_calls(&self) -> Vec<(CallId, String)> {
        self.script().elsewhere.clone()
    }

    /// Returns the number of unused answers.
    pub fn remaining(&self) -> usize {
        self.script().answers.len()
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Prompter for ScriptedPrompter {
    fn name(&self) -> &'static str {
        "script"
    }

    fn ask<'a>(&'a self, question: &'a Question, call: &'a Call) -> BoxFuture<'a, Answer> {
        let mut script = self.script();
        script.questions.push(PendingQuestion {
            call: call.id.clone(),
            question: question.clone(),
        });
        let answer = script.answers.pop_front().unwrap_or(Answer::NoPrompter);
        Box::pin(std::future::ready(answer))
    }

    fn answered_elsewhere(&self, call: &CallId, by: &str) {
        self.script().elsewhere.push((call.clone(), by.to_owned()));
    }
}
