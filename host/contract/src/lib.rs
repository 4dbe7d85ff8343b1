//! Data model and policy of Toolhost.
//!
//! This crate does no I/O: it opens no files, reads no clock and spawns no tasks. Functions take values and return
//! values, so the rules can be tested exhaustively, and the same function makes a decision and explains it.

mod backend;
pub mod bus;
mod call;
mod changes;
mod descriptor;
mod detach;
mod edits;
mod error;
pub mod exact_integers;
#[cfg(test)]
mod fuzz;
mod hints;
pub mod hook;
pub mod lifecycle;
mod limits;
pub mod manifest;
mod mcp_tool_name;
mod names;
mod only_paths;
mod outcome;
pub mod path_members;
pub mod policy;
mod preview;
mod principal;
mod quotas;
mod read_set;
pub mod serde_errors;
mod services;
mod tool_set;
pub mod units;
pub mod usable_json;
pub mod value_counter;
pub mod version;

pub use backend::{
    Backend, BackendState, BoxFuture, CallEvent, LogLevel, NoSink, Sink, StagedEffects,
    StagedResult,
};
pub use call::{Access, Call, CallId};
pub use changes::{
    BinaryContent, ChangeKind, ChangeSet, ChangeSide, CommitError, CommitRecovery, FileChange,
    FileKind, LargeContent, RecoveryOutcome, StagedChanges, UndiffedContent,
};
pub use descriptor::{
    Annotations, Concurrency, Descriptor, Effect, Example, Source, UnclearDestination,
};
pub use detach::{DetachSwitch, DetachableCommand};
pub use edits::{EditError, EditedChanges, MAX_EDIT_BYTES, MAX_TOTAL_EDIT_BYTES, UserEdit};
pub use error::{CallError, ErrorClass};
pub use hints::{EffectBounds, ToolHints};
pub use limits::Limits;
pub use manifest::{
    Capability, CapabilityRequest, LimitsTable, Manifest, ManifestError, side_manifest_path,
};
pub use mcp_tool_name::McpToolName;
pub use names::{Digest, DigestError, NameError, PluginName, ToolName, nearest};
pub use only_paths::{OnlyPath, OnlyPaths};
pub use outcome::{Display, Failure, FileDiff, Outcome, Part, TailCall, Truncation};
pub use policy::{
    Answer, AnswerOutcome, Approval, Denial, DenialCode, FileAccess, Grant, Mode, Policy,
    PolicySpec, Question, Subject, Verdict,
};
pub use preview::{Location, Preview, Rendering, ToolHook, ToolHooks};
pub use principal::{CallerId, Principal, SessionId, SessionKey, UserId};
pub use quotas::{QuotaError, QuotaKind, Quotas, UserQuota};
pub use read_set::ReadSet;
pub use services::{
    AgentInfo, AgentService, AnswerOption, BackgroundCall, FileObservation, QuestionForm,
    ResourceService, Services, SessionService, ToolService, UserAnswer, UserQuestion,
    UserQuestionKind, UserService, VisibleTool,
};
pub use tool_set::{ToolSet, ToolSetError};
pub use toolhost_shell_syntax::variables;
pub use toolhost_text as text;
pub use version::{Version, VersionReq};
