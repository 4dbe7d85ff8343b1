//! `host plugins`: lists loaded plugins with their grants, and why others could not be loaded.

use serde_json::{Value, json};
use toolhost::{Broken, Served};
use toolhost_contract::units::{show_duration, show_size};
use toolhost_contract::{Digest, text};

use super::load_to_look;
use crate::args::ListArgs;
use crate::exit::{Exit, Failure, OrExit};
use crate::json;
use crate::load::Host;
use crate::terminal::print;
use crate::terminal::style::table;

pub async fn plugins(args: ListArgs) -> Result<Exit, Failure> {
    let host = load_to_look(&args.host).await?;
    let shown = if args.json {
        json::pretty(&as_json(&host)).or_exit(Exit::Internal)?
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

pub fn plugin_table(host: &Host) -> String {
    let loaded = host.loaded.plugins.iter().map(|served| {
        vec![
            served.manifest.name.to_string(),
            served.manifest.version.clone(),
            short(served.digest),
            served.tools.len().to_string(),
            grants(served),
        ]
    });
    let broken = host.loaded.broken.iter().map(|Broken { path, reason }| {
        let name = path
            .file_name()
            .unwrap_or(path.as_os_str())
            .to_string_lossy();
        let dash = || "-".to_owned();
        vec![
            text::inline(&name, 64),
            dash(),
            dash(),
            dash(),
            format!("broken: {}", text::inline(reason, 300)),
        ]
    });
    table(
        &["PLUGIN", "VERSION", "DIGEST", "TOOLS", "GRANTED"],
        loaded.chain(broken),
    )
}

/// A prefix of the digest that is long enough to distinguish builds.
fn short(digest: Digest) -> String {
    digest
        .to_string()
        .chars()
        .take("sha256:".len() + 12)
        .collect()
}

fn grants(served: &Served) -> String {
    let mut words: Vec<String> = served
        .folders
        .iter()
        .map(|folder| {
            format!(
                "{} = {} ({})",
                folder.guest,
                text::inline(&folder.host.to_string_lossy(), 200),
                folder.access
            )
        })
        .collect();
    words.extend(served.env.iter().map(|name| format!("${name}")));
    words.extend(served.beyond.iter().map(|word| text::inline(word, 80)));
    if words.is_empty() {
        words.push("nothing".to_owned());
    }
    words.push(show_size(served.limits.memory));
    words.extend(served.limits.timeout.map(show_duration));
    words.join(", ")
}

fn as_json(host: &Host) -> Value {
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
                "folders": served.folders.iter().map(|folder| json!({
                    "guest": folder.guest, "host": folder.host, "access": folder.access,
                })).collect::<Vec<_>>(),
                "env": served.env,
                "beyond": served.beyond,
            },
            "limits": json::limits(&served.limits),
        })
    });
    let broken = host
        .loaded
        .broken
        .iter()
        .map(|Broken { path, reason }| json!({"file": path, "reason": reason}));
    json!({"plugins": loaded.collect::<Vec<_>>(), "broken": broken.collect::<Vec<_>>()})
}
