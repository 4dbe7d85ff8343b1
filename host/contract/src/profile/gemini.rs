//! Mapping table of Gemini CLI.

use super::table::{Fill, Param, Row, renamed, same};

const IGNORE: &[Param] = &[
    same("respect_git_ignore"),
    renamed("respect_gemini_ignore", "respect_tool_ignore"),
];

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "replace",
        "edit_file",
        &[
            renamed("file_path", "path"),
            same("instruction"),
            same("old_string").needed(),
            same("new_string").needed(),
            renamed("allow_multiple", "replace_all"),
        ],
    ),
    Row::new(
        "read_file",
        "read_file",
        &[
            renamed("file_path", "path"),
            same("start_line").says("First line to show, from 1."),
            same("end_line").says("Last line to show."),
        ],
    ),
    Row::new(
        "read_many_files",
        "read_many_files",
        &[
            same("include"),
            same("exclude"),
            same("recursive"),
            renamed("useDefaultExcludes", "use_default_excludes"),
            same("file_filtering_options")
                .spread(IGNORE)
                .says("Which ignore files to apply."),
        ],
    ),
    Row::new(
        "write_file",
        "write_file",
        &[renamed("file_path", "path"), same("content")],
    ),
    Row::new(
        "glob",
        "glob",
        &[
            same("pattern"),
            renamed("dir_path", "path"),
            same("case_sensitive"),
            same("respect_git_ignore"),
            renamed("respect_gemini_ignore", "respect_tool_ignore"),
        ],
    )
    .fills(&[("absolute", Fill::Bool(true)), ("sort", Fill::Text("gem"))]),
    Row::new(
        "grep_search",
        "grep",
        &[
            same("pattern"),
            renamed("dir_path", "path"),
            renamed("include_pattern", "glob"),
            same("exclude_pattern"),
            renamed("names_only", "output_mode")
                .flag("files_with_matches")
                .says("Return only the paths of files."),
            renamed("case_sensitive", "case_insensitive")
                .not()
                .says("Upper and lower case differ."),
            same("fixed_strings"),
            same("context"),
            same("after"),
            same("before"),
            same("no_ignore"),
            renamed("max_matches_per_file", "max_per_file"),
            renamed("total_max_matches", "head_limit"),
        ],
    )
    .also(&["search_file_content"])
    .fills(&[
        ("output_mode", Fill::Text("content")),
        ("case_insensitive", Fill::Bool(true)),
    ]),
    Row::new(
        "list_directory",
        "list_directory",
        &[
            renamed("dir_path", "path").needed(),
            same("ignore"),
            same("file_filtering_options")
                .spread(IGNORE)
                .says("Which ignore files to apply."),
        ],
    ),
    Row::new(
        "run_shell_command",
        "shell",
        &[
            same("command"),
            same("description"),
            renamed("dir_path", "cwd"),
            renamed("is_background", "run_in_background"),
            same("delay_ms"),
            same("additional_permissions"),
        ],
    ),
    Row::new(
        "read_background_output",
        "shell_output",
        &[same("pid").needed(), same("lines"), same("delay_ms")],
    ),
    Row::new("list_background_processes", "shell_list", &[]),
    Row::new(
        "save_memory",
        "memory",
        &[
            renamed("fact", "fact|content")
                .needed()
                .says("The fact to remember, understandable without context."),
            same("scope"),
        ],
    )
    .fills(&[("action", Fill::Text("append"))])
    .says(
        "Save a fact about this project or the user for later sessions. Use it when the user asks you to remember \
         something and for lasting preferences, not for temporary details.",
    ),
    Row::new(
        "web_fetch",
        "web_fetch",
        &[
            same("prompt")
                .needed()
                .says("The URLs to fetch, at most 20, and what to find out from them."),
            same("url").says("A URL, if the prompt contains none."),
        ],
    )
    .fills(&[("urls", Fill::AddressesIn("prompt"))]),
    Row::new("google_web_search", "web_search", &[same("query")]),
    Row::new(
        "write_todos",
        "todo_write",
        &[same("todos").items(&[renamed("description", "content"), same("status")])],
    ),
    Row::new(
        "invoke_agent",
        "task",
        &[
            renamed("agent_name", "agent").needed(),
            same("prompt").needed(),
        ],
    )
    .fills(&[("description", Fill::WordsOf("prompt"))]),
    Row::new("activate_skill", "skill", &[renamed("name", "skill").needed()]),
    Row::new(
        "ask_user",
        "ask_user",
        &[same("questions").items(&[
            same("question"),
            same("header"),
            same("type"),
            same("options"),
            renamed("multiSelect", "multi_select"),
            same("placeholder"),
        ])],
    ),
    Row::new("enter_plan_mode", "enter_plan_mode", &[same("reason")]),
    Row::new(
        "exit_plan_mode",
        "exit_plan_mode",
        &[renamed("plan_filename", "plan_path").needed()],
    ),
    Row::new(
        "list_mcp_resources",
        "list_mcp_resources",
        &[renamed("serverName", "server")],
    ),
    Row::new("read_mcp_resource", "read_mcp_resource", &[same("uri")]),
];
