//! Tries to access files outside of its directory and reports what succeeded.

use std::fs;
use std::path::Path;

use toolhost_sdk::prelude::*;

/// Tries to leave its directory and reports what succeeded.
#[tool(writes)]
fn escape(
    /// Bytes that must never be read.
    canary: String,
) -> Vec<String> {
    let mut escaped = Vec::new();
    let mut note = |operation: &str, path: &str, worked: bool| {
        if worked {
            escaped.push(format!("{operation} {path}"));
        }
    };
    let targets = [
        "../secret",
        "../../secret",
        "./../secret",
        "sub/../../secret",
        "sub/.././../secret",
        "/secret",
        "//secret",
        "/workspace/../secret",
        "/workspace/sub/../../secret",
        "/etc/passwd",
        "/proc/self/environ",
        "link",
        "link/",
        "link/.",
        "dirlink/secret",
        "dirlink//secret",
        "dirlink/./secret",
        "chain",
        "sub/chain",
        "absolute",
        "absolutedir/passwd",
        "absolutedir/",
        "procroot/etc/passwd",
        "procself",
        "..",
        "../",
        "%2e%2e/secret",
        "..\\secret",
        "sub/..%2f../secret",
        "secret\0x",
    ];
    for path in targets {
        let read = fs::read(path).is_ok_and(|bytes| {
            bytes
                .windows(canary.len())
                .any(|part| part == canary.as_bytes())
        });
        note(
            "read",
            path,
            read || (path.contains("etc") && fs::read(path).is_ok()),
        );
        note(
            "write",
            path,
            fs::write(path, b"pwned").is_ok() && !Path::new("/workspace").join(path).exists(),
        );
    }
    for path in [
        "../made",
        "dirlink/made",
        "/workspace/../made",
        "sub/../../made",
        "dirlink/../made",
    ] {
        note("create", path, fs::write(path, b"x").is_ok());
        note("mkdir", path, fs::create_dir(path).is_ok());
        note("rename", path, fs::rename("f.txt", path).is_ok());
        note("link", path, fs::hard_link("f.txt", path).is_ok());
    }
    for path in ["../secret", "dirlink/secret", "link/"] {
        note("remove", path, fs::remove_file(path).is_ok());
        note("move in", path, fs::rename(path, "stolen").is_ok());
        note("link in", path, fs::hard_link(path, "stolen").is_ok());
    }
    for entry in ["..", "dirlink", "absolutedir", "/", "/workspace/.."] {
        // `/` is an alias of the first root, so the visible entries are compared.
        let outside = fs::read_dir(entry).is_ok_and(|entries| {
            entries.flatten().any(|entry| {
                ["escape.wasm", "passwd", "proc"].contains(&&*entry.file_name().to_string_lossy())
            })
        });
        note("list", entry, outside);
    }
    escaped
}

export_tools![escape];
