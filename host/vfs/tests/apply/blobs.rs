//! The blob store for undo: deduplication, integrity and sweep.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{Read, Seek, SeekFrom, Write},
    os::unix::fs::PermissionsExt,
    time::{Duration, SystemTime},
};

use toolhost_vfs::{BlobStore, ContentHash, SweepStats};

fn put(blobs: &BlobStore, content: &[u8]) -> ContentHash {
    let mut file = tempfile::tempfile().expect("file");
    file.write_all(content).expect("write");
    let (hash, size) = blobs.put(&file).expect("put");
    assert_eq!(
        (hash, size),
        (ContentHash::of(content), content.len() as u64)
    );
    hash
}

#[test]
fn content_is_stored_once_and_privately() {
    let tmp = tempfile::tempdir().expect("temporary directory");
    let dir = tmp.path().join("blobs");
    let blobs = BlobStore::open(&dir).expect("open");
    let big = vec![7; 1_000_000];
    for content in [&b""[..], b"one", b"one", &big] {
        let hash = put(&blobs, content);
        assert!(blobs.has(hash, content.len() as u64));
        assert!(!blobs.has(hash, content.len() as u64 + 1));
        let path = blobs.path(hash);
        assert_eq!(fs::read(&path).expect("read"), content);
        let mode = |path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(path.clone()), 0o600);
        assert_eq!(mode(path.parent().expect("parent").to_owned()), 0o700);
    }
    assert!(!blobs.has(ContentHash::of(b"two"), 3));
    assert_eq!(
        fs::metadata(&dir).expect("there").permissions().mode() & 0o777,
        0o700
    );
    // No other files are left.
    let names = fs::read_dir(&dir)
        .expect("list")
        .map(|entry| entry.expect("entry").file_name());
    assert!(names.into_iter().all(|name| name.len() == 2));
}

#[test]
fn the_whole_file_is_stored_whatever_the_descriptor_position() {
    let tmp = tempfile::tempdir().expect("temporary directory");
    let blobs = BlobStore::open(tmp.path()).expect("open");
    let mut file = tempfile::tempfile().expect("file");
    file.write_all(b"all of it").expect("write");
    file.seek(SeekFrom::Start(4)).expect("seek");
    let (hash, _) = blobs.put(&file).expect("put");
    assert_eq!(hash, ContentHash::of(b"all of it"));
    let mut rest = String::new();
    file.read_to_string(&mut rest).expect("read");
    assert_eq!(rest, "of it");
}

#[test]
fn a_sweep_enforces_age_and_size_and_keeps_needed_blobs() {
    // Ten bytes each, one hour apart, oldest first: the number that stays.
    for (max_bytes, max_hours, needed, retained) in [
        (1000, 100, None, &[0, 1, 2, 3, 4][..]),
        (30, 100, None, &[2, 3, 4]),
        (29, 100, None, &[3, 4]),
        (0, 100, None, &[]),
        (1000, 3, None, &[2, 3, 4]),
        (0, 0, Some(0), &[0]),
        (20, 100, Some(1), &[1, 4]),
    ] {
        let tmp = tempfile::tempdir().expect("temporary directory");
        let blobs = BlobStore::open(tmp.path()).expect("open");
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let hour = Duration::from_secs(3600);
        let hashes: Vec<ContentHash> = (0..5_u32)
            .map(|n| {
                let hash = put(&blobs, format!("content {n:02}").as_bytes());
                let file = File::options()
                    .append(true)
                    .open(blobs.path(hash))
                    .expect("open");
                file.set_modified(now - hour * (5 - n)).expect("age");
                hash
            })
            .collect();
        for name in ["note", "made-c1", "made-c2"] {
            fs::write(tmp.path().join(name), "not a blob").expect("write");
        }
        for name in ["made-c1", "made-c2"] {
            let marker = File::options().append(true).open(tmp.path().join(name));
            let old = now - hour * 2_000;
            marker
                .and_then(|marker| marker.set_modified(old))
                .expect("age");
        }
        let unfinished = HashSet::from(["c1".to_owned()]);
        let keep: HashSet<ContentHash> = needed.iter().map(|n: &usize| hashes[*n]).collect();
        let swept = blobs
            .sweep(max_bytes, hour * max_hours, now, &keep, &unfinished)
            .expect("sweep");
        let left: Vec<usize> = (0..5).filter(|n| blobs.has(hashes[*n], 10)).collect();
        assert_eq!(left, retained);
        let removed = 5 - retained.len();
        let expected = SweepStats {
            removed,
            freed: removed as u64 * 10,
            kept: retained.len() as u64 * 10,
        };
        assert_eq!(swept, expected);
        assert!(tmp.path().join("note").exists() && tmp.path().join("made-c1").exists());
        assert!(!tmp.path().join("made-c2").exists());
    }
}
