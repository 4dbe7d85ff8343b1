//! Tests of notes in results, on the descriptors of the shipped plugins.

use std::path::Path;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::fixture;
use crate::profile::clauses::UNUSABLE;
use crate::profile::mapping::BUILT_IN;
use crate::profile::{Profile, ProfiledRegistry};
use toolhost_contract::{Descriptor, Outcome, Part, ToolName};

/// The shipped tools, as `host tools --json` lists them.
pub(super) fn shipped() -> Vec<Descriptor> {
    let listed = include_str!("../../../../../tests/profiles/native.json");
    let listed: Vec<Value> = serde_json::from_str(listed).unwrap();
    let descriptor = |tool: &Value| {
        let name = ToolName::parse(tool["name"].as_str().unwrap()).unwrap();
        let mut descriptor = Descriptor::new(name, tool["description"].as_str().unwrap());
        descriptor.input_schema = tool["input_schema"].clone();
        descriptor
    };
    listed.iter().map(descriptor).collect()
}

fn text_of(profiled: &ProfiledRegistry<'_>, tool: &str, text: &str, structured: &Value) -> String {
    let outcome = Outcome {
        structured: Some(structured.clone()),
        ..Outcome::text(text)
    };
    let rendered = profiled.render(tool, &json!({}), &Ok(outcome));
    let parts = rendered.parts.iter().map(|part| match part {
        Part::Text(text) => text.clone(),
        other => panic!("{other:?}"),
    });
    parts.collect::<Vec<_>>().join("\n")
}

/// The tool, its text and its structured result.
type Note = (&'static str, &'static str, Value);

/// Notes of the shipped tools.
fn notes() -> Vec<Note> {
    [file_notes(), search_notes(), other_notes()].concat()
}

fn file_notes() -> Vec<Note> {
    vec![
        (
            "read_file",
            "     1→one\n\n(showing lines 1-1 of 6; 5 lines left; to go on: read_file with path \"a. b\" and offset 2)",
            json!({"path": "/w/a. b", "content": "one\n", "start_line": 1, "end_line": 1, "total_lines": 6, "truncated": false}),
        ),
        (
            "read_file",
            "     1→aaa… [+9 chars]\n\n(1 line is cut after 2000 characters; to see another part of it: grep with path \
             \"wide.txt\", output_mode \"content\" and a pattern for that part)",
            Value::Null,
        ),
        (
            "read_file",
            "     1→ä\n\n(the file is not UTF-8 and shown as latin1, which is a guess: set `encoding` if it is wrong)",
            Value::Null,
        ),
        (
            "read_file",
            "     1→a\n\n(the file has 11.0 MB: search it with `grep`, or ask for a range)",
            Value::Null,
        ),
        (
            "read_many_files",
            "--- a ---\na\n\n(showing lines 1-1 of 9, because `max_bytes` is 2; to go on: read_file with path \"a\" and \
             offset 2)",
            Value::Null,
        ),
    ]
}

fn search_notes() -> Vec<Note> {
    vec![
        (
            "grep",
            "no matches\n[searched 3 files in .]\n[`case_insensitive = true` would find it, for example in a.rs]",
            Value::Null,
        ),
        (
            "grep",
            "a.rs\n[`fixed_strings = true` would find it, for example in a.rs]\n[`no_ignore = true` would find it, for \
             example in a.rs]\n[`case_insensitive = true` with `no_ignore = true` would find it, for example in a.rs]\n\
             [the search stopped at the time limit; narrow it with `path`, `glob` or `type`]\n\
             [the pattern contains a line end; searched with `multiline = true`]",
            Value::Null,
        ),
        (
            "glob",
            "[no matches]\n[`case_sensitive = false` would find it, for example A.rs]\n\
             [`dot = true` would find it, for example .a.rs]\n[`kind = \"any\"` would find src]\n\
             [`respect_git_ignore = false` and `respect_tool_ignore = false` would find it, for example b.rs]",
            Value::Null,
        ),
        (
            "list_directory",
            "a/\n(showing entries 1-1 of 5; to go on: the same call with `offset` 2)",
            Value::Null,
        ),
    ]
}

