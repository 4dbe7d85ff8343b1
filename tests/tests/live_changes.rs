//! Changes of a running host: plugins that are added, replaced, removed and watched, the project of `host dev`, and servers
//! of the configuration.
//! Clients are notified, running calls are completed, and a version that cannot be loaded leaves the old one in use.

#[path = "live_changes/server.rs"]
mod server;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Instant;

use e2e::test_env::{TestEnv, poll_until};
use e2e::{Guest, target};
use serde_json::{Value, json};

use self::server::{Server, control_file, shipped, spawn};

/// Appends an empty custom section, so that the component has another digest and the same tools.
fn change_digest(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    bytes.extend(*b"\x00\x05\x04test");
    let new = file.with_extension("new");
    fs::write(&new, bytes).unwrap();
    fs::rename(new, file).unwrap();
}

fn path(file: &Path) -> &str {
    file.to_str().unwrap()
}

#[test]
fn r_006_a_plugin_is_added_to_and_removed_from_a_running_host() {
    let mut server = Server::start(&["data"], &[]);
    assert!(!server.has_tool("sleep"));

    let added = server.change(&["add", path(&shipped("system"))]);
    assert_eq!(added.code, Some(0), "{}", added.stderr);
    assert!(
        added.stdout.starts_with("added system "),
        "{}",
        added.stdout
    );
    server.wait_for_list_changed();
    assert!(server.has_tool("sleep"));
    let again = server.change(&["add", path(&shipped("system"))]);
    assert_eq!(again.stdout.trim(), "nothing changed");

    // A call that runs is completed after its plugin was removed.
    let sleep = json!({"name": "sleep", "arguments": {"duration": 2}});
    let running = server.start_request("tools/call", &sleep);
    poll_until(|| {
        let calls = server
            .env
            .run_json(&["calls", "--state", "executing", "--json"]);
        calls[0]["id"].as_str().map(|_| ())
    });
    let removed = server.change(&["remove", "system"]);
    assert_eq!(removed.code, Some(0), "{}", removed.stderr);
    assert!(removed.stdout.starts_with("removed system "));
    let result = server.receive(|message| message["id"] == running);
    assert_eq!(result["result"]["isError"], json!(false), "{result}");
    assert!(!server.has_tool("sleep"));

    let unknown = server.change(&["remove", "system"]);
    assert_eq!(unknown.code, Some(1));
    assert_eq!(
        unknown.stderr.trim(),
        "error: no plugin `system` is loaded; loaded plugins: data"
    );
}

#[test]
fn a_version_that_cannot_be_loaded_leaves_the_old_one_in_use() {
    let mut server = Server::start(&["data"], &[]);
    let good = fs::read(server.plugin("data")).unwrap();
    fs::write(server.plugin("data"), "not a component").unwrap();
    let failed = server.change(&["reload"]);
    assert_eq!(failed.code, Some(1));
    assert!(failed.stderr.contains("data.wasm"), "{}", failed.stderr);
    assert!(server.has_tool("base64_encode"));
    let call = json!({"name": "base64_encode", "arguments": {"text": "hi"}});
    let result = server.request("tools/call", &call);
    assert_eq!(result["isError"], json!(false), "{result}");

    fs::write(server.plugin("data"), good).unwrap();
    assert_eq!(server.change(&["reload"]).stdout.trim(), "nothing changed");
    change_digest(&server.plugin("data"));
    let replaced = server.change(&["reload", "data"]);
    assert!(
        replaced.stdout.starts_with("replaced data "),
        "{replaced:?}"
    );
    fs::remove_file(server.plugin("data")).unwrap();
    let removed = server.change(&["reload"]);
    assert!(removed.stdout.starts_with("removed data "), "{removed:?}");
    assert!(!server.has_tool("base64_encode"));
}

#[test]
fn one_of_two_files_of_a_version_is_used_until_both_are_removed() {
    let env = TestEnv::new("");
    fs::create_dir(env.path("plugins")).unwrap();
    for name in ["first", "second"] {
        fs::copy(shipped("data"), env.path(&format!("plugins/{name}.wasm"))).unwrap();
    }
    change_digest(&env.path("plugins/second.wasm"));
    let mut server = Server::start_in(env, &["--on-duplicate", "replace"]);
    let (first, second) = (server.plugin("first"), server.plugin("second"));
    let with_second = server.digest_of_call("base64_encode");

    // The later file is used, also when the first one is built again.
    for _ in 0..2 {
        change_digest(&first);
    }
    let replaced = server.change(&["reload"]).stdout;
    assert!(replaced.trim().ends_with(": no tools"), "{replaced}");
    assert_eq!(server.digest_of_call("base64_encode"), with_second);
    let built = fs::read(&first).unwrap();
    fs::remove_file(&first).unwrap();
    let removed = server.change(&["reload"]).stdout;
    assert!(removed.starts_with("removed data "), "{removed}");
    assert_eq!(server.digest_of_call("base64_encode"), with_second);

    fs::write(&first, built).unwrap();
    assert_eq!(server.change(&["reload"]).code, Some(0));
    assert_ne!(server.digest_of_call("base64_encode"), with_second);
    fs::remove_file(&first).unwrap();
    assert_eq!(server.change(&["reload"]).code, Some(0));
    assert_eq!(server.digest_of_call("base64_encode"), with_second);
    fs::remove_file(&second).unwrap();
    let removed = server.change(&["reload"]).stdout;
    assert!(removed.contains("base64_encode"), "{removed}");
    assert!(!server.has_tool("base64_encode"));
}

