//! A prompter that asks on the page and, at the same time, as another prompter does.

use std::future::pending;
use std::sync::Arc;

use toolhost_contract::{Answer, BoxFuture, Call, CallId, Question, QuestionForm, UserAnswer};
use toolhost_kernel::{AttributedReplies, Prompter};

use crate::inbox::Inbox;

/// Asks on the page and through another prompter. The first answer counts.
///
/// An answer of the page reaches the kernel through [`toolhost_kernel::Kernel::answer`], which drops the future of
/// [`Prompter::ask`]. Without a served page, this prompter behaves as the other one.
pub struct UiPrompter {
    inner: Arc<dyn Prompter>,
    inbox: Arc<Inbox>,
}

impl UiPrompter {
    pub fn new(inner: Arc<dyn Prompter>, inbox: Arc<Inbox>) -> Self {
        Self { inner, inbox }
    }
}

impl Prompter for UiPrompter {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn author(&self, call: &CallId) -> String {
        self.inner.author(call)
    }

    fn ask<'a>(&'a self, question: &'a Question, call: &'a Call) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let entry = self.inbox.open(question, call);
            let answer = self.inner.ask(question, call).await;
            let is_asked_here_only =
                matches!(answer, Answer::NoPrompter | Answer::Unreviewable { .. });
            if is_asked_here_only && self.inbox.is_served() {
                return pending().await;
            }
            if let Some(outcome) = outcome(&answer) {
                entry.answered_by(self.inner.author(&call.id), outcome);
            }
            answer
        })
    }

    fn interview<'a>(
        &'a self,
        interview: &'a QuestionForm,
    ) -> BoxFuture<'a, Option<Option<Vec<UserAnswer>>>> {
        Box::pin(async move {
            let given = self.attributed_interview(interview).await?;
            Some(given.replies)
        })
    }

    fn attributed_interview<'a>(
        &'a self,
        interview: &'a QuestionForm,
    ) -> BoxFuture<'a, Option<AttributedReplies>> {
        Box::pin(async move {
            let mut entry = self.inbox.open_interview(interview);
            let elsewhere = async {
                match self.inner.attributed_interview(interview).await {
                    None if self.inbox.is_served() => pending().await,
                    given => given,
                }
            };
            tokio::select! {
                biased;
                Ok(given) = &mut entry.answer => Some(given),
                given = elsewhere => given,
            }
        })
    }

    fn remedy(&self) -> Option<&str> {
        self.inner.remedy()
    }

    fn answered_elsewhere(&self, call: &CallId, by: &str) {
        self.inbox.answered_elsewhere(call, by);
        self.inner.answered_elsewhere(call, by);
    }
}

/// Returns what the page says about an answer; `None` if it is not the answer of a user.
pub(crate) fn outcome(answer: &Answer) -> Option<&'static str> {
    match answer {
        Answer::Allow { .. } => Some("approved"),
        Answer::Edit { .. } => Some("approved with changes"),
        Answer::Deny { .. } => Some("declined"),
        Answer::Cancel => Some("cancelled"),
        Answer::Modify { .. } => Some("sent back with another input"),
        Answer::NoPrompter | Answer::Unreviewable { .. } | Answer::TimedOut => None,
    }
}
