//! Handling of an HTTP request: origin, token, size and quota checks, then the protocol.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD,
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, ORIGIN, RETRY_AFTER, VARY,
    WWW_AUTHENTICATE,
};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body::Body as HttpBody;
use http_body_util::{BodyExt as _, Full};
use rmcp::transport::streamable_http_server::StreamableHttpService;

use super::body::{self, Body, Upload, Watched, text};
use super::doors::{Doors, Visitor};
use super::limits::Limits;
use super::message::{Kind, Malformed, Seen, look};
use super::newcomers::Newcomer;
use super::sessions::Sessions;
use super::share::{Busy, CURRENT, Current, Refused, Stranger, TokenShare, TokenShares};
use crate::running::Running;
use crate::shared::Shared;
use crate::{Readiness, client};

/// Path of the MCP endpoint.
pub(crate) const PATH: &str = "/mcp";
/// Path of the health check.
const HEALTH: &str = "/healthz";

pub(crate) struct Endpoint {
    pub(crate) doors: Doors,
    pub(crate) principals: TokenShares,
    pub(crate) service: StreamableHttpService<crate::Handler, Sessions>,
    pub(crate) limits: Limits,
    pub(crate) shared: Arc<Shared>,
    /// Prefix of the session names of this process.
    pub(crate) run: String,
}

impl Endpoint {
    /// Records the end of the implicit sessions of stateless clients.
    pub(crate) fn farewell(&self) {
        for principal in self.principals.all() {
            if principal.was_met() {
                self.shared
                    .kernel
                    .close_session(&principal.session_key(&self.run), &client(None));
            }
        }
    }

    pub(crate) async fn answer<B>(&self, request: Request<B>, newcomer: &Newcomer) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Unpin,
    {
        let (parts, body) = request.into_parts();
        let body = Upload::new(body, &parts.headers);
        if parts.uri.path() == HEALTH {
            let answer = match parts.method {
                Method::GET | Method::HEAD => plain(StatusCode::OK, "ok\n"),
                _ => plain(StatusCode::METHOD_NOT_ALLOWED, "only GET"),
            };
            return unread(answer, body).await;
        }
        let visitor = match self.doors.check(&parts.uri, &parts.headers) {
            Ok(visitor) => visitor,
            Err((status, why)) => return unread(plain(status, why), body).await,
        };
        let page = (visitor == Visitor::Page)
            .then(|| parts.headers.get(ORIGIN).cloned())
            .flatten();
        let mut answer = if page.is_some() && is_preflight(&parts) {
            allowed()
        } else {
            match self.admit(&parts) {
                Ok(principal) => {
                    newcomer.known();
                    principal.workers.requested();
                    let workers = Arc::clone(&principal);
                    workers
                        .workers
                        .run(self.enter(principal, parts, body))
                        .await
                }
                Err(refusal) => unread(refusal, body).await,
            }
        };
        if let Some(page) = page {
            let headers = answer.headers_mut();
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, page);
            headers.insert(
                ACCESS_CONTROL_EXPOSE_HEADERS,
                HeaderValue::from_static("mcp-session-id, retry-after, www-authenticate"),
            );
            headers.append(VARY, HeaderValue::from_static("origin"));
        }
        answer
    }

    fn admit(&self, parts: &Parts) -> Result<Arc<TokenShare>, Response<Body>> {
        if parts.uri.path() != PATH {
            return Err(plain(
                StatusCode::NOT_FOUND,
                "not found; the endpoint is /mcp",
            ));
        }
        // A token in a URL ends up in the logs of proxies.
        if parts.uri.query().is_some() {
            return Err(plain(
                StatusCode::BAD_REQUEST,
                "/mcp takes no query parameters; send a token in the Authorization header",
            ));
        }
        let principal = self.principals.of(&parts.headers);
        principal.map(Arc::clone).map_err(unauthorized)
    }

    async fn enter<B>(
        &self,
        principal: Arc<TokenShare>,
        mut parts: Parts,
        body: Upload<B>,
    ) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Unpin,
    {
        parts.extensions.insert(Arc::clone(&principal));
        match parts.method {
            Method::POST => self.post(&principal, parts, body).await,
            // Opens the stream of a session or is rejected.
            Method::GET => match principal.stream() {
                Ok(stream) => {
                    let answer = self.serve(&principal, parts, Bytes::new()).await;
                    unread(hold(answer, stream), body).await
                }
                Err(busy) => unread(come_again(busy), body).await,
            },
            _ => {
                let is_end = parts.method == Method::DELETE;
                let mut answer = self.serve(&principal, parts, Bytes::new()).await;
                // rmcp replies 202 Accepted. The session has ended, and some clients expect 204.
                if is_end && answer.status() == StatusCode::ACCEPTED {
                    *answer.status_mut() = StatusCode::NO_CONTENT;
                }
                unread(answer, body).await
            }
        }
    }

    async fn post<B>(
        &self,
        principal: &Arc<TokenShare>,
        mut parts: Parts,
        body: Upload<B>,
    ) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Unpin,
    {
        let declared = size(&parts.headers);
        let most = self.limits.body;
        let size = declared.and_then(|size| usize::try_from(size).ok());
        let room = match principal
            .room(size.map_or(most, |size| size.min(most)))
            .await
        {
            Ok(room) => room,
            Err(busy) => return unread(come_again(busy), body).await,
        };
        let body = match body::read(body, declared, most).await {
            Ok(body) => body,
            Err((status, why)) => return closing(plain(status, why)),
        };
        let is_json = is_json(&parts.headers);
        let Seen { kind, values } = match look(&body) {
            Ok(seen) => seen,
            Err(malformed) if is_json || malformed == Malformed::TooManyValues => {
                return bad(malformed);
            }
            // rmcp reports the wrong content type.
            Err(_) => Seen {
                kind: Kind::Aside,
                values: 0,
            },
        };
        let paced = match kind {
            Kind::Aside => principal.pace_aside(body.len()),
            Kind::Greeting | Kind::Request | Kind::Listen => principal.pace(),
        };
        let room = match paced {
            Ok(()) => principal.more_room(room, values).await,
            Err(busy) => Err(busy),
        };
        let room = match room {
            Ok(room) => room,
            Err(busy) => return come_again(busy),
        };
        match kind {
            Kind::Aside => self.message(principal, parts, body, is_json).await,
            Kind::Listen => match principal.stream() {
                Ok(stream) => hold(self.message(principal, parts, body, is_json).await, stream),
                Err(busy) => come_again(busy),
            },
            Kind::Greeting | Kind::Request => {
                let running = Running::begin(&self.shared.running);
                let place = match principal.enter(room, running).await {
                    Ok(place) => Arc::new(place),
                    Err(busy) => return come_again(busy),
                };
                let newest = kind == Kind::Request && !parts.headers.contains_key("mcp-session-id");
                if newest && principal.meet() {
                    self.shared
                        .kernel
                        .open_session(&principal.session_key(&self.run), &client(None));
                }
                // rmcp compares the headers of a call with the schema of its tool.
                if parts
                    .headers
                    .get("mcp-method")
                    .is_some_and(|name| name == "tools/call")
                {
                    self.shared.reached(Readiness::Loaded).await;
                }
                // In older protocols a call continues after its client disconnects, and keeps its permit.
                if kind == Kind::Request {
                    parts.extensions.insert(Arc::clone(&place));
                }
                hold(self.message(principal, parts, body, is_json).await, place)
            }
        }
    }

    async fn message(
        &self,
        principal: &Arc<TokenShare>,
        parts: Parts,
        body: Bytes,
        is_json: bool,
    ) -> Response<Body> {
        let answer = self.serve(principal, parts, body).await;
        // The content type is correct, so rmcp failed to parse the message.
        if is_json && answer.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            return bad(Malformed::NotOneMessage);
        }
        answer
    }

    async fn serve(
        &self,
        principal: &Arc<TokenShare>,
        parts: Parts,
        body: Bytes,
    ) -> Response<Body> {
        let request = Request::from_parts(parts, Full::new(body));
        // Boxed because the future is large.
        let serving = Box::pin(async {
            let answer = self.service.handle(request).await;
            (answer, CURRENT.with(|current| current.refused.take()))
        });
        match CURRENT.scope(Current::new(principal), serving).await {
            (answer, None) => answer,
            (_, Some(Refused::TooManySessions)) => busy(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many sessions are open; close some or wait until idle sessions end",
                60,
            ),
            (_, Some(Refused::IdInUse)) => bad(Malformed::IdInUse),
            (_, Some(Refused::NoSession)) => plain(StatusCode::NOT_FOUND, "unknown session"),
        }
    }
}

