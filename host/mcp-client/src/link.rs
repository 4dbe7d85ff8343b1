//! One connection to a server, from initialization to shutdown.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotification,
    CancelledNotificationParam, ClientRequest, InputRequest, InputRequiredResult, InputResponses,
    ProtocolVersion, RequestId, ServerPeerInfo, ServerResult,
};
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, ClientLifecycleMode, Peer, PeerRequestOptions,
    RoleClient, RunningService, ServiceError, serve_client_with_lifecycle,
};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use toolhost_contract::{BoxFuture, text};
use toolhost_process::{Exit, Piped};

use crate::ask;
use crate::calls::{Calls, Running};
use crate::dial::{Dial, Wire};
use crate::error::{ServerError, wrote};
use crate::guard::Guard;
use crate::handler::Handler;
use crate::lines::Lines;
use crate::log::Log;

/// Timeout from the start of a program to the end of initialization. A server that does not answer the first attempt is
/// initialized a second time; the first attempt takes ten seconds.
pub const GREETING: Duration = Duration::from_secs(40);
/// Maximum number of times that a server can request input instead of returning a result.
const ROUNDS: usize = 10;
/// How long a server has to exit by itself, and again after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(3);
const MAX_REASON: usize = 500;

pub struct Link {
    pub live: Arc<Live>,
    pub service: RunningService<RoleClient, Handler>,
    pub child: Option<Piped>,
    pub changed: Arc<Notify>,
}

/// The parts of a connection that calls use.
pub struct Live {
    server: String,
    pub peer: Peer<RoleClient>,
    calls: Arc<Calls>,
    pub info: Arc<ServerPeerInfo>,
}

/// Why a request failed.
#[derive(Debug)]
pub enum Refused {
    Service(ServiceError),
    /// The server requested something that is not supported.
    Unfit(&'static str),
}

impl From<ServiceError> for Refused {
    fn from(error: ServiceError) -> Self {
        Self::Service(error)
    }
}

impl Link {
    /// `old` is set if the server supports only the legacy protocol, which skips the first attempt the next time.
    pub fn connect<'a>(
        dial: &'a dyn Dial,
        server: &'a str,
        log: &'a Arc<Log>,
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
                    Err(Unmet::Failed(error)) => return Err(error),
                    Err(Unmet::Confused) => {}
                }
            }
            let link = Self::attempt(dial, server, log, ClientLifecycleMode::Initialize).await;
            let link = link.map_err(|unmet| match unmet {
                Unmet::Failed(error) => error,
                Unmet::Confused => ServerError::Connect {
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
        log: &Arc<Log>,
        lifecycle: ClientLifecycleMode,
    ) -> Result<Self, Unmet> {
        let calls = Arc::new(Calls::default());
        let changed = Arc::new(Notify::new());
        let handler = Handler {
            server: server.to_owned(),
            calls: Arc::clone(&calls),
            changed: Arc::clone(&changed),
            log: Arc::clone(log),
        };
        let dialed = dial.dial(Arc::clone(log)).await.map_err(Unmet::Failed)?;
        let child = dialed.child;
        let greeting: BoxFuture<'static, _> =
            Box::pin(greet(handler, dialed.wire, lifecycle, Arc::clone(log)));
        let error = match timeout(GREETING, greeting).await {
            Ok(Ok(service)) => return Self::greeted(server, service, child, calls, changed).await,
            Ok(Err(error)) if is_confused(&error) => {
                if let Some(child) = child {
                    end(child).await;
                }
                return Err(Unmet::Confused);
            }
            Ok(Err(error))
                if error.is_authorization_required() || error.auth_challenge().is_some() =>
            {
                ServerError::Login {
                    server: server.to_owned(),
                    challenge: error.auth_challenge().map(str::to_owned),
                }
            }
            Ok(Err(error)) => ServerError::Connect {
                server: server.to_owned(),
                reason: log.hide(&reason(&error)),
            },
            Err(_) => ServerError::Silent {
                server: server.to_owned(),
                after: GREETING,
                last_lines: None,
            },
        };
        Err(Unmet::Failed(clear(error, child, dialed.stderr, log).await))
    }

    async fn greeted(
        server: &str,
        service: RunningService<RoleClient, Handler>,
        child: Option<Piped>,
        calls: Arc<Calls>,
        changed: Arc<Notify>,
    ) -> Result<Self, Unmet> {
        let peer = service.peer().clone();
        // Each list must be current, and the response cache is bounded only by a number of pages.
        peer.set_response_cache_config(ClientCacheConfig::disabled())
            .await;
        let info = peer.peer_info().ok_or(Unmet::Confused)?;
        let live = Arc::new(Live {
            server: server.to_owned(),
            peer,
            calls,
            info,
        });
        Ok(Self {
            live,
            service,
            child,
            changed,
        })
    }
}

/// Why a connection failed.
enum Unmet {
    Failed(ServerError),
    /// The server did not understand the first request, and its state is unknown. A new connection with the legacy
    /// initialization can succeed.
    Confused,
}

/// Whether the response was neither a result of nor an error for the request.
fn is_confused(error: &ClientInitializeError) -> bool {
    matches!(
        error,
        ClientInitializeError::ExpectedInitResponse(_)
            | ClientInitializeError::ExpectedInitResult(_)
            | ClientInitializeError::ConflictInitResponseId(..)
            | ClientInitializeError::UncorrelatedErrorResponse { .. }
    )
}

async fn greet(
    handler: Handler,
    wire: Wire,
    lifecycle: ClientLifecycleMode,
    log: Arc<Log>,
) -> Result<RunningService<RoleClient, Handler>, ClientInitializeError> {
    let service: BoxFuture<'static, _> = match wire {
        Wire::Pipes { read, write } => {
            let transport = Guard::new(
                AsyncRwTransport::new_client(Lines::new(read, Arc::clone(&log)), write),
                log,
            );
            Box::pin(serve_client_with_lifecycle(handler, transport, lifecycle))
        }
        Wire::Http(transport) => {
            let transport = Guard::new(transport, log);
            Box::pin(serve_client_with_lifecycle(handler, transport, lifecycle))
        }
        Wire::Authorized(transport) => {
            let transport = Guard::new(transport, log);
            Box::pin(serve_client_with_lifecycle(handler, transport, lifecycle))
        }
    };
    service.await
}

