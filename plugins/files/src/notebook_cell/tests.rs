//! Tests of `notebook_edit`.

use std::fs;

use expect_test::{Expect, expect};
use toolhost_sdk::serde_json;

use super::*;
use crate::testing::Workspace;

/// As written by Jupyter, with details that a rewrite would change: numbers, escapes, unknown members.
const NOTEBOOK: &str = r##"{
 "cells": [
  {
   "cell_type": "markdown",
   "id": "intro",
   "metadata": {},
   "source": [
    "# Title\n",
    "words"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 3,
   "id": "b2",
   "metadata": {"tags": ["keep"]},
   "outputs": [{"output_type": "stream", "name": "stdout", "text": "1\n"}],
   "source": "print(1)"
  },
  {
   "cell_type": "code",
   "id": "cell-0",
   "metadata": {"x": 1.10, "y": 1E100, "z": "caf\u00e9"},
   "outputs": [],
   "source": []
  }
 ],
 "metadata": {"kernelspec": {"language": "python"}, "big": 123456789012345678901234567890},
 "nbformat": 4,
 "nbformat_minor": 5
}
"##;

/// The text for the model and a diff of the file; or the error.
fn check(content: &str, input: Value, expected: Expect) {
    let workspace = Workspace::new(&[("a.ipynb", content)]);
    let answer = run(&workspace, input);
    expected.assert_eq(&answer);
}

fn run(workspace: &Workspace, mut input: Value) -> String {
    input["path"] = "a.ipynb".into();
    let answer = workspace.call::<notebook_edit>(input);
    let end = answer.rfind("\n{").unwrap_or(answer.len());
    answer[..end].to_owned()
}

fn file(workspace: &Workspace) -> String {
    fs::read_to_string(workspace.path("a.ipynb")).unwrap()
}

mod every;
mod ids;
mod nbformat;
mod refusals;

