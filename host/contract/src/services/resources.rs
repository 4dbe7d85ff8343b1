//! The interface `resources`: resources of MCP servers.

use serde_json::Value;

use crate::{BoxFuture, Failure, Part};

pub trait ResourceService: Send + Sync {
    fn resources(&self, server: Option<String>) -> BoxFuture<'_, Result<Value, Failure>>;

    fn read_resource(
        &self,
        uri: String,
        server: Option<String>,
    ) -> BoxFuture<'_, Result<Vec<Part>, Failure>>;
}
