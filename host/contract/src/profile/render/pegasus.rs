//! Results in the shapes of Pegasus. Error messages are in `event_formats::pegasus`.

use serde_json::{Value, json};

use super::lines;
use super::shape::{Facts, Shape};

const RESPONSE: &[(&str, &str)] = &[
    ("status", "status"),
    ("headers", "headers"),
    ("body", "body"),
];
/// Notes about the body that these members cannot express.
const BODY: &[&str] = &["truncated"];

pub(super) const SHAPES: &[Shape] = &[
    Shape::members(
        "current_time",
        &[
            ("timestamp", "timestamp"),
            ("iso", "iso"),
            ("timezone", "timezone"),
        ],
    ),
    Shape::members("sleep", &[("slept", "slept")]),
    Shape::members("get_env", &[("value", "value")]).notes(&["note"]),
    Shape::members("set_env", &[("previous", "previous")]),
    Shape::content("read_file", false).notes(&["truncated"]),
    Shape::members("write_file", &[("bytesWritten", "bytesWritten")]),
    Shape::made("list_directory", files).notes(&["truncated", "total"]),
    Shape::members("delete_file", &[("deleted", "deleted")]),
    Shape::members("move_file", &[("success", "success")]),
    Shape::made("get_file_info", info),
    Shape::members("http_get", RESPONSE).notes(BODY),
    Shape::members("http_post", RESPONSE).notes(BODY),
    Shape::members("http_request", RESPONSE).notes(BODY),
    Shape::members("web_search", &[("results", "results")]),
    Shape::members("json_parse", &[("data", "data")]),
    Shape::members("json_stringify", &[("text", "text")]),
    Shape::members("base64_encode", &[("encoded", "encoded")]),
    Shape::members("base64_decode", &[("decoded", "decoded")]).notes(&["bytes_base64", "binary"]),
    // Later versions.
    Shape::members(
        "shell",
        &[
            ("stdout", "stdout"),
            ("stderr", "stderr"),
            ("exitCode", "exitCode|exit_code"),
        ],
    )
    .notes(&[
        "signal",
        "timed_out",
        "truncated",
        "output_file",
        "task_id",
        "pid",
    ])
    .also_failed(),
    Shape::members("glob", &[("files", "matches"), ("truncated", "truncated")])
        .notes(&["timed_out"]),
];

///
fn files(_: &Facts, ours: &Value) -> Option<Value> {
    let files = ours["files"].as_array()?;
    let files: Vec<Value> = files.iter().cloned().map(with_milliseconds).collect();
    Some(json!({"files": files}))
}

/// File information, without size and time if the file does not exist.
fn info(_: &Facts, ours: &Value) -> Option<Value> {
    let exists = ours["exists"].as_bool()?;
    if !exists {
        return Some(json!({"exists": false}));
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