/// Ends a program. Its input is closed already.
pub async fn end(child: Piped) {
    child.end(PATIENCE).await;
}

fn reason(error: &ClientInitializeError) -> String {
    let words = match error {
        ClientInitializeError::TransportError { error, .. } => chain(&*error.error),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => return reason(fallback),
        ClientInitializeError::ConnectionClosed(_) => {
            "it closed the connection during initialization".to_owned()
        }
        ClientInitializeError::JsonRpcError(error) => {
            format!("it returned an error: {} ({})", error.message, error.code.0)
        }
        other => other.to_string(),
    };
    text::inline(&words, MAX_REASON)
}

/// An error with its causes, without repetitions.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    // It only states that a client failed, and does not expose the cause.
    if let Some(StreamableHttpError::Client(deeper)) =
        error.downcast_ref::<StreamableHttpError<reqwest::Error>>()
    {
        return chain(deeper);
    }
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(deeper) = source {
        let said = deeper.to_string();
        if !words.contains(&said) {
            words.push_str(": ");
            words.push_str(&said);
        }
        source = deeper.source();
    }
    words
}

/// Ends a program that did not initialize, and adds its exit code and its last lines to the error.
async fn clear(
    error: ServerError,
    child: Option<Piped>,
    stderr: Option<JoinHandle<()>>,
    log: &Log,
) -> ServerError {
    let exit = match child {
        Some(child) => Some(child.end(PATIENCE).await),
        None => None,
    };
    // Only a program has a standard error.
    let Some(stderr) = stderr else { return error };
    let _ = timeout(Duration::from_secs(1), stderr).await;
    match error {
        ServerError::Connect { server, mut reason } => {
            if let Some(Exit::Code(code)) = exit {
                reason = format!("it ended with exit code {code}");
            }
            reason.push_str(&wrote(log.tail().as_deref()));
            ServerError::Connect { server, reason }
        }
        ServerError::Silent { server, after, .. } => ServerError::Silent {
            server,
            after,
            last_lines: log.tail(),
        },
        other => other,
    }
}

impl Live {
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
        running: &Arc<Running>,
    ) -> Result<CallToolResult, Refused> {
        for _ in 0..ROUNDS {
            let request = ClientRequest::CallToolRequest(CallToolRequest::new(params.clone()));
            match self.request(request, running).await? {
                ServerResult::CallToolResult(result) => return Ok(result),
                ServerResult::InputRequiredResult(result) => {
                    let state_only = result
                        .input_requests
                        .as_ref()
                        .is_none_or(std::collections::BTreeMap::is_empty);
                    if state_only && result.request_state.is_none() {
                        return Err(Refused::Unfit("it requires input but does not state which"));
                    }
                    params.request_state.clone_from(&result.request_state);
                    params.input_responses = self.fulfil(result, running).await?;
                    if state_only {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                }
                ServerResult::CreateTaskResult(_) => {
                    return Err(Refused::Unfit(
                        "it turned a call into a task without being asked to",
                    ));
                }
                _ => return Err(Refused::Unfit("it returned a result of another kind")),
            }
        }
        Err(Refused::Unfit(
            "it requested input ten times without returning a result",
        ))
    }

    async fn request(
        &self,
        request: ClientRequest,
        running: &Arc<Running>,
    ) -> Result<ServerResult, Refused> {
        let entered = self.calls.enter(Arc::clone(running));
        let handle = self
            .peer
            .send_request_with_option(request, PeerRequestOptions::no_options())
            .await?;
        entered.sent(&handle.progress_token, &handle.id);
        let mut abandon = Abandon {
            peer: &self.peer,
            id: Some(handle.id.clone()),
        };
        let result = handle.await_response().await;
        abandon.id = None;
        entered.answered();
        Ok(result?)
    }

    /// Whether concurrent calls cannot be told apart in questions of this server.
    pub fn is_ambiguous(&self) -> bool {
        self.calls.is_ambiguous()
    }

    /// Answers input requests of a running call. Only questions to the user are supported, not sampling or roots.
    async fn fulfil(
        &self,
        result: InputRequiredResult,
        running: &Arc<Running>,
    ) -> Result<Option<InputResponses>, Refused> {
        let mut responses = InputResponses::new();
        for (key, request) in result.input_requests.unwrap_or_default() {
            let response = match request {
                InputRequest::Elicitation(request) => {
                    let answer = ask::answer(&self.server, running, request.params).await;
                    serde_json::to_value(answer)
                }
                InputRequest::ListRoots(_) => Ok(serde_json::json!({"roots": []})),
                InputRequest::CreateMessage(_) => {
                    return Err(Refused::Unfit(
                        "it requested sampling, which is not supported",
                    ));
                }
                _ => return Err(Refused::Unfit("it sent an unknown input request")),
            };
            responses.insert(key, response.unwrap_or_default());
        }
        Ok((!responses.is_empty()).then_some(responses))
    }
}

/// Cancels a request at the server if it is dropped.
struct Abandon<'a> {
    peer: &'a Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for Abandon<'_> {
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
