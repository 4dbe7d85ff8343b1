//! `host mcp list` and `host mcp test`: the state of servers and what they list.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolhost::mcp_servers::program_reads;
use toolhost_contract::text;
use toolhost_mcp_client::{Listing, ServerConfig, ServerSandbox, TransportConfig, needs_approval};

use super::{ListArgs, TestArgs, find, load, require_approval};
use crate::exit::{CliError, Exit, OrExit as _};
use crate::json;
use crate::load::servers::{self, ConfiguredServer, ServerStatus, ServerStorage, Servers, start};
use crate::terminal::print;
use crate::terminal::style::table;

/// Number of tools whose changes `test` shows, and characters of each; `approve` shows all changes.
const MAX_TOOLS_SHOWN: usize = 3;
const MAX_DIFF_CHARS: usize = 8_000;
/// Time limit of all diffs together.
const DIFF_TIMEOUT: Duration = Duration::from_secs(2);

pub async fn list(args: &ListArgs) -> Result<Exit, CliError> {
    let settings = load(&args.file)?;
    let servers = Servers::start(
        &settings,
        &ServerStorage::from_settings(&settings),
        Arc::new(|_, _| ()),
    );
    let started: Vec<_> = servers.started().map(Arc::clone).collect();
    servers::wait_until_started(&started).await;
    let shown = if args.json {
        let all: Vec<Value> = servers.configured.iter().map(to_json).collect();
        json::pretty(&all).or_exit(Exit::Internal)?
    } else if servers.configured.is_empty() {
        "no servers; `host mcp add NAME -- COMMAND` adds one".to_owned()
    } else {
        let rows = servers.configured.iter().map(row);
        table(
            &["SERVER", "TRANSPORT", "STATE", "TOOLS", "SANDBOXED", "RUNS"],
            rows,
        )
    };
    servers.stop().await;
    print(&shown).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

fn row(known: &ConfiguredServer) -> Vec<String> {
    let config = known.settings.config.as_ref().ok();
    let (state, reason) = known.state();
    let tools =
        listing(known).map_or_else(|| "-".to_owned(), |listing| listing.tools.len().to_string());
    // A reason can contain lines of the server's log.
    let reason = reason.map(|reason| reason.lines().collect::<Vec<_>>().join(" "));
    let runs = reason.unwrap_or_else(|| config.map(first_line).unwrap_or_default());
    vec![
        known.name.clone(),
        config.map_or("-", ServerConfig::transport_name).to_owned(),
        state.to_owned(),
        tools,
        yes_or_no(config.is_some_and(ServerConfig::is_confined)).to_owned(),
        text::escape_line(&runs, 300),
    ]
}

fn yes_or_no(confined: bool) -> &'static str {
    if confined { "yes" } else { "no" }
}

fn first_line(config: &ServerConfig) -> String {
    config
        .description()
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}

fn listing(known: &ConfiguredServer) -> Option<Arc<Listing>> {
    match &known.status {
        ServerStatus::Started(server) => server.shared().listing(),
        ServerStatus::Disabled | ServerStatus::Broken(_) | ServerStatus::Unapproved(_) => None,
    }
}

fn to_json(known: &ConfiguredServer) -> Value {
    let (state, reason) = known.state();
    let config = known.settings.config.as_ref().ok();
    let mut shown = json!({
        "name": known.name,
        "state": state,
        "reason": reason,
        "sandboxed": config.is_some_and(ServerConfig::is_confined),
    });
    if let Some(config) = config {
        shown["transport"] = json!(config.transport_name());
        shown["trust"] = json!(config.is_trusted);
        shown["timeout_ms"] = json!(config.timeout.as_millis());
        match &config.transport {
            TransportConfig::Stdio(program) => {
                shown["command"] = json!(program.command);
                shown["args"] = json!(program.args);
                shown["cwd"] = json!(program.cwd.to_string_lossy());
                shown["env"] = json!(program.env.keys().collect::<Vec<_>>());
                if let ServerSandbox::Confined(profile) = &program.sandbox {
                    shown["sandbox"] = json!(profile.lines());
                    let reads = program_reads(config).into_iter();
                    let reads = reads.filter(|path| needs_approval(path));
                    shown["program_reads"] = json!(reads.collect::<Vec<_>>());
                }
            }
            TransportConfig::Http(address) => {
                shown["url"] = json!(address.shown);
                shown["headers"] = json!(address.headers.keys().collect::<Vec<_>>());
            }
        }
    }
    if let Some(listing) = listing(known) {
        add_listing(&mut shown, &listing);
    }
    shown
}

fn add_listing(shown: &mut Value, listing: &Listing) {
    shown["protocol"] = json!(listing.version);
    shown["era"] = json!(era(listing));
    shown["server"] = json!(listing.reported_name);
    let tools = listing
        .tools
        .iter()
        .map(|one| one.descriptor.name.to_string());
    shown["tools"] = json!(tools.collect::<Vec<_>>());
    let left_out = listing.excluded.iter();
    shown["left_out"] = left_out
        .map(|one| json!({"tool": one.tool, "reason": one.reason, "changed": one.is_changed}))
        .collect();
}

fn era(listing: &Listing) -> &'static str {
    if listing.is_modern {
        "modern"
    } else {
        "legacy"
    }
}

pub async fn test(args: &TestArgs) -> Result<Exit, CliError> {
    let settings = load(&args.file)?;
    let keep = ServerStorage::from_settings(&settings);
    let server = find(&settings, &args.name)?;
    let config = server
        .config
        .as_ref()
        .map_err(|reason| CliError::new(Exit::Config, reason.clone()))?;
    require_approval(&keep, config)?;
    let begun = Instant::now();
    let running = start(config.clone(), &settings, &keep, Arc::new(|_, _| ()));
    let listing = running.shared().first_listing().await;
    let took = begun.elapsed();
    running.stop().await;
    let listing = listing.or_exit(Exit::ToolFailed)?;
    let shown = if args.json {
        let mut shown = json!({"name": args.name, "ok": true, "took_ms": took.as_millis()});
        add_listing(&mut shown, &listing);
        json::pretty(&shown).or_exit(Exit::Internal)?
    } else {
        format_listing(&listing, took.as_millis())
    };
    print(&shown).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

fn format_listing(listing: &Listing, took: u128) -> String {
    let mut lines = vec![format!(
        "connected in {took} ms: MCP {} ({}), {}",
        listing.version,
        era(listing),
        listing.reported_name.as_deref().unwrap_or("unnamed server")
    )];
    lines.extend(listing.tools.iter().map(|one| {
        format!(
            "  {} ({})",
            one.descriptor.name,
            one.descriptor.effect().as_str()
        )
    }));
    for one in &listing.excluded {
        let reason = text::escape_lines(&one.reason, 10_000).replace('\n', "\n    ");
        lines.push(format!("  left out {}: {reason}", one.tool));
    }
    let deadline = Instant::now() + DIFF_TIMEOUT;
    for change in listing.changed.iter().take(MAX_TOOLS_SHOWN) {
        let shown = text::escape_lines(&change.difference(deadline), MAX_DIFF_CHARS)
            .replace('\n', "\n    ");
        lines.push(format!("  {}:\n    {shown}", change.now.descriptor.name));
    }
    lines.join("\n")
}
