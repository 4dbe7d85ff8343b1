//! `host plugins`: lists loaded plugins with their grants, and why others could not be loaded.

use serde_json::{Value, json};
use toolhost::{BrokenPlugin, ServedPlugin};
use toolhost_contract::units::{format_duration, format_size};
use toolhost_contract::{Digest, text};

use super::load_for_listing;
use crate::exit::{CliError, Exit, OrExit};
use crate::host_args::ListArgs;
use crate::json;
use crate::load::RunningHost;
use crate::terminal::print;
use crate::terminal::style::table;

pub async fn plugins(args: ListArgs) -> Result<Exit, CliError> {
    let host = load_for_listing(&args.host).await?;
    let shown = if args.json {
        json::pretty(&to_json(&host)).or_exit(Exit::Internal)?
    } else {
        plugin_table(&host)
    };
    print(&shown).or_exit(Exit::Internal)?;
    Ok(if host.loaded.plugins.is_empty() {
        Exit::NoPlugin
    } else {
        Exit::Ok
    })
}

pub fn plugin_table(host: &RunningHost) -> String {
    let loaded = host.loaded.plugins.iter().map(|served| {
        vec![
            served.manifest.name.to_string(),
            served.manifest.version.clone(),
            short_digest(served.digest),
            served.tools.len().to_string(),
            format_grants(served),
        ]
    });
    let broken = host
        .loaded
        .broken
        .iter()
        .map(|BrokenPlugin { path, reason }| {
            let name = path
                .file_name()
                .unwrap_or(path.as_os_str())
                .to_string_lossy();
            let dash = || "-".to_owned();
            vec![
                text::escape_line(&name, 64),
                dash(),
                dash(),
                dash(),
                format!("broken: {}", text::escape_line(reason, 300)),
            ]
        });
    table(
        &["PLUGIN", "VERSION", "DIGEST", "TOOLS", "GRANTED"],
        loaded.chain(broken),
    )
}

/// A prefix of the digest that is long enough to distinguish builds.
fn short_digest(digest: Digest) -> String {
    digest
        .to_string()
        .chars()
        .take("sha256:".len() + 12)
        .collect()
}

fn format_grants(served: &ServedPlugin) -> String {
    let mut grants: Vec<String> = served
        .directories
        .iter()
        .map(|folder| {
            format!(
                "{} = {} ({})",
                folder.guest,
                text::escape_line(&folder.host.to_string_lossy(), 200),
                folder.access
            )
        })
        .collect();
    grants.extend(served.env.iter().map(|name| format!("${name}")));
    grants.extend(
        served
            .capability_names
            .iter()
            .map(|name| text::escape_line(name, 80)),
    );
    if grants.is_empty() {
        grants.push("nothing".to_owned());
    }
    grants.push(format_size(served.limits.memory));
    grants.extend(served.limits.timeout.map(format_duration));
    grants.join(", ")
}

fn to_json(host: &RunningHost) -> Value {
    let loaded = host.loaded.plugins.iter().map(|served| {
        json!({
            "name": served.manifest.name,
            "version": served.manifest.version,
            "description": served.manifest.description,
            "file": served.path,
            "size": served.size,
            "digest": served.digest.to_string(),
            "tools": served.tools,
            "needs": json::needs(&served.manifest),
            "granted": {
                "folders": served.directories.iter().map(|folder| json!({
                    "guest": folder.guest, "host": folder.host, "access": folder.access,
                })).collect::<Vec<_>>(),
                "env": served.env,
                "beyond": served.capability_names,
            },
            "limits": json::limits(&served.limits),
        })
    });
    let broken = host
        .loaded
        .broken
        .iter()
        .map(|BrokenPlugin { path, reason }| json!({"file": path, "reason": reason}));
    json!({"plugins": loaded.collect::<Vec<_>>(), "broken": broken.collect::<Vec<_>>()})
}
