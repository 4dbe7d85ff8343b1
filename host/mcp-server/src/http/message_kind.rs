//! Classification and checks of a JSON-RPC message before rmcp parses it.

use std::borrow::Cow;

use rmcp::model::RequestId;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use serde_json::json;
use toolhost_contract::exact_integers::check_integers;
use toolhost_contract::value_counter::{MAX_VALUES, count_values_and_names};

use crate::transport::request_id;

/// Maximum number of values in a message that needs no reserved memory.
pub(crate) const MAX_UNRESERVED_VALUES: usize = 2_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageKind {
    /// `initialize` of the older protocols. It does not hold a permit for the session.
    Initialize,
    Request,
    /// A request whose response is a stream without an end.
    Subscribe,
    /// A notification or a response. It must never wait behind requests, because a request may be waiting for it.
    NotificationOrResponse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MalformedMessage {
    NotJson,
    NotOneMessage,
    TooManyValues,
    InexactInteger,
    IdInUse,
}

/// Properties of a message before it is parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MessageInfo {
    pub(crate) kind: MessageKind,
    pub(crate) values: usize,
}

#[derive(Deserialize)]
struct Envelope<'a> {
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

pub(crate) fn inspect(body: &[u8]) -> Result<MessageInfo, MalformedMessage> {
    let values = count_values_and_names(body);
    if values > MAX_VALUES {
        return Err(MalformedMessage::TooManyValues);
    }
    let kind = kind(body)?;
    if check_integers(body).is_err() {
        return Err(MalformedMessage::InexactInteger);
    }
    // Notifications and responses never wait, so they cannot wait for reserved memory.
    if kind == MessageKind::NotificationOrResponse && values > MAX_UNRESERVED_VALUES {
        return Err(MalformedMessage::TooManyValues);
    }
    Ok(MessageInfo { kind, values })
}

fn kind(body: &[u8]) -> Result<MessageKind, MalformedMessage> {
    let malformed = |error: serde_json::Error| match error.classify() {
        Category::Data => MalformedMessage::NotOneMessage,
        Category::Io | Category::Syntax | Category::Eof => MalformedMessage::NotJson,
    };
    // serde would also accept an array as the fields in order.
    if body.trim_ascii_start().first() != Some(&b'{') {
        serde_json::from_slice::<IgnoredAny>(body).map_err(malformed)?;
        return Err(MalformedMessage::NotOneMessage);
    }
    let look: Envelope = serde_json::from_slice(body).map_err(malformed)?;
    match (look.method.as_deref(), look.id) {
        (_, Id::Null) => Err(MalformedMessage::NotOneMessage),
        (Some("initialize"), Id::Given) => Ok(MessageKind::Initialize),
        (Some("subscriptions/listen"), Id::Given) => Ok(MessageKind::Subscribe),
        (Some(_), Id::Given) => Ok(MessageKind::Request),
        (Some(_), Id::Missing) | (None, Id::Missing | Id::Given) => {
            Ok(MessageKind::NotificationOrResponse)
        }
    }
}

impl MalformedMessage {
    /// Returns the id of a body that is one request with a readable id.
    pub(crate) fn request_id(self, body: &[u8]) -> Option<RequestId> {
        match self {
            Self::NotJson | Self::NotOneMessage => None,
            Self::TooManyValues | Self::InexactInteger | Self::IdInUse => request_id(body),
        }
    }

