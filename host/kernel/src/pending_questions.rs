//! Pending questions, and the ways in which they can be answered.
//!
//! An answer comes from the prompter, from [`crate::Kernel::answer`] or from another process through the store. The
//! first answer counts; later ones are errors.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use toolhost_contract::{Answer, CallId, Question};

/// An answer and its author.
#[derive(Debug, Clone, PartialEq)]
pub struct AttributedAnswer {
    pub answer: Answer,
    pub by: String,
}

/// A pending question.
#[derive(Debug, Clone)]
pub struct PendingQuestion {
    pub call: CallId,
    pub question: Question,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuestionError {
    #[error("call {0} is not waiting for an answer: it is unknown, has ended or has not asked")]
    NotWaiting(CallId),
    #[error("call {0} has already been answered")]
    AlreadyAnswered(CallId),
}

#[derive(Default)]
pub(crate) struct PendingQuestions(Mutex<HashMap<CallId, WaitingQuestion>>);

struct WaitingQuestion {
    question: Question,
    /// `None` once there is an answer.
    answer: Option<oneshot::Sender<AttributedAnswer>>,
}

/// Keeps the question pending until dropped.
pub(crate) struct QuestionGuard<'a> {
    asks: &'a PendingQuestions,
    call: CallId,
    pub(crate) answer: oneshot::Receiver<AttributedAnswer>,
}

impl PendingQuestions {
    pub(crate) fn open(&self, call: CallId, question: Question) -> QuestionGuard<'_> {
        let (sender, answer) = oneshot::channel();
        let waiting = WaitingQuestion {
            question,
            answer: Some(sender),
        };
        self.all().insert(call.clone(), waiting);
        QuestionGuard {
            asks: self,
            call,
            answer,
        }
    }

    pub(crate) fn answer(
        &self,
        call: &CallId,
        answered: AttributedAnswer,
    ) -> Result<(), QuestionError> {
        let mut all = self.all();
        let waiting = all
            .get_mut(call)
            .ok_or_else(|| QuestionError::NotWaiting(call.clone()))?;
        let sender = waiting
            .answer
            .take()
            .ok_or_else(|| QuestionError::AlreadyAnswered(call.clone()))?;
        sender
            .send(answered)
            .map_err(|_| QuestionError::NotWaiting(call.clone()))
    }

    pub(crate) fn count(&self) -> usize {
        let all = self.all();
        all.values()
            .filter(|waiting| waiting.answer.is_some())
            .count()
    }

    pub(crate) fn pending(&self) -> Vec<PendingQuestion> {
        let mut pending: Vec<PendingQuestion> = self
            .all()
            .iter()
            .filter(|(_, waiting)| waiting.answer.is_some())
            .map(|(call, waiting)| PendingQuestion {
                call: call.clone(),
                question: waiting.question.clone(),
            })
            .collect();
        pending.sort_by(|a, b| a.call.0.cmp(&b.call.0));
        pending
    }

    fn all(&self) -> MutexGuard<'_, HashMap<CallId, WaitingQuestion>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for QuestionGuard<'_> {
    fn drop(&mut self) {
        self.asks.all().remove(&self.call);
    }
}
