//! Sealed request state that a stateless client returns with its answer.
//!
//! A state is authenticated and valid only for the same tool with the same arguments and user, once, within [`TTL`].

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{ErrorData, JsonObject, RequestStateCodec, RequestStateError, SealOptions};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use toolhost_contract::UserId;

/// Lifetime of a request state. A later answer is rejected and the question is asked again.
pub(super) const TTL: Duration = Duration::from_mins(5);
/// Maximum number of remembered states of other hosts that were used and have not expired.
const MAX_USED: usize = 10_000;
/// Maximum size of the earlier answers in a state, in bytes.
const MAX_CARRIED: usize = 32 << 10;

#[derive(Debug, thiserror::Error)]
pub enum StateKeyError {
    #[error("the request state key has {0} bytes; use at least 32")]
    TooShort(usize),
    #[error("cannot generate random numbers: {0}")]
    Random(String),
}

/// Content of a request state. It is signed but not encrypted: the client can read it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct RequestState {
    /// The host that holds the suspended call.
    pub(super) host: String,
    /// Random name of the suspended call on that host.
    pub(super) handle: String,
    /// Digest of the open question.
    pub(super) asked: Option<String>,
    /// Earlier answers, for a host that does not have the call.
    pub(super) said: Vec<AnsweredInput>,
}

/// An answer and the digest of its question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AnsweredInput {
    pub(super) digest: String,
    /// By request name.
    pub(super) answers: BTreeMap<String, Value>,
}

pub(super) struct StateSealer {
    codec: RequestStateCodec,
    /// Random id of this process.
    pub(super) host: String,
    used_handles: Mutex<HashMap<String, Instant>>,
    ttl: Duration,
}

impl StateSealer {
    pub(super) fn new(key: Option<Vec<u8>>) -> Result<Self, StateKeyError> {
        let key = match key {
            Some(key) => key,
            None => random_bytes::<32>()?.to_vec(),
        };
        let bytes = key.len();
        let codec = RequestStateCodec::try_new(key).map_err(|_| StateKeyError::TooShort(bytes))?;
        Ok(Self {
            codec,
            host: hex(&random_bytes::<8>()?),
            used_handles: Mutex::default(),
            ttl: TTL,
        })
    }

    /// Returns an unguessable name for a suspended call.
    pub(super) fn random_handle() -> Result<String, StateKeyError> {
        Ok(hex(&random_bytes::<16>()?))
    }

    pub(super) fn seal(
        &self,
        state: &RequestState,
        bound_to: &str,
    ) -> Result<String, RequestStateError> {
        let mut state = state.clone();
        while json!(state.said).to_string().len() > MAX_CARRIED {
            // A dropped answer only means that its question is asked again.
            state.said.remove(0);
        }
        let options = SealOptions::new()
            .associated_data(bound_to.as_bytes())
            .ttl(self.ttl);
        self.codec.seal_json_with(&state, &options)
    }

    /// Opens a state. Fails unless this host, or one with the same key, sealed it for this call.
    pub(super) fn open(&self, sealed: &str, bound_to: &str) -> Result<RequestState, ErrorData> {
        self.codec
            .open_json_with(sealed, bound_to.as_bytes())
            .map_err(|error| match error {
                RequestStateError::Expired => invalid_state("has expired"),
                _ => invalid_state("was not made for this call"),
            })
    }

    /// Marks a state of another host as used. Fails if it already was.
    pub(super) fn mark_used(&self, handle: &str) -> Result<(), ErrorData> {
        let now = Instant::now();
        let mut used = self
            .used_handles
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if used.contains_key(handle) {
            return Err(invalid_state("was already used"));
        }
        if used.len() >= MAX_USED {
            used.retain(|_, until| *until > now);
        }
        if used.len() >= MAX_USED {
            return Err(invalid_state(
                "cannot be accepted: too many were used recently",
            ));
        }
        used.insert(handle.to_owned(), now + self.ttl);
        Ok(())
    }
}

/// The error for a rejected state. It contains nothing of the state, to give no hints to a forger.
pub(super) fn invalid_state(why: &str) -> ErrorData {
    let message = format!("the request state {why}; repeat the call without it");
    ErrorData::invalid_params(message, Some(json!({"reason": "request_state"})))
}

/// Returns a fingerprint of user, tool and arguments, independent of the order of members.
/// Arguments can be large, so they are hashed without a copy.
pub(super) fn fingerprint(user: &UserId, tool: &str, arguments: Option<&JsonObject>) -> String {
    let mut digest = Sha256::new();
    // The name of the local user is `null`, which cannot be the name of a token.
    hash_canonical(&json!([user.name(), tool]), &mut digest);
    hash_object(arguments.unwrap_or(&JsonObject::new()), &mut digest);
    hex(&digest.finalize())
}

