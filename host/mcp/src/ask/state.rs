//! What a client without a session carries from a question to its answer, sealed so that it can only come back as it
//! went out: for the same call of the same tool with the same arguments, by the same principal, once, within minutes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{ErrorData, JsonObject, RequestStateCodec, RequestStateError, SealOptions};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use toolhost_contract::UserId;

/// A person who takes longer is asked again.
pub(super) const TTL: Duration = Duration::from_mins(5);
/// States of other hosts that were used here and have not run out. More than this no person answers in [`TTL`].
const USED: usize = 10_000;
/// Bytes of earlier answers that travel along.
const CARRIED: usize = 32 << 10;

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("the key for states of questions has {0} bytes; make it at least 32")]
    TooShort(usize),
    #[error("there are no random numbers: {0}")]
    Random(String),
}

/// What the client carries. It can read all of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    /// Which host has the call waiting.
    pub(super) host: String,
    /// Under which name; nobody guesses it.
    pub(super) handle: String,
    /// The question that is open.
    pub(super) asked: Option<String>,
    /// Questions that were answered before, for a host that does not have the call.
    pub(super) said: Vec<Said>,
}

/// An answer, and to which question it is one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Said {
    pub(super) digest: String,
    /// By the names of what was asked.
    pub(super) answers: BTreeMap<String, Value>,
}

pub(super) struct Seals {
    codec: RequestStateCodec,
    /// This host, in this run.
    pub(super) host: String,
    used: Mutex<HashMap<String, Instant>>,
    ttl: Duration,
}

impl Seals {
    pub(super) fn new(key: Option<Vec<u8>>) -> Result<Self, KeyError> {
        let key = match key {
            Some(key) => key,
            None => random::<32>()?.to_vec(),
        };
        let bytes = key.len();
        let codec = RequestStateCodec::try_new(key).map_err(|_| KeyError::TooShort(bytes))?;
        Ok(Self {
            codec,
            host: hex(&random::<8>()?),
            used: Mutex::default(),
            ttl: TTL,
        })
    }

    /// A name that nobody guesses.
    pub(super) fn handle() -> Result<String, KeyError> {
        Ok(hex(&random::<16>()?))
    }

    pub(super) fn seal(&self, state: &State, bound_to: &str) -> Result<String, RequestStateError> {
        let mut state = state.clone();
        while json!(state.said).to_string().len() > CARRIED {
            // Whoever does not have it is asked again.
            state.said.remove(0);
        }
        let options = SealOptions::new()
            .associated_data(bound_to.as_bytes())
            .ttl(self.ttl);
        self.codec.seal_json_with(&state, &options)
    }

    /// Err when it is not one that we, or a host with our key, made for this very call.
    pub(super) fn open(&self, sealed: &str, bound_to: &str) -> Result<State, ErrorData> {
        self.codec
            .open_json_with(sealed, bound_to.as_bytes())
            .map_err(|error| match error {
                RequestStateError::Expired => refused("has expired"),
                _ => refused("was not made for this call"),
            })
    }

    /// A state of another host counts here once as well.
    pub(super) fn use_up(&self, handle: &str) -> Result<(), ErrorData> {
        let now = Instant::now();
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.contains_key(handle) {
            return Err(refused("was used already"));
        }
        if used.len() >= USED {
            used.retain(|_, until| *until > now);
        }
        if used.len() >= USED {
            return Err(refused("cannot be taken: too many were used lately"));
        }
        used.insert(handle.to_owned(), now + self.ttl);
        Ok(())
    }
}

/// Nothing of the state is said: whoever tries to forge one learns nothing.
pub(super) fn refused(why: &str) -> ErrorData {
    let message = format!("the request state {why}; call again without it");
    ErrorData::invalid_params(message, Some(json!({"reason": "request_state"})))
}

/// What a state is good for. Members of the arguments may come back in another order.
/// Arguments can be large, so they are read where they are.
pub(super) fn binding(user: &UserId, tool: &str, arguments: Option<&JsonObject>) -> String {
    let mut digest = Sha256::new();
    // The name of the local user is null, which no token has.
    canonical(&json!([user.name(), tool]), &mut digest);
    object(arguments.unwrap_or(&JsonObject::new()), &mut digest);
    hex(&digest.finalize())
}

