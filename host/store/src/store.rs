//! Public API of the store: writes go to the writer thread, reads use their own connection.

mod commits;
mod retention;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::owner::{self, Owner};
use crate::paths::{FileIdentity, StorePaths};
use crate::queue::{Job, Queue, Work};
use crate::rows::Weight;
use crate::writer::Writer;
use crate::{
    AnswerError, AnswerRow, ApprovalError, ApprovalRow, BatchRow, CallFilter, CallRow, EventRow,
    MAX_ROW, RecordedHead, SessionRow, StoreError, StoredTransition, TransitionFilter,
    Verification, Write, checked_updates, read, schema, stage, verify,
};

/// How long a process waits for the transaction of another. On a busy machine a few processes that share a state
/// directory can keep each other waiting for seconds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of cached unanswered questions; the cache is cleared when it is full.
const MAX_CACHED_QUESTIONS: usize = 1024;

/// A process's handle to a state directory. Cheap to clone; dropping the last clone writes pending jobs.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    paths: StorePaths,
    busy: Duration,
    owner: Owner,
    queue: Arc<Queue>,
    writer: Option<JoinHandle<()>>,
    reader: Mutex<Reader>,
}

struct Reader {
    connection: Connection,
    /// For each unanswered question, the version of the file that was checked.
    unanswered: HashMap<(String, i64), i64>,
}

