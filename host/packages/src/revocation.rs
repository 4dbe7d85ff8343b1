//! Revocations: signed lists of plugin files that must not run.
//!
//! A list is a signature bundle of another kind: an in-toto statement whose subjects are the revoked digests. The lists that
//! were verified are kept in one file. A publisher's list applies to the files that the publisher signed; the operator's own
//! list, and those of keys that the operator trusts, apply to all.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::json;
use sigstore_types::intoto::Statement;
use toolhost_contract::units::format_size;
use toolhost_contract::{Digest, text};

use crate::error::PackageError;
use crate::key::{PublicKey, SigningKey};
use crate::signature::{open_statement, sign_statement, subject};
use crate::signer::Signer;

const PREDICATE_TYPE: &str = "urn:toolhost:revocation:v1";
/// Maximum number of versions in a list.
const MAX_ENTRIES: usize = 5_000;
/// Maximum size of a signed list in bytes; one with all entries has about 4 MiB.
pub const MAX_LIST: u64 = 8 << 20;
/// Maximum size of all lists.
const MAX_FILE: u64 = 64 << 20;
const MAX_REASON: usize = 200;
const VERSION: u32 = 1;

/// The revoked files of one key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RevocationList {
    /// Increases with each change, so that an old list cannot replace a new one.
    pub sequence: u64,
    /// The reason for each digest.
    pub revoked: BTreeMap<Digest, String>,
}

impl RevocationList {
    pub fn add(&mut self, content: Digest, reason: &str) -> Result<(), PackageError> {
        if self.revoked.len() >= MAX_ENTRIES && !self.revoked.contains_key(&content) {
            let reason = format!(
                "it has {MAX_ENTRIES} entries, which is the limit; use another key for new versions"
            );
            return Err(PackageError::Revocations(reason));
        }
        self.sequence += 1;
        let reason = text::escape_line(reason, MAX_REASON);
        self.revoked.insert(content, reason);
        Ok(())
    }

    /// Makes the list newer than those that other machines published, which number them one by one.
    pub fn exceed_published(&mut self, unix_seconds: u64) {
        self.sequence = self.sequence.max(unix_seconds);
    }

    /// Adds the entries of another list of the same key. Entries are never dropped. Returns whether some were new.
    pub fn merge(&mut self, other: Self) -> bool {
        self.sequence = self.sequence.max(other.sequence);
        let before = self.revoked.len();
        for (digest, reason) in other.revoked {
            if self.revoked.len() >= MAX_ENTRIES {
                break;
            }
            self.revoked.entry(digest).or_insert(reason);
        }
        self.revoked.len() > before
    }

    /// Returns the signed list as JSON.
    pub fn sign(&self, key: &SigningKey) -> String {
        let subjects = self.revoked.keys();
        let subjects = subjects.map(|digest| subject(&digest.to_string(), *digest));
        let predicate = json!({"sequence": self.sequence, "reasons": self.revoked});
        let statement = Statement::new(subjects.collect(), PREDICATE_TYPE, predicate);
        sign_statement(key, &statement)
    }

    /// Verifies a signed list. Returns the key that signed it.
    pub fn verify(bundle: &str, keys: &[PublicKey]) -> Result<(PublicKey, Self), PackageError> {
        #[derive(Deserialize)]
        struct Predicate {
            sequence: u64,
            reasons: BTreeMap<Digest, String>,
        }
        let invalid = |reason: String| PackageError::Revocations(text::escape_line(&reason, 300));
        let (key, statement) = open_statement(bundle, PREDICATE_TYPE, keys)
            .map_err(|error| invalid(error.to_string()))?;
        let predicate: Predicate = serde_json::from_value(statement.predicate)
            .map_err(|error| invalid(error.to_string()))?;
        if predicate.reasons.len() > MAX_ENTRIES {
            return Err(invalid(format!("more than {MAX_ENTRIES} entries")));
        }
        let reasons = predicate.reasons.into_iter();
        let list = Self {
            sequence: predicate.sequence,
            revoked: reasons
                .map(|(digest, reason)| (digest, text::escape_line(&reason, MAX_REASON)))
                .collect(),
        };
        Ok((key, list))
    }
}

