//! Plugin files describe their tools, so that a host compiles only the plugins that are called.

use std::fs;

use e2e::test_env::TestEnv;
use e2e::{Guest, host, root, target};

const SECTION: &[u8] = b"toolhost:tools";

fn has_section(file: &std::path::Path) -> bool {
    let bytes = fs::read(file).unwrap();
    bytes.windows(SECTION.len()).any(|part| part == SECTION)
}

#[test]
fn a_call_compiles_only_its_plugin() {
    let env = TestEnv::new("");
    let cache = env.path("cache");
    let mut command = env.command(&["call", "base64_encode", "text=hello"]);
    command.env("TOOLHOST_CACHE_DIR", &cache);
    for plugin in ["data", "files", "search"] {
        command.arg("--plugins");
        command.arg(root().join(format!("plugins/{plugin}.wasm")));
    }
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "aGVsbG8=\n");
    let files = fs::read_dir(&cache).unwrap();
    let code = files.filter(|file| {
        let path = file.as_ref().unwrap().path();
        path.extension()
            .is_some_and(|extension| extension == "code")
    });
    assert_eq!(code.count(), 1);
}

#[test]
fn every_shipped_plugin_describes_its_tools_in_its_file() {
    for file in fs::read_dir(root().join("plugins")).unwrap() {
        let path = file.unwrap().path();
        let is_plugin = path
            .extension()
            .is_some_and(|extension| extension == "wasm");
        let is_hook = path
            .file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with("hook-");
        if is_plugin && !is_hook {
            assert!(has_section(&path), "{}", path.display());
        }
    }
}

#[test]
fn descriptions_that_depend_on_the_environment_are_not_stored() {
    let guest = Guest::new("descriptor_fields", &[], "");
    assert!(!has_section(&guest.plugin()));
    assert!(has_section(&Guest::new("counter", &[], "").plugin()));
}

#[test]
fn a_plugin_that_hosts_refuse_is_packed_only_on_demand() {
    let env = TestEnv::new("");
    let manifest = env.path("plugin.toml");
    let text = "name = \"spinner\"\nversion = \"0.1.0\"\ndescription = \"Spins\"\n";
    fs::write(&manifest, text).unwrap();
    let component = target().join("guests/spinning_describe.wasm");
    for (flags, code) in [(&[][..], 4), (&["--force"], 0)] {
        let mut pack = host(&["pack"]);
        pack.arg(&component).arg("--manifest").arg(&manifest);
        pack.args(flags);
        let output = pack.arg("--output").arg(env.path("spinner.wasm")).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            stderr.contains("hosts refuse this plugin")
                && stderr.contains("cannot describe its tools"),
            "{stderr}"
        );
        assert_eq!(env.path("spinner.wasm").exists(), code == 0);
    }
}
