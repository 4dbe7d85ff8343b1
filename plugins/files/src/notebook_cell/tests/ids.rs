//! Lookup and assignment of cell ids.

use super::*;

#[test]
fn an_id_that_a_cell_has_wins_over_the_number_it_looks_like() {
    let workspace = Workspace::new(&[("a.ipynb", NOTEBOOK)]);
    let answer = run(
        &workspace,
        json!({"cell_id": "cell-0", "new_source": "third"}),
    );
    assert!(answer.starts_with("Replaced cell 2"), "{answer}");
    let answer = run(
        &workspace,
        json!({"cell_id": "cell-1", "new_source": "second"}),
    );
    assert!(answer.starts_with("Replaced cell 1"), "{answer}");
}

#[test]
fn before_format_4_5_cells_have_no_ids() {
    let old = NOTEBOOK.replace("\"nbformat_minor\": 5", "\"nbformat_minor\": 4");
    let workspace = Workspace::new(&[("a.ipynb", &old)]);
    let input = json!({"edit_mode": "insert", "cell_type": "raw", "new_source": "x"});
    let answer = run(&workspace, input);
    assert!(
        answer.starts_with("Inserted cell 0 (raw, cell_id \"cell-0\")"),
        "{answer}"
    );
    assert_eq!(file(&workspace).matches("\"id\"").count(), 3);
}

#[test]
fn new_ids_are_never_the_same() {
    let workspace = Workspace::new(&[("a.ipynb", NOTEBOOK)]);
    let mut ids = std::collections::BTreeSet::new();
    for _ in 0..5 {
        let input = json!({"edit_mode": "insert", "cell_type": "raw", "new_source": "x"});
        let answer = run(&workspace, input);
        ids.insert(answer.split('"').nth(1).unwrap().to_owned());
    }
    assert_eq!(ids.len(), 5);
    assert!(ids.iter().all(|id| id.len() == 8));
}
