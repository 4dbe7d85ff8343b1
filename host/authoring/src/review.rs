//! What a reviewer would report about a plugin: descriptions and schemas that models understand badly, and needs that do
//! not match what the component imports.

use serde::Serialize;
use serde_json::Value;
use toolhost_contract::units::format_size;
use toolhost_contract::{Capability, Descriptor, Manifest, text};

mod schema;

/// What is known about a plugin without running its tools.
#[derive(Debug, Clone, Copy)]
pub struct ReviewedPlugin<'a> {
    pub manifest: &'a Manifest,
    pub tools: &'a [Descriptor],
    /// Names of the imported interfaces.
    pub imports: &'a [String],
    /// Size of the file in bytes.
    pub size: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Warning,
    Error,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub severity: Severity,
    /// Stable name of the check.
    pub code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    pub message: String,
}

impl Finding {
    pub fn error(code: &'static str, message: String) -> Self {
        Self {
            severity: Severity::Error,
            code,
            tool: None,
            message,
        }
    }

    fn warning(code: &'static str, message: String) -> Self {
        Self {
            severity: Severity::Warning,
            code,
            tool: None,
            message,
        }
    }

    #[must_use]
    pub fn of_tool(self, tool: &str) -> Self {
        Self {
            tool: Some(tool.to_owned()),
            ..self
        }
    }
}

/// Above this size, loading a plugin for the first time takes many seconds; an interpreter of Python has 19 MB.
const LARGE: u64 = 24 << 20;
/// Descriptions are part of every request to a model.
const LONG_DESCRIPTION: usize = 2_000;
const SHORT_DESCRIPTION: usize = 15;
const SHORT_REASON: usize = 10;
/// Names that tell a model nothing.
const VAGUE_NAMES: [&str; 16] = [
    "action", "call", "do", "execute", "function", "handle", "helper", "main", "misc", "my_tool",
    "plugin", "process", "run", "test", "tool", "util",
];

/// Findings about the plugin, then about each of its tools.
pub fn review(plugin: ReviewedPlugin<'_>) -> Vec<Finding> {
    let mut findings = manifest(plugin);
    findings.extend(needs(plugin));
    for tool in plugin.tools {
        let found = tool_findings(tool, plugin.manifest)
            .into_iter()
            .chain(schema::findings(tool));
        findings.extend(found.map(|finding| finding.of_tool(tool.name.as_str())));
    }
    findings
}

fn manifest(plugin: ReviewedPlugin<'_>) -> Vec<Finding> {
    let manifest = plugin.manifest;
    let mut findings = Vec::new();
    if manifest.description.trim().len() < SHORT_DESCRIPTION {
        let message = "`description` of the manifest does not say what the plugin does".to_owned();
        findings.push(Finding::warning("plugin-description", message));
    }
    if manifest.license.is_none() {
        let message = "the manifest has no `license`, so others may not use the plugin".to_owned();
        findings.push(Finding::warning("license", message));
    }
    if plugin.size > LARGE {
        let message = format!(
            "the file has {}; above {} the first start takes many seconds",
            format_size(plugin.size),
            format_size(LARGE)
        );
        findings.push(Finding::warning("size", message));
    }
    for need in &manifest.needs {
        if need.why.trim().len() < SHORT_REASON {
            let message = format!(
                "`why` of the need `{}` is too short: say what the plugin does with it",
                need.capability.as_str()
            );
            findings.push(Finding::warning("reason", message));
        }
    }
    findings
}

/// The interfaces that a capability is used through.
fn interfaces(capability: Capability) -> &'static [&'static str] {
    match capability {
        Capability::FsRead | Capability::FsWrite | Capability::Memory | Capability::Skills => {
            &["wasi:filesystem/"]
        }
        Capability::Env => &["wasi:cli/environment"],
        Capability::Net => &["wasi:http/"],
        Capability::Process => &["toolhost:plugin/process"],
        Capability::Session => &["toolhost:plugin/session"],
        Capability::User => &["toolhost:plugin/user"],
        Capability::Agents => &["toolhost:plugin/agents"],
        Capability::Tools => &["toolhost:plugin/tools"],
        Capability::Resources => &["toolhost:plugin/resources"],
    }
}

