//! The subject of a call: paths, command and addresses named in its input.

use serde_json::{Map, Value};

use super::tool_names::is_foreign;
use crate::path_members::PATH_MEMBERS;
use crate::{ChangeSet, Descriptor, Effect, Preview};

/// Maximum number of paths in an input; each is compared with every candidate rule.
const MAX_PATHS: usize = 256;

/// Maximum number of changed paths. Beyond it, the changes count as unknown paths and require approval.
const MAX_CHANGED: usize = 4_096;

/// Maximum number of addresses in an input.
const MAX_URLS: usize = 64;

/// Maximum depth to which objects and lists are searched.
const MAX_DEPTH: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathUse {
    /// As written by the caller.
    pub path: String,
    pub write: bool,
    /// The line that the call concerns, as the tool says. For prompts only.
    pub line: Option<u32>,
    /// `path` is a host path that the call changed. Otherwise it is a path as the guest or the caller uses it.
    pub on_host: bool,
    /// The call changed it, and it is executable.
    pub executable: bool,
}

/// A running program named by a call, and the text typed into it.
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
    /// The running program that the input names in `task_id` or `pid`, if it names no command.
    pub task: Option<TaskUse>,
    /// Variables, with values, that the call sets for programs of its session and that are not inert. Known after the
    /// call has run.
    pub variables: Vec<(String, String)>,
    /// The values of `url` and `urls` as written by the caller; an empty string stands for an invalid entry.
    pub urls: Vec<String>,
    /// Where effects go, by the sinks of the tool.
    pub destinations: Vec<String>,
    /// The input does not state all destinations as texts. Then no rule for destinations allows the call, and every deny
    /// or ask rule for them matches.
    pub has_unknown_destinations: bool,
    /// The input has too many or too deeply nested paths, or a path that is not a string. Then no rule for paths allows
    /// the call, and every deny or ask rule for paths matches.
    pub has_unknown_paths: bool,
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
        // Other values, and entries beyond the limit, become empty strings, which no rule allows.
        let urls = members.get("urls").and_then(Value::as_array);
        let urls = urls.into_iter().flatten().take(MAX_URLS + 1);
        subject.urls.extend(urls.enumerate().map(|(index, url)| {
            let url = url.as_str().filter(|_| index < MAX_URLS);
            url.unwrap_or_default().to_owned()
        }));
        match tool.destinations(input) {
            Ok(destinations) => subject.destinations = destinations,
            Err(_) => subject.has_unknown_destinations = true,
        }
        let addresses = subject.destinations.iter().filter(|text| is_address(text));
        let addresses: Vec<String> = addresses.cloned().collect();
        subject.urls.extend(addresses);
        // A pure tool gets no files, so path-like members of its input are data.
        if tool.effect() == Effect::Pure && !is_foreign(tool.name.as_str(), tool) {
            return subject;
        }
        subject.collect_paths(tool, input, MAX_DEPTH);
        subject
    }

    /// The subject of a call with known changes. Paths named in the input count as read.
    #[must_use]
    pub fn with_changes(&self, changes: &ChangeSet) -> Self {
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
                line: None,
                on_host: true,
                executable: executables.contains(path),
            }));
        known.has_unknown_paths |= changed.next().is_some() || changes.has_unlisted_changes();
        known
    }

    /// Adds variables that the call sets for programs of its session.
    #[must_use]
    pub fn with_variables(mut self, variables: Vec<(String, String)>) -> Self {
        self.variables = variables;
        self
    }

    /// Adds the paths that the tool itself names.
    #[must_use]
    pub fn with_locations(mut self, preview: &Preview) -> Self {
        self.has_unknown_paths |= preview.has_unknown_locations;
        for location in &preview.locations {
            let is_named =
                |path: &&mut PathUse| path.path == location.path && path.write == location.write;
            match self.paths.iter_mut().find(|path| is_named(path)) {
                Some(named) => named.line = location.line,
                None => self.push_path(&location.path, location.write, location.line),
            }
        }
        self
    }

    /// Collects paths at every depth, such as `edits: [{"path": …}]`.
    fn collect_paths(&mut self, tool: &Descriptor, value: &Value, depth: usize) {
        let (members, inner): (_, &mut dyn Iterator<Item = &Value>) = match value {
            Value::Object(members) => (Some(members), &mut members.values()),
            Value::Array(items) => (None, &mut items.iter()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return,
        };
        let mut inner = inner.peekable();
        if depth == 0 {
            self.has_unknown_paths |= inner.peek().is_some();
            return;
        }
        if let Some(members) = members {
            self.collect_members(tool, members);
        }
        for value in inner {
            self.collect_paths(tool, value, depth - 1);
        }
    }

    fn collect_members(&mut self, tool: &Descriptor, members: &Map<String, Value>) {
        for name in PATH_MEMBERS {
            let Some(value) = members.get(name) else {
                continue;
            };
            let write = is_written(tool, name);
            match value {
                Value::Null => {}
                Value::Array(items) => items.iter().for_each(|item| self.add_path(item, write)),
                item => self.add_path(item, write),
            }
        }
    }

    fn add_path(&mut self, item: &Value, write: bool) {
        match item {
            Value::String(path) => self.push_path(path, write, None),
            // An object is searched as well, but only the tool knows which member is the path.
            _ => self.has_unknown_paths = true,
        }
    }

    fn push_path(&mut self, path: &str, write: bool, line: Option<u32>) {
        if self.paths.len() == MAX_PATHS {
            self.has_unknown_paths = true;
            return;
        }
        self.paths.push(PathUse {
            path: path.to_owned(),
            write,
            line,
            on_host: false,
            executable: false,
        });
    }
}

/// Whether a destination is a URL, whose host rules and the sandbox compare.
pub fn is_address(destination: &str) -> bool {
    let scheme = |prefix: &str| {
        destination
            .get(..prefix.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    scheme("http://") || scheme("https://")
}

fn is_written(tool: &Descriptor, member: &str) -> bool {
    if tool.effect() <= Effect::Reads {
        return false;
    }
    // Copying does not change its source; moving does.
    let copies = tool.effect() == Effect::Writes
        && !matches!(tool.kind.as_str(), "move" | "delete" | "execute");
    !(member == "from" && copies)
}
