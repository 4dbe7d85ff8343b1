//! The tools `http_get`, `http_post` and `http_request`: one request as it was asked for, and its answer as it came.

mod call;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;

use toolhost_sdk::prelude::*;

use self::call::Call;

/// What a call of http_get asks for.
#[data]
#[derive(Clone, Debug)]
pub struct Get {
    /// Absolute address with scheme, `http://…` or `https://…`.
    #[arg(min_len = 1, max_len = 8192, aliases = ["uri"])]
    url: String,
    /// Headers to send, for example `{"accept": "application/json"}`. A value `secret:NAME` or `Bearer secret:NAME` is filled in by the host.
    #[arg(default = BTreeMap::<String, String>::new())]
    headers: BTreeMap<String, String>,
    /// Milliseconds to wait in total.
    #[arg(default = 60_000, min = 1, max = 60_000)]
    timeout_ms: u32,
    /// Follow up to 10 redirects; another host gets none of your headers.
    #[arg(default = true)]
    follow_redirects: bool,
    /// Read at most so many bytes of the body.
    #[arg(default = 10_485_760, min = 1, max = 10_485_760)]
    max_bytes: u32,
}

/// What a call of http_post asks for.
#[data]
#[derive(Clone, Debug)]
pub struct Post {
    /// Absolute address with scheme, `http://…` or `https://…`.
    #[arg(min_len = 1, max_len = 8192, aliases = ["uri"])]
    url: String,
    /// Body: a text is sent as it is, any other JSON as JSON.
    #[arg(aliases = ["data", "json"])]
    body: Option<Value>,
    /// Headers to send. Without `content-type` a JSON body is sent as `application/json`. A value `secret:NAME` or `Bearer secret:NAME` is filled in by the host.
    #[arg(default = BTreeMap::<String, String>::new())]
    headers: BTreeMap<String, String>,
    /// What a text in `body` is.
    #[arg(default = BodyEncoding::Text)]
    body_encoding: BodyEncoding,
    /// Milliseconds to wait in total.
    #[arg(default = 60_000, min = 1, max = 60_000)]
    timeout_ms: u32,
    /// Follow up to 10 redirects; a body is not sent on to another host.
    #[arg(default = true)]
    follow_redirects: bool,
    /// Read at most so many bytes of the answer's body.
    #[arg(default = 10_485_760, min = 1, max = 10_485_760)]
    max_bytes: u32,
}

/// What a call of http_request asks for.
#[data]
#[derive(Clone, Debug)]
pub struct Any {
    /// Absolute address with scheme, `http://…` or `https://…`.
    #[arg(min_len = 1, max_len = 8192, aliases = ["uri"])]
    url: String,
    /// GET, POST, PUT, DELETE, PATCH, HEAD or OPTIONS.
    #[arg(default = "GET", max_len = 20)]
    method: String,
    /// Body: a text is sent as it is, any other JSON as JSON.
    #[arg(aliases = ["data", "json"])]
    body: Option<Value>,
    /// Headers to send. Without `content-type` a JSON body is sent as `application/json`. A value `secret:NAME` or `Bearer secret:NAME` is filled in by the host.
    #[arg(default = BTreeMap::<String, String>::new())]
    headers: BTreeMap<String, String>,
    /// What a text in `body` is.
    #[arg(default = BodyEncoding::Text)]
    body_encoding: BodyEncoding,
    /// Milliseconds to wait in total.
    #[arg(default = 60_000, min = 1, max = 60_000)]
    timeout_ms: u32,
    /// Follow up to 10 redirects; a body is not sent on to another host.
    #[arg(default = true)]
    follow_redirects: bool,
    /// Read at most so many bytes of the answer's body.
    #[arg(default = 10_485_760, min = 1, max = 10_485_760)]
    max_bytes: u32,
}

/// How bytes are written.
#[data]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyEncoding {
    /// As text.
    Text,
    /// In Base64.
    Base64,
}

/// The answer.
#[data]
#[derive(Debug)]
pub struct Answer {
    /// The address that answered, after redirects.
    url: String,
    /// Status code; any of them is an answer and not an error of the tool.
    status: u16,
    /// What the status means.
    #[arg(rename = "statusText")]
    status_text: String,
    /// Headers, names in lower case; the values of repeated ones are joined with `, `.
    headers: BTreeMap<String, String>,
    /// The body, unpacked.
    body: String,
    /// How the body is written here.
    body_encoding: BodyEncoding,
    /// The body goes on.
    truncated: bool,
    /// Redirects that were followed.
    redirects: u32,
    /// Why a redirect was not followed.
    note: Option<String>,
    /// Milliseconds it took.
    duration_ms: u64,
}

/// The tool `http_get`. These have more parameters than a function should, so they take them as structs.
pub struct HttpGet;

impl Tool for HttpGet {
    fn descriptor() -> Descriptor {
        describe(
            "http_get",
            "Send a GET request and show status, headers and body as they are. For pages to read use `web_fetch`.",
        )
        .reads()
        .network()
        .idempotent()
        .requires(&["net"])
        .display_name("HTTP GET")
        .input::<Get>()
        .example("A JSON API", r#"{"url": "https://api.example.org/items?limit=2", "headers": {"accept": "application/json"}}"#)
    }

    fn call(cx: &Context, input: Value) -> Result<Outcome> {
        let input: Get = toolhost_sdk::serde_json::from_value(input)?;
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

/// The tool `http_post`.
pub struct HttpPost;

impl Tool for HttpPost {
    fn descriptor() -> Descriptor {
        describe(
            "http_post",
            "Send a POST request with a text or JSON body and show status, headers and body of the answer.",
        )
        .destroys()
        .network()
        .requires(&["net"])
        .display_name("HTTP POST")
        .input::<Post>()
        .example("Create an item", r#"{"url": "https://api.example.org/items", "body": {"name": "one"}, "headers": {"authorization": "Bearer secret:items"}}"#)
    }

    fn call(cx: &Context, input: Value) -> Result<Outcome> {
        let input: Post = toolhost_sdk::serde_json::from_value(input)?;
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

/// The tool `http_request`.
pub struct HttpRequest;

impl Tool for HttpRequest {
    fn descriptor() -> Descriptor {
        describe(
            "http_request",
            "Send a request of any method and show status, headers and body of the answer. To only read use `http_get`.",
        )
        .destroys()
        .network()
        .requires(&["net"])
        .display_name("HTTP request")
        .input::<Any>()
        .example("Delete an item", r#"{"method": "DELETE", "url": "https://api.example.org/items/7"}"#)
        .example("Send bytes", r#"{"method": "PUT", "url": "https://api.example.org/items/7/icon", "body": "iVBORw0KGgo=", "body_encoding": "base64", "headers": {"content-type": "image/png"}}"#)
    }

    fn call(cx: &Context, input: Value) -> Result<Outcome> {
        let input: Any = toolhost_sdk::serde_json::from_value(input)?;
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
        .output::<Answer>()
}
