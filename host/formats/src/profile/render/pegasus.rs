//! Results in the shapes of Pegasus. Error messages are in `event_formats::pegasus`.

use serde_json::{Value, json};

use super::lines;
use super::shape::{ResultShape, ShapeContext};

const RESPONSE: &[(&str, &str)] = &[
    ("status", "status"),
    ("headers", "headers"),
    ("body", "body"),
];
/// Notes about the body that these members cannot express.
const BODY: &[&str] = &["truncated"];

pub(super) const SHAPES: &[ResultShape] = &[
    ResultShape::members(
        "current_time",
        &[
            ("timestamp", "timestamp"),
            ("iso", "iso"),
            ("timezone", "timezone"),
        ],
    ),
    ResultShape::members("sleep", &[("slept", "slept")]),
    ResultShape::members("get_env", &[("value", "value")]).optional_members(&["note"]),
    ResultShape::members("set_env", &[("previous", "previous")]),
    ResultShape::content("read_file", false).optional_members(&["truncated"]),
    ResultShape::members("write_file", &[("bytesWritten", "bytesWritten")]),
    ResultShape::computed("list_directory", files).optional_members(&["truncated", "total"]),
    ResultShape::members("delete_file", &[("deleted", "deleted")]),
    ResultShape::members("move_file", &[("success", "success")]),
    ResultShape::computed("get_file_info", info),
    ResultShape::members("http_get", RESPONSE).optional_members(BODY),
    ResultShape::members("http_post", RESPONSE).optional_members(BODY),
    ResultShape::members("http_request", RESPONSE).optional_members(BODY),
    ResultShape::members("web_search", &[("results", "results")]),
    ResultShape::members("json_parse", &[("data", "data")]),
    ResultShape::members("json_stringify", &[("text", "text")]),
    ResultShape::members("base64_encode", &[("encoded", "encoded")]),
    ResultShape::members("base64_decode", &[("decoded", "decoded")])
        .optional_members(&["bytes_base64", "binary"]),
    // Later versions.
    ResultShape::members(
        "shell",
        &[
            ("stdout", "stdout"),
            ("stderr", "stderr"),
            ("exitCode", "exitCode|exit_code"),
        ],
    )
    .optional_members(&[
        "signal",
        "timed_out",
        "truncated",
        "output_file",
        "task_id",
        "pid",
    ])
    .including_failures(),
    ResultShape::members("glob", &[("files", "matches"), ("truncated", "truncated")])
        .optional_members(&["timed_out"]),
];

fn files(_: &ShapeContext, ours: &Value) -> Option<Value> {
    let files = ours["files"].as_array()?;
    let files: Vec<Value> = files.iter().cloned().map(with_milliseconds).collect();
    Some(json!({"files": files}))
}

/// File information. Size and time are null if the file does not exist.
fn info(_: &ShapeContext, ours: &Value) -> Option<Value> {
    let exists = ours["exists"].as_bool()?;
    if !exists {
        return Some(json!({"exists": false, "size": null, "modified": null}));
    }
    let mut shown = json!({"exists": true, "size": ours["size"], "modified": ours["modified"]});
    for name in ["isDirectory", "isFile", "isSymlink"] {
        if ours[name] == true {
            shown[name] = true.into();
        }
    }
    Some(with_milliseconds(shown))
}

/// Converts dates to milliseconds since the Unix epoch, which Pegasus uses.
fn with_milliseconds(mut file: Value) -> Value {
    if let Some(number) = file["modified"].as_str().and_then(lines::milliseconds) {
        file["modified"] = number.into();
    }
    file
}
