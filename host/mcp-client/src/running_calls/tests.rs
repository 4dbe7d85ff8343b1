//! Tests of progress delivery, and of the assignment of questions to calls.

use futures::FutureExt as _;

use super::*;
use crate::testing::RecordingSink;

fn token(number: i64) -> ProgressToken {
    ProgressToken(NumberOrString::Number(number))
}

fn running(sink: Arc<dyn Sink>, session: &str) -> Arc<RunningCall> {
    let caller = Principal::in_session(&SessionKey::local(session));
    Arc::new(RunningCall::new(sink, None, &caller))
}

/// A call of this session whose request was sent.
fn entered(calls: &Arc<RunningCalls>, id: i64, session: &str) -> CallRegistration {
    let entered = calls.register(running(Arc::new(NoSink), session));
    entered.sent(&token(id), &NumberOrString::Number(id));
    entered
}

/// The session of the call that a question belongs to, or why there is none; `None` while the question waits.
fn about(
    question: &mut BoxFuture<'_, Result<QuestionOrigin, UnassignedQuestion>>,
) -> Option<Result<String, UnassignedQuestion>> {
    let about = question.as_mut().now_or_never()?;
    Some(about.map(|asker| asker.running.owner.session.to_string()))
}

fn named<'a>(
    calls: &'a RunningCalls,
    id: &'a RequestId,
) -> BoxFuture<'a, Result<QuestionOrigin, UnassignedQuestion>> {
    Box::pin(calls.by_request_id(id))
}

fn asks(calls: &RunningCalls) -> BoxFuture<'_, Result<QuestionOrigin, UnassignedQuestion>> {
    Box::pin(calls.only_running())
}

fn progress(number: i64, at: f64) -> ProgressNotificationParam {
    ProgressNotificationParam::new(token(number), at)
}

