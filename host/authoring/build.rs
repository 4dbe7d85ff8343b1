//! Compresses the templates and the SDKs into one file that the crate embeds, because the SDKs are in no registry yet.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use toml::{Table, Value};

fn main() {
    // When it runs, because checkouts that share a target directory share the compiled script.
    let root =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..");
    let mut files = BTreeMap::new();
    add(
        &mut files,
        &root.join("host/authoring/templates"),
        "template",
    );
    add(&mut files, &root.join("wit/v0.1"), "wit");
    add(&mut files, &root.join("sdk/complete.wit"), "complete.wit");
    let workspace = read_table(&root.join("Cargo.toml"));
    for (directory, package) in [
        ("rust", "toolhost-sdk"),
        ("rust-macros", "toolhost-sdk-macros"),
    ] {
        let source = root.join("sdk").join(directory);
        add(
            &mut files,
            &source.join("src"),
            &format!("rust/{package}/src"),
        );
        let manifest = standalone(read_table(&source.join("Cargo.toml")), &workspace);
        files.insert(format!("rust/{package}/Cargo.toml"), manifest.into_bytes());
    }
    // The documentation of the crate includes it.
    add(
        &mut files,
        &root.join("sdk/rust/README.md"),
        "rust/toolhost-sdk/README.md",
    );
    for name in ["pyproject.toml", "README.md", "toolhost", "toolhost_build"] {
        add(
            &mut files,
            &root.join("sdk/python").join(name),
            &format!("python/toolhost-sdk/{name}"),
        );
    }
    for name in [
        "package.json",
        "README.md",
        "build.mjs",
        "toolhost.js",
        "toolhost.d.ts",
        "services.js",
        "services.d.ts",
    ] {
        add(
            &mut files,
            &root.join("sdk/javascript").join(name),
            &format!("javascript/toolhost/{name}"),
        );
    }
    for entry in sorted(&root.join("sdk/c")) {
        let name = file_name(&entry);
        let kind = entry.extension().unwrap_or_default();
        if kind == "c" || kind == "h" || name == "README.md" {
            add(&mut files, &entry, &format!("c/toolhost/{name}"));
        }
    }
    for name in ["Cargo.toml", "Cargo.lock", "src"] {
        let source = root.join("sdk/c/componentize").join(name);
        add(
            &mut files,
            &source,
            &format!("c/toolhost/componentize/{name}"),
        );
    }
    write(&files);
}

/// Writes the compressed contents, one after the other, and their names and sizes.
fn write(files: &BTreeMap<String, Vec<u8>>) {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let contents: Vec<u8> = files.values().flatten().copied().collect();
    fs::write(
        out.join("files.zlib"),
        miniz_oxide::deflate::compress_to_vec_zlib(&contents, 9),
    )
    .expect("write files.zlib");
    let mut index = String::from("const INDEX: &[(&str, usize)] = &[\n");
    for (name, content) in files {
        let _ = writeln!(index, "    ({name:?}, {}),", content.len());
    }
    index.push_str("];\n");
    fs::write(out.join("index.rs"), index).expect("write index.rs");
}

/// Adds a file, or the files of a directory without following links.
fn add(files: &mut BTreeMap<String, Vec<u8>>, path: &Path, name: &str) {
    println!("cargo::rerun-if-changed={}", path.display());
    if path.is_file() {
        files.insert(
            name.to_owned(),
            fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
        );
        return;
    }
    for entry in sorted(path) {
        let entry_name = file_name(&entry);
        let is_test =
            name.starts_with("rust/") && ["tests", "tests.rs"].contains(&entry_name.as_str());
        if !entry.is_symlink() && !is_test && entry_name != "__pycache__" {
            add(files, &entry, &format!("{name}/{entry_name}"));
        }
    }
}

fn sorted(directory: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut entries: Vec<PathBuf> = entries
        .map(|entry| entry.expect("read a directory").path())
        .collect();
    entries.sort();
    entries
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn read_table(path: &Path) -> Table {
    println!("cargo::rerun-if-changed={}", path.display());
    let text =
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.parse()
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The manifest of a crate of this workspace, for use outside of the workspace and without its tests.
fn standalone(mut manifest: Table, workspace: &Table) -> String {
    for unused in ["dev-dependencies", "example", "lints"] {
        manifest.remove(unused);
    }
    let shared = &workspace["workspace"];
    let package = manifest["package"].as_table_mut().expect("a table");
    for (key, value) in &mut *package {
        if value.get("workspace").is_some() {
            *value = shared["package"][key.as_str()].clone();
        }
    }
    package.remove("exclude");
    package.remove("metadata");
    inherit(&mut manifest["dependencies"], shared);
    if let Some(targets) = manifest.get_mut("target").and_then(Value::as_table_mut) {
        for (_, target) in targets {
            inherit(&mut target["dependencies"], shared);
        }
    }
    toml::to_string(&manifest).expect("a manifest")
}

/// Replaces `{ workspace = true, … }` by the entries of the workspace.
fn inherit(dependencies: &mut Value, shared: &Value) {
    for (name, dependency) in dependencies.as_table_mut().expect("a table") {
        let mut entry = match &shared["dependencies"][name.as_str()] {
            Value::Table(entry) => entry.clone(),
            version => [("version".to_owned(), version.clone())]
                .into_iter()
                .collect(),
        };
        if entry.contains_key("path") {
            entry.insert("path".to_owned(), Value::String(format!("../{name}")));
        }
        let added = dependency.get("features").and_then(Value::as_array);
        if let Some(added) = added {
            let features = entry.entry("features").or_insert(Value::Array(Vec::new()));
            features
                .as_array_mut()
                .expect("a list")
                .extend(added.iter().cloned());
        }
        *dependency = Value::Table(entry);
    }
}
