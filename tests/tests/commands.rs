//! Commands about what calls did: undo by path, lists, explanations of denials, and messages for users.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use e2e::test_env::TestEnv;
use e2e::{CommandResult, root};
use serde_json::{Value, json};

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
    check(&shown, 0, "   1 │ - two");
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
    let undone = env.run(&["undo", "--list", "workspace/a.txt"]);
    assert_eq!(undone.stdout.matches("undone").count(), 2, "{undone:?}");
    let times = |list: &CommandResult| {
        let rows = list.stdout.lines().skip(1);
        let cells = rows.map(|row| row.split_whitespace().take(3).collect::<Vec<_>>().join(" "));
        cells.collect::<Vec<_>>()
    };
    assert_eq!(times(&undone), times(&list), "those of the calls");
    fs::write(env.workspace().join("b.txt"), "by hand").unwrap();
    check(
        &env.run(&["undo", "workspace/b.txt"]),
        1,
        "revert those changes first",
    );
}

#[test]
fn changes_of_a_batch_are_undone_together_or_not_at_all() {
    let env = TestEnv::new("allow = [\"write_file\"]");
    let call = |id: &str, path: &str, content: &str| json!({"id": id, "name": "write_file", "input": {"path": path, "content": content}});
    let calls = json!([
        call("1", "a.txt", "one"),
        call("2", "b.txt", "two"),
        call("3", "a.txt", "three"),
    ]);
    let file = env.path("calls.json");
    fs::write(&file, calls.to_string()).unwrap();
    let run = ["batch", file.to_str().unwrap(), "--strategy", "serial"];
    check(&env.run_with_plugins(&run), 0, "");
    let sessions = env.run_json(&["sessions", "--json"]);
    let session = sessions[0]["id"].as_str().unwrap();
    let (a, b) = (env.workspace().join("a.txt"), env.workspace().join("b.txt"));
    fs::write(&b, "by hand").unwrap();
    for how in ["--dry-run", "--yes"] {
        let refused = env.run(&["undo", "--session", session, how]);
        check(&refused, 1, "nothing was undone: write_file of call b-");
        check(&refused, 1, "`b.txt` was changed by another process");
        assert_eq!(fs::read_to_string(&a).unwrap(), "three");
    }
    fs::write(&b, "two").unwrap();
    check(
        &env.run(&["undo", "--session", session, "--dry-run"]),
        0,
        "- three",
    );
    check(
        &env.run(&["undo", "--session", session, "--yes"]),
        0,
        "undone write_file",
    );
    assert!(!a.exists() && !b.exists());
}

#[test]
fn the_changes_of_a_call_are_listed() {
    let env = TestEnv::new("");
    write(&env, "a.txt", "one");
    write(&env, "b.txt", "two");
    let calls = env.run_json(&["calls", "--json"]);
    let newest = calls[0]["id"].as_str().unwrap();
    // Also from a directory in which it has changed nothing.
    let mut list = env.command(&["undo", "--list", newest]);
    let list = CommandResult::of(&list.current_dir(root().join("docs")).output().unwrap());
    check(&list, 0, "b.txt");
    assert!(!list.stdout.contains("a.txt"), "{list:?}");
    check(
        &env.run_with_plugins(&["call", "read_file", "old.txt"]),
        0,
        "",
    );
    let calls = env.run_json(&["calls", "--json"]);
    let read = calls[0]["id"].as_str().unwrap();
    check(
        &env.run(&["undo", "--list", read]),
        0,
        "has changed no files",
    );
}

