//! `http_get`, `http_post` and `http_request`: single HTTP requests with unprocessed responses.

mod call;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;

use toolhost_sdk::prelude::*;

use self::call::Call;

// Without a doc comment, which would become a root description of the input schema.
#[data]
#[derive(Clone, Debug)]
pub struct GetInput {
    /// Absolute URL.
    #[arg(min_len = 1, max_len = 8192, aliases = ["uri"])]
    url: String,
    /// The host fills in values `secret:NAME` and `Bearer secret:NAME`.
    #[arg(default = BTreeMap::<String, String>::new())]
    headers: BTreeMap<String, String>,
    /// Time limit.
    #[arg(default = 60_000, min = 1, max = 60_000)]
    timeout_ms: u32,
    /// Up to 10; another host gets none of your headers.
    #[arg(default = true)]
    follow_redirects: bool,
    /// Maximum response body.
    #[arg(default = 10_485_760, min = 1, max = 10_485_760)]
    max_bytes: u32,
}

// Without a doc comment, which would become a root description of the input schema.
#[data]
#[derive(Clone, Debug)]
pub struct PostInput {
    /// Absolute URL.
    #[arg(min_len = 1, max_len = 8192, aliases = ["uri"])]
    url: String,
    /// Strings are sent as is, other values as JSON.
    #[arg(aliases = ["data", "json"])]
    body: Option<Value>,
    /// The host fills in values `secret:NAME` and `Bearer secret:NAME`. `content-type` defaults to `application/json`
    /// for a JSON body.
    #[arg(default = BTreeMap::<String, String>::new())]
    headers: BTreeMap<String, String>,
    /// Of a string `body`.
    #[arg(default = BodyEncoding::Text)]
    body_encoding: BodyEncoding,
    /// Time limit.
    #[arg(default = 60_000, min = 1, max = 60_000)]
    timeout_ms: u32,
    /// Up to 10; another host gets no body.
    #[arg(default = true)]
    follow_redirects: bool,
    /// Maximum response body.
    #[arg(default = 10_485_760, min = 1, max = 10_485_760)]
    max_bytes: u32,
}

// Without a doc comment, which would become a root description of the input schema.
#[data]
#[derive(Clone, Debug)]
pub struct RequestInput {
    /// Absolute URL.
    #[arg(min_len = 1, max_len = 8192, aliases = ["uri"])]
    url: String,
    /// GET, POST, PUT, DELETE, PATCH, HEAD or OPTIONS.
    #[arg(default = "GET", max_len = 20)]
    method: String,
    /// Strings are sent as is, other values as JSON.
    #[arg(aliases = ["data", "json"])]
    body: Option<Value>,
    /// The host fills in values `secret:NAME` and `Bearer secret:NAME`. `content-type` defaults to `application/json`
    /// for a JSON body.
    #[arg(default = BTreeMap::<String, String>::new())]
    headers: BTreeMap<String, String>,
    /// Of a string `body`.
    #[arg(default = BodyEncoding::Text)]
    body_encoding: BodyEncoding,
    /// Time limit.
    #[arg(default = 60_000, min = 1, max = 60_000)]
    timeout_ms: u32,
    /// Up to 10; another host gets no body.
    #[arg(default = true)]
    follow_redirects: bool,
    /// Maximum response body.
    #[arg(default = 10_485_760, min = 1, max = 10_485_760)]
    max_bytes: u32,
}

/// Encoding of a body.
#[data]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyEncoding {
    Text,
    Base64,
}

/// HTTP response.
#[data]
#[derive(Debug)]
pub struct ResponseOutput {
    /// Final URL, after redirects.
    url: String,
    /// HTTP status; an error status is not a tool error.
    status: u16,
    /// Reason phrase of the status.
    #[arg(rename = "statusText")]
    status_text: String,
    /// Headers with lower-case names; repeated values are joined with `, `.
    headers: BTreeMap<String, String>,
    /// Decompressed body.
    body: String,
    /// Encoding of `body`.
    body_encoding: BodyEncoding,
    /// The body was cut.
    truncated: bool,
    /// Number of redirects followed.
    redirects: u32,
    /// Why a redirect was not followed.
    note: Option<String>,
    /// Duration in milliseconds.
    duration_ms: u64,
}

