//! Quotas for the resources of a user and of all users together.

use std::fmt;

use crate::{CallError, ErrorClass};

/// The limit for one user and for all users together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserQuota {
    pub user: u64,
    pub all: u64,
}

/// Quotas of the host. `SECURITY.md` documents how each is enforced. Opening more sessions does not raise them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quotas {
    /// Sessions with saved state.
    pub sessions: UserQuota,
    /// Running programs of tools, in the foreground and in the background.
    pub programs: UserQuota,
    /// Running programs of one session.
    pub session_programs: usize,
    /// Pending questions to the user.
    pub questions: UserQuota,
    /// Bytes of staged changes that are being evaluated or wait for approval.
    pub staged_bytes: UserQuota,
    /// Bytes of saved program output.
    pub saved_output_bytes: UserQuota,
    /// Bytes of memory for session state and for results of background calls.
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
            saved_output_bytes: UserQuota {
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

/// The resource whose quota is exhausted.
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
            QuotaKind::Sessions | QuotaKind::SessionBytes => "end a session that is no longer used",
            QuotaKind::Questions => "answer or cancel a pending question",
            QuotaKind::StagedBytes => "answer or cancel a call with staged changes",
        }
    }
}

impl fmt::Display for QuotaKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QuotaKind::Sessions => "sessions",
            QuotaKind::Questions => "pending questions",
            QuotaKind::StagedBytes => "bytes of staged changes",
            QuotaKind::SessionBytes => "bytes of session data",
        })
    }
}

/// An exhausted quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuotaError {
    #[error("the user has reached the limit of {most} {kind}")]
    User { kind: QuotaKind, most: u64 },
    #[error("all users together have reached the limit of {most} {kind}")]
    All { kind: QuotaKind, most: u64 },
}

impl From<QuotaError> for CallError {
    fn from(error: QuotaError) -> Self {
        let (QuotaError::User { kind, .. } | QuotaError::All { kind, .. }) = error;
        let mut refusal = CallError::new(ErrorClass::Unavailable, error.to_string())
            .code(kind.code())
            .recommend(kind.remedy());
        refusal.retryable = true;
        refusal
    }
}
