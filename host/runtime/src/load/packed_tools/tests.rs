//! Descriptions in the file replace compilation at the start, and nothing else.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toolhost_contract::Manifest;
use toolhost_contract::manifest::TOOLS_SECTION;

use super::PackedTools;
use crate::api::v0_1::VERSION;
use crate::api::v0_1::fuzz::described;
use crate::compile_cache::EntryKind;
use crate::load::plugin_file::file_version;
use crate::scan::MAX_TOOLS_BYTES;
use crate::tests::{component, hooks_component};
use crate::{
    CheckTool, CodeState, Compiler, LoadError, Loaded, PluginChecks, Runtime, RuntimeSettings, pack,
};

const MANIFEST: &str = "name = \"echo\"\nversion = \"1.0.0\"\ndescription = \"Echoes\"\n";

struct Setup {
    dir: tempfile::TempDir,
    runtime: Runtime,
}

impl Setup {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self {
            runtime: Runtime::new(settings(dir.path())).unwrap(),
            dir,
        }
    }

    /// Loads the file as another process would that checks tools.
    async fn load_checked(&self, tool: CheckTool) -> Result<Loaded, LoadError> {
        let checks = PluginChecks {
            file: Box::new(|_, _| Ok(())),
            tool,
        };
        let runtime = Runtime::with_checks(settings(self.dir.path()), checks).unwrap();
        runtime.load_described(&self.file()).await
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("plugin.wasm")
    }

    fn write(&self, component: &[u8], tools: Option<&[u8]>) {
        let packed = pack(
            Path::new("x.wasm"),
            component,
            "plugin.toml",
            MANIFEST,
            tools,
        );
        fs::write(self.file(), packed.unwrap()).unwrap();
    }

    async fn load(&self) -> Result<Loaded, LoadError> {
        self.runtime.load_described(&self.file()).await
    }

    /// The number of components whose code is in the cache.
    fn compiled(&self) -> usize {
        self.entries("code").len()
    }

    /// The entries of the cache with this extension.
    fn entries(&self, extension: &str) -> Vec<PathBuf> {
        let files = fs::read_dir(self.dir.path().join("cache")).unwrap();
        let names = files.map(|file| file.unwrap().path());
        names
            .filter(|path| path.extension().is_some_and(|found| found == extension))
            .collect()
    }

    /// Waits until a change of the file would also change its times.
    async fn settle(&self) {
        while file_version(&self.file()).is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn settings(dir: &Path) -> RuntimeSettings {
    RuntimeSettings {
        cache_dir: Some(dir.join("cache")),
        compiler: Compiler::InProcess,
        max_concurrent: 1,
        environment: vec![("date".to_owned(), "2026-11-28".to_owned())],
    }
}

fn section(contract: &str) -> Vec<u8> {
    let tool = described("name=echo\ndescription=Return the text.\ninput={\"type\": \"object\"}");
    let tools = PackedTools {
        contract: contract.into(),
        tools: vec![tool],
    };
    serde_json::to_vec(&tools).unwrap()
}

/// A component whose `describe` returns no tools.
fn tools_component() -> Vec<u8> {
    component("(i32.const 0)", "")
}

async fn error(setup: &Setup) -> String {
    setup.load().await.map(drop).unwrap_err().to_string()
}

#[tokio::test]
async fn a_described_plugin_is_compiled_ahead_or_by_its_first_call() {
    for ahead in [true, false] {
        let setup = Setup::new();
        setup.write(&tools_component(), Some(&section(VERSION)));
        let loaded = setup.load().await.unwrap();
        assert_eq!(loaded.code_state(), CodeState::NotCompiled);
        assert_eq!(loaded.manifest().version, "1.0.0");
        assert_eq!(loaded.tools()[0].name.as_str(), "echo");
        assert_eq!(setup.compiled(), 0);
        if ahead {
            loaded.compile().await.unwrap();
            assert!(!loaded.is_linked());
        } else {
            assert!(loaded.code().await.unwrap().tools.is_some());
        }
        assert_eq!(setup.compiled(), 1);
        let again = setup.load().await.unwrap();
        assert_eq!(again.code_state(), CodeState::Cached);
        assert!(again.code().await.unwrap().tools.is_some());
    }
}

#[tokio::test]
async fn the_cache_has_the_result_of_the_check_of_tools() {
    let setup = Setup::new();
    setup.write(&tools_component(), Some(&section(VERSION)));
    // A process that checks nothing.
    assert!(!setup.load().await.unwrap().has_checked_tools());
    for accepts in [(|_| true) as CheckTool, |_| false] {
        let setup = Setup::new();
        setup.write(&tools_component(), Some(&section(VERSION)));
        setup.settle().await;
        let first = setup.load_checked(accepts).await.unwrap();
        assert_eq!(first.has_checked_tools(), accepts(&first.tools()[0]));
        let known = setup.load_checked(|_| unreachable!()).await.unwrap();
        assert_eq!(known.has_checked_tools(), first.has_checked_tools());
    }
}

#[tokio::test]
async fn a_file_that_is_known_is_not_hashed_again() {
    let setup = Setup::new();
    setup.write(&tools_component(), Some(&section(VERSION)));
    let first = setup.load().await.unwrap();
    // It could be written again at the same time.
    assert!(setup.entries("digest").is_empty());
    setup.settle().await;
    for _ in 0..2 {
        let known = setup.load().await.unwrap();
        assert_eq!(known.digest(), first.digest());
        assert_eq!(known.tools(), first.tools());
        assert_eq!(known.manifest(), first.manifest());
        assert_eq!(known.size(), first.size());
        assert_eq!(known.code_state(), CodeState::NotCompiled);
    }
    assert_eq!(setup.entries("digest").len(), 1);
    // An entry that was changed is not used.
    let entry = &setup.entries("digest")[0];
    let mut bytes = fs::read(entry).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(entry, bytes).unwrap();
    assert_eq!(setup.load().await.unwrap().digest(), first.digest());
    // Another file under the same name, with the same size.
    let other = String::from_utf8(section(VERSION)).unwrap();
    let other = other.replace("Return the text.", "Return the TEXT.");
    setup.write(&tools_component(), Some(other.as_bytes()));
    for _ in 0..2 {
        let changed = setup.load().await.unwrap();
        assert_eq!(changed.size(), first.size());
        assert_ne!(changed.digest(), first.digest());
        assert_ne!(changed.tools(), first.tools());
        setup.settle().await;
    }
}

#[tokio::test]
async fn commands_that_report_on_a_file_hash_it() {
    let setup = Setup::new();
    let no_tools = format!(r#"{{"contract": "{VERSION}", "tools": []}}"#);
    setup.write(&hooks_component(), Some(no_tools.as_bytes()));
    let earlier = setup.load().await.unwrap().digest();
    setup.write(
        &hooks_component(),
        Some(no_tools.replace(' ', "").as_bytes()),
    );
    setup.settle().await;
    let version = file_version(&setup.file()).unwrap();
    let cache = setup.runtime.0.cache.as_ref().unwrap();
    cache
        .put(EntryKind::FileDigest, version, &earlier.0)
        .unwrap();
    assert_eq!(setup.load().await.unwrap().digest(), earlier);
    let reported = setup.runtime.load(&setup.file()).await.unwrap();
    assert_ne!(reported.digest(), earlier);
}

#[tokio::test]
async fn a_file_with_a_manifest_beside_it_is_hashed_again() {
    let setup = Setup::new();
    fs::write(setup.file(), hooks_component()).unwrap();
    setup.settle().await;
    let manifest = toolhost_contract::side_manifest_path(&setup.file());
    fs::write(&manifest, MANIFEST).unwrap();
    assert_eq!(file_version(&setup.file()), None);
    let loaded = setup.load().await.unwrap();
    assert_eq!(loaded.manifest().version, "1.0.0");
    assert!(setup.entries("digest").is_empty());
    fs::write(&manifest, MANIFEST.replace("1.0.0", "2.0.0")).unwrap();
    assert_eq!(setup.load().await.unwrap().manifest().version, "2.0.0");
}

#[tokio::test]
async fn hooks_are_compiled_before_the_host_starts() {
    let setup = Setup::new();
    let no_tools = format!(r#"{{"contract": "{VERSION}", "tools": []}}"#);
    setup.write(&hooks_component(), Some(no_tools.as_bytes()));
    let loaded = setup.load().await.unwrap();
    assert_eq!(loaded.code_state(), CodeState::Compiled);
    let hooks = hooks_component();
    let manifest = Manifest::parse("plugin.toml", MANIFEST).unwrap();
    let packed = setup
        .runtime
        .packed_tools(Path::new("x.wasm"), &hooks, &manifest, &[]);
    assert_eq!(packed.await.unwrap(), None);
}

#[tokio::test]
async fn a_section_that_cannot_be_used_is_ignored() {
    for tools in [section("9.9.9"), b"not JSON".to_vec()] {
        let setup = Setup::new();
        setup.write(&tools_component(), Some(&tools));
        // The host asked the component.
        let error = error(&setup).await;
        assert!(error.contains("it has no tools"), "{error}");
    }
}

#[tokio::test]
async fn a_section_that_differs_from_describe_is_an_error_when_both_are_read() {
    let setup = Setup::new();
    setup.write(&tools_component(), Some(&section(VERSION)));
    let error = setup.runtime.load(&setup.file()).await.map(drop);
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("its `toolhost:tools` section differs"),
        "{error}"
    );
}

#[tokio::test]
async fn sections_that_are_too_large_or_repeated_are_errors() {
    let setup = Setup::new();
    setup.write(&tools_component(), Some(&vec![b' '; MAX_TOOLS_BYTES + 1]));
    let too_large = error(&setup).await;
    assert!(
        too_large.contains("is larger than 1048576 bytes"),
        "{too_large}"
    );
    setup.write(&tools_component(), Some(&section(VERSION)));
    let mut twice = fs::read(setup.file()).unwrap();
    let name = u8::try_from(TOOLS_SECTION.len()).unwrap();
    twice.extend([0, name + 1, name]);
    twice.extend(TOOLS_SECTION.as_bytes());
    fs::write(setup.file(), twice).unwrap();
    let twice = error(&setup).await;
    assert!(
        twice.contains("it has two `toolhost:tools` sections"),
        "{twice}"
    );
}

#[tokio::test]
async fn a_described_plugin_without_the_contract_is_refused() {
    let setup = Setup::new();
    for (wat, expected) in [
        (
            "(component (import \"wasi:sockets/tcp@0.3.0\" (instance)))",
            "wasi:sockets/tcp@0.3.0",
        ),
        ("(component)", "does not export"),
    ] {
        setup.write(&wat::parse_str(wat).unwrap(), Some(&section(VERSION)));
        let error = error(&setup).await;
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn a_failed_compilation_is_remembered() {
    let setup = Setup::new();
    let mut broken = tools_component();
    // `i32.const 0` and the end of the function; 0xff is no instruction.
    let body = broken
        .windows(3)
        .rposition(|bytes| bytes == [0x41, 0, 0x0b]);
    broken[body.unwrap()] = 0xff;
    setup.write(&broken, Some(&section(VERSION)));
    let loaded = setup.load().await.unwrap();
    let first = loaded.compile().await.unwrap_err();
    fs::remove_file(setup.file()).unwrap();
    let second = loaded.code().await.map(drop).unwrap_err();
    assert_eq!(first.message, second.message);
}

#[tokio::test]
async fn a_file_that_changed_after_the_start_does_not_run() {
    let setup = Setup::new();
    setup.write(&tools_component(), Some(&section(VERSION)));
    let loaded = setup.load().await.unwrap();
    setup.write(&component("(unreachable)", ""), Some(&section(VERSION)));
    for error in [
        loaded.compile().await.unwrap_err(),
        loaded.code().await.map(drop).unwrap_err(),
    ] {
        assert!(error.message.contains("changed"), "{}", error.message);
    }
    assert_eq!(setup.compiled(), 0);
}
