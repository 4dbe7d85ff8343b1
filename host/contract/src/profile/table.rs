//! The form of a profile's table: one row for each tool that the model sees.

use serde_json::{Map, Value};

/// Tools that come with the host, by their canonical names. A profile hides those that its system does not have; what
/// an operator installed beside them stays visible.
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

/// One tool as the system's model knows it.
#[derive(Debug)]
pub(super) struct Row {
    pub name: &'static str,
    /// Names of other versions of the system: taken from the model, never shown to it.
    pub also: &'static [&'static str],
    /// Our canonical name.
    pub tool: &'static str,
    /// In the order the system lists them. What is not listed is hidden, unless the tool cannot do without it.
    pub params: &'static [Param],
    /// What a call gets where the model said nothing: the system's defaults, and what its tool cannot be told.
    pub fills: &'static [(&'static str, Fill)],
    /// The description, where ours would be wrong.
    pub says: Option<&'static str>,
    /// The system does not count it among its read-only tools, even if it changes no file (C-01).
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

/// One parameter as the system's model knows it.
#[derive(Debug)]
pub(super) struct Param {
    pub theirs: &'static str,
    /// The property's name or one of its aliases; `a|b` for whichever the tool has.
    pub ours: &'static str,
    pub change: Change,
    /// The system insists on it where we do not.
    pub needed: bool,
    pub says: Option<&'static str>,
}

/// What becomes of the value on its way to us; the way back is the reverse.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change {
    Same,
    /// Theirs says the opposite of ours.
    Not,
    /// Theirs is a switch, and when it is on, ours is this word.
    Flag(&'static str),
    /// A list of objects whose members have other names.
    Items(&'static [Param]),
    /// Theirs is an object, and its members are parameters of ours.
    Spread(&'static [Param]),
    /// The names of encodings as Node.js spells them.
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

    /// Parameters of the members, when it has any that can differ.
    pub(super) fn members(&self) -> &'static [Param] {
        match self.change {
            Change::Items(members) | Change::Spread(members) => members,
            Change::Same | Change::Not | Change::Flag(_) | Change::Encoding => &[],
        }
    }
}

/// A value that the model need not give.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fill {
    Bool(bool),
    Int(i64),
    Text(&'static str),
    /// The first words of another parameter.
    WordsOf(&'static str),
    /// The addresses in the text of another parameter.
    AddressesIn(&'static str),
}

/// A description that a person reads beside the call.
const WORDS: usize = 5;
const CHARACTERS: usize = 80;
/// As many as `web_fetch` takes at once.
const ADDRESSES: usize = 20;

impl Fill {
    /// None when it depends on the call.
    pub(super) fn constant(self) -> Option<Value> {
        match self {
            Fill::Bool(value) => Some(value.into()),
            Fill::Int(value) => Some(value.into()),
            Fill::Text(value) => Some(value.into()),
            Fill::WordsOf(_) | Fill::AddressesIn(_) => None,
        }
    }

    /// `input` has canonical names.
    pub(super) fn value(self, input: &Map<String, Value>) -> Option<Value> {
        let text = |name: &str| input.get(name).and_then(Value::as_str);
        match self {
            Fill::Bool(_) | Fill::Int(_) | Fill::Text(_) => self.constant(),
            Fill::WordsOf(name) => {
                let words: Vec<_> = text(name)?.split_whitespace().take(WORDS).collect();
                let words: String = words.join(" ").chars().take(CHARACTERS).collect();
                Some(words.into())
            }
            // One address was given outside of the text, and the others are only talked about.
            Fill::AddressesIn(_) if text("url").is_some() => None,
            Fill::AddressesIn(name) => {
                let found: Vec<_> = addresses(text(name)?).take(ADDRESSES).collect();
                (!found.is_empty()).then(|| found.into())
            }
        }
    }
}

/// Words that begin like an address, without the punctuation of the sentence around them.
fn addresses(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || "<>\"`()[]{}".contains(c))
        .map(|word| word.trim_end_matches(['.', ',', ';', ':', '!', '?', '\'']))
        .filter(|word| word.starts_with("https://") || word.starts_with("http://"))
}
