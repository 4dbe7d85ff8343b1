//! Execution of HTTP requests and rendering of responses.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use toolhost_sdk::prelude::*;
use toolhost_sdk::services::http::Request;
use toolhost_sdk::text::clean;

use super::{BodyEncoding, ResponseOutput};
use crate::answer::{MAX_BODY, SHOWN, USER_AGENT, size, status_line, status_text};
use crate::body::{self, Body, BodyKind, ENCODINGS};
use crate::redirects::{self, Deadline, RedirectPolicy, RedirectTrail};
use crate::untrusted_text::{block, inline, slice};
use crate::web_url;

/// Limit of headers; with the default ones, the host's limit.
const MAX_HEADERS: usize = 90;

const METHODS: [&str; 7] = ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"];

pub struct Call {
    pub method: String,
    pub url: String,
    pub headers: BTreeMap<String, String>,
    pub body: Option<Value>,
    pub body_encoding: BodyEncoding,
    pub timeout_ms: u32,
    pub follow_redirects: bool,
    pub max_bytes: u32,
}

/// The method in upper case, if it is supported.
pub fn method(text: &str) -> Result<String> {
    let method = text.to_ascii_uppercase();
    if METHODS.contains(&method.as_str()) {
        return Ok(method);
    }
    let message = format!("method `{}` is not supported", inline(text));
    Err(Error::invalid_input(message)
        .code("bad_request")
        .recommend(format!("use one of {}", METHODS.join(", "))))
}

pub fn run(cx: &Context, call: Call) -> Result<Outcome> {
    let started = Instant::now();
    let deadline = Deadline::after(Duration::from_millis(call.timeout_ms.into()));
    let url = web_url::parse(&call.url)?;
    let most = (call.max_bytes as usize).min(MAX_BODY);
    let request = request(&call, most)?;
    let follow = if call.follow_redirects {
        RedirectPolicy::Anywhere
    } else {
        RedirectPolicy::Never
    };
    cx.progress(&format!(
        "{} {}",
        call.method,
        url.host_str().unwrap_or_default()
    ));
    let RedirectTrail {
        url,
        response,
        hops,
        stopped,
    } = redirects::send(cx, request, url, follow, deadline)?;

    let status = response.status;
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in &response.headers {
        let joined = headers.entry(clean(name)).or_default();
        if !joined.is_empty() {
            joined.push_str(", ");
        }
        joined.push_str(&clean(value));
    }
    let declared = response.header("content-type").map(str::to_owned);
    let body = body::unpack(response, most)?;
    let kind = body::kind(declared.as_deref(), &body.bytes);
    let (text, encoding) = if readable(&kind) {
        let is_page = kind == BodyKind::Html;
        let (text, _) = body::text(declared.as_deref(), &body.bytes, is_page);
        (text, BodyEncoding::Text)
    } else {
        (STANDARD.encode(&body.bytes), BodyEncoding::Base64)
    };
    let answer = ResponseOutput {
        url: url.to_string(),
        status,
        status_text: status_text(status).to_owned(),
        headers,
        body: text,
        body_encoding: encoding,
        truncated: body.truncated,
        redirects: u32::try_from(hops).unwrap_or(u32::MAX),
        note: stopped.map(|stop| stop.note()),
        duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
    };
    Ok(outcome(
        &call.method,
        &answer,
        &body,
        &body::media_type(declared.as_deref()),
    ))
}

fn readable(kind: &BodyKind) -> bool {
    match kind {
        BodyKind::Html | BodyKind::Json | BodyKind::Text => true,
        BodyKind::Image(_) | BodyKind::Pdf | BodyKind::Other(_) => false,
    }
}

