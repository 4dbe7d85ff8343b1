//! What a server offers: its tools, as far as they can be taken and are what a person approved.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{PaginatedRequestParams, Tool};
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;
use toolhost_contract::{Digest, text};

use crate::adopt::{Accept, Adopted, LeftOut, MAX_TOOLS, adopt};
use crate::approvals::Approvals;
use crate::config::ServerConfig;
use crate::definition::Definition;
use crate::error::{ServerError, challenge};
use crate::link::Live;
use crate::shape::weight;

const MAX_PAGES: usize = 200;
/// Of all pages together, as they lie in memory.
const MAX_BYTES: usize = 32 << 20;
/// For all pages together.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub struct Listing {
    pub tools: Vec<Adopted>,
    pub left_out: Vec<LeftOut>,
    /// Those that are left out because they are not what was approved, as they are now.
    pub changed: Vec<Definition>,
    /// Of all definitions and of how the server is reached: what approvals of calls are bound to.
    pub digest: Digest,
    /// Of the protocol, such as `2026-07-28`.
    pub version: String,
    pub modern: bool,
    /// What the server calls itself; for people only.
    pub says: Option<String>,
}

/// Asks the server and judges what it says.
pub async fn list(
    config: &ServerConfig,
    live: &Live,
    accept: &Accept,
    approvals: &Approvals,
) -> Result<Listing, ServerError> {
    let (tools, cut) = fetch(config, live).await?;
    let (adopted, mut left_out) = adopt(config, tools, accept);
    left_out.extend(cut);
    let known: Vec<_> = adopted.iter().map(|one| &one.definition).collect();
    let changes = approvals
        .compare(&config.name, config.digest(), &known)
        .map_err(|error| ServerError::List {
            server: config.name.clone(),
            reason: error.to_string(),
        })?;
    let (mut served, mut changed) = (Vec::new(), Vec::new());
    let mut definitions = Vec::new();
    for one in adopted {
        match changes
            .iter()
            .find(|change| change.tool == one.definition.tool)
        {
            None => served.push(one),
            Some(change) => {
                definitions.push(one.definition);
                changed.push(LeftOut::changed(&config.name, change));
            }
        }
    }
    left_out.extend(changed);
    let says = live
        .info
        .server_info
        .as_ref()
        .map(|info| text::inline(&format!("{} {}", info.name, info.version), 100));
    Ok(Listing {
        digest: digest(config, &served),
        tools: served,
        left_out,
        changed: definitions,
        version: text::inline(live.version(), 40),
        modern: live.is_modern(),
        says,
    })
}

/// All pages, as far as a list may go; and what was cut off.
async fn fetch(
    config: &ServerConfig,
    live: &Live,
) -> Result<(Vec<Tool>, Option<LeftOut>), ServerError> {
    let failed = |reason: String| ServerError::List {
        server: config.name.clone(),
        reason: config.hide(&text::inline(&reason, 300)),
    };
    let pages = async {
        let mut tools: Vec<Tool> = Vec::new();
        let mut bytes = 0;
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let mut params = PaginatedRequestParams::default();
            params.cursor = cursor.take();
            let asked = params.cursor.clone();
            let page = live.peer.list_tools(Some(params)).await;
            let page = page.map_err(|error| match challenge(&error) {
                Some(challenge) => ServerError::Login {
                    server: config.name.clone(),
                    challenge: Some(challenge),
                },
                None => failed(error.to_string()),
            })?;
            bytes += serde_json::to_vec(&page).map_or(0, |page| weight(&page));
            if bytes > MAX_BYTES {
                break;
            }
            tools.extend(page.tools);
            match page.next_cursor {
                None => return Ok((tools, None)),
                next if next == asked => break,
                next => cursor = next,
            }
            if tools.len() > MAX_TOOLS {
                break;
            }
        }
        tools.truncate(MAX_TOOLS);
        let rest = LeftOut::new(
            "…",
            format!(
                "the list does not end after {} tools, or after {MAX_BYTES} bytes",
                tools.len()
            ),
        );
        Ok((tools, Some(rest)))
    };
    if live.info.capabilities.tools.is_none() {
        return Ok((Vec::new(), None));
    }
    let (mut tools, mut cut) = timeout(PATIENCE, pages)
        .await
        .map_err(|_| failed(format!("it did not answer within {} s", PATIENCE.as_secs())))??;
    if tools.len() > MAX_TOOLS {
        let reason = format!("{} tools, the limit is {MAX_TOOLS}", tools.len());
        tools.truncate(MAX_TOOLS);
        cut = Some(LeftOut::new("…", reason));
    }
    Ok((tools, cut))
}

fn digest(config: &ServerConfig, tools: &[Adopted]) -> Digest {
    let mut hash = Sha256::new();
    hash.update(config.digest().0);
    for one in tools {
        hash.update(one.definition.digest.0);
    }
    Digest(hash.finalize().into())
}

/// What a listing is judged by.
#[derive(Clone)]
pub struct Judges {
    pub accept: Arc<Accept>,
    pub approvals: Arc<Approvals>,
}
