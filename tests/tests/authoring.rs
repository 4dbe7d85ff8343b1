//! `host new`, `host test` and `host check`: a new project of each language builds and passes its tests, and faults of
//! plugins are reported. The times from nothing to the first answer are printed.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use e2e::test_env::TestEnv;
use e2e::{CommandResult, Guest, root};
use serde_json::{Value, json};

/// Creates a project and tests it. A language without a toolchain is skipped with a message; one that
/// `TOOLHOST_REQUIRE_SAMPLES` names fails instead.
fn check_language(language: &str) {
    let env = TestEnv::new("");
    let run = |args: &[&str]| {
        // The output of the build is in the project.
        let output = env.command(args).env_remove("CARGO_TARGET_DIR").output();
        CommandResult::of(&output.unwrap())
    };
    let start = Instant::now();
    let created = run(&["new", "word-count", "--lang", language]);
    assert_eq!(created.code, Some(0), "{}", created.stderr);
    assert_eq!(created.stdout, "word-count\n");
    if created.stderr.contains("is not installed") {
        let required = std::env::var("TOOLHOST_REQUIRE_SAMPLES").unwrap_or_default();
        let is_required = required.split(',').any(|name| name == language);
        assert!(!is_required, "{}", created.stderr);
        let _ = writeln!(
            std::io::stderr(),
            "skipped {language}: {}",
            created.stderr.trim()
        );
        return;
    }
    let tested = run(&["test", "word-count"]);
    assert_eq!(tested.code, Some(0), "{}\n{}", tested.stdout, tested.stderr);
    assert!(
        tested.stdout.ends_with("2 passed, 0 failed, 0 skipped\n"),
        "{}",
        tested.stdout
    );
    let first = start.elapsed();

    let checked = run(&["check", "word-count"]);
    assert_eq!(
        checked.stdout, "0 errors, 0 warnings\n",
        "{}",
        checked.stderr
    );
    let packed = run(&["pack", "word-count"]);
    assert_eq!(packed.stdout, "word-count.wasm\n", "{}", packed.stderr);
    let called = run(&[
        "call",
        "word_count",
        "text=one two",
        "--json",
        "--plugins",
        "word-count.wasm",
    ]);
    let report: Value = serde_json::from_str(&called.stdout).unwrap();
    assert_eq!(
        report["outcome"]["structured"],
        json!({"words": 2}),
        "{report}"
    );
    let _ = writeln!(
        std::io::stderr(),
        "{language}: {} ms to the first answer",
        first.as_millis()
    );
    unit_test(language, &env.path("word-count"));
}

/// Runs the project's own test with its language's command.
fn unit_test(language: &str, project: &Path) {
    let (program, args): (_, &[&str]) = match language {
        // The build has compiled the macros for release.
        "rust" => (
            "cargo",
            &["test", "--quiet", "--release", "--target-dir", "target"],
        ),
        "python" => ("python3", &["-m", "unittest", "discover", "tests"]),
        "javascript" | "typescript" => ("npm", &["test"]),
        // It needs a compiler for this machine too.
        _ => return,
    };
    let mut command = Command::new(program);
    let output = command
        .args(args)
        .current_dir(project)
        .env("PYTHONPATH", "src")
        .output();
    let tested = CommandResult::of(&output.unwrap());
    assert_eq!(tested.code, Some(0), "{}\n{}", tested.stdout, tested.stderr);
}

#[test]
fn a_new_project_in_rust_answers() {
    check_language("rust");
}

#[test]
fn a_new_project_in_python_answers() {
    check_language("python");
}

#[test]
fn a_new_project_in_javascript_answers() {
    check_language("javascript");
}

#[test]
fn a_new_project_in_typescript_answers() {
    check_language("typescript");
}

#[test]
fn a_new_project_in_c_answers() {
    check_language("c");
}

#[test]
fn bad_names_and_directories_in_use_are_refused_before_anything_is_written() {
    let env = TestEnv::new("");
    let entries = || fs::read_dir(env.path("")).unwrap().count();
    let before = entries();
    for (args, expected) in [
        (["Word", "workspace"], "plugin name `Word` is not valid"),
        (["../word", "word"], "plugin name `../word` is not valid"),
        (
            ["word", "workspace"],
            "workspace exists and is not an empty directory; choose another with --dir",
        ),
        (
            ["word", "host.toml"],
            "host.toml exists and is not an empty directory",
        ),
        (["word", "missing/word"], "missing"),
    ] {
        let ended = env.run(&["new", args[0], "--lang", "python", "--dir", args[1]]);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
        assert_eq!((ended.stdout.as_str(), entries()), ("", before), "{args:?}");
    }
}

