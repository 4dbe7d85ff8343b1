//! One connection to a server, from initialization to shutdown.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotification,
    CancelledNotificationParam, ClientRequest, InputRequest, InputRequiredResult, InputResponses,
    ListToolsRequest, PaginatedRequestParams, ProtocolVersion, RequestId, ServerPeerInfo,
    ServerResult,
};
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, ClientLifecycleMode, Peer, PeerRequestOptions,
    RequestHandle, RoleClient, RunningService, ServiceError, serve_client_with_lifecycle,
};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use toolhost_contract::{BoxFuture, text};
use toolhost_process::{ExitReason, PipedProcess};

use crate::dial::{ClientTransport, Dial};
use crate::elicitation;
use crate::error::{ServerError, format_last_lines};
use crate::handler::Handler;
use crate::line_filter::LineFilter;
use crate::log::ServerLogger;
use crate::running_calls::{CallRegistration, RunningCall, RunningCalls};
use crate::throttled_transport::{SEND_TIMEOUT, ThrottledTransport, is_session_expired};

/// Timeout from the start of a program to the end of initialization. A server that does not answer the first attempt is
/// initialized a second time; the first attempt takes ten seconds.
pub const INITIALIZE_TIMEOUT: Duration = Duration::from_secs(40);
/// Maximum number of times that a server can request input instead of returning a result.
const MAX_INPUT_ROUNDS: usize = 10;
/// How long a server has to exit by itself, and again after SIGTERM.
const EXIT_TIMEOUT: Duration = Duration::from_secs(3);
const MAX_REASON: usize = 500;

pub struct Connection {
    pub live: Arc<ConnectionHandle>,
    pub service: RunningService<RoleClient, Handler>,
    pub child: Option<PipedProcess>,
    pub changed: Arc<Notify>,
}

/// The parts of a connection that calls use.
pub struct ConnectionHandle {
    server: String,
    pub peer: Peer<RoleClient>,
    calls: Arc<RunningCalls>,
    pub info: Arc<ServerPeerInfo>,
    log: Arc<ServerLogger>,
}

/// Why a request failed.
#[derive(Debug)]
pub enum RequestError {
    Service(ServiceError),
    /// The server requested something that is not supported.
    Unsupported(&'static str),
}

impl RequestError {
    /// Whether the server no longer knows the session. It has not processed the request.
    pub fn is_session_expired(&self) -> bool {
        match self {
            Self::Service(ServiceError::TransportSend(error)) => is_session_expired(&*error.error),
            Self::Service(_) | Self::Unsupported(_) => false,
        }
    }
}

impl From<ServiceError> for RequestError {
    fn from(error: ServiceError) -> Self {
        Self::Service(error)
    }
}

impl Connection {
    /// `old` is set if the server supports only the legacy protocol, which skips the first attempt the next time.
    pub fn connect<'a>(
        dial: &'a dyn Dial,
        server: &'a str,
        log: &'a Arc<ServerLogger>,
        old: &'a AtomicBool,
    ) -> BoxFuture<'a, Result<Self, ServerError>> {
        Box::pin(async move {
            if !old.load(Ordering::Relaxed) {
                let auto = ClientLifecycleMode::Auto {
                    preferred_versions: vec![ProtocolVersion::V_2026_07_28],
                    legacy_version: Some(ProtocolVersion::V_2025_11_25),
                };
                match Self::attempt(dial, server, log, auto).await {
                    Ok(link) => return Ok(link),
                    Err(ConnectError::Failed(error)) => return Err(error),
                    Err(ConnectError::UnknownState) => {}
                }
            }
            let link = Self::attempt(dial, server, log, ClientLifecycleMode::Initialize).await;
            let link = link.map_err(|unmet| match unmet {
                ConnectError::Failed(error) => error,
                ConnectError::UnknownState => ServerError::Connect {
                    server: server.to_owned(),
                    reason: "it does not support any known way to initialize the connection"
                        .to_owned(),
                },
            })?;
            old.store(true, Ordering::Relaxed);
            Ok(link)
        })
    }

    async fn attempt(
        dial: &dyn Dial,
        server: &str,
        log: &Arc<ServerLogger>,
        lifecycle: ClientLifecycleMode,
    ) -> Result<Self, ConnectError> {
        let handler = Handler {
            server: server.to_owned(),
            calls: Arc::default(),
            changed: Arc::default(),
            session_expired: Arc::default(),
            log: Arc::clone(log),
        };
        let dialed = dial
            .dial(Arc::clone(log))
            .await
            .map_err(ConnectError::Failed)?;
        let child = dialed.child;
        let greeting: BoxFuture<'static, _> =
            Box::pin(initialize(handler, dialed.wire, lifecycle, Arc::clone(log)));
        let error = match timeout(INITIALIZE_TIMEOUT, greeting).await {
            Ok(Ok(service)) => {
                return Self::initialized(service, child).await;
            }
            Ok(Err(error)) if is_unrecognized(&error) => {
                if let Some(child) = child {
                    end_program(child).await;
                }
                return Err(ConnectError::UnknownState);
            }
            Ok(Err(error))
                if error.is_authorization_required() || error.auth_challenge().is_some() =>
            {
                ServerError::LoginRequired {
                    server: server.to_owned(),
                    challenge: error.auth_challenge().map(str::to_owned),
                }
            }
            Ok(Err(error)) => ServerError::Connect {
                server: server.to_owned(),
                reason: log.mask(&reason(&error)),
            },
            Err(_) => ServerError::NoResponse {
                server: server.to_owned(),
                after: INITIALIZE_TIMEOUT,
                last_lines: None,
            },
        };
        Err(ConnectError::Failed(
            clean_up_failed(error, child, dialed.stderr, log).await,
        ))
    }

    async fn initialized(
        service: RunningService<RoleClient, Handler>,
        child: Option<PipedProcess>,
    ) -> Result<Self, ConnectError> {
        let peer = service.peer().clone();
        // Each list must be current, and the response cache is bounded only by a number of pages.
        peer.set_response_cache_config(ClientCacheConfig::disabled())
            .await;
        let info = peer.peer_info().ok_or(ConnectError::UnknownState)?;
        let handler = service.service();
        let live = Arc::new(ConnectionHandle {
            server: handler.server.clone(),
            peer,
            calls: Arc::clone(&handler.calls),
            info,
            log: Arc::clone(&handler.log),
        });
        Ok(Self {
            live,
            changed: Arc::clone(&handler.changed),
            service,
            child,
        })
    }
}