pub(super) fn digest_of(value: &impl Serialize) -> String {
    let mut digest = Sha256::new();
    hash_canonical(&json!(value), &mut digest);
    hex(&digest.finalize())
}

fn hash_canonical(value: &Value, out: &mut Sha256) {
    match value {
        Value::Object(members) => hash_object(members, out),
        Value::Array(items) => {
            out.update("[");
            for item in items {
                hash_canonical(item, out);
                out.update(",");
            }
            out.update("]");
        }
        other => out.update(other.to_string()),
    }
}

/// Hashes the members sorted by name.
fn hash_object(members: &JsonObject, out: &mut Sha256) {
    let mut members: Vec<_> = members.iter().collect();
    members.sort_by_key(|(name, _)| *name);
    out.update("{");
    for (name, value) in members {
        out.update(Value::from(name.as_str()).to_string());
        out.update(":");
        hash_canonical(value, out);
        out.update(",");
    }
    out.update("}");
}

fn random_bytes<const N: usize>() -> Result<[u8; N], StateKeyError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| StateKeyError::Random(error.to_string()))?;
    Ok(bytes)
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;

    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = b"a key that is long enough for two";

    fn seals() -> StateSealer {
        StateSealer::new(Some(KEY.to_vec())).unwrap()
    }

    fn state() -> RequestState {
        RequestState {
            host: "h".to_owned(),
            handle: "1".to_owned(),
            asked: None,
            said: Vec::new(),
        }
    }

    #[test]
    fn a_state_is_valid_only_for_its_call() {
        let sealer = seals();
        let arguments = json!({"path": "a", "n": 1});
        let sealed = sealer
            .seal(
                &state(),
                &fingerprint(&UserId::token("me"), "write", arguments.as_object()),
            )
            .unwrap();
        for (principal, tool, arguments, good) in [
            ("me", "write", json!({"n": 1, "path": "a"}), true),
            ("you", "write", arguments.clone(), false),
            ("me", "read", arguments.clone(), false),
            ("me", "write", json!({"path": "b", "n": 1}), false),
            ("me", "write", json!({}), false),
        ] {
            // Another host with the same key.
            let opened = seals().open(
                &sealed,
                &fingerprint(&UserId::token(principal), tool, arguments.as_object()),
            );
            assert_eq!(opened.is_ok(), good, "{principal} {tool} {arguments}");
        }
        assert_eq!(
            fingerprint(&UserId::Local, "t", None),
            fingerprint(&UserId::Local, "t", json!({}).as_object())
        );
        assert_ne!(
            fingerprint(&UserId::Local, "t", None),
            fingerprint(&UserId::token("null"), "t", None)
        );
        let own = fingerprint(&UserId::token("me"), "write", arguments.as_object());
        assert!(StateSealer::new(None).unwrap().open(&sealed, &own).is_err());
        assert!(sealer.open(&format!("{sealed}A"), &own).is_err());
        assert!(sealer.open("", &own).is_err());
    }

    #[test]
    fn a_state_expires() {
        let sealer = StateSealer {
            ttl: Duration::ZERO,
            ..seals()
        };
        let sealed = sealer.seal(&state(), "x").unwrap();
        // Until the clock has moved by a millisecond.
        let error = (0..10_000_000).find_map(|_| sealer.open(&sealed, "x").err());
        let error = error.expect("the state expires");
        assert_eq!(
            error.message,
            "the request state has expired; repeat the call without it"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_state_is_accepted_once() {
        let seals = seals();
        assert!(seals.mark_used("1").is_ok());
        assert!(seals.mark_used("1").is_err());
        (0..MAX_USED).for_each(|number| {
            let _ = seals.mark_used(&format!("n{number}"));
        });
        assert!(seals.mark_used("one more").is_err());
        tokio::time::advance(TTL * 2).await;
        assert!(seals.mark_used("one more").is_ok());
    }

    #[test]
    fn a_short_key_is_rejected() {
        let error = StateSealer::new(Some(vec![7; 31])).err().unwrap();
        assert_eq!(
            error.to_string(),
            "the request state key has 31 bytes; use at least 32"
        );
    }

    #[test]
    fn earlier_answers_in_a_state_are_bounded() {
        let answered = AnsweredInput {
            digest: "d".to_owned(),
            answers: BTreeMap::from([("a".to_owned(), json!("x".repeat(MAX_CARRIED / 2)))]),
        };
        let state = RequestState {
            said: vec![answered; 4],
            ..state()
        };
        let seals = seals();
        let sealed = seals.seal(&state, "x").unwrap();
        assert_eq!(seals.open(&sealed, "x").unwrap().said.len(), 1);
    }
}
