//! The writer thread: one group of jobs, one transaction, one `fsync`.

use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::{Connection, TransactionBehavior};

use crate::StoreError;
use crate::group::Group;
use crate::paths::FileIdentity;
use crate::queue::{Job, Queue, Work};

pub struct Writer {
    /// The file that `connection` writes to.
    pub identity: FileIdentity,
    pub connection: Connection,
    pub database: PathBuf,
    pub owner: String,
    pub queue: Arc<Queue>,
}

/// Lets other threads run while a group without a waiting caller is written. Writing a group takes as long as many short
/// calls, and a thread that is woken on the same processor would wait for all of it.
pub struct Pace<'a> {
    queue: &'a Queue,
    can_wait: bool,
    rows: usize,
}

impl<'a> Pace<'a> {
    /// Number of rows between pauses.
    const ROWS: usize = 4;

    fn new(jobs: &[Job], queue: &'a Queue) -> Self {
        Self {
            queue,
            can_wait: jobs.iter().all(|job| job.reply.is_none()),
            rows: 0,
        }
    }

    /// Called after each row.
    pub fn pause(&mut self) {
        self.rows += 1;
        if self.can_wait && self.rows.is_multiple_of(Self::ROWS) && !self.queue.is_urgent() {
            std::thread::yield_now();
        }
    }
}

/// Notifies all waiting callers when the thread ends, even by a panic.
struct StopGuard(Arc<Queue>);

impl Drop for StopGuard {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Writer {
    pub fn run(mut self) {
        let _farewell = StopGuard(Arc::clone(&self.queue));
        while let Some(group) = self.queue.take() {
            self.write_group(group);
        }
    }

    fn write_group(&mut self, group: Vec<Job>) {
        if let Err((failure, group)) = self.attempt(group) {
            // Sets the state first, so that a caller that gets the error sees the same health.
            let awaited = self.queue.record_failure(failure.clone(), group);
            reply(awaited, &Err(failure));
        }
    }

    /// Writes the group and replies. Jobs that failed because of the database are returned, in order.
    fn attempt(&mut self, mut group: Vec<Job>) -> Result<(), (StoreError, Vec<Job>)> {
        match self.write(&mut group) {
            Ok(wrote) => {
                if wrote {
                    self.queue.record_success();
                }
                reply(group, &Ok(()));
            }
            // A row that SQLite rejects must not fail the other rows of the group.
            Err(failure) if failure.is_row_error() && group.len() > 1 => {
                let mut jobs = group.into_iter();
                while let Some(job) = jobs.next() {
                    if let Err((failure, mut left)) = self.attempt(vec![job]) {
                        left.extend(jobs);
                        return Err((failure, left));
                    }
                }
            }
            Err(failure) if failure.is_row_error() => {
                if group.iter().any(|job| job.reply.is_none()) {
                    self.queue.record_row_failure(failure.clone());
                }
                reply(group, &Err(failure));
            }
            Err(failure) => return Err((failure, group)),
        }
        Ok(())
    }

    /// Writes the group in one transaction; returns whether anything was written.
    fn write(&mut self, jobs: &mut [Job]) -> Result<bool, StoreError> {
        self.identity.check(&self.database)?;
        let failed = |error: rusqlite::Error| StoreError::sql(&self.database, &error);
        let before = self.connection.total_changes();
        // The lock is taken before reading, so that the chain head cannot change before it is updated.
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed)?;
        if jobs.is_empty() {
            probe(&transaction).map_err(failed)?;
        }
        let pace = Pace::new(jobs, &self.queue);
        let mut group = Group::new(&transaction, &self.owner, pace);
        for job in jobs {
            match &mut job.work {
                Work::Write(write) => group.write(write).map_err(failed)?,
                Work::Change(change) => {
                    // A change reads rows, so the rows queued before it must be written first.
                    group.flush().map_err(failed)?;
                    change(&transaction).map_err(failed)?;
                }
            }
        }
        group.finish().map_err(failed)?;
        transaction.commit().map_err(failed)?;
        Ok(self.connection.total_changes() != before)
    }
}

/// Checks for free space by writing and deleting a row.
fn probe(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute("INSERT INTO probe VALUES (zeroblob(16384))", [])?;
    connection.execute("DELETE FROM probe", [])?;
    Ok(())
}

fn reply(group: Vec<Job>, result: &Result<(), StoreError>) {
    for reply in group.into_iter().filter_map(|job| job.reply) {
        // The caller may have stopped waiting.
        let _ = reply.send(result.clone());
    }
}
