//! Exports of segments.

use std::fs;

use tempfile::TempDir;
use toolhost_store::{EventRow, RecordRetention, Write};

use super::*;

/// A store with one segment of one step with this text, and what is due.
async fn segment(dir: &Path, text: &str) -> (Store, Vec<Segment>) {
    let store = Store::open(dir).unwrap();
    let event = EventRow {
        channel: "control".to_owned(),
        session: "s".to_owned(),
        call: None,
        at_ms: 1,
        kind: text.to_owned(),
        body: serde_json::Value::Null,
    };
    store.commit(Write::Event(event)).await.unwrap();
    store.seal_head().await.unwrap();
    let due = store.due(&RecordRetention {
        now_ms: 2,
        max_age_ms: None,
        max_bytes: Some(0),
        undo_ms: 0,
    });
    (store, due.unwrap())
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

#[tokio::test]
async fn an_export_does_not_overwrite_the_steps_of_another_database() {
    let dir = TempDir::new().unwrap();
    let folder = dir.path().join("old");
    let (store, due) = segment(&dir.path().join("one"), "one").await;
    export(&store, &due, &folder).unwrap();
    let file = folder.join("steps-1-1.jsonl");
    let exported = fs::read_to_string(&file).unwrap();
    assert!(exported.contains("one"), "{exported}");
    // The segment was exported before, but not deleted.
    export(&store, &due, &folder).unwrap();
    let (other, due) = segment(&dir.path().join("other"), "other").await;
    let failure = export(&other, &due, &folder).unwrap_err();
    assert_eq!(failure.exit, Exit::Usage);
    let expected = format!("{} contains other steps", file.display());
    assert!(failure.to_string().starts_with(&expected), "{failure}");
    assert_eq!(fs::read_to_string(&file).unwrap(), exported);
    assert_eq!(names(&folder), ["steps-1-1.jsonl"]);
}

#[tokio::test]
async fn a_failed_export_names_the_file() {
    let dir = TempDir::new().unwrap();
    let (store, due) = segment(&dir.path().join("one"), "one").await;
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    for folder in [file.clone(), "/proc/self/fdinfo".into()] {
        let failure = export(&store, &due, &folder).unwrap_err();
        assert_eq!(failure.exit, Exit::Internal);
        let expected = format!("cannot write to {}", folder.display());
        let file = format!("cannot write {}/steps-1-1.jsonl: ", folder.display());
        let shown = failure.to_string();
        assert!(
            shown.starts_with(&expected) || shown.starts_with(&file),
            "{shown}"
        );
    }
}
