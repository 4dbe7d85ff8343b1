//! The tools of one server, as a backend of the kernel.

use std::collections::HashMap;
use std::sync::Arc;

use rmcp::model::{CallToolRequestParams, ErrorCode};
use rmcp::service::ServiceError;
use serde_json::Value;
use toolhost_contract::{
    Backend, BoxFuture, Call, CallError, Descriptor, ErrorClass, Grant, Outcome, Sink, ToolName,
    text,
};

use crate::connection::{RequestError, error_chain};
use crate::directory_limits;
use crate::error::{ServerError, auth_challenge};
use crate::listing::Listing;
use crate::results;
use crate::running_calls::RunningCall;
use crate::server::ServerShared;

const MAX_MESSAGE: usize = 2_000;

pub struct ServerTools {
    tools: Vec<Descriptor>,
    /// The server's own name of each tool.
    own: HashMap<ToolName, String>,
    shared: Arc<ServerShared>,
}

impl ServerTools {
    pub fn new(shared: &Arc<ServerShared>, listing: &Listing) -> Self {
        let tools = &listing.tools;
        let own = tools
            .iter()
            .map(|one| (one.descriptor.name.clone(), one.definition.tool.clone()));
        Self {
            own: own.collect(),
            tools: tools.iter().map(|one| one.descriptor.clone()).collect(),
            shared: Arc::clone(shared),
        }
    }

    pub(crate) async fn run(
        &self,
        call: Call,
        limit: std::time::Duration,
        sink: Arc<dyn Sink>,
    ) -> Result<Outcome, CallError> {
        let own = self.own.get(&call.tool).ok_or_else(|| {
            CallError::new(
                ErrorClass::NotRegistered,
                format!("the server no longer has a tool `{}`", call.tool),
            )
        })?;
        // The result of an external program can differ at each call.
        sink.mark_untracked_dependency();
        let running = Arc::new(RunningCall::new(
            sink,
            self.shared.ask.clone(),
            &call.caller,
        ));
        let mut params = CallToolRequestParams::new(own.clone());
        if let Value::Object(input) = call.input {
            params = params.with_arguments(input);
        }
        let work = async {
            let _permit = self.shared.permit().await;
            let live = self.shared.live().await.map_err(|error| error.for_call())?;
            let result = live.call(params, &running).await;
            result.map_err(|refused| self.failed(refused))
        };
        let result = running
            .run_with_timeout(limit, work)
            .await
            .unwrap_or_else(|| Err(self.timed_out(limit)))?;
        results::outcome(&self.shared.config.name, result)
    }

    fn timed_out(&self, limit: std::time::Duration) -> CallError {
        let mut error = CallError::timed_out(limit);
        error.stderr = self.shared.log.tail();
        error
    }

    fn failed(&self, refused: RequestError) -> CallError {
        let server = &self.shared.config.name;
        let gone = |reason: String| {
            let mut error = CallError::new(
                ErrorClass::Unavailable,
                format!(
                    "the server `{server}` was lost during the call, and it is unknown whether the call had any effect: \
                     {}",
                    self.shared.log.mask(&reason)
                ),
            )
            .code("mcp_server_unavailable");
            error.stderr = self.shared.log.tail();
            error
        };
        if let RequestError::Service(error) = &refused
            && let Some(challenge) = auth_challenge(error)
        {
            let (server, challenge) = (server.clone(), Some(challenge));
            return ServerError::LoginRequired { server, challenge }.for_call();
        }
        match refused {
            RequestError::Unsupported(reason) => CallError::new(
                ErrorClass::Failed,
                format!("the server `{server}` returned no result: {reason}"),
            )
            .code("mcp_bad_response"),
            RequestError::Service(ServiceError::McpError(error)) => {
                let class = match error.code {
                    ErrorCode::INVALID_PARAMS => ErrorClass::InvalidInput,
                    _ => ErrorClass::Failed,
                };
                let message = text::escape_lines(&error.message, MAX_MESSAGE);
                let code = error.code.0;
                CallError::new(
                    class,
                    format!("the server `{server}` returned an error: {message} ({code})"),
                )
                .code("mcp_error")
            }
            RequestError::Service(ServiceError::TransportSend(error)) => {
                gone(text::escape_line(&error_chain(&*error.error), 300))
            }
            RequestError::Service(ServiceError::UnexpectedResponse) => CallError::new(
                ErrorClass::Failed,
                format!("the server `{server}` returned an invalid result"),
            )
            .code("mcp_bad_response"),
            RequestError::Service(error) => gone(text::escape_line(&error.to_string(), 300)),
        }
    }
}

impl Backend for ServerTools {
    fn tools(&self) -> &[Descriptor] {
        &self.tools
    }

    fn invoke(
        &self,
        call: Call,
        grant: Grant,
        sink: Arc<dyn Sink>,
    ) -> BoxFuture<'_, Result<Outcome, CallError>> {
        Box::pin(async move {
            self.check_directory_limits(grant.directory_limits())?;
            self.run(call, grant.timeout(), sink).await
        })
    }

    fn check_directory_limits(&self, limits: &[Arc<[String]>]) -> Result<(), CallError> {
        directory_limits::check_server(&self.shared.config, limits)
    }

    /// An external program can have any effect.
    fn has_external_effects(&self, _tool: &Descriptor) -> bool {
        true
    }
}
