//! Tool descriptors, as validated by the host.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::{Limits, ToolHooks, ToolName, text};

/// A tool descriptor. `wit/v0.1/types.wit` documents the members.
#[derive(Debug, Clone, PartialEq)]
pub struct Descriptor {
    pub name: ToolName,
    pub aliases: Vec<String>,
    pub display_name: String,
    pub description: String,
    pub icon: Option<String>,
    pub category: String,
    pub kind: String,
    pub version: String,
    pub tags: Vec<String>,
    pub input_schema: Value,
    pub output_schema: Option<Value>,
    pub strict: bool,
    pub annotations: Annotations,
    pub concurrency: Concurrency,
    pub output_markdown: bool,
    pub can_stream: bool,
    pub can_background: bool,
    pub timeout: Option<Duration>,
    pub inactivity_timeout: Option<Duration>,
    pub max_output_bytes: Option<u64>,
    pub requires: Vec<String>,
    pub depends_on: Vec<String>,
    pub hooks: ToolHooks,
    /// JSON Pointers into the input to where effects go.
    pub sinks: Vec<String>,
    pub sources: Vec<Source>,
    pub examples: Vec<Example>,
    /// An object for extensions, which front ends and hooks get.
    pub extra: Option<Value>,
}

impl Descriptor {
    /// Whether `requires` lists this capability.
    pub fn requires_capability(&self, name: &str) -> bool {
        self.requires.iter().any(|required| required == name)
    }

    /// The tool's own timeout, else the default for its kind.
    pub fn default_timeout(&self) -> Duration {
        let by_kind = if self.annotations.open_world == Some(true) {
            Limits::NETWORK_TIMEOUT
        } else {
            Limits::DEFAULT_TIMEOUT
        };
        self.timeout.unwrap_or(by_kind)
    }

    /// Creates a descriptor with defaults for all optional members.
    pub fn new(name: ToolName, description: impl Into<String>) -> Self {
        Self {
            display_name: name.title(),
            name,
            aliases: Vec::new(),
            description: description.into(),
            icon: None,
            category: "custom".to_owned(),
            kind: "other".to_owned(),
            version: "0.0.0".to_owned(),
            tags: Vec::new(),
            input_schema: serde_json::json!({"type": "object", "additionalProperties": false}),
            output_schema: None,
            strict: true,
            annotations: Annotations::default(),
            concurrency: Concurrency::Serial,
            output_markdown: true,
            can_stream: false,
            can_background: false,
            timeout: None,
            inactivity_timeout: None,
            max_output_bytes: None,
            requires: Vec::new(),
            depends_on: Vec::new(),
            hooks: ToolHooks::default(),
            sinks: Vec::new(),
            sources: Vec::new(),
            examples: Vec::new(),
            extra: None,
        }
    }

    /// Removes invisible characters from all texts that a model or a user reads. If there were any, a note is added to
    /// the description.
    pub fn remove_invisible(&mut self) {
        let mut removed = 0;
        let mut clean = |text: &mut String| {
            if let Some((cleaned, count)) = text::remove_invisible(text) {
                *text = cleaned;
                removed += count;
            }
        };
        for text in [
            &mut self.display_name,
            &mut self.description,
            &mut self.category,
            &mut self.kind,
            &mut self.version,
        ] {
            clean(text);
        }
        self.icon.iter_mut().for_each(&mut clean);
        for texts in [
            &mut self.aliases,
            &mut self.tags,
            &mut self.requires,
            &mut self.depends_on,
        ] {
            texts.iter_mut().for_each(&mut clean);
        }
        for example in &mut self.examples {
            clean(&mut example.description);
        }
        removed += text::remove_invisible_from_schema(&mut self.input_schema);
        removed += self
            .output_schema
            .as_mut()
            .map_or(0, text::remove_invisible_from_schema);
        for example in &mut self.examples {
            removed += text::remove_invisible_from_schema(&mut example.input);
        }
        removed += self
            .extra
            .as_mut()
            .map_or(0, text::remove_invisible_from_schema);
        if removed > 0 {
            let note = format!(
                "[the host removed {removed} invisible characters from the texts of this tool]"
            );
            self.description = format!("{}\n{note}", self.description);
            self.tags.push("invisible characters removed".to_owned());
        }
    }

