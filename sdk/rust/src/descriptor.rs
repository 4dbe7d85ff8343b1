//! How a tool describes itself.

use serde_json::{Value, json};

use crate::{IntoOutcome, Schema};

/// One tool, as its author describes it. Everything but the name and the description has a default.
///
/// The fields are those of the contract (`wit/v0.1/types.wit`).
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Descriptor {
    pub name: String,
    pub aliases: Vec<String>,
    pub display_name: Option<String>,
    pub description: String,
    pub icon: Option<String>,
    pub category: Option<String>,
    pub kind: Option<String>,
    pub version: Option<String>,
    pub tags: Vec<String>,
    pub input_schema: Value,
    pub output_schema: Option<Value>,
    pub strict: Option<bool>,
    pub annotations: Annotations,
    pub concurrency: Option<String>,
    pub output_markdown: Option<bool>,
    pub can_stream: bool,
    pub can_modify: bool,
    pub can_background: bool,
    pub timeout_ms: Option<u32>,
    pub inactivity_timeout_ms: Option<u32>,
    pub max_output_bytes: Option<u32>,
    pub requires: Vec<String>,
    pub depends_on: Vec<String>,
    pub hooks: Vec<String>,
    pub examples: Vec<Example>,
    pub extra: Option<Value>,
}

/// What a tool promises about its effects; `None` means unknown, and the host then assumes the worse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    pub read_only: Option<bool>,
    pub pure: Option<bool>,
    pub destructive: Option<bool>,
    pub idempotent: Option<bool>,
    pub open_world: Option<bool>,
    pub interactive: Option<bool>,
}

/// An example call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    pub description: String,
    /// A JSON object.
    pub input: String,
}

