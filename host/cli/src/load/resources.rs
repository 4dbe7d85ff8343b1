//! Resources of other MCP servers for the kernel.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use toolhost_contract::{BoxFuture, Failure, Part, text};
use toolhost_kernel::Resources;
use toolhost_mcp_client::ServerShared;

use super::servers::Servers;

/// The resources of all servers. The kernel holds it before any server is started.
#[derive(Default)]
pub struct ServerResources {
    servers: Mutex<Vec<Arc<ServerShared>>>,
}

impl ServerResources {
    pub fn set(&self, servers: &Servers) {
        *self.lock() = servers.started().map(Arc::clone).collect();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<ServerShared>>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The named server, or all of them.
    fn select(&self, server: Option<&str>) -> Result<Vec<Arc<ServerShared>>, Failure> {
        let all = self.lock().clone();
        let Some(name) = server.filter(|_| !all.is_empty()) else {
            return Ok(all);
        };
        let found: Vec<_> = all
            .iter()
            .filter(|one| one.config.name == name)
            .cloned()
            .collect();
        if found.is_empty() {
            let names: Vec<_> = all.iter().map(|one| one.config.name.clone()).collect();
            let names = names.join(", ");
            return Err(Failure::new(
                "mcp_server_unavailable",
                format!(
                    "no server `{}` is connected; connected servers: {names}",
                    text::escape_line(name, 80)
                ),
            ));
        }
        Ok(found)
    }
}

impl Resources for ServerResources {
    fn list(&self, server: Option<String>) -> BoxFuture<'_, Result<Value, Failure>> {
        Box::pin(async move {
            let chosen = self.select(server.as_deref())?;
            let mut all = Vec::new();
            for one in chosen {
                match one.resources().await {
                    Ok(found) => all.extend(found),
                    Err(failure) if server.is_some() => return Err(failure),
                    // Skips servers that fail if all servers are listed.
                    Err(_) => {}
                }
            }
            Ok(Value::Array(all))
        })
    }

    fn read(
        &self,
        uri: String,
        server: Option<String>,
    ) -> BoxFuture<'_, Result<Vec<Part>, Failure>> {
        Box::pin(async move {
            let chosen = self.select(server.as_deref())?;
            let mut not_found = Failure::new(
                "mcp_resource_not_found",
                format!(
                    "resource `{}` not found on any server",
                    text::escape_line(&uri, 200)
                ),
            );
            for one in chosen {
                match one.read(&uri).await {
                    Ok(parts) => return Ok(parts),
                    Err(failure) if server.is_some() => return Err(failure),
                    Err(failure) => not_found.cause = Some(failure.message),
                }
            }
            Err(not_found)
        })
    }
}
