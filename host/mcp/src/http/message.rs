//! Classification and checks of a JSON-RPC message before rmcp parses it.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use serde_json::json;
use toolhost_contract::numbers::check_integers;

use crate::shape::{MOST_VALUES, values};

/// Maximum number of values in a message that needs no reserved memory.
pub(crate) const FEW_VALUES: usize = 2_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `initialize` of the older protocols. It does not hold a permit for the session.
    Greeting,
    Request,
    /// A request whose response is a stream without an end.
    Listen,
    /// A notification or a response. It must never wait behind requests, because a request may be waiting for it.
    Aside,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Malformed {
    NotJson,
    NotOneMessage,
    TooManyValues,
    InexactInteger,
    IdInUse,
}

/// Properties of a message before it is parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) kind: Kind,
    pub(crate) values: usize,
}

#[derive(Deserialize)]
struct Look<'a> {
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(default)]
    id: Id,
}

#[derive(Default)]
enum Id {
    #[default]
    Missing,
    Null,
    Given,
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let given = Option::<IgnoredAny>::deserialize(from)?;
        Ok(given.map_or(Self::Null, |_| Self::Given))
    }
}

pub(crate) fn look(body: &[u8]) -> Result<Seen, Malformed> {
    let values = values(body);
    if values > MOST_VALUES {
        return Err(Malformed::TooManyValues);
    }
    let kind = kind(body)?;
    if check_integers(body).is_err() {
        return Err(Malformed::InexactInteger);
    }
    // Notifications and responses never wait, so they cannot wait for reserved memory.
    if kind == Kind::Aside && values > FEW_VALUES {
        return Err(Malformed::TooManyValues);
    }
    Ok(Seen { kind, values })
}

fn kind(body: &[u8]) -> Result<Kind, Malformed> {
    let malformed = |error: serde_json::Error| match error.classify() {
        Category::Data => Malformed::NotOneMessage,
        Category::Io | Category::Syntax | Category::Eof => Malformed::NotJson,
    };
    // serde would also accept an array as the fields in order.
    if body.trim_ascii_start().first() != Some(&b'{') {
        serde_json::from_slice::<IgnoredAny>(body).map_err(malformed)?;
        return Err(Malformed::NotOneMessage);
    }
    let look: Look = serde_json::from_slice(body).map_err(malformed)?;
    match (look.method.as_deref(), look.id) {
        (_, Id::Null) => Err(Malformed::NotOneMessage),
        (Some("initialize"), Id::Given) => Ok(Kind::Greeting),
        (Some("subscriptions/listen"), Id::Given) => Ok(Kind::Listen),
        (Some(_), Id::Given) => Ok(Kind::Request),
        (Some(_), Id::Missing) | (None, Id::Missing | Id::Given) => Ok(Kind::Aside),
    }
}

impl Malformed {
    /// Returns the error response. Its id is null, because no id of the message can be trusted.
    pub(crate) fn answer(self) -> String {
        let (code, message) = match self {
            Self::NotJson => (-32700, "the body is not JSON"),
            Self::NotOneMessage => (
                -32600,
                "the body is not one JSON-RPC message: an object with `jsonrpc`, and an `id` that is a string or an integer if it is a request",
            ),
            Self::TooManyValues => (
                -32600,
                "the message has too many JSON values; the limit is 100000 in a request and 2000 otherwise",
            ),
            Self::InexactInteger => (
                -32602,
                "an integer in the message does not fit into 64 bits and would lose digits; send it as a string",
            ),
            Self::IdInUse => (
                -32600,
                "a request with this id is still running in this session",
            ),
        };
        json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": message}})
            .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_tells_requests_from_what_must_not_wait() {
        for (body, expected) in [
            (r#"{"method":"tools/call","id":1}"#, Ok(Kind::Request)),
            (
                r#"{"id":"a","params":{"id":null},"method":"m"}"#,
                Ok(Kind::Request),
            ),
            (r#"{"id":1,"method":"initialize"}"#, Ok(Kind::Greeting)),
            (
                r#"{"id":1,"method":"subscriptions/listen"}"#,
                Ok(Kind::Listen),
            ),
            (
                r#"{"id":1,"method":"subscriptions\/listen"}"#,
                Ok(Kind::Listen),
            ),
            (r#"{"method":"notifications/cancelled"}"#, Ok(Kind::Aside)),
            (r#"{"id":1,"result":{}}"#, Ok(Kind::Aside)),
            ("{}", Ok(Kind::Aside)),
            ("", Err(Malformed::NotJson)),
            ("{", Err(Malformed::NotJson)),
            ("{} {}", Err(Malformed::NotJson)),
            ("{\"method\":\"\u{1}\"}", Err(Malformed::NotJson)),
            ("[]", Err(Malformed::NotOneMessage)),
            (r#"[{"method":"m","id":1}]"#, Err(Malformed::NotOneMessage)),
            ("1", Err(Malformed::NotOneMessage)),
            (r#"{"method":1,"id":1}"#, Err(Malformed::NotOneMessage)),
            (r#"{"method":"m","id":null}"#, Err(Malformed::NotOneMessage)),
            (
                r#"{"method":"a","method":"b"}"#,
                Err(Malformed::NotOneMessage),
            ),
            (
                r#"{"id":1,"id":2,"method":"b"}"#,
                Err(Malformed::NotOneMessage),
            ),
        ] {
            let kind = look(body.as_bytes()).map(|seen| seen.kind);
            assert_eq!(kind, expected, "{body}");
        }
        assert_eq!(look(b"\xff\xfe{}"), Err(Malformed::NotJson));
    }

    #[test]
    fn a_message_of_too_many_values_is_refused_before_it_is_read() {
        let of = |head: &str, values: usize| {
            let body = format!("{head}\"params\":[{}]}}", vec!["[0]"; values].join(","));
            look(body.as_bytes()).map(|seen| seen.kind)
        };
        let request = r#"{"method":"m","id":1,"#;
        assert_eq!(of(request, MOST_VALUES / 3), Ok(Kind::Request));
        assert_eq!(of(request, MOST_VALUES / 2), Err(Malformed::TooManyValues));
        for aside in [r#"{"method":"m","#, r#"{"id":1,"result":{},"#] {
            assert_eq!(of(aside, FEW_VALUES / 3), Ok(Kind::Aside));
            assert_eq!(of(aside, FEW_VALUES / 2), Err(Malformed::TooManyValues));
        }
    }
}