#[test]
fn watched_directories_are_reloaded() {
    let mut server = Server::start(&["data"], &["--watch"]);
    let file = server.plugin("system");
    fs::copy(shipped("system"), file.with_extension("new")).unwrap();
    fs::rename(file.with_extension("new"), &file).unwrap();
    server.wait_for_list_changed();
    assert!(server.has_tool("sleep"));
    fs::remove_file(file).unwrap();
    server.wait_for_list_changed();
    assert!(!server.has_tool("sleep"));
}

#[test]
fn watched_directories_can_be_missing_and_replaced() {
    let env = TestEnv::new("");
    for directory in ["plugins", "next"] {
        fs::create_dir(env.path(directory)).unwrap();
    }
    fs::copy(shipped("data"), env.path("plugins/data.wasm")).unwrap();
    fs::copy(shipped("system"), env.path("next/system.wasm")).unwrap();
    fs::write(
        env.path("host.toml"),
        "plugins = [\"plugins\", \"build\", \"link\"]\n",
    )
    .unwrap();
    let mut command = env.command(&["run", "--watch", "--config", "host.toml"]);
    let messages = env.path("messages");
    command.stderr(fs::File::create(&messages).unwrap());
    let mut server = Server::start_command(env, command);
    let [build, next, old, link] =
        ["build", "next", "old", "link"].map(|name| server.env.path(name));
    fs::rename(&next, &build).unwrap();
    server.wait_until_listed("sleep", true);
    fs::rename(&build, &old).unwrap();
    fs::create_dir(&build).unwrap();
    server.wait_until_listed("sleep", false);
    fs::copy(shipped("system"), build.join("system.wasm")).unwrap();
    server.wait_until_listed("sleep", true);
    fs::remove_dir_all(&build).unwrap();
    server.wait_until_listed("sleep", false);
    let messages = fs::read_to_string(messages).unwrap();
    for end in ["does not exist; it is watched once it exists", "is watched"] {
        let message = format!("note: {} {end}\n", build.display());
        assert!(messages.contains(&message), "{messages}");
    }
    // A link gets another target, for which there is no event.
    symlink(&old, &link).unwrap();
    server.wait_until_listed("sleep", true);
    symlink(server.env.path("plugins"), server.env.path("new")).unwrap();
    fs::rename(server.env.path("new"), &link).unwrap();
    server.wait_until_listed("sleep", false);
}

#[test]
fn a_plugin_that_tools_could_replace_is_not_added() {
    let server = Server::start(&["data"], &["--allow-path", "workspace:rw"]);
    let file = server.env.workspace().join("system.wasm");
    fs::copy(shipped("system"), &file).unwrap();
    let refused = server.change(&["add", path(&file)]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused
            .stderr
            .contains("in a directory that tools can write to"),
        "{}",
        refused.stderr
    );
    // Nor through a symbolic link.
    let link = server.env.path("link.wasm");
    symlink(&file, &link).unwrap();
    assert_eq!(server.change(&["add", path(&link)]).code, Some(1));
}

#[test]
fn a_host_is_selected_by_its_process_id() {
    let none = TestEnv::new("").run(&["plugins", "reload"]);
    assert_eq!(none.code, Some(2));
    assert!(
        none.stderr.contains("no host is running"),
        "{}",
        none.stderr
    );

    let server = Server::start(&["data"], &[]);
    let mut second = server.env.command(&["run", "--plugins", "plugins"]);
    second.args(["--http", "127.0.0.1:0", "--http-no-token"]);
    let mut second = spawn(second);
    let file = control_file(&server.env, second.id());
    let several = server.change(&["reload"]);
    assert_eq!(several.code, Some(2));
    for pid in [server.child.id(), second.id()] {
        assert!(several.stderr.contains(&format!("--pid {pid}")));
    }
    let one = server.change(&["reload", "--pid", &second.id().to_string()]);
    assert_eq!(one.code, Some(0), "{}", one.stderr);
    // The files of a host that was killed do not count.
    second.kill().unwrap();
    second.wait().unwrap();
    let one = server.change(&["reload"]);
    assert_eq!(one.code, Some(0), "{}", one.stderr);
    assert!(!file.exists());
}

