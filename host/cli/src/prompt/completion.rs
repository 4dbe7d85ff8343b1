//! Tab completion of commands, tools, parameters, their known values, and paths; and lines that continue.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};
use serde_json::{Map, Value};
use toolhost::AllowedPath;
use toolhost_contract::path_members::is_path_member;
use toolhost_contract::policy::Mode;
use toolhost_contract::text;
use toolhost_kernel::{Kernel, RegistrySnapshot};

use super::line::{COMMANDS, is_incomplete};
use crate::input::nameless_parameter;

/// Maximum number of entries of a directory that are read for one completion.
const MAX_ENTRIES: usize = 10_000;
/// Maximum number of completions of a path.
const MAX_PATHS: usize = 200;
/// Maximum depth to which a schema is searched for values, because a guest's schema can be recursive.
const MAX_DEPTH: usize = 4;

pub struct LineHelper {
    kernel: Arc<Kernel>,
    directories: Vec<AllowedPath>,
}

impl LineHelper {
    pub fn new(kernel: Arc<Kernel>, paths: &[AllowedPath]) -> Self {
        Self {
            kernel,
            directories: paths.to_vec(),
        }
    }
}

impl Completer for LineHelper {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let registry = self.kernel.registry();
        Ok(complete(&line[..pos], &registry, &self.directories))
    }
}

impl Hinter for LineHelper {
    type Hint = String;
}
impl Highlighter for LineHelper {}

impl Validator for LineHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if is_incomplete(context.input()) {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Valid(None)
        })
    }
}

impl Helper for LineHelper {}

/// The start of the word at the cursor, and its completions.
fn complete(
    line: &str,
    registry: &RegistrySnapshot,
    directories: &[AllowedPath],
) -> (usize, Vec<String>) {
    let start = word_start(line);
    let word = &line[start..];
    let before: Vec<&str> = line[..start].split_whitespace().collect();
    // A complete word includes the following space.
    let spaced = |name: &str| format!("{name} ");
    let tools = || registry.list().map(|entry| spaced(entry.name.as_str()));
    let mut offers: Vec<String> = match before.as_slice() {
        [] => COMMANDS
            .iter()
            .map(|command| spaced(command))
            .chain(tools())
            .collect(),
        ["help" | "?" | "inspect" | "call" | "/help" | "/inspect" | "/allow"] => tools().collect(),
        ["/mode"] => Mode::ALL.iter().map(|mode| spaced(mode.as_str())).collect(),
        ["plugins" | "/plugins"] => plugins(registry).map(spaced).collect(),
        ["/undo" | "/redo" | "/diff"] => paths(word, directories),
        [command, ..] if command.starts_with('/') => Vec::new(),
        ["call", tool, given @ ..] | [tool, given @ ..] => match registry.get(tool) {
            Some(entry) => arguments(&entry.tool.input_schema, word, given, directories),
            None => Vec::new(),
        },
    };
    offers.retain(|offer| offer.starts_with(word));
    offers.sort();
    offers.dedup();
    (start, offers)
}

fn plugins(registry: &RegistrySnapshot) -> impl Iterator<Item = &str> {
    registry.list_all().map(|entry| entry.plugin.name.as_str())
}

/// The start of the last word, in which a backslash quotes a space.
fn word_start(line: &str) -> usize {
    let is_quoted = |at: usize| {
        let slashes = line[..at].bytes().rev().take_while(|b| *b == b'\\').count();
        slashes % 2 == 1
    };
    let spaces = line.char_indices().rev().filter(|(_, c)| c.is_whitespace());
    spaces
        .filter(|(at, _)| !is_quoted(*at))
        .map(|(at, c)| at + c.len_utf8())
        .next()
        .unwrap_or(0)
}

fn arguments(
    schema: &Value,
    word: &str,
    given: &[&str],
    directories: &[AllowedPath],
) -> Vec<String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    if let Some((key, value)) = word.split_once('=') {
        let property = properties.and_then(|properties| properties.get(key));
        let Some(property) = property else {
            return Vec::new();
        };
        let mut values = choices(schema, property, 0);
        if values.is_empty() && is_path_member(key) {
            values = paths(value, directories);
        }
        return values
            .into_iter()
            .map(|value| format!("{key}={value}"))
            .collect();
    }
    let is_given = |key: &str| {
        given
            .iter()
            .any(|word| word.split(['=', ':']).next() == Some(key))
    };
    let names = properties
        .into_iter()
        .flat_map(Map::keys)
        .filter(|key| !is_given(key) && is_plain(key))
        .map(|key| format!("{key}="));
    let mut offers: Vec<String> = names.collect();
    // The first value may have no name.
    if let Some(name) = nameless_parameter(schema).filter(|_| given.is_empty()) {
        if let Some(property) = properties.and_then(|properties| properties.get(name)) {
            offers.extend(choices(schema, property, 0));
        }
        if is_path_member(name) && !word.is_empty() {
            offers.extend(paths(word, directories));
        }
    }
    offers
}

/// The values that a schema lists.
fn choices(root: &Value, property: &Value, depth: usize) -> Vec<String> {
    if depth > MAX_DEPTH {
        return Vec::new();
    }
    if let Some(values) = property.get("enum").and_then(Value::as_array) {
        let plain = values.iter().filter_map(Value::as_str);
        return plain
            .filter(|value| is_plain(value))
            .map(|value| format!("{value} "))
            .collect();
    }
    if property.get("type") == Some(&Value::from("boolean")) {
        return vec!["true ".to_owned(), "false ".to_owned()];
    }
    let target = property.get("$ref").and_then(Value::as_str);
    let target = target.and_then(|target| root.pointer(target.strip_prefix('#')?));
    let parts = ["anyOf", "oneOf", "allOf"]
        .into_iter()
        .filter_map(|keyword| property.get(keyword)?.as_array())
        .flatten();
    parts
        .chain(target)
        .flat_map(|part| choices(root, part, depth + 1))
        .collect()
}