    pub(crate) fn error_response(self, id: Option<RequestId>) -> String {
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
        json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_distinguished_from_notifications_and_responses() {
        for (body, expected) in [
            (
                r#"{"method":"tools/call","id":1}"#,
                Ok(MessageKind::Request),
            ),
            (
                r#"{"id":"a","params":{"id":null},"method":"m"}"#,
                Ok(MessageKind::Request),
            ),
            (
                r#"{"id":1,"method":"initialize"}"#,
                Ok(MessageKind::Initialize),
            ),
            (
                r#"{"id":1,"method":"subscriptions/listen"}"#,
                Ok(MessageKind::Subscribe),
            ),
            (
                r#"{"id":1,"method":"subscriptions\/listen"}"#,
                Ok(MessageKind::Subscribe),
            ),
            (
                r#"{"method":"notifications/cancelled"}"#,
                Ok(MessageKind::NotificationOrResponse),
            ),
            (
                r#"{"id":1,"result":{}}"#,
                Ok(MessageKind::NotificationOrResponse),
            ),
            ("{}", Ok(MessageKind::NotificationOrResponse)),
            ("", Err(MalformedMessage::NotJson)),
            ("{", Err(MalformedMessage::NotJson)),
            ("{} {}", Err(MalformedMessage::NotJson)),
            ("{\"method\":\"\u{1}\"}", Err(MalformedMessage::NotJson)),
            ("[]", Err(MalformedMessage::NotOneMessage)),
            (
                r#"[{"method":"m","id":1}]"#,
                Err(MalformedMessage::NotOneMessage),
            ),
            ("1", Err(MalformedMessage::NotOneMessage)),
            (
                r#"{"method":1,"id":1}"#,
                Err(MalformedMessage::NotOneMessage),
            ),
            (
                r#"{"method":"m","id":null}"#,
                Err(MalformedMessage::NotOneMessage),
            ),
            (
                r#"{"method":"a","method":"b"}"#,
                Err(MalformedMessage::NotOneMessage),
            ),
            (
                r#"{"id":1,"id":2,"method":"b"}"#,
                Err(MalformedMessage::NotOneMessage),
            ),
        ] {
            let kind = inspect(body.as_bytes()).map(|info| info.kind);
            assert_eq!(kind, expected, "{body}");
        }
        assert_eq!(inspect(b"\xff\xfe{}"), Err(MalformedMessage::NotJson));
    }

    #[test]
    fn an_error_response_has_the_id_of_a_readable_request() {
        use MalformedMessage::{IdInUse, InexactInteger, NotJson, NotOneMessage, TooManyValues};

        for (malformed, body, id) in [
            (IdInUse, r#"{"method":"m","id":1}"#, json!(1)),
            (InexactInteger, r#"{"method":"m","id":"a"}"#, json!("a")),
            (
                TooManyValues,
                r#"{"params":{"id":2},"id":1,"method":"m"}"#,
                json!(1),
            ),
            (TooManyValues, r#"{"method":"m"}"#, json!(null)),
            (TooManyValues, r#"{"id":1,"result":{}}"#, json!(null)),
            (TooManyValues, r#"{"method":"m","id":1.5}"#, json!(null)),
            (
                TooManyValues,
                r#"[{"method":"m","id":1},{"method":"m","id":2}]"#,
                json!(null),
            ),
            (TooManyValues, r#"{"method":"m","id":1"#, json!(null)),
            (NotJson, r#"{"method":"m","id":1} x"#, json!(null)),
            (NotOneMessage, r#"[{"method":"m","id":1}]"#, json!(null)),
        ] {
            let response = malformed.error_response(malformed.request_id(body.as_bytes()));
            let response: serde_json::Value = serde_json::from_str(&response).unwrap();
            assert_eq!(response["id"], id, "{malformed:?} {body}");
        }
    }

    #[test]
    fn a_message_with_too_many_values_is_rejected_before_parsing() {
        let of = |head: &str, values: usize| {
            let body = format!("{head}\"params\":[{}]}}", vec!["[0]"; values].join(","));
            inspect(body.as_bytes()).map(|info| info.kind)
        };
        let request = r#"{"method":"m","id":1,"#;
        assert_eq!(of(request, MAX_VALUES / 3), Ok(MessageKind::Request));
        assert_eq!(
            of(request, MAX_VALUES / 2),
            Err(MalformedMessage::TooManyValues)
        );
        for aside in [r#"{"method":"m","#, r#"{"id":1,"result":{},"#] {
            assert_eq!(
                of(aside, MAX_UNRESERVED_VALUES / 3),
                Ok(MessageKind::NotificationOrResponse)
            );
            assert_eq!(
                of(aside, MAX_UNRESERVED_VALUES / 2),
                Err(MalformedMessage::TooManyValues)
            );
        }
    }
}
