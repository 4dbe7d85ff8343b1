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
pub struct Answered {
    pub answer: Answer,
    pub by: String,
}

/// A pending question.
#[derive(Debug, Clone)]
pub struct Pending {
    pub call: CallId,
    pub question: Question,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    #[error("call {0} is not waiting for an answer: it is unknown, has ended or has not asked")]
    NotWaiting(CallId),
    #[error("call {0} has already been answered")]
    Answered(CallId),
}

#[derive(Default)]
pub(crate) struct Asks(Mutex<HashMap<CallId, Waiting>>);

struct Waiting {
    question: Question,
    /// `None` once there is an answer.
    answer: Option<oneshot::Sender<Answered>>,
}

/// Keeps the question pending until dropped.
pub(crate) struct Asking<'a> {
    asks: &'a Asks,
    call: CallId,
    pub(crate) answer: oneshot::Receiver<Answered>,
}

impl Asks {
    pub(crate) fn open(&self, call: CallId, question: Question) -> Asking<'_> {
        let (sender, answer) = oneshot::channel();
        let waiting = Waiting {
            question,
            answer: Some(sender),
        };
        self.all().insert(call.clone(), waiting);
        Asking {
            asks: self,
            call,
            answer,
        }
    }

    pub(crate) fn answer(&self, call: &CallId, answered: Answered) -> Result<(), AnswerError> {
        let mut all = self.all();
        let waiting = all
            .get_mut(call)
            .ok_or_else(|| AnswerError::NotWaiting(call.clone()))?;
        let sender = waiting
            .answer
            .take()
            .ok_or_else(|| AnswerError::Answered(call.clone()))?;
        sender
            .send(answered)
            .map_err(|_| AnswerError::NotWaiting(call.clone()))
    }

    pub(crate) fn pending(&self) -> Vec<Pending> {
        let mut pending: Vec<Pending> = self
            .all()
            .iter()
            .filter(|(_, waiting)| waiting.answer.is_some())
            .map(|(call, waiting)| Pending {
                call: call.clone(),
                question: waiting.question.clone(),
            })
            .collect();
        pending.sort_by(|a, b| a.call.0.cmp(&b.call.0));
        pending
    }

    fn all(&self) -> MutexGuard<'_, HashMap<CallId, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.asks.all().remove(&self.call);
    }
}
