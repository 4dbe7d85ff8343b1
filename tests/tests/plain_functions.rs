//! Components without our interfaces: their exported functions are tools.

use std::fs;
use std::path::{Path, PathBuf};

use e2e::test_env::{TestEnv, parse_json};
use e2e::{CommandResult, root, target};
use serde_json::{Value, json};

const GUEST: &str = "plain_functions";
const MANIFEST: &str = r#"
name = "notes"
version = "1.0.0"
description = "Notes in files"

[[needs]]
capability = "fs.read"
why = "to load notes"

[[needs]]
capability = "fs.write"
why = "to save notes"

[limits]
timeout = "1s"

[[functions]]
function = "notes.load"
name = "load_note"
effect = "reads"
requires = ["fs.read"]

[[functions]]
function = "notes.save"
name = "save_note"
effect = "writes"
requires = ["fs.write"]

[[functions]]
function = "loops.spin"
effect = "pure"
"#;

fn component(env: &TestEnv) -> PathBuf {
    let file = env.path("notes.wasm");
    fs::copy(target().join(format!("guests/{GUEST}.wasm")), &file).unwrap();
    file
}

/// Calls a tool with write access to the workspace.
fn report(env: &TestEnv, plugin: &Path, args: &[&str]) -> Value {
    let mut command = env.command(&["call", "--json", "--allow-path"]);
    command.arg(format!("{}:rw", env.workspace().display()));
    command.arg("--plugins").arg(plugin).args(args);
    parse_json(&CommandResult::of(&command.output().unwrap()))
}

#[test]
fn without_a_manifest_functions_have_no_capabilities() {
    let env = TestEnv::new("");
    let plugin = component(&env);
    let echoed = report(&env, &plugin, &["echo", "text=hello"]);
    assert_eq!(echoed["outcome"]["content"][0]["text"], "hello");
    // Also by the name of the function.
    let saved = report(
        &env,
        &plugin,
        &["notes.save", "name=a", "text=x", "--mode", "yolo"],
    );
    assert_eq!(saved["ok"], json!(false), "{saved}");
    assert!(!env.workspace().join("a").exists());
    let missing = report(&env, &plugin, &["notes.load", "name=old.txt"]);
    assert_eq!(missing["ok"], json!(false), "{missing}");
    let large = report(&env, &plugin, &["big", "bytes=300000"]);
    assert_eq!(large["error"]["class"], "output_limit");
    let invalid = report(&env, &plugin, &["big", "bytes=-1"]);
    assert_eq!(
        invalid["error"]["class"], "invalid_tool_params",
        "{invalid}"
    );
}

#[test]
fn a_manifest_beside_it_grants_what_the_operator_allows() {
    let env = TestEnv::new("");
    let plugin = component(&env);
    fs::write(env.path("notes.plugin.toml"), MANIFEST).unwrap();
    let save = ["save_note", "name=a.txt", "text=one"];
    let asked = report(&env, &plugin, &save);
    assert_eq!(asked["error"]["class"], "permission_denied", "{asked}");
    let saved = report(
        &env,
        &plugin,
        &[&save[..], &["--mode", "accept_edits"]].concat(),
    );
    assert_eq!(
        saved["outcome"]["structured"],
        json!({"result": 3}),
        "{saved}"
    );
    let path = env.workspace().join("a.txt");
    assert_eq!(fs::read_to_string(&path).unwrap(), "one");
    let loaded = report(&env, &plugin, &["load_note", "name=a.txt"]);
    assert_eq!(loaded["outcome"]["content"][0]["text"], "one");
    let outside = report(&env, &plugin, &["load_note", "name=../host.toml"]);
    assert_eq!(outside["ok"], json!(false), "{outside}");
    let undo = saved["undo_ids"][0].as_str().unwrap();
    let undone = env.command(&["undo", undo, "--yes"]).output().unwrap();
    assert!(undone.status.success(), "{undone:?}");
    assert!(!path.exists());
    // The manifest does not list it.
    let unlisted = report(&env, &plugin, &["echo", "text=hello"]);
    assert_eq!(
        unlisted["error"]["class"], "tool_not_registered",
        "{unlisted}"
    );
    let spinning = report(&env, &plugin, &["loops_spin"]);
    assert_eq!(spinning["error"]["class"], "timeout");
    // A tool cannot change the manifest of its plugin.
    let manifest = env.path("notes.plugin.toml");
    let mut command = env.command(&["call", "--json", "--mode", "yolo", "--allow-path"]);
    command.arg(format!("{}:rw", env.path("").display()));
    command.arg("--plugins").arg(&plugin);
    command.args(["save_note", "name=notes.plugin.toml", "text=x"]);
    let refused = parse_json(&CommandResult::of(&command.output().unwrap()));
    assert_eq!(refused["ok"], json!(false), "{refused}");
    assert_eq!(fs::read_to_string(manifest).unwrap(), MANIFEST);
}

