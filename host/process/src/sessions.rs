//! The sessions of a host, the jobs of each, and the admission of new ones.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::job::{JobHandle, SupervisorCommand};
use crate::output_directory::{OutputDirectory, SessionDirectory};
use crate::settings::JobQuota;
use crate::{JobOwner, OpenPath, OwnerKey, ProcessError, ProcessSettings, SessionOwner};

/// Maximum number of ended jobs per group whose output can still be read.
const MAX_ENDED_JOBS: usize = 64;
/// How long to wait beyond the grace period. The supervisor gives up slightly earlier.
pub const END_TIMEOUT: Duration = Duration::from_secs(12);

pub struct ProcessRegistry {
    pub settings: ProcessSettings,
    sessions: Mutex<Sessions>,
    next_folder: AtomicU64,
    closing: AtomicBool,
    /// Number of sessions whose programs were requested to end and may still be running.
    pub ending: watch::Sender<usize>,
    pub folder: OutputDirectory,
}

type Sessions = HashMap<SessionOwner, Session>;

pub struct Session {
    folder: Arc<SessionDirectory>,
    /// The number of the next job. Numbers are per session, so they reveal nothing about other sessions.
    next_job: u64,
    groups: HashMap<OwnerKey, JobGroup>,
}

struct JobGroup {
    temporary: OpenPath,
    jobs: BTreeMap<u64, JobHandle>,
    /// Starts in progress. They count against the limits before they are jobs.
    starting: usize,
}

impl ProcessRegistry {
    pub fn new(settings: ProcessSettings) -> Result<ProcessRegistry, ProcessError> {
        let folder = OutputDirectory::new(&settings.output_dir)?;
        Ok(ProcessRegistry {
            settings,
            sessions: Mutex::default(),
            next_folder: AtomicU64::new(1),
            closing: AtomicBool::new(false),
            ending: watch::Sender::new(0),
            folder,
        })
    }

