//! Who signed a file: the holder of a key, or of an identity to which Sigstore issued a certificate.

use serde::{Deserialize, Serialize};
use toolhost_contract::text;

use crate::key::PublicKey;

/// Maximum length of an identity and of an issuer, in bytes.
const MAX_NAME: usize = 500;

/// An author whom a user trusts. As text, a key is its Base64, and an identity is a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Signer {
    Key(PublicKey),
    Identity(Identity),
}

/// A name in a certificate, and who authenticated its holder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "UncheckedIdentity")]
pub struct Identity {
    identity: String,
    issuer: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UncheckedIdentity {
    identity: String,
    issuer: String,
}

impl TryFrom<UncheckedIdentity> for Identity {
    type Error = String;

    fn try_from(unchecked: UncheckedIdentity) -> Result<Self, String> {
        Self::new(&unchecked.identity, &unchecked.issuer)
    }
}

impl Identity {
    /// `*` at the end of an identity stands for any rest, because the workflow of a release contains its tag.
    pub fn new(identity: &str, issuer: &str) -> Result<Self, String> {
        for (what, value) in [("identity", identity), ("issuer", issuer)] {
            let is_valid = !value.is_empty()
                && value.len() <= MAX_NAME
                && value.chars().all(|c| c.is_ascii_graphic());
            if !is_valid {
                let value = text::escape_line(value, 80);
                return Err(format!(
                    "the {what} `{value}` must have 1 to {MAX_NAME} visible ASCII characters"
                ));
            }
        }
        let fixed = identity.strip_suffix('*').unwrap_or(identity);
        if fixed.is_empty() || fixed.contains('*') || issuer.contains('*') {
            return Err(format!(
                "`*` can be only at the end of an identity, after its beginning: `{identity}`, issuer `{issuer}`"
            ));
        }
        Ok(Self {
            identity: identity.to_owned(),
            issuer: issuer.to_owned(),
        })
    }

    pub(crate) fn matches(&self, identity: &str, issuer: &str) -> bool {
        let is_identity = match self.identity.strip_suffix('*') {
            Some(prefix) => identity.starts_with(prefix),
            None => self.identity == identity,
        };
        is_identity && self.issuer == issuer
    }
}

impl Signer {
    /// The key that signs its list of revoked versions. Identities have no such list.
    pub fn key(&self) -> Option<PublicKey> {
        match self {
            Self::Key(key) => Some(*key),
            Self::Identity(_) => None,
        }
    }
}

impl From<PublicKey> for Signer {
    fn from(key: PublicKey) -> Self {
        Self::Key(key)
    }
}

impl std::fmt::Display for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Key(key) => write!(f, "the key {}", key.id()),
            Self::Identity(Identity { identity, issuer }) => {
                write!(f, "{identity} (issuer {issuer})")
            }
        }
    }
}