fn is_preflight(parts: &Parts) -> bool {
    parts.method == Method::OPTIONS && parts.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Responds without using the request body. The connection stays open only if the body could be skipped.
async fn unread<B>(answer: Response<Body>, body: Upload<B>) -> Response<Body>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    if body::skip(body).await {
        answer
    } else {
        closing(answer)
    }
}

fn closing(mut answer: Response<Body>) -> Response<Body> {
    let close = HeaderValue::from_static("close");
    answer.headers_mut().insert(CONNECTION, close);
    answer
}

/// The response to a CORS preflight request.
fn allowed() -> Response<Body> {
    let mut answer = plain(StatusCode::NO_CONTENT, "");
    let headers = answer.headers_mut();
    headers.insert(
        ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static("GET, POST, DELETE"),
    );
    // `*` does not include `Authorization`.
    headers.insert(
        ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static("authorization, *"),
    );
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    answer
}

fn size(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let essence = kind.and_then(|kind| kind.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

fn plain(status: StatusCode, why: &'static str) -> Response<Body> {
    let mut answer = Response::new(text(why));
    *answer.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

fn bad(malformed: Malformed) -> Response<Body> {
    let mut answer = Response::new(text(malformed.answer()));
    *answer.status_mut() = StatusCode::BAD_REQUEST;
    let kind = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

fn unauthorized(stranger: Stranger) -> Response<Body> {
    let (challenge, why) = match stranger {
        Stranger::NoToken => (
            "Bearer realm=\"toolhost\"",
            "a token is required: `Authorization: Bearer TOKEN`",
        ),
        Stranger::WrongToken => (
            "Bearer realm=\"toolhost\", error=\"invalid_token\"",
            "the token is not valid for this server",
        ),
    };
    let mut answer = plain(StatusCode::UNAUTHORIZED, why);
    let challenge = HeaderValue::from_static(challenge);
    answer.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    answer
}

fn come_again(why: Busy) -> Response<Body> {
    match why {
        Busy::TooFast(wait) => busy(
            StatusCode::TOO_MANY_REQUESTS,
            "too many requests per second",
            wait.as_secs() + 1,
        ),
        Busy::Full => busy(
            StatusCode::TOO_MANY_REQUESTS,
            "too many requests are running or waiting",
            1,
        ),
    }
}

fn busy(status: StatusCode, why: &'static str, seconds: u64) -> Response<Body> {
    let mut answer = plain(status, why);
    answer.headers_mut().insert(RETRY_AFTER, seconds.into());
    answer
}

fn hold<T: Send + Sync + Unpin + 'static>(answer: Response<Body>, held: T) -> Response<Body> {
    answer.map(|body| Watched::new(body, held).boxed())
}
