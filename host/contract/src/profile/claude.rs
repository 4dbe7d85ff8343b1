//! Mapping table of Claude Code.

use super::table::{Param, Row, renamed, same};

pub(super) const ROWS: &[Row] = &[
    READ,
    WRITE,
    EDIT,
    Row::new(
        "MultiEdit",
        "multi_edit",
        &[
            renamed("file_path", "path").needed(),
            same("edits").items(REPLACEMENT),
        ],
    ),
    Row::new(
        "NotebookEdit",
        "notebook_edit",
        &[
            renamed("notebook_path", "path"),
            same("cell_id"),
            same("new_source"),
            same("cell_type"),
            same("edit_mode"),
        ],
    ),
    GLOB,
    GREP,
    Row::new("LS", "list_directory", &[same("path"), same("ignore")]),
    Row::new(
        "Bash",
        "shell",
        &[
            same("command"),
            renamed("timeout", "timeout_ms"),
            same("description"),
            same("run_in_background"),
        ],
    ),
    Row::new(
        "BashOutput",
        "shell_output",
        &[
            renamed("bash_id", "task_id").needed(),
            same("filter"),
            same("block"),
        ],
    )
    .also(&["TaskOutput", "AgentOutputTool", "BashOutputTool"]),
    Row::new(
        "KillShell",
        "shell_kill",
        &[renamed("shell_id", "task_id").needed()],
    )
    .also(&["TaskStop", "KillBash"]),
    TODO_WRITE,
    Row::new("TodoRead", "todo_read", &[]),
    TASK.also(&["Agent"]),
    SKILL,
    ASK,
    Row::new("EnterPlanMode", "enter_plan_mode", &[]),
    Row::new(
        "ExitPlanMode",
        "exit_plan_mode",
        &[same("plan"), same("plan_path")],
    ),
    Row::new(
        "WebFetch",
        "web_fetch",
        &[same("url").needed(), same("prompt")],
    ),
    Row::new(
        "WebSearch",
        "web_search",
        &[
            same("query"),
            same("allowed_domains"),
            same("blocked_domains"),
        ],
    ),
    Row::new("ListMcpResources", "list_mcp_resources", &[same("server")])
        .also(&["ListMcpResourcesTool"]),
    Row::new(
        "ReadMcpResource",
        "read_mcp_resource",
        &[same("server"), same("uri")],
    )
    .also(&["ReadMcpResourceTool"]),
    Row::new(
        "ToolSearch",
        "tool_search",
        &[same("query"), renamed("max_results", "limit")],
    ),
];

/// One replacement in a file.
pub(super) const REPLACEMENT: &[Param] =
    &[same("old_string"), same("new_string"), same("replace_all")];

pub(super) const READ: Row = Row::new(
    "Read",
    "read_file",
    &[
        renamed("file_path", "path"),
        same("offset"),
        same("limit"),
        same("pages"),
    ],
);

pub(super) const WRITE: Row = Row::new(
    "Write",
    "write_file",
    &[renamed("file_path", "path"), same("content")],
);

pub(super) const EDIT: Row = Row::new(
    "Edit",
    "edit_file",
    &[
        renamed("file_path", "path"),
        same("old_string").needed(),
        same("new_string").needed(),
        same("replace_all"),
    ],
);

pub(super) const GLOB: Row = Row::new("Glob", "glob", &[same("pattern"), same("path")]);

pub(super) const GREP: Row = Row::new(
    "Grep",
    "grep",
    &[
        same("pattern"),
        same("path"),
        same("glob"),
        same("output_mode"),
        renamed("-B", "before"),
        renamed("-A", "after"),
        renamed("-C", "context"),
        renamed("-n", "line_numbers"),
        renamed("-i", "case_insensitive"),
        same("type"),
        same("head_limit"),
        same("offset"),
        same("multiline"),
    ],
);

pub(super) const TODO: &[Param] = &[
    same("content"),
    same("status"),
    renamed("activeForm", "active_form"),
];

pub(super) const TODO_WRITE: Row =
    Row::new("TodoWrite", "todo_write", &[same("todos").items(TODO)]);

pub(super) const TASK: Row = Row::new(
    "Task",
    "task",
    &[
        same("description").needed(),
        same("prompt"),
        renamed("subagent_type", "agent").needed(),
        same("model"),
        same("resume"),
        same("run_in_background"),
    ],
);

pub(super) const SKILL: Row = Row::new("Skill", "skill", &[same("skill").needed(), same("args")]);

pub(super) const QUESTION: &[Param] = &[
    same("question"),
    same("header"),
    same("options"),
    renamed("multiSelect", "multi_select"),
];

pub(super) const ASK: Row = Row::new(
    "AskUserQuestion",
    "ask_user",
    &[same("questions").items(QUESTION), same("metadata")],
);
