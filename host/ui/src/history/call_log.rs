//! Summaries of the newest calls in memory, so that a page with statistics does not read all records.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use toolhost_kernel::records::{CallSummary, TextPool};
use toolhost_store::{CallRow, History, StoreError};

/// Maximum number of summaries. Each takes about 200 bytes.
const MAX_CALLS: usize = 100_000;
/// Records that one update reads.
const MAX_READ: u32 = 2_000;
/// Maximum number of unfinished calls that an update looks for again.
const MAX_UNFINISHED: usize = 2_000;

/// Summaries of the newest calls that have ended.
#[derive(Default)]
pub struct CallLog(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// Position of the newest record that was read; `None` before the first.
    position: Option<i64>,
    calls: VecDeque<CallSummary>,
    unfinished: HashSet<String>,
    texts: TextPool,
    coverage: Coverage,
}

/// Which calls the summaries include.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Coverage {
    pub calls: usize,
    /// All records up to now were read.
    pub is_complete: bool,
    /// Older records exist that are not included.
    pub is_limited: bool,
}

impl CallLog {
    /// Reads new records, and those of calls that had not ended. Bounded; call it again until it is complete.
    pub fn update(&self, history: &History) -> Result<Coverage, StoreError> {
        let mut inner = self.lock();
        let position = match inner.position {
            Some(position) => position,
            None => history.position_before(u32::try_from(MAX_CALLS).unwrap_or(u32::MAX))?,
        };
        let new = history.newer(position, MAX_READ)?;
        let ids: Vec<String> = inner.unfinished.iter().cloned().collect();
        for (_, row) in history.calls(&ids)? {
            inner.add(&row);
        }
        inner.coverage.is_limited |= inner.position.is_none() && position > 0;
        inner.position = Some(new.last().map_or(position, |(seq, _)| *seq));
        inner.coverage.is_complete = new.len() < MAX_READ as usize;
        for (_, row) in &new {
            inner.add(row);
        }
        inner.shrink();
        Ok(inner.coverage)
    }

    /// Computes something from the summaries, oldest first.
    pub fn read<T>(&self, read: impl FnOnce(&VecDeque<CallSummary>, Coverage) -> T) -> T {
        let inner = self.lock();
        read(&inner.calls, inner.coverage)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn add(&mut self, row: &CallRow) {
        if let Some(summary) = CallSummary::of(row, &mut self.texts) {
            self.unfinished.remove(&row.id);
            self.calls.push_back(summary);
        } else if self.unfinished.len() < MAX_UNFINISHED {
            self.unfinished.insert(row.id.clone());
        }
    }

    fn shrink(&mut self) {
        if self.calls.len() > MAX_CALLS {
            let extra = self.calls.len() - MAX_CALLS;
            self.calls.drain(..extra);
            self.texts.shrink();
            self.coverage.is_limited = true;
        }
        self.coverage.calls = self.calls.len();
    }
}