/// Files and directories below the granted directories. Relative paths are below the first one, as tools resolve them.
fn paths(word: &str, directories: &[AllowedPath]) -> Vec<String> {
    let typed = word.replace("\\ ", " ");
    let (parent, start) = typed.split_at(typed.rfind('/').map_or(0, |slash| slash + 1));
    let Some(directory) = host_path(Path::new(parent), directories) else {
        return Vec::new();
    };
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let mut found = Vec::new();
    for entry in entries.take(MAX_ENTRIES).flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| name.starts_with(start)) else {
            continue;
        };
        let is_hidden = name.starts_with('.') && !start.starts_with('.');
        if is_hidden || !name.chars().all(is_path_char) {
            continue;
        }
        let is_directory = entry.path().is_dir();
        let end = if is_directory { "/" } else { " " };
        let quoted = format!("{parent}{name}").replace(' ', "\\ ");
        found.push(format!("{quoted}{end}"));
        if found.len() == MAX_PATHS {
            break;
        }
    }
    found
}

/// The path on the host of a path as tools name it. `None` if it is outside of the granted directories.
pub fn host_path(path: &Path, directories: &[AllowedPath]) -> Option<PathBuf> {
    let goes_up = path
        .components()
        .any(|part| part == std::path::Component::ParentDir);
    if goes_up {
        return None;
    }
    if path.is_relative() {
        return Some(directories.first()?.host.join(path));
    }
    directories.iter().find_map(|granted| {
        if path.starts_with(&granted.host) {
            return Some(path.to_owned());
        }
        let below = path.strip_prefix(&granted.guest).ok()?;
        Some(granted.host.join(below))
    })
}

/// Whether a character of a file name is safe to insert into the line.
fn is_path_char(c: char) -> bool {
    !text::needs_escape(c) && (c.is_alphanumeric() || " ._-+@,:~%#".contains(c))
}

/// Whether a word from a guest's schema is safe to insert into the line, which is not escaped.
fn is_plain(word: &str) -> bool {
    !word.is_empty()
        && word.len() <= 64
        && word
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_-./".contains(&b))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolhost::Excludes;
    use toolhost_contract::{Access, Descriptor, ToolName};

    use super::*;
    use crate::testing;

    fn tool() -> Descriptor {
        let mut tool = Descriptor::new(ToolName::parse("grep").unwrap(), "");
        tool.input_schema = json!({
            "type": "object",
            "required": ["path"],
            "$defs": {"speed": {"enum": ["fast", "slow", "\u{1b}[2J"]}},
            "properties": {
                "path": {"type": "string"},
                "pattern": {"type": "string"},
                "mode": {"anyOf": [{"$ref": "#/$defs/speed"}, {"type": "null"}]},
                "all": {"type": "boolean"},
                "x\n": {},
            },
        });
        tool
    }

    fn check_below(directories: &[AllowedPath], line: &str, start: usize, offers: &[&str]) {
        let kernel = testing::kernel("search", vec![tool()]);
        assert_eq!(
            complete(line, &kernel.registry(), directories),
            (
                start,
                offers.iter().map(|offer| (*offer).to_owned()).collect()
            ),
            "{line}"
        );
    }

    fn check(line: &str, start: usize, offers: &[&str]) {
        check_below(&[], line, start, offers);
    }

    #[test]
    fn tab_completes_commands_tools_and_parameters() {
        check("gr", 0, &["grep "]);
        check("/un", 0, &["/undo "]);
        check("/mode pl", 6, &["plan "]);
        check("/plugins ", 9, &["search "]);
        check("/calls ", 7, &[]);
        check("help ", 5, &["grep "]);
        check("/help ", 6, &["grep "]);
        check("call gr", 5, &["grep "]);
        check("grep p", 5, &["path=", "pattern="]);
        check("call grep p", 10, &["path=", "pattern="]);
        check("grep path=x ", 12, &["all=", "mode=", "pattern="]);
        check("grep mode=", 5, &["mode=fast ", "mode=slow "]);
        check("grep pattern=", 5, &[]);
        check("grep all=t", 5, &["all=true "]);
        check("unknown p", 8, &[]);
    }

    #[test]
    fn tab_completes_paths_below_granted_directories() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "notes.md",
            "no way.txt",
            ".hidden",
            "esc\u{1b}[2J",
            "empty\u{3164}",
            "docs/a.md",
        ] {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let directories = [AllowedPath {
            guest: "/workspace".into(),
            host: dir.path().to_owned(),
            access: Access::ReadOnly,
            dangerous: false,
            exclude: Excludes::default(),
        }];
        let check = |line: &str, start: usize, offers: &[&str]| {
            check_below(&directories, line, start, offers);
        };
        check("grep no", 5, &["no\\ way.txt ", "notes.md "]);
        check("grep no\\ w", 5, &["no\\ way.txt "]);
        check("grep path=docs/", 5, &["path=docs/a.md "]);
        check("grep path=d", 5, &["path=docs/"]);
        check("grep path=.h", 5, &["path=.hidden "]);
        check(
            "grep /workspace/n",
            5,
            &["/workspace/no\\ way.txt ", "/workspace/notes.md "],
        );
        check("grep e", 5, &[]);
        check("grep pattern=no", 5, &[]);
        check("grep path=docs/../../", 5, &[]);
        check("grep /etc/pas", 5, &[]);
        check("/undo not", 6, &["notes.md "]);
        let whole = format!("grep {}/not", dir.path().display());
        let offer = format!("{}/notes.md ", dir.path().display());
        check(&whole, 5, &[&offer]);
    }
}