pub(super) fn digest_of(value: &impl Serialize) -> String {
    let mut digest = Sha256::new();
    canonical(&json!(value), &mut digest);
    hex(&digest.finalize())
}

fn canonical(value: &Value, out: &mut Sha256) {
    match value {
        Value::Object(members) => object(members, out),
        Value::Array(items) => {
            out.update("[");
            for item in items {
                canonical(item, out);
                out.update(",");
            }
            out.update("]");
        }
        other => out.update(other.to_string()),
    }
}

/// The members by their names.
fn object(members: &JsonObject, out: &mut Sha256) {
    let mut members: Vec<_> = members.iter().collect();
    members.sort_by_key(|(name, _)| *name);
    out.update("{");
    for (name, value) in members {
        out.update(Value::from(name.as_str()).to_string());
        out.update(":");
        canonical(value, out);
        out.update(",");
    }
    out.update("}");
}

fn random<const N: usize>() -> Result<[u8; N], KeyError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| KeyError::Random(error.to_string()))?;
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

    fn seals() -> Seals {
        Seals::new(Some(KEY.to_vec())).unwrap()
    }

    fn state() -> State {
        State {
            host: "h".to_owned(),
            handle: "1".to_owned(),
            asked: None,
            said: Vec::new(),
        }
    }

    #[test]
    fn a_state_is_good_for_the_call_that_it_was_made_for() {
        let made = seals();
        let arguments = json!({"path": "a", "n": 1});
        let sealed = made
            .seal(
                &state(),
                &binding(&UserId::token("me"), "write", arguments.as_object()),
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
                &binding(&UserId::token(principal), tool, arguments.as_object()),
            );
            assert_eq!(opened.is_ok(), good, "{principal} {tool} {arguments}");
        }
        assert_eq!(
            binding(&UserId::Local, "t", None),
            binding(&UserId::Local, "t", json!({}).as_object())
        );
        assert_ne!(
            binding(&UserId::Local, "t", None),
            binding(&UserId::token("null"), "t", None)
        );
        let own = binding(&UserId::token("me"), "write", arguments.as_object());
        assert!(Seals::new(None).unwrap().open(&sealed, &own).is_err());
        assert!(made.open(&format!("{sealed}A"), &own).is_err());
        assert!(made.open("", &own).is_err());
    }

    #[test]
    fn a_state_runs_out() {
        let made = Seals {
            ttl: Duration::ZERO,
            ..seals()
        };
        let sealed = made.seal(&state(), "x").unwrap();
        // Until the clock has moved by a millisecond.
        let error = (0..10_000_000).find_map(|_| made.open(&sealed, "x").err());
        let error = error.expect("the end of its time");
        assert_eq!(
            error.message,
            "the request state has expired; call again without it"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_state_is_used_once() {
        let seals = seals();
        assert!(seals.use_up("1").is_ok());
        assert!(seals.use_up("1").is_err());
        (0..USED).for_each(|number| {
            let _ = seals.use_up(&format!("n{number}"));
        });
        assert!(seals.use_up("one more").is_err());
        tokio::time::advance(TTL * 2).await;
        assert!(seals.use_up("one more").is_ok());
    }

    #[test]
    fn a_short_key_is_refused() {
        let error = Seals::new(Some(vec![7; 31])).err().unwrap();
        assert_eq!(
            error.to_string(),
            "the key for states of questions has 31 bytes; make it at least 32"
        );
    }

    #[test]
    fn what_travels_along_is_bounded() {
        let said = Said {
            digest: "d".to_owned(),
            answers: BTreeMap::from([("a".to_owned(), json!("x".repeat(CARRIED / 2)))]),
        };
        let state = State {
            said: vec![said; 4],
            ..state()
        };
        let seals = seals();
        let sealed = seals.seal(&state, "x").unwrap();
        assert_eq!(seals.open(&sealed, "x").unwrap().said.len(), 1);
    }
}
