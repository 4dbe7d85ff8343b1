//! Files that the host opens and keeps: what another program may have put in their place, who may read and write them,
//! and how long they stay.

mod retention;

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use e2e::test_env::TestEnv;
use e2e::{CommandResult, root};
use rustix::fs::{CWD, mkfifoat};

/// A host that waits for a named pipe would wait for ever.
const PATIENCE: Duration = Duration::from_mins(2);

fn bounded(command: &mut Command) -> CommandResult {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("host starts");
    let end = Instant::now() + PATIENCE;
    while child.try_wait().expect("host").is_none() {
        if Instant::now() > end {
            let _ = child.kill();
            panic!("the host does not end: {command:?}");
        }
        std::thread::yield_now();
    }
    CommandResult::of(&child.wait_with_output().expect("host ends"))
}

fn assert_output(ended: &CommandResult, expected: &str) {
    assert!(
        ended.stdout.contains(expected) || ended.stderr.contains(expected),
        "{expected}: {ended:?}"
    );
}

#[test]
fn a_16_a_named_pipe_among_the_plugins_is_named_and_not_waited_for() {
    let env = TestEnv::new("");
    let folder = env.path("plugins");
    fs::create_dir(&folder).unwrap();
    let pipe = folder.join("x.wasm");
    mkfifoat(CWD, &pipe, 0o600.into()).unwrap();
    symlink("/dev/zero", folder.join("device.wasm")).unwrap();
    let listed = bounded(env.command(&["plugins", "--plugins"]).arg(&folder));
    assert_output(&listed, "a named pipe, not a regular file");
    assert_output(&listed, "symlink to /dev/zero outside the directory");
    let inspected = bounded(env.command(&["inspect"]).arg(&pipe));
    assert_output(&inspected, "a named pipe, not a regular file");
    assert_ne!(inspected.code, Some(0));
    let packed = bounded(env.command(&["pack", "--manifest"]).args([&pipe, &pipe]));
    assert_output(&packed, "a named pipe, not a regular file");
    assert_ne!(packed.code, Some(0));

    let config = env.path("pipe.toml");
    mkfifoat(CWD, &config, 0o600.into()).unwrap();
    let checked = bounded(env.command(&["config", "check"]).arg(&config));
    assert_output(&checked, "a named pipe, not a regular file");
    let rules = env.path("rules.toml");
    mkfifoat(CWD, &rules, 0o600.into()).unwrap();
    fs::write(
        env.path("host.toml"),
        "[policy]\nrules = [\"rules.toml\"]\n",
    )
    .unwrap();
    let called = bounded(&mut env.command_with_plugins(&["call", "current_time"]));
    assert_output(&called, "a named pipe, not a regular file");
    let served = bounded(
        env.command_with_plugins(&["run", "--http", "127.0.0.1:0", "--http-token-file"])
            .arg(&pipe)
            .env("HOME", env.path("home")),
    );
    assert_ne!(served.code, Some(0), "{served:?}");
}

/// The key with which questions to MCP clients are sealed, and what was approved of another server.
#[test]
fn a_16_the_key_and_the_approvals_of_mcp_are_regular_files_and_not_waited_for() {
    let env = TestEnv::new(
        "[mcp]\nask = true\nstate_key = \"key\"\n[mcp_servers.other]\ncommand = \"cat\"\n",
    );
    let (key, approval) = (env.path("key"), env.path("state/mcp/approved/other.json"));
    fs::create_dir_all(approval.parent().unwrap()).unwrap();
    let listed = |arguments: &[&str]| {
        let mut command = env.command(arguments);
        bounded(command.arg("--config").arg(env.path("host.toml")))
    };
    for (is_pipe, of_key, of_approval) in [
        (true, "a named pipe", "a named pipe"),
        (false, "a device", "a symbolic link"),
    ] {
        for file in [&key, &approval] {
            let _ = fs::remove_file(file);
            if is_pipe {
                mkfifoat(CWD, file, 0o600.into()).unwrap();
            } else {
                symlink("/dev/zero", file).unwrap();
            }
        }
        let served = bounded(&mut env.command_with_plugins(&["run"]));
        assert_output(&served, &format!("cannot be read: {of_key}"));
        assert_ne!(served.code, Some(0), "{served:?}");
        assert_output(&listed(&["mcp", "list"]), of_approval);
        let approved = listed(&["mcp", "approve", "other", "--yes"]);
        assert_output(&approved, of_approval);
        assert_ne!(approved.code, Some(0), "{approved:?}");
        assert_output(
            &bounded(&mut env.command_with_plugins(&["tools"])),
            of_approval,
        );
    }
}

