//! `host tools`: what can be called.

use serde_json::Value;
use toolhost_contract::profile::{Profile, Shown};
use toolhost_contract::text;
use toolhost_kernel::Snapshot;

use super::load_to_look;
use crate::args::ListArgs;
use crate::exit::{Exit, Failure, OrExit};
use crate::json;
use crate::terminal::print;
use crate::terminal::style::table;

pub async fn tools(args: ListArgs) -> Result<Exit, Failure> {
    let host = load_to_look(&args.host).await?;
    host.require_plugins()?;
    let registry = host.kernel.registry();
    let shown = if args.json {
        let tools = match host.settings.profile {
            Profile::Native => Value::Array(registry.list_all().map(json::entry).collect()),
            profile => {
                let shown = registry.lens(profile, host.settings.others).show();
                Value::Array(shown.iter().map(json::shown).collect())
            }
        };
        serde_json::to_string_pretty(&tools).or_exit(Exit::Internal)?
    } else {
        match host.settings.profile {
            Profile::Native => tool_table(&registry),
            profile => shown_table(&registry.lens(profile, host.settings.others).show()),
        }
    };
    print(&shown).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

/// As the profile's model sees them, with the names that rules and records use.
fn shown_table(shown: &[Shown]) -> String {
    table(
        &["TOOL", "CANONICAL", "DESCRIPTION"],
        shown.iter().map(|one| {
            vec![
                text::inline(&one.name, 64),
                one.canonical.to_string(),
                text::inline(first_sentence(&one.descriptor.description), 100),
            ]
        }),
    )
}

pub fn tool_table(registry: &Snapshot) -> String {
    table(
        &["TOOL", "EFFECT", "PLUGIN", "DESCRIPTION"],
        registry.list_all().map(|entry| {
            let off = if entry.enabled { "" } else { "(disabled) " };
            vec![
                entry.name.to_string(),
                entry.tool.effect().as_str().to_owned(),
                entry.plugin.name.to_string(),
                format!(
                    "{off}{}",
                    text::inline(first_sentence(&entry.tool.description), 100)
                ),
            ]
        }),
    )
}

fn first_sentence(description: &str) -> &str {
    let line = description.lines().next().unwrap_or_default();
    line.split_once(". ")
        .map_or(line, |(sentence, _)| sentence)
        .trim_end_matches('.')
}
