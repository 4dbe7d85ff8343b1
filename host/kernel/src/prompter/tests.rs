//! Prompters without a user, in the pipeline.

use std::sync::Arc;

use serde_json::json;
use toolhost_contract::{
    Answer, Backend, BoxFuture, Call, CallError, CallId, Descriptor, Grant, NoSink, Outcome,
    PluginName, Principal, Sink, ToolName,
};

use super::{CallbackPrompter, Prompter, ScriptedPrompter};
use crate::{AttributedAnswer, CallRequest, Kernel, KernelSettings, PluginInfo};

/// A tool that may destroy data, so that the user is asked.
struct Eraser([Descriptor; 1]);

impl Backend for Eraser {
    fn tools(&self) -> &[Descriptor] {
        &self.0
    }

    fn invoke(
        &self,
        call: Call,
        _: Grant,
        _: Arc<dyn Sink>,
    ) -> BoxFuture<'_, Result<Outcome, CallError>> {
        Box::pin(async move { Ok(Outcome::text(call.input.to_string())) })
    }
}

fn kernel(prompter: Arc<dyn Prompter>) -> Kernel {
    let kernel = Kernel::new(KernelSettings::default(), prompter).unwrap();
    let mut tool = Descriptor::new(ToolName::parse("erase").unwrap(), "");
    tool.input_schema = json!({"type": "object"});
    let plugin = PluginInfo {
        name: PluginName::parse("p").unwrap(),
        version: "1.0.0".to_owned(),
        digest: None,
        timeout: None,
    };
    kernel.register(plugin, Arc::new(Eraser([tool]))).unwrap();
    kernel
}

/// Returns the result for the model and who allowed the call.
async fn call(kernel: &Kernel, id: &str) -> (String, Option<String>) {
    let request = CallRequest::new(
        CallId(id.to_owned()),
        "erase",
        json!({"n": 1}),
        Principal::default(),
    );
    let report = kernel.call(request, Arc::new(NoSink)).await;
    let text = match report.result {
        Ok(outcome) => outcome.model_text(),
        Err(error) => error.for_model(),
    };
    (text, report.allowed_by)
}

#[tokio::test]
async fn a_scripted_prompter_answers_in_order_and_records_the_questions() {
    let input = json!({"n": 2});
    let script = Arc::new(ScriptedPrompter::new([
        Answer::once(),
        Answer::Modify { input },
        Answer::once(),
        Answer::Deny {
            note: Some("not now".to_owned()),
        },
    ]));
    let kernel = kernel(Arc::clone(&script) as Arc<dyn Prompter>);
    assert_eq!(call(&kernel, "1").await.0, r#"{"n":1}"#);
    assert_eq!(call(&kernel, "2").await.0, r#"{"n":2}"#);
    assert_eq!(script.remaining(), 1);
    let (denied, _) = call(&kernel, "3").await;
    assert!(denied.contains("not now"), "{denied}");
    let (unanswered, _) = call(&kernel, "4").await;
    assert!(
        unanswered.contains("no terminal is available"),
        "{unanswered}"
    );
    let questions = script.asked();
    let questions: Vec<&str> = questions
        .iter()
        .map(|question| question.call.0.as_str())
        .collect();
    assert_eq!(questions, ["1", "2", "2", "3", "4"]);
}

// R-190, R-201: an answer needs no callback object
#[tokio::test]
async fn a_callback_is_asked_and_the_answer_may_come_from_elsewhere() {
    let kernel = kernel(Arc::new(CallbackPrompter::new(
        "window",
        |question, call| async move {
            assert_eq!(
                (question.tool.as_str(), &call.input),
                ("erase", &json!({"n": 1}))
            );
            match call.id.0.as_str() {
                "1" => Answer::once(),
                _ => std::future::pending().await,
            }
        },
    )));
    let (text, by) = call(&kernel, "1").await;
    assert_eq!(text, r#"{"n":1}"#);
    assert_eq!(by.as_deref(), Some("the user, once"));
    let answer = async {
        while kernel.pending().is_empty() {
            tokio::task::yield_now().await;
        }
        let answered = AttributedAnswer {
            answer: Answer::Deny { note: None },
            by: "web".to_owned(),
        };
        kernel.answer(&CallId("2".to_owned()), answered).unwrap();
    };
    let ((text, _), ()) = tokio::join!(call(&kernel, "2"), answer);
    assert!(text.contains("the user rejected"), "{text}");
}

/// Never answers, and records answers from elsewhere.
#[derive(Default)]
struct SilentPrompter(ScriptedPrompter);

impl Prompter for SilentPrompter {
    fn ask<'a>(&'a self, _: &'a toolhost_contract::Question, _: &'a Call) -> BoxFuture<'a, Answer> {
        Box::pin(std::future::pending())
    }

    fn answered_elsewhere(&self, call: &CallId, by: &str) {
        self.0.answered_elsewhere(call, by);
    }
}

#[tokio::test]
async fn a_prompter_is_notified_of_an_answer_from_elsewhere() {
    let deaf = Arc::new(SilentPrompter::default());
    let kernel = kernel(Arc::clone(&deaf) as Arc<dyn Prompter>);
    let answer = async {
        while kernel.pending().is_empty() {
            tokio::task::yield_now().await;
        }
        let answered = AttributedAnswer {
            answer: Answer::once(),
            by: "web".to_owned(),
        };
        kernel.answer(&CallId("1".to_owned()), answered).unwrap();
    };
    let ((text, _), ()) = tokio::join!(call(&kernel, "1"), answer);
    assert_eq!(text, r#"{"n":1}"#);
    assert_eq!(
        deaf.0.answered_elsewhere_calls(),
        [(CallId("1".to_owned()), "web".to_owned())]
    );
}
