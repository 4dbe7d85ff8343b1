//! A tool, as its author describes it and as the host checked it.

use std::time::Duration;

use serde_json::Value;

use crate::ToolName;

/// Every member that a tool system names has its place here; see `wit/v0.1/types.wit` for what each means.
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
    pub can_modify: bool,
    pub can_background: bool,
    pub timeout: Option<Duration>,
    pub inactivity_timeout: Option<Duration>,
    pub max_output_bytes: Option<u64>,
    pub requires: Vec<String>,
    pub depends_on: Vec<String>,
    pub hooks: Vec<String>,
    pub examples: Vec<Example>,
}

impl Descriptor {
    /// A tool with defaults for everything optional.
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
            can_modify: false,
            can_background: false,
            timeout: None,
            inactivity_timeout: None,
            max_output_bytes: None,
            requires: Vec::new(),
            depends_on: Vec::new(),
            hooks: Vec::new(),
            examples: Vec::new(),
        }
    }

    /// What the tool may do at worst. Whatever an author left open is read the careful way.
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

/// `None` means that the author did not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Annotations {
    pub read_only: Option<bool>,
    pub pure: Option<bool>,
    pub destructive: Option<bool>,
    pub idempotent: Option<bool>,
    pub open_world: Option<bool>,
    pub interactive: Option<bool>,
}

/// From harmless to harmful. The sandbox of a call is narrowed to its tool's effect, so the word is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
}

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
    fn what_is_not_said_is_read_the_careful_way() {
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
}
