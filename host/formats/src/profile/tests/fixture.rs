//! Descriptors of the built-in tools, following builtin-tools.md, for tests that do not load plugins.

use serde_json::{Map, Value, json};

use crate::profile::{Profile, ProfiledRegistry, UnmappedTools};
use toolhost_contract::{Descriptor, Example, ToolName};

/// `name:type!`, `name:type=default`; `|alias` after the name. Types: s i b n o `[s]`, or the name of one of [`items`].
const TOOLS: &[(&str, &str)] = &[
    (
        "read_file",
        "path|file_path|filePath:s! offset|start_line:i limit:i end_line:i head:i tail:i encoding:s=auto line_numbers:b=true pages:s",
    ),
    (
        "read_many_files",
        "include|paths:[s]! exclude:[s] recursive:b=true use_default_excludes:b=true respect_git_ignore:b=true respect_tool_ignore:b=true max_bytes:i",
    ),
    ("read_media", "path|file_path:s!"),
    (
        "write_file",
        "path|file_path:s! content:s! encoding:s mode:s=overwrite create_dirs:b=true expected_sha256:s allow_empty:b=false",
    ),
    (
        "edit_file",
        "path|file_path:s! old_string|old_text:s new_string|new_text:s replace_all|allow_multiple:b=false edits:edits instruction:s dry_run:b=false",
    ),
    (
        "multi_edit",
        "path|file_path:s edits:edits! atomic:b=true dry_run:b=false",
    ),
    ("apply_patch", "patch:s!"),
    (
        "notebook_edit",
        "path|notebook_path:s! cell_id:s cell_number:i new_source:s cell_type:s edit_mode:s=replace",
    ),
    (
        "glob",
        "pattern:s! path|dir_path|cwd:s=. exclude:[s] case_sensitive:b=false dot:b=true respect_git_ignore:b=true respect_tool_ignore:b=true limit:i=100 offset:i=0 sort:sort absolute:b=false",
    ),
    (
        "grep",
        "pattern:s! path|dir_path:s=. glob|include_pattern:s exclude_pattern:s type:s output_mode:modes case_insensitive|-i:b=false fixed_strings:b=false word:b=false multiline:b=false before|-B:i after|-A:i context|-C:i line_numbers|-n:b=true head_limit|max_results:i=100 offset:i=0 max_per_file:i no_ignore:b=false flags:s",
    ),
    (
        "list_directory",
        "path|dir_path:s=. recursive:b=false depth:i=1 pattern:s ignore:[s] show_hidden:b=true respect_git_ignore:b=true limit:i=200",
    ),
    ("get_file_info", "path|file_path:s!"),
    (
        "move_file",
        "from|source:s! to|destination:s! overwrite:b=false",
    ),
    ("delete_file", "path:s! recursive:b=false"),
    ("create_directory", "path:s!"),
    (
        "shell",
        "command|cmd:s! description:s cwd|dir_path:s timeout_ms|timeout:i=120000 run_in_background|background|is_background:b=false delay_ms:i env:o",
    ),
    (
        "shell_output",
        "task_id|bash_id|shell_id:s pid:i lines:i=100 filter:s block:b=false timeout_ms|timeout:i delay_ms:i",
    ),
    ("shell_kill", "task_id|shell_id:s pid:i signal:s=TERM"),
    ("shell_list", ""),
    ("background_run", "tool:s! params:o! timeout_ms:i"),
    ("todo_write", "todos:todos! merge:b=false"),
    ("todo_read", ""),
    (
        "task",
        "prompt|task:s! description:s agent|subagent_type:s=general context:s model:s tools:[s] run_in_background:b=false resume:s",
    ),
    ("skill", "skill|name:s args:s"),
    ("ask_user", "questions:questions! metadata:o"),
    ("enter_plan_mode", "reason:s"),
    (
        "exit_plan_mode",
        "plan_path|planFilePath|plan_filename:s plan:s",
    ),
    (
        "memory",
        "action:actions scope:s=project file|path:s content:s old_string:s new_string:s summary:s fact:s",
    ),
    (
        "web_fetch",
        "url:s urls:[s] prompt:s format:s=markdown max_chars:i",
    ),
    (
        "web_search",
        "query:s! limit|max_results:i=10 allowed_domains:[s] blocked_domains:[s]",
    ),
    ("http_get", "url:s! headers:o timeout_ms:i"),
    ("http_post", "url:s! headers:o body:s timeout_ms:i"),
    (
        "http_request",
        "method:s! url:s! headers:o body:s timeout_ms:i",
    ),
    ("current_time", "timezone|tz:s=UTC"),
    ("sleep", "duration|seconds:n!"),
    ("get_env", "key|name:s!"),
    ("set_env", "key|name:s! value:s!"),
    ("json_parse", "text:s! strict:b=true"),
    ("json_stringify", "data:any! pretty:b=false indent:i"),
    ("base64_encode", "text:s bytes:[i] url_safe:b=false"),
    ("base64_decode", "encoded:s!"),
    ("list_mcp_resources", "server:s"),
    ("read_mcp_resource", "uri:s! server:s"),
    ("tool_chain", "steps:steps!"),
    ("tool_search", "query:s! limit:i=5"),
];

