//! What must not creep in, checked on the sources themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use e2e::root;
use regex::Regex;
use serde_json::Value;

/// The allowed dependencies between crates of the workspace. Record the reason for a new one in docs/decisions.
const ARROWS: &[(&str, &[&str])] = &[
    ("toolhost-text", &[]),
    ("toolhost-shell-syntax", &["toolhost-text"]),
    (
        "toolhost-contract",
        &["toolhost-shell-syntax", "toolhost-text"],
    ),
    ("toolhost-formats", &["toolhost-contract"]),
    ("toolhost-vfs", &[]),
    ("toolhost-process", &[]),
    ("toolhost-net", &[]),
    ("toolhost-connections", &[]),
    ("toolhost-highlight", &[]),
    ("toolhost-hostfiles", &[]),
    (
        "toolhost-packages",
        &["toolhost-contract", "toolhost-hostfiles", "toolhost-net"],
    ),
    (
        "toolhost-authoring",
        &["toolhost-contract", "toolhost-hostfiles"],
    ),
    (
        "toolhost-runtime",
        &[
            "toolhost-contract",
            "toolhost-hostfiles",
            "toolhost-net",
            "toolhost-process",
            "toolhost-vfs",
        ],
    ),
    (
        "toolhost-kernel",
        &["toolhost-contract", "toolhost-schema", "toolhost-store"],
    ),
    ("toolhost-schema", &["toolhost-contract"]),
    (
        "toolhost-mcp-server",
        &[
            "toolhost-connections",
            "toolhost-contract",
            "toolhost-formats",
            "toolhost-hostfiles",
            "toolhost-kernel",
        ],
    ),
    (
        "toolhost-mcp-client",
        &[
            "toolhost-contract",
            "toolhost-hostfiles",
            "toolhost-process",
        ],
    ),
    ("toolhost-store", &["toolhost-contract"]),
    (
        "toolhost-telemetry",
        &["toolhost-contract", "toolhost-kernel"],
    ),
    (
        "toolhost-ui",
        &[
            "toolhost-connections",
            "toolhost-contract",
            "toolhost-highlight",
            "toolhost-kernel",
            "toolhost-shell-syntax",
            "toolhost-store",
        ],
    ),
    (
        "toolhost",
        &[
            "toolhost-contract",
            "toolhost-formats",
            "toolhost-hostfiles",
            "toolhost-kernel",
            "toolhost-mcp-client",
            "toolhost-net",
            "toolhost-packages",
            "toolhost-process",
            "toolhost-runtime",
            "toolhost-store",
            "toolhost-vfs",
        ],
    ),
    (
        "toolhost-cli",
        &[
            "toolhost",
            "toolhost-authoring",
            "toolhost-contract",
            "toolhost-formats",
            "toolhost-highlight",
            "toolhost-hostfiles",
            "toolhost-kernel",
            "toolhost-mcp-server",
            "toolhost-mcp-client",
            "toolhost-net",
            "toolhost-packages",
            "toolhost-process",
            "toolhost-runtime",
            "toolhost-store",
            "toolhost-telemetry",
            "toolhost-ui",
            "toolhost-vfs",
        ],
    ),
    ("toolhost-sdk", &["toolhost-sdk-macros"]),
    ("toolhost-sdk-macros", &[]),
    ("files", &["toolhost-sdk"]),
    ("search", &["toolhost-sdk"]),
    ("web", &["toolhost-sdk"]),
    ("agent", &["toolhost-sdk"]),
    ("code", &["toolhost-sdk"]),
    ("data", &["toolhost-sdk"]),
    ("memory", &["toolhost-sdk"]),
    ("shell", &["toolhost-sdk"]),
    ("system", &["toolhost-sdk"]),
    ("hook-dangerous-commands", &["toolhost-sdk"]),
    ("hook-mask-secrets", &["toolhost-sdk"]),
    ("hook-sensitive-files", &["toolhost-sdk"]),
    ("hook-truncate", &["toolhost-sdk"]),
    ("agent-loop", &["toolhost"]),
    ("port-gemini", &["toolhost-sdk"]),
    ("port-sema", &["toolhost-sdk"]),
    ("toolhost-dist", &[]),
    ("xtask", &[]),
];

