//! Every edit at every position of notebooks in every style: the result is JSON, and only one cell changes.

use super::*;

/// A notebook with a number of cells, in one of four styles.
fn notebook(style: usize, count: usize) -> String {
    let cells: Vec<String> = (0..count)
        .map(|cell| {
            format!(r#"{{"cell_type":"code","id":"id{cell}","x":"]}}\"","source":"{cell}"}}"#)
        })
        .collect();
    let (open, between, close) = [
        (
            "{\n \"cells\": [\n  ",
            ",\n  ",
            "\n ],\n \"nbformat\": 4\n}\n",
        ),
        (
            "{\r\n\t\"n\": {\"cells\": 1},\r\n\t\"cells\": [",
            ",",
            "]\r\n}",
        ),
        ("{\"cells\": [", ", ", "], \"nbformat\": 4}"),
        (" {\"nbformat\":4,\"cells\":[", ",", "]} "),
    ][style];
    format!("{open}{}{close}", cells.join(between))
}

fn sources(workspace: &Workspace) -> Vec<String> {
    let data: Value = serde_json::from_str(&file(workspace)).unwrap();
    let cells = data["cells"].as_array().unwrap();
    let source = |cell: &Value| crate::notebook::joined(&cell["source"]);
    cells.iter().map(source).collect()
}

fn check(style: usize, count: usize, input: Value, change: impl FnOnce(&mut Vec<String>)) {
    let before = notebook(style, count);
    let workspace = Workspace::new(&[("a.ipynb", &before)]);
    let mut expected = sources(&workspace);
    change(&mut expected);
    let answer = run(&workspace, input.clone());
    let after = file(&workspace);
    assert_eq!(sources(&workspace), expected, "{input}: {answer}\n{after}");
    let open = before.rfind("\"cells\":").unwrap();
    let close = before.rfind(']').unwrap();
    let (start, end) = (&before[..open], &before[close..]);
    assert!(after.starts_with(start) && after.ends_with(end), "{after}");
}

#[test]
fn only_the_cell_that_is_meant_changes() {
    for style in 0..4 {
        for count in 0..4 {
            for index in 0..=count {
                let new = format!("new\n{index}");
                let insert = json!({"edit_mode": "insert", "cell_number": index, "cell_type": "code", "new_source": new});
                check(style, count, insert, |cells| {
                    cells.insert(index, new.clone());
                });
                if index == count {
                    continue;
                }
                let replace = json!({"cell_number": index, "new_source": new});
                check(style, count, replace, |cells| cells[index].clone_from(&new));
                let delete = json!({"edit_mode": "delete", "cell_id": format!("id{index}")});
                check(style, count, delete, |cells| drop(cells.remove(index)));
            }
        }
    }
}