#[test]
fn plugins_with_names_that_are_not_utf8_are_listed() {
    let env = TestEnv::new("");
    let folder = env.path("plugins");
    fs::create_dir(&folder).unwrap();
    for (name, source) in [
        (&b"good-\xff.wasm"[..], "plugins/data.wasm"),
        (b"bad-\xff.wasm", "README.md"),
    ] {
        fs::copy(root().join(source), folder.join(OsStr::from_bytes(name))).unwrap();
    }
    let mut command = env.command(&["plugins", "--json", "--plugins"]);
    let listed = CommandResult::of(&command.arg(&folder).output().unwrap());
    let shown: Value =
        serde_json::from_str(&listed.stdout).unwrap_or_else(|_| panic!("{listed:?}"));
    assert_eq!(shown["plugins"][0]["name"], "data", "{listed:?}");
    let broken = shown["broken"][0]["file"].as_str().unwrap();
    assert!(broken.ends_with("bad-\u{fffd}.wasm"), "{broken}");
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
fn a_host_that_keeps_no_records_warns() {
    let env = TestEnv::new("");
    let stderr = |flags: &[&str]| {
        let call = [&["call", "read_file", "old.txt"], flags].concat();
        let mut command = env.command_with_plugins(&call);
        for variable in ["HOME", "TOOLHOST_STATE_DIR", "XDG_STATE_HOME"] {
            command.env_remove(variable);
        }
        let ended = CommandResult::of(&command.output().unwrap());
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.stderr
    };
    let warning =
        "warning: no records are kept and nothing can be undone; set HOME or TOOLHOST_STATE_DIR";
    let shown = stderr(&[]);
    assert_eq!(shown.matches(warning).count(), 1, "{shown}");
    let disabled = stderr(&["--no-store"]);
    assert!(!disabled.contains("warning"), "{disabled}");
}

#[test]
fn wrong_names_and_values_are_explained() {
    let env = TestEnv::new("");
    let run = |arguments: &[&str]| env.run_with_plugins(arguments);
    check(&run(&["call", "readfile", "old.txt"]), 2, "read_file");
    let unknown = run(&["call", "readfile", "old.txt", "--json"]);
    check(&unknown, 2, "tool_not_registered");
    check(&run(&["call", "list_directory", "."]), 0, "old.txt");
    check(
        &run(&["call", "read_file", "path:=old.txt"]),
        2,
        "`old.txt` is not JSON; for text use `path=old.txt`",
    );
    let listed = run(&["tools", "--tools", "system"]);
    check(&listed, 0, "current_time");
    assert!(!listed.stdout.contains("read_file"), "{listed:?}");
    let json = run(&["tools", "--json", "--tools", "system"]);
    check(&json, 0, "current_time");
    assert!(!json.stdout.contains("\"read_file\""), "{json:?}");
    check(
        &run(&["tools", "--tools", "cor"]),
        0,
        "did you mean `core`?",
    );
    let added = env.run(&["add", root().join("README.md").to_str().unwrap()]);
    check(&added, 4, "README.md is not a WebAssembly component");
    assert_eq!(added.stderr.matches("README").count(), 1, "{added:?}");
}

#[test]
fn a_path_of_a_flag_that_cannot_be_loaded_is_an_error_and_one_of_the_file_a_warning() {
    let env = TestEnv::new("");
    let call = ["call", "read_file", "old.txt"];
    let flag = [&call[..], &["--plugins", "nope"]].concat();
    let flag = env.run_with_plugins(&flag);
    check(&flag, 4, "nope: no such file or directory");
    check(
        &flag,
        4,
        "error: not all paths of --plugins could be loaded",
    );
    let config = env.path("plugins.toml");
    fs::write(&config, "plugins = [\"nope\"]\n").unwrap();
    let file = [&call[..], &["--config", config.to_str().unwrap()]].concat();
    let mut file = env.command(&file);
    file.arg("--plugins")
        .arg(root().join("plugins/files.wasm"))
        .arg("--allow-path")
        .arg(env.workspace());
    let file = CommandResult::of(&file.output().unwrap());
    check(&file, 0, "1→old");
    check(&file, 0, "nope: no such file or directory");
    assert!(file.stderr.starts_with("warning: "), "{file:?}");
}

#[test]
fn allow_warns_of_unknown_tools_and_names_the_line_of_a_wrong_file() {
    let env = TestEnv::new("");
    let config = env.path("mine.toml");
    let files = root().join("plugins/files.wasm");
    fs::write(&config, format!("plugins = [{files:?}]\n")).unwrap();
    let allow = |rule: &str| {
        let config = config.to_str().unwrap();
        env.run(&["policy", "allow", rule, "--config", config])
    };
    let typo = allow("write_fil");
    check(&typo, 0, "added to `allow`");
    check(&typo, 0, "did you mean `write_file`?");
    let good = allow("read_file");
    check(&good, 0, "added to `allow`");
    assert_eq!(good.stderr, "");
    fs::write(&config, "plugins = []\nallow = [\n").unwrap();
    check(&allow("read_file"), 3, "mine.toml:");
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
