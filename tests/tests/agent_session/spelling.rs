//! How each system's model names the tools and their parameters. Written down a second time here, apart from the
//! host's own tables: a spelling that was lost there is missed here.

use serde_json::{Map, Value, json};

pub struct Profile {
    pub name: &'static str,
    rows: &'static [Row],
}

/// One tool that the system has. A tool without a row is called by our name.
struct Row {
    ours: &'static str,
    theirs: &'static str,
    /// Our name and theirs; `list.member` for the members of what a list holds. Empty: the system has no such thing.
    members: &'static [(&'static str, &'static str)],
    /// What names alone do not say, before they are changed.
    first: fn(&mut Map<String, Value>),
}

const fn row(
    ours: &'static str,
    theirs: &'static str,
    members: &'static [(&'static str, &'static str)],
) -> Row {
    Row {
        ours,
        theirs,
        members,
        first: |_| {},
    }
}

impl Row {
    const fn first(mut self, first: fn(&mut Map<String, Value>)) -> Self {
        self.first = first;
        self
    }
}

impl Profile {
    pub fn spell(&self, tool: &str, input: &Value) -> (String, Value) {
        let mut members = input.as_object().unwrap().clone();
        self.inner_calls(&mut members);
        let Some(row) = self.rows.iter().find(|row| row.ours == tool) else {
            return (tool.to_owned(), Value::Object(members));
        };
        (row.first)(&mut members);
        for (ours, theirs) in row.members {
            match ours.split_once('.') {
                None => rename(&mut members, ours, theirs),
                Some((list, ours)) => {
                    let items = members.get_mut(list).and_then(Value::as_array_mut);
                    for item in items.into_iter().flatten() {
                        rename(item.as_object_mut().unwrap(), ours, theirs);
                    }
                }
            }
        }
        (row.theirs.to_owned(), Value::Object(members))
    }

    /// A call of other tools names them as the model would.
    fn inner_calls(&self, members: &mut Map<String, Value>) {
        if let (Some(tool), Some(params)) = (members.get("tool"), members.get("params")) {
            let (tool, params) = self.spell(tool.as_str().unwrap(), params);
            members.insert("tool".to_owned(), tool.into());
            members.insert("params".to_owned(), params);
        }
        let steps = members.get_mut("steps").and_then(Value::as_array_mut);
        for step in steps.into_iter().flatten() {
            let (tool, args) = self.spell(step["tool"].as_str().unwrap(), &step["args"]);
            (step["tool"], step["args"]) = (tool.into(), args);
        }
    }
}

/// In its place, so that a transcript reads as the model would have written it.
fn rename(members: &mut Map<String, Value>, ours: &str, theirs: &str) {
    let renamed = std::mem::take(members).into_iter();
    let renamed = renamed.filter_map(|(name, value)| match (name == ours, theirs) {
        (false, _) => Some((name, value)),
        (true, "") => None,
        (true, theirs) => Some((theirs.to_owned(), value)),
    });
    *members = renamed.collect();
}

pub const NATIVE: Profile = Profile {
    name: "native",
    rows: &[],
};

const READ: Row = row("read_file", "Read", &[("path", "file_path")]);
const WRITE: Row = row("write_file", "Write", &[("path", "file_path")]);
const EDIT: Row = row("edit_file", "Edit", &[("path", "file_path")]);
const GLOB: Row = row("glob", "Glob", &[]);
const GREP: Row = row(
    "grep",
    "Grep",
    &[("case_insensitive", "-i"), ("context", "-C")],
);
const BASH: Row = row("shell", "Bash", &[("timeout_ms", "timeout")]);
const TODO_WRITE: Row = row(
    "todo_write",
    "TodoWrite",
    &[("todos.active_form", "activeForm"), ("todos.id", "")],
);
const ASK: Row = row(
    "ask_user",
    "AskUserQuestion",
    &[("questions.multi_select", "multiSelect")],
);

pub const CLAUDE: Profile = Profile {
    name: "claude",
    rows: &[
        READ,
        WRITE,
        EDIT,
        GLOB,
        GREP,
        BASH,
        TODO_WRITE,
        ASK,
        row("multi_edit", "MultiEdit", &[("path", "file_path")]),
        row(
            "notebook_edit",
            "NotebookEdit",
            &[("path", "notebook_path"), ("cell_number", "")],
        ),
        row("list_directory", "LS", &[]),
        row(
            "shell_output",
            "BashOutput",
            &[("task_id", "bash_id"), ("pid", "")],
        ),
        row("shell_kill", "KillShell", &[("task_id", "shell_id")]),
        row("todo_read", "TodoRead", &[]),
        row("enter_plan_mode", "EnterPlanMode", &[("reason", "")]),
        row("exit_plan_mode", "ExitPlanMode", &[]),
        row("web_fetch", "WebFetch", &[]),
        row("tool_search", "ToolSearch", &[("limit", "max_results")]),
    ],
};

