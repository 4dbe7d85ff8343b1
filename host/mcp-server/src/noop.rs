//! A minimal rmcp server with a no-op tool, as a baseline for benchmarks.

use std::net::Ipv4Addr;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler};
use tokio::net::TcpListener;

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

/// Serves on stdin and stdout until the client disconnects.
pub async fn serve_noop() -> Result<(), ServeError> {
    let running = rmcp::serve_server(Noop, rmcp::transport::io::stdio_pipes())
        .await
        .map_err(|error| ServeError::Initialize(error.to_string()))?;
    running
        .waiting()
        .await
        .map(drop)
        .map_err(|error| ServeError::Session(error.to_string()))
}

/// Serves HTTP on a free loopback port until the process ends, without any layer around rmcp. `ready` receives the
/// URL.
pub async fn serve_noop_http(ready: impl FnOnce(&str)) -> Result<(), ServeError> {
    let broken = |error: std::io::Error| ServeError::Session(error.to_string());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .map_err(broken)?;
    let address = listener.local_addr().map_err(broken)?;
    let service = StreamableHttpService::new(
        || Ok(Noop),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default().with_json_response(true),
    );
    ready(&format!("http://{address}/mcp"));
    loop {
        let (stream, _) = listener.accept().await.map_err(broken)?;
        stream.set_nodelay(true).map_err(broken)?;
        let service = service.clone();
        let answer = service_fn(move |request| {
            let service = service.clone();
            async move { Ok::<_, std::convert::Infallible>(service.handle(request).await) }
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
    }
}
