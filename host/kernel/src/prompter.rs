//! Where the answer to a question comes from.

mod callback;
mod scripted;
#[cfg(test)]
mod tests;

use toolhost_contract::{Answer, BoxFuture, Call, CallId, Interview, Question, Reply};

pub use callback::Callback;
pub use scripted::Scripted;

/// A terminal, an MCP client, a program ([`Callback`]), a list ([`Scripted`]), or [`Nobody`]. Takes as long as the
/// person takes: no clock of a call runs meanwhile.
pub trait Prompter: Send + Sync {
    /// Who answers, for the record.
    #[expect(
        clippy::unnecessary_literal_bound,
        reason = "an implementation may hold its name"
    )]
    fn name(&self) -> &str {
        "person"
    }

    /// Who answers what is asked about this call, where that is known better.
    fn who(&self, _call: &CallId) -> String {
        self.name().to_owned()
    }

    /// Dropped when the call is cancelled or the answer came another way. The calls of one turn ask side by side.
    fn ask<'a>(&'a self, question: &'a Question, call: &'a Call) -> BoxFuture<'a, Answer>;

    /// Asks what a tool wants to know. None: nobody can be asked; an inner None: the person does not want to answer.
    fn interview<'a>(
        &'a self,
        _interview: &'a Interview,
    ) -> BoxFuture<'a, Option<Option<Vec<Reply>>>> {
        Box::pin(std::future::ready(None))
    }

    /// Where nobody is there to ask: what would bring somebody, for whoever reads the refusal.
    fn remedy(&self) -> Option<&str> {
        None
    }

    /// Somebody else has answered the question about this call; the future of [`Prompter::ask`] is dropped next.
    fn answered_elsewhere(&self, _call: &CallId, _by: &str) {}
}

/// For hosts without a person. The policy reads its answer as a no and says what rule would be a yes.
pub struct Nobody;

impl Prompter for Nobody {
    fn name(&self) -> &'static str {
        "nobody"
    }

    fn ask<'a>(&'a self, _question: &'a Question, _call: &'a Call) -> BoxFuture<'a, Answer> {
        Box::pin(std::future::ready(Answer::NobodyToAsk))
    }
}