#[test]
fn tools_of_a_project_in_development_cannot_write_to_it() {
    let env = TestEnv::new("");
    let project = env.path("project");
    fs::create_dir_all(project.join("src")).unwrap();
    let build = "command = [\"touch\", \"started\"]\ncomponent = \"a.wasm\"\nsources = [\"src\"]\n";
    fs::write(project.join("toolhost-build.toml"), build).unwrap();
    std::os::unix::fs::symlink(&project, env.path("link")).unwrap();
    for path in ["project:rw", "project/src:rw", ".:rw", "link:rw"] {
        let ended = env.run(&["dev", "project", "--allow-path", path]);
        assert_eq!(ended.code, Some(2), "{path}: {}", ended.stderr);
        assert!(
            ended.stderr.contains("tools could change the project"),
            "{path}: {}",
            ended.stderr
        );
    }
    assert!(!project.join("started").exists());
}

fn shipped(plugin: &str) -> String {
    root()
        .join(format!("plugins/{plugin}.wasm"))
        .to_string_lossy()
        .into_owned()
}

#[test]
fn examples_run_in_a_copy_of_the_workspace_and_are_compared() {
    let env = TestEnv::new("");
    let calls = json!([
        {"tool": "read_file", "input": {"path": "old.txt"}, "text": "     1→old"},
        {"tool": "write_file", "input": {"path": "old.txt", "content": "new"}},
        {"tool": "read_file", "input": {"path": "old.txt"}, "text": "     1→new"},
        {"tool": "read_file", "input": {"path": "/etc/passwd"}, "error": "path_not_in_workspace"},
        {"tool": "no_such_tool", "input": {}},
    ]);
    fs::write(env.path("calls.json"), calls.to_string()).unwrap();
    let plugin = shipped("files");
    let args = [
        "test",
        &plugin,
        "--workspace",
        "workspace",
        "--expected",
        "calls.json",
        "--json",
    ];
    let ended = env.run(&args);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let all = report["examples"].as_array().unwrap();
    let own = &all[all.len() - 5..];
    let results: Vec<&str> = own
        .iter()
        .map(|one| one["result"].as_str().unwrap())
        .collect();
    assert_eq!(
        results,
        ["passed", "passed", "failed", "passed", "failed"],
        "{own:?}"
    );
    assert!(
        own[2]["reason"].as_str().unwrap().contains("→new`"),
        "{own:?}"
    );
    assert_eq!(
        fs::read_to_string(env.workspace().join("old.txt")).unwrap(),
        "old\n"
    );
    // With a workspace, an example that names a missing file is an error.
    let check = ["check", &plugin, "--workspace", "workspace"];
    let ended = env.run(&check);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let missing = "error   read_file: A whole file: file_not_found: File not found: src/main.rs";
    assert!(ended.stdout.contains(missing), "{}", ended.stdout);
}

#[test]
fn examples_that_need_files_do_not_fail_a_review() {
    let env = TestEnv::new("");
    for plugin in ["files", "search", "shell"] {
        let ended = env.run(&["check", &shipped(plugin)]);
        assert_eq!(ended.code, Some(0), "{plugin}: {}", ended.stdout);
    }
}

#[test]
fn an_example_that_needs_a_grant_is_skipped_and_a_plugin_without_examples_fails() {
    let env = TestEnv::new("");
    let calls =
        json!([{"tool": "web_fetch", "input": {"url": "https://example.org/", "prompt": "x"}}]);
    fs::write(env.path("calls.json"), calls.to_string()).unwrap();
    let ended = env.run(&[
        "test",
        &shipped("web"),
        "--expected",
        "calls.json",
        "--json",
    ]);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let skipped = report["examples"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["result"] == "skipped");
    assert!(skipped.count() >= 1, "{report}");

    let counter = Guest::new("counter", &[], "");
    let ended = env.run(&["test", &counter.plugin().to_string_lossy()]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stderr.contains("there are no examples to run"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_review_reports_needs_descriptions_and_files_that_cannot_be_loaded() {
    let env = TestEnv::new("");
    let counter = Guest::new("counter", &["net:example.org"], "");
    let ended = env.run(&["check", &counter.plugin().to_string_lossy(), "--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let codes: Vec<&str> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["code"].as_str().unwrap())
        .collect();
    for code in ["unused-need", "license", "reason", "examples"] {
        assert!(codes.contains(&code), "{code}: {report}");
    }

    fs::write(env.path("broken.wasm"), b"\0asm").unwrap();
    let ended = env.run(&["check", "broken.wasm"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(
        ended.stdout.starts_with("error ")
            && ended.stdout.ends_with("[load]\n1 error, 0 warnings\n"),
        "{}",
        ended.stdout
    );
}