/// All verified lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revocations {
    version: u32,
    /// What the operator revoked on this machine.
    #[serde(default)]
    pub own: BTreeMap<Digest, String>,
    /// The lists of publishers, by key.
    #[serde(default)]
    lists: BTreeMap<PublicKey, RevocationList>,
}

impl Default for Revocations {
    fn default() -> Self {
        Self {
            version: VERSION,
            own: BTreeMap::new(),
            lists: BTreeMap::new(),
        }
    }
}

impl Revocations {
    pub fn read(path: &Path) -> Result<Self, PackageError> {
        let bytes = match toolhost_hostfiles::read_regular(path, MAX_FILE) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(PackageError::io("read", path, error)),
        };
        let read: Self = serde_json::from_slice(&bytes)
            .map_err(|error| PackageError::Revocations(format!("{}: {error}", path.display())))?;
        if read.version != VERSION {
            let reason = format!("{}: unsupported version {}", path.display(), read.version);
            return Err(PackageError::Revocations(reason));
        }
        Ok(read)
    }

    pub fn write(&self, path: &Path) -> Result<(), PackageError> {
        let bytes = serde_json::to_vec(self).expect("revocations serialize to JSON");
        if bytes.len() as u64 > MAX_FILE {
            let reason = format!(
                "all lists together would exceed {}; the last one was not stored",
                format_size(MAX_FILE)
            );
            return Err(PackageError::Revocations(reason));
        }
        toolhost_hostfiles::replace_file(path, &bytes)
            .map_err(|error| PackageError::io("write", path, error))
    }

    /// The list that this key signed last, as far as it is known here.
    pub fn list(&self, key: PublicKey) -> RevocationList {
        self.lists.get(&key).cloned().unwrap_or_default()
    }

    /// Merges a verified list. Entries are never dropped; an older list is an error. Returns whether it has new entries.
    pub fn merge(&mut self, key: PublicKey, list: RevocationList) -> Result<bool, PackageError> {
        let known = self.lists.entry(key).or_default();
        if list.sequence < known.sequence {
            return Err(PackageError::Revocations(format!(
                "the list with number {} is older than the known one with number {}; entries are kept",
                list.sequence, known.sequence
            )));
        }
        Ok(known.merge(list))
    }

    /// Refuses a file that the operator, the key of its signer, or one of the trusted keys revoked.
    pub fn check(
        &self,
        content: Digest,
        signer: Option<&Signer>,
        trusted: &[Signer],
    ) -> Result<(), PackageError> {
        if let Some(reason) = self.own.get(&content) {
            return Err(PackageError::Revoked {
                content,
                by: "you".to_owned(),
                reason: reason.clone(),
            });
        }
        for (key, list) in &self.lists {
            let author = Signer::Key(*key);
            let may_revoke = signer == Some(&author) || trusted.contains(&author);
            if let Some(reason) = list.revoked.get(&content).filter(|_| may_revoke) {
                return Err(PackageError::Revoked {
                    content,
                    by: format!("the key {}", key.id()),
                    reason: reason.clone(),
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_replaces_an_unknown_one_is_newer() {
        let mut published = RevocationList::default();
        for digit in 1..=10 {
            published.add(Digest([digit; 32]), "why").unwrap();
        }
        let mut own = RevocationList::default();
        own.exceed_published(1_700_000_000);
        own.add(Digest([11; 32]), "why").unwrap();
        assert!(own.sequence > published.sequence);
        // It does not fall behind a list that another machine published later.
        own.exceed_published(1_600_000_000);
        assert_eq!(own.sequence, 1_700_000_001);
    }
}
