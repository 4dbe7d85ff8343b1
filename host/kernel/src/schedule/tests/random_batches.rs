//! Random calls, and a checker for which of them run concurrently.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof};
use tokio::time::sleep;
use toolhost_contract::Concurrency;

use crate::schedule::{
    self as schedule, AdmissionRequest, Batch, CallShape, CallStatus, CompletedCall, Lane,
    MissingResult, PathLock, PlannedCall, Pool, PoolLimits, Pools, StopSignal,
};

const LIMITS: PoolLimits = PoolLimits {
    all: 3,
    network: 2,
    processes: 1,
    agents: 2,
    interactive: 1,
};

#[derive(Debug, Clone)]
pub(super) struct Turn {
    strategy: schedule::Strategy,
    pub(super) calls: Vec<Call>,
    /// The second at which a call is cancelled, and its index.
    pub(super) cancel: Option<(u64, usize)>,
    /// The second at which the batch is dropped.
    pub(super) drop: Option<u64>,
}

#[derive(Debug, Clone)]
pub(super) struct Call {
    concurrency: Concurrency,
    read_only: bool,
    wait_for_previous: bool,
    /// Paths, and whether they are written.
    paths: Vec<(&'static str, bool)>,
    pool: Pool,
    lane: Option<usize>,
    /// Seconds that the user takes before the call asks for its permit.
    asks: u64,
    seconds: u64,
    /// The call ignores cancellation.
    deaf: bool,
    pub(super) ending: Ending,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    With(CallStatus),
    Panic,
}

fn call() -> impl Strategy<Value = Call> {
    let concurrency = prop_oneof![
        6 => Just(Concurrency::Parallel),
        2 => Just(Concurrency::Serial),
        1 => Just(Concurrency::Exclusive),
    ];
    let paths = vec!["/w", "/w/a", "/w/a/b", "/w/ab", "/x"];
    let path = (prop::sample::select(paths), any::<bool>());
    let pool = prop_oneof![
        4 => Just(Pool::Plain),
        1 => Just(Pool::Network),
        1 => Just(Pool::Processes),
        1 => Just(Pool::Agents),
        1 => Just(Pool::Interactive),
    ];
    let ending = prop_oneof![
        12 => Just(Ending::With(CallStatus::Completed)),
        3 => Just(Ending::With(CallStatus::Failed)),
        2 => Just(Ending::With(CallStatus::Denied)),
        1 => Just(Ending::With(CallStatus::Cancelled)),
        1 => Just(Ending::Panic),
    ];
    let shape = (
        concurrency,
        any::<bool>(),
        prop::bool::weighted(0.1),
        prop::collection::vec(path, 0..3),
    );
    let needs = (pool, prop::option::of(0..2_usize));
    let course = (0..4_u64, 0..8_u64, prop::bool::weighted(0.2), ending);
    (shape, needs, course).prop_map(|(shape, needs, course)| {
        let (concurrency, read_only, wait_for_previous, paths) = shape;
        let (pool, lane) = needs;
        let (asks, seconds, deaf, ending) = course;
        Call {
            concurrency,
            read_only,
            wait_for_previous,
            paths,
            pool,
            lane,
            asks,
            seconds,
            deaf,
            ending,
        }
    })
}

pub(super) fn turns() -> impl Strategy<Value = Vec<Turn>> {
    use schedule::Strategy as S;
    let strategy = prop::sample::select(vec![S::Waves, S::Sema, S::Kode, S::Serial]);
    let turn = (
        strategy,
        prop::collection::vec(call(), 0..12),
        prop::option::weighted(0.3, (0..20_u64, 0..12_usize)),
        prop::option::weighted(0.2, 0..20_u64),
    )
        .prop_map(|(strategy, calls, cancel, drop)| Turn {
            strategy,
            calls,
            cancel,
            drop,
        });
    prop::collection::vec(turn, 0..4)
}

pub(super) struct Invariants {
    pools: Pools,
    lanes: [Lane; 2],
    running: Mutex<Vec<(usize, Call)>>,
    /// Violations. Reported at the end, because a batch survives the panic of a call.
    wrongs: Mutex<Vec<String>>,
    next: AtomicUsize,
}

impl Invariants {
    pub(super) fn new() -> Self {
        Self {
            pools: Pools::new(LIMITS).unwrap(),
            lanes: [Lane::new(), Lane::new()],
            running: Mutex::default(),
            wrongs: Mutex::default(),
            next: AtomicUsize::new(0),
        }
    }

