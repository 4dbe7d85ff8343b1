//! What a client may ask: one handler for both ways in which clients speak.

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
use toolhost_contract::{Level, UserId, text};

use crate::abort::AbortOnDrop;
use crate::answer;
use crate::http::{caller, fairly, share};
use crate::line::Line;
use crate::roots::Roots;
use crate::shared::Shared;
use crate::{pages, watch};

/// Methods whose parameters rmcp could not read, so that they reach us as unknown ones.
const KNOWN: [&str; 10] = [
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
/// Those of them that the newest protocol has no more.
const REMOVED: [&str; 2] = ["initialize", "logging/setLevel"];
/// For how long a client may take the list of tools as it is. One that listens hears of a change before.
const LIST_TTL_MS: u64 = 5_000;
/// What is said of the host itself stays as it is for as long as the host runs.
const HOST_TTL_MS: u64 = 60_000;

pub(crate) struct Server {
    pub(crate) shared: Arc<Shared>,
    pub(crate) session: String,
    pub(crate) line: Line,
    pub(crate) roots: Roots,
    /// What a client of the older protocols wants to hear of the logs of its calls. The newer ones say it per call.
    log_level: Mutex<Option<Level>>,
    /// Tells a client with a session of new tools.
    watching: Mutex<Option<AbortOnDrop<()>>>,
}

impl Server {
    pub(crate) fn new(shared: Arc<Shared>, session: &str) -> Self {
        Self {
            shared,
            session: session.to_owned(),
            line: Line::new(),
            roots: Roots::default(),
            log_level: Mutex::new(Some(Level::Info)),
            watching: Mutex::default(),
        }
    }

    /// The same server for one more client.
    pub(crate) fn again(&self) -> Self {
        Self::new(Arc::clone(&self.shared), &self.session)
    }

    pub(crate) fn log_level(&self, context: &RequestContext<RoleServer>) -> Option<Level> {
        match context.meta.protocol_version() {
            // Each request of the newer protocol says for itself whether it wants logs.
            Some(_) => context.meta.log_level().and_then(level),
            None => *self
                .log_level
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Says in a result who answers, as the newest protocol wants it and the older ones do not know it.
    pub(crate) fn signed(
        &self,
        meta: &mut Option<MetaObject>,
        context: &RequestContext<RoleServer>,
    ) {
        if is_modern(context) {
            answer::sign(&self.shared, meta);
        }
    }

    /// Whose results and tasks these are.
    fn owner(&self, context: &RequestContext<RoleServer>) -> UserId {
        caller(&self.session, context).user
    }
}

/// The client keeps no session: everything that counts is in the request.
pub(crate) fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    version.is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

/// The least level of ours that the client wants. None when we have nothing that bad.
#[expect(deprecated, reason = "see LoggingLevel")]
fn level(level: LoggingLevel) -> Option<Level> {
    match level {
        LoggingLevel::Debug => Some(Level::Trace),
        LoggingLevel::Info => Some(Level::Info),
        LoggingLevel::Notice | LoggingLevel::Warning => Some(Level::Warn),
        LoggingLevel::Error => Some(Level::Error),
        LoggingLevel::Critical | LoggingLevel::Alert | LoggingLevel::Emergency => None,
    }
}

/// Which parameter of a known method is wrong, as far as a look can tell.
fn wrong_params(request: &CustomRequest) -> String {
    let params = request.params.as_ref().and_then(Value::as_object);
    let Some(params) = params else {
        return format!("the parameters of {} must be an object", request.method);
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
        _ => "they do not fit the protocol",
    };
    format!("wrong parameters for {}: {wrong}", request.method)
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
            self.roots.declare();
        }
        context.peer.set_peer_info(request.clone());
        let mut result = self.negotiate_initialize(&request)?;
        // The extensions came later than this way to begin.
        result.capabilities.extensions = None;
        Ok(result)
    }

    /// With `roots`, only the versions whose clients say what their folders are: which version a client falls back to
    /// must not decide what its calls reach.
    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(if self.shared.roots {
            ProtocolVersion::known_up_to(&ProtocolVersion::V_2025_11_25)
        } else {
            ProtocolVersion::KNOWN_VERSIONS
        })
    }

    async fn on_roots_list_changed(&self, _context: NotificationContext<RoleServer>) {
        self.roots.changed();
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
            complete = self.shared.list_is_complete() => complete,
            () = context.ct.cancelled() => false,
        };
        let tools = self.shared.tools();
        let cursor = request.and_then(|request| request.cursor);
        let (page, next) = pages::page(&tools.all, cursor.as_deref())?;
        let mut result = ListToolsResult::with_all_items(page.to_vec());
        result.next_cursor = next;
        if is_modern(&context) {
            result.ttl_ms = Some(if complete { LIST_TTL_MS } else { 0 });
        }
        self.signed(&mut result.meta, &context);
        Ok(result)
    }

    /// For the headers of a request, which have to say what its body says.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.shared.tools().get(name).cloned()
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let given_up = context.ct.clone();
        // In a box, because it is large and rmcp moves the future of a request several times.
        let call = Box::pin(fairly(share(&context), self.call(params, context)));
        tokio::select! {
            biased;
            // Dropping the future of the call is what ends it. The answer reaches nobody: rmcp sends none to a client
            // that cancelled, and the transport none to one that closed our input.
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
            // Nothing is kept between its requests.
            return Err(ErrorData::method_not_found::<
                rmcp::model::SetLevelRequestMethod,
            >());
        }
        *self
            .log_level
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = level(request.level);
        Ok(())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let telling = watch::tell(Arc::clone(&self.shared), context.peer);
        let watching = AbortOnDrop::spawn(telling);
        // A client that says it twice is told once.
        *self.watching.lock().unwrap_or_else(PoisonError::into_inner) = Some(watching);
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        watch::tell_listener(&self.shared, &context).await;
        Ok(())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let is_removed = REMOVED.contains(&request.method.as_str()) && is_modern(&context);
        if KNOWN.contains(&request.method.as_str()) && !is_removed {
            return Err(ErrorData::invalid_params(wrong_params(&request), None));
        }
        let method = text::inline(&request.method, 80);
        let message = format!("there is no method {method}");
        Err(ErrorData::new(
            ErrorCode::METHOD_NOT_FOUND,
            message,
            Some(json!({"method": method})),
        ))
    }

    // rmcp answers the rest of these with empty lists, as if we had declared them.

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    // Long results are not listed: whoever may read one has the link.
    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut result = ListResourcesResult::default();
        self.signed(&mut result.meta, &context);
        Ok(result)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let owner = self.owner(&context);
        let found = self.shared.kept.read(&request.uri, &owner)?;
        let mut result = ReadResourceResult::new(vec![found]);
        self.signed(&mut result.meta, &context);
        Ok(result.into())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let owner = self.owner(&context);
        let mut result = GetTaskResult::new(self.shared.tasks.get(&request.task_id, &owner)?);
        self.signed(&mut result.meta, &context);
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
