//! Errors of `notebook_edit`.

use super::*;

#[test]
fn a_missing_cell_error_lists_existing_cells() {
    check(
        NOTEBOOK,
        json!({"cell_id": "x", "new_source": ""}),
        expect![[
            r#"InvalidInput edit_no_occurrence_found: no cell "x": a.ipynb has 3 cells: 0 "intro", 1 "b2", 2 "cell-0""#
        ]],
    );
    check(
        NOTEBOOK,
        json!({"cell_id": "cell-3", "new_source": ""}),
        expect![[
            r#"InvalidInput edit_no_occurrence_found: no cell "cell-3": a.ipynb has 3 cells: 0 "intro", 1 "b2", 2 "cell-0""#
        ]],
    );
    check(
        NOTEBOOK,
        json!({"cell_number": 3, "new_source": ""}),
        expect![[
            r#"InvalidInput edit_no_occurrence_found: no cell number 3: a.ipynb has 3 cells: 0 "intro", 1 "b2", 2 "cell-0""#
        ]],
    );
    check(
        NOTEBOOK,
        json!({"edit_mode": "insert", "cell_number": 4, "cell_type": "raw", "new_source": ""}),
        expect![[
            r#"InvalidInput edit_no_occurrence_found: no cell number 4: a.ipynb has 3 cells: 0 "intro", 1 "b2", 2 "cell-0""#
        ]],
    );
    check(
        r#"{"cells":[]}"#,
        json!({"edit_mode": "delete", "cell_number": 0}),
        expect!["InvalidInput edit_no_occurrence_found: no cell number 0: a.ipynb has 0 cells"],
    );
    let twice = NOTEBOOK.replace("\"intro\"", "\"b2\"");
    check(
        &twice,
        json!({"cell_id": "b2", "new_source": ""}),
        expect![[
            r#"InvalidInput edit_expected_occurrence_mismatch: the cells [0, 1] of a.ipynb all have the id "b2"; use `cell_number`"#
        ]],
    );
}

#[test]
fn inputs_that_make_no_sense() {
    check(
        NOTEBOOK,
        json!({"new_source": "x"}),
        expect!["InvalidInput invalid_input: `cell_id` or `cell_number` is missing"],
    );
    check(
        NOTEBOOK,
        json!({"cell_id": "b2"}),
        expect![
            "InvalidInput invalid_input: `new_source` is missing; pass the complete source of the cell"
        ],
    );
    check(
        NOTEBOOK,
        json!({"edit_mode": "insert", "new_source": "x"}),
        expect![[
            r#"InvalidInput invalid_input: `cell_type` is missing: a new cell is "code", "markdown" or "raw""#
        ]],
    );
    check(
        NOTEBOOK,
        json!({"edit_mode": "insert", "cell_type": "raw", "cell_id": "b2", "cell_number": 1, "new_source": "x"}),
        expect![[
            r#"InvalidInput invalid_input: `cell_id` and `cell_number` are mutually exclusive for edit_mode "insert"; omit one"#
        ]],
    );
    check(
        NOTEBOOK,
        json!({"cell_id": "b2", "cell_number": 0, "new_source": "x"}),
        expect![
            "InvalidInput invalid_input: `cell_id` is cell 1 and `cell_number` is cell 0; omit one"
        ],
    );
    check(
        NOTEBOOK,
        json!({"cell_type": "sql", "new_source": "x"}),
        expect![[
            r#"InvalidInput invalid_input: `cell_type`: "sql" is not one of ["code","markdown","raw"]"#
        ]],
    );
}

#[test]
fn files_that_are_no_notebooks_stay_as_they_are() {
    for (content, expected) in [
        (
            "",
            expect![
                "InvalidInput invalid_notebook: a.ipynb is not a notebook: it is not valid JSON: EOF while parsing a value at line 1 column 0"
            ],
        ),
        (
            "{\"cells\": [",
            expect![
                "InvalidInput invalid_notebook: a.ipynb is not a notebook: it is not valid JSON: EOF while parsing a list at line 1 column 11"
            ],
        ),
        (
            "[]",
            expect![
                "InvalidInput invalid_notebook: a.ipynb is not a notebook: it has no list `cells`"
            ],
        ),
        (
            "{}",
            expect![
                "InvalidInput invalid_notebook: a.ipynb is not a notebook: it has no list `cells`"
            ],
        ),
        (
            "{\"worksheets\": []}",
            expect![
                "InvalidInput invalid_notebook: a.ipynb is not a notebook: it has no list `cells`; it has the format from before 2015, convert it with `jupyter nbconvert`"
            ],
        ),
        (
            "{\"cells\": [1]}",
            expect![
                "InvalidInput invalid_notebook: a.ipynb is not a notebook: cell 0 is not an object"
            ],
        ),
        (
            "{\"cells\": {}}",
            expect![
                "InvalidInput invalid_notebook: a.ipynb is not a notebook: it has no list `cells`"
            ],
        ),
    ] {
        check(
            content,
            json!({"edit_mode": "insert", "cell_type": "raw", "new_source": "x"}),
            expected,
        );
    }
    let workspace = Workspace::new(&[("a.py", ""), ("a.ipynb", NOTEBOOK)]);
    workspace.write("latin.ipynb", b"{\"cells\": [], \"x\": \"\xe9\"}");
    let table = [
        (
            "a.py",
            expect![
                "InvalidInput not_a_notebook: a.py is not a notebook: its name does not end in .ipynb"
            ],
        ),
        (
            "b.ipynb",
            expect!["NotFound file_not_found: File not found: b.ipynb. Did you mean: a.ipynb?"],
        ),
        (
            "/etc/a.ipynb",
            expect![
                "Denied path_not_in_workspace: Permission denied: Access denied: /etc/a.ipynb is outside the allowed paths (<root>)"
            ],
        ),
        (
            "latin.ipynb",
            expect![
                "InvalidInput invalid_notebook: latin.ipynb is not a notebook: it is not UTF-8"
            ],
        ),
    ];
    for (path, expected) in table {
        let input = json!({"path": path, "cell_number": 0, "new_source": ""});
        expected.assert_eq(&workspace.call::<notebook_edit>(input));
    }
    let input = json!({"path": "a.ipynb", "cell_number": 0, "new_source": ""});
    expect!["Denied permission_denied: Permission denied: Access denied: a.ipynb is in <root>, which is read-only"].assert_eq(&workspace.read_only::<notebook_edit>(input));
}