#[test]
fn the_control_socket_requires_its_token() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixStream;
    let server = Server::start(&["data"], &[]);
    let file = server.control_file();
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let directory = file.parent().unwrap();
    assert_eq!(
        directory.metadata().unwrap().permissions().mode() & 0o777,
        0o700
    );
    let socket = file.with_extension("sock");
    for (line, reason) in [
        (
            r#"{"token":"guess","request":{"remove_plugin":{"name":"data"}}}"#,
            "wrong token",
        ),
        (r#"{"request":"reload_servers"}"#, "not a request"),
        ("", "not a request"),
    ] {
        let mut stream = UnixStream::connect(&socket).unwrap();
        writeln!(stream, "{line}").unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        assert!(answer.contains(reason), "{answer}");
    }
    let listed = server.change(&["reload", "data"]);
    assert_eq!(listed.stdout.trim(), "nothing changed", "{}", listed.stderr);
}

#[test]
fn an_approval_for_the_session_does_not_cover_a_new_version() {
    let env = TestEnv::new("");
    let file = env.path("files.wasm");
    fs::copy(shipped("files"), &file).unwrap();
    let mut command = env.command(&["turns", "--plugins", "files.wasm", "--config", "host.toml"]);
    command.args(["--allow-path", "workspace:rw"]);
    let mut child = spawn(command);
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut read = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    let mut call = |number: u32| {
        let input = json!({"path": "a.txt", "content": format!("{number}\n")});
        let calls = json!([{"id": number.to_string(), "name": "write_file", "input": input}]);
        writeln!(stdin, "{}", json!({"calls": calls})).unwrap();
        let first = read();
        let Some(id) = first["ask"]["id"].as_str() else {
            return first;
        };
        let offers = first["ask"]["offers"].as_array().unwrap();
        let session = offers.iter().position(|offer| {
            let offer = offer.as_str().unwrap();
            offer.contains("session")
        });
        writeln!(
            stdin,
            "{}",
            json!({"answer": {"id": id, "allow": session.unwrap()}})
        )
        .unwrap();
        let results = read();
        json!({"asked": true, "results": results["results"]})
    };
    assert_eq!(call(1)["asked"], json!(true));
    let second = call(2);
    assert_eq!(second["asked"], json!(null), "{second}");
    change_digest(&file);
    let replaced = env.run(&["plugins", "reload"]);
    assert!(
        replaced.stdout.starts_with("replaced files "),
        "{replaced:?}"
    );
    assert_eq!(call(3)["asked"], json!(true));
    drop(stdin);
    child.wait().unwrap();
}

#[test]
fn own_hooks_of_an_added_plugin_guard_its_tools() {
    let guest = Guest::new("preview", &["fs.read", "fs.write"], "");
    let mut server = Server::start(
        &["data"],
        &["--allow-path", "workspace:rw", "--allow-tool", "*"],
    );
    let added = server.change(&["add", path(&guest.plugin())]);
    assert_eq!(added.code, Some(0), "{}", added.stderr);
    let arguments = json!({"name": "secret.txt", "lines": 1});
    let refused = server.request(
        "tools/call",
        &json!({"name": "preview", "arguments": arguments}),
    );
    assert_eq!(refused["isError"], json!(true), "{refused}");
    let arguments = json!({"name": "a.txt", "lines": 1});
    let allowed = server.request(
        "tools/call",
        &json!({"name": "preview", "arguments": arguments}),
    );
    assert_eq!(allowed["isError"], json!(false), "{allowed}");
}

#[test]
fn r_073_the_discovery_command_runs_again_and_its_tools_replace_the_earlier_ones() {
    let env = TestEnv::new("");
    fs::create_dir(env.path("plugins")).unwrap();
    fs::copy(shipped("data"), env.path("plugins/data.wasm")).unwrap();
    let list = env.path("tools.json");
    let command = format!("cat {}", list.display());
    let config = format!("[tools]\ndiscovery_command = {command:?}\ncall_command = \"true\"\n");
    fs::write(env.path("host.toml"), config).unwrap();
    let declare = |names: &[&str]| {
        let tools = names
            .iter()
            .map(|name| json!({"name": name, "description": "A tool."}));
        fs::write(&list, tools.collect::<Value>().to_string()).unwrap();
    };
    declare(&["one", "two"]);
    let approve = [
        "mcp",
        "approve",
        "discovery-command",
        "--yes",
        "--config",
        "host.toml",
    ];
    let approved = env.run(&approve);
    assert_eq!(approved.code, Some(0), "{}", approved.stderr);
    let mut server = Server::start_in(env, &[]);
    assert!(server.has_tool("discovered__two"));
    declare(&["one"]);
    for _ in 0..2 {
        let refreshed = server.env.run(&["mcp", "refresh"]);
        assert_eq!(refreshed.code, Some(0), "{}", refreshed.stderr);
        assert_eq!(refreshed.stdout.trim(), "the discovery command: 1 tool");
        let tools = server.tools();
        let discovered = tools.iter().filter(|tool| tool.starts_with("discovered__"));
        assert_eq!(discovered.collect::<Vec<_>>(), ["discovered__one"]);
    }
    // A failure is an error and leaves the tools in place.
    fs::write(&list, "not JSON").unwrap();
    assert_eq!(server.env.run(&["mcp", "refresh"]).code, Some(1));
    assert!(server.has_tool("discovered__one"));
}