    /// A result is the index of its call, with a reason if the call had no result.
    pub(super) fn batch<'a>(&'a self, turn: &'a Turn) -> Batch<'a, (usize, Option<MissingResult>)> {
        let planned = turn
            .calls
            .iter()
            .enumerate()
            .map(|(index, call)| PlannedCall {
                shape: CallShape {
                    concurrency: call.concurrency,
                    read_only: call.read_only,
                    can_run_early: false,
                    wait_for_previous: call.wait_for_previous,
                    path_locks: call.path_locks(),
                },
                run: Box::new(move |stop| {
                    let fate = self.run(call, stop);
                    fate.map(move |fate| CompletedCall {
                        result: (index, None),
                        status: fate,
                    })
                    .boxed()
                }),
            });
        Batch::new(turn.strategy, planned.collect())
    }

    async fn run(&self, call: &Call, stop: StopSignal) -> CallStatus {
        let path_locks = call.path_locks();
        let needs = AdmissionRequest {
            session: super::local(),
            pool: call.pool,
            lane: call.lane.map(|lane| &self.lanes[lane]),
            path_locks: &path_locks,
            exclusive: call.concurrency == Concurrency::Exclusive,
        };
        sleep(Duration::from_secs(call.asks)).await;
        let Some(_permit) = stop.unless_cancelled(self.pools.admit(needs)).await else {
            return CallStatus::Cancelled;
        };
        let _here = self.enter(call);
        tokio::select! {
            () = sleep(Duration::from_secs(call.seconds)) => match call.ending {
                Ending::With(fate) => fate,
                // Not `panic!`, whose hook would fill the output of the test.
                Ending::Panic => std::panic::resume_unwind(Box::new("on purpose")),
            },
            () = stop.token().cancelled(), if !call.deaf => CallStatus::Cancelled,
        }
    }

    /// Checks that no running call conflicts with this one.
    fn enter(&self, call: &Call) -> InProgress<'_> {
        let mut running = self.running();
        for (_, other) in &*running {
            if call.clashes(other) {
                self.wrong(format!("{call:?} runs together with {other:?}"));
            }
        }
        let same = running.iter().filter(|(_, other)| other.pool == call.pool);
        let limit = match call.pool {
            Pool::Plain => LIMITS.all,
            Pool::Network => LIMITS.network,
            Pool::Processes => LIMITS.processes,
            Pool::Agents | Pool::Background => LIMITS.agents,
            Pool::Interactive => LIMITS.interactive,
        };
        // An exclusive call needs no permit.
        if same.count() >= limit && call.concurrency != Concurrency::Exclusive {
            self.wrong(format!("too many of {:?}", call.pool));
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        running.push((number, call.clone()));
        let world = self;
        InProgress { world, number }
    }

    fn wrong(&self, message: String) {
        let mut wrongs = self.wrongs.lock().unwrap_or_else(PoisonError::into_inner);
        wrongs.push(message);
    }

    pub(super) fn check(&self) {
        assert_eq!(*self.wrongs.lock().unwrap(), Vec::<String>::new());
        assert!(self.running().is_empty());
        // Everything is available again.
        let everything = AdmissionRequest {
            exclusive: true,
            ..AdmissionRequest::plain(super::local())
        };
        assert!(self.pools.admit(everything).now_or_never().is_some());
    }

    fn running(&self) -> MutexGuard<'_, Vec<(usize, Call)>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct InProgress<'a> {
    world: &'a Invariants,
    number: usize,
}

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        self.world
            .running()
            .retain(|(number, _)| *number != self.number);
    }
}

impl Call {
    fn path_locks(&self) -> Vec<PathLock> {
        let lock = |&(path, write): &(&str, bool)| {
            if write {
                PathLock::write(path)
            } else {
                PathLock::read(path)
            }
        };
        self.paths.iter().map(lock).collect()
    }

    /// Implemented differently from the scheduler, so that both are unlikely to have the same error.
    fn clashes(&self, other: &Self) -> bool {
        let both = [self, other];
        if both.iter().any(|call| call.pool == Pool::Agents) {
            return false;
        }
        let exclusive = |call: &&Self| call.concurrency == Concurrency::Exclusive;
        let overlap = |one: &str, two: &str| {
            format!("{one}/").starts_with(&format!("{two}/"))
                || format!("{two}/").starts_with(&format!("{one}/"))
        };
        both.iter().any(exclusive)
            || (self.lane.is_some() && self.lane == other.lane)
            || self.paths.iter().any(|(one, write)| {
                other
                    .paths
                    .iter()
                    .any(|(two, writes)| (*write || *writes) && overlap(one, two))
            })
    }
}