// R-306
#[test]
fn r_306_a_replaced_code_cell_keeps_id_and_metadata_and_loses_its_outputs() {
    check(
        NOTEBOOK,
        json!({"cell_id": "b2", "new_source": "print(2)\nprint(\"é\")\n"}),
        expect![[r#"
            Replaced cell 1 (code, cell_id "b2") of a.ipynb
            print(2)
            print("é")
            summary: Replaced cell 1 (code, cell_id "b2") of a.ipynb
            display:
            --- a/a.ipynb
            +++ b/a.ipynb
            @@ -11,11 +11,18 @@
               },
               {
                "cell_type": "code",
            -   "execution_count": 3,
            +   "execution_count": null,
                "id": "b2",
            -   "metadata": {"tags": ["keep"]},
            -   "outputs": [{"output_type": "stream", "name": "stdout", "text": "1\n"}],
            -   "source": "print(1)"
            +   "metadata": {
            +    "tags": [
            +     "keep"
            +    ]
            +   },
            +   "outputs": [],
            +   "source": [
            +    "print(2)\n",
            +    "print(\"é\")\n"
            +   ]
               },
               {
                "cell_type": "code",
        "#]],
    );
}

#[test]
fn a_cell_can_become_another_kind() {
    check(
        NOTEBOOK,
        json!({"cell_number": 1, "new_source": "now text", "cell_type": "markdown"}),
        expect![[r#"
            Replaced cell 1 (markdown, cell_id "b2") of a.ipynb
            now text
            summary: Replaced cell 1 (markdown, cell_id "b2") of a.ipynb
            display:
            --- a/a.ipynb
            +++ b/a.ipynb
            @@ -10,12 +10,16 @@
                ]
               },
               {
            -   "cell_type": "code",
            -   "execution_count": 3,
            +   "cell_type": "markdown",
                "id": "b2",
            -   "metadata": {"tags": ["keep"]},
            -   "outputs": [{"output_type": "stream", "name": "stdout", "text": "1\n"}],
            -   "source": "print(1)"
            +   "metadata": {
            +    "tags": [
            +     "keep"
            +    ]
            +   },
            +   "source": [
            +    "now text"
            +   ]
               },
               {
                "cell_type": "code",
        "#]],
    );
    check(
        NOTEBOOK,
        json!({"cell_id": "0", "new_source": "", "cell_type": "code"}),
        expect![[r##"
            Replaced cell 0 (code, cell_id "intro") of a.ipynb
            summary: Replaced cell 0 (code, cell_id "intro") of a.ipynb
            display:
            --- a/a.ipynb
            +++ b/a.ipynb
            @@ -1,13 +1,12 @@
             {
              "cells": [
               {
            -   "cell_type": "markdown",
            +   "cell_type": "code",
                "id": "intro",
                "metadata": {},
            -   "source": [
            -    "# Title\n",
            -    "words"
            -   ]
            +   "source": [],
            +   "execution_count": null,
            +   "outputs": []
               },
               {
                "cell_type": "code",
        "##]],
    );
}

#[test]
fn a_new_cell_comes_after_the_id_at_the_number_or_at_the_start() {
    let insert = |position_input: Value| {
        let workspace = Workspace::new(&[("a.ipynb", NOTEBOOK)]);
        let mut input = json!({"edit_mode": "insert", "cell_type": "raw", "new_source": "NEW"});
        for (name, value) in position_input.as_object().unwrap() {
            input[name] = value.clone();
        }
        let answer = run(&workspace, input);
        let data: Value = serde_json::from_str(&file(&workspace)).unwrap();
        let cells = data["cells"].as_array().unwrap();
        let new = cells
            .iter()
            .position(|cell| cell["source"] == json!(["NEW"]));
        (new, answer.lines().next().unwrap().to_owned())
    };
    for (position_input, expected) in [
        (json!({}), 0),
        (json!({"cell_id": "intro"}), 1),
        (json!({"cell_id": "b2"}), 2),
        (json!({"cell_id": "cell-0"}), 3),
        (json!({"cell_id": "cell-1"}), 2),
        (json!({"cell_number": 0}), 0),
        (json!({"cell_number": 2}), 2),
        (json!({"cell_number": 3}), 3),
    ] {
        let (new, first_line) = insert(position_input.clone());
        assert_eq!(new, Some(expected), "{position_input}: {first_line}");
        assert!(
            first_line.contains(&format!("cell {expected} (raw")),
            "{first_line}"
        );
    }
    check(
        NOTEBOOK,
        json!({"edit_mode": "insert", "cell_id": "intro", "cell_type": "code", "new_source": "x = 1\ny = 2"}),
        expect![[r#"
            Inserted cell 1 (code, cell_id "5a78b080") in a.ipynb, which has 4 cells now
            x = 1
            y = 2
            summary: Inserted cell 1 (code, cell_id "5a78b080") in a.ipynb, which has 4 cells now
            display:
            --- a/a.ipynb
            +++ b/a.ipynb
            @@ -11,6 +11,17 @@
               },
               {
                "cell_type": "code",
            +   "execution_count": null,
            +   "id": "5a78b080",
            +   "metadata": {},
            +   "outputs": [],
            +   "source": [
            +    "x = 1\n",
            +    "y = 2"
            +   ]
            +  },
            +  {
            +   "cell_type": "code",
                "execution_count": 3,
                "id": "b2",
                "metadata": {"tags": ["keep"]},
        "#]],
    );
}

#[test]
fn a_cell_can_be_deleted_wherever_it_is() {
    for number in 0..3 {
        let workspace = Workspace::new(&[("a.ipynb", NOTEBOOK)]);
        run(
            &workspace,
            json!({"edit_mode": "delete", "cell_number": number, "new_source": ""}),
        );
        let text = file(&workspace);
        let data: Value = serde_json::from_str(&text).unwrap();
        let ids: Vec<&str> = data["cells"]
            .as_array()
            .unwrap()
            .iter()
            .map(|cell| cell["id"].as_str().unwrap())
            .collect();
        let mut expected = vec!["intro", "b2", "cell-0"];
        expected.remove(number);
        assert_eq!(ids, expected);
    }
    check(
        NOTEBOOK,
        json!({"edit_mode": "delete", "cell_id": "b2"}),
        expect![[r#"
            Deleted cell 1 (code, cell_id "b2") of a.ipynb, which has 2 cells now
            summary: Deleted cell 1 (code, cell_id "b2") of a.ipynb, which has 2 cells now
            display:
            --- a/a.ipynb
            +++ b/a.ipynb
            @@ -11,14 +11,6 @@
               },
               {
                "cell_type": "code",
            -   "execution_count": 3,
            -   "id": "b2",
            -   "metadata": {"tags": ["keep"]},
            -   "outputs": [{"output_type": "stream", "name": "stdout", "text": "1\n"}],
            -   "source": "print(1)"
            -  },
            -  {
            -   "cell_type": "code",
                "id": "cell-0",
                "metadata": {"x": 1.10, "y": 1E100, "z": "caf\u00e9"},
                "outputs": [],
        "#]],
    );
}

#[test]
fn the_style_of_the_file_stays() {
    let table = [
        // Four spaces, CR LF, no line break at the end.
        (
            "{\r\n    \"cells\": [],\r\n    \"nbformat\": 4\r\n}",
            "{\r\n    \"cells\": [\r\n        {\r\n            \"cell_type\": \"raw\",\r\n            \"metadata\": {},\r\n            \"source\": [\r\n                \"é\"\r\n            ]\r\n        }\r\n    ],\r\n    \"nbformat\": 4\r\n}",
        ),
        // A tab.
        (
            "{\n\t\"cells\": []\n}\n",
            "{\n\t\"cells\": [\n\t\t{\n\t\t\t\"cell_type\": \"raw\",\n\t\t\t\"metadata\": {},\n\t\t\t\"source\": [\n\t\t\t\t\"é\"\n\t\t\t]\n\t\t}\n\t]\n}\n",
        ),
        // One line.
        (r#"{"cells": [1]}"#, ""),
        (
            r#"{"cells": [{"a": 0}], "b": 1}"#,
            r#"{"cells": [{"cell_type": "raw", "metadata": {}, "source": ["é"]}, {"a": 0}], "b": 1}"#,
        ),
        (
            r#"{"cells":[{"a":0}]}"#,
            r#"{"cells":[{"cell_type":"raw","metadata":{},"source":["é"]},{"a":0}]}"#,
        ),
        // A byte order mark.
        (
            "\u{feff}{\"cells\":[]}\n",
            "\u{feff}{\"cells\":[{\"cell_type\":\"raw\",\"metadata\":{},\"source\":[\"é\"]}]}\n",
        ),
    ];
    for (content, expected) in table {
        let workspace = Workspace::new(&[("a.ipynb", content)]);
        let answer = run(
            &workspace,
            json!({"edit_mode": "insert", "cell_type": "raw", "new_source": "é"}),
        );
        if expected.is_empty() {
            assert!(
                answer.starts_with("InvalidInput invalid_notebook"),
                "{answer}"
            );
        } else {
            assert_eq!(file(&workspace), expected, "{answer}");
        }
    }
}

#[test]
fn bytes_of_other_cells_and_of_the_rest_stay() {
    let workspace = Workspace::new(&[("a.ipynb", NOTEBOOK)]);
    run(
        &workspace,
        json!({"cell_id": "intro", "new_source": "# Title\nother"}),
    );
    assert_eq!(file(&workspace), NOTEBOOK.replace("words", "other"));
}

#[test]
fn the_same_source_clears_what_it_gave_and_after_that_changes_nothing() {
    let workspace = Workspace::new(&[("a.ipynb", NOTEBOOK)]);
    let same = || json!({"cell_id": "b2", "new_source": "print(1)"});
    let answer = run(&workspace, same());
    assert!(answer.starts_with("Replaced cell 1"), "{answer}");
    let cleared = file(&workspace);
    assert!(!cleared.contains("stdout"), "{cleared}");
    expect![[r#"
        No change: cell 1 (code, cell_id "b2") of a.ipynb has this source already. Go on to the next step.
        summary: No change: cell 1 (code, cell_id "b2") of a.ipynb has this source already. Go on to the next step."#]].assert_eq(&run(&workspace, same()));
    assert_eq!(file(&workspace), cleared);
    let answer = run(
        &workspace,
        json!({"cell_id": "intro", "new_source": "# Title\nwords"}),
    );
    assert!(answer.starts_with("No change"), "{answer}");
}

#[test]
fn examples_are_inputs_and_run() {
    toolhost_sdk::testing::check_examples::<notebook_edit>().unwrap();
    Workspace::new(&[("a.ipynb", NOTEBOOK)]).run_examples::<notebook_edit>();
}
