//! The tools of one server, as a backend of the kernel.

use std::collections::HashMap;
use std::sync::Arc;

use rmcp::model::{CallToolRequestParams, ErrorCode};
use rmcp::service::ServiceError;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use serde_json::Value;
use toolhost_contract::{
    Backend, BoxFuture, Call, CallError, Descriptor, Digest, ErrorClass, Grant, Outcome, Sink,
    ToolName, text,
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
    /// The server's own name of each tool, and the digest of its definition.
    own: HashMap<ToolName, (String, Digest)>,
    shared: Arc<ServerShared>,
}

impl ServerTools {
    pub fn new(shared: &Arc<ServerShared>, listing: &Listing) -> Self {
        let tools = &listing.tools;
        let own = tools.iter().map(|one| {
            (
                one.descriptor.name.clone(),
                (one.definition.tool.clone(), one.definition.digest),
            )
        });
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
        let (own, digest) = self.own.get(&call.tool).ok_or_else(|| {
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
        let log_position = self.shared.log.position();
        let work = async {
            let _permit = self.shared.permit().await;
            let live = self.shared.live().await.map_err(|error| error.for_call())?;
            self.check_unchanged(&call.tool, *digest)?;
            let mut result = live.call(params.clone(), &running).await;
            if result.as_ref().is_err_and(RequestError::is_session_expired) {
                let next = self.shared.next_live(&live).await;
                let next = next.map_err(|error| error.for_call())?;
                self.check_unchanged(&call.tool, *digest)?;
                result = next.call(params, &running).await;
            }
            result.map_err(|refused| self.failed(refused, log_position))
        };
        let result = running
            .run_with_timeout(limit, work)
            .await
            .unwrap_or_else(|| Err(self.timed_out(limit, log_position)))?;
        results::outcome(&self.shared.config.name, result)
    }

    /// A server can change the definition of a tool while a call waits; the call was approved with the earlier one.
    fn check_unchanged(&self, tool: &ToolName, digest: Digest) -> Result<(), CallError> {
        let listing = self.shared.listing();
        let mut tools = listing.iter().flat_map(|listing| &listing.tools);
        if tools.any(|one| one.descriptor.name == *tool && one.definition.digest == digest) {
            return Ok(());
        }
        let server = &self.shared.config.name;
        let message = format!(
            "the server `{server}` no longer offers `{tool}` as it was approved; the call did not run; look at the tool's \
             definition and call it again"
        );
        Err(CallError::new(ErrorClass::Unavailable, message).code("mcp_server_unavailable"))
    }

    /// What the server wrote since the call began. It can belong to other calls.
    fn log_since(&self, position: u64) -> Option<String> {
        let lines = self.shared.log.tail_since(position)?;
        Some(format!("log of the server since the call began:\n{lines}"))
    }

    fn timed_out(&self, limit: std::time::Duration, log_position: u64) -> CallError {
        let mut error = CallError::timed_out(limit);
        error.stderr = self.log_since(log_position);
        error
    }

    fn failed(&self, refused: RequestError, log_position: u64) -> CallError {
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
            error.stderr = self.log_since(log_position);
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
            RequestError::Service(ServiceError::TransportSend(error))
                if is_connect_error(&*error.error) =>
            {
                let reason = text::escape_line(&error_chain(&*error.error), 300);
                let (server, reason) = (server.clone(), self.shared.log.mask(&reason));
                ServerError::Connect { server, reason }.for_call()
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

/// Whether no connection was made, so that the server has not received the request.
fn is_connect_error(error: &(dyn std::error::Error + 'static)) -> bool {
    match error.downcast_ref() {
        Some(StreamableHttpError::Client::<reqwest::Error>(error)) => error.is_connect(),
        _ => false,
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
