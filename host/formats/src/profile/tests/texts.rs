//! Tests of name replacement in texts for the model.

use serde_json::json;

use super::fixture;
use crate::profile::{Profile, UnmappedTools};
use toolhost_contract::{CallError, ErrorClass, Failure, Outcome, Part};

fn text(parts: &[Part]) -> String {
    match parts {
        [Part::Text(text)] => text.clone(),
        other => panic!("{other:?}"),
    }
}

/// An error of a call of `tool`, as shown to the model.
fn check(profile: Profile, tool: &str, message: &str, advice: &str, expected: &str) {
    let tools = fixture::tools();
    let lens = fixture::lens(profile, &tools);
    let mut error = CallError::new(ErrorClass::InvalidInput, message);
    let mut failure = Failure::new("x", message);
    if !advice.is_empty() {
        error = error.recommend(advice);
        failure.recommendations.push(advice.to_owned());
    }
    let input = json!({});
    let rendered = lens.render(tool, &input, &Err(error));
    assert!(rendered.is_error);
    assert_eq!(text(&rendered.parts), expected);
    let no = Outcome {
        error: Some(failure),
        ..Outcome::default()
    };
    let rendered = lens.render(tool, &input, &Ok(no));
    assert!(rendered.is_error);
    assert_eq!(text(&rendered.parts), expected);
}

#[test]
fn recommendations_use_the_agents_names() {
    check(
        Profile::Claude,
        "read_file",
        "src is a directory",
        "list it: list_directory with path \"src\"",
        "src is a directory\n- list it: LS with path \"src\"",
    );
    check(
        Profile::Gemini,
        "edit_file",
        "2 matches for `old_string`; set replace_all, or use `grep` (or list_directory).",
        "",
        "2 matches for `old_string`; set allow_multiple, or use `grep_search` (or list_directory).",
    );
    check(
        Profile::Native,
        "edit_file",
        "set replace_all",
        "use `grep`",
        "set replace_all\n- use `grep`",
    );
}

#[test]
fn failures_of_pegasus_have_their_recommendations() {
    let tools = fixture::tools();
    let lens = fixture::lens(Profile::Pegasus, &tools);
    let error = CallError::new(ErrorClass::NotFound, "File not found: a")
        .recommend("list it: list_directory with path \"src\"");
    let rendered = lens.render("read_file", &json!({}), &Err(error));
    assert_eq!(
        text(&rendered.parts),
        "File not found: a\n- list it: list_files with path \"src\""
    );
}

#[test]
fn validation_errors_use_the_agents_names() {
    check(
        Profile::Claude,
        "todo_write",
        "Parameter validation failed: todos[0].active_form: is required; todos: expected an array, got 5",
        "schema of todos[0].active_form: {\"type\":\"string\"}",
        "Parameter validation failed: todos[0].activeForm: is required; todos: expected an array, got 5\n\
         - schema of todos[0].activeForm: {\"type\":\"string\",\"description\":\"the activeForm\"}",
    );
    check(
        Profile::Claude,
        "read_file",
        "Parameter validation failed: path: is required",
        "",
        "Parameter validation failed: file_path: is required",
    );
}

