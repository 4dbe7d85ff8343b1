//! Tool list for `tools/list`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{Icon, JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};
use toolhost_contract::{Descriptor, ToolHints};
use toolhost_formats::profile::{Profile, ProfiledRegistry, UnmappedTools};
use toolhost_kernel::{Kernel, RegistrySnapshot};

use crate::header_annotations;

/// Key in the `_meta` of a sandboxed tool: the most that a call of it can be granted.
const CAPABILITIES_KEY: &str = "dev.toolhost/capabilities";
/// The member `extra` of the descriptor.
const EXTRA_KEY: &str = "dev.toolhost/extra";
/// Key in the `_meta` of other tools, such as those of other MCP servers, which run with their own privileges.
const SANDBOXED_KEY: &str = "dev.toolhost/sandboxed";
/// Maximum size of an icon, in bytes.
const MAX_ICON: usize = 32 << 10;

/// Cache of the tool list for the current registry.
#[derive(Default)]
pub(crate) struct ToolListCache(Mutex<Option<CachedToolList>>);

struct CachedToolList {
    of: Arc<RegistrySnapshot>,
    tools: Arc<ListedTools>,
}

/// Tools in a stable order.
pub(crate) struct ListedTools {
    pub(crate) all: Vec<Tool>,
    indices: HashMap<String, usize>,
}

impl ListedTools {
    pub(crate) fn get(&self, name: &str) -> Option<&Tool> {
        self.indices.get(name).map(|index| &self.all[*index])
    }
}

impl FromIterator<Tool> for ListedTools {
    fn from_iter<T: IntoIterator<Item = Tool>>(tools: T) -> Self {
        let all: Vec<Tool> = tools.into_iter().collect();
        let indexed = all.iter().enumerate();
        Self {
            indices: indexed
                .map(|(index, tool)| (tool.name.to_string(), index))
                .collect(),
            all,
        }
    }
}

impl ToolListCache {
    /// Returns the tool list. The profile is constant per host and therefore not part of the cache key.
    pub(crate) fn of(
        &self,
        kernel: &Kernel,
        profile: Profile,
        others: UnmappedTools,
        schemas: OutputSchemaPolicy,
    ) -> Arc<ListedTools> {
        let snapshot = &kernel.registry();
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*cached {
            Some(listed) if Arc::ptr_eq(&listed.of, snapshot) => Arc::clone(&listed.tools),
            _ => {
                let tools: ListedTools = if profile == Profile::Native {
                    let tools = snapshot.list();
                    tools
                        .filter(|entry| kernel.is_listed(entry))
                        .map(|entry| {
                            tool(entry.name.to_string(), &entry.tool, entry.hints(), schemas)
                        })
                        .collect()
                } else {
                    let shown =
                        ProfiledRegistry::new(profile, others, snapshot.descriptors()).list();
                    shown
                        .into_iter()
                        .filter_map(|one| {
                            let entry = snapshot.get(one.canonical.as_str())?;
                            kernel
                                .is_listed(entry)
                                .then(|| tool(one.name, &one.descriptor, entry.hints(), schemas))
                        })
                        .collect()
                };
                let listed = CachedToolList {
                    of: Arc::clone(snapshot),
                    tools: Arc::new(tools),
                };
                Arc::clone(&cached.insert(listed).tools)
            }
        }
    }
}

fn tool(name: String, tool: &Descriptor, hints: ToolHints, schemas: OutputSchemaPolicy) -> Tool {
    let input = object_schema(&tool.input_schema);
    let mut listed = Tool::new(name, tool.description.clone(), input)
        .with_title(tool.display_name.clone())
        .with_annotations(annotations(hints))
        .with_meta(meta(tool, hints));
    listed.icons = tool.icon.as_deref().and_then(icon).map(|icon| vec![icon]);
    if schemas.lists_schema(tool, hints) {
        listed.output_schema = tool.output_schema.as_ref().map(object_schema).map(Arc::new);
    }
    listed
}

/// Returns an embedded icon. Remote icons are dropped, because fetching one would reveal the user to its server.
fn icon(icon: &str) -> Option<Icon> {
    let (kind, _) = icon.strip_prefix("data:image/")?.split_once([';', ','])?;
    (icon.len() <= MAX_ICON).then(|| Icon::new(icon).with_mime_type(format!("image/{kind}")))
}

/// Which output schemas are listed. Results of these tools include structured content, which some clients show their
/// model instead of the text; see docs/decisions/052-structured-results.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputSchemaPolicy {
    /// Those of tools of other servers, whose results are forwarded unchanged.
    UnsandboxedOnly,
    /// All, as configured by the operator.
    All,
}

