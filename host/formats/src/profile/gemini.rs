//! Mapping table of Gemini CLI.

use super::mapping::{DefaultValue, ParamMapping, ToolMapping, renamed, same};

const IGNORE: &[ParamMapping] = &[
    same("respect_git_ignore"),
    renamed("respect_gemini_ignore", "respect_tool_ignore"),
];

pub(super) const MAPPINGS: &[ToolMapping] = &[
    ToolMapping::new(
        "replace",
        "edit_file",
        &[
            renamed("file_path", "path"),
            same("instruction"),
            same("old_string").required(),
            same("new_string").required(),
            renamed("allow_multiple", "replace_all"),
        ],
    ),
    ToolMapping::new(
        "read_file",
        "read_file",
        &[
            renamed("file_path", "path"),
            same("start_line").description("First line to show, from 1."),
            same("end_line").description("Last line to show."),
        ],
    ),
    ToolMapping::new(
        "read_many_files",
        "read_many_files",
        &[
            same("include"),
            same("exclude"),
            same("recursive"),
            renamed("useDefaultExcludes", "use_default_excludes"),
            same("file_filtering_options")
                .flattened(IGNORE)
                .description("Which ignore files to apply."),
        ],
    ),
    ToolMapping::new(
        "write_file",
        "write_file",
        &[renamed("file_path", "path"), same("content")],
    ),
    ToolMapping::new(
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
    .defaults(&[("absolute", DefaultValue::Bool(true)), ("sort", DefaultValue::Text("gem"))]),
    ToolMapping::new(
        "grep_search",
        "grep",
        &[
            same("pattern"),
            renamed("dir_path", "path"),
            renamed("include_pattern", "glob"),
            same("exclude_pattern"),
            renamed("names_only", "output_mode")
                .flag("files_with_matches")
                .description("Return only the paths of files."),
            renamed("case_sensitive", "case_insensitive")
                .negated()
                .description("Upper and lower case differ."),
            same("fixed_strings"),
            same("context"),
            same("after"),
            same("before"),
            same("no_ignore"),
            renamed("max_matches_per_file", "max_per_file"),
            renamed("total_max_matches", "head_limit"),
        ],
    )
    .aliases(&["search_file_content"])
    .defaults(&[
        ("output_mode", DefaultValue::Text("content")),
        ("case_insensitive", DefaultValue::Bool(true)),
    ]),
    ToolMapping::new(
        "list_directory",
        "list_directory",
        &[
            renamed("dir_path", "path").required(),
            same("ignore"),
            same("file_filtering_options")
                .flattened(IGNORE)
                .description("Which ignore files to apply."),
        ],
    ),
    ToolMapping::new(
        "run_shell_command",
        "shell",
        &[
            same("command"),
            same("description"),
            renamed("dir_path", "cwd"),
            renamed("is_background", "run_in_background").description(
                "For servers, watchers and long builds; read the output with read_background_output. Ends with the \
                 session.",
            ),
            same("delay_ms"),
        ],
    ),
    ToolMapping::new(
        "read_background_output",
        "shell_output",
        &[
            same("pid")
                .required()
                .description("From run_shell_command or list_background_processes."),
            same("lines"),
            same("delay_ms"),
        ],
    ),
    ToolMapping::new("list_background_processes", "shell_list", &[]),
    ToolMapping::new(
        "save_memory",
        "memory",
        &[
            renamed("fact", "fact|content")
                .required()
                .description("The fact to remember, understandable without context."),
            same("scope"),
        ],
    )
    .defaults(&[("action", DefaultValue::Text("append"))])
    .description(
        "Save a fact about this project or the user for later sessions. Use it when the user asks you to remember \
         something and for lasting preferences, not for temporary details.",
    ),
    ToolMapping::new(
        "web_fetch",
        "web_fetch",
        &[
            same("prompt")
                .required()
                .description("The URLs to fetch, at most 20, and what to find out from them."),
            same("url").description("A URL, if the prompt contains none."),
        ],
    )
    .defaults(&[("urls", DefaultValue::UrlsIn("prompt"))]),
    ToolMapping::new("google_web_search", "web_search", &[same("query")]),
    ToolMapping::new(
        "write_todos",
        "todo_write",
        &[same("todos").items(&[renamed("description", "content"), same("status")])],
    ),
    ToolMapping::new(
        "invoke_agent",
        "task",
        &[
            renamed("agent_name", "agent").required(),
            same("prompt").required(),
        ],
    )
    .defaults(&[("description", DefaultValue::WordsOf("prompt"))]),
    ToolMapping::new("activate_skill", "skill", &[renamed("name", "skill").required()]),
    ToolMapping::new(
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
    ToolMapping::new("enter_plan_mode", "enter_plan_mode", &[same("reason")]),
    ToolMapping::new(
        "exit_plan_mode",
        "exit_plan_mode",
        &[renamed("plan_filename", "plan_path").required()],
    ),
    ToolMapping::new(
        "list_mcp_resources",
        "list_mcp_resources",
        &[renamed("serverName", "server")],
    ),
    ToolMapping::new("read_mcp_resource", "read_mcp_resource", &[same("uri")]),
];
