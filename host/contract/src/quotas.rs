//! How much of the host's shared room one user may hold, and all users together.

use std::fmt;

use crate::{CallError, ErrorClass};

/// The most of one thing, for one user and for all users together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserQuota {
    pub user: u64,
    pub all: u64,
}

/// Every number is enforced; `SECURITY.md` says by what. A new session brings no more room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quotas {
    /// Sessions whose state is kept.
    pub sessions: UserQuota,
    /// Programs of tools that run, in the foreground and in the background.
    pub programs: UserQuota,
    /// Of them, those of one session.
    pub session_programs: usize,
    /// Questions that wait for a person.
    pub questions: UserQuota,
    /// Bytes that calls have written and that are judged, or wait for a person, before they are applied.
    pub staged_bytes: UserQuota,
    /// Bytes of output of programs in files.
    pub kept_output: UserQuota,
    /// Bytes of memory for notes of sessions and for results of their background calls.
    pub session_bytes: UserQuota,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            sessions: UserQuota {
                user: 2_048,
                all: 16_384,
            },
            programs: UserQuota { user: 32, all: 128 },
            session_programs: 16,
            questions: UserQuota {
                user: 64,
                all: 1_024,
            },
            staged_bytes: UserQuota {
                user: 4 << 30,
                all: 16 << 30,
            },
            kept_output: UserQuota {
                user: 1 << 30,
                all: 4 << 30,
            },
            session_bytes: UserQuota {
                user: 128 << 20,
                all: 1 << 30,
            },
        }
    }
}

/// What there is too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaKind {
    Sessions,
    Questions,
    StagedBytes,
    SessionBytes,
}

impl QuotaKind {
    fn code(self) -> &'static str {
        match self {
            QuotaKind::Sessions => "too_many_sessions",
            QuotaKind::Questions => "too_many_questions",
            QuotaKind::StagedBytes => "too_many_staged_bytes",
            QuotaKind::SessionBytes => "too_many_session_bytes",
        }
    }

    fn remedy(self) -> &'static str {
        match self {
            QuotaKind::Sessions | QuotaKind::SessionBytes => {
                "end a session that is not used any more"
            }
            QuotaKind::Questions => "answer or cancel a question that waits",
            QuotaKind::StagedBytes => "answer or cancel a call whose changes wait",
        }
    }
}

impl fmt::Display for QuotaKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QuotaKind::Sessions => "sessions",
            QuotaKind::Questions => "waiting questions",
            QuotaKind::StagedBytes => "bytes of changes that wait",
            QuotaKind::SessionBytes => "bytes of notes and results of sessions",
        })
    }
}

/// A quota is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuotaError {
    #[error("this user has as many {what} as allowed: {most}")]
    User { what: QuotaKind, most: u64 },
    #[error("all users together have as many {what} as allowed: {most}")]
    All { what: QuotaKind, most: u64 },
}

impl From<QuotaError> for CallError {
    fn from(error: QuotaError) -> Self {
        let (QuotaError::User { what, .. } | QuotaError::All { what, .. }) = error;
        let mut refusal = CallError::new(ErrorClass::Unavailable, error.to_string())
            .code(what.code())
            .recommend(what.remedy());
        refusal.retryable = true;
        refusal
    }
}