impl OutputSchemaPolicy {
    /// Whether the schema of this tool is listed. Only object schemas are: clients of older protocols fail on others.
    pub(crate) fn lists_schema(self, tool: &Descriptor, hints: ToolHints) -> bool {
        let schema = tool.output_schema.as_ref();
        let kind = schema.and_then(|schema| schema.get("type"));
        self.includes(hints) && kind.is_some_and(|kind| kind == "object")
    }

    pub(crate) fn includes(self, hints: ToolHints) -> bool {
        match self {
            Self::UnsandboxedOnly => !hints.sandboxed,
            Self::All => true,
        }
    }
}

/// Tool annotations. In the protocol they are hints; for a sandboxed tool they are enforced.
fn annotations(hints: ToolHints) -> ToolAnnotations {
    ToolAnnotations::new()
        .read_only(hints.read_only)
        .destructive(hints.destructive)
        .idempotent(hints.idempotent)
        .open_world(hints.open_world)
}

fn meta(tool: &Descriptor, hints: ToolHints) -> MetaObject {
    let (key, value) = if hints.sandboxed {
        let capabilities = json!({"effect": tool.effect().as_str(), "requires": tool.requires});
        (CAPABILITIES_KEY, capabilities)
    } else {
        (SANDBOXED_KEY, json!(false))
    };
    let mut meta = Map::from_iter([(key.to_owned(), value)]);
    if let Some(extra) = &tool.extra {
        meta.insert(EXTRA_KEY.to_owned(), extra.clone());
    }
    MetaObject(meta)
}

/// Returns the schema without `x-…` keywords, which are internal. The type is always `object`: the kernel accepts no
/// other input, and one tool with another type makes clients reject the whole list.
fn object_schema(own: &Value) -> JsonObject {
    let mut schema = match strip_extensions(own) {
        Value::Object(schema) => schema,
        _ => Map::new(),
    };
    schema.insert("type".to_owned(), json!("object"));
    header_annotations::copy_annotations(own, &mut schema);
    schema
}

fn strip_extensions(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => members
            .iter()
            .filter(|(keyword, _)| !keyword.starts_with("x-"))
            .map(|(keyword, value)| (keyword.clone(), strip_extensions_below(keyword, value)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(schemas) => schemas.iter().map(strip_extensions).collect(),
        other => other.clone(),
    }
}

fn strip_extensions_below(keyword: &str, value: &Value) -> Value {
    match (keyword, value) {
        // Data, not schemas.
        (
            "const" | "enum" | "default" | "example" | "examples" | "required"
            | "dependentRequired",
            _,
        ) => value.clone(),
        // The member names are chosen by the author and may start with `x-`.
        (
            "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions",
            Value::Object(named),
        ) => named
            .iter()
            .map(|(name, schema)| (name.clone(), strip_extensions(schema)))
            .collect::<Map<_, _>>()
            .into(),
        _ => strip_extensions(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internal_keywords_are_not_listed() {
        for (schema, shown) in [
            (
                json!({"type": "object", "$schema": "s", "x-ui": 1}),
                json!({"type": "object", "$schema": "s"}),
            ),
            (json!({}), json!({"type": "object"})),
            (json!(true), json!({"type": "object"})),
            (
                json!({"type": ["object", "null"]}),
                json!({"type": "object"}),
            ),
            (
                json!({"type": "object", "properties": {"x-name": {"type": "string", "x-path": "read"}}}),
                json!({"type": "object", "properties": {"x-name": {"type": "string"}}}),
            ),
            (
                json!({"type": "object", "default": {"x-a": 1}, "anyOf": [{"x-b": 1, "const": {"x-c": 1}}]}),
                json!({"type": "object", "default": {"x-a": 1}, "anyOf": [{"const": {"x-c": 1}}]}),
            ),
        ] {
            assert_eq!(Value::Object(object_schema(&schema)), shown, "{schema}");
        }
    }

    #[test]
    fn only_embedded_icons_are_listed() {
        for (icon, shown) in [
            ("data:image/png;base64,AA==", Some("image/png")),
            ("data:image/svg+xml,<svg/>", Some("image/svg+xml")),
            ("data:text/html,<script>", None),
            ("https://example.org/track.png", None),
            ("\u{1f50d}", None),
        ] {
            let mime_type = super::icon(icon).and_then(|icon| icon.mime_type);
            assert_eq!(mime_type.as_deref(), shown, "{icon}");
        }
        assert_eq!(
            super::icon(&format!("data:image/png,{}", "a".repeat(MAX_ICON))),
            None
        );
    }
}
