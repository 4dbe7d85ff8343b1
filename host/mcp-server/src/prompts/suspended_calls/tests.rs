//! Tests of suspended calls that are answered elsewhere, expire or are resumed.

use rmcp::model::RequestMetaObject;
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::*;
use crate::prompts::ClientRequestSettings;

/// A call of which the test has the other ends of its channels.
struct TestCall {
    answers: oneshot::Receiver<Vec<Value>>,
    end: oneshot::Sender<()>,
    state: String,
}

struct TestHost {
    prompter: Arc<ElicitationPrompter>,
    running: RunningCount,
    binding: CallBinding,
}

impl TestHost {
    fn new() -> Self {
        let settings = ClientRequestSettings {
            questions: true,
            sampling: false,
        };
        Self {
            prompter: Arc::new(ElicitationPrompter::new(settings, None).unwrap()),
            running: RunningCount::default(),
            binding: CallBinding {
                key: SessionKey::local("s"),
                call: "call".to_owned(),
            },
        }
    }

    fn suspend(&self) -> TestCall {
        let (end, ended) = oneshot::channel();
        let (reply, answers) = oneshot::channel();
        let going = OngoingCall {
            future: CallFuture::Inline(Box::pin(async {
                let _ = ended.await;
                Err(())
            })),
            registration: None,
            events: Arc::new(EventRelay::new(
                "tool",
                false,
                &RequestMetaObject::default(),
                None,
            )),
            running: self.running.clone(),
            canonical_call: None,
            answered: Vec::new(),
            replayed: Vec::new(),
        };
        let request = InputRequestBatch {
            requests: Vec::new(),
            digest: None,
            reply,
        };
        let result = self.prompter.suspend(going, request, &self.binding);
        let result = result.unwrap_or_else(|_| panic!("the call is suspended"));
        TestCall {
            answers,
            end,
            state: result.request_state.unwrap(),
        }
    }

    fn resume(&self, state: &str) -> Option<Box<OngoingCall>> {
        match self.prompter.resume(state, None, &self.binding) {
            Ok(ResumeAction::Continue(going)) => Some(going),
            _ => None,
        }
    }

    fn suspended(&self) -> usize {
        self.prompter.lock_suspended().len()
    }
}

const SHORT: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn a_call_that_was_answered_elsewhere_is_not_ended_with_its_state() {
    let host = TestHost::new();
    let call = host.suspend();
    sleep(SHORT).await;
    assert_eq!(host.running.get(), 0, "it waits for its answer");
    drop(call.answers);
    sleep(SHORT).await;
    assert_eq!(host.running.get(), 1);
    sleep(request_state::TTL * 3).await;
    assert!(!call.end.is_closed(), "it still runs");
    assert_eq!(host.running.get(), 1);
    call.end.send(()).unwrap();
    sleep(SHORT).await;
    assert_eq!((host.running.get(), host.suspended()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_result_of_a_call_that_was_answered_elsewhere_is_kept_for_its_client() {
    for ends_first in [true, false] {
        let host = TestHost::new();
        let call = host.suspend();
        drop(call.answers);
        sleep(request_state::TTL / 2).await;
        assert_eq!(host.running.get(), 1);
        let mut end = Some(call.end);
        if ends_first {
            end.take().unwrap().send(()).unwrap();
            sleep(SHORT).await;
            assert_eq!((host.running.get(), host.suspended()), (0, 1));
        }
        let mut going = host.resume(&call.state).unwrap();
        sleep(SHORT).await;
        assert_eq!(host.running.get(), 0, "its request counts instead");
        drop(end);
        assert!(going.future.wait().await.is_err());
    }
    let host = TestHost::new();
    let call = host.suspend();
    drop(call.answers);
    call.end.send(()).unwrap();
    sleep(request_state::TTL + SHORT).await;
    assert_eq!((host.running.get(), host.suspended()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_ends_with_its_state() {
    let host = TestHost::new();
    let mut call = host.suspend();
    sleep(request_state::TTL / 2).await;
    assert_eq!((host.running.get(), host.suspended()), (0, 1));
    sleep(request_state::TTL / 2 + SHORT).await;
    assert_eq!((host.running.get(), host.suspended()), (0, 0));
    assert!(call.answers.try_recv().is_err(), "no answer will come");
    assert!(!call.end.is_closed(), "it can end by itself");
    sleep(END_TIMEOUT).await;
    assert!(call.end.is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_resumed_call_leaves_no_task() {
    let host = TestHost::new();
    let metrics = tokio::runtime::Handle::current().metrics();
    let before = metrics.num_alive_tasks();
    for _ in 0..100 {
        let call = host.suspend();
        assert!(host.resume(&call.state).is_some());
    }
    host.suspend();
    host.prompter.drop_run("s");
    sleep(SHORT).await;
    assert_eq!(metrics.num_alive_tasks(), before);
}