    /// Refuses further starts, and returns the existing sessions.
    pub fn close(&self) -> Vec<Session> {
        self.closing.store(true, Ordering::SeqCst);
        self.sessions()
            .drain()
            .map(|(_, session)| session)
            .collect()
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a session and requests its programs to end. A new session of the same owner starts empty.
    pub fn begin_end(
        self: &Arc<ProcessRegistry>,
        owner: &SessionOwner,
    ) -> Option<(Session, EndingGuard)> {
        let session = self.sessions().remove(owner)?;
        session.request_end();
        self.ending.send_modify(|ending| *ending += 1);
        Some((session, EndingGuard(Arc::clone(self))))
    }

    /// The listed jobs of an owner, oldest first.
    pub fn listed(&self, owner: &JobOwner) -> Vec<JobHandle> {
        let sessions = self.sessions();
        let jobs = group_of(&sessions, owner)
            .into_iter()
            .flat_map(|group| group.jobs.values());
        jobs.filter(|handle| handle.process.is_listed.load(Ordering::Relaxed))
            .cloned()
            .collect()
    }

    pub fn job(&self, owner: &JobOwner, id: u64) -> Result<JobHandle, ProcessError> {
        let found = {
            let sessions = self.sessions();
            group_of(&sessions, owner).and_then(|group| group.jobs.get(&id).cloned())
        };
        if let Some(handle) = found {
            return Ok(handle);
        }
        let known = self.listed(owner);
        let known: Vec<_> = known.iter().map(|job| job.process.id.to_string()).collect();
        let known = if known.is_empty() {
            "none".to_owned()
        } else {
            known.join(", ")
        };
        Err(ProcessError::UnknownJob { id, known })
    }

    /// Returns the output directory of a session. Creates the session if it does not exist.
    pub fn output(&self, owner: &SessionOwner) -> Result<PathBuf, ProcessError> {
        if self.closing.load(Ordering::SeqCst) {
            return Err(ProcessError::Closing);
        }
        let mut sessions = self.sessions();
        Ok(self.session(&mut sessions, owner)?.folder.outputs())
    }

    fn session<'a>(
        &self,
        sessions: &'a mut Sessions,
        owner: &SessionOwner,
    ) -> Result<&'a mut Session, ProcessError> {
        if !sessions.contains_key(owner) {
            let number = self.next_folder.fetch_add(1, Ordering::Relaxed);
            let session = Session {
                folder: Arc::new(self.folder.session(number)?),
                next_job: 1,
                groups: HashMap::new(),
            };
            sessions.insert(owner.clone(), session);
        }
        Ok(sessions.get_mut(owner).expect("it was inserted above"))
    }

    /// Reserves a slot for one more program of an owner. Creates the session if it does not exist.
    pub fn reserve(
        self: &Arc<ProcessRegistry>,
        owner: &JobOwner,
    ) -> Result<StartSlot, ProcessError> {
        if self.closing.load(Ordering::SeqCst) {
            return Err(ProcessError::Closing);
        }
        let mut sessions = self.sessions();
        self.check_limits(&sessions, &owner.session)?;
        self.evict_outputs(&mut sessions, &owner.session.user)?;
        let session = self.session(&mut sessions, &owner.session)?;
        let id = session.next_job;
        session.next_job += 1;
        let folder = Arc::clone(&session.folder);
        let group = session.group(&owner.group)?;
        group.starting += 1;
        Ok(StartSlot {
            inner: Arc::clone(self),
            owner: owner.clone(),
            id,
            temporary: group.temporary.clone(),
            folder,
        })
    }

    /// Checks that the limits of the session, of its user and of the host allow one more running program.
    fn check_limits(&self, sessions: &Sessions, owner: &SessionOwner) -> Result<(), ProcessError> {
        let running = |is: &dyn Fn(&SessionOwner) -> bool| -> usize {
            let sessions = sessions.iter().filter(|(other, _)| is(other));
            sessions.map(|(_, session)| session.running()).sum()
        };
        let JobQuota { user, all } = self.settings.programs_at_once;
        let session = self.settings.max_jobs as u64;
        let limits = [
            ("this session", running(&|other| other == owner), session),
            (
                "this user",
                running(&|other| other.user == owner.user),
                user,
            ),
            ("all users", running(&|_| true), all),
        ];
        for (scope, running, most) in limits {
            if running as u64 >= most {
                return Err(ProcessError::TooMany {
                    scope,
                    running,
                    most,
                });
            }
        }
        Ok(())
    }

    /// Deletes outputs of ended jobs until one more output fits: the oldest of this user, or, if the total limit is
    /// exceeded, the oldest of the user with the most output.
    fn evict_outputs(&self, sessions: &mut Sessions, user: &OwnerKey) -> Result<(), ProcessError> {
        let each = self.settings.keep_output;
        let most = self.settings.kept_output;
        loop {
            let mut stored: HashMap<&OwnerKey, u64> = HashMap::from([(user, each)]);
            for (owner, session) in sessions.iter() {
                *stored.entry(&owner.user).or_default() += session.output_size(each);
            }
            let heaviest = stored.iter().max_by_key(|(_, bytes)| **bytes);
            let over = if stored[user] > most.user {
                user.clone()
            } else if stored.values().sum::<u64>() > most.all {
                heaviest.map_or(user, |(user, _)| *user).clone()
            } else {
                return Ok(());
            };
            let theirs = sessions.iter_mut().filter(|(owner, _)| owner.user == over);
            let oldest = theirs
                .filter_map(|(_, session)| Some((session.oldest_ended()?, session)))
                .min_by_key(|((began, ..), _)| *began);
            let Some(((_, group, id), session)) = oldest else {
                return Err(ProcessError::OutputFull { most: most.user });
            };
            session.remove_job(&group, id);
        }
    }
}

/// Marks a session as ending until it is dropped.
pub struct EndingGuard(Arc<ProcessRegistry>);

impl Drop for EndingGuard {
    fn drop(&mut self) {
        self.0.ending.send_modify(|ending| *ending -= 1);
    }
}

fn group_of<'a>(sessions: &'a Sessions, owner: &JobOwner) -> Option<&'a JobGroup> {
    sessions.get(&owner.session)?.groups.get(&owner.group)
}

/// A start in progress.
pub struct StartSlot {
    inner: Arc<ProcessRegistry>,
    owner: JobOwner,
    id: u64,
    temporary: OpenPath,
    /// Distinguishes the session from a later one of the same owner.
    folder: Arc<SessionDirectory>,
}

