//! Shapes of structured results: which canonical members appear under which names.

use serde_json::{Map, Value, json};

use super::lines;

/// The shape of a tool's result.
#[derive(Debug)]
pub(super) struct ResultShape {
    pub tool: &'static str,
    pub body: ShapeBody,
    /// Canonical members that are added if they are not empty.
    pub optional_members: &'static [&'static str],
    /// Whether the shape also applies to logical failures. The output of a command matters most if the command failed.
    pub includes_failures: bool,
}

#[derive(Debug)]
pub(super) enum ShapeBody {
    /// Pairs of agent and canonical names; `a|b` selects the one that the result has.
    Members(&'static [(&'static str, &'static str)]),
    /// A page of a file: bare text, or an object with the size of the file.
    Content { bare: bool },
    /// Any other shape, computed by a function.
    Computed(fn(&ShapeContext, &Value) -> Option<Value>),
}

/// Facts about the call that a shape can use.
pub(super) struct ShapeContext<'a> {
    /// The name that the model uses for the tool.
    pub name: &'a str,
    /// The canonical input.
    pub input: &'a Value,
}

impl ResultShape {
    pub(super) const fn members(
        tool: &'static str,
        members: &'static [(&'static str, &'static str)],
    ) -> Self {
        Self::new(tool, ShapeBody::Members(members))
    }

    pub(super) const fn computed(
        tool: &'static str,
        make: fn(&ShapeContext, &Value) -> Option<Value>,
    ) -> Self {
        Self::new(tool, ShapeBody::Computed(make))
    }

    pub(super) const fn content(tool: &'static str, bare: bool) -> Self {
        Self::new(tool, ShapeBody::Content { bare })
    }

    const fn new(tool: &'static str, body: ShapeBody) -> Self {
        Self {
            tool,
            body,
            optional_members: &[],
            includes_failures: false,
        }
    }

    pub(super) const fn optional_members(mut self, notes: &'static [&'static str]) -> Self {
        self.optional_members = notes;
        self
    }

    pub(super) const fn including_failures(mut self) -> Self {
        self.includes_failures = true;
        self
    }

    /// Returns the shaped value, or `None` if the result has none of the members.
    pub(super) fn apply(&self, facts: &ShapeContext, ours: &Value) -> Option<Value> {
        let mut shown = match &self.body {
            ShapeBody::Members(members) => select_members(members, ours)?,
            ShapeBody::Content { bare } => page(*bare, facts, ours)?,
            ShapeBody::Computed(make) => make(facts, ours)?,
        };
        if let Some(shown) = shown.as_object_mut() {
            for &name in self.optional_members {
                let value = &ours[name];
                if !is_empty(value) && !shown.contains_key(name) {
                    shown.insert(name.to_owned(), value.clone());
                }
            }
        }
        Some(shown)
    }
}

/// Selects members. A name that starts with `=` is the constant true: `=ok` is `"ok": true`.
pub(super) fn select_members(members: &[(&str, &str)], ours: &Value) -> Option<Value> {
    let mut shown = Map::new();
    let mut found = false;
    for (theirs, names) in members {
        if let Some(theirs) = theirs.strip_prefix('=') {
            shown.insert(theirs.to_owned(), Value::Bool(true));
            continue;
        }
        if let Some(value) = names.split('|').find_map(|name| ours.get(name)) {
            shown.insert((*theirs).to_owned(), value.clone());
            found = true;
        }
    }
    found.then_some(Value::Object(shown))
}

fn page(bare: bool, facts: &ShapeContext, ours: &Value) -> Option<Value> {
    let content = ours["content"].as_str()?;
    let content = match ours["encoding"].as_str() {
        // Base64 is a single line and useless if truncated.
        Some("base64") => content.to_owned(),
        _ if bare && content.is_empty() => "(file is empty)".to_owned(),
        _ => lines::truncate_lines(content),
    };
    let note = lines::continuation_hint(facts.name, "offset", ours);
    Some(match (bare, note) {
        (true, None) => content.into(),
        (true, Some(note)) => format!("{}\n\n({note})", content.trim_end_matches('\n')).into(),
        (false, note) => {
            let mut shown = json!({"content": content, "size": ours["size"]});
            if let Some(note) = note {
                shown["note"] = note.into();
            }
            shown
        }
    })
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(true) | Value::Number(_) | Value::Object(_) => false,
    }
}
