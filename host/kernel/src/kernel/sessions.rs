//! The sessions of this process: their in-memory state, quotas and end.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolhost_contract::policy::Mode;
use toolhost_contract::{QuotaError, QuotaKind, SessionId, SessionKey, UserId, UserQuota};

use super::services::{BackgroundCalls, SessionStore};
use crate::quota::{QuotaMeter, QuotaReservation};
use crate::schedule::{BatchQueue, LoopGuard};

/// Called with a session that ends, and again when its last call has ended.
pub type OnSessionEnd = Arc<dyn Fn(&SessionKey) + Send + Sync>;

/// The in-memory state of one session.
pub(super) struct Session {
    key: SessionKey,
    pub(super) queue: BatchQueue,
    pub(super) loop_guard: LoopGuard,
    /// `None` uses the mode of the policy.
    mode: Mutex<Option<Mode>>,
    store: Mutex<SessionStore>,
    jobs: BackgroundCalls,
    /// Counts the bytes that the session keeps in memory.
    bytes: QuotaMeter,
    on_end: Option<OnSessionEnd>,
}

impl Session {
    fn new(key: SessionKey, bytes: QuotaMeter, on_end: Option<OnSessionEnd>) -> Self {
        Self {
            store: Mutex::new(SessionStore::with_quota(bytes.empty(&key.user))),
            bytes,
            key,
            queue: BatchQueue::default(),
            loop_guard: LoopGuard::default(),
            mode: Mutex::default(),
            jobs: BackgroundCalls::default(),
            on_end,
        }
    }

    pub(super) fn mode(&self) -> Option<Mode> {
        *self.mode.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_mode(&self, mode: Mode) {
        *self.mode.lock().unwrap_or_else(PoisonError::into_inner) = Some(mode);
    }

    pub(super) fn store(&self) -> MutexGuard<'_, SessionStore> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn jobs(&self) -> &BackgroundCalls {
        &self.jobs
    }

    /// Reserves `bytes` more of memory.
    pub(super) fn take_bytes(&self, bytes: u64) -> Result<QuotaReservation, QuotaError> {
        self.bytes.take(&self.key.user, bytes)
    }

    /// Whether recreating the session would not make it less strict. A session without its own mode uses the mode of
    /// the policy, and its stored values only allow more.
    fn is_evictable(this: &Arc<Self>) -> bool {
        Arc::strong_count(this) == 1 && this.mode().is_none() && this.jobs.is_empty()
    }
}

impl Drop for Session {
    /// Calls the end callback again, because a call that began before the end may have created state after it.
    fn drop(&mut self) {
        if let Some(on_end) = &self.on_end {
            on_end(&self.key);
        }
    }
}

pub(super) struct Sessions {
    quota: UserQuota,
    bytes: QuotaMeter,
    users: Mutex<BTreeMap<UserId, UserSessions>>,
    on_end: Option<OnSessionEnd>,
}

type UserSessions = HashMap<SessionId, Arc<Session>>;

fn count(users: &BTreeMap<UserId, UserSessions>) -> usize {
    users.values().map(HashMap::len).sum()
}

impl Sessions {
    pub(super) fn new(quota: UserQuota, bytes: QuotaMeter, on_end: Option<OnSessionEnd>) -> Self {
        Self {
            quota,
            bytes,
            users: Mutex::default(),
            on_end,
        }
    }

    pub(super) fn find(&self, key: &SessionKey) -> Option<Arc<Session>> {
        self.users().get(&key.user)?.get(&key.session).cloned()
    }

