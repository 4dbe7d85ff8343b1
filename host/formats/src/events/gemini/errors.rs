//! Error types of Gemini CLI.

/// Error codes that the host and Gemini share.
const SHARED: [&str; 35] = [
    "attempt_to_create_existing_file",
    "discovered_tool_execution_error",
    "edit_expected_occurrence_mismatch",
    "edit_no_change",
    "edit_no_occurrence_found",
    "edit_preparation_failure",
    "execution_failed",
    "file_not_found",
    "file_too_large",
    "file_write_failure",
    "glob_execution_error",
    "grep_execution_error",
    "invalid_tool_params",
    "ls_execution_error",
    "mcp_tool_error",
    "memory_tool_execution_error",
    "no_space_left",
    "path_is_not_a_directory",
    "path_not_in_workspace",
    "permission_denied",
    "policy_violation",
    "read_content_failure",
    "read_many_files_search_error",
    "search_path_not_a_directory",
    "search_path_not_found",
    "shell_execute_error",
    "stop_execution",
    "target_is_directory",
    "tool_not_registered",
    "unhandled_exception",
    "unknown",
    "web_fetch_fallback_failed",
    "web_fetch_no_url_in_prompt",
    "web_fetch_processing_error",
    "web_search_failed",
];

/// Returns the Gemini error type for an error code.
pub fn error_type(code: &str) -> &'static str {
    match code {
        "invalid_json" | "invalid_input" => "invalid_tool_params",
        "user_denied" | "hook_denied" | "host_not_allowed" | "capability_missing" => {
            "policy_violation"
        }
        "not_found" => "file_not_found",
        "trap" | "guest_panic" | "guest_exit" | "stack_overflow" | "internal" => {
            "unhandled_exception"
        }
        // The call ran and failed for another reason: time, memory, output or a terminated host.
        other => SHARED
            .into_iter()
            .find(|&shared| shared == other)
            .unwrap_or("execution_failed"),
    }
}
