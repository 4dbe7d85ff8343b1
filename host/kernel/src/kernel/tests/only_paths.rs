//! a caller narrows the directories of a call.

use std::fs;

use serde_json::json;
use tempfile::TempDir;
use toolhost_contract::policy::{Mount, PathContext};
use toolhost_contract::{Mode, OnlyPaths};

use super::test_world::{TestWorld, TestWorldBuilder, request};

/// A host with the workspace `ws`, in which `link` leads to `src` and `out` leads out of it.
fn world(dir: &TempDir) -> TestWorld {
    let base = dir.path().canonicalize().unwrap();
    fs::create_dir_all(base.join("ws/src/deep")).unwrap();
    fs::create_dir_all(base.join("ws/docs")).unwrap();
    fs::create_dir_all(base.join("other")).unwrap();
    fs::write(base.join("ws/file"), "").unwrap();
    std::os::unix::fs::symlink("src", base.join("ws/link")).unwrap();
    std::os::unix::fs::symlink("../other", base.join("ws/out")).unwrap();
    let host = base.join("ws").display().to_string();
    let world = TestWorldBuilder::default().policy(|spec| {
        spec.mode = Mode::Yolo;
        spec.path_context = PathContext {
            mounts: vec![Mount {
                guest: "/workspace".to_owned(),
                host,
            }],
            ..PathContext::default()
        };
    });
    world.build()
}

/// Returns the error code of a call that is narrowed to these lists, and whether the tool started.
async fn check(lists: &[&[&str]], expected: &str, started: bool) {
    let dir = TempDir::new().unwrap();
    let world = world(&dir);
    let mut call = request("c", "look", json!({}));
    for list in lists {
        let list = json!(list);
        call = call.only_paths(serde_json::from_value::<OnlyPaths>(list).unwrap());
    }
    let result = world.request(call).await.result;
    let code = result.map_or_else(|error| error.code, |_| "ok".to_owned());
    assert_eq!(code, expected, "{lists:?}");
    let ran = !world.stage.started.lock().unwrap().is_empty();
    assert_eq!(ran, started, "{lists:?}");
}

#[tokio::test]
async fn r_111_a_path_outside_the_granted_directories_is_an_error() {
    for path in [
        "/etc",
        "/workspace2",
        "/workspace/none",
        "/workspace/file",
        "out",
        "/workspace/out",
    ] {
        check(&[&[path]], "invalid_only_path", false).await;
        check(&[&["src", path]], "invalid_only_path", false).await;
        check(&[&["src"], &[path]], "invalid_only_path", false).await;
    }
}

#[tokio::test]
async fn r_111_granted_directories_are_accepted_by_any_of_their_names() {
    for path in [
        "src",
        "/workspace/src",
        ".",
        "/workspace",
        "link",
        "src/deep",
    ] {
        check(&[&[path]], "ok", true).await;
    }
    check(&[&[]], "ok", true).await;
}
