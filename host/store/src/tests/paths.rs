//! Checks of the store's directory and files.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use super::{BUSY, Home, write};
use crate::{Store, StoreError, schema};

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

/// The error of opening, with the path removed from its message.
fn refusal(home: &Home) -> (StoreError, String) {
    let error = Store::open_with(&home.state(), BUSY).unwrap_err();
    let message = error.to_string();
    let state = home.state().to_string_lossy().into_owned();
    assert!(message.contains(&state), "{message}");
    assert!(message.contains("; "), "no remedy: {message}");
    (error, message.replace(&state, "DIR"))
}

#[tokio::test]
async fn created_files_are_private() {
    let home = Home::new();
    let store = home.open();
    store.commit(write("c1", &["pending"])).await.unwrap();
    let state = home.state();
    let lock = format!("owners/{}.lock", store.owner());
    for (name, expected) in [
        ("", 0o700),
        ("owners", 0o700),
        ("store.db", 0o600),
        ("store.db-wal", 0o600),
        ("store.db-shm", 0o600),
        (lock.as_str(), 0o600),
    ] {
        assert_eq!(mode(&state.join(name)), expected, "{name}");
    }
}

#[test]
fn a_file_instead_of_the_directory_is_refused() {
    let home = Home::new();
    fs::write(home.state(), "").unwrap();
    let (error, message) = refusal(&home);
    assert!(
        matches!(error, StoreError::NotADirectory { .. }),
        "{error:?}"
    );
    assert!(message.starts_with("DIR is not a directory"), "{message}");
    let below = Store::open(&home.state().join("below")).unwrap_err();
    assert!(
        matches!(below, StoreError::NotADirectory { .. }),
        "{below:?}"
    );
    assert_eq!(fs::read(home.state()).unwrap(), b"");
}

#[test]
fn a_directory_or_file_others_can_write_is_refused() {
    for (name, bits) in [
        ("", 0o777),
        ("", 0o1777),
        ("", 0o770),
        ("owners", 0o702),
        ("store.db", 0o660),
    ] {
        let home = Home::new();
        drop(home.open());
        fs::set_permissions(home.state().join(name), Permissions::from_mode(bits)).unwrap();
        let (error, _) = refusal(&home);
        assert!(
            matches!(error, StoreError::WritableByOthers { mode, .. } if mode == bits),
            "{error:?}"
        );
        assert_eq!(mode(&home.state().join(name)), bits & 0o777, "repaired");
    }
}

#[test]
fn a_directory_of_another_user_is_refused() {
    let home = Home::new();
    drop(home.open());
    if std::os::unix::fs::chown(home.state(), Some(12_345), None).is_err() {
        eprintln!("skipped: only root can give a directory away");
        return;
    }
    let (error, _) = refusal(&home);
    assert!(
        matches!(error, StoreError::WrongOwner { uid: 12_345, .. }),
        "{error:?}"
    );
}

#[test]
fn a_directory_that_cannot_be_written_is_refused() {
    if rustix::process::geteuid().is_root() {
        eprintln!("skipped: modes do not bind root");
        return;
    }
    for (name, bits) in [("", 0o500), ("store.db", 0o400)] {
        let home = Home::new();
        drop(home.open());
        fs::set_permissions(home.state().join(name), Permissions::from_mode(bits)).unwrap();
        let (error, _) = refusal(&home);
        assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
        fs::set_permissions(home.state(), Permissions::from_mode(0o700)).unwrap();
    }
}

#[test]
fn a_link_instead_of_the_database_is_refused() {
    let home = Home::new();
    drop(home.open());
    let elsewhere = home.dir.path().join("elsewhere");
    fs::rename(home.database(), &elsewhere).unwrap();
    symlink(&elsewhere, home.database()).unwrap();
    let (error, _) = refusal(&home);
    assert!(matches!(error, StoreError::NotAFile { .. }), "{error:?}");
}

/// An existing file in the place of the database stays unchanged, byte for byte.
#[test]
fn foreign_files_are_left_unchanged() {
    type Spoil = fn(&Home);
    let spoils: [(&str, Spoil, &str); 6] = [
        (
            "text",
            |home| fs::write(home.database(), "not a database ".repeat(99)).unwrap(),
            "is not a database",
        ),
        (
            "another program's",
            |home| {
                home.raw()
                    .execute_batch("CREATE TABLE songs (name TEXT)")
                    .unwrap();
            },
            "is not a database of this program",
        ),
        (
            "another program's mark",
            |home| {
                home.raw()
                    .execute_batch("PRAGMA application_id = 7")
                    .unwrap();
            },
            "is not a database of this program",
        ),
        (
            "newer",
            |home| {
                drop(home.open());
                home.raw()
                    .execute_batch(&format!("PRAGMA user_version = {}", schema::FORMAT + 1))
                    .unwrap();
            },
            "was written by a newer version (format 6, supported 5)",
        ),
        (
            "damaged",
            |home| {
                drop(home.open());
                let mut bytes = fs::read(home.database()).unwrap();
                // The schema is on the first page, after the header.
                bytes[100..4_096].fill(0xff);
                fs::write(home.database(), bytes).unwrap();
            },
            "is damaged",
        ),
        (
            "cut",
            |home| {
                drop(home.open());
                let bytes = fs::read(home.database()).unwrap();
                fs::write(home.database(), &bytes[..bytes.len() / 2]).unwrap();
            },
            "is damaged",
        ),
    ];
    for (name, spoil, expected) in spoils {
        let home = Home::new();
        // An empty file with the right mode, for cases that write to it.
        fs::create_dir(home.state()).unwrap();
        fs::set_permissions(home.state(), Permissions::from_mode(0o700)).unwrap();
        spoil(&home);
        let before = fs::read(home.database()).unwrap();
        let opened =
            Store::open_with(&home.state(), BUSY).map(|store| store.call("c1").unwrap_err());
        let error = opened.unwrap_or_else(|error| error);
        assert!(error.to_string().contains(expected), "{name}: {error}");
        assert_eq!(fs::read(home.database()).unwrap(), before, "{name}");
    }
}

#[test]
fn many_starts_on_one_empty_directory_agree() {
    for _ in 0..5 {
        let home = Home::new();
        let stores: Vec<Store> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| home.open())).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        let format: i64 = home
            .raw()
            .query_row("PRAGMA user_version", [], |row| row.get(0))
            .unwrap();
        assert_eq!(format, schema::FORMAT);
        drop(stores);
    }
}
