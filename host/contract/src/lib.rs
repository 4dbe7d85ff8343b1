//! Data model, policy and formats of Toolhost.
//!
//! This crate does no I/O: it opens no files, reads no clock and spawns no tasks. Functions take values and return
//! values, so the rules can be tested exhaustively, and the same function makes a decision and explains it.

mod backend;
pub mod bus;
mod call;
mod changes;
mod descriptor;
mod edits;
mod error;
pub mod explain;
pub mod format;
#[cfg(test)]
mod fuzz;
mod hints;
pub mod hook;
pub mod life;
mod limits;
pub mod manifest;
mod names;
pub mod numbers;
mod outcome;
pub mod policy;
mod principal;
pub mod profile;
mod quotas;
mod reads;
mod services;
pub mod shell;
pub mod text;
pub mod units;
pub mod variables;
pub mod version;
pub mod views;

pub use backend::{Backend, BoxFuture, Effects, Event, Level, NoSink, Ran, Sink};
pub use call::{Access, Call, CallId};
pub use changes::{
    ChangeKind, ChangeSet, CommitError, FileChange, FileKind, Recovered, Staged, Undo,
};
pub use descriptor::{Annotations, Concurrency, Descriptor, Effect, Example};
pub use edits::{EDIT_BYTES, EDITS_BYTES, Edit, EditError, Edited};
pub use error::{CallError, ErrorClass};
pub use hints::{Hints, Reach};
pub use limits::Limits;
pub use manifest::{Capability, LimitsTable, Manifest, ManifestError, Need};
pub use names::{Digest, NameError, PluginName, ToolName, nearest};
pub use outcome::{Display, Failure, FileDiff, Outcome, Part, TailCall, Truncation};
pub use policy::{
    Answer, Approval, Denial, DenialCode, FileAccess, Grant, Mode, Policy, PolicySpec, Question,
    Settled, Subject, Verdict,
};
pub use principal::{Principal, SessionId, SessionKey, UserId};
pub use quotas::{QuotaError, QuotaKind, Quotas, UserQuota};
pub use reads::Reads;
pub use services::{
    AgentInfo, BackgroundCall, Choice, Interview, Query, QueryKind, Reply, Services, Sight,
    ToolFacts,
};
pub use version::{Version, VersionReq};
