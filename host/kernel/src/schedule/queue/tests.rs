//! Tests of the session queue.

use std::sync::Mutex;
use std::time::Duration;

use expect_test::expect;
use futures::FutureExt;
use futures::future::join_all;
use tokio::time::sleep;

use super::*;

#[tokio::test(start_paused = true)]
async fn r_163_batches_run_one_at_a_time_in_order_of_arrival() {
    let queue = BatchQueue::default();
    let log = Mutex::new(Vec::new());
    let (queue, log) = (&queue, &log);
    let note = |entry: String| log.lock().unwrap().push(entry);
    let batch = |name: &'static str, seconds| {
        queue.schedule(1, async move {
            note(format!("{name} starts"));
            sleep(Duration::from_secs(seconds)).await;
            note(format!("{name} ends"));
        })
    };
    let ends = join_all([batch("a", 3), batch("b", 1), batch("c", 2)]).await;
    assert_eq!(ends, [Ok(()), Ok(()), Ok(())]);
    let log = log.lock().unwrap().join("\n");
    expect![[r#"
        a starts
        a ends
        b starts
        b ends
        c starts
        c ends"#]]
    .assert_eq(&log);
}

#[tokio::test(start_paused = true)]
async fn r_175_try_schedule_while_tools_run_is_refused() {
    let queue = BatchQueue::default();
    assert_eq!(queue.try_schedule(1, async { 7 }).await, Ok(7));
    let running = queue.schedule(1, sleep(Duration::from_secs(5)));
    let trial = async {
        sleep(Duration::from_secs(1)).await;
        queue.try_schedule(1, async {}).await
    };
    let (running, trial) = tokio::join!(running, trial);
    assert_eq!(running, Ok(()));
    expect!["Cannot schedule while tools are running"].assert_eq(&trial.unwrap_err().to_string());
}

#[tokio::test(start_paused = true)]
async fn r_176_is_running_reports_whether_a_batch_runs() {
    let queue = BatchQueue::default();
    assert!(!queue.is_running());
    let during = queue.schedule(1, async { queue.is_running() }).await;
    assert_eq!(during, Ok(true));
    assert!(!queue.is_running());

    let mut stopped = Box::pin(queue.schedule(1, std::future::pending::<()>()));
    assert!(stopped.as_mut().now_or_never().is_none());
    assert!(queue.is_running());
    drop(stopped);
    assert!(!queue.is_running());
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_until_calls_end_or_are_dropped() {
    let queue = BatchQueue::new(10);
    let mut running = Box::pin(queue.schedule(4, sleep(Duration::from_secs(1))));
    let mut waiting = Box::pin(queue.schedule(6, async {}));
    assert!(running.as_mut().now_or_never().is_none());
    assert!(waiting.as_mut().now_or_never().is_none());
    let refused = queue.schedule(1, async {}).await.unwrap_err();
    expect!["1 more calls exceed the queue limit of 10; wait until some have ended"]
        .assert_eq(&refused.to_string());

    drop(waiting);
    let (first, second) = tokio::join!(running, queue.schedule(6, async {}));
    assert_eq!((first, second), (Ok(()), Ok(())));
    assert_eq!(queue.schedule(10, async {}).await, Ok(()));
    for calls in [11, usize::MAX] {
        assert!(queue.schedule(calls, async {}).await.is_err());
        assert!(queue.try_schedule(calls, async {}).await.is_err());
    }
    assert!(!queue.is_running());
    assert_eq!(queue.calls.load(Ordering::Relaxed), 0);
}
