//! Mapping table of Sema, whose tools mostly match those of Claude Code.

use super::claude::{ASK, EDIT, GLOB, GREP, READ, SKILL, TASK, TODO_WRITE, WRITE};
use super::table::{Fill, Row, renamed, same};

pub(super) const ROWS: &[Row] = &[
    // C-19: commands have a default timeout of one minute.
    Row::new(
        "Bash",
        "shell",
        &[
            same("command"),
            renamed("timeout", "timeout_ms"),
            same("description"),
            same("run_in_background"),
        ],
    )
    .fills(&[("timeout_ms", Fill::Int(60_000))]),
    GLOB,
    GREP,
    Row {
        params: &[renamed("file_path", "path"), same("offset"), same("limit")],
        ..READ
    },
    WRITE,
    EDIT,
    Row::new(
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
    TODO_WRITE.acts(),
    Row {
        params: &[
            same("description").needed(),
            same("prompt"),
            renamed("subagent_type", "agent").needed(),
        ],
        ..TASK.acts()
    },
    SKILL.acts(),
    ASK.acts(),
    Row::new(
        "ExitPlanMode",
        "exit_plan_mode",
        &[renamed("planFilePath", "plan_path").needed()],
    )
    .acts(),
];
