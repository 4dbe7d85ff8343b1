//! Tests of the executable bit.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use toolhost_contract::{CommitRecovery as _, StagedEffects};
use toolhost_vfs::{Access, BlobStore, OpenHow, PathGrant, StageLimits};

use super::*;
use crate::staging::{StagedFiles, Staging};

/// A call that wrote `new.sh` and `old.sh` in the granted directory `w`, which also holds `kept.sh`; `outside.sh`
/// is next to `w`.
struct Written {
    dir: tempfile::TempDir,
    stage: Stage,
    staging: Staging,
}

impl Written {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("w")).unwrap();
        for (path, mode) in [
            ("w/old.sh", 0o640),
            ("w/kept.sh", 0o644),
            ("outside.sh", 0o644),
        ] {
            fs::write(dir.path().join(path), "echo\n").unwrap();
            let mode = fs::Permissions::from_mode(mode);
            fs::set_permissions(dir.path().join(path), mode).unwrap();
        }
        let grant = PathGrant {
            host: dir.path().join("w"),
            guest: "/workspace".to_owned(),
            access: Access::ReadWrite,
            dangerous: false,
            exclude: Vec::new(),
        };
        let scope = Scope::open(&[grant], &[]).unwrap();
        let limits = StageLimits {
            bytes: 1 << 20,
            files: 100,
        };
        let staging = Staging {
            stages: dir.path().join("stages"),
            blobs: Arc::new(BlobStore::open(&dir.path().join("blobs")).unwrap()),
        };
        let stage = Stage::new(scope, staging.stages.clone(), limits);
        let root = Arc::clone(stage.scope().roots()[0].dir());
        for (path, text) in [("new.sh", "echo\n"), ("old.sh", "echo\n")] {
            let how = OpenHow {
                write: true,
                create: true,
                ..OpenHow::default()
            };
            let opened = stage.open_at(root.as_fd(), Access::ReadWrite, path, &how);
            let mut file = File::from(opened.unwrap().fd);
            file.write_all(text.as_bytes()).unwrap();
        }
        Self {
            dir,
            stage,
            staging,
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn executable(&self, path: &str) -> u32 {
        fs::metadata(self.path(path)).unwrap().permissions().mode() & 0o7111
    }
}

fn outcome(files: &Value) -> Outcome {
    Outcome {
        meta: Some(json!({"executable": files, "other": 1})),
        ..Outcome::text("done")
    }
}

#[tokio::test]
async fn d_01_the_executable_bit_of_a_written_file_is_shown_committed_and_undone() {
    let written = Written::new();
    let mut outcome = outcome(&json!({"/workspace/new.sh": true, "/workspace/old.sh": true}));
    let left = set_bits(&written.stage, take_bits(&mut outcome)).unwrap();
    assert_eq!(left, []);
    assert_eq!(outcome.meta, Some(json!({"other": 1})));

    let blobs = Arc::clone(&written.staging.blobs);
    let StagedEffects::Staged(held) = StagedFiles::of(written.stage.clone(), blobs).unwrap() else {
        panic!("the call changed two files");
    };
    let shown: Vec<String> = held
        .changes()
        .changes
        .iter()
        .map(toolhost_contract::FileChange::describe)
        .collect();
    assert!(
        shown[0].ends_with("new.sh  (file, 5 B, mode 644 → 755)"),
        "{shown:?}"
    );
    assert!(
        shown[1].ends_with("old.sh  (file, 5 B → 5 B, mode 640 → 750)"),
        "{shown:?}"
    );
    let entry = held.prepare().await.unwrap();
    held.commit("one".to_owned()).await.unwrap();
    assert_eq!(written.executable("w/new.sh"), 0o111);
    assert_eq!(written.executable("w/old.sh"), 0o110);
    written.staging.undo("two", &entry).unwrap();
    assert!(!written.path("w/new.sh").exists());
    assert_eq!(written.executable("w/old.sh"), 0);
}

#[test]
fn d_01_other_files_are_unchanged_and_reported() {
    let written = Written::new();
    let files = [
        "/workspace/kept.sh",
        "/workspace/missing.sh",
        "/workspace/../outside.sh",
        "/workspace",
        "/workspace/./new.sh/..",
        "/outside.sh",
        "new.sh",
        "",
    ];
    let requested: serde_json::Map<String, Value> = files
        .iter()
        .map(|file| ((*file).to_owned(), json!(true)))
        .collect();
    let mut outcome = outcome(&Value::Object(requested));
    let left = set_bits(&written.stage, take_bits(&mut outcome)).unwrap();
    assert_eq!(left.len(), files.len());
    report_unset(&mut outcome, &left);
    let text = outcome.model_text();
    assert!(
        text.contains("did not change the executable bit of /workspace/kept.sh"),
        "{text}"
    );
    assert!(text.contains("3 more; change it with chmod"), "{text}");
    for path in ["w/kept.sh", "outside.sh"] {
        assert_eq!(written.executable(path), 0, "{path}");
    }
}

#[test]
fn non_boolean_values_are_ignored() {
    for meta in [
        json!({"executable": {"/workspace/new.sh": 1}}),
        json!({"executable": [true]}),
        json!([]),
    ] {
        let mut outcome = Outcome {
            meta: Some(meta),
            ..Outcome::default()
        };
        assert_eq!(take_bits(&mut outcome), []);
        report_unset(&mut outcome, &[]);
        assert_eq!(outcome.llm, []);
    }
}