fn kind(code: &str) -> Value {
    let named = |all: &[&str]| json!({"type": "string", "enum": all});
    match code {
        "s" => json!({"type": "string"}),
        "i" => json!({"type": "integer", "minimum": 0}),
        "b" => json!({"type": "boolean"}),
        "n" => json!({"type": "number"}),
        "o" => json!({"type": "object"}),
        "any" => json!({}),
        "[s]" => json!({"type": "array", "items": {"type": "string"}}),
        "[i]" => json!({"type": "array", "items": {"type": "integer"}}),
        "sort" => named(&["mtime", "path"]),
        "modes" => named(&["files_with_matches", "content", "count"]),
        "actions" => named(&["list", "read", "write", "append", "edit"]),
        "edits" => list("path:s old_string|find:s! new_string|replace:s! replace_all:b=false"),
        "todos" => {
            list("id:s content|title:s! status:s! active_form|activeForm:s assignee:s notes:s")
        }
        "questions" => list(
            "question:s! header:s! type:s=choice options:[s] multi_select|multiSelect:b=false placeholder:s",
        ),
        "steps" => list("tool|name:s! args|params:o with:s"),
        other => panic!("no kind `{other}`"),
    }
}

fn list(members: &str) -> Value {
    json!({"type": "array", "items": object(members)})
}

fn object(members: &str) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for member in members.split_whitespace() {
        let (names, rest) = member.split_once(':').expect("a name and a type");
        let (code, default) = match rest.split_once('=') {
            Some((code, default)) => (code, Some(default)),
            None => (rest, None),
        };
        let mut names = names.split('|');
        let name = names.next().expect("a name");
        let aliases: Vec<&str> = names.collect();
        let mut property = kind(code.trim_end_matches('!'));
        property["description"] = format!("the {name}").into();
        if let Some(default) = default {
            property["default"] =
                serde_json::from_str(default).unwrap_or_else(|_| Value::String(default.to_owned()));
        }
        if !aliases.is_empty() {
            property["x-aliases"] = json!(aliases);
        }
        if code.ends_with('!') {
            required.push(name);
        }
        properties.insert(name.to_owned(), property);
    }
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema["additionalProperties"] = false.into();
    schema
}

pub fn tool(name: &str, members: &str) -> Descriptor {
    let name = ToolName::parse(name).unwrap();
    let mut tool = Descriptor::new(name.clone(), format!("The tool `{name}`."));
    tool.input_schema = object(members);
    tool.output_schema = Some(json!({"type": "object"}));
    tool
}

pub fn tools() -> Vec<Descriptor> {
    TOOLS
        .iter()
        .map(|(name, members)| tool(name, members))
        .collect()
}

pub fn with_example(mut tool: Descriptor, input: Value) -> Descriptor {
    tool.examples.push(Example {
        description: "an example".to_owned(),
        input,
    });
    tool
}

pub fn lens(profile: Profile, tools: &[Descriptor]) -> ProfiledRegistry<'_> {
    lens_with(profile, UnmappedTools::Installed, tools)
}

pub fn lens_with(
    profile: Profile,
    others: UnmappedTools,
    tools: &[Descriptor],
) -> ProfiledRegistry<'_> {
    ProfiledRegistry::new(profile, others, tools.iter().map(|tool| (&tool.name, tool)))
}
