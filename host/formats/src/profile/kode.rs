//! Mapping table of Kode-SDK: the parameters of its documentation first, then those of its later code (C-09 to C-13).

use super::claude::REPLACEMENT;
use super::mapping::{DefaultValue, ParamMapping, ToolMapping, renamed, same};

pub(super) const TODO: &[ParamMapping] = &[
    same("id"),
    renamed("title", "content"),
    same("status"),
    same("assignee"),
    same("notes"),
];

pub(super) const MAPPINGS: &[ToolMapping] = &[
    ToolMapping::new(
        "fs_read",
        "read_file",
        &[
            same("path"),
            same("offset"),
            same("limit"),
            same("encoding").encoding(),
        ],
    ),
    ToolMapping::new("fs_write", "write_file", &[same("path"), same("content")]),
    ToolMapping::new(
        "fs_edit",
        "edit_file",
        &[
            same("path"),
            same("edits").items(REPLACEMENT),
            same("old_string"),
            same("new_string"),
            same("replace_all"),
        ],
    ),
    ToolMapping::new(
        "fs_glob",
        "glob",
        &[
            same("pattern"),
            same("exclude"),
            renamed("cwd", "path"),
            same("dot"),
            same("limit"),
        ],
    )
    .defaults(&[
        ("dot", DefaultValue::Bool(false)),
        ("limit", DefaultValue::Int(200)),
    ]),
    ToolMapping::new(
        "fs_grep",
        "grep",
        &[
            same("pattern"),
            same("path"),
            same("flags"),
            renamed("case_sensitive", "case_insensitive")
                .negated()
                .description("Upper and lower case differ."),
            renamed("max_results", "head_limit"),
        ],
    )
    .defaults(&[("output_mode", DefaultValue::Text("content"))]),
    ToolMapping::new(
        "fs_multi_edit",
        "multi_edit",
        &[same("edits").items(&[
            same("path").required(),
            renamed("find", "old_string"),
            renamed("replace", "new_string"),
            same("replace_all"),
        ])],
    )
    .defaults(&[("atomic", DefaultValue::Bool(false))]),
    ToolMapping::new(
        "bash_run",
        "shell",
        &[
            same("command"),
            renamed("background", "run_in_background"),
            same("timeout_ms"),
        ],
    ),
    ToolMapping::new(
        "bash_logs",
        "shell_output",
        &[same("pid"), renamed("shell_id", "task_id")],
    ),
    ToolMapping::new(
        "bash_kill",
        "shell_kill",
        &[same("pid"), renamed("shell_id", "task_id")],
    ),
    ToolMapping::new("todo_read", "todo_read", &[]),
    ToolMapping::new("todo_write", "todo_write", &[same("todos").items(TODO)]).not_read_only(),
    ToolMapping::new(
        "task_run",
        "task",
        &[
            renamed("task", "prompt"),
            same("context"),
            renamed("agentTemplateId", "agent"),
            same("model"),
        ],
    )
    .defaults(&[("description", DefaultValue::WordsOf("prompt"))])
    .not_read_only(),
];