    /// Returns where the effects of a call with this input go, by the sinks of the tool. Too many, or values that are no
    /// texts, are an error.
    pub fn destinations(&self, input: &Value) -> Result<Vec<String>, UnclearDestination> {
        let mut found = Vec::new();
        for sink in &self.sinks {
            match input.pointer(sink) {
                None | Some(Value::Null) => {}
                Some(Value::String(text)) => found.push(text.clone()),
                Some(Value::Array(items)) => {
                    for item in items {
                        found.push(item.as_str().ok_or(UnclearDestination)?.to_owned());
                    }
                }
                Some(_) => return Err(UnclearDestination),
            }
        }
        if found.len() > MAX_DESTINATIONS {
            return Err(UnclearDestination);
        }
        Ok(found)
    }

    /// Returns the worst-case effect of the tool. Annotations that the author omitted are interpreted conservatively.
    pub fn effect(&self) -> Effect {
        let hints = &self.annotations;
        if hints.pure == Some(true) && hints.destructive != Some(true) {
            Effect::Pure
        } else if hints.read_only == Some(true) && hints.destructive != Some(true) {
            Effect::Reads
        } else if hints.destructive == Some(false) {
            Effect::Writes
        } else {
            Effect::Destroys
        }
    }
}

/// Maximum number of destinations of a call.
const MAX_DESTINATIONS: usize = 256;

/// The destinations of a call cannot be determined from its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnclearDestination;

/// What the result of a tool contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// From other hosts.
    Network,
    /// Text of other people.
    People,
    /// Data of the user that should stay private.
    Private,
}

impl Source {
    pub const ALL: [Self; 3] = [Self::Network, Self::People, Self::Private];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::People => "people",
            Self::Private => "private",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.as_str() == name)
    }
}

/// Hints of the author about the effects of a tool. `None` means unspecified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Annotations {
    pub read_only: Option<bool>,
    pub pure: Option<bool>,
    pub destructive: Option<bool>,
    pub idempotent: Option<bool>,
    pub open_world: Option<bool>,
    pub interactive: Option<bool>,
}

/// The effect of a tool, in increasing order of risk. The sandbox of a call enforces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    Pure,
    Reads,
    Writes,
    Destroys,
}

impl Effect {
    pub fn as_str(self) -> &'static str {
        match self {
            Effect::Pure => "pure",
            Effect::Reads => "reads",
            Effect::Writes => "writes",
            Effect::Destroys => "destroys",
        }
    }

    /// What a tool with this effect does, for users.
    pub fn description(self) -> &'static str {
        match self {
            Effect::Pure => "depends only on its input",
            Effect::Reads => "changes nothing",
            Effect::Writes => "makes reversible changes",
            Effect::Destroys => "may destroy data",
        }
    }
}

/// How calls of a tool may overlap with other calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Concurrency {
    Parallel,
    Serial,
    Exclusive,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    pub description: String,
    pub input: Value,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_annotations_are_interpreted_conservatively() {
        let effect = |read_only, pure, destructive| {
            let mut tool = Descriptor::new(ToolName::parse("x").unwrap(), "x");
            tool.annotations = Annotations {
                read_only,
                pure,
                destructive,
                ..Annotations::default()
            };
            tool.effect()
        };
        for (read_only, pure, destructive, expected) in [
            (None, None, None, Effect::Destroys),
            (Some(false), None, None, Effect::Destroys),
            (Some(false), None, Some(false), Effect::Writes),
            (Some(true), None, None, Effect::Reads),
            (None, Some(true), None, Effect::Pure),
            (Some(true), Some(true), Some(true), Effect::Destroys),
        ] {
            assert_eq!(effect(read_only, pure, destructive), expected);
        }
    }

    #[test]
    fn a_15_removal_of_invisible_characters_is_noted_in_the_description() {
        let mut tool = Descriptor::new(ToolName::parse("x").unwrap(), "Adds.\u{e0041}");
        tool.display_name = "A\u{202e}".to_owned();
        tool.kind = "read\u{200b}".to_owned();
        tool.aliases = vec!["a\u{2066}dd".to_owned()];
        tool.input_schema = serde_json::json!({"properties": {"a": {"enum": ["b\u{200b}"]}}});
        tool.remove_invisible();
        assert_eq!(tool.display_name, "A");
        assert_eq!(
            tool.description,
            "Adds.\n[the host removed 5 invisible characters from the texts of this tool]"
        );
        assert_eq!(tool.input_schema["properties"]["a"]["enum"][0], "b");
        assert_eq!((&*tool.kind, &*tool.aliases[0]), ("read", "add"));
        let cleaned = tool.clone();
        tool.remove_invisible();
        assert_eq!(tool, cleaned);
    }
}
