//! Converts a server's tools: assigns names that models accept, truncates texts, and uses annotations only if the
//! operator trusts the server. Tools that cannot be converted are left out with a reason.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Map, Value};
use toolhost_contract::{Annotations, Concurrency, Descriptor, McpToolName, ToolName, text};

use crate::approvals::{ApprovedDefinition, ToolChange};
use crate::config::ServerConfig;
use crate::definition::{self, Definition};
use crate::tool_names::{distinct_name, tool_name};

/// Maximum number of tools of one server. A model cannot choose among more.
pub const MAX_TOOLS: usize = 2_000;
const MAX_NAME: usize = 256;
const MAX_DESCRIPTION: usize = 8_000;
const MAX_TITLE: usize = 120;

/// Checks whether the host accepts a tool. An error is the reason why not.
pub type ToolCheck = dyn Fn(&Descriptor) -> Result<(), String> + Send + Sync;

/// A tool that can be called.
#[derive(Debug, Clone)]
pub struct AdoptedTool {
    pub descriptor: Descriptor,
    pub definition: Definition,
}

/// A tool that cannot be called, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExcludedTool {
    /// Escaped.
    pub tool: String,
    pub reason: String,
    /// Whether it differs from what the user approved.
    pub is_changed: bool,
}

impl ExcludedTool {
    pub fn new(tool: &str, reason: impl Into<String>) -> Self {
        Self {
            tool: text::escape_line(tool, 100),
            reason: reason.into(),
            is_changed: false,
        }
    }

    /// `approved` is the name to approve it by. The reason does not contain the change, because a server can make it
    /// arbitrarily long.
    pub fn changed(approved: &str, change: &ToolChange) -> Self {
        let reason = match change.earlier {
            ApprovedDefinition::Other(_) => "its definition differs from the approved one",
            ApprovedDefinition::Nothing => "the server added it after the approval",
            ApprovedDefinition::NoRoom => {
                "it is new, and there is no room to store its definition in addition to the known ones"
            }
        };
        Self {
            is_changed: true,
            ..Self::new(
                &change.now.definition.tool,
                format!("{reason}; to review and approve it, run `host mcp approve {approved}`"),
            )
        }
    }
}

pub fn convert_tools(
    config: &ServerConfig,
    tools: Vec<Tool>,
    accept: &ToolCheck,
) -> (Vec<AdoptedTool>, Vec<ExcludedTool>) {
    let mut left_out = Vec::new();
    let mut wanted: BTreeMap<String, Tool> = BTreeMap::new();
    for tool in tools {
        if !config.includes(&tool.name) {
            continue;
        }
        match wanted.entry(tool.name.to_string()) {
            Entry::Vacant(entry) => {
                entry.insert(tool);
            }
            Entry::Occupied(_) => {
                left_out.push(ExcludedTool::new(&tool.name, "the server lists it twice"));
            }
        }
    }
    // The assigned names must not depend on the order in which a server lists its tools.
    let mut claims: BTreeMap<ToolName, usize> = BTreeMap::new();
    for name in wanted.keys() {
        *claims.entry(tool_name(&config.name, name)).or_default() += 1;
    }
    let mut adopted: BTreeMap<ToolName, AdoptedTool> = BTreeMap::new();
    for (own, tool) in wanted {
        let mut name = tool_name(&config.name, &own);
        let is_exact = name.as_str().ends_with(&format!("__{own}"));
        if claims[&name] > 1 && !is_exact {
            name = distinct_name(&config.name, &own);
        }
        let taken = if adopted.contains_key(&name) {
            Err(format!("another tool of this server is called `{name}`"))
        } else {
            convert_tool(config, &tool, name, accept)
        };
        match taken {
            Ok(one) => {
                adopted.insert(one.descriptor.name.clone(), one);
            }
            Err(reason) => left_out.push(ExcludedTool::new(&own, reason)),
        }
    }
    let mut adopted: Vec<AdoptedTool> = adopted.into_values().collect();
    remove_ambiguous_aliases(&mut adopted);
    (adopted, left_out)
}

/// Removes aliases that are the name of another tool, or the alias of two tools.
fn remove_ambiguous_aliases(adopted: &mut [AdoptedTool]) {
    let mut claims: BTreeMap<String, usize> = BTreeMap::new();
    for one in adopted.iter() {
        let tool = &one.descriptor;
        let names = std::iter::once(tool.name.as_str());
        for name in names.chain(tool.aliases.iter().map(String::as_str)) {
            *claims.entry(name.to_ascii_lowercase()).or_default() += 1;
        }
    }
    for one in adopted {
        let aliases = &mut one.descriptor.aliases;
        aliases.retain(|alias| claims[&alias.to_ascii_lowercase()] == 1);
    }
}

