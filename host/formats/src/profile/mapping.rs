//! Mapping tables of profiles: one entry per tool of the agent.

use serde_json::{Map, Value};

/// Canonical names of the built-in tools. A profile hides those that its agent does not have; tools that the operator
/// installed stay visible.
pub(super) const BUILT_IN: &[&str] = &[
    "apply_patch",
    "ask_user",
    "background_run",
    "base64_decode",
    "base64_encode",
    "code_run",
    "create_directory",
    "current_time",
    "delete_file",
    "directory_tree",
    "edit_file",
    "enter_plan_mode",
    "exit_plan_mode",
    "get_env",
    "get_file_info",
    "glob",
    "grep",
    "http_get",
    "http_post",
    "http_request",
    "json_parse",
    "json_stringify",
    "list_allowed_directories",
    "list_directory",
    "list_mcp_resources",
    "memory",
    "move_file",
    "multi_edit",
    "notebook_edit",
    "read_file",
    "read_many_files",
    "read_mcp_resource",
    "read_media",
    "request_permissions",
    "set_env",
    "shell",
    "shell_input",
    "shell_kill",
    "shell_list",
    "shell_output",
    "skill",
    "sleep",
    "task",
    "todo_read",
    "todo_write",
    "tool_chain",
    "tool_search",
    "web_fetch",
    "web_search",
    "write_file",
];

/// A tool of the agent and its canonical counterpart.
#[derive(Debug)]
pub(super) struct ToolMapping {
    pub name: &'static str,
    /// Names in other versions of the agent: accepted from the model, never listed.
    pub aliases: &'static [&'static str],
    /// The canonical name.
    pub canonical: &'static str,
    /// Parameters in the agent's order. Other parameters are hidden unless the tool requires them.
    pub params: &'static [ParamMapping],
    /// Values for omitted parameters: the agent's defaults, and values that its tool has no parameter for.
    pub defaults: &'static [(&'static str, DefaultValue)],
    /// The description, if the canonical one does not apply.
    pub description: Option<&'static str>,
    /// Whether the agent does not consider the tool read-only, even if it changes no file (C-01).
    pub is_not_read_only: bool,
}

impl ToolMapping {
    pub(super) const fn new(
        name: &'static str,
        tool: &'static str,
        params: &'static [ParamMapping],
    ) -> Self {
        Self {
            name,
            aliases: &[],
            canonical: tool,
            params,
            defaults: &[],
            description: None,
            is_not_read_only: false,
        }
    }

    pub(super) const fn aliases(mut self, names: &'static [&'static str]) -> Self {
        self.aliases = names;
        self
    }

    pub(super) const fn defaults(mut self, fills: &'static [(&'static str, DefaultValue)]) -> Self {
        self.defaults = fills;
        self
    }

    pub(super) const fn description(mut self, description: &'static str) -> Self {
        self.description = Some(description);
        self
    }

    pub(super) const fn not_read_only(mut self) -> Self {
        self.is_not_read_only = true;
        self
    }

    pub(super) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

/// A parameter of the agent and its canonical counterpart.
#[derive(Debug)]
pub(super) struct ParamMapping {
    pub agent_name: &'static str,
    /// The canonical name or an alias; `a|b` selects the one that the tool has.
    pub canonical: &'static str,
    pub conversion: ValueConversion,
    /// Whether the agent requires the parameter although the canonical tool does not.
    pub required: bool,
    pub description: Option<&'static str>,
}