pub const SEMA: Profile = Profile {
    name: "sema",
    rows: &[
        READ,
        WRITE,
        EDIT,
        GLOB,
        GREP,
        BASH,
        TODO_WRITE,
        ASK,
        row(
            "notebook_edit",
            "NotebookEdit",
            &[("path", "notebook_path"), ("cell_id", "")],
        ),
        row(
            "exit_plan_mode",
            "ExitPlanMode",
            &[("plan_path", "planFilePath")],
        )
        .first(plan_in_file),
    ],
};

pub const GEMINI: Profile = Profile {
    name: "gemini",
    rows: &[
        row("list_directory", "list_directory", &[("path", "dir_path")]),
        row("glob", "glob", &[("path", "dir_path")]),
        row(
            "grep",
            "grep_search",
            &[
                ("path", "dir_path"),
                ("glob", "include_pattern"),
                ("output_mode", ""),
            ],
        ),
        row("read_file", "read_file", &[("path", "file_path")]).first(lines_from_to),
        row("write_file", "write_file", &[("path", "file_path")]),
        row("edit_file", "replace", &[("path", "file_path")]).first(|members| {
            members.insert("instruction".to_owned(), "as the plan says".into());
        }),
        row(
            "todo_write",
            "write_todos",
            &[
                ("todos.content", "description"),
                ("todos.active_form", ""),
                ("todos.id", ""),
            ],
        ),
        row(
            "ask_user",
            "ask_user",
            &[("questions.multi_select", "multiSelect")],
        ),
        row(
            "exit_plan_mode",
            "exit_plan_mode",
            &[("plan_path", "plan_filename")],
        )
        .first(plan_in_file),
        row(
            "shell",
            "run_shell_command",
            &[("run_in_background", "is_background")],
        ),
        // By the process, where there is one.
        row("shell_output", "read_background_output", &[("block", "")]).first(|members| {
            if members.contains_key("pid") {
                members.remove("task_id");
            }
        }),
        row("shell_list", "list_background_processes", &[]),
        // The address is somewhere in what the model wants to know.
        row("web_fetch", "web_fetch", &[("url", "")]).first(|members| {
            let (prompt, url) = (&members["prompt"], &members["url"]);
            let prompt = format!(
                "{} See {}.",
                prompt.as_str().unwrap(),
                url.as_str().unwrap()
            );
            members.insert("prompt".to_owned(), prompt.into());
        }),
    ],
};

pub const KODE: Profile = Profile {
    name: "kode",
    rows: &[
        row("glob", "fs_glob", &[("path", "cwd")]),
        row("grep", "fs_grep", &[("output_mode", "")]),
        row("read_file", "fs_read", &[]),
        row("write_file", "fs_write", &[]),
        row("edit_file", "fs_edit", &[]),
        row(
            "multi_edit",
            "fs_multi_edit",
            &[
                ("path", ""),
                ("edits.old_string", "find"),
                ("edits.new_string", "replace"),
            ],
        )
        .first(|members| {
            let path = members["path"].clone();
            for edit in members["edits"].as_array_mut().unwrap() {
                edit["path"] = path.clone();
            }
        }),
        row(
            "todo_write",
            "todo_write",
            &[("todos.content", "title"), ("todos.active_form", "")],
        ),
        row("todo_read", "todo_read", &[]),
        row(
            "shell",
            "bash_run",
            &[("run_in_background", "background"), ("description", "")],
        ),
        row(
            "shell_output",
            "bash_logs",
            &[("task_id", "shell_id"), ("pid", ""), ("block", "")],
        ),
        row("shell_kill", "bash_kill", &[("task_id", "shell_id")]),
    ],
};

pub const PEGASUS: Profile = Profile {
    name: "pegasus",
    rows: &[
        row("list_directory", "list_files", &[]),
        row("glob", "glob_files", &[]),
        row("grep", "grep_files", &[]),
        row("read_file", "read_file", &[]),
        row("write_file", "write_file", &[]),
        row("edit_file", "edit_file", &[]),
        row("move_file", "move_file", &[]),
        row("delete_file", "delete_file", &[]),
        row("get_file_info", "get_file_info", &[]),
        row(
            "shell",
            "shell_exec",
            &[("timeout_ms", "timeout"), ("description", "")],
        ),
        row(
            "shell_output",
            "bg_output",
            &[("task_id", "taskId"), ("pid", "")],
        ),
        row("shell_kill", "bg_stop", &[("task_id", "taskId")]),
        row("background_run", "bg_run", &[]),
        row("web_fetch", "web_fetch", &[]),
        row("json_parse", "json_parse", &[]),
    ],
};

fn plan_in_file(members: &mut Map<String, Value>) {
    *members = Map::from_iter([("plan_path".to_owned(), json!("plan.md"))]);
}

fn lines_from_to(members: &mut Map<String, Value>) {
    let Some(from) = members.remove("offset").and_then(|from| from.as_u64()) else {
        return;
    };
    let lines = members.remove("limit").and_then(|lines| lines.as_u64());
    members.insert("start_line".to_owned(), from.into());
    members.insert(
        "end_line".to_owned(),
        lines.map(|lines| from + lines - 1).into(),
    );
}
