//! The pending questions of a host, and the last ones that were answered.
//!
//! An entry is one asking of one question and never changes. A call that asks again has a new entry.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{oneshot, watch};
use toolhost_contract::lifecycle::Timestamp;
use toolhost_contract::policy::{Risk, TitlePlace};
use toolhost_contract::{Call, CallId, Question, QuestionForm};
use toolhost_kernel::{AttributedReplies, Clock};

/// Number of answered questions that are remembered.
const MAX_RESOLVED: usize = 500;

/// A pending question.
pub struct PendingEntry {
    /// Identifies the entry in this process.
    pub number: u64,
    pub question: Question,
    pub call: Call,
    /// Covers everything that the page shows about the question, in hexadecimal.
    pub digest: String,
    pub asked_at: Timestamp,
    /// What the call would do, in one line, unescaped.
    pub title: String,
    /// The number of changes and of changed lines.
    pub change_counts: Option<String>,
    pub risk: Risk,
    pub risk_reason: &'static str,
}

/// Questions of a running tool.
pub struct PendingInterview {
    pub number: u64,
    pub form: QuestionForm,
    pub asked_at: Timestamp,
    answer: Mutex<Option<oneshot::Sender<AttributedReplies>>>,
}

/// How a question ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution {
    pub number: u64,
    pub call: CallId,
    pub title: String,
    /// `approved`, `declined`, `sent back with another input`, or `withdrawn`.
    pub outcome: &'static str,
    /// The author of the answer; `None` if the call ended without one.
    pub by: Option<String>,
    pub at: Timestamp,
}

/// The numbers that the page shows everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InboxCounts {
    pub high: usize,
    pub medium: usize,
    pub low: usize,
    pub interviews: usize,
}

impl InboxCounts {
    pub fn questions(self) -> usize {
        self.high + self.medium + self.low
    }

    pub fn total(self) -> usize {
        self.questions() + self.interviews
    }

    fn of(&mut self, risk: Risk) -> &mut usize {
        match risk {
            Risk::High => &mut self.high,
            Risk::Medium => &mut self.medium,
            Risk::Low => &mut self.low,
        }
    }
}

/// Order in the list: highest risk first, then order of arrival.
type Place = (Reverse<Risk>, u64);

#[derive(Default)]
struct State {
    last_number: u64,
    pending: BTreeMap<Place, Arc<PendingEntry>>,
    places: HashMap<u64, Place>,
    interviews: BTreeMap<u64, Arc<PendingInterview>>,
    counts: InboxCounts,
    resolved: VecDeque<Resolution>,
}

pub struct Inbox {
    state: Mutex<State>,
    /// Whether a page shows the questions.
    served: AtomicBool,
    version: watch::Sender<u64>,
    pub(crate) clock: Clock,
    /// Titles show paths below this directory relative to it.
    pub(crate) base: Option<String>,
}

/// Keeps an entry listed until dropped.
pub(crate) struct EntryGuard<'a> {
    inbox: &'a Inbox,
    number: u64,
}

/// Keeps an interview listed until dropped.
pub(crate) struct InterviewGuard<'a> {
    inbox: &'a Inbox,
    number: u64,
    pub(crate) answer: oneshot::Receiver<AttributedReplies>,
}

/// Why an answer of the page was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EntryMissing {
    Resolved(Resolution),
    /// The same call asks another question now.
    Replaced(u64),
    Unknown,
}

