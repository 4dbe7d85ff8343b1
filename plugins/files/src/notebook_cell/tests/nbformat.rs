//! Random edits keep notebooks valid according to `nbformat`, which `cargo xtask clients` installs into the target
//! directory.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::*;

/// The first error of nbformat for each notebook, or null.
const VALIDATE: &str = r#"
import json, sys, warnings
import nbformat
warnings.simplefilter("error")
out = []
for text in json.load(sys.stdin):
    try:
        nbformat.validate(json.loads(text))
        out.append(None)
    except Exception as error:
        out.append(str(error)[:500])
json.dump(out, sys.stdout)
"#;

/// A valid notebook of a version, with cells of every type. Cells have ids since 4.5.
fn notebook(minor: u8) -> String {
    let id = |id: &str| {
        if minor < 5 {
            String::new()
        } else {
            format!(r#""id": "{id}", "#)
        }
    };
    format!(
        r##"{{"cells": [
 {{"cell_type": "markdown", {}"attachments": {{"a.png": {{"image/png": "AAAA"}}}}, "metadata": {{}}, "source": ["# Title\n", "![](attachment:a.png)"]}},
 {{"cell_type": "code", {}"execution_count": 3, "metadata": {{"tags": ["keep"]}}, "outputs": [{{"output_type": "stream", "name": "stdout", "text": ["1\n"]}}, {{"output_type": "execute_result", "execution_count": 3, "data": {{"text/plain": "1"}}, "metadata": {{}}}}], "source": "print(1)"}},
 {{"cell_type": "raw", {}"metadata": {{"format": "text/x-rst"}}, "source": []}}
], "metadata": {{"kernelspec": {{"name": "python3", "display_name": "Python 3"}}}}, "nbformat": 4, "nbformat_minor": {minor}}}
"##,
        id("intro"),
        id("b2"),
        id("cell-0")
    )
}

/// Edits of every mode and type at pseudo-random positions.
fn edits(mut seed: usize) -> Vec<Value> {
    let mut next = |below: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let edit = |_| {
        let kind = ["code", "markdown", "raw"][next(3)];
        let source = [
            "",
            "x",
            "a\nb\n",
            "\n",
            "ä \"q\" \\ \u{1f600}",
            "  indented\r\n",
        ][next(6)];
        match next(4) {
            0 => {
                json!({"edit_mode": "insert", "cell_number": next(3), "cell_type": kind, "new_source": source})
            }
            1 => json!({"edit_mode": "delete", "cell_number": next(3)}),
            2 => json!({"cell_number": next(3), "new_source": source}),
            _ => json!({"cell_number": next(3), "new_source": source, "cell_type": kind}),
        }
    };
    (0..6).map(edit).collect()
}

fn python() -> Option<std::path::PathBuf> {
    let target = std::env::var_os("TOOLHOST_TEST_TARGET").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
        Into::into,
    );
    let python = target.join("clients/notebook/bin/python");
    if python.is_file() {
        return Some(python);
    }
    println!("skipped: there is no nbformat; `cargo xtask clients` installs it");
    None
}

#[test]
fn an_edited_notebook_is_valid_for_nbformat() {
    let Some(python) = python() else { return };
    let mut notebooks = Vec::new();
    let mut edited = Vec::new();
    for seed in 0..80 {
        let workspace = Workspace::new(&[("a.ipynb", &notebook([4, 5][seed % 2]))]);
        let mut done = Vec::new();
        for input in edits(seed) {
            let answer = run(&workspace, input.clone());
            done.push(format!(
                "{input}: {}",
                answer.lines().next().unwrap_or_default()
            ));
            notebooks.push(file(&workspace));
            edited.push(done.join("\n"));
        }
    }
    let mut child = Command::new(python)
        .args(["-I", "-c", VALIDATE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input = serde_json::to_vec(&notebooks).unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&input).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let complaints: Vec<Option<String>> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(complaints.len(), notebooks.len());
    let changed = edited
        .iter()
        .filter(|done| done.contains("Inserted"))
        .count();
    assert!(changed > 100, "{changed}");
    for ((complaint, notebook), done) in complaints.iter().zip(&notebooks).zip(&edited) {
        assert_eq!(*complaint, None, "{done}\n{notebook}");
    }
}
