//! Tests of batches: order, cancellation and panics.

mod stage;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use expect_test::{Expect, expect};
use futures::future::pending;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use toolhost_contract::Concurrency;

use super::super::{PathLock, PoolLimits, Pools};
use super::*;
use stage::{FakeBatch, plain};

/// Runs the batch to its end and checks what happened at which second.
async fn check(strategy: Strategy, calls: &str, expected: Expect) {
    let stage = FakeBatch::new(strategy);
    stage.run(stage.batch(calls)).await;
    expected.assert_eq(&stage.transcript());
}

/// Like [`check`], but cancels the call at the given second.
async fn check_cancel(second: u64, index: usize, calls: &str, expected: Expect) {
    let stage = FakeBatch::new(Strategy::Waves);
    let batch = stage.batch(calls);
    let canceller = batch.canceller();
    let cancel = async {
        sleep(Duration::from_secs(second)).await;
        let open = canceller.cancel(index);
        stage.note(format!("cancel {index}: {open}"));
    };
    tokio::join!(biased; cancel, stage.run(batch));
    expected.assert_eq(&stage.transcript());
}

#[tokio::test(start_paused = true)]
async fn r_163_results_come_together_and_in_call_order() {
    let calls = "a 3 completed
        b 1 completed
        c 2 completed serial
        d 1 completed";
    check(
        Strategy::Waves,
        calls,
        expect![[r#"
        0 a starts
        0 b starts
        1 b Completed
        3 a Completed
        3 c starts
        5 c Completed
        5 d starts
        6 d Completed
        6 results: a Completed, b Completed, c Completed, d Completed"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn r_170_reads_take_as_long_as_the_slowest() {
    let calls = "a 1 completed read serial
        b 3 completed read
        c 2 completed read";
    check(
        Strategy::Sema,
        calls,
        expect![[r#"
        0 a starts
        0 b starts
        0 c starts
        1 a Completed
        2 c Completed
        3 b Completed
        3 results: a Completed, b Completed, c Completed"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn r_171_a_mixed_turn_runs_in_order() {
    let calls = "a 1 completed read
        write 2 completed
        edit 1 completed";
    check(
        Strategy::Sema,
        calls,
        expect![[r#"
        0 a starts
        1 a Completed
        1 write starts
        3 write Completed
        3 edit starts
        4 edit Completed
        4 results: a Completed, write Completed, edit Completed"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn r_171_write_then_edit_of_one_file_keep_their_order_in_every_strategy() {
    let calls = "write 2 completed W/new
        other 1 completed W/other
        edit 1 completed W/new";
    check(
        Strategy::Waves,
        calls,
        expect![[r#"
        0 write starts
        0 other starts
        1 other Completed
        2 write Completed
        2 edit starts
        3 edit Completed
        3 results: write Completed, other Completed, edit Completed"#]],
    )
    .await;
    check(
        Strategy::Kode,
        calls,
        expect![[r#"
        0 write starts
        0 other starts
        1 other Completed
        2 write Completed
        2 edit starts
        3 edit Completed
        3 results: write Completed, other Completed, edit Completed"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn r_172_all_calls_start_and_three_run() {
    let mut stage = FakeBatch::new(Strategy::Kode);
    stage.pools = Some(Pools::new(PoolLimits::default()).unwrap());
    let calls = "a 1 completed
        b 2 completed
        c 3 completed serial
        d 1 completed
        e 1 completed";
    stage.run(stage.batch(calls)).await;
    expect![[r#"
        0 a starts
        0 b starts
        0 c starts
        1 a Completed
        1 d starts
        2 b Completed
        2 d Completed
        2 e starts
        3 c Completed
        3 e Completed
        3 results: a Completed, b Completed, c Completed, d Completed, e Completed"#]]
    .assert_eq(&stage.transcript());
}

#[tokio::test(start_paused = true)]
async fn denied_failed_and_panicking_calls_do_not_affect_others() {
    let calls = "a 1 denied
        b 1 failed
        c 1 panics
        d 2 completed
        e 1 completed serial";
    check(
        Strategy::Waves,
        calls,
        expect![[r#"
        0 a starts
        0 b starts
        0 c starts
        0 d starts
        1 a Denied
        1 b Failed
        2 d Completed
        2 e starts
        3 e Completed
        3 results: a Denied, b Failed, 2 Panicked, d Completed, e Completed"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_edit_runs_although_the_write_before_it_failed() {
    let calls = "write 1 panics W/f
        edit 1 completed W/f";
    check(
        Strategy::Kode,
        calls,
        expect![[r#"
        0 write starts
        1 edit starts
        2 edit Completed
        2 results: 0 Panicked, edit Completed"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelling_a_call_cancels_its_siblings() {
    let calls = "a 1 completed
        b 2 cancelled
        c 9 completed
        d 1 completed W/f serial
        e 1 completed";
    check(Strategy::Waves, calls, expect![[r#"
        0 a starts
        0 b starts
        0 c starts
        1 a Completed
        2 b Cancelled
        2 c Cancelled
        2 results: a Completed, b Cancelled, c Cancelled, 3 NotRun { because: 1 }, 4 NotRun { because: 1 }"#]]).await;
}

#[tokio::test(start_paused = true)]
async fn r_177_cancel_reaches_the_call_while_it_runs_and_the_first_cause_counts() {
    let calls = "a 9 completed
        b 9 completed
        c 1 completed serial";
    check_cancel(
        2,
        1,
        calls,
        expect![[r#"
        0 a starts
        0 b starts
        2 cancel 1: true
        2 b Cancelled
        2 a Cancelled
        2 results: a Cancelled, b Cancelled, 2 NotRun { because: 1 }"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_its_permit_does_not_start_after_a_cancel() {
    let mut stage = FakeBatch::new(Strategy::Kode);
    let limits = PoolLimits {
        all: 1,
        ..PoolLimits::default()
    };
    stage.pools = Some(Pools::new(limits).unwrap());
    let calls = "a 1 cancelled
        b 1 completed
        c 1 completed";
    stage.run(stage.batch(calls)).await;
    expect![[r#"
        0 a starts
        1 a Cancelled
        1 results: a Cancelled, b never ran because of 0, c never ran because of 0"#]]
    .assert_eq(&stage.transcript());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_can_be_cancelled_too() {
    let calls = "a 9 completed W/f
        b 1 completed W/f
        c 1 completed serial";
    check_cancel(
        2,
        2,
        calls,
        expect![[r#"
        0 a starts
        2 cancel 2: true
        2 a Cancelled
        2 results: a Cancelled, 1 NotRun { because: 2 }, 2 NotRun { because: 2 }"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_has_ended_cancels_nothing() {
    let calls = "a 1 completed
        b 3 completed";
    check_cancel(
        2,
        0,
        calls,
        expect![[r#"
        0 a starts
        0 b starts
        1 a Completed
        2 cancel 0: false
        3 b Completed
        3 results: a Completed, b Completed"#]],
    )
    .await;
    check_cancel(
        2,
        7,
        calls,
        expect![[r#"
        0 a starts
        0 b starts
        1 a Completed
        2 cancel 7: false
        3 b Completed
        3 results: a Completed, b Completed"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelling_before_the_start_runs_nothing() {
    check_cancel(
        0,
        1,
        "a 1 completed\nb 1 completed",
        expect![[r#"
        0 cancel 1: true
        0 results: 0 NotRun { because: 1 }, 1 NotRun { because: 1 }"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_ignores_cancellation_keeps_its_result_within_the_grace_period() {
    let calls = "slow 60 completed deaf
        late 4 completed deaf
        b 9 completed";
    check_cancel(
        1,
        2,
        calls,
        expect![[r#"
        0 slow starts
        0 late starts
        0 b starts
        1 cancel 2: true
        1 b Cancelled
        4 late Completed
        6 results: 0 Interrupted { because: 2 }, late Completed, b Cancelled"#]],
    )
    .await;
}

type Tokens = Arc<Mutex<Vec<CancellationToken>>>;

/// Calls that pass on their tokens, like a call that starts work elsewhere.
fn handing_out(
    tokens: &Tokens,
    end: fn() -> BoxFuture<'static, CompletedCall<()>>,
) -> Batch<'static, ()> {
    let planned = |_| {
        let tokens = Arc::clone(tokens);
        let run: CallFn<()> = Box::new(move |stop| {
            tokens.lock().unwrap().push(stop.token().clone());
            end()
        });
        let path_locks = Vec::new();
        let shape = CallShape {
            concurrency: Concurrency::Parallel,
            read_only: true,
            can_run_early: false,
            wait_for_previous: false,
            path_locks,
        };
        PlannedCall { shape, run }
    };
    Batch::new(Strategy::Waves, (0..3).map(planned).collect())
}

/// Returns the number of tokens, and how many are cancelled.
fn count(tokens: &Tokens) -> (usize, usize) {
    let tokens = tokens.lock().unwrap();
    let cancelled = tokens.iter().filter(|token| token.is_cancelled());
    (tokens.len(), cancelled.count())
}

#[tokio::test(start_paused = true)]
async fn dropping_the_batch_cancels_every_call() {
    let tokens = Tokens::default();
    let batch = handing_out(&tokens, || pending().boxed());
    let mut running = batch.run(|_, _| ()).boxed();
    assert!(running.as_mut().now_or_never().is_none());
    assert_eq!(count(&tokens), (3, 0));
    drop(running);
    assert_eq!(count(&tokens), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_batch_does_not_cancel_background_work() {
    let tokens = Tokens::default();
    let end = || {
        let status = CallStatus::Completed;
        async move { CompletedCall { result: (), status } }.boxed()
    };
    handing_out(&tokens, end).run(|_, _| ()).await;
    assert_eq!(count(&tokens), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn only_a_limited_number_of_ten_thousand_calls_are_in_progress() {
    let pools = Arc::new(Pools::new(PoolLimits::default()).unwrap());
    let (here, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let planned = |index| {
        let (pools, here, most) = (Arc::clone(&pools), Arc::clone(&here), Arc::clone(&most));
        let run: CallFn<usize> = Box::new(move |_| {
            async move {
                most.fetch_max(here.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                let _permit = pools.admit(plain()).await;
                sleep(Duration::from_secs(1)).await;
                here.fetch_sub(1, Ordering::Relaxed);
                CompletedCall {
                    result: index,
                    status: CallStatus::Completed,
                }
            }
            .boxed()
        });
        let path_locks = vec![PathLock::write(&format!("/workspace/{}", index % 500))];
        let shape = CallShape {
            concurrency: Concurrency::Parallel,
            read_only: false,
            can_run_early: false,
            wait_for_previous: false,
            path_locks,
        };
        PlannedCall { shape, run }
    };
    let batch = Batch::new(Strategy::Kode, (0..10_000).map(planned).collect());
    let running = batch.run(|_, why| panic!("{why:?}"));
    let results = timeout(Duration::from_secs(100_000), running).await;
    assert!(results.unwrap().into_iter().eq(0..10_000));
    assert_eq!(most.load(Ordering::Relaxed), MAX_IN_PROGRESS);
    assert!(size_of::<State<usize>>() <= 64);
}
