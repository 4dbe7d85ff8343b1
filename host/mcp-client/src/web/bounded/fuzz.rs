//! Fuzz targets for the HTTP responses of a server: heads and bodies, and streams of events.

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::{FutureExt as _, StreamExt as _, stream};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_client::StreamableHttpPostResponse;
use serde_json::json;
use sse_stream::SseStream;
use toolhost_fuzz_input::{assembled, check_message};
use url::Url;

use super::super::check_redirect;
use super::{BoundedClient, EventSize, MAX_ID, RECONNECT_MILLIS, read_error, wants_login};
use crate::log::ServerLogger;

const ANSWERS: &[&str] = &[
    "\n",
    "\r\n",
    ": ",
    "200\n",
    "202\n",
    "401\n",
    "403\n",
    "404\n",
    "429\n",
    "500\n",
    "302\n",
    "content-type: ",
    "application/json",
    "text/event-stream",
    "; charset=utf-8",
    "mcp-session-id: ",
    "www-authenticate: ",
    "Bearer ",
    "resource_metadata=\"https://a.example/x\"",
    "scope=\"read write\"",
    "error=\"insufficient_scope\"",
    "retry-after: ",
    "99999999999999999999",
    "location: ",
    "https://evil.example/",
    "set-cookie: a=b",
    "content-length: 0",
    "data: ",
    "{\"jsonrpc\":\"2.0\",\"id\":1,",
    "\"result\":",
    "\"error\":",
    "{\"code\":-32601,\"message\":\"",
    "\"}",
    "{",
    "}",
    "[",
    "]",
    ",",
    "\"",
    "\u{202e}",
    "\u{1b}[2J",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
];

/// Parses a status, headers and a body, as lines.
fn response(answer: &str) -> Option<reqwest::Response> {
    let (head, body) = answer.split_once("\n\n").unwrap_or((answer, ""));
    let mut lines = head.lines();
    let status: u16 = lines.next()?.trim().parse().ok()?;
    let mut response = http::Response::builder().status(status);
    for line in lines {
        if let Some((name, value)) = line.split_once(": ") {
            response = response.header(name, value.as_bytes());
        }
    }
    Some(response.body(body.to_owned()).ok()?.into())
}

fn message(value: serde_json::Value) -> ClientJsonRpcMessage {
    serde_json::from_value(value).unwrap()
}

fn bounded() -> BoundedClient {
    crate::web::install_crypto_provider();
    BoundedClient {
        client: reqwest::Client::new(),
        log: Arc::new(ServerLogger::new(Arc::new(|line: &str| {
            check_message(line);
        }))),
    }
}

#[test]
fn fuzz_answer() {
    let bounded = AssertUnwindSafe(bounded());
    let requests = AssertUnwindSafe([
        message(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})),
        message(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})),
        message(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})),
    ]);
    bolero::check!().for_each(|bytes: &[u8]| {
        let (bounded, requests) = (&*bounded, &*requests);
        let answer = assembled(bytes, ANSWERS);
        for request in requests {
            let Some(response) = response(&answer) else {
                return;
            };
            let status = response.status();
            let location = response.headers().get("location");
            if let Some(to) = location.and_then(|location| location.to_str().ok()) {
                check_redirect_target(to);
            }
            if let Some(error) = wants_login(status, &response) {
                check_message(&error.to_string());
                continue;
            }
            // The body is in memory, so reading it never waits.
            let read = if status.is_success() {
                bounded.read_response(request, response, 512).now_or_never()
            } else {
                read_error(request, false, response).now_or_never()
            };
            match read.expect("a body in memory") {
                Err(error) => check_message(&error.to_string()),
                Ok(StreamableHttpPostResponse::Sse(events, session)) => {
                    let events: Vec<_> = events.collect().now_or_never().expect("in memory");
                    for event in events.into_iter().flatten() {
                        let fits = |text: &Option<String>| {
                            text.as_ref().is_none_or(|text| text.len() <= MAX_ID)
                        };
                        assert!(fits(&event.id) && fits(&event.data), "{event:?}");
                    }
                    assert!(session.is_none_or(|session| session.len() <= MAX_ID));
                }
                Ok(StreamableHttpPostResponse::Json(_, session)) => {
                    assert!(session.is_none_or(|session| session.len() <= MAX_ID));
                }
                Ok(_) => {}
            }
        }
    });
}

