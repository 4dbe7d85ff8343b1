//! One connection to a server, from the first word to the last.

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

/// From the start of a program to the end of the greeting. A silent server is asked twice, and takes ten seconds of it
/// for the first time.
pub const GREETING: Duration = Duration::from_secs(40);
/// How often a server may come back with more questions instead of a result.
const ROUNDS: usize = 10;
/// For a server to end by itself, and again after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(3);
const MAX_REASON: usize = 500;

pub struct Link {
    pub live: Arc<Live>,
    pub service: RunningService<RoleClient, Handler>,
    pub child: Option<Piped>,
    pub changed: Arc<Notify>,
}

/// What calls need of a connection.
pub struct Live {
    server: String,
    pub peer: Peer<RoleClient>,
    calls: Arc<Calls>,
    pub info: Arc<ServerPeerInfo>,
}

/// Why a request came to nothing.
#[derive(Debug)]
pub enum Refused {
    Service(ServiceError),
    /// It wants what nobody gives it.
    Unfit(&'static str),
}

impl From<ServiceError> for Refused {
    fn from(error: ServiceError) -> Self {
        Self::Service(error)
    }
}

impl Link {
    /// `old` is set when the server turned out to know the older era only, and spares the question the next time.
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
                    reason: "it answers its greeting in no way that is known".to_owned(),
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
        // Whoever lists again wants to know how it is now; and what a server may have us keep is bounded by nothing but
        // a number of pages.
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

/// Why there is no connection.
enum Unmet {
    Failed(ServerError),
    /// It did not understand the question for its era, and what it is in now nobody knows: a new connection and the
    /// older way of greeting may do.
    Confused,
}

/// Neither an answer nor an error to what was asked.
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

/// Its input is closed already.
pub async fn end(child: Piped) {
    child.end(PATIENCE).await;
}

fn reason(error: &ClientInitializeError) -> String {
    let words = match error {
        ClientInitializeError::TransportError { error, .. } => chain(&*error.error),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => return reason(fallback),
        ClientInitializeError::ConnectionClosed(_) => {
            "it closed the connection instead of greeting".to_owned()
        }
        ClientInitializeError::JsonRpcError(error) => {
            format!("it says: {} ({})", error.message, error.code.0)
        }
        other => other.to_string(),
    };
    text::inline(&words, MAX_REASON)
}

/// An error with what caused it, each said once.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    // It says that a client failed, and keeps the failure to itself.
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

/// What is left of a program that did not come up is ended; how it ended, and its last words, often say why.
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

    /// Dropping the future tells the server that nobody waits any more.
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
                        return Err(Refused::Unfit("it wants more and does not say what"));
                    }
                    params.request_state.clone_from(&result.request_state);
                    params.input_responses = self.fulfil(result, running).await?;
                    if state_only {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                }
                ServerResult::CreateTaskResult(_) => {
                    return Err(Refused::Unfit("it made a task of a call, unasked"));
                }
                _ => return Err(Refused::Unfit("it answered with something else")),
            }
        }
        Err(Refused::Unfit("it asked ten times and came to no result"))
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

    /// Calls that run beside each other cannot be told apart when this server asks about them.
    pub fn is_ambiguous(&self) -> bool {
        self.calls.is_ambiguous()
    }

    /// Of what a server may ask for in the middle of a call it gets answers of a person; not our model, not our folders.
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
                    return Err(Refused::Unfit("it wants to use a model, which is not lent"));
                }
                _ => return Err(Refused::Unfit("it asks for what is not known")),
            };
            responses.insert(key, response.unwrap_or_default());
        }
        Ok((!responses.is_empty()).then_some(responses))
    }
}

/// Tells the server of a request that nobody waits for any more.
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
            let reason = Some("nobody waits for it any more".to_owned());
            let params = CancelledNotificationParam::new(Some(id), reason);
            let cancelled = CancelledNotification::new(params);
            // A server that is gone need not be told.
            let _ = peer.send_notification(cancelled.into()).await;
        });
    }
}
