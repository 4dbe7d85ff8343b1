//! Each SDK, built as a package, installed outside of the checkout and used to build the sample. A language without a
//! toolchain is skipped, with the reason on stderr; one that `TOOLHOST_REQUIRE_SAMPLES` names fails instead.

use std::io::Write as _;
use std::process::Command;
use std::{env, fs};

use e2e::{CommandResult, root, run, target};
use serde_json::{Value, json};

/// Exit code of a script without a toolchain for its language; the last line of output is the reason.
const NO_TOOLCHAIN: i32 = 77;

fn check(language: &str, tool: &str) {
    let packages = target().join("packages");
    let script = root().join(format!("sdk/{language}/check-package"));
    let output = Command::new(script).arg(&packages).output().unwrap();
    let built = CommandResult::of(&output);
    if built.code == Some(NO_TOOLCHAIN) {
        let reason = built.stdout.trim().lines().last().unwrap_or_default();
        let required = env::var("TOOLHOST_REQUIRE_SAMPLES").unwrap_or_default();
        assert!(
            !required.split(',').any(|name| name == language),
            "{built:?}"
        );
        let _ = writeln!(
            std::io::stderr(),
            "skipped: the {language} package was not built: {reason}"
        );
        return;
    }
    assert_eq!(built.code, Some(0), "{}\n{}", built.stdout, built.stderr);

    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (manifest, plugin) = (file("plugin.toml"), file("plugin.wasm"));
    fs::write(
        &manifest,
        "name = \"sample\"\nversion = \"0.1.0\"\ndescription = \"A sample\"\n",
    )
    .unwrap();
    let component = packages.join(format!("{language}.wasm"));
    let component = component.to_string_lossy();
    let packed = run(&[
        "pack",
        &component,
        "--manifest",
        &manifest,
        "--output",
        &plugin,
    ]);
    assert_eq!(packed.code, Some(0), "{}", packed.stderr);
    let ended = run(&[
        "call",
        tool,
        "text=to be or not to be",
        "--json",
        "--plugins",
        &plugin,
    ]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(
        report["outcome"]["structured"],
        json!({"words": 6}),
        "{report}"
    );
}

#[test]
fn the_rust_crates_build_a_plugin() {
    check("rust", "word_count_rs");
}

#[test]
fn the_python_wheel_builds_a_plugin() {
    check("python", "word_count_py");
}

#[test]
fn the_npm_package_builds_a_plugin() {
    check("javascript", "word_count_js");
}