/// The operator's headers are sent only to the operator's host.
fn check_redirect_target(location: &str) {
    let from = Url::parse("https://a.example/mcp").unwrap();
    let Ok(to) = from.join(location) else { return };
    if let Err(reason) = check_redirect(&[from], &to) {
        check_message(&reason);
    } else {
        let origin = (to.scheme(), to.host_str(), to.port_or_known_default());
        assert_eq!(
            origin,
            ("https", Some("a.example"), Some(443)),
            "{location}"
        );
    }
}

const EVENTS: &[&str] = &[
    "\n",
    "\r",
    "\r\n",
    "\n\n",
    ":",
    ": ",
    "data: ",
    "data:",
    "data",
    "id: ",
    "id",
    "event: ",
    "event: message",
    "retry: ",
    "retry: 5",
    "99999999999999999999",
    "-1",
    "\0",
    "\u{feff}",
    "{\"jsonrpc\":\"2.0\"",
    "[],",
    "[[",
    "]",
    "}",
    "é",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
];

type Read = (Option<String>, Option<String>, Option<String>, Option<u64>);

/// The events of a stream that arrives in chunks of this size; the last value is false if it ends with an error.
fn read(bounded: &BoundedClient, text: &str, size: usize) -> (Vec<Read>, bool) {
    let pieces: Vec<_> = text
        .as_bytes()
        .chunks(size)
        .map(|piece| Ok::<_, io::Error>(bytes::Bytes::copy_from_slice(piece)))
        .collect();
    let events = bounded.limit_events(SseStream::from_bytes_stream(stream::iter(pieces)));
    let events: Vec<_> = events.collect().now_or_never().expect("no read is pending");
    let whole = events.iter().all(Result::is_ok);
    let read = events.into_iter().flatten();
    let read = read.map(|event| (event.event, event.data, event.id, event.retry));
    (read.collect(), whole)
}

#[test]
fn fuzz_events() {
    let bounded = AssertUnwindSafe(bounded());
    bolero::check!().for_each(|bytes: &[u8]| {
        let bounded = &*bounded;
        let text = assembled(bytes, EVENTS);
        let whole = read(bounded, &text, text.len().max(1));
        for (_, data, id, retry) in &whole.0 {
            let fits =
                |data: &String| toolhost_contract::value_counter::is_within_limit(data.as_bytes());
            assert!(data.as_ref().is_none_or(fits), "{text:?}");
            assert!(id.as_ref().is_none_or(|id| id.len() <= MAX_ID), "{text:?}");
            assert!(
                retry.is_none_or(|wait| RECONNECT_MILLIS.contains(&wait)),
                "{text:?}"
            );
        }
        // The events do not depend on chunk boundaries. A line that the library does not know is an error, and the
        // events that are lost with it depend on the chunks.
        for size in [1, 2, 7] {
            let cut = read(bounded, &text, size);
            assert_eq!(cut.1, whole.1, "{text:?} by {size}");
            if whole.1 {
                assert_eq!(cut.0, whole.0, "{text:?} by {size}");
            }
            let mut event = EventSize::default();
            let mut pieces = text.as_bytes().chunks(size);
            let fits = pieces.all(|piece| event.take(piece, 100).is_ok());
            assert_eq!(fits, longest(&text) <= 100, "{text:?} by {size}");
        }
    });
}

/// The bytes of the longest event, where `\r\n` counts as one.
fn longest(text: &str) -> usize {
    let lines = text.replace("\r\n", "\n").replace('\r', "\n");
    let (mut longest, mut size) = (0, 0);
    for line in lines.split_inclusive('\n') {
        if line == "\n" {
            size = 0;
        }
        size += line.len();
        longest = longest.max(size);
    }
    longest
}