#[test]
fn a_function_that_reads_cannot_write() {
    let env = TestEnv::new("");
    let plugin = component(&env);
    let reads = MANIFEST.replace("effect = \"writes\"", "effect = \"reads\"");
    fs::write(env.path("notes.plugin.toml"), reads).unwrap();
    let args = ["save_note", "name=a.txt", "text=one", "--mode", "yolo"];
    let refused = report(&env, &plugin, &args);
    assert_eq!(refused["ok"], json!(false), "{refused}");
    assert!(!env.workspace().join("a.txt").exists());
}

/// Components of other projects, which are not part of this repository.
#[test]
fn components_of_other_projects_run() {
    let foreign = root().join("../shared/foreign/components");
    if !foreign.is_dir() {
        eprintln!("skipped: {} does not exist", foreign.display());
        return;
    }
    let env = TestEnv::new("");
    let add = ["add_add", "x=2", "y=3"];
    let sum = report(&env, &foreign.join("add.wasm"), &add);
    assert_eq!(sum["outcome"]["structured"], json!({"result": 5}), "{sum}");
    let evaluate = ["calculate.eval-expression", "op=add", "x=2", "y=40"];
    let sum = report(&env, &foreign.join("calculator.composed.wasm"), &evaluate);
    assert_eq!(sum["outcome"]["structured"], json!({"result": 42}), "{sum}");
    // It needs files, which a component without a manifest does not get.
    let listing = ["list_directory", "path=/workspace"];
    let refused = report(&env, &foreign.join("filesystem.wasm"), &listing);
    assert_eq!(refused["ok"], json!(false), "{refused}");
}

/// Components that componentize-py and componentize-qjs built from the same WIT, without our interfaces.
#[test]
fn a_component_that_imports_an_unknown_interface_is_refused() {
    let env = TestEnv::new("");
    let plugin = target()
        .join("guests")
        .join("act_echo")
        .with_extension("wasm");
    let ended = env.run(&["plugins", "--plugins", plugin.to_str().unwrap()]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    let message = "it imports `act:core/types@0.4.0`, which this host does not provide";
    assert!(ended.stderr.contains(message), "{ended:?}");
}

#[test]
fn functions_in_python_and_javascript_are_tools() {
    for language in ["python", "javascript"] {
        let plugin = target().join(format!("samples/{language}-functions.wasm"));
        if !plugin.exists() {
            eprintln!("skipped: the functions in {language} were not built");
            continue;
        }
        let env = TestEnv::new("");
        let call = |args: &[&str]| report(&env, &plugin, &[args, &["--mode", "yolo"]].concat());
        let converted = call(&[
            "convert_convert",
            r#"reading={"degrees":100,"scale":"celsius"}"#,
        ]);
        let result = &converted["outcome"]["structured"]["result"];
        assert_eq!(result["scale"], "fahrenheit", "{language}: {converted}");
        assert_eq!(result["degrees"].as_f64(), Some(212.0), "{converted}");
        let readings =
            r#"readings=[{"degrees":10,"scale":"celsius"},{"degrees":86,"scale":"fahrenheit"}]"#;
        let average = call(&["convert_average", readings]);
        let result = &average["outcome"]["structured"]["result"];
        assert_eq!(result.as_f64(), Some(20.0), "{average}");
        let none = call(&["convert_average", "readings=[]"]);
        assert_eq!(
            none["outcome"]["structured"]["result"],
            Value::Null,
            "{none}"
        );
        let failed = call(&[
            "convert_convert",
            r#"reading={"degrees":-300,"scale":"celsius"}"#,
        ]);
        assert!(
            failed.to_string().contains("below absolute zero"),
            "{failed}"
        );
        let unknown = call(&[
            "convert_convert",
            r#"reading={"degrees":1,"scale":"kelvin"}"#,
        ]);
        assert_eq!(
            unknown["error"]["class"], "invalid_tool_params",
            "{unknown}"
        );
    }
}
