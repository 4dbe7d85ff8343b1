//! Mapping table of Pegasus: the 18 documented tools, then those of later versions.

use super::mapping::{DefaultValue, ToolMapping, renamed, same};

pub(super) const MAPPINGS: &[ToolMapping] = &[
    ToolMapping::new("current_time", "current_time", &[same("timezone")]),
    ToolMapping::new("sleep", "sleep", &[same("duration")]),
    ToolMapping::new("get_env", "get_env", &[same("key")]),
    ToolMapping::new("set_env", "set_env", &[same("key"), same("value")]),
    ToolMapping::new(
        "read_file",
        "read_file",
        &[
            same("path"),
            same("encoding").encoding(),
            same("offset"),
            same("limit"),
        ],
    ),
    ToolMapping::new(
        "write_file",
        "write_file",
        &[same("path"), same("content"), same("encoding").encoding()],
    ),
    ToolMapping::new(
        "list_files",
        "list_directory",
        &[same("path").required(), same("recursive"), same("pattern")],
    ),
    ToolMapping::new("delete_file", "delete_file", &[same("path")]),
    ToolMapping::new("move_file", "move_file", &[same("from"), same("to")]),
    ToolMapping::new("get_file_info", "get_file_info", &[same("path")]),
    ToolMapping::new("http_get", "http_get", &[same("url"), same("headers")]),
    ToolMapping::new(
        "http_post",
        "http_post",
        &[same("url"), same("body"), same("headers")],
    ),
    ToolMapping::new(
        "http_request",
        "http_request",
        &[
            same("method").required(),
            same("url"),
            same("body"),
            same("headers"),
        ],
    ),
    ToolMapping::new("web_search", "web_search", &[same("query"), same("limit")]),
    ToolMapping::new("json_parse", "json_parse", &[same("text")]),
    ToolMapping::new(
        "json_stringify",
        "json_stringify",
        &[same("data"), same("pretty")],
    ),
    ToolMapping::new("base64_encode", "base64_encode", &[same("text").required()]),
    ToolMapping::new("base64_decode", "base64_decode", &[same("encoded")]),
    // Later versions.
    ToolMapping::new("image_read", "read_media", &[same("path")]),
    ToolMapping::new(
        "edit_file",
        "edit_file",
        &[
            same("path"),
            same("old_string").required(),
            same("new_string").required(),
            same("replace_all"),
        ],
    ),
    ToolMapping::new(
        "glob_files",
        "glob",
        &[same("pattern"), same("path"), same("limit")],
    ),
    ToolMapping::new(
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
    ToolMapping::new(
        "shell_exec",
        "shell",
        &[
            same("command"),
            same("cwd"),
            renamed("timeout", "timeout_ms"),
            same("env"),
        ],
    ),
    ToolMapping::new(
        "bg_run",
        "background_run",
        &[
            same("tool"),
            same("params"),
            renamed("timeout", "timeout_ms"),
        ],
    ),
    ToolMapping::new(
        "bg_output",
        "shell_output",
        &[
            renamed("taskId", "task_id").required(),
            same("block"),
            renamed("timeout", "timeout_ms"),
        ],
    ),
    ToolMapping::new(
        "bg_stop",
        "shell_kill",
        &[renamed("taskId", "task_id").required()],
    ),
    ToolMapping::new(
        "spawn_subagent",
        "task",
        &[
            same("description").required(),
            renamed("input", "prompt"),
            renamed("type", "agent"),
        ],
    ),
    ToolMapping::new(
        "use_skill",
        "skill",
        &[same("skill").required(), same("args")],
    ),
    ToolMapping::new("memory_list", "memory", &[same("scope")])
        .defaults(&[("action", DefaultValue::Text("list"))])
        .description("List the notes saved for later sessions, with sizes and summaries."),
    ToolMapping::new(
        "memory_read",
        "memory",
        &[same("path").required(), same("scope")],
    )
    .defaults(&[("action", DefaultValue::Text("read"))])
    .description("Read a note saved for later sessions."),
    ToolMapping::new(
        "memory_write",
        "memory",
        &[
            same("path").required(),
            same("content")
                .required()
                .description("Complete text of the note."),
            same("summary").description("Index line for the note."),
            same("scope"),
        ],
    )
    .defaults(&[("action", DefaultValue::Text("write"))])
    .description("Save a note for later sessions, replacing its previous content."),
    ToolMapping::new(
        "memory_patch",
        "memory",
        &[
            same("path").required(),
            same("old_string").required(),
            same("new_string").required(),
            same("scope"),
        ],
    )
    .defaults(&[("action", DefaultValue::Text("edit"))])
    .description("Edit a note saved for later sessions."),
    ToolMapping::new(
        "memory_append",
        "memory",
        &[
            same("path").required(),
            same("content").required().description("Text to append."),
            same("scope"),
        ],
    )
    .defaults(&[("action", DefaultValue::Text("append"))])
    .description("Append to a note saved for later sessions."),
    ToolMapping::new(
        "web_fetch",
        "web_fetch",
        &[same("url").required(), same("prompt")],
    ),
];
