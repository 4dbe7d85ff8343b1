//! The interface `resources`.

use super::bindings::toolhost::plugin::resources;
use super::convert::{failure, parts};
use super::types;
use crate::state::State;

/// Its functions, to detect components built against a later version.
pub(super) const FUNCTIONS: &[&str] = &["resources", "read"];

impl resources::Host for State {
    async fn resources(&mut self, server: Option<String>) -> Result<String, types::Failure> {
        let services = self.untracked_services(self.allowed.resources, "resources")?;
        let list = services.resources(server).await.map_err(failure)?;
        Ok(list.to_string())
    }

    async fn read(
        &mut self,
        uri: String,
        server: Option<String>,
    ) -> Result<Vec<types::Part>, types::Failure> {
        let services = self.untracked_services(self.allowed.resources, "resources")?;
        let found = services.read_resource(uri, server).await.map_err(failure)?;
        parts(found)
    }
}
