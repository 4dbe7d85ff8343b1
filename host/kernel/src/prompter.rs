//! Where the answer to a question comes from.

use toolhost_contract::{Answer, BoxFuture, Call, Question};

/// A terminal, an MCP client, or [`Nobody`]. Takes as long as the person takes: no clock of a call runs meanwhile.
pub trait Prompter: Send + Sync {
    /// Who answers, for the record.
    #[expect(
        clippy::unnecessary_literal_bound,
        reason = "another prompter may know a name"
    )]
    fn name(&self) -> &str {
        "person"
    }

    fn ask<'a>(&'a self, question: &'a Question, call: &'a Call) -> BoxFuture<'a, Answer>;
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