fn other_notes() -> Vec<Note> {
    let job = json!({
        "background": true, "task_id": "job-5", "pid": 42, "output_file": "/output/5.log",
        "stdout": "", "stderr": "", "status": "running",
    });
    vec![
        (
            "tool_search",
            "(showing 5 of 9 matches; raise `limit` or add keywords)",
            Value::Null,
        ),
        (
            "shell",
            "Started in the background: task job-5 (make)\nTo continue reading: shell_output {\"task_id\": \"job-5\"}. \
             To stop it: shell_kill {\"task_id\": \"job-5\"}.\n",
            job.clone(),
        ),
        (
            "shell",
            "[… 9 characters omitted here (2 lines). All of it: read_file {\"path\": \"/output/5.log\", \"offset\": 7}]",
            json!({"stdout": "x", "stderr": "", "exitCode": 0, "output_file": "/output/5.log"}),
        ),
        (
            "shell",
            "Sandbox: may have blocked this command.\nTo allow more: use request_permissions, or ask the user to configure the host.\n",
            json!({"stdout": "", "stderr": "", "exitCode": 0}),
        ),
        (
            "shell_output",
            "Task job-5 (make): running\n[… 12 bytes after these: shell_output {\"task_id\": \"job-5\", \"offset\": 12}]\n",
            job.clone(),
        ),
        (
            "shell_kill",
            "Task job-5 (make): was sent TERM\nTo kill it: shell_kill {\"task_id\": \"job-5\", \"signal\": \"KILL\"}\n",
            job,
        ),
        (
            "glob",
            "a.rs\n\n[2 files match `*`]\n[showing 1 from 0; more exist: continue with `offset = 1`]",
            json!({"matches": ["a.rs"], "truncated": true}),
        ),
        (
            "web_fetch",
            "https://a.example/\n[characters 0 to 10 of 99; for more call web_fetch with `start_index` = 10]",
            json!({"pages": []}),
        ),
        (
            "web_fetch",
            "https://a.example/\n[only the main part is shown; for everything use `format` = `raw`]",
            json!({"pages": []}),
        ),
        (
            "enter_plan_mode",
            "plan mode: read what you need, then call exit_plan_mode with the plan.",
            json!({"mode": "plan"}),
        ),
    ]
}