#[tokio::test(start_paused = true)]
async fn early_progress_is_delivered_and_progress_must_increase() {
    let (calls, received) = (
        Arc::new(RunningCalls::default()),
        Arc::new(RecordingSink::default()),
    );
    calls.progress(progress(1, 1.0));
    calls.progress(progress(2, 5.0));
    let entered = calls.register(running(received.clone(), "a"));
    entered.sent(&token(1), &NumberOrString::Number(7));
    for at in [2.0, 2.0, 1.0, f64::NAN, 3.0] {
        tokio::time::advance(REPORT_INTERVAL).await;
        calls.progress(progress(1, at));
    }
    drop(entered);
    calls.progress(progress(1, 4.0));
    let values: Vec<f64> = received
        .events()
        .into_iter()
        .map(|event| match event {
            CallEvent::Progress { progress, .. } => progress.unwrap(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(values, [1.0, 2.0, 3.0]);
    let early = calls.lock().early.len();
    assert!(early <= MAX_EARLY_PROGRESS);
    let foreign = ProgressToken(NumberOrString::String("x".into()));
    calls.progress(ProgressNotificationParam::new(foreign, 1.0));
    assert_eq!(calls.lock().early.len(), early);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_user_does_not_count() {
    let ask: Arc<AskUser> = Arc::new(|_| {
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(100)).await;
            Ok(Vec::new())
        })
    });
    let running = RunningCall::new(Arc::new(NoSink), Some(ask), &Principal::default());
    let asks = async {
        let _ = running.ask(Vec::new()).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
    };
    assert!(
        running
            .run_with_timeout(Duration::from_secs(10), asks)
            .await
            .is_some()
    );
    let running = RunningCall::new(Arc::new(NoSink), None, &Principal::default());
    let hangs = std::future::pending::<()>();
    let begun = Instant::now();
    assert!(
        running
            .run_with_timeout(Duration::from_secs(10), hangs)
            .await
            .is_none()
    );
    assert_eq!(begun.elapsed(), Duration::from_secs(10));
}

#[tokio::test]
async fn c_03_a_question_belongs_to_the_request_it_names() {
    let calls = Arc::new(RunningCalls::default());
    let (one, two) = (entered(&calls, 1, "a"), entered(&calls, 2, "b"));
    for (id, session) in [(1, "a"), (2, "b")] {
        let id = NumberOrString::Number(id);
        assert_eq!(about(&mut named(&calls, &id)), Some(Ok(session.to_owned())));
    }
    // The server can be faster than the sender, which learns the ID afterwards.
    let three = calls.register(running(Arc::new(NoSink), "c"));
    let id = NumberOrString::Number(3);
    let mut early = named(&calls, &id);
    assert_eq!(about(&mut early), None);
    three.sent(&token(3), &id);
    assert_eq!(about(&mut early), Some(Ok("c".to_owned())));
    let unknown = NumberOrString::Number(4);
    assert_eq!(
        about(&mut named(&calls, &unknown)),
        Some(Err(UnassignedQuestion::NoCall))
    );
    drop((one, two, three));
}

#[tokio::test]
async fn c_03_a_question_without_a_request_waits_until_one_call_remains() {
    let calls = Arc::new(RunningCalls::default());
    assert_eq!(
        about(&mut asks(&calls)),
        Some(Err(UnassignedQuestion::NoCall))
    );
    let (one, two) = (entered(&calls, 1, "a"), entered(&calls, 2, "b"));
    let mut first = asks(&calls);
    assert_eq!(about(&mut first), None);
    // Calls that start later cannot be the origin of the question.
    let three = entered(&calls, 3, "c");
    // Two waiting questions could wait for each other.
    assert_eq!(
        about(&mut asks(&calls)),
        Some(Err(UnassignedQuestion::Several(3)))
    );
    assert!(calls.is_ambiguous());
    two.answered();
    assert_eq!(about(&mut first), Some(Ok("a".to_owned())));
    // The slot is free again, including after a cancelled question.
    let mut second = asks(&calls);
    assert_eq!(about(&mut second), None);
    drop(second);
    let mut third = asks(&calls);
    assert_eq!(about(&mut third), None);
    one.answered();
    assert_eq!(about(&mut third), Some(Ok("c".to_owned())));
    drop(three);
}

#[tokio::test]
async fn c_03_a_call_being_sent_can_be_the_origin_of_a_question() {
    let calls = Arc::new(RunningCalls::default());
    let one = entered(&calls, 1, "a");
    let leaving = calls.register(running(Arc::new(NoSink), "b"));
    let mut question = asks(&calls);
    assert_eq!(about(&mut question), None);
    one.answered();
    assert_eq!(about(&mut question), Some(Ok("b".to_owned())));
    drop(leaving);
}

#[tokio::test(start_paused = true)]
async fn a_question_about_resources_reaches_no_call() {
    let calls = Arc::new(RunningCalls::default());
    let reading = calls.register_resources();
    assert_eq!(about(&mut asks(&calls)), Some(Ok("(resources)".to_owned())));
    let one = entered(&calls, 1, "a");
    let mut question = asks(&calls);
    assert_eq!(about(&mut question), None);
    assert_eq!(
        about(&mut named(&calls, &NumberOrString::Number(1))),
        Some(Ok("a".to_owned()))
    );
    reading.answered();
    assert_eq!(about(&mut question), Some(Ok("a".to_owned())));
    // The server may still ask about a request that timed out.
    drop(calls.register_resources());
    assert_eq!(
        about(&mut asks(&calls)),
        Some(Err(UnassignedQuestion::Abandoned))
    );
    tokio::time::advance(ABANDONED_PERIOD).await;
    assert_eq!(about(&mut asks(&calls)), Some(Ok("a".to_owned())));
    drop(one);
}

#[tokio::test(start_paused = true)]
async fn c_03_a_question_about_an_abandoned_call_reaches_no_other_call() {
    let calls = Arc::new(RunningCalls::default());
    let (one, two) = (entered(&calls, 1, "a"), entered(&calls, 2, "a"));
    let mut question = asks(&calls);
    assert_eq!(about(&mut question), None);
    // Dropped without an answer: the server may still run it and ask about it.
    drop(two);
    assert_eq!(
        about(&mut question),
        Some(Err(UnassignedQuestion::Abandoned))
    );
    drop(question);
    tokio::time::advance(ABANDONED_PERIOD).await;
    assert_eq!(about(&mut asks(&calls)), Some(Ok("a".to_owned())));
    // The question never reaches another owner.
    let other = entered(&calls, 3, "b");
    one.answered();
    drop(other);
    let one = entered(&calls, 4, "a");
    tokio::time::advance(ABANDONED_PERIOD * 100).await;
    assert_eq!(
        about(&mut asks(&calls)),
        Some(Err(UnassignedQuestion::Abandoned))
    );
    drop(one);
}

#[tokio::test]
async fn memory_of_abandoned_calls_is_bounded() {
    let calls = Arc::new(RunningCalls::default());
    for at in 0..2 * MAX_OWNERS {
        drop(entered(&calls, 1, &at.to_string()));
    }
    assert_eq!(calls.lock().abandoned.len(), MAX_OWNERS);
    let one = entered(&calls, 1, "0");
    assert_eq!(
        about(&mut asks(&calls)),
        Some(Err(UnassignedQuestion::Abandoned))
    );
    drop(one);
}

#[tokio::test(start_paused = true)]
async fn w_13_progress_is_limited_to_ten_per_second() {
    let (calls, received) = (
        Arc::new(RunningCalls::default()),
        Arc::new(RecordingSink::default()),
    );
    let entered = calls.register(running(received.clone(), "a"));
    entered.sent(&token(1), &NumberOrString::Number(7));
    for at in 0..1_000 {
        calls.progress(progress(1, f64::from(at)));
    }
    assert_eq!(received.events().len(), 1);
    tokio::time::advance(REPORT_INTERVAL).await;
    calls.progress(progress(1, 1_000.0));
    calls.progress(progress(1, 1_001.0).with_total(1_001.0));
    assert_eq!(received.events().len(), 3);
    drop(entered);
}