impl StartSlot {
    /// The number of the job in its session.
    pub fn id(&self) -> u64 {
        self.id
    }

    pub fn temporary(&self) -> &OpenPath {
        &self.temporary
    }

    /// The file for the program's output.
    pub fn output(&self) -> PathBuf {
        self.folder.output(self.id)
    }

    /// Registers the job. Fails if the session has ended in the meantime; the program is then killed because its handle
    /// is dropped.
    pub fn register(self, handle: JobHandle) -> Result<(), ProcessError> {
        self.with_group(|folder, group| {
            group.jobs.insert(handle.process.id, handle);
            group.remove_oldest(folder);
        })
        .ok_or(ProcessError::SessionEnded)
    }

    fn with_group(&self, act: impl FnOnce(&SessionDirectory, &mut JobGroup)) -> Option<()> {
        let mut sessions = self.inner.sessions();
        let session = sessions.get_mut(&self.owner.session)?;
        if !Arc::ptr_eq(&session.folder, &self.folder) {
            return None;
        }
        act(&self.folder, session.groups.get_mut(&self.owner.group)?);
        Some(())
    }
}

impl Drop for StartSlot {
    fn drop(&mut self) {
        let _ = self.with_group(|_, group| group.starting -= 1);
    }
}

impl Session {
    fn group(&mut self, key: &OwnerKey) -> Result<&mut JobGroup, ProcessError> {
        if !self.groups.contains_key(key) {
            let group = JobGroup {
                temporary: self.folder.temporary(self.groups.len())?,
                jobs: BTreeMap::new(),
                starting: 0,
            };
            self.groups.insert(key.clone(), group);
        }
        Ok(self.groups.get_mut(key).expect("it was inserted above"))
    }

    fn jobs(&self) -> impl Iterator<Item = &JobHandle> {
        self.groups.values().flat_map(|group| group.jobs.values())
    }

    fn starting(&self) -> usize {
        self.groups.values().map(|group| group.starting).sum()
    }

    fn running(&self) -> usize {
        let running = |job: &&JobHandle| !job.process.state().has_ended();
        self.starting() + self.jobs().filter(running).count()
    }

    /// Bytes of output in files. A running program counts with the maximum that can be kept.
    fn output_size(&self, each: u64) -> u64 {
        let jobs = self.jobs().map(|job| {
            if job.process.state().has_ended() {
                job.process.output().total().min(each)
            } else {
                each
            }
        });
        self.starting() as u64 * each + jobs.sum::<u64>()
    }

    /// The ended job with output that started first.
    fn oldest_ended(&self) -> Option<(Instant, OwnerKey, u64)> {
        let groups = self.groups.iter();
        let jobs = groups.flat_map(|(key, group)| group.jobs.values().map(move |job| (key, job)));
        jobs.filter(|(_, job)| job.process.state().has_ended() && job.process.output().total() > 0)
            .map(|(key, job)| (job.process.started_at, key.clone(), job.process.id))
            .min_by_key(|(began, ..)| *began)
    }

    fn remove_job(&mut self, group: &OwnerKey, id: u64) {
        if let Some(group) = self.groups.get_mut(group) {
            group.remove_job(&self.folder, id);
        }
    }

    pub fn request_end(&self) {
        for handle in self.jobs() {
            handle.send(SupervisorCommand::End);
        }
    }

    pub async fn end(self, grace: Duration) {
        self.request_end();
        for handle in self.jobs() {
            handle
                .process
                .wait_until(END_TIMEOUT + grace, |news| news.state.has_ended())
                .await;
        }
    }
}

impl JobGroup {
    /// Removes the oldest ended jobs beyond the limit, with their files.
    fn remove_oldest(&mut self, folder: &SessionDirectory) {
        let over: Vec<u64> = self
            .jobs
            .iter()
            .filter(|(_, job)| job.process.state().has_ended())
            .map(|(&id, _)| id)
            .collect();
        for &id in &over[..over.len().saturating_sub(MAX_ENDED_JOBS)] {
            self.remove_job(folder, id);
        }
    }

    fn remove_job(&mut self, folder: &SessionDirectory, id: u64) {
        self.jobs.remove(&id);
        // A job that wrote nothing has no file.
        let _ = std::fs::remove_file(folder.output(id));
    }
}