fn check(profile: Profile, expected: Expect) {
    let tools = shipped();
    let profiled = fixture::lens(profile, &tools);
    let lines: Vec<_> = notes()
        .iter()
        .filter(|(tool, ..)| profiled.mappings(tool).next().is_some())
        .map(|(tool, text, structured)| {
            let shown = text_of(&profiled, tool, text, structured);
            format!("{tool}: {}", shown.trim_end())
        })
        .collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn notes_of_sema_name_its_own_tools() {
    check(
        Profile::Sema,
        expect![[r#"
            read_file:      1→one

            (showing lines 1-1 of 6; 5 lines left; to go on: Read with file_path "a. b" and offset 2)
            read_file:      1→aaa… [+9 chars]

            (1 line is cut after 2000 characters; to see another part of it: Grep with path "wide.txt", output_mode "content" and a pattern for that part)
            read_file:      1→ä

            (the file is not UTF-8 and shown as latin1, which is a guess)
            read_file:      1→a

            (the file has 11.0 MB: search it with `Grep`, or ask for a range)
            grep: no matches
            [searched 3 files in .]
            [`-i = true` would find it, for example in a.rs]
            grep: a.rs
            [the search stopped at the time limit; narrow it with `path`, `glob` or `type`]
            [the pattern contains a line end; searched with `multiline = true`]
            glob: [no matches]
            shell: Started in the background: task job-5 (make)
            To continue reading: Read {"file_path": "/output/5.log"}.
            shell: [… 9 characters omitted here (2 lines). All of it: Read {"file_path": "/output/5.log", "offset": 7}]
            shell: Sandbox: may have blocked this command.
            To allow more: ask the user to configure the host.
            glob: a.rs

            [2 files match `*`]
            [showing 1 from 0; more exist]"#]],
    );
}

#[test]
fn notes_of_gemini_name_its_own_tools() {
    check(
        Profile::Gemini,
        expect![[r#"
            read_file:      1→one

            (showing lines 1-1 of 6; 5 lines left; to go on: read_file with file_path "a. b" and start_line 2)
            read_file:      1→aaa… [+9 chars]

            (1 line is cut after 2000 characters; to see another part of it: grep_search with dir_path "wide.txt" and a pattern for that part)
            read_file:      1→ä

            (the file is not UTF-8 and shown as latin1, which is a guess)
            read_file:      1→a

            (the file has 11.0 MB: search it with `grep_search`, or ask for a range)
            read_many_files: --- a ---
            a

            (showing lines 1-1 of 9; to go on: read_file with file_path "a" and start_line 2)
            grep: no matches
            [searched 3 files in .]
            [`case_sensitive = false` would find it, for example in a.rs]
            grep: a.rs
            [`fixed_strings = true` would find it, for example in a.rs]
            [`no_ignore = true` would find it, for example in a.rs]
            [`case_sensitive = false` with `no_ignore = true` would find it, for example in a.rs]
            [the search stopped at the time limit; narrow it with `dir_path` or `include_pattern`]
            [the pattern contains a line end]
            glob: [no matches]
            [`case_sensitive = false` would find it, for example A.rs]
            [`respect_git_ignore = false` and `respect_gemini_ignore = false` would find it, for example b.rs]
            list_directory: a/
            (showing entries 1-1 of 5)
            shell: Started in the background: task job-5 (make)
            To continue reading: read_background_output {"pid": 42}.
            shell: [… 9 characters omitted here (2 lines). All of it: read_file {"file_path": "/output/5.log", "start_line": 7}]
            shell: Sandbox: may have blocked this command.
            To allow more: ask the user to configure the host.
            shell_output: Task job-5 (make): running
            [… 12 bytes after these: read_file {"file_path": "/output/5.log"}]
            glob: a.rs

            [2 files match `*`]
            [showing 1 from 0; more exist]
            web_fetch: https://a.example/
            [characters 0 to 10 of 99]
            web_fetch: https://a.example/
            [only the main part is shown]
            enter_plan_mode: plan mode: read what you need, then call exit_plan_mode with the plan."#]],
    );
}

#[test]
fn notes_of_claude_code_name_its_own_tools() {
    check(
        Profile::Claude,
        expect![[r#"
            read_file:      1→one

            (showing lines 1-1 of 6; 5 lines left; to go on: Read with file_path "a. b" and offset 2)
            read_file:      1→aaa… [+9 chars]

            (1 line is cut after 2000 characters; to see another part of it: Grep with path "wide.txt", output_mode "content" and a pattern for that part)
            read_file:      1→ä

            (the file is not UTF-8 and shown as latin1, which is a guess)
            read_file:      1→a

            (the file has 11.0 MB: search it with `Grep`, or ask for a range)
            grep: no matches
            [searched 3 files in .]
            [`-i = true` would find it, for example in a.rs]
            grep: a.rs
            [the search stopped at the time limit; narrow it with `path`, `glob` or `type`]
            [the pattern contains a line end; searched with `multiline = true`]
            glob: [no matches]
            list_directory: a/
            (showing entries 1-1 of 5)
            tool_search: (showing 5 of 9 matches; raise `max_results` or add keywords)
            shell: Started in the background: task job-5 (make)
            To continue reading: BashOutput {"bash_id": "job-5"}. To stop it: KillShell {"shell_id": "job-5"}.
            shell: [… 9 characters omitted here (2 lines). All of it: Read {"file_path": "/output/5.log", "offset": 7}]
            shell: Sandbox: may have blocked this command.
            To allow more: ask the user to configure the host.
            shell_output: Task job-5 (make): running
            [… 12 bytes after these: Read {"file_path": "/output/5.log"}]
            shell_kill: Task job-5 (make): was sent TERM
            glob: a.rs

            [2 files match `*`]
            [showing 1 from 0; more exist]
            web_fetch: https://a.example/
            [characters 0 to 10 of 99]
            web_fetch: https://a.example/
            [only the main part is shown]
            enter_plan_mode: plan mode: read what you need, then call ExitPlanMode with the plan."#]],
    );
}

/// No result of a listed tool names a tool that the model cannot call.
#[test]
fn no_note_names_a_tool_that_is_not_listed() {
    let tools = shipped();
    for profile in Profile::ALL {
        let profiled = fixture::lens(profile, &tools);
        let listed = profiled.list();
        let hidden: Vec<&str> = BUILT_IN
            .iter()
            .copied()
            .filter(|name| name.contains('_') && !listed.iter().any(|one| one.name == *name))
            .collect();
        for (tool, text, structured) in notes() {
            if !listed.iter().any(|one| one.canonical.as_str() == tool) {
                continue;
            }
            let shown = text_of(&profiled, tool, text, &structured);
            let mut words = shown.split(|c: char| !c.is_alphanumeric() && c != '_');
            assert!(
                !words.any(|word| hidden.contains(&word)) && !shown.contains(UNUSABLE),
                "{profile} {tool}: {shown}"
            );
        }
    }
}

/// Texts of notes in the sources of plugins, without the values.
const SOURCES: &[(&str, &[&str])] = &[
    (
        "files/src/page.rs",
        &[
            "{} left; to go on: read_file with path",
            "{cut} {lines} cut after",
            "(\"line is\", \"it\")",
        ],
    ),
    (
        "files/src/text.rs",
        &[
            "the file is not UTF-8 and shown as latin1, which is a guess: set `encoding` if it is wrong",
        ],
    ),
    (
        "files/src/read.rs",
        &["the file has {}: search it with `grep`, or ask for a range"],
    ),
    (
        "files/src/batch_read.rs",
        &["because `max_bytes` is {}; to go on: read_file with"],
    ),
    (
        "files/src/listing.rs",
        &["(showing entries {}-{next} of {}; to go on: the same call with `offset`"],
    ),
    (
        "search/src/query.rs",
        &["the pattern contains a line end; searched with `multiline = true`"],
    ),
    (
        "search/src/grep/hints.rs",
        &[
            "`case_insensitive = true`",
            "`fixed_strings = true`",
            "`no_ignore = true`",
            "{parameters} would find it",
        ],
    ),
    (
        "search/src/grep/rendering.rs",
        &[
            "the search stopped at the time limit; narrow it with `path`, `glob` or `type`",
            "showing {shown} from {}; more",
        ],
    ),
    (
        "search/src/glob/traversal.rs",
        &[
            "`case_sensitive = false`",
            "`dot = true`",
            "`kind = \\\"any\\\"`",
            "`respect_git_ignore = false`",
        ],
    ),
    (
        "search/src/glob/rendering.rs",
        &["showing {count} from {offset}; more exist: continue with `offset = {next}`"],
    ),
    (
        "agent/src/find.rs",
        &["(showing {shown} of {} matches; raise `limit` or add keywords)"],
    ),
    (
        "web/src/html.rs",
        &["only the main part is shown; for everything use `format` = `raw`"],
    ),
    (
        "web/src/fetch/show.rs",
        &["for more call web_fetch with {alone}`start_index` = {next}"],
    ),
    ("shell/src/kill.rs", &["To kill it: shell_kill "]),
    (
        "shell/src/background.rs",
        &["To continue reading: shell_output "],
    ),
    (
        "shell/src/command_result.rs",
        &["To allow more: use request_permissions, or ask"],
    ),
    ("shell/src/show.rs", &[". All of it: read_file "]),
];

/// The plugins have the notes in this form. A note is reworded only if its beginning is known.
#[test]
fn the_notes_of_this_table_are_those_of_the_plugins() {
    let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins");
    for (file, texts) in SOURCES {
        let source = std::fs::read_to_string(plugins.join(file)).unwrap();
        for text in *texts {
            assert!(source.contains(text), "{file}: {text}");
        }
    }
}

/// Content that looks like a note of another tool, or that is not at the place of a note, is unchanged.
#[test]
fn content_is_unchanged() {
    let tools = shipped();
    for (tool, text) in [
        (
            "read_file",
            "     1→To stop it: shell_kill {\"task_id\": \"x\"}",
        ),
        (
            "shell",
            "  To continue reading: shell_output {\"task_id\": \"x\"}",
        ),
        ("task", "read_file with path \"a\""),
        (
            "grep",
            "a.md\n[`sleep`]: tokio::time::sleep\n[`context`]: b",
        ),
        ("read_many_files", "(1 line is cut; set `encoding`)"),
    ] {
        for profile in [Profile::Claude, Profile::Sema, Profile::Gemini] {
            let profiled = fixture::lens(profile, &tools);
            assert_eq!(text_of(&profiled, tool, text, &Value::Null), text);
        }
    }
}

/// A program can print any number of lines in the form of a note. The notes at the end are reworded, and rewording is
/// linear in the length of the text; this test would take minutes otherwise.
#[test]
fn output_with_many_lines_in_the_form_of_a_note_is_unchanged_before_the_last_ones() {
    let tools = shipped();
    let profiled = fixture::lens(Profile::Sema, &tools);
    let note = "To allow more: use request_permissions, or ask the user to configure the host.";
    let reworded = "To allow more: ask the user to configure the host.";
    let calls = |bytes: usize| format!("To allow more: {}", "glob {} ".repeat(bytes / 8));
    let line = calls(2_000);
    let lines = [line.as_str()].repeat((4 << 20) / line.len());
    for output in [calls(4 << 20), lines.join("\n")] {
        let text = format!("{output}\n{note}");
        for structured in [Value::Null, json!({"stdout": text})] {
            let shown = text_of(&profiled, "shell", &text, &structured);
            assert!(shown.ends_with(&format!("\n{reworded}")));
            assert_eq!(shown[..2 << 20], text[..2 << 20]);
        }
    }
    let shown = text_of(&profiled, "shell", &line, &Value::Null);
    assert_eq!(shown, line.replace("glob", "Glob"));
}

#[test]
fn a_note_in_each_line_is_reworded() {
    let tools = shipped();
    let profiled = fixture::lens(Profile::Claude, &tools);
    let note = "To kill it: shell_kill {\"task_id\": \"job-5\", \"signal\": \"KILL\"}";
    let more = "To kill it: ask the user.";
    for (text, expected) in [
        (format!("{note}\na\n{note}\n"), "a\n".to_owned()),
        (format!("a\n\n{note}"), "a\n".to_owned()),
        (format!("a\n{more}\n{note}\nb"), format!("a\n{more}\nb")),
        (format!("{more}\n{more}"), format!("{more}\n{more}")),
    ] {
        let shown = text_of(&profiled, "shell_kill", &text, &Value::Null);
        assert_eq!(shown, expected, "{text}");
    }
}
