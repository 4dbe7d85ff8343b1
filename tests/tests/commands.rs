//! Commands about what calls did: undo by path, lists, explanations of denials, and messages for users.

use std::fs;

use e2e::test_env::TestEnv;
use e2e::{CommandResult, root};

fn write(env: &TestEnv, path: &str, content: &str) {
    let (path, content) = (format!("path={path}"), format!("content={content}"));
    let written =
        env.run_with_plugins(&["call", "write_file", &path, &content, "--allow-tool", "*"]);
    assert_eq!(written.code, Some(0), "{written:?}");
}

fn check(result: &CommandResult, code: i32, expected: &str) {
    assert_eq!(result.code, Some(code), "{result:?}");
    let shown = format!("{}{}", result.stdout, result.stderr);
    assert!(
        shown.contains(expected),
        "`{expected}` is not in {result:?}"
    );
}

#[test]
fn undo_without_arguments_shows_and_undoes_the_last_change_below_the_directory() {
    let env = TestEnv::new("");
    write(&env, "a.txt", "one");
    write(&env, "b.txt", "two");
    let (a, b) = (env.workspace().join("a.txt"), env.workspace().join("b.txt"));
    let shown = env.run(&["undo", "--dry-run"]);
    check(&shown, 0, "  │ -two");
    assert!(a.exists() && b.exists());
    check(&env.run(&["undo"]), 2, "no terminal to prompt at");
    check(&env.run(&["undo", "--yes"]), 0, "undone write_file");
    assert!(a.exists() && !b.exists());
    let mut elsewhere = env.command(&["undo", "--yes"]);
    elsewhere.current_dir(root().join("docs"));
    let elsewhere = CommandResult::of(&elsewhere.output().unwrap());
    check(&elsewhere, 2, "is in effect");
    check(&env.run(&["undo", "--yes"]), 0, "undone write_file");
    assert!(!a.exists());
    check(&env.run(&["undo", "--yes"]), 2, "no change below ");
    check(
        &env.run(&["undo", "--redo", "--yes"]),
        0,
        "redone write_file",
    );
    assert!(a.exists() && !b.exists());
}

#[test]
fn the_last_change_of_a_file_is_found_by_its_path() {
    let env = TestEnv::new("");
    for (path, content) in [("a.txt", "one"), ("b.txt", "other"), ("a.txt", "two")] {
        write(&env, path, content);
    }
    let a = env.workspace().join("a.txt");
    let list = env.run(&["undo", "--list", "workspace/a.txt"]);
    assert_eq!(list.stdout.matches("write_file").count(), 2, "{list:?}");
    assert!(!list.stdout.contains("b.txt"), "{list:?}");
    check(
        &env.run(&["undo", "workspace/b.txt", "--dry-run"]),
        0,
        "remove   ",
    );
    // The first change of a.txt, which the second one follows.
    let first = list.stdout.lines().nth(2).unwrap();
    let first = first
        .split_whitespace()
        .find(|word| word.starts_with("c-"))
        .unwrap();
    let refused = env.run(&["undo", first, "--yes"]);
    check(&refused, 1, "undo the later changes first:\n  host undo c-");
    assert_eq!(fs::read_to_string(&a).unwrap(), "two");
    check(
        &env.run(&["undo", "workspace/a.txt", "--yes"]),
        0,
        "undone write_file",
    );
    assert_eq!(fs::read_to_string(&a).unwrap(), "one");
    check(
        &env.run(&["undo", "workspace/a.txt", "--yes"]),
        0,
        "undone write_file",
    );
    assert!(!a.exists());
    check(
        &env.run(&["undo", "workspace/a.txt", "--yes"]),
        2,
        "no change of `workspace/a.txt` is in effect",
    );
    check(
        &env.run(&["undo", "workspace/old.txt"]),
        2,
        "neither a call, nor a path that a call has changed",
    );
    let list = env.run(&["undo", "--list", "workspace/a.txt"]);
    assert_eq!(list.stdout.matches("undone").count(), 2, "{list:?}");
    fs::write(env.workspace().join("b.txt"), "by hand").unwrap();
    check(
        &env.run(&["undo", "workspace/b.txt"]),
        1,
        "revert those changes first",
    );
}

