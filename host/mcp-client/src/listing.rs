//! The tools that a server offers, restricted to those that can be converted and are approved.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{CustomResult, ServerResult, Tool};
use serde::Deserialize as _;
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;
use toolhost_contract::value_counter::parsed_size;
use toolhost_contract::{Digest, text};

use crate::approvals::{ApprovalError, Approvals, ToolChange, ToolComparison};
use crate::config::ServerConfig;
use crate::connection::ConnectionHandle;
use crate::error::{ServerError, auth_challenge};
use crate::tool_conversion::{AdoptedTool, ExcludedTool, MAX_TOOLS, ToolCheck, convert_tools};

const MAX_PAGES: usize = 200;
const MAX_REASON: usize = 300;
/// Maximum size of all pages together, in memory.
const MAX_BYTES: usize = 32 << 20;
/// Timeout for all pages together.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub struct Listing {
    pub tools: Vec<AdoptedTool>,
    pub excluded: Vec<ExcludedTool>,
    /// Tools that are left out because they differ from what was approved.
    pub changed: Vec<ToolChange>,
    /// Digest of all definitions and of the server's configuration, which approvals of calls are bound to.
    pub digest: Digest,
    /// Protocol version, such as `2026-07-28`.
    pub version: String,
    pub is_modern: bool,
    /// The server's own name, for display only.
    pub reported_name: Option<String>,
}

impl Listing {
    /// Whether the same tools are served and left out.
    pub fn is_same(&self, other: &Self) -> bool {
        self.digest == other.digest
            && self.excluded == other.excluded
            && self.version == other.version
    }
}

/// Lists the tools of a server and compares them with the approved ones.
pub async fn list(
    config: &ServerConfig,
    live: &ConnectionHandle,
    checks: &ListingChecks,
) -> Result<Listing, ServerError> {
    let (tools, unusable) = fetch(config, live).await?;
    let (resolved, mut left_out) = checks.check_tools(config, tools).await?;
    left_out.extend(unusable);
    let changed = resolved.changed.iter();
    left_out.extend(changed.map(|change| ExcludedTool::changed(&config.name, change)));
    let reported_name = live
        .info
        .server_info
        .as_ref()
        .map(|info| text::escape_line(&format!("{} {}", info.name, info.version), 100));
    Ok(Listing {
        digest: digest(config, &resolved.same),
        tools: resolved.same,
        excluded: left_out,
        changed: resolved.changed,
        version: text::escape_line(live.version(), 40),
        is_modern: live.is_modern(),
        reported_name,
    })
}

/// Fetches all pages up to the limits, and states which tools are malformed and what was cut off.
async fn fetch(
    config: &ServerConfig,
    live: &ConnectionHandle,
) -> Result<(Vec<Tool>, Vec<ExcludedTool>), ServerError> {
    let failed = |reason: String| ServerError::List {
        server: config.name.clone(),
        reason: config.mask(&text::escape_line(&reason, 300)),
    };
    let pages = async {
        let mut tools: Vec<Tool> = Vec::new();
        let mut malformed = Vec::new();
        let mut bytes = 0;
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let requested: Option<String> = cursor.take();
            let page = live.list_tools(requested.clone()).await;
            let page = page.map_err(|error| match auth_challenge(&error) {
                Some(challenge) => ServerError::LoginRequired {
                    server: config.name.clone(),
                    challenge: Some(challenge),
                },
                None => failed(error.to_string()),
            })?;
            bytes += serde_json::to_vec(&page).map_or(0, |page| parsed_size(&page));
            if bytes > MAX_BYTES {
                break;
            }
            let page = ToolPage::parse(page).map_err(&failed)?;
            tools.extend(page.tools);
            let wanted = |one: &ExcludedTool| config.includes(&one.tool);
            malformed.extend(page.malformed.into_iter().filter(wanted));
            match page.next_cursor {
                None => return Ok((tools, malformed)),
                next if next == requested => break,
                next => cursor = next,
            }
            if tools.len() + malformed.len() > MAX_TOOLS {
                break;
            }
        }
        tools.truncate(MAX_TOOLS);
        let rest = ExcludedTool::new(
            "…",
            format!(
                "the list does not end after {} tools or {MAX_BYTES} bytes",
                tools.len()
            ),
        );
        malformed.push(rest);
        Ok((tools, malformed))
    };
    if live.info.capabilities.tools.is_none() {
        return Ok((Vec::new(), Vec::new()));
    }
    let (mut tools, mut left_out) = timeout(LIST_TIMEOUT, pages).await.map_err(|_| {
        failed(format!(
            "it did not answer within {} s",
            LIST_TIMEOUT.as_secs()
        ))
    })??;
    if tools.len() > MAX_TOOLS {
        let reason = format!("{} tools, the limit is {MAX_TOOLS}", tools.len());
        tools.truncate(MAX_TOOLS);
        left_out.push(ExcludedTool::new("…", reason));
    }
    Ok((tools, left_out))
}

