//! Tests of files larger than a window.

use std::fs::File;
use std::io::{BufWriter, Write as _};

use toolhost_sdk::testing;

use super::super::Output;
use super::*;

/// Larger than two windows, with a match in the first line, near each window boundary and in the last line.
fn large(tree: &tempfile::TempDir, name: &str) -> u64 {
    let file = File::create(tree.path().join(name)).unwrap();
    let mut file = BufWriter::new(file);
    let lines = 300_000_u64;
    for line in 1..=lines {
        let needle = if line == 1 || line == lines || line % 10_007 == 0 {
            "needle"
        } else {
            "hay"
        };
        writeln!(
            file,
            "{line} {needle} {}",
            "x".repeat(usize::try_from(line % 37).unwrap())
        )
        .unwrap();
    }
    lines
}

fn call(tree: &tempfile::TempDir, input: Value) -> (Output, String) {
    let outcome = testing::call::<Grep>(&context(tree), input).unwrap();
    let output = outcome.structured.unwrap();
    let text = outcome.llm[0].text.clone().unwrap();
    (toolhost_sdk::serde_json::from_value(output).unwrap(), text)
}

#[test]
fn c_08_a_large_file_is_searched_to_its_end_with_the_lines_around_each_match() {
    let tree = tree(&[("small.txt", "no\n")]);
    let lines = large(&tree, "large.txt");
    let expected: Vec<u64> = (1..=lines)
        .filter(|line| *line == 1 || *line == lines || line % 10_007 == 0)
        .collect();
    let (output, _) = call(
        &tree,
        json!({"pattern": "needle", "output_mode": "content", "context": 2, "head_limit": 1000}),
    );
    let matches = &output.files[0].matches;
    let found: Vec<u64> = matches.iter().map(|found| found.line).collect();
    assert_eq!(found, expected);
    for found in matches {
        let around = found.before.iter().zip(
            (1..found.line)
                .rev()
                .take(2)
                .collect::<Vec<_>>()
                .into_iter()
                .rev(),
        );
        let below = found.after.iter().zip(found.line + 1..);
        for (text, line) in around.chain(below) {
            assert!(text.starts_with(&format!("{line} ")), "{line} {text}");
        }
        assert_eq!(
            found.before.len(),
            usize::try_from((found.line - 1).min(2)).unwrap()
        );
        assert_eq!(
            found.after.len(),
            usize::try_from((lines - found.line).min(2)).unwrap()
        );
    }
    let (output, _) = call(
        &tree,
        json!({"pattern": "hay", "output_mode": "count", "flags": "v"}),
    );
    assert_eq!(output.total_matches, expected.len() as u64 + 1);
}

#[test]
fn c_08_a_line_that_does_not_fit_is_named() {
    let tree = tree(&[]);
    let mut file = BufWriter::new(File::create(tree.path().join("one-line.txt")).unwrap());
    for _ in 0..33 {
        file.write_all(&vec![b'x'; 1 << 20]).unwrap();
    }
    file.write_all(b"needle").unwrap();
    drop(file);
    let (output, text) = call(&tree, json!({"pattern": "needle"}));
    assert_eq!(output.total_files, 0);
    assert!(
        text.contains("only the first 32 MiB were searched, because of a longer line or because a match may cover several lines: one-line.txt"),
        "{text}"
    );
}

#[test]
fn c_08_a_sparse_file_is_binary_or_searched_when_it_is_named() {
    let tree = tree(&[]);
    let file = File::create(tree.path().join("sparse")).unwrap();
    file.set_len(200 << 20).unwrap();
    let (_, text) = call(&tree, json!({"pattern": "needle"}));
    assert!(text.contains("1 binary skipped"), "{text}");
    let (_, text) = call(&tree, json!({"pattern": "needle", "path": "sparse"}));
    assert!(
        text.contains("only the first 32 MiB were searched"),
        "{text}"
    );
}

#[test]
fn c_08_of_many_files_only_those_that_are_shown_are_kept() {
    let names: Vec<String> = (0..500).map(|number| format!("{number:03}.txt")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x\n")).collect();
    let tree = tree(&files);
    // Each is an hour older than the previous one.
    for (mode, offset) in [
        ("files_with_matches", 7),
        ("count", 7),
        ("count", 499),
        ("count", 600),
    ] {
        let (output, _) = call(
            &tree,
            json!({"pattern": "x", "output_mode": mode, "offset": offset, "head_limit": 5}),
        );
        let shown: Vec<&str> = output.files.iter().map(|file| file.path.as_str()).collect();
        let expected: Vec<&str> = names
            .iter()
            .skip(offset)
            .take(5)
            .map(String::as_str)
            .collect();
        assert_eq!(shown, expected, "{mode}");
        assert_eq!(output.total_files, 500);
        assert_eq!(output.truncated, offset + 5 < 500);
    }
}

#[test]
fn a_match_that_begins_where_another_ends_is_found() {
    let tree = tree(&[("a", "a1\nb a2\nb\n")]);
    let (output, _) = call(
        &tree,
        json!({"pattern": r"a\d\nb", "output_mode": "content"}),
    );
    let texts: Vec<&str> = output.files[0]
        .matches
        .iter()
        .map(|found| found.text.as_str())
        .collect();
    assert_eq!(texts, ["a1\nb a2\nb"]);
}
