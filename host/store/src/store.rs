//! The store as its users see it: writes go to the writer, reads have a connection of their own.

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
use crate::place::Place;
use crate::queue::{Job, Queue, Work};
use crate::rows::Weight;
use crate::writer::Writer;
use crate::{
    AnswerError, AnswerRow, ApprovalError, ApprovalRow, BatchRow, CallFilter, CallRow, EventRow,
    MAX_ROW, SessionRow, StoreError, StoredTransition, TransitionFilter, Verification, Write,
    decide, read, schema, stage, verify,
};

/// How long one process waits for another one's transaction.
const BUSY: Duration = Duration::from_secs(5);

/// How many questions the cheap look remembers before it forgets them all.
const MAX_LOOKS: usize = 1024;

/// One process's door to a state directory. Cloning is cheap; when the last clone goes, what waits is written.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    place: Place,
    busy: Duration,
    owner: Owner,
    queue: Arc<Queue>,
    writer: Option<JoinHandle<()>>,
    reader: Mutex<Reader>,
}

struct Reader {
    connection: Connection,
    /// For each question without an answer, the version of the file in which there was none.
    looks: HashMap<(String, i64), i64>,
}

impl Store {
    /// Opens the store of a state directory, which is made if it is not there.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        Self::open_with(dir, BUSY)
    }

    pub(crate) fn open_with(dir: &Path, busy: Duration) -> Result<Self, StoreError> {
        let place = Place::prepare(dir)?;
        let mut writing = schema::connect(&place.database, busy)?;
        schema::migrate(&mut writing, &place.database, busy)?;
        let reading = schema::connect(&place.database, busy)?;
        reading
            .pragma_update(None, "query_only", true)
            .map_err(|error| StoreError::sql(&place.database, &error))?;
        owner::sweep(&place.owners)?;
        stage::sweep(&place.stage, &place.owners)?;
        let owner = Owner::enter(&place.owners)?;
        let queue = Arc::new(Queue::default());
        let writer = Writer {
            connection: writing,
            database: place.database.clone(),
            owner: owner.id().to_owned(),
            queue: Arc::clone(&queue),
        };
        let thread = thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || writer.run())
            .map_err(|error| StoreError::io(&place.database, &error))?;
        Ok(Self(Arc::new(Inner {
            place,
            busy,
            owner,
            queue,
            writer: Some(thread),
            reader: Mutex::new(Reader {
                connection: reading,
                looks: HashMap::new(),
            }),
        })))
    }

    /// The name under which this process's calls are kept.
    pub fn owner(&self) -> &str {
        self.0.owner.id()
    }

    /// Whether the last attempt to write succeeded.
    pub fn health(&self) -> Result<(), StoreError> {
        self.0.queue.health()
    }

    /// Takes a write that need not be on disk when this returns. It shares a transaction with others; if that fails
    /// it is kept and tried again, and until then no more are taken.
    pub fn queue(&self, write: Write) -> Result<(), StoreError> {
        self.0.queue.push(Job {
            weight: weigh(&write)?,
            work: Work::write(|| write),
            reply: None,
        })
    }

    /// The same for a write that takes time to make, which is then the writer's time. `weight`: how many bytes its
    /// rows have at most, and at most [`MAX_ROW`].
    pub fn queue_draft(
        &self,
        weight: usize,
        draft: impl FnOnce() -> Write + Send + 'static,
    ) -> Result<(), StoreError> {
        self.0.queue.push(Job {
            weight: fits("record", weight)?,
            work: Work::write(draft),
            reply: None,
        })
    }

    /// Takes a write if there is room for it just now. For what may be lost.
    pub fn offer(&self, write: Write) -> Result<(), StoreError> {
        self.0.queue.push_if_room(Job {
            weight: weigh(&write)?,
            work: Work::write(|| write),
            reply: None,
        })
    }

    /// Returns when the write is on disk, with everything that was queued before it. A write that failed is not tried
    /// again.
    pub async fn commit(&self, write: Write) -> Result<(), StoreError> {
        let weight = weigh(&write)?;
        self.hand_over(Work::write(|| write), weight).await
    }

    /// Returns when everything queued so far is on disk.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.hand_over(Work::write(|| Write::Many(Vec::new())), 0)
            .await
    }

    async fn hand_over(&self, work: Work, weight: usize) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        self.0.queue.push_awaited(Job {
            work,
            weight,
            reply: Some(reply),
        })?;
        answer.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Runs a change in the writer, after everything that was queued before it.
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
        self.hand_over(work, weight).await?;
        let value = made.lock().unwrap_or_else(PoisonError::into_inner).take();
        value.ok_or(StoreError::Closed)
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let reader = self.0.reader.lock().unwrap_or_else(PoisonError::into_inner);
        // One snapshot: a row is compared with the link that was written with it.
        let snapshot = reader.connection.unchecked_transaction();
        let snapshot = snapshot.map_err(|error| self.failed(&error))?;
        read(&snapshot).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &rusqlite::Error) -> StoreError {
        StoreError::sql(&self.0.place.database, error)
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

    /// The newest sessions first.
    pub fn sessions(&self, limit: u32) -> Result<Vec<SessionRow>, StoreError> {
        self.read(|connection| read::sessions(connection, limit))
    }

    /// The newest batches of a session first.
    pub fn batches(&self, session: &str) -> Result<Vec<BatchRow>, StoreError> {
        self.read(|connection| read::batches(connection, session))
    }

    /// Events after the one numbered `after`, of one channel or of all; the number of the last one read is where to
    /// go on.
    pub fn events(
        &self,
        channel: Option<&str>,
        after: i64,
        limit: u32,
    ) -> Result<Vec<(i64, EventRow)>, StoreError> {
        self.read(|connection| read::events(connection, channel, after, limit))
    }

    /// The number of the newest event: following from here on shows only what is new.
    pub fn last_event(&self) -> Result<i64, StoreError> {
        self.read(read::last_event)
    }

    /// Unfinished calls whose process is gone, except those that wait on purpose.
    pub fn orphans(&self) -> Result<Vec<CallRow>, StoreError> {
        self.read(|connection| decide::orphans(connection, &self.0.place.owners))
    }

    /// The orphans, taken over: from now on they are this process's, and no other one gets them.
    pub async fn adopt_orphans(&self) -> Result<Vec<CallRow>, StoreError> {
        let owners = self.0.place.owners.clone();
        let us = self.owner().to_owned();
        self.change(0, move |connection| decide::adopt(connection, &owners, &us))
            .await
    }

    /// Walks the whole chain and compares every row that it covers. Uses a connection of its own, so that no call waits.
    pub fn verify(&self) -> Result<Verification, StoreError> {
        self.walk(verify::Extent::Rows, None)
    }

    /// The same, and a head that was noted earlier has to be in the chain.
    pub fn verify_head(&self, noted: [u8; 32]) -> Result<Verification, StoreError> {
        self.walk(verify::Extent::Rows, Some(noted))
    }

    /// Walks the chain only. What is read of this store is compared with the chain row by row, so this is what a
    /// listing needs before it.
    pub fn verify_chain(&self) -> Result<Verification, StoreError> {
        self.walk(verify::Extent::Chain, None)
    }

    fn walk(
        &self,
        extent: verify::Extent,
        noted: Option<[u8; 32]>,
    ) -> Result<Verification, StoreError> {
        let mut connection = schema::connect(&self.0.place.database, self.0.busy)?;
        verify::verify(&mut connection, extent, noted).map_err(|error| self.failed(&error))
    }

    /// All approvals, also those that are used up, expired or revoked.
    pub fn approvals(&self) -> Result<Vec<ApprovalRow>, StoreError> {
        self.read(read::approvals)
    }

    pub async fn put_approval(&self, row: ApprovalRow) -> Result<(), ApprovalError> {
        let weight = fits("approval", row.weight())?;
        self.change(weight, move |connection| {
            decide::put_approval(connection, &row)
        })
        .await?
    }

    pub async fn revoke_approval(&self, id: &str, at_ms: i64) -> Result<(), ApprovalError> {
        let id = id.to_owned();
        self.change(id.len(), move |connection| {
            decide::revoke_approval(connection, &id, at_ms)
        })
        .await?
    }

    /// Counts a use; no when the approval is unknown, revoked, used up or expired.
    pub async fn use_approval(&self, id: &str, at_ms: i64) -> Result<bool, StoreError> {
        let id = id.to_owned();
        self.change(id.len(), move |connection| {
            decide::use_approval(connection, &id, at_ms)
        })
        .await
    }

    /// Answers a call that waits, in whichever process it does. The first answer to a question counts.
    pub async fn answer(&self, row: AnswerRow) -> Result<(), AnswerError> {
        let weight = fits("answer", row.weight())?;
        self.change(weight, move |connection| decide::answer(connection, &row))
            .await?
    }

    /// The answer to the question a call asked with the row whose `updated_ms` was `asked_ms`. Equality and not order,
    /// because a clock may jump back between two questions. Cheap while nothing is written.
    pub fn answer_for(&self, call: &str, asked_ms: i64) -> Result<Option<AnswerRow>, StoreError> {
        let mut reader = self.0.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let question = (call.to_owned(), asked_ms);
        // The version is taken first: what is written between the two reads is seen by the next look.
        let version = read::version(&reader.connection).map_err(|error| self.failed(&error))?;
        if reader.looks.get(&question) == Some(&version) {
            return Ok(None);
        }
        let snapshot = reader.connection.unchecked_transaction();
        let answer = snapshot
            .and_then(|snapshot| read::answer(&snapshot, call, asked_ms))
            .map_err(|error| self.failed(&error))?;
        if answer.is_some() {
            reader.looks.remove(&question);
        } else {
            if reader.looks.len() >= MAX_LOOKS {
                reader.looks.clear();
            }
            reader.looks.insert(question, version);
        }
        Ok(answer)
    }

    /// Forgets the answer of a call, before it asks again or when it has ended.
    pub async fn clear_answer(&self, call: &str) -> Result<(), StoreError> {
        let call = call.to_owned();
        self.change(call.len(), move |connection| {
            decide::clear_answer(connection, &call)
        })
        .await
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store")
            .field(&self.0.place.database)
            .finish()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(writer) = self.writer.take() {
            // A panic there has been told to everybody who waited.
            let _ = writer.join();
        }
    }
}

fn fits(what: &'static str, size: usize) -> Result<usize, StoreError> {
    if size > MAX_ROW {
        return Err(StoreError::TooLarge {
            what,
            size,
            max: MAX_ROW,
        });
    }
    Ok(size)
}

/// The bytes of a write, of which no row may have too many.
fn weigh(write: &Write) -> Result<usize, StoreError> {
    match write {
        Write::Call { row, transitions } => transitions
            .iter()
            .try_fold(fits("record", row.weight())?, |sum, row| {
                Ok(sum + fits("detail", row.weight())?)
            }),
        Write::Event(row) => fits("event", row.weight()),
        Write::Session(row) => fits("session", row.weight()),
        Write::Batch(row) => fits("batch", row.weight()),
        Write::Many(writes) => writes
            .iter()
            .try_fold(0, |sum, write| Ok(sum + weigh(write)?)),
    }
}
