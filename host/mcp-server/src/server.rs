//! MCP request handler for session-based and stateless protocols.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestMethod,
    CompleteRequestParams, CompleteResult, CustomRequest, CustomResult, DiscoverResult, ErrorCode,
    ErrorData, GetTaskParams, GetTaskResult, InitializeRequestParams, InitializeResult,
    ListPromptsRequestMethod, ListPromptsResult, ListResourcesResult, ListToolsResult, MetaObject,
    PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, ServerConfig, SubscriptionFilter, Tool, UpdateTaskParams,
};
#[expect(
    deprecated,
    reason = "2026-07-28 keeps logging for a year, older clients know nothing else"
)]
use rmcp::model::{LoggingLevel, SetLevelRequestParams};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};
use toolhost_contract::{LogLevel, UserId, text};

use crate::abort::AbortOnDrop;
use crate::call_queue::CallQueue;
use crate::call_result;
use crate::http::{caller, quota_of, with_worker_quota};
use crate::roots::Roots;
use crate::server_state::ServerState;
use crate::{list_changed, pagination};

/// Known methods. rmcp reports them as custom requests if it cannot parse their parameters.
const KNOWN_METHODS: [&str; 10] = [
    "initialize",
    "server/discover",
    "tools/list",
    "tools/call",
    "logging/setLevel",
    "subscriptions/listen",
    "resources/read",
    "tasks/get",
    "tasks/update",
    "tasks/cancel",
];
/// Those that the stateless protocol does not have.
const REMOVED_METHODS: [&str; 2] = ["initialize", "logging/setLevel"];
/// How long a client may cache the tool list. Subscribers are notified of changes earlier.
const LIST_TTL_MS: u64 = 5_000;
/// How long a client may cache information about the host, which is constant while it runs.
const HOST_TTL_MS: u64 = 60_000;

/// The MCP server of one client.
pub struct Server {
    pub(crate) shared: Arc<ServerState>,
    pub(crate) run: String,
    pub(crate) call_queue: CallQueue,
    pub(crate) roots: Roots,
    /// Minimum log level for sessions. Stateless requests set it per request.
    log_level: Mutex<Option<LogLevel>>,
    /// Sends tool list changes to a client with a session.
    list_notifier: Mutex<Option<AbortOnDrop<()>>>,
}

impl Server {
    pub(crate) fn new(shared: Arc<ServerState>, session: &str) -> Self {
        Self {
            shared,
            run: session.to_owned(),
            call_queue: CallQueue::new(),
            roots: Roots::default(),
            log_level: Mutex::new(Some(LogLevel::Info)),
            list_notifier: Mutex::default(),
        }
    }

    /// Creates a handler for another client.
    pub(crate) fn for_new_client(&self) -> Self {
        Self::new(Arc::clone(&self.shared), &self.run)
    }

    /// Returns whether the host may send requests to this client.
    pub(crate) fn may_send_requests(&self) -> bool {
        self.shared.prompter.is_some() || self.roots.are_declared()
    }

    pub(crate) fn log_level(&self, context: &RequestContext<RoleServer>) -> Option<LogLevel> {
        match context.meta.protocol_version() {
            // Stateless requests set the level in `_meta`.
            Some(_) => context.meta.log_level().and_then(minimum_level),
            None => *self
                .log_level
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Adds the server info to a result, for the stateless protocol.
    pub(crate) fn add_server_info(
        &self,
        meta: &mut Option<MetaObject>,
        context: &RequestContext<RoleServer>,
    ) {
        if is_modern(context) {
            call_result::add_server_info(&self.shared, meta);
        }
    }

    /// Returns the user who owns results and tasks of this request.
    fn owner(&self, context: &RequestContext<RoleServer>) -> UserId {
        caller(&self.run, context).user
    }
}

/// Whether the request uses the stateless protocol (2026-07-28 or later).
pub(crate) fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    version.is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

/// Returns the minimum level to send. `None` for levels above [`Level::Error`], which the host never emits.
#[expect(deprecated, reason = "see LoggingLevel")]
fn minimum_level(level: LoggingLevel) -> Option<LogLevel> {
    match level {
        LoggingLevel::Debug => Some(LogLevel::Trace),
        LoggingLevel::Info => Some(LogLevel::Info),
        LoggingLevel::Notice | LoggingLevel::Warning => Some(LogLevel::Warn),
        LoggingLevel::Error => Some(LogLevel::Error),
        LoggingLevel::Critical | LoggingLevel::Alert | LoggingLevel::Emergency => None,
    }
}

/// Describes the invalid parameter of a known method, as far as possible.
fn describe_invalid_params(request: &CustomRequest) -> String {
    let params = request.params.as_ref().and_then(Value::as_object);
    let Some(params) = params else {
        return format!("parameters of {} must be an object", request.method);
    };
    let wrong = match (
        request.method.as_str(),
        params.get("name"),
        params.get("arguments"),
    ) {
        ("tools/call", None, _) => "`name` is missing",
        ("tools/call", Some(name), _) if !name.is_string() => "`name` must be a string",
        ("tools/call", _, Some(arguments)) if !arguments.is_object() => {
            "`arguments` must be an object"
        }
        _ => "they do not match the protocol",
    };
    format!("invalid parameters for {}: {wrong}", request.method)
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        self.shared.config.clone()
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        if self.shared.roots && request.capabilities.roots.is_some() {
            self.roots.mark_declared();
        }
        context.peer.set_peer_info(request.clone());
        let mut result = self.negotiate_initialize(&request)?;
        // Extensions are newer than the `initialize` handshake.
        result.capabilities.extensions = None;
        Ok(result)
    }

    /// With `roots`, offers only the versions that support roots, so that a client cannot escape the restriction by its
    /// choice of version.
    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(if self.shared.roots {
            ProtocolVersion::known_up_to(&ProtocolVersion::V_2025_11_25)
        } else {
            ProtocolVersion::KNOWN_VERSIONS
        })
    }

