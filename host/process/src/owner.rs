//! Owners of jobs. This crate compares owners and does not interpret them.

use std::sync::Arc;

/// An identity composed of several identifiers. Two keys are equal only if all parts are equal, so different lists of
/// parts never collide.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct OwnerKey(Arc<[Box<str>]>);

impl OwnerKey {
    pub fn new<const N: usize>(parts: [&str; N]) -> OwnerKey {
        OwnerKey(parts.into_iter().map(Box::from).collect())
    }
}

/// A session of a user. Its programs end together, and it has its own output directory.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct SessionOwner {
    /// [`crate::JobQuota`] applies per user.
    pub user: OwnerKey,
    pub session: OwnerKey,
}

/// The owner of a job, which can list, read and signal it: a group within a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct JobOwner {
    pub session: SessionOwner,
    pub group: OwnerKey,
}