impl Store {
    /// Opens the store in a state directory, which is created if it is missing.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        Self::open_with(dir, BUSY_TIMEOUT)
    }

    pub(crate) fn open_with(dir: &Path, busy: Duration) -> Result<Self, StoreError> {
        let paths = StorePaths::prepare(dir)?;
        let mut writing = schema::connect(&paths.database, busy)?;
        schema::migrate(&mut writing, &paths.database, busy)?;
        let reading = schema::connect(&paths.database, busy)?;
        reading
            .pragma_update(None, "query_only", true)
            .map_err(|error| StoreError::sql(&paths.database, &error))?;
        owner::sweep(&paths.owners)?;
        stage::sweep(&paths.stage, &paths.owners)?;
        let owner = Owner::register(&paths.owners)?;
        let queue = Arc::new(Queue::default());
        let writer = Writer {
            identity: FileIdentity::of(&paths.database)?,
            connection: writing,
            database: paths.database.clone(),
            owner: owner.id().to_owned(),
            queue: Arc::clone(&queue),
        };
        let thread = thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || writer.run())
            .map_err(|error| StoreError::io(&paths.database, &error))?;
        Ok(Self(Arc::new(Inner {
            paths,
            busy,
            owner,
            queue,
            writer: Some(thread),
            reader: Mutex::new(Reader {
                connection: reading,
                unanswered: HashMap::new(),
            }),
        })))
    }

    /// The owner id of this process's calls.
    pub fn owner(&self) -> &str {
        self.0.owner.id()
    }

    /// Whether the last write succeeded.
    pub fn health(&self) -> Result<(), StoreError> {
        self.0.queue.health()
    }

    /// Queues a write without waiting for durability. It shares a transaction with others. A failed write is
    /// retried. While the store cannot be written, further writes are accepted until the queue is full; callers that
    /// start work check [`Self::health`] first.
    pub fn queue(&self, write: Write) -> Result<(), StoreError> {
        self.0.queue.push(Job {
            weight: write_size(&write)?,
            work: Work::write(|| write),
            reply: None,
        })
    }

    /// Like [`Self::queue`], for a write that is built on the writer thread. `weight` is the maximum size of its
    /// rows in bytes, up to [`MAX_ROW`].
    pub fn queue_draft(
        &self,
        weight: usize,
        draft: impl FnOnce() -> Write + Send + 'static,
    ) -> Result<(), StoreError> {
        self.0.queue.push(Job {
            weight: check_size("record", weight)?,
            work: Work::write(draft),
            reply: None,
        })
    }

    /// Queues a write if there is room, for data that may be lost.
    pub fn offer(&self, write: Write) -> Result<(), StoreError> {
        self.0.queue.push_if_room(Job {
            weight: write_size(&write)?,
            work: Work::write(|| write),
            reply: None,
        })
    }

    /// Returns when the write, and everything queued before it, is durable. A failed write is not retried.
    pub async fn commit(&self, write: Write) -> Result<(), StoreError> {
        let weight = write_size(&write)?;
        self.submit(Work::write(|| write), weight).await
    }

    /// Returns when everything queued so far is durable. Reports writes that were lost since the last call.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.submit(Work::write(|| Write::Many(Vec::new())), 0)
            .await?;
        match self.0.queue.take_lost() {
            0 => Ok(()),
            count => Err(StoreError::Lost {
                path: self.0.paths.database.clone(),
                count,
            }),
        }
    }

    async fn submit(&self, work: Work, weight: usize) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        self.0.queue.push_awaited(Job {
            work,
            weight,
            reply: Some(reply),
        })?;
        answer.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Runs a change on the writer thread, after everything queued before it.
    pub(crate) async fn change<T: Send + 'static>(
        &self,
        weight: usize,
        change: impl Fn(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let made = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&made);
        let work = Work::Change(Box::new(move |connection| {
            let value = change(connection)?;
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
            Ok(())
        }));
        self.submit(work, weight).await?;
        let value = made.lock().unwrap_or_else(PoisonError::into_inner).take();
        value.ok_or(StoreError::Closed)
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let reader = self.0.reader.lock().unwrap_or_else(PoisonError::into_inner);
        // One snapshot, because rows are checked against the links written with them.
        let snapshot = reader.connection.unchecked_transaction();
        let snapshot = snapshot.map_err(|error| self.failed(&error))?;
        read(&snapshot).map_err(|error| self.failed(&error))
    }

    pub(crate) fn database(&self) -> &Path {
        &self.0.paths.database
    }

    fn failed(&self, error: &rusqlite::Error) -> StoreError {
        StoreError::sql(&self.0.paths.database, error)
    }

    pub fn call(&self, id: &str) -> Result<Option<CallRow>, StoreError> {
        self.read(|connection| read::call(connection, id))
    }

    pub fn calls(&self, filter: &CallFilter) -> Result<Vec<CallRow>, StoreError> {
        self.read(|connection| read::calls(connection, filter))
    }

    pub fn transitions(
        &self,
        filter: &TransitionFilter,
    ) -> Result<Vec<StoredTransition>, StoreError> {
        self.read(|connection| read::transitions(connection, filter))
    }

    /// Passes each deferred call that is not answered to a function, without a check against the chain.
    pub fn deferred_calls(&self, each: impl FnMut(CallRow)) -> Result<(), StoreError> {
        self.read(|connection| read::deferred(connection, each))
    }

    /// Sessions, newest first.
    pub fn sessions(&self, limit: u32) -> Result<Vec<SessionRow>, StoreError> {
        self.read(|connection| read::sessions(connection, limit))
    }

    /// Batches of a session, newest first.
    pub fn batches(&self, session: &str) -> Result<Vec<BatchRow>, StoreError> {
        self.read(|connection| read::batches(connection, session))
    }

    /// Events after the number `after`, of one channel or of all. Pass the number of the last event to continue.
    pub fn events(
        &self,
        channel: Option<&str>,
        after: i64,
        limit: u32,
    ) -> Result<Vec<(i64, EventRow)>, StoreError> {
        self.read(|connection| read::events(connection, channel, after, limit))
    }

    /// Number of the newest event, to follow only newer ones.
    pub fn last_event(&self) -> Result<i64, StoreError> {
        self.read(read::last_event)
    }

    /// Unfinished calls whose process has ended, except deferred ones.
    pub fn orphans(&self) -> Result<Vec<CallRow>, StoreError> {
        self.read(|connection| checked_updates::orphans(connection, &self.0.paths.owners))
    }

    /// Adopts the orphaned calls: they now belong to this process, and no other process gets them.
    pub async fn adopt_orphans(&self) -> Result<Vec<CallRow>, StoreError> {
        let owners = self.0.paths.owners.clone();
        let us = self.owner().to_owned();
        self.change(0, move |connection| {
            checked_updates::adopt(connection, &owners, &us)
        })
        .await
    }

    /// Verifies the whole chain and all rows that it covers. Uses its own connection, so that calls are not
    /// delayed.
    pub fn verify(&self) -> Result<Verification, StoreError> {
        self.walk(verify::Extent::Rows, None)
    }

    /// Like [`Self::verify`], and checks that a previously recorded head is in the chain.
    pub fn verify_head(&self, noted: RecordedHead) -> Result<Verification, StoreError> {
        self.walk(verify::Extent::Rows, Some(noted))
    }

    /// Verifies the chain only. Sufficient before listings, because each row that is read is checked against the
    /// chain.
    pub fn verify_chain(&self) -> Result<Verification, StoreError> {
        self.walk(verify::Extent::Chain, None)
    }

    fn walk(
        &self,
        extent: verify::Extent,
        noted: Option<RecordedHead>,
    ) -> Result<Verification, StoreError> {
        let mut connection = schema::connect(&self.0.paths.database, self.0.busy)?;
        verify::verify(&mut connection, extent, noted).map_err(|error| self.failed(&error))
    }

    /// All approvals, including used up, expired and revoked ones.
    pub fn approvals(&self) -> Result<Vec<ApprovalRow>, StoreError> {
        self.read(read::approvals)
    }

    pub async fn put_approval(&self, row: ApprovalRow) -> Result<(), ApprovalError> {
        let weight = check_size("approval", row.weight())?;
        self.change(weight, move |connection| {
            checked_updates::put_approval(connection, &row)
        })
        .await?
    }

    pub async fn revoke_approval(&self, id: &str, at_ms: i64) -> Result<(), ApprovalError> {
        let id = id.to_owned();
        self.change(id.len(), move |connection| {
            checked_updates::revoke_approval(connection, &id, at_ms)
        })
        .await?
    }

    /// Counts a use; returns `false` if the approval is unknown, revoked, used up or expired.
    pub async fn use_approval(&self, id: &str, at_ms: i64) -> Result<bool, StoreError> {
        let id = id.to_owned();
        self.change(id.len(), move |connection| {
            checked_updates::use_approval(connection, &id, at_ms)
        })
        .await
    }

    /// Answers a waiting call of any process. The first answer to a question counts.
    pub async fn answer(&self, row: AnswerRow) -> Result<(), AnswerError> {
        let weight = check_size("answer", row.weight())?;
        self.change(weight, move |connection| {
            checked_updates::answer(connection, &row)
        })
        .await?
    }

    /// The answer to the question that a call asked with `updated_ms` equal to `asked_ms`. Compared by equality,
    /// because clocks can jump back between questions. Cheap while nothing is written.
    pub fn answer_for(&self, call: &str, asked_ms: i64) -> Result<Option<AnswerRow>, StoreError> {
        let mut reader = self.0.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let question = (call.to_owned(), asked_ms);
        // The version is read first, so that a write between the two reads is seen by the next check.
        let version = read::version(&reader.connection).map_err(|error| self.failed(&error))?;
        if reader.unanswered.get(&question) == Some(&version) {
            return Ok(None);
        }
        let snapshot = reader.connection.unchecked_transaction();
        let answer = snapshot
            .and_then(|snapshot| read::answer(&snapshot, call, asked_ms))
            .map_err(|error| self.failed(&error))?;
        if answer.is_some() {
            reader.unanswered.remove(&question);
        } else {
            if reader.unanswered.len() >= MAX_CACHED_QUESTIONS {
                reader.unanswered.clear();
            }
            reader.unanswered.insert(question, version);
        }
        Ok(answer)
    }

    /// Removes the answer of a call, before it asks again or when it has ended.
    pub async fn clear_answer(&self, call: &str) -> Result<(), StoreError> {
        let call = call.to_owned();
        self.change(call.len(), move |connection| {
            checked_updates::clear_answer(connection, &call)
        })
        .await
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store")
            .field(&self.0.paths.database)
            .finish()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(writer) = self.writer.take() {
            // A panic of the writer was already reported to the waiting callers.
            let _ = writer.join();
        }
    }
}

fn check_size(kind: &'static str, size: usize) -> Result<usize, StoreError> {
    if size > MAX_ROW {
        return Err(StoreError::TooLarge {
            kind,
            size,
            max: MAX_ROW,
        });
    }
    Ok(size)
}

/// Size of a write in bytes; no row may exceed the limit.
fn write_size(write: &Write) -> Result<usize, StoreError> {
    match write {
        Write::Call { row, transitions } => transitions
            .iter()
            .try_fold(check_size("record", row.weight())?, |sum, row| {
                Ok(sum + check_size("detail", row.weight())?)
            }),
        Write::Event(row) => check_size("event", row.weight()),
        Write::Session(row) => check_size("session", row.weight()),
        Write::Batch(row) => check_size("batch", row.weight()),
        Write::Many(writes) => writes
            .iter()
            .try_fold(0, |sum, write| Ok(sum + write_size(write)?)),
    }
}
