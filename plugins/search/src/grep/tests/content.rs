//! Tests of the mode `content`.

use super::*;

#[test]
fn content_with_context() {
    check(
        json!({"pattern": "TODO", "output_mode": "content", "-C": 1, "glob": "*.{rs,md}"}),
        expect![[r#"
        File: docs/guide.md
        L1- # Guide
        L2: TODO write
        L3: TODO more

        File: src/main.rs
        L1- fn main() {
        L2:     // TODO: start
        L3-     run();

        [3 matching lines in 2 files (searched 3 files in .; 4 ignored (git: 2, tool: 2))]"#]],
    );
    check(
        json!({"pattern": "todo", "-i": true, "output_mode": "content", "-A": 1, "-n": false, "type": "rust"}),
        expect![[r#"
        File: src/main.rs
            // TODO: start
            run();
        --
            // todo later
        }

        [2 matching lines in 1 file (searched 2 files in .; 4 ignored (git: 2, tool: 2))]"#]],
    );
}

#[test]
fn few_matches_are_shown_with_their_surroundings() {
    check(
        json!({"pattern": "later", "output_mode": "content"}),
        expect![[r#"
        File: src/main.rs
        L1- fn main() {
        L2-     // TODO: start
        L3-     run();
        L4- }
        L5- 
        L6- fn run() {
        L7:     // todo later
        L8- }

        [1 matching line in 1 file (searched 7 files in .; 4 ignored (git: 2, tool: 2); 1 binary skipped)]"#]],
    );
    check(
        json!({"pattern": "later", "output_mode": "content", "auto_context": false}),
        expect![[r#"
        File: src/main.rs
        L7:     // todo later

        [1 matching line in 1 file (searched 7 files in .; 4 ignored (git: 2, tool: 2); 1 binary skipped)]"#]],
    );
}

#[test]
fn several_lines() {
    check(
        json!({"pattern": r"start\n\s+run", "output_mode": "content", "auto_context": false}),
        expect![[r#"
        File: src/main.rs
        L2:     // TODO: start
        L3:     run();

        [1 matching line in 1 file (searched 7 files in .; 4 ignored (git: 2, tool: 2); 1 binary skipped)]
        [the pattern contains a line end; searched with `multiline = true`]"#]],
    );
}

#[test]
fn data_for_programs() {
    let tree = tree(FILES);
    let input = json!({"pattern": "write", "output_mode": "content", "context": 1});
    expect![[r##"
        {
          "mode": "content",
          "files": [
            {
              "path": "docs/guide.md",
              "count": 1,
              "matches": [
                {
                  "line": 2,
                  "column": 6,
                  "text": "TODO write",
                  "before": [
                    "# Guide"
                  ],
                  "after": [
                    "TODO more"
                  ]
                }
              ]
            }
          ],
          "total_matches": 1,
          "total_files": 1,
          "truncated": false,
          "timed_out": false
        }"##]]
    .assert_eq(&data::<Grep>(&context(&tree), input));
}

#[test]
fn other_encodings() {
    let tree = tree(&[("latin.txt", "")]);
    let utf16: Vec<u8> = "\u{feff}größe\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    fs::write(tree.path().join("wide.txt"), utf16).unwrap();
    fs::write(tree.path().join("bom.txt"), "\u{feff}größe\n").unwrap();
    fs::write(tree.path().join("latin.txt"), b"gr\xf6\xdfe\n").unwrap();
    let input = json!({"pattern": "^gr", "output_mode": "content"});
    expect![[r#"
        File: bom.txt
        L1: größe

        File: latin.txt
        L1: gr��e

        File: wide.txt
        L1: größe

        [3 matching lines in 3 files (searched 3 files in .)]"#]]
    .assert_eq(&answer::<Grep>(&context(&tree), tree.path(), input));
}