#[test]
fn a_16_calls_are_still_read_from_a_pipe() {
    let env = TestEnv::new("");
    let mut child = env
        .command_with_plugins(&["batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input
        .write_all(br#"[{"id": "1", "name": "read_file", "input": {"path": "old.txt"}}]"#)
        .unwrap();
    drop(input);
    let ended = CommandResult::of(&child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn a_19_of_two_grants_of_one_folder_the_narrower_holds() {
    for (first, second) in [("ro", "rw"), ("rw", "ro")] {
        let env = TestEnv::new("allow = [\"write_file\"]");
        let folder = |access: &str| format!("{}:{access}", env.workspace().display());
        let mut command = env.command(&["call", "write_file", "path=new.txt", "content=x"]);
        command
            .arg("--plugins")
            .arg(root().join("plugins/files.wasm"))
            .args(["--allow-path", &folder(first), "--allow-path"])
            .arg(folder(second))
            .arg("--config")
            .arg(env.path("host.toml"));
        let ended = CommandResult::of(&command.output().unwrap());
        assert_ne!(ended.code, Some(0), "{first} {second}: {ended:?}");
        assert!(!env.workspace().join("new.txt").exists());
    }
}

/// Every file and folder below, with its mode.
fn modes(dir: &Path, found: &mut Vec<(String, u32)>) {
    let about = fs::symlink_metadata(dir).unwrap();
    found.push((dir.display().to_string(), about.mode() & 0o777));
    if about.is_dir() {
        for entry in fs::read_dir(dir).unwrap() {
            modes(&entry.unwrap().path(), found);
        }
    }
}

#[test]
fn a_19_what_the_host_keeps_is_private_whatever_the_umask() {
    let env = TestEnv::new("allow = [\"write_file\"]");
    let host = env.command_with_plugins(&["call", "write_file", "path=new.txt", "content=x"]);
    let mut command = Command::new("sh");
    command
        .args(["-c", "umask 0; exec \"$@\"", "sh"])
        .arg(host.get_program())
        .args(host.get_args())
        .env("TOOLHOST_CACHE_DIR", env.path("cache/toolhost"))
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .env("XDG_STATE_HOME", env.path("new/state"))
        .env_remove("TOOLHOST_STATE_DIR")
        .current_dir(env.workspace());
    let ended = CommandResult::of(&command.output().unwrap());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let state = env.path("new/state/toolhost");
    let mut found = Vec::new();
    modes(&state, &mut found);
    assert!(found.len() > 3, "{found:?}");
    for (path, mode) in found {
        assert_eq!(mode & 0o077, 0, "{path} {mode:o}");
    }

    // A folder that others could write to may hold what others wrote.
    fs::set_permissions(&state, Permissions::from_mode(0o777)).unwrap();
    let refused = CommandResult::of(&command.output().unwrap());
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert_output(&refused, "run `chmod 700` on it");
}

const LONG: &str = "123456789012345678901234567890";

#[test]
fn a_19_an_integer_that_would_lose_digits_is_refused_at_every_entry() {
    let env = TestEnv::new("");
    let object = format!(r#"{{"path": "old.txt", "limit": {LONG}}}"#);
    let pair = format!("limit={LONG}");
    let json = format!("limit:={LONG}");
    for args in [
        vec!["call", "read_file", &object],
        vec!["call", "read_file", "path=old.txt", &pair],
        vec!["call", "read_file", "path=old.txt", &json],
    ] {
        let ended = env.run_with_plugins(&args);
        assert_eq!(ended.code, Some(2), "{args:?}: {ended:?}");
        assert_output(&ended, "does not fit into 64 bits");
    }
    let turn = format!(r#"{{"calls": [{{"id": "1", "name": "read_file", "input": {object}}}]}}"#);
    let request = format!(
        r#"{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {{"name": "read_file", "arguments": {object}}}}}"#
    );
    for (args, line) in [
        (
            vec!["batch", "-"],
            format!(r#"[{{"id": "1", "name": "read_file", "input": {object}}}]"#),
        ),
        (vec!["turns"], turn),
        (vec!["run"], request),
    ] {
        let mut child = env
            .command_with_plugins(&args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        writeln!(input, "{line}").unwrap();
        drop(input);
        let ended = CommandResult::of(&child.wait_with_output().unwrap());
        assert_output(&ended, "does not fit into 64 bits");
    }
}

#[test]
fn a_19_names_that_are_not_utf8_are_counted_where_they_are_left_out() {
    let env = TestEnv::new("");
    let odd = OsStr::from_bytes(b"odd-\xff.txt");
    fs::write(env.workspace().join(odd), "old\n").unwrap();
    fs::create_dir(env.workspace().join("sub")).unwrap();
    fs::write(env.workspace().join("sub").join(odd), "old\n").unwrap();
    let call = |arguments: &[&str]| {
        let mut command = env.command_with_plugins(arguments);
        command
            .arg("--plugins")
            .arg(root().join("plugins/search.wasm"));
        CommandResult::of(&command.output().unwrap())
    };
    for (arguments, count) in [
        (&["call", "list_directory", "path=."][..], "1 name in"),
        (&["call", "directory_tree", "path=."], "2 names in"),
        (&["call", "glob", "pattern=**/*.txt"], "2 names in"),
        (&["call", "grep", "pattern=old"], "2 names in"),
    ] {
        let ended = call(arguments);
        assert_eq!(ended.code, Some(0), "{arguments:?}: {ended:?}");
        assert_output(&ended, count);
        assert_output(&ended, "not UTF-8 and left out");
    }
    let quiet = call(&["call", "read_file", "path=old.txt"]);
    assert!(!quiet.stdout.contains("not UTF-8"), "{quiet:?}");
}

/// A cloned repository that holds settings under every name that could be looked for.
#[test]
fn the_current_directory_does_not_configure_the_host() {
    let env = TestEnv::new("");
    let here = env.workspace();
    let settings = "allowed_paths = [\".:rw\"]\n[policy]\nallow = [\"write_file\"]\n";
    for name in [
        "toolhost.toml",
        ".toolhost.toml",
        "host.toml",
        ".toolhost/toolhost.toml",
        "toolhost/toolhost.toml",
        ".config/toolhost/toolhost.toml",
    ] {
        let file = here.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, settings).unwrap();
    }
    // A relative path in the variable is none: https://specifications.freedesktop.org/basedir-spec/latest/
    for home in [None, Some("."), Some(".config"), Some("")] {
        let plugin = root().join("plugins/files.wasm");
        let mut command = env.command(&["call", "write_file", "path=new.txt", "content=new"]);
        command.arg("--plugins").arg(plugin).current_dir(&here);
        command
            .env("HOME", env.path("home"))
            .env_remove("XDG_CONFIG_HOME");
        command.envs(home.map(|home| ("XDG_CONFIG_HOME", home)));
        let ended = CommandResult::of(&command.output().unwrap());
        assert_ne!(ended.code, Some(0), "{home:?}: {ended:?}");
        assert!(!here.join("new.txt").exists(), "{home:?}: {ended:?}");
    }
    // The same file counts when the user names it.
    let plugin = root().join("plugins/files.wasm");
    let mut command = env.command(&["call", "write_file", "path=new.txt", "content=new"]);
    command.args(["--config", "toolhost.toml", "--plugins"]);
    let ended = CommandResult::of(&command.arg(plugin).current_dir(&here).output().unwrap());
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn settings_that_others_may_write_or_own_are_refused() {
    let env = TestEnv::new("");
    let (file, config) = (
        env.path("other.toml"),
        env.path("other.toml").display().to_string(),
    );
    fs::write(&file, "").unwrap();
    let check = || env.run(&["config", "check", &config]);
    assert_eq!(check().code, Some(0), "{:?}", check());
    fs::set_permissions(&file, Permissions::from_mode(0o646)).unwrap();
    assert_output(&check(), "run `chmod o-w` on it");
    assert_ne!(check().code, Some(0));
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    if std::os::unix::fs::chown(&file, Some(4_242), None).is_err() {
        eprintln!("skipped: only root gives a file to another user");
        return;
    }
    assert_output(&check(), "owned by another user (uid 4242)");
    assert_ne!(check().code, Some(0));
}

/// A program that a tool starts may make any link in a folder that it may write to. The next start must not take such a
/// link for the folder that the operator granted.
#[test]
fn fs_01_a_grant_through_a_link_in_a_writable_grant_is_refused() {
    let env = TestEnv::new("allow = [\"write_file\"]");
    let outside = env.path("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&outside, env.workspace().join("out")).unwrap();
    let mut command = env.command_with_plugins(&["call", "write_file", "path=out/x", "content=x"]);
    command
        .arg("--allow-path")
        .arg(format!("{}/out:rw", env.workspace().display()));
    let ended = CommandResult::of(&command.output().unwrap());
    assert_ne!(ended.code, Some(0), "{ended:?}");
    assert_output(&ended, "which tools can change");
    assert!(!outside.join("x").exists());

    // Also where one plugin has the folder and another one the link in it.
    let link = env.workspace().join("out");
    let own = format!(
        "[plugin.files]\nallowed_paths = [\"{}:rw\"]\n",
        link.display()
    );
    fs::write(env.path("host.toml"), own).unwrap();
    let ended = env.run_with_plugins(&["call", "write_file", "path=x", "content=x"]);
    assert_ne!(ended.code, Some(0), "{ended:?}");
    assert_output(&ended, "which tools can change");
    assert!(!outside.join("x").exists());
}

#[test]
fn fs_02_memory_is_not_kept_behind_a_link() {
    let env = TestEnv::new("");
    let (memory, outside) = (env.workspace().join("memory"), env.path("outside"));
    fs::create_dir_all(memory.join("projects")).unwrap();
    fs::create_dir(&outside).unwrap();
    symlink(&outside, memory.join("user")).unwrap();
    let fact = r#"{"action": "write", "scope": "user", "file": "x.md", "content": "kept", "summary": "a fact"}"#;
    let call = || {
        let mut command = env.command_with_plugins(&["call", "memory", fact, "--mode", "yolo"]);
        command
            .arg("--memory")
            .arg(&memory)
            .arg("--plugins")
            .arg(root().join("plugins/memory.wasm"));
        CommandResult::of(&command.output().unwrap())
    };
    let refused = call();
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert_output(&refused, "is a symbolic link");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    fs::remove_file(memory.join("user")).unwrap();
    let allowed = call();
    assert_eq!(allowed.code, Some(0), "{allowed:?}");
    assert_eq!(fs::metadata(memory.join("user")).unwrap().mode() & 0o077, 0);
}

#[test]
fn fs_03_events_are_not_appended_behind_a_link() {
    let env = TestEnv::new("");
    let target = env.path("profile");
    fs::write(&target, "mine\n").unwrap();
    let events = env.workspace().join("events.jsonl");
    symlink(&target, &events).unwrap();
    let mut command = env.command_with_plugins(&["call", "current_time", "--events"]);
    let ended = CommandResult::of(&command.arg(&events).output().unwrap());
    assert_ne!(ended.code, Some(0), "{ended:?}");
    assert_eq!(fs::read_to_string(&target).unwrap(), "mine\n");
    // Nobody reads from the pipe.
    let pipe = env.path("pipe");
    mkfifoat(CWD, &pipe, 0o600.into()).unwrap();
    let mut command = env.command_with_plugins(&["call", "current_time"]);
    let ended = bounded(command.arg("--events").arg(&pipe));
    assert_ne!(ended.code, Some(0), "{ended:?}");
    assert_output(&ended, "the pipe has no reader");
    let mut command =
        env.command_with_plugins(&["call", "current_time", "--events", "/dev/stderr"]);
    let ended = CommandResult::of(&command.output().unwrap());
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn the_file_of_events_is_hidden_from_tools() {
    let env = TestEnv::new("");
    let events = env.workspace().join("events.jsonl");
    let mut command = env.command_with_plugins(&["call", "read_file", "path=events.jsonl"]);
    let ended = CommandResult::of(&command.arg("--events").arg(&events).output().unwrap());
    assert_output(&ended, "is protected");
    assert!(fs::metadata(&events).unwrap().len() > 0);
}

/// Policy and program files that the configuration names, in a directory with write access.
#[test]
fn rules_and_named_programs_are_not_written_by_tools() {
    let env = TestEnv::new(
        "rules = [\"workspace/rules.toml\"]\nallow = [\"write_file\"]\n\
         [agents.helper]\ndescription = \"x\"\ncommand = \"workspace/helper.sh\"\n\
         [mcp_servers.other]\ncommand = \"workspace/server.sh\"\n",
    );
    for name in ["rules.toml", "helper.sh", "server.sh", "other.txt"] {
        fs::write(env.workspace().join(name), "").unwrap();
        let path = format!("path={name}");
        let ended = env.run_with_plugins(&["call", "write_file", &path, "content=changed"]);
        let is_free = name == "other.txt";
        assert_eq!(ended.code == Some(0), is_free, "{name}: {ended:?}");
        let text = fs::read_to_string(env.workspace().join(name)).unwrap();
        assert_eq!(text == "changed", is_free, "{name}: {ended:?}");
    }
}

/// A tool that reads the state key could forge signed state.
#[test]
fn the_state_key_is_hidden_from_tools() {
    let env = TestEnv::new("allow = [\"*\"]\n[mcp]\nask = true\nstate_key = \"workspace/key\"\n");
    let (file, key) = (env.workspace().join("key"), "k".repeat(32));
    fs::write(&file, &key).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    for arguments in [
        &["read_file", "path=key"][..],
        &[
            "write_file",
            "path=key",
            "content=changed",
            "mode=overwrite",
        ],
        &["move_file", "source=key", "destination=moved"],
        &["delete_file", "path=key"],
    ] {
        let ended = env.run_with_plugins(&[&["call"], arguments].concat());
        assert_output(&ended, "is protected");
        assert!(!ended.stdout.contains(&key), "{arguments:?}: {ended:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), key, "{arguments:?}");
    }
}

#[test]
fn imported_settings_and_discovery_commands_can_be_read_and_not_changed_by_tools() {
    let env = TestEnv::new(
        "allow = [\"write_file\", \"move_file\", \"delete_file\"]\n\
         import = [{ kind = \"claude\", file = \"workspace/settings.json\" }, \
                   { kind = \"gemini\", file = \"workspace/gemini.toml\" }]\n\
         [tools]\ndiscovery_command = \"workspace/tell.sh --list=workspace/list.json\"\n\
         call_command = \"sh workspace/run.sh\"\n",
    );
    let texts = [
        (
            "settings.json",
            r#"{"permissions": {"deny": ["Bash(rm *)"]}}"#,
        ),
        (
            "gemini.toml",
            "[[rule]]\ntoolName = \"x\"\ndecision = \"deny\"\npriority = 1\n",
        ),
        ("tell.sh", "echo '[]'\n"),
        ("list.json", "[]"),
        ("run.sh", "cat\n"),
        ("other.txt", "other"),
    ];
    for (name, text) in texts {
        fs::write(env.workspace().join(name), text).unwrap();
    }
    for (name, text) in texts {
        let (path, from) = (format!("path={name}"), format!("source={name}"));
        let read = env.run_with_plugins(&["call", "read_file", &path]);
        assert_eq!(read.code, Some(0), "{name}: {read:?}");
        for arguments in [
            &["write_file", &path, "content=changed", "mode=overwrite"][..],
            &["move_file", &from, "destination=moved"],
            &["delete_file", &path],
        ] {
            let is_free = name == "other.txt";
            if is_free {
                fs::write(env.workspace().join(name), text).unwrap();
            }
            let ended = env.run_with_plugins(&[&["call"], arguments].concat());
            assert_eq!(ended.code == Some(0), is_free, "{arguments:?}: {ended:?}");
            let now = fs::read_to_string(env.workspace().join(name)).ok();
            assert_eq!(
                now.as_deref() != Some(text),
                is_free,
                "{arguments:?}: {ended:?}"
            );
        }
    }
}

/// The folder that is granted holds everything that the host keeps, and the program that runs there has a rule.
#[test]
fn fs_04_a_confined_program_reaches_nothing_that_the_host_keeps() {
    let env = TestEnv::new("");
    fs::create_dir(env.path("cache")).unwrap();
    fs::write(env.path("cache/key"), "key").unwrap();
    assert_eq!(env.run(&["calls"]).code, Some(0), "makes the store");
    let whole = env.path("");
    let script = "for f in state/store/store.db cache/key host.toml; do \
        cat $f >/dev/null 2>&1 && echo read $f; \
        (echo x >> $f) 2>/dev/null && echo wrote $f; \
        mv $f $f.old 2>/dev/null && echo moved $f; \
        ln -s $f link 2>/dev/null && cat link >/dev/null 2>&1 && echo linked $f; \
        rm -f link; \
        done; mv state old 2>/dev/null && echo moved state; \
        : > state/store/x 2>/dev/null && echo made; echo ended";
    let mut command = env.command(&["call", "shell", "--mode", "yolo", "--allow-program", "bash"]);
    command
        .arg(format!("command={script}"))
        .arg("--plugins")
        .arg(root().join("plugins/shell.wasm"))
        .arg("--allow-path")
        .arg(format!("{}:rw", whole.display()))
        .arg("--config")
        .arg(env.path("host.toml"))
        .env("TOOLHOST_CACHE_DIR", env.path("cache"));
    let ended = CommandResult::of(&command.output().unwrap());
    assert_output(&ended, "ended");
    for word in [
        "wrote",
        "moved",
        "linked",
        "made",
        "read state",
        "read cache",
    ] {
        assert!(!ended.stdout.contains(word), "{word}: {ended:?}");
    }
    assert!(env.database().exists());
    assert_eq!(env.run(&["audit", "verify"]).code, Some(0));
}

#[test]
fn fs_05_state_behind_another_users_link_is_refused() {
    let env = TestEnv::new("");
    fs::create_dir(env.path("real")).unwrap();
    fs::set_permissions(env.path("real"), Permissions::from_mode(0o700)).unwrap();
    symlink(env.path("real"), env.path("state")).unwrap();
    assert_eq!(
        env.run_with_plugins(&["call", "current_time"]).code,
        Some(0)
    );
    if std::os::unix::fs::lchown(env.path("state"), Some(12_345), None).is_err() {
        eprintln!("only root can give a link away; the rest is not tested");
        return;
    }
    let ended = env.run_with_plugins(&["call", "current_time"]);
    assert_ne!(ended.code, Some(0), "{ended:?}");
    assert_output(&ended, "belongs to user 12345");
}
