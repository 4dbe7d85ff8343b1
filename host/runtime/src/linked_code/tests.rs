//! What the cache contains is read at the first use, and is not trusted more than the file of the plugin.

use std::fs;
use std::path::Path;

use toolhost_contract::manifest::{MANIFEST_SECTION, TOOLS_SECTION};

use crate::pack::{custom_section, unpacked};
use crate::tests::hooks_component;
use crate::{CodeState, Compiler, Loaded, Runtime, RuntimeSettings, pack};

/// A custom section named `x`.
const EMPTY_SECTION: [u8; 4] = [0, 2, 1, b'x'];

/// Loads the plugin as another process would.
async fn load(dir: &Path, date: &str) -> Loaded {
    let runtime = runtime(dir, date);
    runtime.load(&dir.join("hook.wasm")).await.unwrap()
}

fn runtime(dir: &Path, date: &str) -> Runtime {
    let runtime = Runtime::new(RuntimeSettings {
        cache_dir: Some(dir.join("cache")),
        compiler: Compiler::InProcess,
        max_concurrent: 1,
        environment: vec![("date".to_owned(), date.to_owned())],
    });
    runtime.unwrap()
}

fn dir() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("hook.wasm"), hooks_component()).unwrap();
    dir
}

/// Removes the entries of the cache with this extension.
fn remove(dir: &Path, extension: &str) {
    for entry in fs::read_dir(dir.join("cache")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|found| found == extension) {
            fs::remove_file(path).unwrap();
        }
    }
}

async fn has_code(loaded: &Loaded) -> Result<bool, String> {
    let code = loaded.code().await;
    code.map(|code| code.guards.is_some() && code.tools.is_none())
        .map_err(|error| format!("{}: {}", error.code, error.message))
}

#[tokio::test]
async fn code_is_read_when_it_is_first_used() {
    let dir = dir();
    let first = load(dir.path(), "1").await;
    assert!(first.code_state() == CodeState::Compiled && first.code.is_linked());
    let known = load(dir.path(), "1").await;
    assert!(known.code_state() == CodeState::Cached && !known.code.is_linked());
    assert_eq!(known.digest(), first.digest());
    assert_eq!(known.exports(), first.exports());
    assert_eq!(known.imports(), first.imports());
    assert_eq!(known.size(), first.size());
    assert_eq!(has_code(&known).await, Ok(true));
    assert!(known.code.is_linked());
    // Descriptions can depend on the environment.
    let other = load(dir.path(), "2").await;
    assert!(other.code_state() == CodeState::Cached && other.code.is_linked());
}

#[tokio::test]
async fn code_that_the_cache_has_lost_is_compiled_again() {
    let dir = dir();
    load(dir.path(), "1").await;
    let known = load(dir.path(), "1").await;
    remove(dir.path(), "code");
    assert_eq!(has_code(&known).await, Ok(true));
    // Without code, the description is not used.
    remove(dir.path(), "code");
    assert!(load(dir.path(), "1").await.code_state() == CodeState::Compiled);
}

#[tokio::test]
async fn a_component_is_not_compiled_again_for_another_manifest() {
    let dir = dir();
    let file = dir.path().join("hook.wasm");
    let mut digest = load(dir.path(), "1").await.digest();
    for version in ["1.0.0", "1.0.1"] {
        let manifest =
            format!("name = \"hook\"\nversion = \"{version}\"\ndescription = \"Hooks\"\n");
        let packed = pack(&file, &hooks_component(), "plugin.toml", &manifest, None);
        fs::write(&file, packed.unwrap()).unwrap();
        let loaded = load(dir.path(), "1").await;
        assert_eq!(loaded.code_state(), CodeState::Cached);
        assert_eq!(loaded.manifest().version, version);
        assert_ne!(std::mem::replace(&mut digest, loaded.digest()), digest);
    }
    let mut other = hooks_component();
    other.extend(EMPTY_SECTION);
    fs::write(&file, other).unwrap();
    assert!(load(dir.path(), "1").await.code_state() == CodeState::Compiled);
}

#[test]
fn only_the_sections_that_were_packed_are_left_out() {
    let path = Path::new("a.wasm");
    let component = hooks_component();
    let manifest = custom_section(MANIFEST_SECTION, b"name = \"a\"");
    let tools = custom_section(TOOLS_SECTION, b"{}");
    let unpacked_len = |parts: &[&[u8]]| {
        let file = [&[&component[..]], parts].concat().concat();
        unpacked(path, &file).map(<[u8]>::len).unwrap()
    };
    let rest = |parts: &[&[u8]]| component.len() + parts.concat().len();
    assert_eq!(unpacked_len(&[]), rest(&[]));
    assert_eq!(unpacked_len(&[&manifest]), rest(&[]));
    assert_eq!(unpacked_len(&[&manifest, &tools]), rest(&[]));
    // `host pack` does not write this.
    assert_eq!(
        unpacked_len(&[&manifest, &EMPTY_SECTION]),
        rest(&[&manifest, &EMPTY_SECTION])
    );
}

#[tokio::test]
async fn bytes_within_another_section_are_not_compiled_without_it() {
    let dir = dir();
    let file = dir.path().join("hook.wasm");
    let tools = custom_section(TOOLS_SECTION, b"{");
    let mut crafted = hooks_component();
    crafted.extend(&tools);
    // A section named `x` that contains a copy of the other one.
    let body = [&[1, b'x'], &tools[..]].concat();
    crafted.extend([0, u8::try_from(body.len()).unwrap()]);
    crafted.extend(body);
    fs::write(&file, crafted).unwrap();
    let runtime = runtime(dir.path(), "1");
    assert!(runtime.load(&file).await.is_err());
}

#[tokio::test]
async fn a_file_that_was_replaced_is_not_compiled_in_its_place() {
    let dir = dir();
    load(dir.path(), "1").await;
    let known = load(dir.path(), "1").await;
    remove(dir.path(), "code");
    let file = dir.path().join("hook.wasm");
    let mut other = hooks_component();
    other.extend(EMPTY_SECTION);
    fs::write(&file, other).unwrap();
    let error = has_code(&known).await.unwrap_err();
    assert_eq!(
        error,
        format!(
            "unavailable: {} has changed since it was loaded; run `host plugins reload`",
            file.display()
        )
    );
    assert!(load(dir.path(), "1").await.code_state() == CodeState::Compiled);
}
