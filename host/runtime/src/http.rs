//! `wasi:http` for one call. Each request is checked here against the call, and by `toolhost-net` against the
//! operator's host rules.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::LOCATION;
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use serde_json::Value;
use toolhost_contract::Sink;
use toolhost_net::{NetClient, NetError, ResponseBody, Timeouts, refers_to_secret};
use wasmtime_wasi_http::{Error, RequestOptions, Result, WasiBody, WasiHttpHooks};

use crate::request_limits;

/// Maximum total size of all responses of one call, heads and bodies, in bytes.
const MAX_RESPONSE_BYTES: usize = 32 << 20;

/// Whether an input contains addresses.
pub fn has_addresses(input: &Value) -> bool {
    input_addresses(input).is_some()
}

/// Network access of one call.
#[derive(Clone)]
pub struct NetAccess {
    net: NetClient,
    /// Hosts that the plugin's manifest requests; `None` for all that the operator allows.
    requested: Option<NetClient>,
    /// A read-only tool may not send data.
    reads_only: bool,
    /// Hosts in the call's input; `None` if it contains no address.
    input_hosts: Option<Arc<BTreeSet<String>>>,
    /// Hosts that these have redirected to.
    redirect_hosts: Arc<Mutex<BTreeSet<String>>>,
    allowance: ResponseAllowance,
}

/// Remaining bytes for all responses of one call.
#[derive(Clone)]
struct ResponseAllowance(Arc<AtomicUsize>);

impl ResponseAllowance {
    fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(MAX_RESPONSE_BYTES)))
    }

    /// Takes `bytes` from the allowance. If they do not fit, the allowance is used up for all responses of the
    /// call.
    fn take(&self, bytes: usize) -> Result<()> {
        let before = self
            .0
            .fetch_update(Relaxed, Relaxed, |left| Some(left.saturating_sub(bytes)));
        if before.is_ok_and(|left| left >= bytes) {
            Ok(())
        } else {
            Err(Self::exceeded().into())
        }
    }

    fn is_used_up(&self) -> bool {
        self.0.load(Relaxed) == 0
    }

    fn exceeded() -> RequestError {
        RequestError::new(
            "body_too_large",
            format!("the responses of this call exceed {MAX_RESPONSE_BYTES} bytes in total"),
        )
    }
}

/// A response body that counts bytes before they reach the guest or its buffers. An error closes the connection.
struct CountedBody {
    download: Option<ResponseBody>,
    answers: ResponseAllowance,
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        let Some(download) = this.download.as_mut() else {
            return Poll::Ready(None);
        };
        let frame = match Pin::new(download).poll_frame(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Ready(Some(frame)) => frame.map_err(|error| net_error(&error)),
        };
        let counted = frame.and_then(|frame| {
            this.answers.take(size_of_frame(&frame))?;
            Ok(frame)
        });
        if counted.is_err() {
            this.download = None;
        }
        Poll::Ready(Some(counted))
    }

    fn is_end_stream(&self) -> bool {
        self.download.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.download
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

fn size_of_frame(frame: &Frame<Bytes>) -> usize {
    let data = frame.data_ref().map_or(0, Bytes::len);
    data + frame.trailers_ref().map_or(0, size_of_headers)
}

fn size_of_headers(headers: &HeaderMap) -> usize {
    let sizes = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len());
    sizes.sum()
}

impl NetAccess {
    /// `destinations` are addresses among the declared destinations of the call.
    pub fn new(
        net: NetClient,
        requested: Option<NetClient>,
        reads_only: bool,
        input: &Value,
        destinations: &[String],
    ) -> Self {
        let named = input_addresses(input);
        let is_narrowed = named.is_some() || !destinations.is_empty();
        let urls = named.into_iter().flatten();
        let urls = urls.chain(destinations.iter().map(String::as_str));
        let only = is_narrowed.then(|| {
            let hosts = urls.filter_map(host_of);
            Arc::new(hosts.collect())
        });
        Self {
            net,
            requested,
            reads_only,
            input_hosts: only,
            redirect_hosts: Arc::default(),
            allowance: ResponseAllowance::new(),
        }
    }

    fn check_request(&self, request: &Request<WasiBody>) -> Result<(), RequestError> {
        if let Some(requested) = &self.requested {
            requested.check_url(request.uri()).map_err(|_| {
                RequestError::new(
                    "host_not_allowed",
                    "the plugin's manifest does not request this host",
                )
            })?;
        }
        let asks = [Method::GET, Method::HEAD, Method::OPTIONS];
        // Some search services take the query in the body. Configuring a secret for a host permits such requests to
        // it.
        let has_secret = refers_to_secret(request.headers());
        if self.reads_only && !asks.contains(request.method()) && !has_secret {
            let method = request.method();
            return Err(RequestError::new(
                "method_not_allowed",
                format!("a read-only tool cannot send {method}"),
            ));
        }
        let Some(only) = &self.input_hosts else {
            return Ok(());
        };
        let host = request.uri().host().map(str::to_ascii_lowercase);
        if host.as_ref().is_some_and(|host| only.contains(host)) {
            return Ok(());
        }
        // A redirect permits only GET and HEAD requests to the new host.
        let received = self
            .redirect_hosts
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let looks = [Method::GET, Method::HEAD].contains(request.method());
        if looks && host.as_ref().is_some_and(|host| received.contains(host)) {
            return Ok(());
        }
        // The authorization covers the address in the input, not other addresses that the plugin chooses.
        Err(RequestError::new(
            "host_not_allowed",
            "the request goes to a host that the input of the call does not contain",
        ))
    }