fn request(call: &Call, most: usize) -> Result<Request> {
    let mut request = Request::new(call.method.as_str(), "");
    request.max_bytes = most;
    if call.headers.len() > MAX_HEADERS {
        let message = format!("{} headers are more than {MAX_HEADERS}", call.headers.len());
        return Err(Error::invalid_input(message).code("bad_request"));
    }
    for (name, value) in &call.headers {
        check_header(name, value)?;
        request = request.header(name.as_str(), value.as_str());
    }
    let has = |request: &Request, wanted: &str| {
        let mut headers = request.headers.iter();
        headers.any(|(name, _)| name.eq_ignore_ascii_case(wanted))
    };
    if let Some((body, kind)) = payload(call)? {
        request.body = body;
        if !has(&request, "content-type") {
            request = request.header("content-type", kind);
        }
    }
    for (name, value) in [
        ("accept", "*/*"),
        ("accept-encoding", ENCODINGS),
        ("user-agent", USER_AGENT),
    ] {
        if !has(&request, name) {
            request = request.header(name, value);
        }
    }
    Ok(request)
}

/// The host refuses these too, but cannot name the header.
fn check_header(name: &str, value: &str) -> Result<()> {
    let bad = |why: &str| {
        let message = format!("header `{}` cannot be sent: {why}", inline(name));
        Err(Error::invalid_input(message).code("bad_request"))
    };
    let is_token = |c: u8| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c);
    if name.is_empty() || !name.bytes().all(is_token) {
        return bad("its name may contain only letters, digits and `-`");
    }
    if value.chars().any(|c| c.is_control() && c != '\t') {
        return bad("its value contains a line break or another control character");
    }
    Ok(())
}

/// The bytes of the body and their default content type.
fn payload(call: &Call) -> Result<Option<(Vec<u8>, &'static str)>> {
    let text = match &call.body {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text,
        Some(json) => {
            return Ok(Some((
                toolhost_sdk::serde_json::to_vec(json)?,
                "application/json",
            )));
        }
    };
    if call.body_encoding == BodyEncoding::Base64 {
        let bytes = STANDARD.decode(text.trim()).map_err(|error| {
            Error::invalid_input(format!(
                "`body` is not Base64: {}",
                error.to_string().trim_end_matches('.')
            ))
            .code("invalid_tool_params")
            .recommend("omit `body_encoding` to send text unchanged")
        })?;
        return Ok(Some((bytes, "application/octet-stream")));
    }
    // Models write JSON as a string as often as they write it as JSON.
    let looks_like = text.trim_start().starts_with(['{', '[']);
    let is_json = looks_like && toolhost_sdk::serde_json::from_str::<Value>(text).is_ok();
    let kind = if is_json {
        "application/json"
    } else {
        "text/plain; charset=utf-8"
    };
    Ok(Some((text.clone().into_bytes(), kind)))
}

fn outcome(method: &str, answer: &ResponseOutput, body: &Body, media_type: &str) -> Outcome {
    let line = status_line(answer.status);
    let mut text = format!("HTTP {line} from {}", inline(&answer.url));
    if answer.redirects > 0 {
        let _ = write!(text, " after {} redirects", answer.redirects);
    }
    text.push('\n');
    let mut shown = String::new();
    for (name, value) in &answer.headers {
        let _ = writeln!(shown, "{name}: {}", inline(value));
    }
    let mut notes: Vec<String> = answer.note.clone().into_iter().collect();
    let bytes = size(body.bytes.len());
    match answer.body_encoding {
        BodyEncoding::Text if !answer.body.is_empty() => {
            let whole = clean(&answer.body);
            let piece = slice(&whole, 0, SHOWN);
            let _ = write!(shown, "\n{}", piece.text);
            if piece.next.is_some() {
                notes.push(format!(
                    "showing the first {SHOWN} characters of {bytes}; ask for less (a page, a range, a filter), or use \
                     `web_fetch` with `start_index`"
                ));
            }
        }
        BodyEncoding::Base64 => notes.push(format!(
            "the body is {bytes} of `{}`, no text; it is in the data of this result, in Base64",
            inline(media_type)
        )),
        BodyEncoding::Text => notes.push("the body is empty".to_owned()),
    }
    if answer.truncated {
        notes.push(format!(
            "the body was cut after {bytes}, the limit `max_bytes`"
        ));
    }
    text.push_str(&block(&answer.url, &shown));
    for note in notes {
        let _ = write!(text, "\n[{note}]");
    }
    let summary = format!("{method} {line}, {bytes}");
    Outcome::text(text).summary(summary).structured(answer)
}