#[test]
fn problems_name_the_parameters_that_the_profile_lists() {
    let tools = fixture::tools();
    for (profile, tool, message, expected) in [
        (
            Profile::Gemini,
            "read_file",
            "Parameter validation failed: bogus: unknown parameter; expected one of path, offset, limit and 6 more; \
             path: is required",
            "Parameter validation failed: bogus: unknown parameter; expected one of file_path, start_line, end_line; \
             file_path: is required",
        ),
        (
            Profile::Gemini,
            "grep",
            "Parameter validation failed: case_senstive: unknown parameter; did you mean `case_insensitive`?",
            "Parameter validation failed: case_senstive: unknown parameter; did you mean `case_sensitive`?",
        ),
        (
            Profile::Sema,
            "edit_file",
            "Parameter validation failed: dry: unknown parameter; did you mean `dry_run`?",
            "Parameter validation failed: dry: unknown parameter; expected one of file_path, old_string, new_string, \
             replace_all",
        ),
        (
            Profile::Gemini,
            "read_file",
            "Parameter validation failed: path: is given twice, once as its alias `file_path`; use one of the two",
            "Parameter validation failed: file_path: is given twice, once as `path`; use one of the two",
        ),
        (
            Profile::Kode,
            "multi_edit",
            "Parameter validation failed: edits[0].bogus: unknown parameter; expected one of path, old_string; \
             edits[0].old_string: is required",
            "Parameter validation failed: edits[0].bogus: unknown parameter; expected one of path, find, replace, \
             replace_all; edits[0].find: is required",
        ),
        (
            Profile::Kode,
            "multi_edit",
            "0 matches for old_string in a.txt; see `new_string`",
            "0 matches for `find` in a.txt; see `replace`",
        ),
        (
            Profile::Gemini,
            "shell_output",
            "`task_id` is missing; there are: job-1 (make)",
            "`pid` is missing; there are: job-1 (make)",
        ),
        (
            Profile::Gemini,
            "write_file",
            "a.txt is not UTF-8; set `encoding`, for example to \"latin1\"",
            "a.txt is not UTF-8",
        ),
        (
            Profile::Sema,
            "edit_file",
            "a.ipynb is a notebook; use notebook_edit",
            "a.ipynb is a notebook; use NotebookEdit",
        ),
    ] {
        let lens = fixture::lens(profile, &tools);
        let names = lens.error_names(lens.mappings(tool).next());
        assert_eq!(names.message(message), expected);
    }
}

#[test]
fn advice_names_only_what_the_profile_lists() {
    let tools = fixture::tools();
    let lens = fixture::lens(Profile::Kode, &tools);
    let names = lens.error_names(lens.mappings("multi_edit").next());
    let schema = "schema of edits[0].old_string: {\"type\":\"string\",\"x-aliases\":[\"find\"]}";
    let expected = "schema of edits[0].find: {\"type\":\"string\",\"description\":\"the `find`\"}";
    assert_eq!(names.schema_advice(schema).as_deref(), Some(expected));
    check(
        Profile::Gemini,
        "write_file",
        "latin1 has no character '€'",
        "to convert it to UTF-8, set `encoding` to \"utf-8\"",
        "latin1 has no character '€'",
    );
    check(
        Profile::Sema,
        "edit_file",
        "0 matches",
        "look at it with read_file, grep and apply_patch",
        "0 matches\n- look at it with Read and Grep",
    );
}

/// Paths and quoted values are unchanged.
#[test]
fn values_are_unchanged() {
    for same in [
        "File not found: src/read_file.rs",
        "File not found: read_file/x",
        "no matches for \"read_file\"",
        "no match for 'list_directory'",
        "my_read_file and read_files",
        "grep it, glob it",
        "read_file.md is empty",
    ] {
        check(Profile::Claude, "read_file", same, "", same);
    }
}

#[test]
fn descriptions_use_the_agents_names() {
    let mut tool = fixture::tool("glob", "pattern:s! path:s");
    tool.description = "Find files. For contents use `grep`, then read_file.".to_owned();
    tool.input_schema["properties"]["pattern"]["description"] = "Not for `grep`".into();
    tool.input_schema["properties"]["pattern"]["pattern"] = "read_file".into();
    let tools = [
        tool,
        fixture::tool("grep", "pattern:s!"),
        fixture::tool("read_file", "path:s!"),
    ];
    let shown = fixture::lens(Profile::Claude, &tools).list();
    let descriptor = &shown[0].descriptor;
    assert_eq!(
        descriptor.description,
        "Find files. For contents use `Grep`, then Read."
    );
    let pattern = &descriptor.input_schema["properties"]["pattern"];
    assert_eq!(pattern["description"], "Not for `Grep`");
    assert_eq!(pattern["pattern"], "read_file");
    // The model cannot use a tool that is not registered.
    let shown = fixture::lens_with(Profile::Claude, UnmappedTools::All, &tools[..1]).list();
    assert_eq!(shown[0].descriptor.description, "Find files.");
}
