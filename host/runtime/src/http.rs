//! `wasi:http` for one call: each request is checked here against what the call is, and by the crate `net` against
//! what the operator allows.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use http::header::LOCATION;
use http::{Method, Request, Response, Uri};
use http_body_util::BodyExt as _;
use serde_json::Value;
use toolhost_contract::Sink;
use toolhost_net::{Net, NetError, Timeouts};
use wasmtime_wasi_http::{Error, RequestOptions, Result, WasiBody, WasiHttpHooks};

/// Bytes of answers that one call may read in all.
const ALL_ANSWERS: u64 = 32 << 20;

/// Does it stand for a secret, alone or after a word? The host sends one to its own hosts only, and refuses it elsewhere.
fn is_reference(value: &str) -> bool {
    let mut words = value.split(' ').rev();
    let name = words.next().and_then(|word| word.strip_prefix("secret:"));
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    words.count() <= 1 && name.is_some_and(|name| !name.is_empty() && name.chars().all(plain))
}

/// Does an input name addresses?
pub fn names_addresses(input: &Value) -> bool {
    named(input).is_some()
}

/// What one call may reach.
#[derive(Clone)]
pub struct Way {
    net: Net,
    /// What the plugin's manifest asks for; None: whatever the operator allows.
    asked: Option<Net>,
    /// A tool that only reads asks, and sends nothing.
    reads_only: bool,
    /// Hosts that the call's input names. None: it names no address.
    only: Option<Arc<BTreeSet<String>>>,
    /// Hosts that these have sent it to.
    heard: Arc<Mutex<BTreeSet<String>>>,
    left: Arc<AtomicU64>,
}

impl Way {
    pub fn new(net: Net, asked: Option<Net>, reads_only: bool, input: &Value) -> Self {
        let only = named(input).map(|urls| {
            let hosts = urls.iter().filter_map(|url| host_of(url));
            Arc::new(hosts.collect())
        });
        Self {
            net,
            asked,
            reads_only,
            only,
            heard: Arc::default(),
            left: Arc::new(AtomicU64::new(ALL_ANSWERS)),
        }
    }

    fn admits(&self, request: &Request<WasiBody>) -> Result<(), Refused> {
        if let Some(asked) = &self.asked {
            asked.admits(request.uri()).map_err(|_| {
                Refused::new(
                    "host_not_allowed",
                    "the plugin's manifest does not ask for this host",
                )
            })?;
        }
        let asks = [Method::GET, Method::HEAD, Method::OPTIONS];
        // A search service may want its question in a body. Whoever gave the host a secret for it meant this address.
        let mut headers = request.headers().values();
        let has_secret = headers.any(|value| value.to_str().is_ok_and(is_reference));
        if self.reads_only && !asks.contains(request.method()) && !has_secret {
            let method = request.method();
            return Err(Refused::new(
                "method_not_allowed",
                format!("a tool that only reads cannot send {method}"),
            ));
        }
        let Some(only) = &self.only else {
            return Ok(());
        };
        let host = request.uri().host().map(str::to_ascii_lowercase);
        if host.as_ref().is_some_and(|host| only.contains(host)) {
            return Ok(());
        }
        // A page may send the call elsewhere to look, and nothing more.
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let looks = [Method::GET, Method::HEAD].contains(request.method());
        if looks && host.as_ref().is_some_and(|host| heard.contains(host)) {
            return Ok(());
        }
        // What a rule or a person allowed was this address, and not any that its plugin would like.
        Err(Refused::new(
            "host_not_allowed",
            "the request goes to another host than the input of the call names",
        ))
    }

    fn heard(&self, asked: &Uri, answer: &Response<toolhost_net::Download>) {
        if self.only.is_none() {
            return;
        }
        if !answer.status().is_redirection() {
            return;
        }
        let location = answer
            .headers()
            .get(LOCATION)
            .and_then(|to| to.to_str().ok());
        // One without a host stays where it is.
        let host = location
            .and_then(host_of)
            .or_else(|| asked.host().map(str::to_ascii_lowercase));
        self.heard
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(host);
    }

    async fn send(
        self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
    ) -> Result<Response<WasiBody>> {
        let options = options.unwrap_or_default();
        let timeouts = Timeouts {
            connect: options.connect_timeout.unwrap_or(Timeouts::MAX.connect),
            first_byte: options
                .first_byte_timeout
                .unwrap_or(Timeouts::MAX.first_byte),
            between_bytes: options
                .between_bytes_timeout
                .unwrap_or(Timeouts::MAX.between_bytes),
            total: Timeouts::MAX.total,
        };
        let uri = request.uri().clone();
        let request = request.map(|body| body.map_err(|error| error.to_string()).boxed_unsync());
        let answer = self
            .net
            .send(request, timeouts)
            .await
            .map_err(|error| explain(&error))?;
        self.heard(&uri, &answer);
        Ok(answer.map(|body| {
            let left = Arc::clone(&self.left);
            body.map_err(|error| explain(&error))
                .map_frame(move |frame| {
                    let size = frame.data_ref().map_or(0, |bytes| bytes.len() as u64);
                    // Above it nothing more comes in; the frame that crossed it is the last.
                    let _ =
                        left.fetch_update(Relaxed, Relaxed, |left| Some(left.saturating_sub(size)));
                    frame
                })
                .boxed_unsync()
        }))
    }
}

