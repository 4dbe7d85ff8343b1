//! The interface `resources` for a running call.

use std::sync::Arc;

use serde_json::Value;
use toolhost_contract::{BoxFuture, Failure, Part, ResourceService};

use super::CallServices;

impl ResourceService for CallServices {
    fn resources(&self, server: Option<String>) -> BoxFuture<'_, Result<Value, Failure>> {
        let limits = self.directory_limits();
        Box::pin(async move { self.kernel()?.resources.list(server, limits).await })
    }

    fn read_resource(
        &self,
        uri: String,
        server: Option<String>,
    ) -> BoxFuture<'_, Result<Vec<Part>, Failure>> {
        let limits = self.directory_limits();
        Box::pin(async move { self.kernel()?.resources.read(uri, server, limits).await })
    }
}

impl CallServices {
    fn directory_limits(&self) -> Vec<Arc<[String]>> {
        let restriction = self.context.restriction.as_ref();
        restriction.map_or_else(Vec::new, |restriction| restriction.directories())
    }
}