impl Inbox {
    pub fn new(clock: Clock, base: Option<String>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            served: AtomicBool::new(false),
            version: watch::Sender::new(0),
            clock,
            base,
        })
    }

    /// Questions wait for the page from now on, also without any other way to ask a user.
    pub fn set_served(&self) {
        self.served.store(true, Ordering::Release);
    }

    pub fn is_served(&self) -> bool {
        self.served.load(Ordering::Acquire)
    }

    /// Changes with each change of the inbox.
    pub(crate) fn versions(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    pub(crate) fn open(&self, question: &Question, call: &Call) -> EntryGuard<'_> {
        let (risk, risk_reason) = question.risk();
        let digest = digest(question, call);
        let title = question.title(TitlePlace::List, self.base.as_deref());
        let change_counts = question.changes.as_ref().map(ToString::to_string);
        let mut state = self.lock();
        state.last_number += 1;
        let number = state.last_number;
        let place = (Reverse(risk), number);
        let entry = Arc::new(PendingEntry {
            number,
            question: question.clone(),
            call: call.clone(),
            digest,
            asked_at: self.clock.now(),
            title,
            change_counts,
            risk,
            risk_reason,
        });
        state.pending.insert(place, entry);
        state.places.insert(number, place);
        *state.counts.of(risk) += 1;
        drop(state);
        self.changed();
        EntryGuard {
            inbox: self,
            number,
        }
    }

    pub(crate) fn open_interview(&self, form: &QuestionForm) -> InterviewGuard<'_> {
        let (sender, answer) = oneshot::channel();
        let mut state = self.lock();
        state.last_number += 1;
        let number = state.last_number;
        let interview = PendingInterview {
            number,
            form: form.clone(),
            asked_at: self.clock.now(),
            answer: Mutex::new(Some(sender)),
        };
        state.interviews.insert(number, Arc::new(interview));
        state.counts.interviews += 1;
        drop(state);
        self.changed();
        InterviewGuard {
            inbox: self,
            number,
            answer,
        }
    }

    pub(crate) fn counts(&self) -> InboxCounts {
        self.lock().counts
    }

    /// Returns a part of the list.
    pub(crate) fn list(&self, skip: usize, take: usize) -> Vec<Arc<PendingEntry>> {
        let state = self.lock();
        let entries = state.pending.values().skip(skip).take(take);
        entries.map(Arc::clone).collect()
    }

    pub(crate) fn interviews(&self, take: usize) -> Vec<Arc<PendingInterview>> {
        let state = self.lock();
        state
            .interviews
            .values()
            .take(take)
            .map(Arc::clone)
            .collect()
    }

    pub(crate) fn entry(&self, number: u64) -> Result<Arc<PendingEntry>, EntryMissing> {
        let state = self.lock();
        state.entry(number)
    }

    pub(crate) fn interview(&self, number: u64) -> Option<Arc<PendingInterview>> {
        self.lock().interviews.get(&number).map(Arc::clone)
    }

    /// The pending questions that can be answered together with this one, which is the first.
    pub(crate) fn similar(&self, entry: &PendingEntry, max: usize) -> Vec<Arc<PendingEntry>> {
        let state = self.lock();
        let same_risk = (Reverse(entry.risk), 0)..=(Reverse(entry.risk), u64::MAX);
        let mut similar: Vec<_> = state
            .pending
            .range(same_risk)
            // Finds those that arrived close to it without comparing 100,000.
            .map(|(_, other)| other)
            .filter(|other| other.number != entry.number)
            .take(1_000)
            .filter(|other| {
                entry.question.is_similar(&other.question) && entry.call.caller == other.call.caller
            })
            .take(max.saturating_sub(1))
            .map(Arc::clone)
            .collect();
        if let Ok(own) = state.entry(entry.number) {
            similar.insert(0, own);
        }
        similar
    }

    /// Returns the last answered questions, newest first.
    pub(crate) fn resolved(&self, take: usize) -> Vec<Resolution> {
        self.lock().resolved.iter().take(take).cloned().collect()
    }

    /// Answers a question while its entry is listed. The kernel closes a question only after its entry was removed, so
    /// `answer` cannot reach a later question of the same call.
    pub(crate) fn answer<E>(
        &self,
        number: u64,
        outcome: &'static str,
        by: &str,
        answer: impl FnOnce(&PendingEntry) -> Result<(), E>,
    ) -> Result<Result<(), E>, EntryMissing> {
        let mut state = self.lock();
        let entry = state.entry(number)?;
        let answered = answer(&entry);
        if answered.is_ok() {
            state.resolve(number, Some(by.to_owned()), outcome, self.clock.now());
            drop(state);
            self.changed();
        }
        Ok(answered)
    }

    /// Records who answered the question of a call, if that was not the page.
    pub(crate) fn answered_elsewhere(&self, call: &CallId, by: &str) {
        let state = self.lock();
        let entry = state.pending.values().find(|entry| entry.call.id == *call);
        let number = entry.map(|entry| entry.number);
        drop(state);
        if let Some(number) = number {
            self.close(number, Some(by.to_owned()), "answered");
        }
    }

    fn close(&self, number: u64, by: Option<String>, outcome: &'static str) {
        let mut state = self.lock();
        state.resolve(number, by, outcome, self.clock.now());
        drop(state);
        self.changed();
    }

    fn changed(&self) {
        self.version.send_modify(|version| *version += 1);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Removes an entry from the list. The first resolution counts.
    fn resolve(&mut self, number: u64, by: Option<String>, outcome: &'static str, at: Timestamp) {
        let place = self.places.remove(&number);
        let Some(entry) = place.and_then(|place| self.pending.remove(&place)) else {
            return;
        };
        *self.counts.of(entry.risk) -= 1;
        self.resolved.push_front(Resolution {
            number,
            call: entry.call.id.clone(),
            title: entry.title.clone(),
            outcome,
            by,
            at,
        });
        self.resolved.truncate(MAX_RESOLVED);
    }

    fn entry(&self, number: u64) -> Result<Arc<PendingEntry>, EntryMissing> {
        if let Some(entry) = self.places.get(&number).and_then(|at| self.pending.get(at)) {
            return Ok(Arc::clone(entry));
        }
        let Some(resolved) = self.resolved.iter().find(|one| one.number == number) else {
            return Err(EntryMissing::Unknown);
        };
        let mut pending = self.pending.values();
        match pending.find(|entry| entry.call.id == resolved.call) {
            Some(entry) => Err(EntryMissing::Replaced(entry.number)),
            None => Err(EntryMissing::Resolved(resolved.clone())),
        }
    }
}

