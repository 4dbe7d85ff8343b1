//! An HTTP client for the MCP library that counts values before parsing and bounds responses. The errors of the
//! library's own client contain the complete URL, which can contain secrets.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use http::{HeaderName, HeaderValue, StatusCode, header};
use reqwest::Response;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, ServerJsonRpcMessage,
};
use rmcp::transport::auth::WWWAuthenticateParams;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpClient,
    StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};
use toolhost_contract::text;
use toolhost_contract::value_counter::{self, MAX_VALUES};

use crate::log::ServerLogger;

const MAX_BODY: usize = 16 << 20;
/// Maximum size of the body of an error response.
const MAX_FAILURE: usize = 64 << 10;
const MAX_SHOWN: usize = 200;
/// Maximum size of a session or event ID, which are sent back to the server.
const MAX_ID: usize = 1 << 10;
/// Range of the time between two connections for one stream, in milliseconds, whatever the server requests.
const RECONNECT_MILLIS: std::ops::RangeInclusive<u64> = 1_000..=60_000;
const SESSION: &str = "mcp-session-id";
const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
/// Headers of the protocol, which the operator cannot set.
pub const RESERVED: [&str; 3] = ["accept", SESSION, "last-event-id"];

type Error = StreamableHttpError<reqwest::Error>;
type Stream = BoxStream<'static, Result<Sse, SseError>>;

#[derive(Clone)]
pub struct BoundedClient {
    pub client: reqwest::Client,
    pub log: Arc<ServerLogger>,
}

impl StreamableHttpClient for BoundedClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Error> {
        self.post_message_with_max_sse_event_size(uri, message, session, token, headers, MAX_BODY)
            .await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        max: usize,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let mut request = self
            .client
            .post(uri.as_ref())
            .headers(headers.into_iter().collect());
        request = request.header(header::ACCEPT, format!("{EVENTS}, {JSON}"));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(session) = &session {
            request = request.header(SESSION, session.as_ref());
        }
        let response = request
            .json(&message)
            .send()
            .await
            .map_err(|error| StreamableHttpError::Client(error.without_url()))?;
        let status = response.status();
        if let Some(error) = wants_login(status, &response) {
            return Err(error);
        }
        if status == StatusCode::NOT_FOUND && session.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        if !status.is_success() {
            return read_error(&message, session.is_some(), response).await;
        }
        self.read_response(&message, response, max).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Error> {
        let deleted = self
            .client
            .delete_session(uri, session, token, headers)
            .await;
        deleted.map_err(strip_url)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Stream, Error> {
        self.get_stream_with_max_sse_event_size(uri, session, last, token, headers, MAX_BODY)
            .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        max: usize,
    ) -> Result<Stream, Error> {
        let stream = self
            .client
            .get_stream_with_max_sse_event_size(uri, session, last, token, headers, max)
            .await
            .map_err(strip_url)?;
        Ok(self.limit_events(stream))
    }
}

impl BoundedClient {
    /// Converts a successful response.
    async fn read_response(
        &self,
        message: &ClientJsonRpcMessage,
        response: Response,
        max: usize,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let is_request = matches!(message, JsonRpcMessage::Request(_));
        let status = response.status();
        // Not every server answers 202 to a message without a response.
        let silent = matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT)
            || (!is_request && response.content_length() == Some(0));
        if silent {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let session = response.headers().get(SESSION);
        let session = session.and_then(|session| session.to_str().ok().map(str::to_owned));
        if session.as_ref().is_some_and(|id| id.len() > MAX_ID) {
            let message = format!("its session id is longer than {MAX_ID} bytes");
            return Err(StreamableHttpError::UnexpectedServerResponse(
                message.into(),
            ));
        }
        let kind = content_type(&response);
        if kind.starts_with(EVENTS) {
            let mut event = EventSize::default();
            let bytes = response.bytes_stream().map(move |bytes| {
                let bytes = bytes.map_err(|error| io::Error::other(error.without_url()))?;
                event.take(&bytes, max)?;
                Ok::<_, io::Error>(bytes)
            });
            let events = self.limit_events(SseStream::from_bytes_stream(bytes));
            return Ok(StreamableHttpPostResponse::Sse(events, session));
        }
        if !kind.starts_with(JSON) {
            let kind = text::escape_line(&kind, MAX_SHOWN);
            return Err(StreamableHttpError::UnexpectedContentType(Some(kind)));
        }
        match parse(&read_body(response, MAX_BODY).await?) {
            Ok(answer) => Ok(StreamableHttpPostResponse::Json(answer, session)),
            // The result of this request is ignored.
            Err(_) if !is_request => Ok(StreamableHttpPostResponse::Accepted),
            Err(reason) => Err(StreamableHttpError::UnexpectedServerResponse(reason.into())),
        }
    }

