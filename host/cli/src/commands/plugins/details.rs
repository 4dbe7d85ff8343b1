//! What one plugin can read, change, contact and start, in plain words.

use toolhost::{ServedPlugin, Settings};
use toolhost_contract::text;
use toolhost_contract::units::{format_duration, format_size};
use toolhost_kernel::RegistrySnapshot;

use super::short_digest;
use crate::terminal::style::{Paint, Style};

const PROGRAM: &str = "program:";
const CALLED_TOOL: &str = "tool:";
/// The names of capabilities that have an own line.
const NETWORK: &str = "net";
const TOOLS: &str = "tools";
/// Access of a granted directory that can be changed.
const READ_WRITE: &str = "rw";

pub fn describe(
    served: &ServedPlugin,
    settings: &Settings,
    registry: &RegistrySnapshot,
    style: Style,
) -> String {
    let manifest = &served.manifest;
    let title = format!(
        "{} {}",
        manifest.name,
        text::escape_line(&manifest.version, 64)
    );
    let mut lines = vec![format!(
        "{}: {}",
        style.paint(Paint::Bold, &title),
        text::escape_line(&manifest.description, 300)
    )];
    let mut field = |label: &str, values: Vec<String>| {
        let mut values = values.into_iter();
        let first = values.next().unwrap_or_else(|| "nothing".to_owned());
        lines.push(format!("  {label:<10} {first}"));
        lines.extend(values.map(|value| format!("  {:<10} {value}", "")));
    };
    field("reads", directories(served, |_| true));
    field(
        "changes",
        directories(served, |access| access == READ_WRITE),
    );
    field("contacts", hosts(served, settings));
    field("starts", named(served, PROGRAM));
    field(
        "variables",
        served.env.iter().map(|name| format!("${name}")).collect(),
    );
    let calls = named(served, CALLED_TOOL);
    let may_call_all = calls.is_empty() && served.capability_names.iter().any(|name| name == TOOLS);
    field(
        "calls",
        if may_call_all {
            vec!["all other tools".to_owned()]
        } else {
            calls
        },
    );
    field("also", others(served));
    field("limits", limits(served));
    let tools = registry
        .list_all()
        .filter(|entry| entry.plugin.name == manifest.name)
        .map(|entry| format!("{} ({})", entry.name, entry.tool.effect().as_str()));
    field("tools", tools.collect());
    field(
        "file",
        vec![
            text::escape_line(&served.path.to_string_lossy(), 500),
            short_digest(served.digest),
        ],
    );
    lines.join("\n")
}

fn directories(served: &ServedPlugin, has: impl Fn(&str) -> bool) -> Vec<String> {
    let granted = served.directories.iter().filter(|one| has(one.access));
    granted
        .map(|one| {
            let host = text::escape_line(&one.host.to_string_lossy(), 300);
            format!("{host} (as {})", one.guest)
        })
        .collect()
}

fn hosts(served: &ServedPlugin, settings: &Settings) -> Vec<String> {
    if !served.capability_names.iter().any(|name| name == NETWORK) {
        return Vec::new();
    }
    let hosts = settings.external_access.hosts.iter();
    hosts.map(|host| text::escape_line(host, 200)).collect()
}

fn named(served: &ServedPlugin, prefix: &str) -> Vec<String> {
    let names = served.capability_names.iter();
    names
        .filter_map(|name| name.strip_prefix(prefix))
        .map(|name| text::escape_line(name, 80))
        .collect()
}

/// Host services in words.
fn others(served: &ServedPlugin) -> Vec<String> {
    let word = |name: &String| match name.as_str() {
        "session" => Some("keeps data during a session"),
        "user" => Some("asks you questions"),
        "agents" => Some("starts other agents"),
        "resources" => Some("reads resources of MCP servers"),
        _ => None,
    };
    let words = served.capability_names.iter().filter_map(word);
    words.map(ToOwned::to_owned).collect()
}

fn limits(served: &ServedPlugin) -> Vec<String> {
    let memory = format!("{} of memory", format_size(served.limits.memory));
    let time = served.limits.timeout.map(format_duration);
    let time = time.map(|time| format!("{time} for each call"));
    vec![
        [Some(memory), time]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(", "),
    ]
}
