//! Resources of servers: listed and read through the existing connection, within limits.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    ErrorCode, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, Resource,
};
use rmcp::service::ServiceError;
use serde_json::{Value, json};
use tokio::time::timeout;
use toolhost_contract::{Failure, Part, text};

use crate::directory_limits;
use crate::results;
use crate::server::ServerShared;

const MAX_PAGES: usize = 50;
/// Maximum number of resources of one server.
const MAX_RESOURCES: usize = 1_000;
const MAX_TEXT: usize = 1_000;
const LIST_TIMEOUT: Duration = Duration::from_secs(30);

impl ServerShared {
    /// Returns `[{uri, name, server, media_type, description}]`; empty for a server without resources.
    ///
    /// Fails if the call is limited to the directories of each list of `limits` and the server could use other files.
    pub async fn resources(&self, limits: &[Arc<[String]>]) -> Result<Vec<Value>, Failure> {
        self.check_limits(limits)?;
        let live = self
            .live()
            .await
            .map_err(|error| unavailable(&error.to_string()))?;
        if live.info.capabilities.resources.is_none() {
            return Ok(Vec::new());
        }
        let pages = async {
            let mut found = Vec::new();
            let mut cursor = None;
            for _ in 0..MAX_PAGES {
                let mut params = PaginatedRequestParams::default();
                params.cursor = cursor.take();
                let requested = params.cursor.clone();
                let page = live.peer.list_resources(Some(params)).await?;
                // Truncated immediately, so that pages do not accumulate in full size.
                found.extend(page.resources.into_iter().map(|one| self.shown(one)));
                cursor = page.next_cursor;
                if cursor.is_none() || cursor == requested || found.len() >= MAX_RESOURCES {
                    break;
                }
            }
            found.truncate(MAX_RESOURCES);
            Ok::<_, ServiceError>(found)
        };
        let registration = live.register_resources();
        let listed = timeout(LIST_TIMEOUT, pages).await;
        if listed.is_ok() {
            registration.answered();
        }
        match listed {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(error)) => Err(self.refused(&error)),
            Err(_) => Err(unavailable(&format!(
                "server `{}` does not respond",
                self.config.name
            ))),
        }
    }

    fn shown(&self, one: Resource) -> Value {
        let cut = |text: Option<String>| text.map(|text| text::escape_line(&text, MAX_TEXT));
        json!({
            "uri": text::escape_line(&one.uri, 4_000), "name": text::escape_line(&one.name, MAX_TEXT),
            "server": self.config.name, "media_type": cut(one.mime_type),
            "description": cut(one.description.or(one.title)),
        })
    }

    /// As for [`resources`](Self::resources), `limits` can refuse the call.
    pub async fn read(&self, uri: &str, limits: &[Arc<[String]>]) -> Result<Vec<Part>, Failure> {
        self.check_limits(limits)?;
        let live = self
            .live()
            .await
            .map_err(|error| unavailable(&error.to_string()))?;
        let params = ReadResourceRequestParams::new(uri);
        let registration = live.register_resources();
        let read = timeout(self.config.timeout, live.peer.read_resource_once(params)).await;
        if read.is_ok() {
            registration.answered();
        }
        match read {
            Ok(Ok(ReadResourceResponse::Complete(result))) => {
                results::contents(&self.config.name, result.contents)
                    .map_err(|error| Failure::new("mcp_bad_response", error.message))
            }
            Ok(Ok(_)) => Err(Failure::new(
                "mcp_bad_response",
                format!(
                    "server `{}` requested input instead of returning a result",
                    self.config.name
                ),
            )),
            Ok(Err(error)) => Err(self.refused(&error)),
            Err(_) => Err(unavailable(&format!(
                "server `{}` did not answer within {} s",
                self.config.name,
                self.config.timeout.as_secs()
            ))),
        }
    }

    fn check_limits(&self, limits: &[Arc<[String]>]) -> Result<(), Failure> {
        directory_limits::check_server(&self.config, limits).map_err(|error| Failure {
            recommendations: error.recommendations,
            ..Failure::new(&error.code, error.message)
        })
    }

    fn refused(&self, error: &ServiceError) -> Failure {
        let server = &self.config.name;
        match error {
            ServiceError::McpError(error) => {
                // Error codes of both protocol versions for a resource that does not exist.
                let missing = error.code == ErrorCode::RESOURCE_NOT_FOUND
                    || error.code == ErrorCode::INVALID_PARAMS;
                let code = if missing {
                    "mcp_resource_not_found"
                } else {
                    "mcp_error"
                };
                let message = text::escape_lines(&error.message, MAX_TEXT);
                Failure::new(
                    code,
                    format!("server `{server}` returned an error: {message}"),
                )
            }
            other => unavailable(&format!(
                "server `{server}`: {}",
                text::escape_line(&other.to_string(), 300)
            )),
        }
    }
}

fn unavailable(reason: &str) -> Failure {
    let mut failure = Failure::new("mcp_server_unavailable", reason);
    failure.retryable = true;
    failure
}