#[test]
fn a_denial_is_explained_and_its_kind_is_allowed() {
    let env = TestEnv::new("");
    let call = ["call", "write_file", "path=new.txt", "content=one"];
    assert_eq!(env.run_with_plugins(&call).code, Some(5));
    let calls = env.run_json(&["calls", "--state", "denied", "--json"]);
    let id = calls[0]["id"].as_str().unwrap();
    let shown = env.run(&["calls", id]);
    check(
        &shown,
        0,
        "denied by mode default, because no rule allows it",
    );
    check(
        &shown,
        0,
        "to allow  host policy allow 'write_file(./new.txt)'",
    );
    let config = env.path("host.toml");
    let config = config.to_str().unwrap();
    let allow = [
        "policy",
        "allow",
        "write_file(./new.txt)",
        "--config",
        config,
    ];
    check(&env.run(&allow), 0, "added to `allow` under [policy]");
    check(&env.run(&allow), 0, "has these rules already");
    check(
        &env.run(&["policy", "allow", "write_file(", "--config", config]),
        2,
        "write_file(",
    );
    assert_eq!(env.run_with_plugins(&call).code, Some(0));
    let list = env.run(&["calls"]);
    assert!(list.stdout.contains("new.txt"), "{list:?}");
}

#[test]
fn lists_need_no_subcommand() {
    let env = TestEnv::new("");
    check(
        &env.run(&["approvals"]),
        0,
        "no saved approvals are in effect",
    );
    write(&env, "a.txt", "one");
    check(&env.run(&["audit"]), 0, "completed");
    check(&env.run(&["audit", "--limit", "1"]), 0, "session");
    let plugin = env.run_with_plugins(&["plugins", "files"]);
    check(&plugin, 0, "  contacts   nothing\n");
    check(
        &env.run_with_plugins(&["plugins", "filse"]),
        2,
        "loaded plugins: files, system",
    );
    check(
        &env.run_with_plugins(&["call", "read_file", "old.txt"]),
        0,
        "1→old",
    );
}

#[test]
fn rust_log_prints_the_steps_of_a_call() {
    let env = TestEnv::new("");
    let log = |filter: &str| {
        let mut command = env.command_with_plugins(&["call", "read_file", "old.txt"]);
        command.env("RUST_LOG", filter);
        CommandResult::of(&command.output().unwrap()).stderr
    };
    let steps = log("toolhost=debug");
    assert!(
        steps.contains("DEBUG toolhost::call: completed call=\"c-"),
        "{steps}"
    );
    assert_eq!(log("off"), "");
    assert!(log("a=b=c").contains("warning: RUST_LOG is not a filter"));
}

#[test]
fn config_check_reports_names_that_match_nothing() {
    let env = TestEnv::new("");
    let config = env.path("checked.toml");
    let files = root().join("plugins/files.wasm");
    fs::write(
        &config,
        format!(
            "plugins = [{files:?}]\nuse_tools = [\"read_file\", \"write_fil\"]\n\
             [policy]\ndeny = [\"raed_file\"]\n[plugin.fils]\n[tools.edit_fil]\ntimeout = \"5s\"\n\
             [[hook]]\nname = \"guard\"\ncommand = [\"no-such-program\"]\nmatcher = \"read_fil\"\n"
        ),
    )
    .unwrap();
    let checked = env.run(&["config", "check", config.to_str().unwrap()]);
    for problem in [
        "tool `write_fil` matches nothing loaded; did you mean `write_file`?",
        "raed_file",
        "[plugin] `fils` matches nothing loaded; did you mean `files`?",
        "tool `edit_fil` matches nothing loaded; did you mean `edit_file`?",
        "hook `guard`: the program `no-such-program` does not exist",
        "hook `guard` never runs: its matcher `read_fil` matches no loaded tool",
    ] {
        check(&checked, 3, problem);
    }
    fs::write(
        &config,
        format!("plugins = [{files:?}]\n[plugin.files.limits]\nmemroy = \"1MiB\"\n"),
    )
    .unwrap();
    check(
        &env.run(&["config", "check", config.to_str().unwrap()]),
        3,
        "memroy",
    );
}