impl Descriptor {
    /// A tool without parameters, of unknown effects.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            aliases: Vec::new(),
            display_name: None,
            description: description.into(),
            icon: None,
            category: None,
            kind: None,
            version: None,
            tags: Vec::new(),
            input_schema: json!({"type": "object", "properties": {}, "additionalProperties": false}),
            output_schema: None,
            strict: None,
            annotations: Annotations::default(),
            concurrency: None,
            output_markdown: None,
            can_stream: false,
            can_modify: false,
            can_background: false,
            timeout_ms: None,
            inactivity_timeout_ms: None,
            max_output_bytes: None,
            requires: Vec::new(),
            depends_on: Vec::new(),
            hooks: Vec::new(),
            examples: Vec::new(),
            extra: None,
        }
    }

    /// The input is a `T`, a [`data`](crate::data) struct.
    pub fn input<T: Schema>(self) -> Self {
        self.input_schema(T::schema())
    }

    /// The input by a schema of your own; it has to be one of an object.
    pub fn input_schema(mut self, schema: Value) -> Self {
        self.input_schema = schema;
        self
    }

    /// The data in the outcome is a `T`.
    pub fn output<T: Schema>(self) -> Self {
        self.output_schema(T::schema())
    }

    /// The data in the outcome by a schema of your own.
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.output_schema = Some(schema);
        self
    }

    /// The data in the outcome is what a `T` turns into, if `T` knows.
    pub fn returns<T: IntoOutcome>(mut self) -> Self {
        self.output_schema = T::output_schema();
        self
    }

    /// The tool depends on its input alone.
    pub fn pure(self) -> Self {
        self.effects(Annotations {
            read_only: Some(true),
            pure: Some(true),
            destructive: Some(false),
            idempotent: Some(true),
            ..Annotations::default()
        })
    }

    /// The tool changes nothing. It requires `fs.read`, unless [`requires`](Self::requires) says otherwise.
    pub fn reads(self) -> Self {
        self.effects(Annotations {
            read_only: Some(true),
            pure: Some(false),
            destructive: Some(false),
            ..Annotations::default()
        })
        .requires(&["fs.read"])
    }

    /// The tool changes things that can be put back. It requires `fs.read` and `fs.write`, unless
    /// [`requires`](Self::requires) says otherwise.
    pub fn writes(self) -> Self {
        self.effects(Annotations {
            read_only: Some(false),
            pure: Some(false),
            destructive: Some(false),
            ..Annotations::default()
        })
        .requires(&["fs.read", "fs.write"])
    }

    /// The tool may lose something for good. It requires `fs.read` and `fs.write`, unless
    /// [`requires`](Self::requires) says otherwise.
    pub fn destroys(self) -> Self {
        self.effects(Annotations {
            read_only: Some(false),
            pure: Some(false),
            destructive: Some(true),
            ..Annotations::default()
        })
        .requires(&["fs.read", "fs.write"])
    }

    /// The tool talks to a world that is not the user's machine.
    pub fn network(mut self) -> Self {
        self.annotations.open_world = Some(true);
        self
    }

    /// The tool needs a person to answer.
    pub fn interactive(mut self) -> Self {
        self.annotations.interactive = Some(true);
        self
    }

    /// Calling it twice with one input is calling it once.
    pub fn idempotent(mut self) -> Self {
        self.annotations.idempotent = Some(true);
        self
    }

    /// Unknown members of the input are dropped instead of refused.
    pub fn lenient(mut self) -> Self {
        self.strict = Some(false);
        self
    }

    /// The tool streams output while it runs.
    pub fn streams(mut self) -> Self {
        self.can_stream = true;
        self
    }

    /// A call may go on while the model does something else.
    pub fn background(mut self) -> Self {
        self.can_background = true;
        self
    }

    /// Other names under which the tool can be found.
    pub fn aliases(mut self, names: &[&str]) -> Self {
        self.aliases = owned(names);
        self
    }

    /// The name for people.
    pub fn display_name(mut self, name: impl Into<String>) -> Self {
        self.display_name = Some(name.into());
        self
    }

    /// A word such as `hammer`, or an emoji.
    pub fn icon(mut self, icon: impl Into<String>) -> Self {
        self.icon = Some(icon.into());
        self
    }

    /// `system`, `file`, `network`, `data`, `code` …
    pub fn category(mut self, category: impl Into<String>) -> Self {
        self.category = Some(category.into());
        self
    }

    /// `read`, `edit`, `delete`, `move`, `search`, `execute` …
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// Semantic version of the tool; the plugin's when absent.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// Words to find the tool by.
    pub fn tags(mut self, tags: &[&str]) -> Self {
        self.tags = owned(tags);
        self
    }

    /// `parallel`, `serial` or `exclusive`.
    pub fn concurrency(mut self, concurrency: impl Into<String>) -> Self {
        self.concurrency = Some(concurrency.into());
        self
    }

    /// The text for people is not Markdown.
    pub fn plain_text(mut self) -> Self {
        self.output_markdown = Some(false);
        self
    }

    /// A call may take so long.
    pub fn timeout_ms(mut self, milliseconds: u32) -> Self {
        self.timeout_ms = Some(milliseconds);
        self
    }

    /// A call may be silent for so long.
    pub fn inactivity_timeout_ms(mut self, milliseconds: u32) -> Self {
        self.inactivity_timeout_ms = Some(milliseconds);
        self
    }

    /// An outcome may be so large.
    pub fn max_output_bytes(mut self, bytes: u32) -> Self {
        self.max_output_bytes = Some(bytes);
        self
    }

    /// The capabilities the tool needs, in place of those that come with `reads`, `writes` and `destroys`; so this
    /// comes after them.
    pub fn requires(mut self, capabilities: &[&str]) -> Self {
        self.requires = owned(capabilities);
        self
    }

    /// Other tools that have to be present: `name` or `name@^1`.
    pub fn depends_on(mut self, tools: &[&str]) -> Self {
        self.depends_on = owned(tools);
        self
    }

    /// Adds an example; `input` is a JSON object.
    pub fn example(mut self, description: impl Into<String>, input: impl Into<String>) -> Self {
        self.examples.push(Example {
            description: description.into(),
            input: input.into(),
        });
        self
    }

    /// A JSON object for what later hosts may learn to read.
    pub fn extra(mut self, extra: Value) -> Self {
        self.extra = Some(extra);
        self
    }

    /// What was said before with `network`, `interactive` or `idempotent` stays.
    fn effects(mut self, effects: Annotations) -> Self {
        let Annotations {
            idempotent,
            open_world,
            interactive,
            ..
        } = self.annotations;
        self.annotations = Annotations {
            idempotent: idempotent.or(effects.idempotent),
            open_world: Some(open_world.unwrap_or(false)),
            interactive: Some(interactive.unwrap_or(false)),
            ..effects
        };
        self
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

#[cfg(test)]
mod tests;
