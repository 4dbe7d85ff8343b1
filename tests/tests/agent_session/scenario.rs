//! The steps of the session in native tool names.

use std::fs;

use serde_json::{Value, json};

use crate::play::Play;
use crate::session::Answer::{Chooses, No, Yes};
use crate::session::{Call, Session};
use crate::transcript::code;

/// The differences in the workspace after the session.
pub const LEFT: &[&str] = &[
    "-data/old.csv",
    "~analysis.ipynb",
    "~config.ini",
    "+docs/",
    "+docs/NOTES.md",
    "+docs/usage.md",
    "~src/greet.py",
    "~src/main.py",
    "~tests/test_greet.py",
];

/// Changes by other programs, which an undo does not revert.
pub const NOT_OURS: &[&str] = &["~config.ini"];

/// Runs the scenario and returns the number of calls.
pub fn play(session: &mut Session<'_>, page: &str) -> usize {
    let mut play = Play { session };
    look_around(&mut play);
    plan(&mut play);
    edit(&mut play);
    run(&mut play);
    finish(&mut play, page);
    session.calls()
}

fn look_around(play: &mut Play<'_, '_>) {
    play.reads(
        "what is here",
        "list_directory",
        json!({"path": "."}),
        "README.md",
    );
    play.reads(
        "all Python files",
        "glob",
        json!({"pattern": "**/*.py"}),
        "src/greet.py",
    );
    play.reads(
        "what is left to do",
        "grep",
        json!({"pattern": "TODO", "output_mode": "content"}),
        "TODO: greet whoever",
    );
    play.reads(
        "the first lines of the library",
        "read_file",
        json!({"path": "src/greet.py", "offset": 1, "limit": 2}),
        "def greet",
    );
    play.fails_with(
        "a file that is not there",
        "read_file",
        json!({"path": "src/gret.py"}),
        "file_not_found",
        "src/greet.py",
    );
    let turn = ["src/main.py", "src/greet.py", "README.md", "plan.md"].map(|path| Call {
        tool: "read_file",
        input: json!({"path": path}),
    });
    let results = play.session.turn("four files at once", &turn, &[]);
    assert!(results.iter().all(|result| code(result) == "ok"));
}

fn todo(states: [&str; 3]) -> Value {
    let tasks = [
        ("Greet a name", "Greeting a name"),
        ("Say good bye", "Saying good bye"),
        ("Run the tests", "Running the tests"),
    ];
    let todos = tasks.iter().zip(states).enumerate();
    let todos = todos.map(|(index, ((content, active), status))| {
        json!({"id": (index + 1).to_string(), "content": content, "status": status, "active_form": active})
    });
    json!({"todos": todos.collect::<Vec<_>>()})
}

fn plan(play: &mut Play<'_, '_>) {
    play.reads(
        "a list of tasks",
        "todo_write",
        todo(["in_progress", "pending", "pending"]),
        "",
    );
    let question = json!({"questions": [{
        "question": "Which language shall it greet in?",
        "header": "Language",
        "options": [
            {"label": "English", "description": "as it does now"},
            {"label": "French", "description": "as the page about greetings does"},
        ],
        "multi_select": false,
    }]});
    play.one(
        "a question",
        ("ask_user", question),
        &[Chooses("French")],
        ("ok", "French"),
    );
    play.reads(
        "first a plan",
        "enter_plan_mode",
        json!({"reason": "it touches every file"}),
        "",
    );
    let notes = json!({"path": "NOTES.md", "content": "Bonjour\n"});
    play.fails_with(
        "nothing is written in plan mode",
        "write_file",
        notes.clone(),
        "policy_violation",
        "in mode plan",
    );
    play.one(
        "the plan is good",
        (
            "exit_plan_mode",
            json!({"plan": "# Greet in French\n1. Say Bonjour\n"}),
        ),
        &[Chooses("default")],
        ("ok", ""),
    );
    play.asks("now it is written", "write_file", notes, "NOTES.md");
}

