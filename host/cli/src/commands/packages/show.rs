//! What a user reads before a package is installed.

use toolhost_contract::units::format_size;
use toolhost_contract::{Capability, CapabilityRequest, Descriptor, text};
use toolhost_packages::{LockedPlugin, Reference, Signer};

use super::candidate::Candidate;
use crate::settings::CliSettings;

/// A package with its origin, signature, needs, tools and grants.
pub fn describe(candidate: &Candidate, settings: &CliSettings) -> String {
    let (locked, manifest) = (&candidate.locked, &candidate.manifest);
    let mut lines = vec![title(locked, &manifest.description)];
    lines.extend(origin(locked));
    let notes = candidate.verified.notes().iter();
    lines.extend(notes.map(|note| format!("  note       {}", text::escape_line(note, 300))));
    lines.push("  needs".to_owned());
    lines.extend(manifest.needs.iter().map(|need| {
        let why = text::decision_line(&need.why, 300);
        format!("    {}: {why}", describe_need(need))
    }));
    if manifest.needs.is_empty() {
        lines.push("    nothing".to_owned());
    }
    lines.push("  tools".to_owned());
    lines.extend(candidate.tools.iter().map(describe_tool));
    lines.push(describe_grants(candidate, settings));
    if let Some(old) = candidate.old.as_ref().filter(|old| *old != locked) {
        lines.push("replaces the installed version:".to_owned());
        lines.push(describe_update(candidate, old));
    }
    lines.join("\n")
}

/// What the configuration grants to the plugin.
pub fn describe_grants(candidate: &Candidate, settings: &CliSettings) -> String {
    let granted = toolhost::planned_grants(&candidate.manifest, &settings.core);
    let granted = if granted.is_empty() {
        "nothing".to_owned()
    } else {
        granted.join(", ")
    };
    format!("  granted by your configuration: {granted}")
}

/// What a new version changes, with `!` before changes that need approval.
pub fn describe_update(candidate: &Candidate, old: &LockedPlugin) -> String {
    let new = &candidate.locked;
    let mut lines = vec![format!("{} {} -> {}", new.name, old.version, new.version)];
    lines.extend(origin(new));
    lines.extend(candidate.changes.iter().map(|change| {
        let mark = if change.grows() { '!' } else { ' ' };
        format!("  {mark} {}", text::escape_line(&change.to_string(), 400))
    }));
    if candidate.changes.is_empty() {
        lines.push("    the same needs and tools".to_owned());
    }
    lines.join("\n")
}

pub fn title(locked: &LockedPlugin, description: &str) -> String {
    let title = format!("{} {}", locked.name, locked.version);
    if description.is_empty() {
        return title;
    }
    format!("{title}: {}", text::decision_line(description, 300))
}

/// The source, the digest and the signature of a version.
pub fn origin(locked: &LockedPlugin) -> Vec<String> {
    let source = text::escape_line(&locked.source.to_string(), 600);
    vec![
        format!("  from       {source}"),
        format!(
            "  content    {} ({})",
            locked.content,
            format_size(locked.size)
        ),
        format!("  signature  {}", describe_signer(locked.signer.as_ref())),
    ]
}

pub fn describe_signer(signer: Option<&Signer>) -> String {
    signer.map_or("none".to_owned(), |signer| format!("by {signer}"))
}

/// A short source for tables.
pub fn short_source(source: &Reference) -> String {
    text::escape_line(&source.to_string(), 80)
}

fn describe_tool(tool: &Descriptor) -> String {
    let description = tool.description.lines().next().unwrap_or_default();
    format!(
        "    {} ({}): {}",
        tool.name,
        tool.effect().as_str(),
        text::decision_line(description, 120)
    )
}

/// A need in plain words.
pub fn describe_need(need: &CapabilityRequest) -> String {
    let names: Vec<_> = need
        .names
        .iter()
        .map(|name| text::escape_line(name, 100))
        .collect();
    let names = names.join(", ");
    match need.capability {
        Capability::FsRead => "read files in directories that you allow".to_owned(),
        Capability::FsWrite => "change files in directories that you allow".to_owned(),
        Capability::Env => format!("read the environment variables {names}"),
        Capability::Net => format!("connect to {names}"),
        Capability::Process => format!("start the programs {names}"),
        Capability::Session => "keep data during a session".to_owned(),
        Capability::User => "ask you questions".to_owned(),
        Capability::Agents => "start other agents".to_owned(),
        Capability::Tools => format!("call the tools {names}"),
        Capability::Resources => "read resources of MCP servers".to_owned(),
        Capability::Memory => "keep data across sessions".to_owned(),
        Capability::Skills => "read your skills".to_owned(),
    }
}
