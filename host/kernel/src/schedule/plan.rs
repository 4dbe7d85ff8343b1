//! Cuts the calls of one model turn into waves. Pure: shapes in, indices out.

use std::fmt;
use std::str::FromStr;

use toolhost_contract::{Concurrency, text};

use super::Place;

/// What the scheduler knows of a call before it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    pub concurrency: Concurrency,
    pub read_only: bool,
    /// It touches files alone, and what it does is held back until it may become real.
    pub can_run_early: bool,
    /// The model asked that all calls before this one end first.
    pub wait_for_previous: bool,
    /// Two calls of one wave that clash here run one after the other, in call order, whatever the strategy.
    pub places: Vec<Place>,
}

/// How a batch is cut. Each strategy keeps to `wait_for_previous` and to the places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// Neighbours that are parallel run together, a serial call alone; what is exclusive runs alone, after the rest.
    #[default]
    Waves,
    /// All together when all are read-only, else one after the other.
    Sema,
    /// All at once; the pools alone hold them back.
    Kode,
    /// One after the other.
    Serial,
    /// As if one after the other, for less waiting: neighbours that touch nothing but files run at once, each on the
    /// files as they are. They end in call order, and one that looked at what an earlier one changed runs again.
    Optimistic,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is not a strategy: use waves, sema, kode, serial or optimistic",
    text::inline(.0, 40)
)]
pub struct UnknownStrategy(pub String);

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(word: &str) -> Result<Self, UnknownStrategy> {
        let all = [
            Self::Waves,
            Self::Sema,
            Self::Kode,
            Self::Serial,
            Self::Optimistic,
        ];
        all.into_iter()
            .find(|strategy| strategy.to_string() == word)
            // Only so much of a wrong word is kept as is shown.
            .ok_or_else(|| UnknownStrategy(word.chars().take(60).collect()))
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

/// The waves in the order in which they run; each has the indices of its calls. Every call is in exactly one.
pub fn waves(strategy: Strategy, calls: &[Shape]) -> Vec<Vec<usize>> {
    // A turn counts as read-only as a whole: a barrier between two reads and a write makes the reads no safer.
    let all_read = calls.iter().all(|call| call.read_only);
    let mut waves = Vec::new();
    for section in sections(calls) {
        match strategy {
            Strategy::Waves => contiguous(calls, section, &mut waves),
            Strategy::Sema if all_read => waves.push(section),
            Strategy::Kode => waves.push(section),
            Strategy::Optimistic => early(calls, section, &mut waves),
            Strategy::Sema | Strategy::Serial => {
                waves.extend(section.into_iter().map(|index| vec![index]));
            }
        }
    }
    waves
}

/// The calls between two barriers.
fn sections(calls: &[Shape]) -> Vec<Vec<usize>> {
    let mut sections: Vec<Vec<usize>> = Vec::new();
    for (index, call) in calls.iter().enumerate() {
        match sections.last_mut() {
            Some(section) if !call.wait_for_previous => section.push(index),
            _ => sections.push(vec![index]),
        }
    }
    sections
}

fn contiguous(calls: &[Shape], section: Vec<usize>, waves: &mut Vec<Vec<usize>>) {
    let mut together = Vec::new();
    let mut alone = Vec::new();
    for index in section {
        match calls[index].concurrency {
            Concurrency::Parallel => together.push(index),
            Concurrency::Serial => {
                waves.extend(take(&mut together));
                waves.push(vec![index]);
            }
            // A person who is asked in the middle would hold up work that does not depend on the answer; what does
            // depend on it says `wait_for_previous`.
            Concurrency::Exclusive => alone.push(vec![index]),
        }
    }
    waves.extend(take(&mut together));
    waves.append(&mut alone);
}

fn early(calls: &[Shape], section: Vec<usize>, waves: &mut Vec<Vec<usize>>) {
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
