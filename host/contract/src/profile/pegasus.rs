//! Mapping table of Pegasus: the 18 documented tools, then those of later versions.

use super::table::{Fill, Row, renamed, same};

pub(super) const ROWS: &[Row] = &[
    Row::new("current_time", "current_time", &[same("timezone")]),
    Row::new("sleep", "sleep", &[same("duration")]),
    Row::new("get_env", "get_env", &[same("key")]),
    Row::new("set_env", "set_env", &[same("key"), same("value")]),
    Row::new(
        "read_file",
        "read_file",
        &[
            same("path"),
            same("encoding").encoding(),
            same("offset"),
            same("limit"),
        ],
    ),
    Row::new(
        "write_file",
        "write_file",
        &[same("path"), same("content"), same("encoding").encoding()],
    ),
    Row::new(
        "list_files",
        "list_directory",
        &[same("path").needed(), same("recursive"), same("pattern")],
    ),
    Row::new("delete_file", "delete_file", &[same("path")]),
    Row::new("move_file", "move_file", &[same("from"), same("to")]),
    Row::new("get_file_info", "get_file_info", &[same("path")]),
    Row::new("http_get", "http_get", &[same("url"), same("headers")]),
    Row::new(
        "http_post",
        "http_post",
        &[same("url"), same("body"), same("headers")],
    ),
    Row::new(
        "http_request",
        "http_request",
        &[same("method"), same("url"), same("body"), same("headers")],
    ),
    Row::new("web_search", "web_search", &[same("query"), same("limit")]),
    Row::new("json_parse", "json_parse", &[same("text")]),
    Row::new(
        "json_stringify",
        "json_stringify",
        &[same("data"), same("pretty")],
    ),
    Row::new("base64_encode", "base64_encode", &[same("text").needed()]),
    Row::new("base64_decode", "base64_decode", &[same("encoded")]),
    // Later versions.
    Row::new("image_read", "read_media", &[same("path")]),
    Row::new(
        "edit_file",
        "edit_file",
        &[
            same("path"),
            same("old_string").needed(),
            same("new_string").needed(),
            same("replace_all"),
        ],
    ),
    Row::new(
        "glob_files",
        "glob",
        &[same("pattern"), same("path"), same("limit")],
    ),
    Row::new(
        "grep_files",
        "grep",
        &[
            same("pattern"),
            same("path"),
            same("glob"),
            same("output_mode"),
            same("case_insensitive"),
            same("context"),
            same("head_limit"),
        ],
    ),
    Row::new(
        "shell_exec",
        "shell",
        &[
            same("command"),
            same("cwd"),
            renamed("timeout", "timeout_ms"),
            same("env"),
        ],
    ),
    Row::new(
        "bg_run",
        "background_run",
        &[
            same("tool"),
            same("params"),
            renamed("timeout", "timeout_ms"),
        ],
    ),
    Row::new(
        "bg_output",
        "shell_output",
        &[
            renamed("taskId", "task_id").needed(),
            same("block"),
            renamed("timeout", "timeout_ms"),
        ],
    ),
    Row::new(
        "bg_stop",
        "shell_kill",
        &[renamed("taskId", "task_id").needed()],
    ),
    Row::new(
        "spawn_subagent",
        "task",
        &[
            same("description").needed(),
            renamed("input", "prompt"),
            renamed("type", "agent"),
        ],
    ),
    Row::new(
        "use_skill",
        "skill",
        &[same("skill").needed(), same("args")],
    ),
    Row::new("memory_list", "memory", &[same("scope")])
        .fills(&[("action", Fill::Text("list"))])
        .says("List the notes saved for later sessions, with sizes and summaries."),
    Row::new(
        "memory_read",
        "memory",
        &[same("path").needed(), same("scope")],
    )
    .fills(&[("action", Fill::Text("read"))])
    .says("Read a note saved for later sessions."),
    Row::new(
        "memory_write",
        "memory",
        &[
            same("path").needed(),
            same("content").needed(),
            same("summary"),
            same("scope"),
        ],
    )
    .fills(&[("action", Fill::Text("write"))])
    .says("Save a note for later sessions, replacing its previous content."),
    Row::new(
        "memory_patch",
        "memory",
        &[
            same("path").needed(),
            same("old_string").needed(),
            same("new_string").needed(),
            same("scope"),
        ],
    )
    .fills(&[("action", Fill::Text("edit"))])
    .says("Edit a note saved for later sessions."),
    Row::new(
        "memory_append",
        "memory",
        &[
            same("path").needed(),
            same("content").needed(),
            same("scope"),
        ],
    )
    .fills(&[("action", Fill::Text("append"))])
    .says("Append to a note saved for later sessions."),
    Row::new(
        "web_fetch",
        "web_fetch",
        &[same("url").needed(), same("prompt")],
    ),
];
