//! What a call touches: the paths, the command and the address that its input names.

use serde_json::{Map, Value};

use super::names::is_foreign;
use crate::{Descriptor, Effect};

/// Nobody names more in good faith, and each costs a look at every rule.
const MAX_PATHS: usize = 256;

/// Members that hold a path, by the names that tools use for it.
pub(super) const PATHS: [&str; 8] = [
    "path",
    "paths",
    "from",
    "to",
    "file_path",
    "notebook_path",
    "directory",
    "dir_path",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathUse {
    /// As the caller wrote it.
    pub path: String,
    pub write: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subject {
    pub paths: Vec<PathUse>,
    pub command: Option<String>,
    pub url: Option<String>,
    /// There were more paths than are looked at, or one that is no text: no rule about paths may allow the call, and
    /// every one that forbids or asks does.
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
        subject.url = text("url");
        // A pure tool is given no file at all; what looks like a path in its input is data.
        if tool.effect() == Effect::Pure && !is_foreign(tool.name.as_str(), tool) {
            return subject;
        }
        subject.members(tool, members);
        // Such as `edits: [{"path": …}]`.
        for item in members.values().filter_map(Value::as_array).flatten() {
            if let Some(item) = item.as_object() {
                subject.members(tool, item);
            }
        }
        subject
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
            }),
            // Its members are looked at one by one.
            Value::Object(_) => {}
            _ => self.unclear = true,
        }
    }
}

fn writes(tool: &Descriptor, member: &str) -> bool {
    // A command's own paths say where it runs; what it writes stands in the command.
    if tool.effect() <= Effect::Reads || tool.kind == "execute" {
        return false;
    }
    // What is copied from stays as it was; what is moved from does not.
    let copies = tool.effect() == Effect::Writes && tool.kind != "move" && tool.kind != "delete";
    !(member == "from" && copies)
}
