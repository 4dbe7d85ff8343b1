//! Fake calls, and a log of what they did.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use tokio::time::{Instant, sleep, timeout};
use toolhost_contract::Concurrency;

use super::super::{Batch, CallStatus, CompletedCall, MissingResult, PlannedCall, StopSignal};
use crate::schedule::{AdmissionRequest, CallShape, PathLock, Pools, Strategy};

type Log = Arc<Mutex<Vec<String>>>;

/// A batch of fake calls and their log.
pub(super) struct FakeBatch {
    start: Instant,
    log: Log,
    /// Without pools, calls run at once.
    pub(super) pools: Option<Pools>,
    strategy: Strategy,
}

impl FakeBatch {
    pub(super) fn new(strategy: Strategy) -> Self {
        Self {
            start: Instant::now(),
            log: Log::default(),
            pools: None,
            strategy,
        }
    }

    pub(super) fn note(&self, message: String) {
        note(&self.log, self.start, message);
    }

    /// One line per call: `name seconds fate`, then its properties. A call honors its token unless it is `deaf`.
    pub(super) fn batch<'a>(&'a self, calls: &'a str) -> Batch<'a, String> {
        let planned = calls.lines().map(|line| self.planned(line.trim()));
        Batch::new(self.strategy, planned.collect())
    }

    fn planned<'a>(&'a self, line: &'a str) -> PlannedCall<'a, String> {
        let words: Vec<_> = line.split_whitespace().collect();
        let seconds = words[1].parse().unwrap();
        let fate = match words[2] {
            "completed" => Some(CallStatus::Completed),
            "failed" => Some(CallStatus::Failed),
            "denied" => Some(CallStatus::Denied),
            "cancelled" => Some(CallStatus::Cancelled),
            "panics" => None,
            word => panic!("{word}"),
        };
        let is = |word: &str| words[3..].contains(&word);
        let shape = CallShape {
            concurrency: match () {
                () if is("serial") => Concurrency::Serial,
                () if is("exclusive") => Concurrency::Exclusive,
                () => Concurrency::Parallel,
            },
            read_only: is("read"),
            can_run_early: false,
            wait_for_previous: is("wait"),
            path_locks: words[3..]
                .iter()
                .filter_map(|word| word.strip_prefix("W"))
                .map(PathLock::write)
                .collect(),
        };
        let (name, deaf) = (words[0], is("deaf"));
        let run = move |stop: StopSignal| {
            async move {
                let _permit = match &self.pools {
                    Some(pools) => match stop.unless_cancelled(pools.admit(plain())).await {
                        Some(permit) => Some(permit),
                        None => return unstarted(name, &stop),
                    },
                    None => None,
                };
                self.note(format!("{name} starts"));
                let ends = tokio::select! {
                    () = sleep(Duration::from_secs(seconds)) => fate.expect("a panic"),
                    () = stop.token().cancelled(), if !deaf => CallStatus::Cancelled,
                };
                self.note(format!("{name} {ends:?}"));
                let result = format!("{name} {ends:?}");
                CompletedCall {
                    result,
                    status: ends,
                }
            }
            .boxed()
        };
        let run = Box::new(run);
        PlannedCall { shape, run }
    }

    pub(super) async fn run(&self, batch: Batch<'_, String>) {
        let results = timeout(Duration::from_secs(1000), batch.run(missing)).await;
        let results = results.expect("all calls get their turn");
        self.note(format!("results: {}", results.join(", ")));
    }

    pub(super) fn transcript(&self) -> String {
        self.log.lock().unwrap().join("\n")
    }
}

fn note(log: &Log, start: Instant, message: String) {
    let line = format!("{} {message}", start.elapsed().as_secs());
    log.lock().unwrap().push(line);
}

fn missing(index: usize, why: MissingResult) -> String {
    format!("{index} {why:?}")
}

fn unstarted(name: &str, stop: &StopSignal) -> CompletedCall<String> {
    CompletedCall {
        result: format!("{name} never ran because of {}", stop.cause().unwrap()),
        status: CallStatus::Cancelled,
    }
}

pub(super) fn plain() -> AdmissionRequest<'static> {
    AdmissionRequest::plain(crate::schedule::tests::local())
}