/// The `http_get` tool. The HTTP tools take their many parameters as structs.
pub struct HttpGet;

impl Tool for HttpGet {
    fn descriptor() -> Descriptor {
        describe(
            "http_get",
            "Send a GET request and return status, headers and body. To read web pages use `web_fetch`.",
        )
        .reads()
        .network()
        .idempotent()
        .requires(&["net"])
        .display_name("HTTP GET")
        .input::<GetInput>()
        .example("A JSON API", r#"{"url": "https://api.example.org/items?limit=2", "headers": {"accept": "application/json"}}"#)
    }

    fn call(cx: &Context, input: Value) -> Result<Outcome> {
        let input: GetInput = toolhost_sdk::serde_json::from_value(input)?;
        call::run(
            cx,
            Call {
                method: "GET".to_owned(),
                url: input.url,
                headers: input.headers,
                body: None,
                body_encoding: BodyEncoding::Text,
                timeout_ms: input.timeout_ms,
                follow_redirects: input.follow_redirects,
                max_bytes: input.max_bytes,
            },
        )
    }

    fn name() -> Cow<'static, str> {
        Cow::Borrowed("http_get")
    }
}

/// The `http_post` tool.
pub struct HttpPost;

impl Tool for HttpPost {
    fn descriptor() -> Descriptor {
        describe(
            "http_post",
            "Send a POST request and return status, headers and body.",
        )
        .destroys()
        .network()
        .requires(&["net"])
        .display_name("HTTP POST")
        .input::<PostInput>()
        .example("Create an item", r#"{"url": "https://api.example.org/items", "body": {"name": "one"}, "headers": {"authorization": "Bearer secret:items"}}"#)
    }

    fn call(cx: &Context, input: Value) -> Result<Outcome> {
        let input: PostInput = toolhost_sdk::serde_json::from_value(input)?;
        call::run(
            cx,
            Call {
                method: "POST".to_owned(),
                url: input.url,
                headers: input.headers,
                body: input.body,
                body_encoding: input.body_encoding,
                timeout_ms: input.timeout_ms,
                follow_redirects: input.follow_redirects,
                max_bytes: input.max_bytes,
            },
        )
    }

    fn name() -> Cow<'static, str> {
        Cow::Borrowed("http_post")
    }
}

/// The `http_request` tool.
pub struct HttpRequest;

impl Tool for HttpRequest {
    fn descriptor() -> Descriptor {
        describe(
            "http_request",
            "Send a request with any method and return status, headers and body. For GET use `http_get`.",
        )
        .destroys()
        .network()
        .requires(&["net"])
        .display_name("HTTP request")
        .input::<RequestInput>()
        .example("Delete an item", r#"{"method": "DELETE", "url": "https://api.example.org/items/7"}"#)
        .example("Send bytes", r#"{"method": "PUT", "url": "https://api.example.org/items/7/icon", "body": "iVBORw0KGgo=", "body_encoding": "base64", "headers": {"content-type": "image/png"}}"#)
    }

    fn call(cx: &Context, input: Value) -> Result<Outcome> {
        let input: RequestInput = toolhost_sdk::serde_json::from_value(input)?;
        call::run(
            cx,
            Call {
                method: call::method(&input.method)?,
                url: input.url,
                headers: input.headers,
                body: input.body,
                body_encoding: input.body_encoding,
                timeout_ms: input.timeout_ms,
                follow_redirects: input.follow_redirects,
                max_bytes: input.max_bytes,
            },
        )
    }

    fn name() -> Cow<'static, str> {
        Cow::Borrowed("http_request")
    }
}

fn describe(name: &str, description: &str) -> Descriptor {
    Descriptor::new(name, description)
        .icon("globe")
        .category("network")
        .kind("fetch")
        .tags(&["http", "api", "network"])
        .timeout_ms(60_000)
        .plain_text()
        .output::<ResponseOutput>()
}
