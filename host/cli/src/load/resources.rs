//! Resources of other MCP servers for the kernel.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::task::JoinSet;
use toolhost_contract::{BoxFuture, Failure, Part, text};
use toolhost_kernel::Resources;
use toolhost_mcp_client::{NOT_LIMITED, ServerShared};

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
            let names = names(&all);
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

fn names(servers: &[Arc<ServerShared>]) -> String {
    let names: Vec<_> = servers.iter().map(|one| &*one.config.name).collect();
    names.join(", ")
}

impl Resources for ServerResources {
    fn list(
        &self,
        server: Option<String>,
        limits: Vec<Arc<[String]>>,
    ) -> BoxFuture<'_, Result<Value, Failure>> {
        Box::pin(async move {
            let chosen = self.select(server.as_deref())?;
            let mut lists = JoinSet::new();
            for (at, one) in chosen.into_iter().enumerate() {
                let limits = limits.clone();
                lists.spawn(async move { (at, one.resources(&limits).await) });
            }
            let mut lists = lists.join_all().await;
            lists.sort_by_key(|(at, _)| *at);
            let mut all = Vec::new();
            for (_, list) in lists {
                match list {
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
        limits: Vec<Arc<[String]>>,
    ) -> BoxFuture<'_, Result<Vec<Part>, Failure>> {
        Box::pin(async move {
            let chosen = self.select(server.as_deref())?;
            let not_found = |cause: Option<String>| {
                let uri = text::escape_line(&uri, 200);
                let message = format!("resource `{uri}` not found on any server");
                let failure = Failure::new("mcp_resource_not_found", message);
                Failure { cause, ..failure }
            };
            match &chosen[..] {
                [one] => {
                    let read = one.read(&uri, &limits).await;
                    read.map_err(|failure| match (&server, failure.code.as_deref()) {
                        (Some(_), _) | (None, Some(NOT_LIMITED)) => failure,
                        (None, _) => not_found(Some(failure.message)),
                    })
                }
                [] => Err(not_found(None)),
                // The first one that answers could answer for another server.
                several => Err(Failure::new(
                    "mcp_server_required",
                    format!(
                        "several servers are connected; set `server` to one of: {}",
                        names(several)
                    ),
                )),
            }
        })
    }
}
