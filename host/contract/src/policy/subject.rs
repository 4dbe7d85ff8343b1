//! What a call touches: the paths, the command and the address that its input names.

use serde_json::{Map, Value};

use super::names::is_foreign;
use crate::{ChangeSet, Descriptor, Effect};

/// Nobody names more in good faith, and each costs a look at every rule.
const MAX_PATHS: usize = 256;

/// The same for what a call changed. Whoever changes more is asked about it.
const MAX_CHANGED: usize = 4_096;

/// As many addresses as anybody fetches at once, and more.
const MAX_URLS: usize = 64;

/// How deep objects and lists are looked into.
const MAX_DEPTH: usize = 8;

/// Members that hold a path, by the names that tools use for it.
pub(super) const PATHS: [&str; 9] = [
    "path",
    "paths",
    "from",
    "to",
    "file_path",
    "notebook_path",
    "directory",
    "dir_path",
    "include",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathUse {
    /// As the caller wrote it.
    pub path: String,
    pub write: bool,
    /// By its name on the host, where it was changed. Else by one that the guest or the caller uses.
    pub on_host: bool,
    /// It was changed, and can be run as a program.
    pub executable: bool,
}

/// A running program that a call names, and what it types into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskUse {
    pub task: String,
    /// The member `chars`; empty when the call types nothing.
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subject {
    pub paths: Vec<PathUse>,
    pub command: Option<String>,
    /// The running program that the input names in `task_id` or `pid`, where it names no command.
    pub task: Option<TaskUse>,
    /// Variables that the call sets for the programs of its session and that are not inert, with their values. Known
    /// when it has run.
    pub variables: Vec<(String, String)>,
    /// Those of the members `url` and `urls`, as the caller wrote them; an empty one stands for what cannot be told.
    pub urls: Vec<String>,
    /// There were more paths than are looked at, or deeper ones, or one that is no text: no rule about paths may allow
    /// the call, and every one that forbids or asks does.
    pub unclear: bool,
}

impl Subject {
    pub fn of(tool: &Descriptor, input: &Value) -> Self {
        let mut subject = Self::default();
        let Some(members) = input.as_object() else {
            return subject;
        };
        let text = |name: &str| members.get(name).and_then(Value::as_str).map(str::to_owned);
        subject.command = text("command").or_else(|| text("cmd"));
        let pid = || Some(members.get("pid")?.as_u64()?.to_string());
        subject.task = text("task_id")
            .or_else(pid)
            .filter(|_| subject.command.is_none())
            .map(|task| TaskUse {
                task,
                text: text("chars").unwrap_or_default(),
            });
        subject.urls.extend(text("url"));
        // Whatever is there besides texts, or beyond the limit, no rule may allow.
        let urls = members.get("urls").and_then(Value::as_array);
        let urls = urls.into_iter().flatten().take(MAX_URLS + 1);
        subject.urls.extend(urls.enumerate().map(|(index, url)| {
            let url = url.as_str().filter(|_| index < MAX_URLS);
            url.unwrap_or_default().to_owned()
        }));
        // A pure tool is given no file at all; what looks like a path in its input is data.
        if tool.effect() == Effect::Pure && !is_foreign(tool.name.as_str(), tool) {
            return subject;
        }
        subject.look(tool, input, MAX_DEPTH);
        subject
    }

    /// What a call touched, now that its changes are known: what its input named it may have read.
    #[must_use]
    pub fn known(&self, changes: &ChangeSet) -> Self {
        let mut known = self.clone();
        for path in &mut known.paths {
            path.write = false;
        }
        let executables = changes.executables();
        let mut changed = changes.paths().into_iter();
        known
            .paths
            .extend(changed.by_ref().take(MAX_CHANGED).map(|path| PathUse {
                path: path.to_owned(),
                write: true,
                on_host: true,
                executable: executables.contains(path),
            }));
        known.unclear |= changed.next().is_some() || changes.goes_deeper();
        known
    }

    /// The same with variables that the call sets for the programs of its session.
    #[must_use]
    pub fn setting(mut self, variables: Vec<(String, String)>) -> Self {
        self.variables = variables;
        self
    }

    /// Looks into everything that may hold a path, such as `edits: [{"path": …}]`.
    fn look(&mut self, tool: &Descriptor, value: &Value, depth: usize) {
        let (members, inner): (_, &mut dyn Iterator<Item = &Value>) = match value {
            Value::Object(members) => (Some(members), &mut members.values()),
            Value::Array(items) => (None, &mut items.iter()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return,
        };
        let mut inner = inner.peekable();
        if depth == 0 {
            self.unclear |= inner.peek().is_some();
            return;
        }
        if let Some(members) = members {
            self.members(tool, members);
        }
        for value in inner {
            self.look(tool, value, depth - 1);
        }
    }

    fn members(&mut self, tool: &Descriptor, members: &Map<String, Value>) {
        for name in PATHS {
            let Some(value) = members.get(name) else {
                continue;
            };
            let write = writes(tool, name);
            match value {
                Value::Null => {}
                Value::Array(items) => items.iter().for_each(|item| self.add(item, write)),
                item => self.add(item, write),
            }
        }
    }

    fn add(&mut self, item: &Value, write: bool) {
        match item {
            Value::String(path) if self.paths.len() < MAX_PATHS => self.paths.push(PathUse {
                path: path.clone(),
                write,
                on_host: false,
                executable: false,
            }),
            // An object is looked into as well, but which of its members is the path only the tool knows.
            _ => self.unclear = true,
        }
    }
}

fn writes(tool: &Descriptor, member: &str) -> bool {
    if tool.effect() <= Effect::Reads {
        return false;
    }
    // What is copied from stays as it was; what is moved from does not.
    let copies = tool.effect() == Effect::Writes
        && !matches!(tool.kind.as_str(), "move" | "delete" | "execute");
    !(member == "from" && copies)
}