fn convert_tool(
    config: &ServerConfig,
    tool: &Tool,
    name: ToolName,
    accept: &ToolCheck,
) -> Result<AdoptedTool, String> {
    if tool.name.is_empty() || tool.name.chars().count() > MAX_NAME {
        return Err(format!(
            "its name is empty or longer than {MAX_NAME} characters"
        ));
    }
    let definition = Definition::from_tool(tool);
    if definition.size() > definition::MAX_BYTES {
        return Err(format!(
            "its definition is {} bytes, the limit is {}",
            definition.size(),
            definition::MAX_BYTES
        ));
    }
    let descriptor = descriptor(config, tool, name);
    accept(&descriptor)?;
    Ok(AdoptedTool {
        descriptor,
        definition,
    })
}

fn descriptor(config: &ServerConfig, tool: &Tool, name: ToolName) -> Descriptor {
    let declared = tool.description.as_deref().unwrap_or_default();
    let description = if declared.trim().is_empty() {
        format!(
            "The tool {} of the server {}.",
            text::escape_line(&tool.name, 100),
            config.name
        )
    } else {
        truncate(declared, MAX_DESCRIPTION)
    };
    let mut descriptor = Descriptor::new(name, description);
    let title = tool.title.as_ref();
    let hints = tool.annotations.as_ref();
    if let Some(title) = title.or_else(|| hints?.title.as_ref()) {
        descriptor.display_name = text::escape_line(title, MAX_TITLE);
    }
    // The server's spelling, which other hosts display and which rules may use.
    let spelled = McpToolName {
        server: &config.name,
        tool: &tool.name,
    };
    let spelled = spelled.to_string();
    if !spelled.eq_ignore_ascii_case(descriptor.name.as_str()) && spelled.len() <= MAX_NAME {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        if spelled.chars().all(plain) {
            descriptor.aliases.push(spelled);
        }
    }
    "mcp".clone_into(&mut descriptor.category);
    let confined = if config.is_confined() {
        "sandboxed program"
    } else {
        "not sandboxed"
    };
    descriptor.tags = vec!["mcp".to_owned(), confined.to_owned()];
    let mut schema = (*tool.input_schema).clone();
    allow_additional_properties(&mut schema);
    descriptor.input_schema = Value::Object(schema);
    descriptor.output_schema = tool
        .output_schema
        .as_ref()
        .map(|schema| Value::Object((**schema).clone()));
    descriptor.strict = false;
    descriptor.annotations = hints
        .filter(|_| config.is_trusted)
        .map_or_else(untrusted_annotations, trusted_annotations);
    // Servers process calls concurrently; request IDs exist for that purpose. Calls of one turn whose inputs name the
    // same path still keep their order.
    descriptor.concurrency = Concurrency::Parallel;
    descriptor.timeout = Some(config.timeout);
    descriptor
}

/// Allows additional properties unless the schema restricts them. Inputs of our own tools are closed by default, but
/// JSON Schema's default is open, and servers rely on it.
pub fn allow_additional_properties(schema: &mut Map<String, Value>) {
    schema
        .entry("additionalProperties")
        .or_insert(Value::Bool(true));
}

fn untrusted_annotations() -> Annotations {
    Annotations {
        read_only: Some(false),
        pure: None,
        destructive: Some(true),
        idempotent: Some(false),
        open_world: Some(true),
        interactive: None,
    }
}

/// Annotations of a trusted server. Missing hints have the defaults of the protocol.
fn trusted_annotations(hints: &ToolAnnotations) -> Annotations {
    let read_only = hints.read_only_hint.unwrap_or(false);
    Annotations {
        read_only: Some(read_only),
        pure: None,
        destructive: Some(!read_only && hints.destructive_hint.unwrap_or(true)),
        idempotent: Some(hints.idempotent_hint.unwrap_or(false)),
        open_world: Some(hints.open_world_hint.unwrap_or(true)),
        interactive: None,
    }
}

/// Truncates a description. It is not escaped, because a model reads it as it is.
fn truncate(text: &str, max: usize) -> String {
    let mut chars = text.char_indices();
    match chars.nth(max) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
