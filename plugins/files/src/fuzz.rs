//! Fuzz targets for file contents and paths.

use std::path::Component;

use toolhost_fuzz_input::assembled;
use toolhost_sdk::prelude::*;

use crate::notebook::Notebook;
use crate::path::resolve;
use crate::text::{Encoding, decode, encode};

#[test]
fn fuzz_text_encodings() {
    bolero::check!().for_each(|bytes: &[u8]| {
        for encoding in [
            Encoding::Auto,
            Encoding::Utf8,
            Encoding::Utf16le,
            Encoding::Utf16be,
            Encoding::Latin1,
        ] {
            if let Ok(decoded) = decode(bytes.to_vec(), encoding, "file") {
                // Unchanged text must encode to the same bytes.
                assert_eq!(encode(&decoded.text, decoded.format).unwrap(), bytes);
            }
        }
    });
}

#[test]
fn fuzz_notebook() {
    bolero::check!().for_each(|bytes: &[u8]| {
        if let Ok(text) = std::str::from_utf8(bytes) {
            let _ = Notebook::parse(text, "a.ipynb");
        }
    });
}

const PATHS: &[&str] = &[
    "/", "//", "..", "../", "./", ".", "~", "~/", "@", "\"", "'", "`", " ", "\\ ", "\n", "\0",
    "/w", "/w/", "/w/ro", "/wx", "a", "b.rs", "é", "\u{a0}", "\u{202e}", "…",
];

#[test]
fn fuzz_path() {
    let cx = std::panic::AssertUnwindSafe(
        Context::test()
            .with_root("/w", "rw")
            .with_root("/w/ro", "ro"),
    );
    bolero::check!().for_each(|bytes: &[u8]| {
        let cx = &*cx;
        let given = assembled(bytes, PATHS);
        let target = match resolve(cx, &given) {
            Ok(target) => target,
            Err(error) => return assert!(error.message.len() < 64 << 10),
        };
        // Lexically inside, and the innermost directory of the call applies.
        let is_plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
        assert!(target.path.components().all(is_plain), "{given:?}");
        assert!(target.path.starts_with(&target.root), "{given:?}");
        assert_eq!(
            target.writable,
            !target.path.starts_with("/w/ro"),
            "{given:?}"
        );
        // The resolved path must resolve to itself. Trailing blanks are removed like those of a sentence.
        let found = target.path.to_str().unwrap();
        // A relative path may become too long with its directory.
        if found == found.trim() && found.len() <= 4096 {
            assert_eq!(resolve(cx, found).unwrap().path, target.path, "{given:?}");
        }
    });
}
