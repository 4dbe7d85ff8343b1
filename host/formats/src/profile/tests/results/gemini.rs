//! Tests of results in the Gemini profile.

use expect_test::expect;
use serde_json::json;

use super::{first_page, found, page, render, shown, value};
use crate::profile::Profile;

// R-320, R-321, R-322, R-323, R-324, R-325
#[test]
fn r_320_file_results_of_gemini() {
    let lines = [
        ("edit_file", json!({"path": "/w/a.rs", "created": false})),
        ("edit_file", json!({"path": "/w/a.rs", "created": true})),
        (
            "edit_file",
            json!({"path": "/w/a.rs", "created": false, "changed": false}),
        ),
        (
            "write_file",
            json!({"path": "/w/a.rs", "created": true, "changed": true}),
        ),
        ("read_file", page()),
        ("read_file", first_page()),
        ("glob", json!({"matches": ["/w/a.rs"]})),
        ("list_directory", json!({"files": []})),
        (
            "grep",
            json!({"mode": "content", "files": [], "total_matches": 0}),
        ),
    ]
    .map(|(tool, structured)| {
        let answer = value(structured);
        format!(
            "{tool}: {}",
            shown(&render(Profile::Gemini, tool, &json!({}), &answer))
        )
    });
    expect![[r#"
        edit_file: Modified a.rs
        + our text
        edit_file: Created a.rs
        + our text
        edit_file: our text
        write_file: Created a.rs
        + our text
        read_file: our text
        read_file: lines 1 to 2 of 9 are shown; call read_file with start_line 3 to continue
        + our text
        glob: our text
        list_directory: our text
        grep: our text"#]]
    .assert_eq(&lines.join("\n"));
    let mut found = found();
    let input = json!({"pattern": "fn"});
    let rendered = render(Profile::Gemini, "grep", &input, &value(found.clone()));
    assert_eq!(rendered.structured, Some(found.clone()));
    expect![[r#"
        Found 3 matches for pattern "fn":
        ---
        File: a.rs
        L1- one
        L2- two
        L3: fn a
        L4- four
        L5: fn b
        L6: fn c
        L7- seven
        ---
        File: b.rs
        L1: fn
        ---"#]]
    .assert_eq(&shown(&rendered));
    found["truncated"] = true.into();
    found["timed_out"] = true.into();
    found["total_matches"] = 9.into();
    let rendered = render(Profile::Gemini, "grep", &input, &value(found));
    let text = shown(&rendered);
    let (_, end) = text.rsplit_once("---\n").unwrap();
    expect![[r#"
        (only 3 are shown; narrow the search, or raise total_max_matches)
        (timed out before all files were searched)"#]]
    .assert_eq(end);
}
