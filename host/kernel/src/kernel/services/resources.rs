//! The interface `resources` for a running call.

use serde_json::Value;
use toolhost_contract::{BoxFuture, Failure, Part, ResourceService};

use super::CallServices;

impl ResourceService for CallServices {
    fn resources(&self, server: Option<String>) -> BoxFuture<'_, Result<Value, Failure>> {
        let limits = self.context.directory_limits();
        Box::pin(async move { self.kernel()?.resources.list(server, limits).await })
    }

    fn read_resource(
        &self,
        uri: String,
        server: Option<String>,
    ) -> BoxFuture<'_, Result<Vec<Part>, Failure>> {
        let limits = self.context.directory_limits();
        Box::pin(async move { self.kernel()?.resources.read(uri, server, limits).await })
    }
}