/// Heavy dependencies and the one crate that may name each.
const ROOMS: &[(&str, &[&str])] = &[
    ("wasmtime", &["toolhost-runtime"]),
    ("wasmtime-wasi", &["toolhost-runtime"]),
    ("wasmtime-wasi-http", &["toolhost-runtime"]),
    (
        "hyper",
        &["toolhost-net", "toolhost-mcp-server", "toolhost-ui", "e2e"],
    ),
    ("axum", &["toolhost-ui"]),
    ("maud", &["toolhost-ui"]),
    ("syntect", &["toolhost-highlight"]),
    ("two-face", &["toolhost-highlight"]),
    ("tokio-rustls", &["toolhost-net", "toolhost-mcp-client"]),
    ("landlock", &["toolhost-process"]),
    ("seccompiler", &["toolhost-process"]),
    (
        "rmcp",
        &["toolhost-mcp-server", "toolhost-mcp-client", "e2e"],
    ),
    ("rusqlite", &["toolhost-store"]),
    ("opentelemetry", &["toolhost-telemetry"]),
    ("opentelemetry-http", &["toolhost-telemetry"]),
    ("opentelemetry-otlp", &["toolhost-telemetry"]),
    ("opentelemetry_sdk", &["toolhost-telemetry", "e2e"]),
    ("ureq", &["toolhost-telemetry", "agent-loop"]),
    ("boa_engine", &["code"]),
    ("clap", &["toolhost-cli"]),
    ("rustyline", &["toolhost-cli"]),
];

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--offline",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Each package of the workspace with what it depends on outside of its tests.
fn packages() -> BTreeMap<String, BTreeSet<String>> {
    metadata()["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| {
            let dependencies = package["dependencies"].as_array().unwrap().iter();
            let normal = dependencies.filter(|dependency| dependency["kind"].is_null());
            let names = normal.map(|dependency| dependency["name"].as_str().unwrap().to_owned());
            (
                package["name"].as_str().unwrap().to_owned(),
                names.collect(),
            )
        })
        .collect()
}

#[test]
fn crates_know_only_whom_they_may() {
    let packages = packages();
    for (name, dependencies) in &packages {
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| known == name) else {
            assert!(
                ["e2e", "guests", "toolhost-fuzz-input"].contains(&name.as_str()),
                "{name} has no line in ARROWS"
            );
            continue;
        };
        for dependency in dependencies
            .iter()
            .filter(|dependency| packages.contains_key(*dependency))
        {
            assert!(
                allowed.contains(&dependency.as_str()),
                "{name} must not know {dependency}"
            );
        }
    }
}

#[test]
fn heavy_dependencies_stay_in_their_room() {
    for (name, dependencies) in packages() {
        for (heavy, rooms) in ROOMS {
            let may = rooms.contains(&name.as_str()) || !dependencies.contains(*heavy);
            assert!(may, "{name} names {heavy}; only {rooms:?} may");
        }
    }
}

#[test]
fn no_file_names_a_registry_or_a_place_of_one_machine() {
    let fragments = [
        ["crates", ".io/"].concat(),
        ["npmjs", ".org"].concat(),
        ["pypi", ".org"].concat(),
        ["/home/", "runner"].concat(),
    ];
    for file in tracked() {
        // Lock files name the registry by design.
        if file.ends_with("Cargo.lock") {
            continue;
        }
        let Ok(text) = fs::read_to_string(root().join(&file)) else {
            continue;
        };
        for fragment in &fragments {
            assert!(
                !text.contains(fragment.as_str()),
                "{file} contains {fragment}"
            );
        }
    }
}