/// Why a connection failed.
enum ConnectError {
    Failed(ServerError),
    /// The server did not understand the first request, and its state is unknown. A new connection with the legacy
    /// initialization can succeed.
    UnknownState,
}

/// Whether the response was neither a result of nor an error for the request.
fn is_unrecognized(error: &ClientInitializeError) -> bool {
    matches!(
        error,
        ClientInitializeError::ExpectedInitResponse(_)
            | ClientInitializeError::ExpectedInitResult(_)
            | ClientInitializeError::ConflictInitResponseId(..)
            | ClientInitializeError::UncorrelatedErrorResponse { .. }
    )
}

async fn initialize(
    handler: Handler,
    wire: ClientTransport,
    lifecycle: ClientLifecycleMode,
    log: Arc<ServerLogger>,
) -> Result<RunningService<RoleClient, Handler>, ClientInitializeError> {
    let session_expired = Arc::clone(&handler.session_expired);
    let service: BoxFuture<'static, _> = match wire {
        ClientTransport::Pipes { read, write } => {
            let transport = ThrottledTransport::new(
                AsyncRwTransport::new_client(LineFilter::new(read, Arc::clone(&log)), write),
                log,
            )
            .with_send_timeout(SEND_TIMEOUT);
            Box::pin(serve_client_with_lifecycle(handler, transport, lifecycle))
        }
        ClientTransport::Http(transport) => {
            let transport =
                ThrottledTransport::new(transport, log).with_session_flag(session_expired);
            Box::pin(serve_client_with_lifecycle(handler, transport, lifecycle))
        }
        ClientTransport::Authorized(transport) => {
            let transport =
                ThrottledTransport::new(transport, log).with_session_flag(session_expired);
            Box::pin(serve_client_with_lifecycle(handler, transport, lifecycle))
        }
    };
    service.await
}

/// Ends a program. Its input is closed already.
pub async fn end_program(child: PipedProcess) {
    child.end(EXIT_TIMEOUT).await;
}

fn reason(error: &ClientInitializeError) -> String {
    let text = match error {
        ClientInitializeError::TransportError { error, .. } => error_chain(&*error.error),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => return reason(fallback),
        ClientInitializeError::ConnectionClosed(_) => {
            "it closed the connection during initialization".to_owned()
        }
        ClientInitializeError::JsonRpcError(error) => {
            format!("it returned an error: {} ({})", error.message, error.code.0)
        }
        other => other.to_string(),
    };
    text::escape_line(&text, MAX_REASON)
}

/// An error with its causes, without repetitions.
pub fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    // It only states that a client failed, and does not expose the cause.
    if let Some(StreamableHttpError::Client(inner)) =
        error.downcast_ref::<StreamableHttpError<reqwest::Error>>()
    {
        return error_chain(inner);
    }
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let cause = inner.to_string();
        if !message.contains(&cause) {
            message.push_str(": ");
            message.push_str(&cause);
        }
        source = inner.source();
    }
    message
}

/// Ends a program that did not initialize, and adds its exit code and its last lines to the error.
async fn clean_up_failed(
    error: ServerError,
    child: Option<PipedProcess>,
    stderr: Option<JoinHandle<()>>,
    log: &ServerLogger,
) -> ServerError {
    let exit = match child {
        Some(child) => Some(child.end(EXIT_TIMEOUT).await),
        None => None,
    };
    // Only a program has a standard error.
    let Some(stderr) = stderr else { return error };
    let _ = timeout(Duration::from_secs(1), stderr).await;
    match error {
        ServerError::Connect { server, mut reason } => {
            if let Some(ExitReason::Code(code)) = exit {
                reason = format!("it ended with exit code {code}");
            }
            reason.push_str(&format_last_lines(log.tail().as_deref()));
            ServerError::Connect { server, reason }
        }
        ServerError::NoResponse { server, after, .. } => ServerError::NoResponse {
            server,
            after,
            last_lines: log.tail(),
        },
        other => other,
    }
}