/// A page of the list of tools.
struct ToolPage {
    tools: Vec<Tool>,
    malformed: Vec<ExcludedTool>,
    next_cursor: Option<String>,
}

impl ToolPage {
    /// Parses the tools one by one if they are not all valid.
    fn parse(page: ServerResult) -> Result<Self, String> {
        let page = match page {
            ServerResult::ListToolsResult(page) => {
                return Ok(Self {
                    tools: page.tools,
                    malformed: Vec::new(),
                    next_cursor: page.next_cursor,
                });
            }
            ServerResult::CustomResult(CustomResult(page)) => page,
            _ => return Err("it returned a result of another kind".to_owned()),
        };
        let Some(listed) = page["tools"].as_array() else {
            return Err("its result has no array `tools`".to_owned());
        };
        let mut parsed = Self {
            tools: Vec::new(),
            malformed: Vec::new(),
            next_cursor: page["nextCursor"].as_str().map(str::to_owned),
        };
        for (at, tool) in listed.iter().enumerate() {
            match Tool::deserialize(tool) {
                Ok(tool) => parsed.tools.push(tool),
                Err(error) => {
                    let name = tool["name"].as_str();
                    let name = name.map_or_else(|| format!("#{}", at + 1), str::to_owned);
                    let reason = text::escape_line(&error.to_string(), MAX_REASON);
                    let reason = format!("its definition is not valid: {reason}");
                    parsed.malformed.push(ExcludedTool::new(&name, reason));
                }
            }
        }
        Ok(parsed)
    }
}

fn digest(config: &ServerConfig, tools: &[AdoptedTool]) -> Digest {
    let mut hash = Sha256::new();
    hash.update(config.digest().0);
    for one in tools {
        hash.update(one.definition.digest.0);
    }
    Digest(hash.finalize().into())
}

/// The checks that a listing must pass.
#[derive(Clone)]
pub struct ListingChecks {
    pub accept: Arc<ToolCheck>,
    pub approvals: Arc<Approvals>,
}

impl ListingChecks {
    /// Checks that the user has approved this server. Checked each time, because the approval can be revoked.
    pub async fn check_approved(&self, config: &ServerConfig) -> Result<(), ServerError> {
        let (server, digest) = (config.name.clone(), config.digest());
        self.run_blocking(config, move |checks| {
            if checks.approvals.is_approved(&server, digest)? {
                Ok(())
            } else {
                Err(ApprovalError::Revoked { server })
            }
        })
        .await
    }

    async fn check_tools(
        &self,
        config: &ServerConfig,
        tools: Vec<Tool>,
    ) -> Result<(ToolComparison, Vec<ExcludedTool>), ServerError> {
        let own = config.clone();
        self.run_blocking(config, move |checks| {
            let (adopted, left_out) = convert_tools(&own, tools, &*checks.accept);
            let resolved = checks.approvals.compare(&own.name, own.digest(), adopted)?;
            Ok((resolved, left_out))
        })
        .await
    }

    /// Runs blocking work on another thread, because a list can be long and a file can be locked.
    async fn run_blocking<T: Send + 'static>(
        &self,
        config: &ServerConfig,
        work: impl FnOnce(&Self) -> Result<T, ApprovalError> + Send + 'static,
    ) -> Result<T, ServerError> {
        let checks = self.clone();
        let server = config.name.clone();
        match tokio::task::spawn_blocking(move || work(&checks)).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error @ ApprovalError::Revoked { .. })) => Err(ServerError::Config {
                server,
                reason: error.to_string(),
            }),
            Ok(Err(error)) => Err(ServerError::List {
                server,
                reason: error.to_string(),
            }),
            Err(error) => Err(ServerError::List {
                server,
                reason: error.to_string(),
            }),
        }
    }
}