#[test]
fn no_test_is_switched_off() {
    let fragments = [
        ["#[ig", "nore"].concat(),
        ["todo", "!("].concat(),
        ["dbg", "!("].concat(),
    ];
    for file in tracked().iter().filter(|name| is_any_of(name, &["rs"])) {
        let Ok(text) = fs::read_to_string(root().join(file)) else {
            continue;
        };
        for fragment in &fragments {
            assert!(
                !text.contains(fragment.as_str()),
                "{file} contains {fragment}"
            );
        }
    }
}

/// Maximum number of lines in the body of a function of product code.
const MAX_BODY_LINES: usize = 80;
/// A table in the form of a function.
const TABLES: &[&str] = &["host/shell-syntax/src/wrapper_options.rs: option_syntax"];

#[test]
fn no_function_of_the_product_is_longer_than_80_lines() {
    let head =
        Regex::new(r"^( *)(?:pub(?:\([^)]*\))? )?(?:async |const |unsafe )*fn (\w+)").unwrap();
    let (mut functions, mut long) = (0, Vec::new());
    for file in tracked().iter().filter(|file| is_product_code(file)) {
        let text = fs::read_to_string(root().join(file)).unwrap();
        let lines: Vec<&str> = text
            .lines()
            .take_while(|line| *line != "mod tests {")
            .collect();
        for (at, line) in lines.iter().enumerate() {
            let Some(found) = head.captures(line) else {
                continue;
            };
            let rest = || lines.iter().enumerate().skip(at);
            // The formatter puts both braces at the indentation of the function, unless it has no body of its own.
            let Some((start, _)) = rest().find(|(_, line)| line.ends_with(['{', ';', '}'])) else {
                continue;
            };
            if !lines[start].ends_with('{') {
                continue;
            }
            let close = format!("{}}}", &found[1]);
            let (end, _) = rest().find(|(_, line)| **line == close).unwrap();
            functions += 1;
            if end - start > MAX_BODY_LINES + 1 {
                long.push(format!("{file}: {}", &found[2]));
            }
        }
    }
    assert!(functions > 5_000, "{functions}");
    assert_eq!(long, TABLES);
}

/// Requirement codes are cited by tests only.
#[test]
fn product_code_cites_no_requirement() {
    let number = Regex::new(r"\bR-[0-9]{3}\b").unwrap();
    for file in tracked().iter().filter(|file| is_product_code(file)) {
        let text = fs::read_to_string(root().join(file)).unwrap();
        let lines = text.lines().take_while(|line| *line != "mod tests {");
        for line in lines.filter(|_| !file.starts_with("xtask/src/requirements")) {
            assert!(!number.is_match(line), "{file}: {line}");
        }
    }
}

fn is_product_code(file: &str) -> bool {
    let parts: Vec<&str> = file.split('/').collect();
    let is_test =
        |part: &&str| matches!(*part, "tests" | "benches" | "examples" | "fuzz" | "testing");
    is_any_of(file, &["rs"])
        && ["host", "plugins", "sdk", "xtask"].contains(&parts[0])
        && !parts.iter().any(is_test)
        && !file.ends_with("tests.rs")
}

