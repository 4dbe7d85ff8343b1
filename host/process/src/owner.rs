//! Whose programs there are. This crate compares owners and reads nothing in them.

use std::sync::Arc;

/// An identity made of whole identifiers. Two keys are equal when all of their parts are, so no two lists of parts
/// make one key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct OwnerKey(Arc<[Box<str>]>);

impl OwnerKey {
    pub fn new<const N: usize>(parts: [&str; N]) -> OwnerKey {
        OwnerKey(parts.into_iter().map(Box::from).collect())
    }
}

/// A session of a user: its programs end together, and it has an output folder of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct SessionOwner {
    /// [`crate::JobQuota`] counts for each user.
    pub user: OwnerKey,
    pub session: OwnerKey,
}

/// Who may list, read and signal a job: the same group in the same session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct JobOwner {
    pub session: SessionOwner,
    pub group: OwnerKey,
}
