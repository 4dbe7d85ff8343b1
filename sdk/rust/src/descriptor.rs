//! Tool descriptors.

use serde_json::{Value, json};

use crate::{IntoOutcome, Schema};

/// The description of one tool. Everything except name and description has a default.
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
    pub can_background: bool,
    pub timeout_ms: Option<u32>,
    pub inactivity_timeout_ms: Option<u32>,
    pub max_output_bytes: Option<u32>,
    pub requires: Vec<String>,
    pub depends_on: Vec<String>,
    pub hooks: Vec<String>,
    pub examples: Vec<Example>,
    pub sinks: Vec<String>,
    pub sources: Vec<String>,
    pub extra: Option<Value>,
}

/// The declared effects of a tool. `None` means unknown, which the host treats as the worst case.
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
    /// A tool without parameters and with unknown effects.
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
            can_background: false,
            timeout_ms: None,
            inactivity_timeout_ms: None,
            max_output_bytes: None,
            requires: Vec::new(),
            depends_on: Vec::new(),
            hooks: Vec::new(),
            examples: Vec::new(),
            sinks: Vec::new(),
            sources: Vec::new(),
            extra: None,
        }
    }

    /// Sets the input type, a [`data`](crate::data) struct.
    pub fn input<T: Schema>(self) -> Self {
        self.input_schema(T::schema())
    }

    /// Sets the input schema, which must describe an object.
    pub fn input_schema(mut self, schema: Value) -> Self {
        self.input_schema = schema;
        self
    }

    /// Sets the type of the structured output.
    pub fn output<T: Schema>(self) -> Self {
        self.output_schema(T::element_schema())
    }

    /// Sets the schema of the structured output.
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.output_schema = Some(schema);
        self
    }

    /// Sets the output schema of a return type, if it has one.
    pub fn returns<T: IntoOutcome>(mut self) -> Self {
        self.output_schema = T::output_schema();
        self
    }

    /// The tool depends only on its input.
    pub fn pure(self) -> Self {
        self.effects(Annotations {
            read_only: Some(true),
            pure: Some(true),
            destructive: Some(false),
            idempotent: Some(true),
            ..Annotations::default()
        })
    }

    /// The tool changes nothing. Requires `fs.read`, unless overridden with [`requires`](Self::requires).
    pub fn reads(self) -> Self {
        self.effects(Annotations {
            read_only: Some(true),
            pure: Some(false),
            destructive: Some(false),
            ..Annotations::default()
        })
        .requires(&["fs.read"])
    }

    /// The tool makes reversible changes. Requires `fs.read` and `fs.write`, unless overridden with
    /// [`requires`](Self::requires).
    pub fn writes(self) -> Self {
        self.effects(Annotations {
            read_only: Some(false),
            pure: Some(false),
            destructive: Some(false),
            ..Annotations::default()
        })
        .requires(&["fs.read", "fs.write"])
    }

    /// The tool may destroy data. Requires `fs.read` and `fs.write`, unless overridden with
    /// [`requires`](Self::requires).
    pub fn destroys(self) -> Self {
        self.effects(Annotations {
            read_only: Some(false),
            pure: Some(false),
            destructive: Some(true),
            ..Annotations::default()
        })
        .requires(&["fs.read", "fs.write"])
    }

    /// The tool interacts with systems outside of the user's machine.
    pub fn network(mut self) -> Self {
        self.annotations.open_world = Some(true);
        self
    }

    /// The tool needs a user to answer.
    pub fn interactive(mut self) -> Self {
        self.annotations.interactive = Some(true);
        self
    }

    /// Repeating a call with the same input has no further effect.
    pub fn idempotent(mut self) -> Self {
        self.annotations.idempotent = Some(true);
        self
    }

    /// Unknown members of the input are dropped instead of rejected.
    pub fn lenient(mut self) -> Self {
        self.strict = Some(false);
        self
    }

    /// The tool streams output while it runs.
    pub fn streams(mut self) -> Self {
        self.can_stream = true;
        self
    }

    /// Calls can run in the background.
    pub fn background(mut self) -> Self {
        self.can_background = true;
        self
    }

    /// Other names of the tool.
    pub fn aliases(mut self, names: &[&str]) -> Self {
        self.aliases = owned(names);
        self
    }

    /// The name shown to users.
    pub fn display_name(mut self, name: impl Into<String>) -> Self {
        self.display_name = Some(name.into());
        self
    }

    /// An icon name such as `hammer`, or an emoji.
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

    /// Keywords for searching.
    pub fn tags(mut self, tags: &[&str]) -> Self {
        self.tags = owned(tags);
        self
    }

    /// `parallel`, `serial` or `exclusive`.
    pub fn concurrency(mut self, concurrency: impl Into<String>) -> Self {
        self.concurrency = Some(concurrency.into());
        self
    }

    /// The text for users is not Markdown.
    pub fn plain_text(mut self) -> Self {
        self.output_markdown = Some(false);
        self
    }

    /// Time limit of a call.
    pub fn timeout_ms(mut self, milliseconds: u32) -> Self {
        self.timeout_ms = Some(milliseconds);
        self
    }

    /// Limit of time without output.
    pub fn inactivity_timeout_ms(mut self, milliseconds: u32) -> Self {
        self.inactivity_timeout_ms = Some(milliseconds);
        self
    }

    /// Limit of an outcome in bytes.
    pub fn max_output_bytes(mut self, bytes: u32) -> Self {
        self.max_output_bytes = Some(bytes);
        self
    }

    /// Sets the required capabilities, replacing those of `reads`, `writes` and `destroys`; call it after them.
    pub fn requires(mut self, capabilities: &[&str]) -> Self {
        self.requires = owned(capabilities);
        self
    }

    /// Other required tools: `name` or `name@^1`.
    pub fn depends_on(mut self, tools: &[&str]) -> Self {
        self.depends_on = owned(tools);
        self
    }

    /// The plugin's own hooks that guard this tool: `pre-tool-use`, `post-tool-use`. They need `export_hooks!`.
    pub fn hooks(mut self, hooks: &[&str]) -> Self {
        self.hooks = owned(hooks);
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

    /// Where effects go: JSON Pointers into the input, such as `/path` or `/recipients`. The host shows their values,
    /// compares them with rules, and refuses changes of other files.
    pub fn sinks(mut self, pointers: &[&str]) -> Self {
        self.sinks = owned(pointers);
        self
    }

    /// What results contain: `network`, `people` or `private`.
    pub fn sources(mut self, sources: &[&str]) -> Self {
        self.sources = owned(sources);
        self
    }

    /// A JSON object for front ends.
    pub fn extra(mut self, extra: Value) -> Self {
        self.extra = Some(extra);
        self
    }

    /// Keeps what `network`, `interactive` and `idempotent` have set.
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
