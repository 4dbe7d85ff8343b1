//! The frozen plugin contract.

use std::fmt::Write as _;
use std::fs;

use e2e::root;
use sha2::{Digest as _, Sha256};

/// The files of version 0.1 and their SHA-256. Nothing of it changes: docs/plugin-contract.md.
const FROZEN: &[(&str, &str)] = &[
    (
        "hooks.wit",
        "d4d45f380228596a3c08c4b4cc4e7bd7b1ffd84bdd60da169cda1cef8c47986b",
    ),
    (
        "host.wit",
        "3ea61f2652efbec9e82a62a5e440f85b2910dd8e655b8666ea76679597b880d2",
    ),
    (
        "preview.wit",
        "edf6fbc73d56e56310e7e3476dd31821775eb7c7a988b0518b1db035289fc103",
    ),
    (
        "process.wit",
        "9a68998fc339f9d1944360f97811256c671fb3226cfe04c0b2981faf2e12df3b",
    ),
    (
        "services.wit",
        "4cc68aeb9cde6afefe7a8927b8478e1328acfefaedfa76a9fc4ba20be04307db",
    ),
    (
        "session.wit",
        "060827676bf7ffbcf09e03a2e8a3b06862d11c4c036619bf177bcbb752e4bd1a",
    ),
    (
        "tool.wit",
        "f50386a047ad5a3bb57626c83fcd33dcae9e17aee42b99803d4b790cc4a46181",
    ),
    (
        "types.wit",
        "f57223654e5945c9724963661a000bc36129265f643e364f1df38d703364bcbf",
    ),
    (
        "world.wit",
        "c9f7b097423e87c86b5fd726b969ff73d6dee6c547a533264a5df3bcda2f3aaa",
    ),
];

fn sha256(bytes: &[u8]) -> String {
    let mut hash = String::new();
    for byte in Sha256::digest(bytes) {
        let _ = write!(hash, "{byte:02x}");
    }
    hash
}

#[test]
fn the_frozen_contract_does_not_change() {
    let folder = root().join("wit/v0.1");
    let mut found: Vec<(String, String)> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, sha256(&fs::read(path).unwrap()))
        })
        .collect();
    found.sort();
    let frozen: Vec<_> = FROZEN
        .iter()
        .map(|(name, hash)| ((*name).to_owned(), (*hash).to_owned()))
        .collect();
    let changed: Vec<_> = found
        .iter()
        .chain(&frozen)
        .filter(|file| !(found.contains(file) && frozen.contains(file)))
        .map(|(name, _)| name)
        .collect();
    assert!(
        changed.is_empty(),
        "wit/v0.1 is frozen, and these files changed: {changed:?}. Components of users were built against them. Restore          them and put the change into wit/v0.2, as docs/plugin-contract.md describes"
    );
}
