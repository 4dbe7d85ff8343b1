//! Results in the shapes of Kode-SDK. The shape of errors is in `event_formats::kode`.

use serde_json::{Map, Value, json};

use super::lines;
use super::shape::{ResultShape, ShapeContext, select_members};
use crate::profile::kode::TODO;

pub(super) const SHAPES: &[ResultShape] = &[
    ResultShape::content("read_file", true),
    ResultShape::members(
        "write_file",
        &[("=ok", ""), ("path", "path"), ("bytes", "bytesWritten")],
    ),
    ResultShape::members(
        "edit_file",
        &[
            ("=ok", ""),
            ("path", "path"),
            ("replacements", "replacements"),
        ],
    )
    .optional_members(&["created"]),
    ResultShape::computed("multi_edit", edits).including_failures(),
    ResultShape::members(
        "glob",
        &[
            ("=ok", ""),
            ("matches", "matches"),
            ("truncated", "truncated"),
        ],
    )
    .optional_members(&["timed_out"]),
    ResultShape::computed("grep", grep).optional_members(&["timed_out"]),
    ResultShape::computed("shell", shell)
        .optional_members(&["signal", "timed_out", "truncated", "output_file"])
        .including_failures(),
    ResultShape::computed("shell_output", logs)
        .optional_members(&["signal", "truncated"])
        .including_failures(),
    ResultShape::members(
        "shell_kill",
        &[
            ("=ok", ""),
            ("pid", "pid"),
            ("shell_id", "task_id"),
            ("status", "state|status"),
        ],
    )
    .optional_members(&["exitCode", "signal"]),
    ResultShape::computed("todo_read", todos),
    ResultShape::computed("todo_write", todos_written),
];

/// The result of each edit.
fn edits(_: &ShapeContext, ours: &Value) -> Option<Value> {
    let edits = ours["edits"].as_array()?;
    let failed = |edit: &Value| edit["status"] == "error";
    Some(json!({"ok": !edits.iter().any(failed), "results": edits}))
}

/// A flat list of matching lines.
fn grep(facts: &ShapeContext, ours: &Value) -> Option<Value> {
    let files = ours["files"].as_array()?;
    let mut matches = Vec::new();
    for file in files {
        let path = &file["path"];
        if lines::list(&file["matches"]).next().is_none() {
            let mut shown = json!({"path": path});
            if !file["count"].is_null() {
                shown["count"] = file["count"].clone();
            }
            matches.push(shown);
        }
        for found in lines::list(&file["matches"]) {
            matches.push(json!({
                "path": path,
                "line": found["line"],
                "column": found["column"],
                "preview": found["text"],
            }));
        }
    }
    let truncated = &ours["truncated"];
    Some(json!({
        "ok": true,
        "pattern": facts.input["pattern"],
        "matches": matches,
        "truncated": truncated,
    }))
}

/// Output, or the handle of a background process.
fn shell(_: &ShapeContext, ours: &Value) -> Option<Value> {
    if ours["background"] == true {
        let mut shown = json!({"pid": ours["pid"], "status": "running"});
        if !ours["task_id"].is_null() {
            shown["shell_id"] = ours["task_id"].clone();
        }
        return Some(shown);
    }
    select_members(
        &[
            ("stdout", "stdout"),
            ("stderr", "stderr"),
            ("exitCode", "exitCode|exit_code"),
        ],
        ours,
    )
}

fn logs(_: &ShapeContext, ours: &Value) -> Option<Value> {
    select_members(
        &[
            ("pid", "pid"),
            ("shell_id", "task_id"),
            ("status", "state|status"),
            ("logs", "output|stdout|text"),
            ("stderr", "stderr"),
            ("exitCode", "exitCode|exit_code|exit"),
        ],
        ours,
    )
}

fn todos(_: &ShapeContext, ours: &Value) -> Option<Value> {
    let todos = ours["todos"].as_array()?;
    let todos: Vec<Value> = todos.iter().map(todo_of).collect();
    let mut shown = json!({"todos": todos});
    if !ours["version"].is_null() {
        shown["version"] = ours["version"].clone();
    }
    Some(shown)
}

fn todos_written(facts: &ShapeContext, ours: &Value) -> Option<Value> {
    let mut shown = todos(facts, ours)?;
    shown["ok"] = true.into();
    Some(shown)
}

/// Converts an item to the names that the model uses for input, so that it can write it back.
fn todo_of(todo: &Value) -> Value {
    let Some(members) = todo.as_object() else {
        return todo.clone();
    };
    let shown = members.iter().map(|(name, value)| {
        let param = TODO.iter().find(|param| param.canonical == name);
        (param.map_or(name.as_str(), |param| param.agent_name), value)
    });
    let shown: Map<String, Value> = shown
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .collect();
    Value::Object(shown)
}
