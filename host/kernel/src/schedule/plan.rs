//! Splitting the calls of one model turn into waves. Pure: call properties in, indices out.

use std::fmt;
use std::str::FromStr;

use toolhost_contract::{Concurrency, text};

use super::PathLock;

/// The scheduling properties of a call, known before it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallShape {
    pub concurrency: Concurrency,
    pub read_only: bool,
    /// The call only accesses files, and its changes are staged.
    pub can_run_early: bool,
    /// The model asked to wait until all calls before this one have ended.
    pub wait_for_previous: bool,
    /// Paths that the call accesses. Calls of one wave with conflicting paths run one at a time, in call order, with
    /// every strategy.
    pub path_locks: Vec<PathLock>,
}

/// How a batch is split into waves. Every strategy respects `wait_for_previous` and the paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// Adjacent parallel calls run together and serial calls alone; exclusive calls run alone at the end.
    #[default]
    Waves,
    /// All calls run together if all are read-only, otherwise one at a time.
    Sema,
    /// All calls run at once; only the pools limit them.
    Kode,
    /// One call at a time.
    Serial,
    /// Equivalent to one at a time, with less waiting: adjacent calls that only access files run concurrently on the
    /// current files. They end in call order, and a call that read what an earlier one changed runs again.
    Optimistic,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is not a strategy; use waves, sema, kode, serial or optimistic",
    text::escape_line(.0, 40)
)]
pub struct UnknownStrategy(pub String);

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(name: &str) -> Result<Self, UnknownStrategy> {
        let all = [
            Self::Waves,
            Self::Sema,
            Self::Kode,
            Self::Serial,
            Self::Optimistic,
        ];
        all.into_iter()
            .find(|strategy| strategy.to_string() == name)
            // Limits the stored text; the message shows only the start of it.
            .ok_or_else(|| UnknownStrategy(name.chars().take(60).collect()))
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Waves => "waves",
            Self::Sema => "sema",
            Self::Kode => "kode",
            Self::Serial => "serial",
            Self::Optimistic => "optimistic",
        })
    }
}

/// Returns the waves in execution order, each with the indices of its calls. Every call is in exactly one wave.
pub fn waves(strategy: Strategy, calls: &[CallShape]) -> Vec<Vec<usize>> {
    // Decided for the whole turn: a barrier between two reads and a write does not make the reads safer.
    let all_read = calls.iter().all(|call| call.read_only);
    let mut waves = Vec::new();
    for section in sections(calls) {
        match strategy {
            Strategy::Waves => strategy_waves(calls, section, &mut waves),
            Strategy::Sema if all_read => waves.push(section),
            Strategy::Kode => waves.push(section),
            Strategy::Optimistic => optimistic_waves(calls, section, &mut waves),
            Strategy::Sema | Strategy::Serial => {
                waves.extend(section.into_iter().map(|index| vec![index]));
            }
        }
    }
    waves
}

/// Splits the calls at `wait_for_previous` barriers.
fn sections(calls: &[CallShape]) -> Vec<Vec<usize>> {
    let mut sections: Vec<Vec<usize>> = Vec::new();
    for (index, call) in calls.iter().enumerate() {
        match sections.last_mut() {
            Some(section) if !call.wait_for_previous => section.push(index),
            _ => sections.push(vec![index]),
        }
    }
    sections
}

fn strategy_waves(calls: &[CallShape], section: Vec<usize>, waves: &mut Vec<Vec<usize>>) {
    let mut together = Vec::new();
    let mut alone = Vec::new();
    for index in section {
        match calls[index].concurrency {
            Concurrency::Parallel => together.push(index),
            Concurrency::Serial => {
                waves.extend(take(&mut together));
                waves.push(vec![index]);
            }
            // Runs last, so that a question to the user does not delay independent calls. Calls that depend on the
            // answer set `wait_for_previous`.
            Concurrency::Exclusive => alone.push(vec![index]),
        }
    }
    waves.extend(take(&mut together));
    waves.append(&mut alone);
}

fn optimistic_waves(calls: &[CallShape], section: Vec<usize>, waves: &mut Vec<Vec<usize>>) {
    let mut together = Vec::new();
    for index in section {
        if calls[index].can_run_early {
            together.push(index);
        } else {
            waves.extend(take(&mut together));
            waves.push(vec![index]);
        }
    }
    waves.extend(take(&mut together));
}

fn take(wave: &mut Vec<usize>) -> Option<Vec<usize>> {
    (!wave.is_empty()).then(|| std::mem::take(wave))
}

#[cfg(test)]
mod tests;
