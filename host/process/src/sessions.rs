//! The sessions of a host and the jobs of each, and room for one more.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::folder::{Folder, SessionFolder};
use crate::job::{Handle, Order};
use crate::{ProcessError, Settings};

/// Finished jobs of a session whose output can still be read.
const REMEMBERED: usize = 64;
/// Beyond the grace; the minder gives up a little earlier.
pub const END_PATIENCE: Duration = Duration::from_secs(12);

pub struct Inner {
    pub settings: Settings,
    sessions: Mutex<HashMap<String, Session>>,
    pub next: AtomicU64,
    closing: AtomicBool,
    pub folder: Folder,
}

pub struct Session {
    folder: Arc<SessionFolder>,
    pub jobs: BTreeMap<u64, Handle>,
    /// Starts that are under way: they count before they are jobs.
    starting: usize,
}

impl Inner {
    pub fn new(settings: Settings) -> Result<Inner, ProcessError> {
        let folder = Folder::new(&settings.output_dir)?;
        Ok(Inner {
            settings,
            sessions: Mutex::default(),
            next: AtomicU64::new(1),
            closing: AtomicBool::new(false),
            folder,
        })
    }

    /// From here on nothing is started; what was is returned.
    pub fn close(&self) -> Vec<Session> {
        self.closing.store(true, Ordering::SeqCst);
        self.sessions()
            .drain()
            .map(|(_, session)| session)
            .collect()
    }

    pub fn sessions(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn job(&self, session: &str, id: u64) -> Result<Handle, ProcessError> {
        let sessions = self.sessions();
        let jobs = sessions.get(session).map(|session| &session.jobs);
        if let Some(handle) = jobs.and_then(|jobs| jobs.get(&id)) {
            return Ok(handle.clone());
        }
        let listed = |handle: &&Handle| handle.process.listed.load(Ordering::Relaxed);
        let known = jobs.into_iter().flat_map(BTreeMap::values).filter(listed);
        let known: Vec<_> = known.map(|handle| handle.process.id.to_string()).collect();
        let known = if known.is_empty() {
            "none".to_owned()
        } else {
            known.join(", ")
        };
        Err(ProcessError::UnknownJob { id, known })
    }

    /// Room for one more program in a session, which is made when it is new.
    pub fn place(
        self: &Arc<Inner>,
        name: &str,
    ) -> Result<(Place, Arc<SessionFolder>), ProcessError> {
        if self.closing.load(Ordering::SeqCst) {
            return Err(ProcessError::Closing);
        }
        let mut sessions = self.sessions();
        if !sessions.contains_key(name) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let session = Session {
                folder: Arc::new(self.folder.session(number)?),
                jobs: BTreeMap::new(),
                starting: 0,
            };
            sessions.insert(name.to_owned(), session);
        }
        let session = sessions
            .get_mut(name)
            .expect("it was put there a line above");
        let running = session.starting
            + session
                .jobs
                .values()
                .filter(|job| !job.process.state().is_over())
                .count();
        let most = self.settings.max_jobs;
        if running >= most {
            return Err(ProcessError::TooMany { running, most });
        }
        session.starting += 1;
        let folder = Arc::clone(&session.folder);
        let place = Place {
            inner: Arc::clone(self),
            session: name.to_owned(),
            folder: Arc::clone(&folder),
        };
        Ok((place, folder))
    }
}

/// A start that is under way.
pub struct Place {
    inner: Arc<Inner>,
    session: String,
    /// Tells the session from a later one of the same name.
    folder: Arc<SessionFolder>,
}

impl Place {
    /// Fails when the session was ended meanwhile; the program is then killed, because nobody holds its handle.
    pub fn take(self, handle: Handle) -> Result<(), ProcessError> {
        self.with_session(|session| {
            session.jobs.insert(handle.process.id, handle);
            session.forget();
        })
        .ok_or(ProcessError::Closing)
    }

    fn with_session(&self, act: impl FnOnce(&mut Session)) -> Option<()> {
        let mut sessions = self.inner.sessions();
        let session = sessions.get_mut(&self.session)?;
        Arc::ptr_eq(&session.folder, &self.folder).then(|| act(session))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.with_session(|session| session.starting -= 1);
    }
}

impl Session {
    /// The oldest of too many that ended, with their files.
    fn forget(&mut self) {
        let over: Vec<u64> = self
            .jobs
            .iter()
            .filter(|(_, job)| job.process.state().is_over())
            .map(|(&id, _)| id)
            .collect();
        for id in &over[..over.len().saturating_sub(REMEMBERED)] {
            self.jobs.remove(id);
            // One that wrote nothing has no file.
            let _ = std::fs::remove_file(self.folder.output(*id));
        }
    }

    pub fn tell_all(&self) {
        for handle in self.jobs.values() {
            handle.tell(Order::End);
        }
    }

    pub async fn end(self, grace: Duration) {
        self.tell_all();
        for handle in self.jobs.values() {
            handle
                .process
                .wait_until(END_PATIENCE + grace, |news| news.state.is_over())
                .await;
        }
    }
}
