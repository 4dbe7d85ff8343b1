//! Random tests of all parts together: sessions with queues, batches and shared pools.

mod random_batches;

use std::sync::LazyLock;
use std::time::Duration;

use futures::future::join_all;
use proptest::prelude::{ProptestConfig, prop, proptest};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use toolhost_contract::SessionKey;

use super::*;
use random_batches::{Ending, Invariants, Turn, turns};

/// A session of the local user.
pub(super) fn local() -> &'static SessionKey {
    static LOCAL: LazyLock<SessionKey> = LazyLock::new(|| SessionKey::local("s"));
    &LOCAL
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// each batch that is not dropped has one result per call, in call order; calls run
    /// concurrently only if allowed; and everything completes.
    #[test]
    fn r_163_every_call_has_one_result_in_order_without_deadlock(
        sessions in prop::collection::vec(turns(), 1..4),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let world = Invariants::new();
            let all = join_all(sessions.iter().map(|turns| session(&world, turns)));
            // All calls in sequence take less than a day.
            let end = timeout(Duration::from_secs(86_400), all).await;
            assert!(end.is_ok(), "some call waits for ever");
            world.check();
        });
    }
}

async fn session(world: &Invariants, turns: &[Turn]) {
    let queue = BatchQueue::default();
    let queue = &queue;
    join_all(turns.iter().map(|turn| one_turn(world, queue, turn))).await;
    assert!(!queue.is_running());
}

async fn one_turn(world: &Invariants, queue: &BatchQueue, turn: &Turn) {
    let batch = world.batch(turn);
    let canceller = batch.canceller();
    let calls = batch.len();
    let run = queue.schedule(calls, batch.run(|index, why| (index, Some(why))));
    let cancel = async {
        if let Some((second, index)) = turn.cancel {
            sleep(Duration::from_secs(second)).await;
            canceller.cancel(index);
        }
        std::future::pending::<()>().await;
    };
    let start = Instant::now();
    let drop_at = start + Duration::from_secs(turn.drop.unwrap_or(1_000_000));
    let results = tokio::select! {
        results = run => results.unwrap(),
        () = cancel => unreachable!("it never ends"),
        () = sleep_until(drop_at) => return,
    };
    assert_eq!(results.len(), turn.calls.len());
    let cancelled = canceller.cause().is_some();
    for (position, (call, (index, why))) in turn.calls.iter().zip(results).enumerate() {
        assert_eq!(index, position, "a result out of order");
        match why {
            None => {}
            Some(MissingResult::Panicked) => assert_eq!(call.ending, Ending::Panic),
            Some(MissingResult::NotRun { because } | MissingResult::Interrupted { because }) => {
                assert!(cancelled && canceller.cause() == Some(because));
            }
        }
    }
}