    async fn on_roots_list_changed(&self, _context: NotificationContext<RoleServer>) {
        self.roots.mark_changed();
    }

    async fn discover(
        &self,
        _context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        let versions = self.supported_protocol_versions().into_owned();
        Ok(DiscoverResult::from_server_info(versions, self.get_info()).with_ttl_ms(HOST_TTL_MS))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let complete = tokio::select! {
            complete = self.shared.wait_for_complete_list() => complete,
            () = context.ct.cancelled() => false,
        };
        let tools = self.shared.tools();
        let with_view = self.add_question_view(&tools.all, &context);
        let cursor = request.and_then(|request| request.cursor);
        let all = with_view.as_deref().unwrap_or(&tools.all);
        let (page, next) = pagination::page(all, cursor.as_deref())?;
        let mut result = ListToolsResult::with_all_items(page.to_vec());
        result.next_cursor = next;
        if is_modern(&context) {
            result.ttl_ms = Some(if complete { LIST_TTL_MS } else { 0 });
        }
        self.add_server_info(&mut result.meta, &context);
        Ok(result)
    }

    /// Used by rmcp to compare the headers of a request with its body.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.shared.tools().get(name).cloned()
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let given_up = context.ct.clone();
        // Boxed because it is large and rmcp moves the future of a request several times.
        let call = with_worker_quota(quota_of(&context), Box::pin(self.call(params, context)));
        tokio::select! {
            biased;
            // Dropping the future ends the call. This error is never sent: rmcp does not respond to cancelled requests,
            // and the transport writes nothing after the end of input.
            () = given_up.cancelled() => Err(ErrorData::internal_error("the input ended before the call did", None)),
            result = call => result,
        }
    }

    #[expect(deprecated, reason = "see LoggingLevel")]
    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if is_modern(&context) {
            // The stateless protocol keeps no level between requests.
            return Err(ErrorData::method_not_found::<
                rmcp::model::SetLevelRequestMethod,
            >());
        }
        *self
            .log_level
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = minimum_level(request.level);
        Ok(())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let telling = list_changed::notify_session(Arc::clone(&self.shared), context.peer);
        let watching = AbortOnDrop::spawn(telling);
        // Replaces the task of an earlier `notifications/initialized`.
        *self
            .list_notifier
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(watching);
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        list_changed::notify_subscriber(&self.shared, &context).await;
        Ok(())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let is_removed = REMOVED_METHODS.contains(&request.method.as_str()) && is_modern(&context);
        if KNOWN_METHODS.contains(&request.method.as_str()) && !is_removed {
            return Err(ErrorData::invalid_params(
                describe_invalid_params(&request),
                None,
            ));
        }
        let method = text::escape_line(&request.method, 80);
        let message = format!("unknown method {method}");
        Err(ErrorData::new(
            ErrorCode::METHOD_NOT_FOUND,
            message,
            Some(json!({"method": method})),
        ))
    }

    // By default, rmcp returns empty lists for these, as if the capabilities were declared.

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    // Stored results are not listed: a client that may read one has its link.
    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut result = ListResourcesResult::default();
        self.add_server_info(&mut result.meta, &context);
        Ok(result)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let found = if let Some(view) = self.read_question_view(&request.uri, &context) {
            view
        } else {
            let owner = self.owner(&context);
            self.shared.results.read(&request.uri, &owner)?
        };
        let mut result = ReadResourceResult::new(vec![found]);
        self.add_server_info(&mut result.meta, &context);
        Ok(result.into())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let owner = self.owner(&context);
        let mut result = GetTaskResult::new(self.shared.tasks.get(&request.task_id, &owner)?);
        self.add_server_info(&mut result.meta, &context);
        Ok(result)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let owner = self.owner(&context);
        let responses = request.input_responses;
        self.shared
            .tasks
            .update(&request.task_id, &owner, responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let owner = self.owner(&context);
        self.shared.tasks.cancel(&request.task_id, &owner)
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }
}