#[test]
fn r_075_servers_of_the_configuration_are_added_updated_and_removed_while_the_host_runs() {
    let mut server = Server::start(&["data"], &[]);
    let host = e2e::host(&[]).get_program().to_string_lossy().into_owned();
    let (system, search) = (shipped("system"), shipped("search"));
    let manage = |server: &Server, args: &[&str]| {
        // Another spelling of the path that the host was started with.
        let config = server.env.path("plugins/../host.toml");
        let config = ["--config", path(&config)];
        let (verb, rest) = args.split_first().unwrap();
        let ended = server
            .env
            .run(&[&["mcp", verb], &config[..], rest].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended
    };
    let run = |plugin: &'static str| {
        [
            "own",
            "--unconfined",
            "--yes",
            "--",
            "HOST",
            "run",
            "--no-store",
            "--plugins",
            plugin,
        ]
    };
    let with = |plugin: &Path| {
        let mut words: Vec<String> = run("").map(str::to_owned).to_vec();
        words[4].clone_from(&host);
        *words.last_mut().unwrap() = path(plugin).to_owned();
        words
    };
    for (verb, plugin, tool) in [
        ("add", &system, "mcp__own__sleep"),
        ("update", &search, "mcp__own__grep"),
    ] {
        let words = with(plugin);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ended = manage(&server, &[&[verb], &words[..]].concat());
        assert!(
            ended.stderr.contains("server own: connected"),
            "{}",
            ended.stderr
        );
        assert!(server.has_tool(tool), "{tool}");
    }
    assert!(!server.has_tool("mcp__own__sleep"));
    manage(&server, &["remove", "own"]);
    assert!(!server.has_tool("mcp__own__grep"));
    let idle = server.env.run(&["mcp", "refresh"]);
    assert_eq!(idle.stdout.trim(), "nothing changed", "{}", idle.stderr);
}

#[test]
fn host_dev_builds_and_loads_a_project_on_save() {
    let env = TestEnv::new("");
    let project = env.path("project");
    fs::create_dir_all(project.join("src")).unwrap();
    // Building is copying; a source that is no component fails in the host, and a missing one in the build.
    let build = "command = [\"cp\", \"src/source.wasm\", \"built.wasm\"]\ncomponent = \"built.wasm\"\nsources = [\"src\"]\n";
    fs::write(project.join("toolhost-build.toml"), build).unwrap();
    let manifest = "name = \"project\"\nversion = \"0.1.0\"\ndescription = \"A project\"\n";
    fs::write(project.join("plugin.toml"), manifest).unwrap();
    let guest = |name: &str| fs::read(target().join(format!("guests/{name}.wasm"))).unwrap();
    let source = project.join("src/source.wasm");
    let save = |content: &[u8]| {
        fs::write(source.with_extension("new"), content).unwrap();
        fs::rename(source.with_extension("new"), &source).unwrap();
    };
    save(&guest("counter"));
    let log = env.path("stderr.txt");
    let mut command = env.command(&["dev", "project", "--config", "host.toml"]);
    command.stderr(fs::File::create(&log).unwrap());
    let mut server = Server::start_command(env, command);
    let logged = |text: &str| {
        poll_until(|| {
            fs::read_to_string(&log)
                .unwrap()
                .contains(text)
                .then_some(())
        });
    };
    assert!(server.has_tool("counter"));

    let start = Instant::now();
    save(&guest("big_output"));
    server.wait_for_list_changed();
    println!("saved to loaded: {} ms", start.elapsed().as_millis());
    assert!(server.has_tool("big_output") && !server.has_tool("counter"));

    save(b"no component");
    logged("is not a WebAssembly component");
    assert!(server.has_tool("big_output"));
    fs::remove_file(&source).unwrap();
    logged("the build failed (exit status: 1); the last version keeps serving");
    assert!(server.has_tool("big_output"));
    save(&guest("counter"));
    server.wait_for_list_changed();
    assert!(server.has_tool("counter"));
}
