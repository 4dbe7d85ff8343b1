//! Mapping table of Kode-SDK: the parameters of its documentation first, then those of its later code (C-09 to C-13).

use super::claude::REPLACEMENT;
use super::table::{Fill, Param, Row, renamed, same};

pub(super) const TODO: &[Param] = &[
    same("id"),
    renamed("title", "content"),
    same("status"),
    same("assignee"),
    same("notes"),
];

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "fs_read",
        "read_file",
        &[
            same("path"),
            same("offset"),
            same("limit"),
            same("encoding").encoding(),
        ],
    ),
    Row::new("fs_write", "write_file", &[same("path"), same("content")]),
    Row::new(
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
    Row::new(
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
    .fills(&[("dot", Fill::Bool(false)), ("limit", Fill::Int(200))]),
    Row::new(
        "fs_grep",
        "grep",
        &[
            same("pattern"),
            same("path"),
            same("flags"),
            renamed("case_sensitive", "case_insensitive")
                .not()
                .says("Upper and lower case differ."),
            renamed("max_results", "head_limit"),
        ],
    )
    .fills(&[("output_mode", Fill::Text("content"))]),
    Row::new(
        "fs_multi_edit",
        "multi_edit",
        &[same("edits").items(&[
            same("path").needed(),
            renamed("find", "old_string"),
            renamed("replace", "new_string"),
            same("replace_all"),
        ])],
    )
    .fills(&[("atomic", Fill::Bool(false))]),
    Row::new(
        "bash_run",
        "shell",
        &[
            same("command"),
            renamed("background", "run_in_background"),
            same("timeout_ms"),
        ],
    ),
    Row::new(
        "bash_logs",
        "shell_output",
        &[same("pid"), renamed("shell_id", "task_id")],
    ),
    Row::new(
        "bash_kill",
        "shell_kill",
        &[same("pid"), renamed("shell_id", "task_id")],
    ),
    Row::new("todo_read", "todo_read", &[]),
    Row::new("todo_write", "todo_write", &[same("todos").items(TODO)]).acts(),
    Row::new(
        "task_run",
        "task",
        &[
            renamed("task", "prompt"),
            same("context"),
            renamed("agentTemplateId", "agent"),
            same("model"),
        ],
    )
    .fills(&[("description", Fill::WordsOf("prompt"))])
    .acts(),
];
