//! Handling of an HTTP request: origin, token, size and quota checks, then the protocol.

use std::convert::Infallible;
use std::pin::Pin;
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
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use rmcp::model::RequestId;
use toolhost_connections::UnauthenticatedConnection;

use super::body::{self, Body, Guarded, RequestBody, text_body};
use super::limits::HttpLimits;
use super::message_kind::{MalformedMessage, MessageInfo, MessageKind, inspect};
use super::origin_policy::{OriginPolicy, RequestOrigin};
use super::token_quota::{
    AuthError, CURRENT_REQUEST, CurrentRequest, OverLimit, SessionRefusal, TokenQuota, TokenQuotas,
};
use crate::running_count::RunningGuard;
use crate::server_state::ServerState;
use crate::{Readiness, client_label};

/// Path of the MCP endpoint.
pub(crate) const PATH: &str = "/mcp";
/// Path of the health check.
const HEALTH: &str = "/healthz";

/// The MCP service of rmcp.
type McpService = Box<dyn Fn(Request<Full<Bytes>>) -> BoxFuture<McpResponse> + Send + Sync>;
type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
/// As rmcp returns it.
type McpResponse = Response<BoxBody<Bytes, Infallible>>;

pub(crate) struct Endpoint {
    pub(crate) origin_policy: OriginPolicy,
    pub(crate) quotas: TokenQuotas,
    pub(crate) service: McpService,
    pub(crate) limits: HttpLimits,
    pub(crate) shared: Arc<ServerState>,
    /// Prefix of the session names of this process.
    pub(crate) run: String,
}

impl Endpoint {
    /// Records the end of the implicit sessions of stateless clients.
    pub(crate) fn close_implicit_sessions(&self) {
        for principal in self.quotas.all() {
            if principal.has_called_before() {
                self.shared
                    .kernel
                    .close_session(&principal.session_key(&self.run), &client_label(None));
            }
        }
    }

