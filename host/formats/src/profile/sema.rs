//! Mapping table of Sema, whose tools mostly match those of Claude Code.

use super::claude::{ASK, EDIT, GLOB, GREP, READ, SKILL, TASK, TODO_WRITE, WRITE};
use super::mapping::{DefaultValue, ToolMapping, renamed, same};

pub(super) const MAPPINGS: &[ToolMapping] = &[
    // C-19: commands have a default timeout of one minute.
    ToolMapping::new(
        "Bash",
        "shell",
        &[
            same("command"),
            renamed("timeout", "timeout_ms"),
            same("description"),
            same("run_in_background"),
        ],
    )
    .defaults(&[("timeout_ms", DefaultValue::Int(60_000))]),
    GLOB,
    GREP,
    ToolMapping {
        params: &[renamed("file_path", "path"), same("offset"), same("limit")],
        ..READ
    },
    WRITE,
    EDIT,
    ToolMapping::new(
        "NotebookEdit",
        "notebook_edit",
        &[
            renamed("notebook_path", "path"),
            same("cell_number"),
            same("new_source"),
            same("cell_type"),
            same("edit_mode"),
        ],
    ),
    TODO_WRITE.not_read_only(),
    ToolMapping {
        params: &[
            same("description").required(),
            same("prompt"),
            renamed("subagent_type", "agent").required(),
        ],
        ..TASK.not_read_only()
    },
    SKILL.not_read_only(),
    ASK.not_read_only(),
    ToolMapping::new(
        "ExitPlanMode",
        "exit_plan_mode",
        &[renamed("planFilePath", "plan_path").required()],
    )
    .not_read_only(),
];