struct Refused {
    code: &'static str,
    message: String,
}

impl Refused {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        // The only case of WASI that carries our words to the guest.
        Error::InternalError(Some(format!("{}: {}", refused.code, refused.message)))
    }
}

fn explain(error: &NetError) -> Error {
    Refused::new(error.code(), error.to_string()).into()
}

/// The hooks of a call. One without a way out refuses.
pub struct Hooks {
    pub way: Option<Way>,
    pub sink: Arc<dyn Sink>,
}

impl Hooks {
    /// The policy has judged the addresses in the input. Where a page sends the call on to, it judges here.
    fn follows_rules(&self, to: &Uri) -> Result<(), Refused> {
        let services = self.sink.services();
        match services.and_then(|services| services.forbids_address(&to.to_string())) {
            Some(reason) => Err(Refused::new("host_not_allowed", reason)),
            None => Ok(()),
        }
    }
}

type Sent = Box<
    dyn Future<
            Output = Result<(
                Response<WasiBody>,
                Box<dyn Future<Output = Result<()>> + Send>,
            )>,
        > + Send,
>;

impl WasiHttpHooks for Hooks {
    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _fut: Box<dyn Future<Output = Result<()>> + Send>,
    ) -> Sent {
        // What others answer no read set shows.
        self.sink.depends_on_more();
        let way = match &self.way {
            None => Err(Refused::new(
                "not_granted",
                "this call was not granted `net`: the plugin's manifest must ask for it, and the operator allow a host \
                 with --allow-host",
            )),
            Some(way) if way.left.load(Relaxed) == 0 => Err(Refused::new(
                "body_too_large",
                format!("the answers of this call are more than {ALL_ANSWERS} bytes in all"),
            )),
            Some(way) => way
                .admits(&request)
                .and_then(|()| self.follows_rules(request.uri()))
                .map(|()| way.clone()),
        };
        Box::new(async move {
            let answer = way.map_err(Error::from)?.send(request, options).await?;
            // The body owns its connection; there is nothing else to drive.
            let done: Box<dyn Future<Output = Result<()>> + Send> = Box::new(async { Ok(()) });
            Ok((answer, done))
        })
    }
}

/// The addresses that an input names; None when it has no member for them.
fn named(input: &Value) -> Option<Vec<&str>> {
    let one = input.get("url").and_then(Value::as_str);
    let many = input.get("urls").and_then(Value::as_array);
    if one.is_none() && many.is_none() {
        return None;
    }
    let many = many.into_iter().flatten().filter_map(Value::as_str);
    Some(one.into_iter().chain(many).collect())
}

fn host_of(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    uri.host().map(str::to_ascii_lowercase)
}

#[cfg(test)]
mod tests {
    use http_body_util::Empty;
    use serde_json::json;
    use toolhost_net::{Allowed, HostRule, Settings};

    use super::*;

    fn way(rules: &[&str], asked: Option<&[&str]>, reads_only: bool, input: &Value) -> Way {
        let allowed = |rules: &[&str]| Allowed {
            rules: rules
                .iter()
                .map(|rule| HostRule::parse(rule).unwrap())
                .collect(),
            denied: Vec::new(),
        };
        let net = Net::new(Settings {
            allowed: allowed(rules),
            ..Settings::default()
        });
        let asked = asked.map(|rules| net.with(allowed(rules), Vec::new()));
        Way::new(net, asked, reads_only, input)
    }

    fn check(way: &Way, method: &str, url: &str, expected: &str) {
        let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
        let request = Request::builder()
            .method(method)
            .uri(url)
            .body(body)
            .unwrap();
        let said = way
            .admits(&request)
            .err()
            .map_or("", |refused| refused.code);
        assert_eq!(said, expected, "{method} {url}");
    }

    #[test]
    fn a_request_goes_where_the_input_says() {
        let some = way(&["*"], None, true, &json!({"url": "https://Example.org/a"}));
        check(&some, "GET", "https://example.org/b", "");
        check(&some, "GET", "http://example.org/b", "");
        check(&some, "GET", "https://evil.example/b", "host_not_allowed");
        check(&some, "POST", "https://example.org/b", "method_not_allowed");
        let many = way(
            &["*"],
            None,
            false,
            &json!({"urls": ["https://a.example", "https://b.example"]}),
        );
        check(&many, "POST", "https://b.example/", "");
        check(&many, "POST", "https://c.example/", "host_not_allowed");
        let none = way(&["*"], None, true, &json!({"query": "cats"}));
        check(&none, "GET", "https://any.example/", "");
        let asked = way(&["*"], Some(&["api.example.org"]), true, &json!({}));
        check(&asked, "GET", "https://api.example.org/", "");
        check(&asked, "GET", "https://example.org/", "host_not_allowed");
    }
}
