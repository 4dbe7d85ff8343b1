//! A prompter that calls a function, for programs with their own user interface.

use toolhost_contract::{Answer, BoxFuture, Call, Question};

use super::Prompter;

/// A prompter that asks the user by calling a function.
///
/// ```
/// use toolhost_contract::Answer;
/// use toolhost_kernel::CallbackPrompter;
///
/// let prompter = CallbackPrompter::new("my window", |question, _call| async move {
///     match question.tool.as_str() {
///         "write_file" => Answer::once(),
///         _ => Answer::Deny { note: Some("only files may be written here".to_owned()) },
///     }
/// });
/// # let _: &dyn toolhost_kernel::Prompter = &prompter;
/// ```
pub struct CallbackPrompter<F> {
    name: String,
    ask: F,
}

impl<F, Answering> CallbackPrompter<F>
where
    F: Fn(Question, Call) -> Answering + Send + Sync,
    Answering: Future<Output = Answer> + Send + 'static,
{
    /// Creates a prompter. `name` is recorded as the author of the answers.
    pub fn new(name: impl Into<String>, ask: F) -> Self {
        Self {
            name: name.into(),
            ask,
        }
    }
}

impl<F, Answering> Prompter for CallbackPrompter<F>
where
    F: Fn(Question, Call) -> Answering + Send + Sync,
    Answering: Future<Output = Answer> + Send + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn ask<'a>(&'a self, question: &'a Question, call: &'a Call) -> BoxFuture<'a, Answer> {
        Box::pin((self.ask)(question.clone(), call.clone()))
    }
}
