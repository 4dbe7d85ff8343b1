//! Principals, which identify the caller, and the keys under which the host keeps state.
//!
//! All state that the host keeps for a caller is keyed by a [`Principal`] or by one of its typed parts: [`UserId`] or
//! [`SessionKey`]. Keys compare whole identifiers, so no two callers share a key.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A user of this host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum UserId {
    /// The user who started the host: a terminal, a client on standard input, an embedding program, and HTTP without
    /// tokens.
    #[default]
    Local,
    /// The name of an HTTP token. Different from [`UserId::Local`] whatever the name is.
    Token(Arc<str>),
}

impl UserId {
    pub fn token(name: &str) -> Self {
        Self::Token(name.into())
    }

    /// Returns the name of the token, or `None` for the local user.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Local => None,
            Self::Token(name) => Some(name),
        }
    }

    /// Returns the user with this [`UserId::name`].
    pub fn from_name(name: Option<&str>) -> Self {
        name.map_or(Self::Local, Self::token)
    }
}

impl fmt::Display for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("the local user"),
            Self::Token(name) => write!(f, "user `{}`", crate::text::escape_line(name, 80)),
        }
    }
}

/// The identifier of a session, unique among the sessions of its user.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct SessionId(Arc<str>);

impl SessionId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for SessionId {
    fn from(id: &str) -> Self {
        Self(id.into())
    }
}

impl From<String> for SessionId {
    fn from(id: String) -> Self {
        Self(id.into())
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.0.as_ref().to_owned()
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A session of a user. The key of all state that ends with a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey {
    pub user: UserId,
    pub session: SessionId,
}

impl SessionKey {
    pub fn new(user: UserId, session: impl Into<SessionId>) -> Self {
        Self {
            user,
            session: session.into(),
        }
    }

    /// Creates the key of a session of the local user.
    pub fn local(session: impl Into<SessionId>) -> Self {
        Self::new(UserId::Local, session)
    }
}

/// The identity of a caller. It is the same for all calls that a call makes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal {
    pub user: UserId,
    pub session: SessionId,
    pub agent: String,
    /// The parent agent, for a sub-agent.
    pub parent_agent: Option<String>,
    pub task: String,
}

impl Principal {
    /// Returns the main agent of a session.
    pub fn in_session(key: &SessionKey) -> Self {
        Self {
            user: key.user.clone(),
            session: key.session.clone(),
            ..Self::default()
        }
    }

    pub fn session_key(&self) -> SessionKey {
        SessionKey::new(self.user.clone(), self.session.clone())
    }

    /// Returns the caller with the agent and the task that its program states; `None` keeps them.
    #[must_use]
    pub fn stated(mut self, agent: Option<CallerId>, task: Option<CallerId>) -> Self {
        if let Some(agent) = agent {
            self.agent = agent.0;
        }
        if let Some(task) = task {
            self.task = task.0;
        }
        self
    }
}

/// The name of an agent, or the id of a task, that the program of a caller states.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct CallerId(String);

impl CallerId {
    pub const MAX_LEN: usize = 64;
}

impl TryFrom<String> for CallerId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for CallerId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"._:@/-".contains(&b);
        if (1..=Self::MAX_LEN).contains(&text.len()) && text.bytes().all(plain) {
            return Ok(Self(text.to_owned()));
        }
        Err(format!(
            "`{}` cannot name an agent or a task; use 1 to {} letters, digits, `.`, `_`, `:`, `@`, `/` and `-`",
            crate::text::escape_line(text, 80),
            Self::MAX_LEN
        ))
    }
}

impl Default for Principal {
    /// Returns the local user in the session `local`.
    fn default() -> Self {
        Self {
            user: UserId::Local,
            session: "local".into(),
            agent: "main".to_owned(),
            parent_agent: None,
            task: "local".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_states_its_agent_and_task() {
        let id = |text: &str| text.parse::<CallerId>();
        let caller = Principal::default().stated(Some(id("reviewer").unwrap()), None);
        assert_eq!(
            (caller.agent.as_str(), caller.task.as_str()),
            ("reviewer", "local")
        );
        let caller = caller.stated(None, Some(id("T-1").unwrap()));
        assert_eq!(
            (caller.agent.as_str(), caller.task.as_str()),
            ("reviewer", "T-1")
        );
        for text in ["", "a b", "a\u{1b}", "ä", &"x".repeat(65)] {
            assert!(id(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_10_keys_of_different_users_and_sessions_are_never_equal() {
        let key =
            |user: Option<&str>, session: &str| SessionKey::new(UserId::from_name(user), session);
        let keys = [
            key(None, "a"),
            key(None, "a/b"),
            key(Some("local"), "a"),
            key(Some("a"), "b"),
            key(Some("a/b"), ""),
            key(Some("a"), "/b"),
            key(Some(""), "a/b"),
        ];
        for (one, left) in keys.iter().enumerate() {
            for (other, right) in keys.iter().enumerate() {
                assert_eq!(left == right, one == other, "{left:?} {right:?}");
            }
        }
        assert_eq!(UserId::from_name(UserId::Local.name()), UserId::Local);
    }
}
