//! The directories for blobs and stages, and their sweep.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::{BUSY, Home};
use crate::{Store, StoreError};

const OPEN: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

const GONE: &str = "0123456789abcdef0123456789abcdef";

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn blobs_and_stages_have_directories_for_their_owner_alone() {
    let home = Home::new();
    let store = home.open();
    for (found, name) in [
        (store.blobs_dir().unwrap(), "blobs"),
        (store.stage_dir().unwrap(), "stage"),
    ] {
        assert_eq!(found, home.state().join(name));
        assert_eq!(fs::metadata(&found).unwrap().mode() & 0o7777, 0o700);
    }
    // Created on first use, even if they were removed since.
    fs::remove_dir(home.state().join("stage")).unwrap();
    assert!(store.stage_dir().unwrap().is_dir());
    assert_eq!(store.blobs_dir().unwrap(), home.state().join("blobs"));
}

#[test]
fn a_directory_others_can_write_or_a_file_in_its_place_is_refused() {
    let home = Home::new();
    let store = home.open();
    let (blobs, stage) = (store.blobs_dir().unwrap(), store.stage_dir().unwrap());
    for dir in [&blobs, &stage] {
        fs::set_permissions(dir, Permissions::from_mode(0o770)).unwrap();
    }
    let exposed = |result: Result<_, StoreError>| {
        matches!(
            result,
            Err(StoreError::WritableByOthers { mode: 0o770, .. })
        )
    };
    assert!(exposed(store.blobs_dir().map(drop)));
    assert!(exposed(store.stage_dir().map(drop)));
    assert!(exposed(Store::open_with(&home.state(), BUSY).map(drop)));
    for dir in [&blobs, &stage] {
        fs::remove_dir(dir).unwrap();
        fs::write(dir, "").unwrap();
    }
    let file =
        |result: Result<_, StoreError>| matches!(result, Err(StoreError::NotADirectory { .. }));
    assert!(file(store.blobs_dir().map(drop)));
    assert!(file(store.stage_dir().map(drop)));
    assert!(file(Store::open_with(&home.state(), BUSY).map(drop)));
}

#[test]
fn only_stages_of_ended_processes_are_removed() {
    let home = Home::new();
    let lives = home.open();
    let stage = lives.stage_dir().unwrap();
    let elsewhere = home.dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("kept"), "").unwrap();

    let ours = format!("{}-1", lives.owner());
    let link = format!("{GONE}-link");
    let file = format!("{GONE}-file");
    let short = format!("{}-1", &GONE[1..]);
    let remaining = [&ours, GONE, &link, &file, "notes", &short];
    for dir in [&ours, GONE, "notes", &short] {
        fs::create_dir_all(stage.join(dir).join("src")).unwrap();
    }
    symlink(&elsewhere, stage.join(&link)).unwrap();
    fs::write(stage.join(&file), "").unwrap();

    let gone = stage.join(format!("{GONE}-1"));
    fs::create_dir_all(gone.join("a/b/c")).unwrap();
    fs::write(gone.join("a/b/file"), "x").unwrap();
    symlink(&elsewhere, gone.join("a/link")).unwrap();
    symlink("nowhere", gone.join("dangling")).unwrap();
    fs::hard_link(elsewhere.join("kept"), gone.join("a/kept")).unwrap();
    fs::create_dir(stage.join(format!("{GONE}-2"))).unwrap();

    let next = home.open();
    let mut expected = remaining.map(str::to_owned).to_vec();
    expected.sort();
    assert_eq!(names(&stage), expected);
    assert_eq!(names(&elsewhere), ["kept"]);
    assert!(stage.join(&ours).join("src").is_dir());
    drop((lives, next));
    drop(home.open());
    assert!(!stage.join(&ours).exists());
}

#[test]
fn a_stage_is_removed_however_it_was_left() {
    let home = Home::new();
    let stage = home.open().stage_dir().unwrap();
    let gone = stage.join(format!("{GONE}-1"));
    // Deeper than the longest path, so it is created relative to its parents.
    fs::create_dir(&gone).unwrap();
    let mut deep = rustix::fs::open(&gone, OPEN, Mode::empty()).unwrap();
    for _ in 0..3_000 {
        rustix::fs::mkdirat(&deep, "d", Mode::RWXU).unwrap();
        deep = rustix::fs::openat(&deep, "d", OPEN, Mode::empty()).unwrap();
    }
    drop(deep);
    // Not writable or readable, except for root.
    let locked = gone.join("locked");
    fs::create_dir_all(locked.join("inner")).unwrap();
    fs::write(locked.join("inner/file"), "x").unwrap();
    for dir in [&locked.join("inner"), &locked, &gone] {
        fs::set_permissions(dir, Permissions::from_mode(0o000)).unwrap();
    }
    drop(home.open());
    assert_eq!(names(&stage), Vec::<String>::new());
}
