//! An rmcp server whose one tool does nothing: the floor that the benchmark compares with.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};

use crate::ServeError;

struct Noop;

impl ServerHandler for Noop {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::default())
    }

    async fn call_tool(
        &self,
        _request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(CallToolResponse::Complete(CallToolResult::success(vec![
            ContentBlock::text("hello"),
        ])))
    }
}

/// Serves standard input and output until the client goes away.
pub async fn serve_noop() -> Result<(), ServeError> {
    let running = rmcp::serve_server(Noop, rmcp::transport::io::stdio_pipes())
        .await
        .map_err(|error| ServeError::Begin(error.to_string()))?;
    running
        .waiting()
        .await
        .map(drop)
        .map_err(|error| ServeError::Broken(error.to_string()))
}