fn edit(play: &mut Play<'_, '_>) {
    play.asks(
        "an edit",
        "edit_file",
        json!({"path": "src/main.py", "old_string": "greet(\"world\")", "new_string": "greet(\"monde\")"}),
        "src/main.py",
    );
    play.one(
        "an edit that the user denies",
        (
            "edit_file",
            json!({"path": "README.md", "old_string": "# Greeter", "new_string": "# Bonjour"}),
        ),
        &[No("keep the title")],
        ("user_denied", "keep the title"),
    );
    play.fails_with(
        "an edit of what is not there",
        "edit_file",
        json!({"path": "README.md", "old_string": "Says helo.", "new_string": "Says bonjour."}),
        "edit_no_occurrence_found",
        "",
    );
    play.reads(
        "the configuration",
        "read_file",
        json!({"path": "config.ini"}),
        "red",
    );
    play.session
        .meanwhile("somebody else changes the configuration", |project| {
            fs::write(project.join("config.ini"), "[colours]\nbackground = blue\n").unwrap();
        });
    let white = |now: &str| json!({"path": "config.ini", "old_string": format!("background = {now}"), "new_string": "background = white"});
    play.fails_with(
        "an edit of what is there no more",
        "edit_file",
        white("red"),
        "edit_stale",
        "blue",
    );
    play.reads(
        "the configuration again",
        "read_file",
        json!({"path": "config.ini"}),
        "blue",
    );
    play.asks(
        "and then the edit",
        "edit_file",
        white("blue"),
        "config.ini",
    );
    play.asks(
        "several edits of one file",
        "multi_edit",
        json!({"path": "src/greet.py", "edits": [
            {"old_string": "\"Hello, \"", "new_string": "\"Bonjour, \""},
            {"old_string": "\"Goodbye, \"", "new_string": "\"Au revoir, \""},
        ]}),
        "src/greet.py",
    );
    play.reads(
        "the test",
        "read_file",
        json!({"path": "tests/test_greet.py"}),
        "Hello, Ada",
    );
    let patch = "*** Begin Patch\n*** Update File: tests/test_greet.py\n@@\n def test_greet():\n-    assert greet(\"Ada\") == \"Hello, Ada\"\n+    assert greet(\"Ada\") == \"Bonjour, Ada\"\n*** Add File: docs/usage.md\n+# Usage\n+\n+python src/main.py\n*** End Patch\n";
    play.asks(
        "a patch of two files",
        "apply_patch",
        json!({"patch": patch}),
        "docs/usage.md",
    );
    play.reads(
        "the notebook",
        "read_file",
        json!({"path": "analysis.ipynb"}),
        "greetings",
    );
    play.asks(
        "a cell of it",
        "notebook_edit",
        json!({
            "path": "analysis.ipynb",
            "cell_id": "count",
            "cell_number": 1,
            "new_source": "greetings = ['Bonjour', 'Au revoir']\nprint(len(greetings))",
        }),
        "",
    );
}

fn run(play: &mut Play<'_, '_>) {
    let shell =
        |command: &str, description: &str| json!({"command": command, "description": description});
    play.asks(
        "the checks",
        "shell",
        shell("bash check.sh", "Run the checks"),
        "2 passed",
    );
    play.one(
        "a command that may run from now on",
        ("shell", shell("ls src", "List the sources")),
        &[Yes(1)],
        ("ok", "greet.py"),
    );
    play.reads(
        "so there is no further question",
        "shell",
        shell("ls docs", "List the documents"),
        "usage.md",
    );
    play.one(
        "a command that fails",
        ("shell", shell("echo broken >&2; exit 3", "Fail")),
        &[Yes(0)],
        ("command_failed", "broken"),
    );
    let waits = "until [ -e build/go ]; do sleep 0.02; done; echo the build is done";
    let built = background(play, "a build in the background", waits);
    play.reads("what runs", "shell_list", json!({}), "until");
    play.session.meanwhile("the build may go on", |project| {
        fs::write(project.join("build/go"), "").unwrap();
    });
    play.waits_for(&built);
    play.reads(
        "what the build says",
        "shell_output",
        ended(&built),
        "the build is done",
    );
    play.session.meanwhile("and it is cleaned up", |project| {
        fs::remove_file(project.join("build/go")).unwrap();
    });
    let server = background(play, "a server in the background", "sleep 600");
    play.asks(
        "and its end",
        "shell_kill",
        json!({"task_id": server["task_id"]}),
        "",
    );
    let begun = play.reads(
        "what may run, in the background",
        "background_run",
        json!({"tool": "shell", "params": {"command": "ls src"}}),
        "",
    );
    let begun = &begun["outcome"]["structured"];
    play.waits_for(begun);
    play.reads(
        "and what it brought",
        "shell_output",
        json!({"task_id": begun["task_id"], "block": true}),
        "greet.py",
    );
}

/// Starts a command in the background and returns its structured result, which contains its ids.
fn background(play: &mut Play<'_, '_>, title: &str, command: &str) -> Value {
    let input = json!({"command": command, "description": title, "run_in_background": true});
    let started = play.asks(title, "shell", input, "");
    started["outcome"]["structured"].clone()
}

fn ended(started: &Value) -> Value {
    json!({"task_id": started["task_id"], "pid": started["pid"], "block": true})
}

fn finish(play: &mut Play<'_, '_>, page: &str) {
    play.asks(
        "a page about greetings",
        "web_fetch",
        json!({"url": format!("http://{page}/greetings"), "prompt": "How does one greet in French?"}),
        "Bonjour",
    );
    play.reads(
        "a chain of tools",
        "tool_chain",
        json!({"steps": [
            {"tool": "glob", "args": {"pattern": "*.md"}},
            {"tool": "read_file", "args": {"path": "NOTES.md"}},
        ]}),
        "Bonjour",
    );
    play.reads("the tree", "directory_tree", json!({}), "usage.md");
    play.reads(
        "what the tasks were",
        "todo_read",
        json!({}),
        "Run the tests",
    );
    play.reads(
        "all done",
        "todo_write",
        todo(["completed", "completed", "completed"]),
        "",
    );
    play.fails_with(
        "a tool that does not exist",
        "raed_file",
        json!({}),
        "tool_not_registered",
        "",
    );
    play.asks(
        "the notes move",
        "move_file",
        json!({"from": "NOTES.md", "to": "docs/NOTES.md"}),
        "docs/NOTES.md",
    );
    play.asks(
        "what is old goes",
        "delete_file",
        json!({"path": "data/old.csv"}),
        "data/old.csv",
    );
}