/// Test names, source files, verbs of xtask and links that the documents mention.
#[test]
fn documents_name_only_what_exists() {
    let files = tracked();
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap_or_default();
    let sources: String = files
        .iter()
        .filter(|name| is_any_of(name, &["c", "h", "js", "py", "rs", "sql", "toml", "wit"]))
        .map(|name| read(name))
        .collect();
    let identifier = Regex::new(r"[a-z][a-z0-9_]+").unwrap();
    let identifiers: BTreeSet<&str> = identifier
        .find_iter(&sources)
        .map(|identifier| identifier.as_str())
        .collect();
    let code = Regex::new(r"`([a-z0-9_]{12,})`").unwrap();
    let path = Regex::new(r"`((?:docs|examples|host|plugins|sdk|tests|xtask)/[\w./-]+)`").unwrap();
    let link = Regex::new(r"\]\(([^)#\s]+)(?:#[^)]*)?\)").unwrap();
    let verb = Regex::new(r"cargo xtask ([a-z]+)").unwrap();
    let verbs = read("xtask/src/verb.rs");
    let mut wrong = String::new();
    for name in files.iter().filter(|name| is_any_of(name, &["md"])) {
        // The log describes past versions.
        if name == "CHANGELOG.md" {
            continue;
        }
        let text = read(name);
        let all = |regex: &Regex| -> BTreeSet<String> {
            let found = regex.captures_iter(&text).map(|found| found[1].to_owned());
            found.collect()
        };
        let dir = root().join(name).parent().unwrap().to_owned();
        for test in all(&code) {
            let is_test = test.matches('_').count() > 1 && !test.starts_with("mcp__");
            if is_test && !identifiers.contains(test.as_str()) {
                let _ = writeln!(wrong, "{name}: no source contains `{test}`");
            }
        }
        for verb in all(&verb) {
            if !verbs.contains(&format!("name: \"{verb}\"")) {
                let _ = writeln!(wrong, "{name}: no verb `cargo xtask {verb}`");
            }
        }
        // Components are built, not checked in.
        for path in all(&path).iter().filter(|path| !is_any_of(path, &["wasm"])) {
            if !root().join(path).exists() && !dir.join(path).exists() {
                let _ = writeln!(wrong, "{name}: no file `{path}`");
            }
        }
        for link in all(&link).iter().filter(|link| !link.contains(':')) {
            if !dir.join(link).exists() {
                let _ = writeln!(wrong, "{name}: the link to {link} leads nowhere");
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Codes that the host and the shipped plugins give to errors. Codes that are computed are not found.
#[test]
fn every_error_code_is_documented() {
    let page = fs::read_to_string(root().join("docs/errors.md")).unwrap();
    let code = Regex::new(r#"(?:\.code\(|Failure::new\()\s*"([a-z_]+)""#).unwrap();
    let (mut codes, mut wrong) = (0, String::new());
    let is_searched = |file: &&String| is_product_code(file) && !file.starts_with("sdk/");
    for file in tracked().iter().filter(is_searched) {
        let text = fs::read_to_string(root().join(file)).unwrap_or_default();
        let product = text.split("\nmod tests {").next().unwrap_or_default();
        for found in code.captures_iter(product) {
            codes += 1;
            if !page.contains(&format!("`{}`", &found[1])) {
                let _ = writeln!(
                    wrong,
                    "{file}: docs/errors.md does not name `{}`",
                    &found[1]
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(codes > 150, "{codes}");
}

/// Names in the code map of ARCHITECTURE.md are files or directories of their crate, with or without an extension.
#[test]
fn the_code_map_names_only_what_exists() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, map) = page.split_once("## Code map\n").unwrap();
    let (map, _) = map.split_once("\n## ").unwrap();
    let name = Regex::new(r"`([a-z][\w./-]*)`").unwrap();
    let (mut names, mut wrong) = (0, String::new());
    for entry in map.split("**`").skip(1) {
        let (folder, text) = entry.split_once("`**").unwrap();
        let folder = root().join(folder);
        let dirs = [folder.join("src"), folder, root()];
        for found in name.captures_iter(text) {
            names += 1;
            let exists = dirs.iter().any(|dir| {
                let exists = |extension| dir.join(format!("{}{extension}", &found[1])).exists();
                ["", ".rs", ".wit"].into_iter().any(exists)
            });
            if !exists {
                let _ = writeln!(wrong, "{}: no `{}`", dirs[1].display(), &found[1]);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(names > 40, "{names}");
}

/// The files of the repository.
fn tracked() -> Vec<String> {
    let listed = Command::new("git")
        .arg("ls-files")
        .current_dir(root())
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    listed.lines().map(str::to_owned).collect()
}

fn is_any_of(name: &str, extensions: &[&str]) -> bool {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    extension.is_some_and(|extension| extensions.contains(&extension))
}