    pub(crate) async fn answer<B>(
        &self,
        request: Request<B>,
        newcomer: &UnauthenticatedConnection,
    ) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Unpin,
    {
        let (parts, body) = request.into_parts();
        let body = RequestBody::new(body, &parts.headers);
        if parts.uri.path() == HEALTH {
            let answer = match parts.method {
                Method::GET | Method::HEAD => text_response(StatusCode::OK, "ok\n"),
                _ => text_response(StatusCode::METHOD_NOT_ALLOWED, "only GET"),
            };
            return respond_without_body(answer, body).await;
        }
        let visitor = match self.origin_policy.check(&parts.uri, &parts.headers) {
            Ok(visitor) => visitor,
            Err((status, why)) => {
                return respond_without_body(text_response(status, why), body).await;
            }
        };
        let page = (visitor == RequestOrigin::WebPage)
            .then(|| parts.headers.get(ORIGIN).cloned())
            .flatten();
        let mut answer = if page.is_some() && is_preflight(&parts) {
            preflight_response()
        } else {
            match self.authenticate(&parts) {
                Ok(principal) => {
                    newcomer.mark_authenticated();
                    principal.workers.record_request();
                    let workers = Arc::clone(&principal);
                    workers
                        .workers
                        .run(self.dispatch(principal, parts, body))
                        .await
                }
                Err(refusal) => respond_without_body(refusal, body).await,
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

    fn authenticate(&self, parts: &Parts) -> Result<Arc<TokenQuota>, Response<Body>> {
        if parts.uri.path() != PATH {
            return Err(text_response(
                StatusCode::NOT_FOUND,
                "not found; the endpoint is /mcp",
            ));
        }
        // A token in a URL ends up in the logs of proxies.
        if parts.uri.query().is_some() {
            return Err(text_response(
                StatusCode::BAD_REQUEST,
                "/mcp takes no query parameters; send a token in the Authorization header",
            ));
        }
        let principal = self.quotas.authenticate(&parts.headers);
        principal.map(Arc::clone).map_err(unauthorized)
    }

    async fn dispatch<B>(
        &self,
        principal: Arc<TokenQuota>,
        mut parts: Parts,
        body: RequestBody<B>,
    ) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Unpin,
    {
        parts.extensions.insert(Arc::clone(&principal));
        match parts.method {
            Method::POST => self.post(&principal, parts, body).await,
            // Opens the stream of a session or is rejected.
            Method::GET => match principal.acquire_stream() {
                Ok(stream) => {
                    let answer = self.serve(&principal, parts, Bytes::new()).await;
                    respond_without_body(guarded(answer, stream), body).await
                }
                Err(busy) => respond_without_body(over_limit_response(busy), body).await,
            },
            _ => {
                let is_end = parts.method == Method::DELETE;
                let mut answer = self.serve(&principal, parts, Bytes::new()).await;
                // rmcp replies 202 Accepted. The session has ended, and some clients expect 204.
                if is_end && answer.status() == StatusCode::ACCEPTED {
                    *answer.status_mut() = StatusCode::NO_CONTENT;
                }
                respond_without_body(answer, body).await
            }
        }
    }

    async fn post<B>(
        &self,
        principal: &Arc<TokenQuota>,
        mut parts: Parts,
        body: RequestBody<B>,
    ) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Unpin,
    {
        let declared = content_length(&parts.headers);
        let most = self.limits.body;
        let size = declared.and_then(|size| usize::try_from(size).ok());
        let permits = match principal
            .reserve_body(size.map_or(most, |size| size.min(most)))
            .await
        {
            Ok(permits) => permits,
            Err(busy) => return respond_without_body(over_limit_response(busy), body).await,
        };
        let body = match body::read(body, declared, most).await {
            Ok(body) => body,
            Err((status, why)) => return with_connection_close(text_response(status, why)),
        };
        let is_json = is_json(&parts.headers);
        let MessageInfo { kind, values } = match inspect(&body) {
            Ok(info) => info,
            Err(malformed) if is_json || malformed == MalformedMessage::TooManyValues => {
                return malformed_response(malformed, malformed.request_id(&body));
            }
            // rmcp reports the wrong content type.
            Err(_) => MessageInfo {
                kind: MessageKind::NotificationOrResponse,
                values: 0,
            },
        };
        let paced = match kind {
            MessageKind::NotificationOrResponse => principal.check_notification_rate(body.len()),
            MessageKind::Initialize | MessageKind::Request | MessageKind::Subscribe => {
                principal.check_rate()
            }
        };
        let permits = match paced {
            Ok(()) => principal.reserve_values(permits, values).await,
            Err(busy) => Err(busy),
        };
        let permits = match permits {
            Ok(permits) => permits,
            Err(busy) => return over_limit_response(busy),
        };
        match kind {
            MessageKind::NotificationOrResponse => {
                self.message(principal, parts, body, is_json).await
            }
            MessageKind::Subscribe => match principal.acquire_stream() {
                Ok(stream) => guarded(self.message(principal, parts, body, is_json).await, stream),
                Err(busy) => over_limit_response(busy),
            },
            MessageKind::Initialize | MessageKind::Request => {
                let running = RunningGuard::begin(&self.shared.running);
                let permit = match principal.acquire_request(permits, running).await {
                    Ok(permit) => Arc::new(permit),
                    Err(busy) => return over_limit_response(busy),
                };
                self.prepare_request(principal, kind, &parts.headers).await;
                // In older protocols a call continues after its client disconnects, and keeps its permit.
                if kind == MessageKind::Request {
                    parts.extensions.insert(Arc::clone(&permit));
                }
                guarded(self.message(principal, parts, body, is_json).await, permit)
            }
        }
    }

    /// Opens the session of a client without one, and waits for the tools before a call.
    async fn prepare_request(
        &self,
        principal: &Arc<TokenQuota>,
        kind: MessageKind,
        headers: &HeaderMap,
    ) {
        let newest = kind == MessageKind::Request && !headers.contains_key("mcp-session-id");
        if newest && principal.mark_called() {
            self.shared
                .kernel
                .open_session(&principal.session_key(&self.run), &client_label(None));
        }
        // rmcp compares the headers of a call with the schema of its tool.
        if headers
            .get("mcp-method")
            .is_some_and(|name| name == "tools/call")
        {
            self.shared.wait_for(Readiness::Loaded).await;
        }
    }

    async fn message(
        &self,
        principal: &Arc<TokenQuota>,
        parts: Parts,
        body: Bytes,
        is_json: bool,
    ) -> Response<Body> {
        let answer = self.serve(principal, parts, body).await;
        // The content type is correct, so rmcp failed to parse the message.
        if is_json && answer.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            return malformed_response(MalformedMessage::NotOneMessage, None);
        }
        answer
    }

    async fn serve(
        &self,
        principal: &Arc<TokenQuota>,
        parts: Parts,
        body: Bytes,
    ) -> Response<Body> {
        let request = Request::from_parts(parts, Full::new(body));
        // Boxed because the future is large.
        let serving = Box::pin(async {
            let answer = (self.service)(request).await;
            (
                answer,
                CURRENT_REQUEST.with(|current| current.refused.take()),
            )
        });
        match CURRENT_REQUEST
            .scope(CurrentRequest::new(principal), serving)
            .await
        {
            (answer, None) => answer,
            (_, Some(SessionRefusal::TooManySessions)) => retry_response(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many sessions are open; close some or wait until idle sessions end",
                60,
            ),
            (_, Some(SessionRefusal::IdInUse(id))) => {
                malformed_response(MalformedMessage::IdInUse, Some(id))
            }
            (_, Some(SessionRefusal::NoSession)) => {
                text_response(StatusCode::NOT_FOUND, "unknown session")
            }
        }
    }
}

fn is_preflight(parts: &Parts) -> bool {
    parts.method == Method::OPTIONS && parts.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Responds without using the request body. The connection stays open only if the body could be skipped.
async fn respond_without_body<B>(answer: Response<Body>, body: RequestBody<B>) -> Response<Body>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    if body::drain(body).await {
        answer
    } else {
        with_connection_close(answer)
    }
}

fn with_connection_close(mut answer: Response<Body>) -> Response<Body> {
    let close = HeaderValue::from_static("close");
    answer.headers_mut().insert(CONNECTION, close);
    answer
}

/// The response to a CORS preflight request.
fn preflight_response() -> Response<Body> {
    let mut answer = text_response(StatusCode::NO_CONTENT, "");
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

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let essence = kind.and_then(|kind| kind.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

fn text_response(status: StatusCode, why: &'static str) -> Response<Body> {
    let mut answer = Response::new(text_body(why));
    *answer.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

fn malformed_response(malformed: MalformedMessage, id: Option<RequestId>) -> Response<Body> {
    let mut answer = Response::new(text_body(malformed.error_response(id)));
    *answer.status_mut() = StatusCode::BAD_REQUEST;
    let kind = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

fn unauthorized(error: AuthError) -> Response<Body> {
    let (challenge, why) = match error {
        AuthError::MissingToken => (
            "Bearer realm=\"toolhost\"",
            "a token is required: `Authorization: Bearer TOKEN`",
        ),
        AuthError::InvalidToken => (
            "Bearer realm=\"toolhost\", error=\"invalid_token\"",
            "the token is not valid for this server",
        ),
    };
    let mut answer = text_response(StatusCode::UNAUTHORIZED, why);
    let challenge = HeaderValue::from_static(challenge);
    answer.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    answer
}

fn over_limit_response(why: OverLimit) -> Response<Body> {
    match why {
        OverLimit::RateLimited(wait) => retry_response(
            StatusCode::TOO_MANY_REQUESTS,
            "too many requests per second",
            wait.as_secs() + 1,
        ),
        OverLimit::QueueFull => retry_response(
            StatusCode::TOO_MANY_REQUESTS,
            "too many requests are running or waiting",
            1,
        ),
    }
}

fn retry_response(status: StatusCode, why: &'static str, seconds: u64) -> Response<Body> {
    let mut answer = text_response(status, why);
    answer.headers_mut().insert(RETRY_AFTER, seconds.into());
    answer
}

fn guarded<T: Send + Sync + Unpin + 'static>(answer: Response<Body>, held: T) -> Response<Body> {
    answer.map(|body| Guarded::new(body, held).boxed())
}