/// Services of the host. No language runtime imports their interfaces, or those of `net`, by itself.
const SERVICES: [Capability; 6] = [
    Capability::Process,
    Capability::Session,
    Capability::User,
    Capability::Agents,
    Capability::Tools,
    Capability::Resources,
];

fn needs(plugin: ReviewedPlugin<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let requested = |capability| {
        plugin
            .manifest
            .needs
            .iter()
            .any(|need| need.capability == capability)
    };
    let imported = |capability| {
        let interfaces = interfaces(capability);
        let uses = |import: &String| {
            interfaces
                .iter()
                .any(|interface| import.starts_with(interface))
        };
        plugin.imports.iter().any(uses)
    };
    // A tool without `requires` may use all needs.
    let all_declare =
        !plugin.tools.is_empty() && plugin.tools.iter().all(|tool| !tool.requires.is_empty());
    for need in &plugin.manifest.needs {
        let name = need.capability.as_str();
        let required = || {
            plugin
                .tools
                .iter()
                .any(|tool| tool.requires_capability(name))
        };
        if !imported(need.capability) {
            let message = format!(
                "the plugin needs `{name}` but does not import {}*; remove the need",
                interfaces(need.capability).join("* or ")
            );
            findings.push(Finding::warning("unused-need", message));
        } else if all_declare && !required() {
            let message = format!(
                "the plugin needs `{name}`, but no tool has it in `requires`; remove the need"
            );
            findings.push(Finding::warning("unused-need", message));
        }
    }
    // Some toolchains import the whole world, whatever the code uses.
    let imports_all = SERVICES.into_iter().all(imported);
    let services = SERVICES.into_iter().filter(|_| !imports_all);
    for capability in std::iter::once(Capability::Net).chain(services) {
        if imported(capability) && !requested(capability) {
            let message = format!(
                "the component imports {}*, but the manifest has no need `{}`: its calls fail",
                interfaces(capability).join("* or "),
                capability.as_str()
            );
            findings.push(Finding::warning("missing-need", message));
        }
    }
    findings
}

fn tool_findings(tool: &Descriptor, manifest: &Manifest) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut warn = |code, message: String| findings.push(Finding::warning(code, message));
    let description = tool.description.trim();
    if description.len() < SHORT_DESCRIPTION || !description.contains(' ') {
        warn(
            "description",
            "the description does not tell a model when to use the tool".to_owned(),
        );
    } else if description.len() > LONG_DESCRIPTION {
        warn(
            "description",
            format!(
                "the description has {} bytes, which every request to a model contains; keep it below {LONG_DESCRIPTION}",
                description.len()
            ),
        );
    }
    if is_vague(tool.name.as_str()) {
        warn(
            "name",
            "the name does not say what the tool does".to_owned(),
        );
    }
    let hints = &tool.annotations;
    if (hints.read_only, hints.pure, hints.destructive) == (None, None, None) {
        warn(
            "effect",
            "no effect is declared, so the tool is treated as `destroys`; declare `pure`, `reads` or `writes`".to_owned(),
        );
    }
    if tool.examples.is_empty() {
        warn(
            "examples",
            "the tool has no examples, which models and `host test` use".to_owned(),
        );
    }
    // The loader adds this tag.
    if tool
        .tags
        .iter()
        .any(|tag| tag == "invisible characters removed")
    {
        let message = "its texts contained invisible characters, which the host removes".to_owned();
        findings.push(Finding::error("invisible-characters", message));
    }
    for required in &tool.requires {
        if !manifest
            .needs
            .iter()
            .any(|need| need.capability.as_str() == required)
        {
            let required = text::escape_line(required, 80);
            let message = format!("it requires `{required}`, which is not a need of the manifest");
            findings.push(Finding::error("requires", message));
        }
    }
    findings
}

fn is_vague(name: &str) -> bool {
    name.len() < 3 || VAGUE_NAMES.contains(&name)
}

#[cfg(test)]
mod tests;
