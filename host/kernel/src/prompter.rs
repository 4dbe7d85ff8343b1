//! Prompters, which ask the user questions.

mod callback;
mod scripted;
#[cfg(test)]
mod tests;

use toolhost_contract::{Answer, BoxFuture, Call, CallId, Question, QuestionForm, UserAnswer};

pub use callback::CallbackPrompter;
pub use scripted::ScriptedPrompter;

/// Asks the user through a terminal, an MCP client, a program ([`CallbackPrompter`]), a list ([`ScriptedPrompter`]) or
/// [`NoPrompter`]. An answer may take any amount of time, because deadlines of calls are paused.
pub trait Prompter: Send + Sync {
    /// Returns the author of the answers, for the record.
    #[expect(
        clippy::unnecessary_literal_bound,
        reason = "an implementation may hold its name"
    )]
    fn name(&self) -> &str {
        "user"
    }

    /// Returns the author of the answer for this call, if it is known more precisely.
    fn author(&self, _call: &CallId) -> String {
        self.name().to_owned()
    }

    /// Asks a question. Dropped if the call is cancelled or answered elsewhere. Calls of one turn ask concurrently.
    fn ask<'a>(&'a self, question: &'a Question, call: &'a Call) -> BoxFuture<'a, Answer>;

    /// Asks the questions of a tool. `None`: no user is available; an inner `None`: the user dismissed the questions.
    fn interview<'a>(
        &'a self,
        _interview: &'a QuestionForm,
    ) -> BoxFuture<'a, Option<Option<Vec<UserAnswer>>>> {
        Box::pin(std::future::ready(None))
    }

    /// Like [`Prompter::interview`], with the author of the replies.
    fn attributed_interview<'a>(
        &'a self,
        interview: &'a QuestionForm,
    ) -> BoxFuture<'a, Option<AttributedReplies>> {
        Box::pin(async move {
            let replies = self.interview(interview).await?;
            let by = self.author(&interview.call);
            Some(AttributedReplies { replies, by })
        })
    }

    /// Returns how to make a user available, for the error message when there is none.
    fn remedy(&self) -> Option<&str> {
        None
    }

    /// The question about this call was answered elsewhere; the future of [`Prompter::ask`] is dropped next.
    fn answered_elsewhere(&self, _call: &CallId, _by: &str) {}
}

/// The replies to the questions of a tool, and their author.
#[derive(Debug, Clone, PartialEq)]
pub struct AttributedReplies {
    /// `None`: the user dismissed the questions.
    pub replies: Option<Vec<UserAnswer>>,
    pub by: String,
}

/// A prompter without a user. Questions are denied with a hint which rule would allow the call.
pub struct NoPrompter;

impl Prompter for NoPrompter {
    fn name(&self) -> &'static str {
        "none"
    }

    fn ask<'a>(&'a self, _question: &'a Question, _call: &'a Call) -> BoxFuture<'a, Answer> {
        Box::pin(std::future::ready(Answer::NoPrompter))
    }
}
