//! What a client may ask, and the road of a call from the wire to the kernel and back.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestMethod,
    CompleteRequestParams, CompleteResult, CustomRequest, CustomResult, ErrorCode, ErrorData,
    Implementation, ListPromptsRequestMethod, ListPromptsResult,
    ListResourceTemplatesRequestMethod, ListResourceTemplatesResult, ListResourcesRequestMethod,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
#[expect(
    deprecated,
    reason = "2026-07-28 keeps logging for a year, older clients know nothing else"
)]
use rmcp::model::{LoggingLevel, SetLevelRequestParams};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};
use toolhost_contract::profile::{Others, Profile};
use toolhost_contract::{CallError, CallId, Caller, ErrorClass, Level, ToolName, text};
use toolhost_kernel::{CallRequest, Kernel, Report};

use crate::ServerInfo;
use crate::content;
use crate::events::Events;
use crate::line::Line;
use crate::tools::{self, ToolList};

/// Methods whose parameters rmcp could not read, so that they reach us as unknown ones.
const KNOWN: [&str; 5] = [
    "initialize",
    "server/discover",
    "tools/list",
    "tools/call",
    "logging/setLevel",
];

pub(crate) struct Server {
    kernel: Arc<Kernel>,
    info: ServerConfig,
    session: String,
    calls: AtomicU64,
    line: Line,
    profile: Profile,
    others: Others,
    tools: ToolList,
    /// What a client of the older protocols wants to hear of the logs of its calls. The newer ones say it per call.
    log_level: Mutex<Option<Level>>,
}

impl Server {
    #[expect(deprecated, reason = "see LoggingLevel")]
    pub(crate) fn new(kernel: Arc<Kernel>, info: ServerInfo, session: &str) -> Self {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_logging()
            .build();
        let mut config = ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(info.name, info.version));
        config.instructions = info.instructions;
        Self {
            kernel,
            info: config,
            session: session.to_owned(),
            calls: AtomicU64::new(0),
            line: Line::new(),
            profile: info.profile,
            others: info.others,
            tools: ToolList::default(),
            log_level: Mutex::new(Some(Level::Info)),
        }
    }

    async fn call(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let Some(_place) = self.line.enter().await else {
            return Ok(content::failed(&busy()));
        };
        let request = self.request(params);
        let asked = (self.profile != Profile::Native)
            .then(|| (request.tool.clone(), request.input.clone()));
        let events = Arc::new(Events::new(
            &request.tool,
            &context.meta,
            self.log_level(&context),
        ));
        // The kernel catches what a backend does. This is for a fault of the road itself: rmcp would not answer.
        let call =
            AssertUnwindSafe(self.kernel.call(request, Arc::clone(&events) as _)).catch_unwind();
        let report = events.relay(&context.peer, Box::pin(call)).await;
        match report {
            Ok(report) => match asked {
                None => self.answer(report),
                Some((tool, input)) => Ok(self.answer_in_profile(&tool, &input, report)),
            },
            Err(_panic) => Ok(content::failed(&CallError::internal("the call panicked"))),
        }
    }

    fn request(&self, params: CallToolRequestParams) -> CallRequest {
        let number = self.calls.fetch_add(1, Relaxed) + 1;
        let caller = Caller {
            session_id: self.session.clone(),
            ..Caller::default()
        };
        let id = CallId(format!("{}-{number}", self.session));
        let name = params.name.into_owned();
        let input = Value::Object(params.arguments.unwrap_or_default());
        let (name, input) = if self.profile == Profile::Native {
            (name, input)
        } else {
            let registry = self.kernel.registry();
            registry
                .lens(self.profile, self.others)
                .accept(&name, input)
        };
        CallRequest::new(id, name, input, caller)
    }

    /// The result as the profile's system would have put it.
    fn answer_in_profile(&self, tool: &str, input: &Value, report: Report) -> CallToolResult {
        let registry = self.kernel.registry();
        let lens = registry.lens(self.profile, self.others);
        let canonical = report.tool.as_ref().map_or(tool, ToolName::as_str);
        let shown = lens.render(canonical, input, &report.result);
        content::undoable(content::rendered(shown), &report.commits)
    }

    fn answer(&self, report: Report) -> Result<CallToolResult, ErrorData> {
        match (report.result, report.tool) {
            (Ok(outcome), tool) => {
                let registry = self.kernel.registry();
                let entry = tool.as_ref().and_then(|name| registry.get(name.as_str()));
                let structured = entry.is_some_and(|entry| tools::has_output_schema(&entry.tool));
                let result = content::result(outcome, structured);
                Ok(content::undoable(result, &report.commits))
            }
            // The protocol wants an error of its own here: there is no tool that could have failed.
            (Err(error), None) if error.class == ErrorClass::NotRegistered => Err(
                ErrorData::invalid_params(error.for_model(), Some(content::error_details(&error))),
            ),
            // A call that had changed something and then named another one, which failed.
            (Err(error), _) => Ok(content::undoable(content::failed(&error), &report.commits)),
        }
    }

    fn log_level(&self, context: &RequestContext<RoleServer>) -> Option<Level> {
        match context.meta.protocol_version() {
            // Each request of the newer protocol says for itself whether it wants logs.
            Some(_) => context.meta.log_level().and_then(level),
            None => *self
                .log_level
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        }
    }
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

fn busy() -> CallError {
    let mut error = CallError::new(
        ErrorClass::Unavailable,
        "too many calls are waiting already",
    )
    .code("too_many_calls")
    .recommend("wait for some answers before the next call");
    error.retryable = true;
    error
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
        self.info.clone()
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(
            self.tools
                .of(&self.kernel.registry(), self.profile, self.others)
                .to_vec(),
        ))
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let given_up = context.ct.clone();
        // In a box, because it is large and rmcp moves the future of a request several times.
        let call = Box::pin(self.call(params, context));
        tokio::select! {
            biased;
            // Dropping the future of the call is what ends it. A client that cancelled gets no answer from rmcp;
            // one that closed our input gets this.
            () = given_up.cancelled() => Err(ErrorData::internal_error("the input ended before the call did", None)),
            result = call => result.map(CallToolResponse::Complete),
        }
    }

    #[expect(deprecated, reason = "see LoggingLevel")]
    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        *self
            .log_level
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = level(request.level);
        Ok(())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if KNOWN.contains(&request.method.as_str()) {
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

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourcesRequestMethod>())
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Err(ErrorData::method_not_found::<
            ListResourceTemplatesRequestMethod,
        >())
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }
}