impl ConnectionHandle {
    pub fn version(&self) -> &str {
        self.info.protocol_version.as_str()
    }

    pub fn is_modern(&self) -> bool {
        !self.info.protocol_version.has_initialize()
    }

    /// Calls a tool. Dropping the future cancels the request at the server.
    pub async fn call(
        &self,
        mut params: CallToolRequestParams,
        running: &Arc<RunningCall>,
    ) -> Result<CallToolResult, RequestError> {
        for _ in 0..MAX_INPUT_ROUNDS {
            let request = ClientRequest::CallToolRequest(CallToolRequest::new(params.clone()));
            match self.request(request, running).await? {
                ServerResult::CallToolResult(result) => return Ok(result),
                ServerResult::InputRequiredResult(result) => {
                    let state_only = result
                        .input_requests
                        .as_ref()
                        .is_none_or(std::collections::BTreeMap::is_empty);
                    if state_only && result.request_state.is_none() {
                        return Err(RequestError::Unsupported(
                            "it requires input but does not state which",
                        ));
                    }
                    params.request_state.clone_from(&result.request_state);
                    params.input_responses = self.answer_input_requests(result, running).await?;
                    if state_only {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                }
                ServerResult::CreateTaskResult(_) => {
                    return Err(RequestError::Unsupported(
                        "it turned a call into a task without being asked to",
                    ));
                }
                _ => {
                    return Err(RequestError::Unsupported(
                        "it returned a result of another kind",
                    ));
                }
            }
        }
        Err(RequestError::Unsupported(
            "it requested input ten times without returning a result",
        ))
    }

    async fn request(
        &self,
        request: ClientRequest,
        running: &Arc<RunningCall>,
    ) -> Result<ServerResult, RequestError> {
        let entered = self.calls.register(Arc::clone(running));
        let handle = self.send(request).await?;
        entered.sent(&handle.progress_token, &handle.id);
        let result = self.receive(handle).await;
        entered.answered();
        Ok(result?)
    }

    /// Requests a page of the list of tools. Dropping the future cancels the request at the server.
    pub async fn list_tools(&self, cursor: Option<String>) -> Result<ServerResult, ServiceError> {
        let mut params = PaginatedRequestParams::default();
        params.cursor = cursor;
        let request = ListToolsRequest::with_param(params);
        let handle = self.send(ClientRequest::ListToolsRequest(request)).await?;
        self.receive(handle).await
    }

    async fn send(
        &self,
        request: ClientRequest,
    ) -> Result<RequestHandle<RoleClient>, ServiceError> {
        let options = PeerRequestOptions::no_options();
        self.peer.send_request_with_option(request, options).await
    }

    async fn receive(
        &self,
        handle: RequestHandle<RoleClient>,
    ) -> Result<ServerResult, ServiceError> {
        let mut abandon = CancelOnDrop {
            peer: &self.peer,
            id: Some(handle.id.clone()),
        };
        let result = handle.await_response().await;
        abandon.id = None;
        result
    }

    /// See [`RunningCalls::register_resources`].
    pub fn register_resources(&self) -> CallRegistration {
        self.calls.register_resources()
    }

    /// Whether concurrent calls cannot be told apart in questions of this server.
    pub fn is_ambiguous(&self) -> bool {
        self.calls.is_ambiguous()
    }

    /// Answers input requests of a running call. Only questions to the user are supported, not sampling or roots.
    async fn answer_input_requests(
        &self,
        result: InputRequiredResult,
        running: &Arc<RunningCall>,
    ) -> Result<Option<InputResponses>, RequestError> {
        let mut responses = InputResponses::new();
        for (key, request) in result.input_requests.unwrap_or_default() {
            let response = match request {
                InputRequest::Elicitation(request) => {
                    let answer = elicitation::answer_elicitation(
                        &self.server,
                        running,
                        request.params,
                        &self.log,
                    )
                    .await;
                    serde_json::to_value(answer)
                }
                InputRequest::ListRoots(_) => Ok(serde_json::json!({"roots": []})),
                InputRequest::CreateMessage(_) => {
                    return Err(RequestError::Unsupported(
                        "it requested sampling, which is not supported",
                    ));
                }
                _ => {
                    return Err(RequestError::Unsupported(
                        "it sent an unknown input request",
                    ));
                }
            };
            responses.insert(key, response.unwrap_or_default());
        }
        Ok((!responses.is_empty()).then_some(responses))
    }
}

/// Cancels a request at the server if it is dropped.
struct CancelOnDrop<'a> {
    peer: &'a Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let peer = self.peer.clone();
        runtime.spawn(async move {
            let reason = Some("the caller no longer waits for the result".to_owned());
            let params = CancelledNotificationParam::new(Some(id), reason);
            let cancelled = CancelledNotification::new(params);
            // Errors are ignored, because the server may be gone.
            let _ = peer.send_notification(cancelled.into()).await;
        });
    }
}