    /// Returns the session, creating it if needed. To make room, unused sessions of the same user that are no stricter
    /// than a new one are dropped; sessions of other users are not.
    pub(super) fn get(&self, key: &SessionKey) -> Result<Arc<Session>, QuotaError> {
        // The common case.
        if let Some(session) = self.find(key) {
            return Ok(session);
        }
        // Dropped after the lock is released, because ending a session can take a while.
        let mut forgotten = Vec::new();
        let mut users = self.users();
        let theirs = users.entry(key.user.clone()).or_default();
        if let Some(session) = theirs.get(&key.session) {
            return Ok(Arc::clone(session));
        }
        let is_full = theirs.len() as u64 >= self.quota.user;
        if is_full || count(&users) as u64 >= self.quota.all {
            let theirs = users.entry(key.user.clone()).or_default();
            let idle = theirs.extract_if(|_, session| Session::is_evictable(session));
            forgotten.extend(idle);
        }
        let all = count(&users) as u64;
        let theirs = users.entry(key.user.clone()).or_default();
        let kind = QuotaKind::Sessions;
        let refused = if theirs.len() as u64 >= self.quota.user {
            let most = self.quota.user;
            Some(QuotaError::User { kind, most })
        } else if all >= self.quota.all {
            let most = self.quota.all;
            Some(QuotaError::All { kind, most })
        } else {
            None
        };
        if let Some(error) = refused {
            if theirs.is_empty() {
                users.remove(&key.user);
            }
            return Err(error);
        }
        let session = Session::new(key.clone(), self.bytes.clone(), self.on_end.clone());
        let session = Arc::new(session);
        theirs.insert(key.session.clone(), Arc::clone(&session));
        drop(users);
        drop(forgotten);
        Ok(session)
    }

    /// Ends the session. Its state is dropped when its calls have ended.
    pub(super) fn end(&self, key: &SessionKey) {
        let ended = {
            let mut users = self.users();
            let theirs = users.get_mut(&key.user);
            let ended = theirs.and_then(|theirs| theirs.remove(&key.session));
            if users.get(&key.user).is_some_and(HashMap::is_empty) {
                users.remove(&key.user);
            }
            ended
        };
        if let Some(session) = ended {
            session.jobs.end();
        }
        if let Some(on_end) = &self.on_end {
            on_end(key);
        }
    }

    fn users(&self) -> MutexGuard<'_, BTreeMap<UserId, UserSessions>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    fn sessions(user: u64, all: u64) -> (Sessions, Arc<AtomicUsize>) {
        let ended = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&ended);
        let on_end: OnSessionEnd = Arc::new(move |_| {
            count.fetch_add(1, Relaxed);
        });
        let quota = UserQuota { user, all };
        let bytes = QuotaMeter::new(QuotaKind::SessionBytes, quota);
        (Sessions::new(quota, bytes, Some(on_end)), ended)
    }

    fn key(user: &str, session: usize) -> SessionKey {
        SessionKey::new(UserId::token(user), session.to_string())
    }

    #[test]
    fn a_10_sessions_of_one_user_do_not_change_the_mode_of_another() {
        let (sessions, _) = sessions(4, 100);
        let bob = key("bob", 1);
        sessions.get(&bob).unwrap().set_mode(Mode::Plan);
        for number in 0..1_000 {
            sessions.get(&key("ann", number)).unwrap();
        }
        assert_eq!(sessions.find(&bob).unwrap().mode(), Some(Mode::Plan));
    }

    #[test]
    fn a_10_a_session_with_a_mode_is_kept_and_a_new_session_is_refused() {
        let (sessions, _) = sessions(2, 3);
        for number in 0..2 {
            sessions
                .get(&key("ann", number))
                .unwrap()
                .set_mode(Mode::Plan);
        }
        let refused = |user, number| sessions.get(&key(user, number)).err().unwrap().to_string();
        assert_eq!(
            refused("ann", 2),
            "the user has reached the limit of 2 sessions"
        );
        sessions.get(&key("bob", 0)).unwrap().set_mode(Mode::Plan);
        assert_eq!(
            refused("bob", 1),
            "all users together have reached the limit of 3 sessions"
        );
        assert_eq!(
            sessions.find(&key("ann", 0)).unwrap().mode(),
            Some(Mode::Plan)
        );
        sessions.end(&key("ann", 0));
        sessions.get(&key("ann", 2)).unwrap();
    }

    #[test]
    fn a_03_the_end_callback_runs_when_a_session_ends_and_when_its_last_call_ends() {
        let (sessions, ended) = sessions(2, 4);
        let call = sessions.get(&key("ann", 1)).unwrap();
        sessions.end(&key("ann", 1));
        assert_eq!(ended.load(Relaxed), 1);
        drop(call);
        assert_eq!(ended.load(Relaxed), 2);
        assert!(sessions.users().is_empty());
        // A session that is dropped to make room has ended as well.
        for number in 0..3 {
            sessions.get(&key("ann", number)).unwrap();
        }
        assert_eq!(ended.load(Relaxed), 4);
    }
}
