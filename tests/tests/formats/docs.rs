//! The transcripts of docs/formats.md are what happens.

use e2e::root;
use e2e::test_env::TestEnv;
use serde_json::Value;

use super::{PNG, batch};

#[test]
fn the_transcripts_in_the_docs_are_what_happens() {
    let env = TestEnv::new("");
    std::fs::write(env.workspace().join("a.txt"), "old\n").unwrap();
    std::fs::write(env.workspace().join("dot.png"), PNG).unwrap();
    let page = std::fs::read_to_string(root().join("docs/formats.md")).unwrap();
    let (_, transcripts) = page.split_once("\n## Transcripts\n").unwrap();
    let (transcripts, _) = transcripts.split_once("\n## ").unwrap();
    let mut played = Vec::new();
    for section in transcripts.split("\n### ").skip(1) {
        let (format, text) = section.split_once('\n').unwrap();
        let blocks: Vec<&str> = text
            .split("```json\n")
            .skip(1)
            .map(|block| block.split_once("\n```").unwrap().0)
            .collect();
        let [turn, expected] = blocks[..] else {
            panic!("{format} has {} blocks", blocks.len())
        };
        let turn: Value = serde_json::from_str(turn).unwrap();
        let (answer, ended) = batch(&env, format, &turn, &[]);
        // One is too long for a page.
        if expected.contains('…') {
            assert_eq!(ended.code, Some(0));
        } else {
            let expected: Value = serde_json::from_str(expected).unwrap();
            assert_eq!(answer, expected, "{format}");
        }
        played.push(format);
    }
    assert_eq!(played, super::FORMATS);
}