impl EntryGuard<'_> {
    /// Records an answer that did not come from the page.
    pub(crate) fn answered_by(self, by: String, outcome: &'static str) {
        self.inbox.close(self.number, Some(by), outcome);
    }
}

impl Drop for EntryGuard<'_> {
    fn drop(&mut self) {
        self.inbox.close(self.number, None, "withdrawn");
    }
}

impl Drop for InterviewGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.inbox.lock();
        if state.interviews.remove(&self.number).is_some() {
            state.counts.interviews -= 1;
        }
        drop(state);
        self.inbox.changed();
    }
}

impl PendingInterview {
    /// Passes the replies to the tool. `false`: somebody else has answered, or the call has ended.
    pub(crate) fn reply(&self, replies: AttributedReplies) -> bool {
        let sender = self
            .answer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        sender.is_some_and(|sender| sender.send(replies).is_ok())
    }
}

/// Returns a digest of everything that the page shows about a question and of everything that an approval applies.
fn digest(question: &Question, call: &Call) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut add = |part: &str| {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    };
    add(&call.id.0);
    add(&call.input.to_string());
    add(&format!("{:?}", call.caller));
    let document = question.document(&call.input);
    add(document.title);
    add(&format!(
        "{:?}",
        (
            &question.plugin,
            &question.tool,
            &question.subject,
            &question.reason
        )
    ));
    add(&format!(
        "{:?}",
        (
            &question.rule,
            &question.meta,
            &question.variables,
            &question.rendering
        )
    ));
    for offer in &question.offers {
        add(offer.scope.as_str());
        add(&offer.text);
    }
    for change in question.changes.iter().flat_map(|set| &set.changes) {
        add(&format!(
            "{:?}",
            (
                &change.kind,
                change.file_kind,
                change.sizes,
                &change.link_targets,
                change.modes
            )
        ));
        add(&change.path);
        if let Some(diff) = &change.diff {
            add(diff.original.as_deref().unwrap_or_default());
            add(&diff.new);
        }
        let binary = change.binary().into_iter();
        for side in binary.flat_map(|binary| [&binary.before, &binary.after]) {
            let bytes = side.as_deref().unwrap_or_default();
            add(blake3::hash(bytes).to_hex().as_str());
        }
    }
    hasher.finalize().to_hex().to_string()
}
