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
fn validation_errors_use_the_agents_names() {
    check(
        Profile::Claude,
        "todo_write",
        "Parameter validation failed: todos[0].active_form: is required; todos: expected an array, got 5",
        "schema of todos[0].active_form: {\"type\":\"string\"}",
        "Parameter validation failed: todos[0].activeForm: is required; todos: expected an array, got 5\n\
         - schema of todos[0].activeForm: {\"type\":\"string\"}",
    );
    check(
        Profile::Claude,
        "read_file",
        "Parameter validation failed: path: is required",
        "",
        "Parameter validation failed: file_path: is required",
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
    // A tool that is not registered has no other name.
    let shown = fixture::lens_with(Profile::Claude, UnmappedTools::All, &tools[..1]).list();
    assert_eq!(
        shown[0].descriptor.description,
        "Find files. For contents use `grep`, then read_file."
    );
}
