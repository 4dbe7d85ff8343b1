//! `host mcp list` and `host mcp test`: the state of servers and what they list.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolhost_contract::text;
use toolhost_mcp_client::{Listing, ServerConfig, Way};

use super::{ListArgs, TestArgs, find, load, needs_approval};
use crate::exit::{Exit, Failure, OrExit as _};
use crate::json;
use crate::load::servers::{self, Keep, Known, Servers, Standing, start};
use crate::terminal::print;
use crate::terminal::style::table;

/// Number of tools whose changes `test` shows, and characters of each; `approve` shows all changes.
const FEW: usize = 3;
const MAX_SHOWN: usize = 8_000;
/// Time limit of all diffs together.
const PATIENCE: Duration = Duration::from_secs(2);

pub async fn list(args: &ListArgs) -> Result<Exit, Failure> {
    let settings = load(&args.file)?;
    let servers = Servers::start(&settings, &Keep::of(&settings), Arc::new(|_, _| ()));
    let started: Vec<_> = servers.started().map(Arc::clone).collect();
    servers::wait(&started).await;
    let shown = if args.json {
        let all: Vec<Value> = servers.known.iter().map(as_json).collect();
        json::pretty(&all).or_exit(Exit::Internal)?
    } else if servers.known.is_empty() {
        "no servers; `host mcp add NAME -- COMMAND` adds one".to_owned()
    } else {
        let rows = servers.known.iter().map(row);
        table(
            &["SERVER", "TRANSPORT", "STATE", "TOOLS", "SANDBOXED", "RUNS"],
            rows,
        )
    };
    servers.stop().await;
    print(&shown).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

fn row(known: &Known) -> Vec<String> {
    let config = known.settings.config.as_ref().ok();
    let (state, reason) = state(known);
    let tools =
        listing(known).map_or_else(|| "-".to_owned(), |listing| listing.tools.len().to_string());
    let runs = reason.unwrap_or_else(|| config.map(line).unwrap_or_default());
    vec![
        known.name.clone(),
        config.map_or("-", ServerConfig::transport).to_owned(),
        state.to_owned(),
        tools,
        "no".to_owned(),
        text::inline(&runs, 300),
    ]
}

fn line(config: &ServerConfig) -> String {
    config.shown().lines().next().unwrap_or_default().to_owned()
}

/// The state in one word, and the reason for a failure.
fn state(known: &Known) -> (&'static str, Option<String>) {
    match &known.standing {
        Standing::Disabled => ("disabled", None),
        Standing::Broken(reason) => ("broken", Some(reason.clone())),
        Standing::Unapproved => (
            "not approved",
            Some(format!("approve it with `host mcp approve {}`", known.name)),
        ),
        Standing::Started(server) => {
            let state = server.shared().state();
            let reason = match &state {
                toolhost_mcp_client::State::Waiting { reason, .. } => Some(reason.clone()),
                toolhost_mcp_client::State::GaveUp { error } => Some(error.to_string()),
                _ => None,
            };
            (state.word(), reason)
        }
    }
}

fn listing(known: &Known) -> Option<Arc<Listing>> {
    match &known.standing {
        Standing::Started(server) => server.shared().listing(),
        Standing::Disabled | Standing::Broken(_) | Standing::Unapproved => None,
    }
}

fn as_json(known: &Known) -> Value {
    let (state, reason) = state(known);
    let config = known.settings.config.as_ref().ok();
    let mut shown = json!({
        "name": known.name,
        "state": state,
        "reason": reason,
        "sandboxed": false,
    });
    if let Some(config) = config {
        shown["transport"] = json!(config.transport());
        shown["trust"] = json!(config.trust);
        shown["timeout_ms"] = json!(config.timeout.as_millis());
        match &config.way {
            Way::Stdio(program) => {
                shown["command"] = json!(program.command);
                shown["args"] = json!(program.args);
                shown["cwd"] = json!(program.cwd);
                shown["env"] = json!(program.env.keys().collect::<Vec<_>>());
            }
            Way::Http(address) => {
                shown["url"] = json!(address.shown);
                shown["headers"] = json!(address.headers.keys().collect::<Vec<_>>());
            }
        }
    }
    if let Some(listing) = listing(known) {
        said(&mut shown, &listing);
    }
    shown
}

fn said(shown: &mut Value, listing: &Listing) {
    shown["protocol"] = json!(listing.version);
    shown["era"] = json!(era(listing));
    shown["server"] = json!(listing.says);
    let tools = listing
        .tools
        .iter()
        .map(|one| one.descriptor.name.to_string());
    shown["tools"] = json!(tools.collect::<Vec<_>>());
    let left_out = listing.left_out.iter();
    shown["left_out"] = left_out
        .map(|one| json!({"tool": one.tool, "reason": one.reason, "changed": one.changed}))
        .collect();
}

fn era(listing: &Listing) -> &'static str {
    if listing.modern { "modern" } else { "legacy" }
}

pub async fn test(args: &TestArgs) -> Result<Exit, Failure> {
    let settings = load(&args.file)?;
    let keep = Keep::of(&settings);
    let server = find(&settings, &args.name)?;
    let config = server
        .config
        .as_ref()
        .map_err(|reason| Failure::new(Exit::Config, reason.clone()))?;
    needs_approval(&keep, config)?;
    let begun = Instant::now();
    let running = start(config.clone(), &settings, &keep, Arc::new(|_, _| ()));
    let listing = running.shared().first().await;
    let took = begun.elapsed();
    running.stop().await;
    let listing = listing.or_exit(Exit::ToolFailed)?;
    let shown = if args.json {
        let mut shown = json!({"name": args.name, "ok": true, "took_ms": took.as_millis()});
        said(&mut shown, &listing);
        json::pretty(&shown).or_exit(Exit::Internal)?
    } else {
        in_words(&listing, took.as_millis())
    };
    print(&shown).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

fn in_words(listing: &Listing, took: u128) -> String {
    let mut lines = vec![format!(
        "connected in {took} ms: MCP {} ({}), {}",
        listing.version,
        era(listing),
        listing.says.as_deref().unwrap_or("unnamed server")
    )];
    lines.extend(listing.tools.iter().map(|one| {
        format!(
            "  {} ({})",
            one.descriptor.name,
            one.descriptor.effect().as_str()
        )
    }));
    for one in &listing.left_out {
        let reason = text::block(&one.reason, 10_000).replace('\n', "\n    ");
        lines.push(format!("  left out {}: {reason}", one.tool));
    }
    let deadline = Instant::now() + PATIENCE;
    for change in listing.changed.iter().take(FEW) {
        let shown = text::block(&change.difference(deadline), MAX_SHOWN).replace('\n', "\n    ");
        lines.push(format!("  {}:\n    {shown}", change.now.descriptor.name));
    }
    lines.join("\n")
}