    /// Drops data with too many values, and limits what would make the client send much or often.
    pub(super) fn limit_events(
        &self,
        events: impl futures::Stream<Item = Result<Sse, SseError>> + Send + 'static,
    ) -> Stream {
        let log = Arc::clone(&self.log);
        let sift = move |mut event: Sse| {
            let fits = |data: &String| value_counter::is_within_limit(data.as_bytes());
            if !event.data.as_ref().is_none_or(fits) {
                event.data = None;
                log.line(&too_many());
            }
            event.id = event.id.filter(|id| id.len() <= MAX_ID);
            event.retry = event
                .retry
                .map(|wait| wait.clamp(*RECONNECT_MILLIS.start(), *RECONNECT_MILLIS.end()));
            event
        };
        events.map(move |event| event.map(&sift)).boxed()
    }
}

/// Converts an error response.
async fn read_error(
    message: &ClientJsonRpcMessage,
    in_session: bool,
    response: Response,
) -> Result<StreamableHttpPostResponse, Error> {
    let status = response.status();
    let retry = response.headers().get(header::RETRY_AFTER);
    let retry = retry.and_then(|after| after.to_str().ok().map(str::to_owned));
    let is_json = content_type(&response).starts_with(JSON);
    let is_busy = status == StatusCode::TOO_MANY_REQUESTS;
    let by_status = (is_busy || status.is_server_error())
        .then(|| StreamableHttpError::HttpStatus(HttpStatusError::new(status.as_u16(), retry)));
    if let Some(error) = by_status {
        if is_busy || !is_json {
            return Err(error);
        }
        // The body can explain the status code.
        let body = read_body(response, MAX_FAILURE).await.unwrap_or_default();
        return error_of(&body)
            .map(|answer| StreamableHttpPostResponse::Json(answer, None))
            .ok_or(error);
    }
    let body = read_body(response, MAX_FAILURE).await?;
    let answer = error_of(&body);
    let refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    // A server of the legacy protocol, or a proxy in front of it, does not know the first request or its ID.
    if let JsonRpcMessage::Request(request) = message
        && matches!(request.request, ClientRequest::DiscoverRequest(_))
        && !(in_session || refused)
    {
        let error = match answer {
            Some(JsonRpcMessage::Error(answer)) => answer.error,
            _ => ErrorData::invalid_request(format!("HTTP {status}"), None),
        };
        let answer = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
        return Ok(StreamableHttpPostResponse::Json(answer, None));
    }
    if let Some(answer) = answer.filter(|_| is_json && !refused) {
        return Ok(StreamableHttpPostResponse::Json(answer, None));
    }
    let body = text::escape_line(&String::from_utf8_lossy(&body), MAX_SHOWN);
    let reason = format!("HTTP {status}: {body}");
    Err(StreamableHttpError::UnexpectedServerResponse(reason.into()))
}

fn wants_login(status: StatusCode, response: &Response) -> Option<Error> {
    let challenge = response.headers().get(header::WWW_AUTHENTICATE)?;
    let challenge = String::from_utf8_lossy(challenge.as_bytes()).into_owned();
    match status {
        StatusCode::UNAUTHORIZED => {
            let error = AuthRequiredError::new(challenge);
            Some(StreamableHttpError::AuthRequired(error))
        }
        StatusCode::FORBIDDEN => {
            let scope = WWWAuthenticateParams::parse(&challenge, response.url()).scope;
            let error = InsufficientScopeError::new(challenge, scope);
            Some(StreamableHttpError::InsufficientScope(error))
        }
        _ => None,
    }
}

fn content_type(response: &Response) -> String {
    let kind = response.headers().get(header::CONTENT_TYPE);
    let kind = kind.map(|kind| String::from_utf8_lossy(kind.as_bytes()));
    kind.unwrap_or_default().to_lowercase()
}

async fn read_body(mut response: Response, max: usize) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(|error| StreamableHttpError::Client(error.without_url()))?
    {
        if body.len() + chunk.len() > max {
            return Err(StreamableHttpError::ResponseBodyTooLarge { max_size: max });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn parse(body: &[u8]) -> Result<ServerJsonRpcMessage, String> {
    if !value_counter::is_within_limit(body) {
        return Err(too_many());
    }
    serde_json::from_slice(body).map_err(|error| {
        let body = text::escape_line(&String::from_utf8_lossy(body), MAX_SHOWN);
        format!("it is not a valid message: {error}: {body}")
    })
}

fn error_of(body: &[u8]) -> Option<ServerJsonRpcMessage> {
    let message = parse(body).ok()?;
    matches!(message, JsonRpcMessage::Error(_)).then_some(message)
}

fn too_many() -> String {
    format!("a message of more than {MAX_VALUES} values was dropped")
}

/// Removes the URL, which can contain a secret.
fn strip_url(error: Error) -> Error {
    match error {
        StreamableHttpError::Client(error) => StreamableHttpError::Client(error.without_url()),
        other => other,
    }
}

/// The size of the current event. An empty line ends it, and lines have three kinds of ends.
#[derive(Default)]
struct EventSize {
    size: usize,
    in_line: bool,
    after_return: bool,
}

impl EventSize {
    fn take(&mut self, bytes: &[u8], max: usize) -> io::Result<()> {
        for &byte in bytes {
            let same_end = byte == b'\n' && self.after_return;
            self.after_return = byte == b'\r';
            if same_end {
                continue;
            }
            let ends = matches!(byte, b'\r' | b'\n');
            if ends && !self.in_line {
                self.size = 0;
            }
            self.in_line = !ends;
            self.size += 1;
            if self.size > max {
                return Err(io::Error::other(format!(
                    "an event is larger than {max} bytes"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_size_is_bounded_with_any_line_end() {
        let check = |text: &str, fits: bool| {
            for size in [1, 3, text.len()] {
                let mut event = EventSize::default();
                let mut chunks = text.as_bytes().chunks(size);
                let all = chunks.all(|chunk| event.take(chunk, 10).is_ok());
                assert_eq!(all, fits, "{text:?} by {size}");
            }
        };
        check("data: abc\n", true);
        check("data: abcd\n", false);
        check("data: ab\n\ndata: ab\n\n", true);
        check("data: ab\r\n\r\ndata: ab\r\r", true);
        // A `\r\n` is one line end, not an empty line.
        check("a\r\nb\r\nc\r\nd\r\ne\r\nf", false);
    }

    #[test]
    fn messages_with_too_many_values_are_not_parsed() {
        let many = "[],".repeat(MAX_VALUES);
        let message = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"a":[{many}1]}}}}"#);
        let reason = parse(message.as_bytes()).unwrap_err();
        assert_eq!(reason, "a message of more than 100000 values was dropped");
        assert!(parse(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#).is_ok());
    }
}
