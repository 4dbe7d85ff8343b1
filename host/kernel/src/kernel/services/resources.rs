//! The interface `resources` for a running call.

use serde_json::Value;
use toolhost_contract::{BoxFuture, Failure, Part, ResourceService};

use super::CallServices;

impl ResourceService for CallServices {
    fn resources(&self, server: Option<String>) -> BoxFuture<'_, Result<Value, Failure>> {
        Box::pin(async move { self.kernel()?.resources.list(server).await })
    }

    fn read_resource(
        &self,
        uri: String,
        server: Option<String>,
    ) -> BoxFuture<'_, Result<Vec<Part>, Failure>> {
        Box::pin(async move { self.kernel()?.resources.read(uri, server).await })
    }
}