/// Conversion of a value to its canonical form; reversed for the opposite direction.
#[derive(Debug, Clone, Copy)]
pub(super) enum ValueConversion {
    Same,
    /// The canonical value is the negation.
    Negate,
    /// A boolean; true is converted to this word.
    Flag(&'static str),
    /// A list of objects whose members are renamed.
    Items(&'static [ParamMapping]),
    /// An object whose members are canonical parameters.
    Flatten(&'static [ParamMapping]),
    /// Node.js names of text encodings.
    Encoding,
}

pub(super) const fn same(name: &'static str) -> ParamMapping {
    renamed(name, name)
}

pub(super) const fn renamed(theirs: &'static str, ours: &'static str) -> ParamMapping {
    ParamMapping {
        agent_name: theirs,
        canonical: ours,
        conversion: ValueConversion::Same,
        required: false,
        description: None,
    }
}

impl ParamMapping {
    pub(super) const fn negated(mut self) -> Self {
        self.conversion = ValueConversion::Negate;
        self
    }

    pub(super) const fn flag(mut self, value: &'static str) -> Self {
        self.conversion = ValueConversion::Flag(value);
        self
    }

    pub(super) const fn items(mut self, members: &'static [ParamMapping]) -> Self {
        self.conversion = ValueConversion::Items(members);
        self
    }

    pub(super) const fn flattened(mut self, members: &'static [ParamMapping]) -> Self {
        self.conversion = ValueConversion::Flatten(members);
        self
    }

    pub(super) const fn encoding(mut self) -> Self {
        self.conversion = ValueConversion::Encoding;
        self
    }

    pub(super) const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    pub(super) const fn description(mut self, description: &'static str) -> Self {
        self.description = Some(description);
        self
    }

    /// Returns the parameters of members, if they can differ.
    pub(super) fn members(&self) -> &'static [ParamMapping] {
        match self.conversion {
            ValueConversion::Items(members) | ValueConversion::Flatten(members) => members,
            ValueConversion::Same
            | ValueConversion::Negate
            | ValueConversion::Flag(_)
            | ValueConversion::Encoding => &[],
        }
    }
}

/// The value of a parameter that the model can omit.
#[derive(Debug, Clone, Copy)]
pub(super) enum DefaultValue {
    Bool(bool),
    Int(i64),
    Text(&'static str),
    /// The first words of another parameter.
    WordsOf(&'static str),
    /// The URLs in the text of another parameter.
    UrlsIn(&'static str),
}

/// Limits of a description that is shown with the call.
const MAX_WORDS: usize = 5;
const MAX_CHARS: usize = 80;
/// Maximum number of URLs that `web_fetch` accepts.
const MAX_URLS: usize = 20;

impl DefaultValue {
    /// Returns the value, or `None` if it depends on the call.
    pub(super) fn constant(self) -> Option<Value> {
        match self {
            DefaultValue::Bool(value) => Some(value.into()),
            DefaultValue::Int(value) => Some(value.into()),
            DefaultValue::Text(value) => Some(value.into()),
            DefaultValue::WordsOf(_) | DefaultValue::UrlsIn(_) => None,
        }
    }

    /// Returns the value for a call. `input` has canonical names.
    pub(super) fn value(self, input: &Map<String, Value>) -> Option<Value> {
        let text = |name: &str| input.get(name).and_then(Value::as_str);
        match self {
            DefaultValue::Bool(_) | DefaultValue::Int(_) | DefaultValue::Text(_) => self.constant(),
            DefaultValue::WordsOf(name) => {
                let words: Vec<_> = text(name)?.split_whitespace().take(MAX_WORDS).collect();
                let words: String = words.join(" ").chars().take(MAX_CHARS).collect();
                Some(words.into())
            }
            // A URL was given separately, so those in the text are only mentioned.
            DefaultValue::UrlsIn(_) if text("url").is_some() => None,
            DefaultValue::UrlsIn(name) => {
                let found: Vec<_> = urls(text(name)?).take(MAX_URLS).collect();
                (!found.is_empty()).then(|| found.into())
            }
        }
    }
}

/// Returns the words that start like a URL, without surrounding punctuation.
fn urls(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || "<>\"`()[]{}".contains(c))
        .map(|word| word.trim_end_matches(['.', ',', ';', ':', '!', '?', '\'']))
        .filter(|word| word.starts_with("https://") || word.starts_with("http://"))
}
