//! Mapping table of Claude Code.

use super::mapping::{ParamMapping, ToolMapping, renamed, same};

pub(super) const MAPPINGS: &[ToolMapping] = &[
    READ,
    WRITE,
    EDIT,
    ToolMapping::new(
        "MultiEdit",
        "multi_edit",
        &[
            renamed("file_path", "path").required(),
            same("edits").items(REPLACEMENT),
        ],
    ),
    ToolMapping::new(
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
    ToolMapping::new("LS", "list_directory", &[same("path"), same("ignore")]),
    ToolMapping::new(
        "Bash",
        "shell",
        &[
            same("command"),
            renamed("timeout", "timeout_ms"),
            same("description"),
            same("run_in_background"),
        ],
    ),
    ToolMapping::new(
        "BashOutput",
        "shell_output",
        &[
            renamed("bash_id", "task_id").required(),
            same("filter"),
            same("block"),
        ],
    )
    .aliases(&["TaskOutput", "AgentOutputTool", "BashOutputTool"]),
    ToolMapping::new(
        "KillShell",
        "shell_kill",
        &[renamed("shell_id", "task_id").required()],
    )
    .aliases(&["TaskStop", "KillBash"]),
    TODO_WRITE,
    ToolMapping::new("TodoRead", "todo_read", &[]),
    TASK.aliases(&["Agent"]),
    SKILL,
    ASK,
    ToolMapping::new("EnterPlanMode", "enter_plan_mode", &[]),
    ToolMapping::new(
        "ExitPlanMode",
        "exit_plan_mode",
        &[same("plan"), same("plan_path")],
    ),
    ToolMapping::new(
        "WebFetch",
        "web_fetch",
        &[same("url").required(), same("prompt")],
    ),
    ToolMapping::new(
        "WebSearch",
        "web_search",
        &[
            same("query"),
            same("allowed_domains"),
            same("blocked_domains"),
        ],
    ),
    ToolMapping::new("ListMcpResources", "list_mcp_resources", &[same("server")])
        .aliases(&["ListMcpResourcesTool"]),
    ToolMapping::new(
        "ReadMcpResource",
        "read_mcp_resource",
        &[same("server"), same("uri")],
    )
    .aliases(&["ReadMcpResourceTool"]),
    ToolMapping::new(
        "ToolSearch",
        "tool_search",
        &[same("query"), renamed("max_results", "limit")],
    ),
];

/// One replacement in a file.
pub(super) const REPLACEMENT: &[ParamMapping] =
    &[same("old_string"), same("new_string"), same("replace_all")];

pub(super) const READ: ToolMapping = ToolMapping::new(
    "Read",
    "read_file",
    &[
        renamed("file_path", "path"),
        same("offset"),
        same("limit"),
        same("pages"),
    ],
);

pub(super) const WRITE: ToolMapping = ToolMapping::new(
    "Write",
    "write_file",
    &[renamed("file_path", "path"), same("content")],
);

pub(super) const EDIT: ToolMapping = ToolMapping::new(
    "Edit",
    "edit_file",
    &[
        renamed("file_path", "path"),
        same("old_string").required(),
        same("new_string").required(),
        same("replace_all"),
    ],
);

pub(super) const GLOB: ToolMapping =
    ToolMapping::new("Glob", "glob", &[same("pattern"), same("path")]);

pub(super) const GREP: ToolMapping = ToolMapping::new(
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

pub(super) const TODO: &[ParamMapping] = &[
    same("content"),
    same("status"),
    renamed("activeForm", "active_form"),
];

pub(super) const TODO_WRITE: ToolMapping =
    ToolMapping::new("TodoWrite", "todo_write", &[same("todos").items(TODO)]);

pub(super) const TASK: ToolMapping = ToolMapping::new(
    "Task",
    "task",
    &[
        same("description").required(),
        same("prompt"),
        renamed("subagent_type", "agent").required(),
        same("model"),
        same("resume"),
        same("run_in_background"),
    ],
);

pub(super) const SKILL: ToolMapping =
    ToolMapping::new("Skill", "skill", &[same("skill").required(), same("args")]);

pub(super) const QUESTION: &[ParamMapping] = &[
    same("question"),
    same("header"),
    same("options"),
    renamed("multiSelect", "multi_select"),
];

pub(super) const ASK: ToolMapping = ToolMapping::new(
    "AskUserQuestion",
    "ask_user",
    &[same("questions").items(QUESTION), same("metadata")],
);
