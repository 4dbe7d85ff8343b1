//! Tests of results in the Kode profile.

use expect_test::expect;
use serde_json::json;

use super::{check, first_page, found, page};
use crate::profile::Profile;

// R-340, R-341, R-342, R-343, R-344, R-345
#[test]
fn r_340_file_results_of_kode() {
    let edits = json!([{"path": "a", "replacements": 1, "status": "ok"}]);
    let mixed = json!([{"path": "a", "status": "skipped"}, {"path": "b", "status": "error", "error": "0 matches"}]);
    check(
        Profile::Kode,
        &[
            ("read_file", json!({}), page()),
            ("read_file", json!({}), first_page()),
            (
                "read_file",
                json!({}),
                json!({"content": "", "size": 0, "total_lines": 0}),
            ),
            (
                "write_file",
                json!({}),
                json!({"path": "/w/a", "bytesWritten": 3, "created": true}),
            ),
            (
                "edit_file",
                json!({}),
                json!({"path": "/w/a", "replacements": 2, "strategy": "exact", "created": false}),
            ),
            (
                "glob",
                json!({"pattern": "*"}),
                json!({"matches": ["a", "b"], "count": 2, "truncated": false, "timed_out": true}),
            ),
            ("grep", json!({"pattern": "fn"}), found()),
            (
                "grep",
                json!({"pattern": "fn"}),
                json!({"mode": "count", "files": [{"path": "a", "count": 2, "matches": []}], "truncated": true}),
            ),
            ("multi_edit", json!({}), json!({"edits": edits})),
            ("multi_edit", json!({}), json!({"edits": mixed})),
        ],
        expect![[r#"
            read_file: one
            two

            read_file: one
            two

            (lines 1 to 2 of 9 are shown; call fs_read with offset 3 to continue)
            read_file: (file is empty)
            write_file: {"ok":true,"path":"/w/a","bytes":3}
            edit_file: {"ok":true,"path":"/w/a","replacements":2}
            glob: {"ok":true,"matches":["a","b"],"truncated":false,"timed_out":true}
            grep: {"ok":true,"pattern":"fn","matches":[{"path":"a.rs","line":3,"column":1,"preview":"fn a"},{"path":"a.rs","line":5,"column":2,"preview":"fn b\nfn c"},{"path":"b.rs","line":1,"column":4,"preview":"fn"}],"truncated":false}
            grep: {"ok":true,"pattern":"fn","matches":[{"path":"a","count":2}],"truncated":true}
            multi_edit: {"ok":true,"results":[{"path":"a","replacements":1,"status":"ok"}]}
            multi_edit: (error) {"ok":false,"results":[{"path":"a","status":"skipped"},{"path":"b","status":"error","error":"0 matches"}]}"#]],
    );
}

// R-346, R-347, R-348, R-349, R-350, R-351
#[test]
fn r_346_command_and_todo_results_of_kode() {
    let todos = json!([{"id": "1", "content": "a", "status": "pending", "notes": "n"}]);
    check(
        Profile::Kode,
        &[
            (
                "shell",
                json!({}),
                json!({"stdout": "hi\n", "stderr": "", "exitCode": 0, "timed_out": false, "truncated": false, "output_file": null}),
            ),
            (
                "shell",
                json!({}),
                json!({"stdout": "hi\n", "stderr": "", "exitCode": null, "signal": "TERM", "timed_out": true}),
            ),
            (
                "shell",
                json!({}),
                json!({"background": true, "pid": 7, "task_id": "b1", "stdout": ""}),
            ),
            (
                "shell_output",
                json!({}),
                json!({"task_id": "b1", "pid": 7, "state": "running", "output": "hi"}),
            ),
            (
                "shell_kill",
                json!({}),
                json!({"task_id": "b1", "pid": 7, "state": "ended", "signal": "TERM"}),
            ),
            (
                "todo_read",
                json!({}),
                json!({"todos": todos, "version": 3}),
            ),
            ("todo_write", json!({}), json!({"todos": todos})),
            ("task", json!({}), json!("done")),
        ],
        expect![[r#"
            shell: {"stdout":"hi\n","stderr":"","exitCode":0}
            shell: {"stdout":"hi\n","stderr":"","exitCode":null,"signal":"TERM","timed_out":true}
            shell: {"pid":7,"status":"running","shell_id":"b1"}
            shell_output: {"pid":7,"shell_id":"b1","status":"running","logs":"hi"}
            shell_kill: {"ok":true,"pid":7,"shell_id":"b1","status":"ended","signal":"TERM"}
            todo_read: {"todos":[{"id":"1","title":"a","status":"pending","notes":"n"}],"version":3}
            todo_write: {"todos":[{"id":"1","title":"a","status":"pending","notes":"n"}],"ok":true}
            task: done"#]],
    );
}