    fn record_redirect(&self, uri: &Uri, answer: &Response<ResponseBody>) {
        if self.input_hosts.is_none() {
            return;
        }
        if !answer.status().is_redirection() {
            return;
        }
        let location = answer
            .headers()
            .get(LOCATION)
            .and_then(|to| to.to_str().ok());
        // A relative redirect stays on the same host.
        let host = location
            .and_then(host_of)
            .or_else(|| uri.host().map(str::to_ascii_lowercase));
        self.redirect_hosts
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
            .map_err(|error| net_error(&error))?;
        self.record_redirect(&uri, &answer);
        self.allowance.take(size_of_headers(answer.headers()))?;
        Ok(answer.map(|download| {
            let counted = CountedBody {
                download: Some(download),
                answers: self.allowance.clone(),
            };
            counted.boxed_unsync()
        }))
    }
}

struct RequestError {
    code: &'static str,
    message: String,
}

impl RequestError {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

impl From<RequestError> for Error {
    fn from(refused: RequestError) -> Self {
        // The only WASI error case that carries a message to the guest.
        Error::InternalError(Some(format!("{}: {}", refused.code, refused.message)))
    }
}

fn net_error(error: &NetError) -> Error {
    RequestError::new(error.code(), error.to_string()).into()
}

/// HTTP hooks of a call. Without network access they refuse all requests.
pub struct CallHttpHooks {
    pub access: Option<NetAccess>,
    pub sink: Arc<dyn Sink>,
}

impl CallHttpHooks {
    /// Policy has authorized the addresses in the input; redirects are checked here.
    fn check_redirect_rules(&self, to: &Uri) -> Result<(), RequestError> {
        let services = self.sink.services();
        match services.and_then(|services| services.denied_url_reason(&to.to_string())) {
            Some(reason) => Err(RequestError::new("host_not_allowed", reason)),
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

impl WasiHttpHooks for CallHttpHooks {
    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        request_limits::MAX_CHUNK_BYTES
    }

    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _fut: Box<dyn Future<Output = Result<()>> + Send>,
    ) -> Sent {
        // Responses are not part of any read set.
        self.sink.mark_untracked_dependency();
        let access = match &self.access {
            None => Err(RequestError::new(
                "not_granted",
                "this call was not granted `net`: the plugin's manifest must request it, and the operator must allow a host \
                 with --allow-host",
            )),
            Some(access) if access.allowance.is_used_up() => Err(ResponseAllowance::exceeded()),
            Some(access) => access
                .check_request(&request)
                .and_then(|()| self.check_redirect_rules(request.uri()))
                .map(|()| access.clone()),
        };
        Box::new(async move {
            let answer = access.map_err(Error::from)?.send(request, options).await?;
            // The body owns its connection, so no other task has to be driven.
            let done: Box<dyn Future<Output = Result<()>> + Send> = Box::new(async { Ok(()) });
            Ok((answer, done))
        })
    }
}

/// Addresses in an input; `None` if it has no address field.
fn input_addresses(input: &Value) -> Option<Vec<&str>> {
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
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use toolhost_net::{AllowedHosts, HostRule, NetSettings};

    use super::*;

    fn net_access(
        rules: &[&str],
        requested: Option<&[&str]>,
        reads_only: bool,
        input: &Value,
    ) -> NetAccess {
        let allowed = |rules: &[&str]| AllowedHosts {
            rules: rules
                .iter()
                .map(|rule| HostRule::parse(rule).unwrap())
                .collect(),
            denied: Vec::new(),
        };
        let net = NetClient::new(NetSettings {
            allowed: allowed(rules),
            ..NetSettings::default()
        });
        let requested = requested.map(|rules| net.with_rules(allowed(rules), Vec::new()));
        NetAccess::new(net, requested, reads_only, input, &[])
    }

    #[test]
    fn requests_go_to_the_declared_destinations() {
        let net = net_access(&["*"], None, false, &json!({})).net;
        let declared = ["https://one.example/hook".to_owned()];
        let access = NetAccess::new(net, None, false, &json!({"to": "x"}), &declared);
        check(&access, "POST", "https://one.example/other", "");
        check(&access, "POST", "https://two.example/", "host_not_allowed");
    }

    fn check(access: &NetAccess, method: &str, url: &str, expected: &str) {
        let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
        let request = Request::builder()
            .method(method)
            .uri(url)
            .body(body)
            .unwrap();
        let code = access
            .check_request(&request)
            .err()
            .map_or("", |refused| refused.code);
        assert_eq!(code, expected, "{method} {url}");
    }

    #[test]
    fn requests_go_only_to_hosts_of_the_input() {
        let some = net_access(&["*"], None, true, &json!({"url": "https://Example.org/a"}));
        check(&some, "GET", "https://example.org/b", "");
        check(&some, "GET", "http://example.org/b", "");
        check(&some, "GET", "https://evil.example/b", "host_not_allowed");
        check(&some, "POST", "https://example.org/b", "method_not_allowed");
        let many = net_access(
            &["*"],
            None,
            false,
            &json!({"urls": ["https://a.example", "https://b.example"]}),
        );
        check(&many, "POST", "https://b.example/", "");
        check(&many, "POST", "https://c.example/", "host_not_allowed");
        let none = net_access(&["*"], None, true, &json!({"query": "cats"}));
        check(&none, "GET", "https://any.example/", "");
        let requested = net_access(&["*"], Some(&["api.example.org"]), true, &json!({}));
        check(&requested, "GET", "https://api.example.org/", "");
        check(
            &requested,
            "GET",
            "https://example.org/",
            "host_not_allowed",
        );
    }

    /// Answers each connection with `bytes` bytes.
    async fn server(bytes: usize) -> std::net::SocketAddr {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n");
        answering(head, bytes).await
    }

    /// Answers each connection with this head and `bytes` bytes.
    async fn answering(head: String, bytes: usize) -> std::net::SocketAddr {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
            .await
            .unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let head = head.clone();
                tokio::spawn(async move {
                    let mut request = [0; 4096];
                    let _ = stream.read(&mut request).await;
                    let _ = stream.write_all(head.as_bytes()).await;
                    let _ = stream.write_all(&vec![b'x'; bytes]).await;
                });
            }
        });
        address
    }

    /// Number of received bytes, and how the response ended.
    async fn read(access: NetAccess, url: String) -> (usize, String) {
        let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
        let request = Request::builder().uri(url).body(body).unwrap();
        let mut body = match access.send(request, None).await {
            Ok(answer) => answer.into_body(),
            Err(error) => return (0, format!("{error:?}")),
        };
        let mut came = 0;
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => came += frame.data_ref().map_or(0, Bytes::len),
                Err(error) => return (came, format!("{error:?}")),
            }
        }
        (came, String::new())
    }

    #[tokio::test]
    async fn a_redirect_to_another_host_is_followed_for_get_and_head_only() {
        const THERE: &str = "https://other.example/b";
        let head =
            "HTTP/1.1 302 Found\r\nlocation: https://Other.example/a\r\ncontent-length: 0\r\n\r\n";
        let here = format!("http://{}", answering(head.to_owned(), 0).await);
        let access = net_access(&[&here, "*"], None, false, &json!({ "url": here }));
        let methods = [
            ("GET", ""),
            ("HEAD", ""),
            ("OPTIONS", "host_not_allowed"),
            ("POST", "host_not_allowed"),
            ("PUT", "host_not_allowed"),
            ("PATCH", "host_not_allowed"),
            ("DELETE", "host_not_allowed"),
        ];
        for (method, _) in methods {
            check(&access, method, THERE, "host_not_allowed");
        }
        assert_eq!(read(access.clone(), here.clone()).await, (0, String::new()));
        for (method, expected) in methods {
            check(&access, method, THERE, expected);
            check(&access, method, &here, "");
            check(
                &access,
                method,
                "https://third.example/",
                "host_not_allowed",
            );
        }
    }

    #[tokio::test]
    async fn a_13_concurrent_responses_share_the_limit() {
        let address = server(9 << 20).await;
        let host = format!("http://{address}");
        let access = net_access(&[&host], None, true, &json!({}));
        let reads = (0..8).map(|at| tokio::spawn(read(access.clone(), format!("{host}/{at}"))));
        let mut all = 0;
        let mut refused = 0;
        for read in reads.collect::<Vec<_>>() {
            let (came, ended) = read.await.unwrap();
            all += came;
            if !ended.is_empty() {
                assert!(ended.contains("body_too_large"), "{ended}");
                refused += 1;
            }
        }
        assert!(all <= MAX_RESPONSE_BYTES, "{all}");
        assert!(refused >= 5, "{refused}");
        let (came, ended) = read(access, format!("{host}/late")).await;
        assert!(came == 0 && ended.contains("body_too_large"), "{ended}");
    }

    #[test]
    fn an_exceeded_allowance_is_used_up() {
        let answers = ResponseAllowance::new();
        assert!(answers.take(MAX_RESPONSE_BYTES - 10).is_ok());
        assert!(answers.take(10).is_ok());
        assert!(answers.take(0).is_ok());
        assert!(answers.take(1).is_err());
        let answers = ResponseAllowance::new();
        assert!(answers.take(MAX_RESPONSE_BYTES + 1).is_err());
        assert!(answers.is_used_up());
    }
}
