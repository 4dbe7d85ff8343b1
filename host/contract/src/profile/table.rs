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
pub(super) struct Row {
    pub name: &'static str,
    /// Names in other versions of the agent: accepted from the model, never listed.
    pub also: &'static [&'static str],
    /// The canonical name.
    pub tool: &'static str,
    /// Parameters in the agent's order. Other parameters are hidden unless the tool requires them.
    pub params: &'static [Param],
    /// Values for omitted parameters: the agent's defaults, and values that its tool has no parameter for.
    pub fills: &'static [(&'static str, Fill)],
    /// The description, if the canonical one does not apply.
    pub says: Option<&'static str>,
    /// Whether the agent does not consider the tool read-only, even if it changes no file (C-01).
    pub acts: bool,
}

impl Row {
    pub(super) const fn new(
        name: &'static str,
        tool: &'static str,
        params: &'static [Param],
    ) -> Self {
        Self {
            name,
            also: &[],
            tool,
            params,
            fills: &[],
            says: None,
            acts: false,
        }
    }

    pub(super) const fn also(mut self, names: &'static [&'static str]) -> Self {
        self.also = names;
        self
    }

    pub(super) const fn fills(mut self, fills: &'static [(&'static str, Fill)]) -> Self {
        self.fills = fills;
        self
    }

    pub(super) const fn says(mut self, description: &'static str) -> Self {
        self.says = Some(description);
        self
    }

    pub(super) const fn acts(mut self) -> Self {
        self.acts = true;
        self
    }

    pub(super) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.also.contains(&name)
    }
}

/// A parameter of the agent and its canonical counterpart.
#[derive(Debug)]
pub(super) struct Param {
    pub theirs: &'static str,
    /// The canonical name or an alias; `a|b` selects the one that the tool has.
    pub ours: &'static str,
    pub change: Change,
    /// Whether the agent requires the parameter although the canonical tool does not.
    pub needed: bool,
    pub says: Option<&'static str>,
}

/// Conversion of a value to its canonical form; reversed for the opposite direction.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change {
    Same,
    /// The canonical value is the negation.
    Not,
    /// A boolean; true is converted to this word.
    Flag(&'static str),
    /// A list of objects whose members are renamed.
    Items(&'static [Param]),
    /// An object whose members are canonical parameters.
    Spread(&'static [Param]),
    /// Node.js names of text encodings.
    Encoding,
}

pub(super) const fn same(name: &'static str) -> Param {
    renamed(name, name)
}

pub(super) const fn renamed(theirs: &'static str, ours: &'static str) -> Param {
    Param {
        theirs,
        ours,
        change: Change::Same,
        needed: false,
        says: None,
    }
}

impl Param {
    pub(super) const fn not(mut self) -> Self {
        self.change = Change::Not;
        self
    }

    pub(super) const fn flag(mut self, word: &'static str) -> Self {
        self.change = Change::Flag(word);
        self
    }

    pub(super) const fn items(mut self, members: &'static [Param]) -> Self {
        self.change = Change::Items(members);
        self
    }

    pub(super) const fn spread(mut self, members: &'static [Param]) -> Self {
        self.change = Change::Spread(members);
        self
    }

    pub(super) const fn encoding(mut self) -> Self {
        self.change = Change::Encoding;
        self
    }

    pub(super) const fn needed(mut self) -> Self {
        self.needed = true;
        self
    }

    pub(super) const fn says(mut self, description: &'static str) -> Self {
        self.says = Some(description);
        self
    }

    /// Returns the parameters of members, if they can differ.
    pub(super) fn members(&self) -> &'static [Param] {
        match self.change {
            Change::Items(members) | Change::Spread(members) => members,
            Change::Same | Change::Not | Change::Flag(_) | Change::Encoding => &[],
        }
    }
}

/// The value of a parameter that the model can omit.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fill {
    Bool(bool),
    Int(i64),
    Text(&'static str),
    /// The first words of another parameter.
    WordsOf(&'static str),
    /// The URLs in the text of another parameter.
    AddressesIn(&'static str),
}

/// Limits of a description that is shown with the call.
const WORDS: usize = 5;
const CHARACTERS: usize = 80;
/// Maximum number of URLs that `web_fetch` accepts.
const ADDRESSES: usize = 20;

impl Fill {
    /// Returns the value, or `None` if it depends on the call.
    pub(super) fn constant(self) -> Option<Value> {
        match self {
            Fill::Bool(value) => Some(value.into()),
            Fill::Int(value) => Some(value.into()),
            Fill::Text(value) => Some(value.into()),
            Fill::WordsOf(_) | Fill::AddressesIn(_) => None,
        }
    }

    /// Returns the value for a call. `input` has canonical names.
    pub(super) fn value(self, input: &Map<String, Value>) -> Option<Value> {
        let text = |name: &str| input.get(name).and_then(Value::as_str);
        match self {
            Fill::Bool(_) | Fill::Int(_) | Fill::Text(_) => self.constant(),
            Fill::WordsOf(name) => {
                let words: Vec<_> = text(name)?.split_whitespace().take(WORDS).collect();
                let words: String = words.join(" ").chars().take(CHARACTERS).collect();
                Some(words.into())
            }
            // A URL was given separately, so those in the text are only mentioned.
            Fill::AddressesIn(_) if text("url").is_some() => None,
            Fill::AddressesIn(name) => {
                let found: Vec<_> = addresses(text(name)?).take(ADDRESSES).collect();
                (!found.is_empty()).then(|| found.into())
            }
        }
    }
}

/// Returns the words that start like a URL, without surrounding punctuation.
fn addresses(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || "<>\"`()[]{}".contains(c))
        .map(|word| word.trim_end_matches(['.', ',', ';', ':', '!', '?', '\'']))
        .filter(|word| word.starts_with("https://") || word.starts_with("http://"))
}
