//! Packages from files and from a registry: what is installed, refused, updated, synchronized and revoked, and what
//! running hosts do.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use e2e::client_kits::kit;
use e2e::registry::Registry;
use e2e::test_env::TestEnv;
use e2e::{CommandResult, root, target};

/// A user with a home of its own.
struct User {
    env: TestEnv,
}

impl User {
    fn new() -> Self {
        let env = TestEnv::new("");
        fs::copy(shipped("data"), env.path("data.wasm")).unwrap();
        Self { env }
    }

    /// Runs a command that must exit with this code.
    fn run(&self, code: i32, args: &[&str]) -> CommandResult {
        let ended = self.env.run(args);
        assert_eq!(ended.code, Some(code), "{args:?}: {ended:?}");
        ended
    }

    fn new_key(&self, name: &str) -> String {
        let public = self.run(0, &["key", "new", name]).stdout;
        let path = self.env.path(&format!("{name}.pub"));
        fs::write(&path, public).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A plugin of the component `plain_functions`, with these needs.
    fn pack(&self, version: &str, needs: &[&str]) -> String {
        let needs = needs
            .iter()
            .map(|need| format!("[[needs]]\ncapability = \"{need}\"\nwhy = \"an example\"\n"));
        let manifest = format!(
            "name = \"notes\"\nversion = \"{version}\"\ndescription = \"Notes\"\n{}",
            needs.collect::<String>()
        );
        let output = self.env.path(&format!("notes-{version}.wasm"));
        fs::write(self.env.path("plugin.toml"), manifest).unwrap();
        let component = target().join("guests/plain_functions.wasm");
        let (component, output) = (component.to_str().unwrap(), output.to_str().unwrap());
        let args = [
            "pack",
            component,
            "--manifest",
            "plugin.toml",
            "--output",
            output,
        ];
        self.run(0, &args);
        output.to_owned()
    }

    fn encodes(&self) -> bool {
        let ended = self.env.run(&["call", "base64_encode", "text=hello"]);
        ended.code == Some(0) && ended.stdout == "aGVsbG8=\n"
    }
}

fn shipped(name: &str) -> PathBuf {
    root().join(format!("plugins/{name}.wasm"))
}

#[test]
fn an_installed_file_is_served_until_it_is_removed() {
    let user = User::new();
    let nothing = user.run(0, &["list"]);
    assert!(
        nothing.stdout.contains("nothing is installed"),
        "{nothing:?}"
    );
    let refused = user.run(5, &["add", "data.wasm"]);
    assert!(
        refused.stdout.contains("base64_encode (pure)"),
        "{refused:?}"
    );
    assert!(!user.encodes());
    user.run(0, &["add", "data.wasm", "--yes"]);
    // The file of the author is not used any more.
    fs::remove_file(user.env.path("data.wasm")).unwrap();
    assert!(user.encodes());
    let listed = user.env.run_json(&["list", "--json"]);
    assert_eq!(listed[0]["name"], "data", "{listed}");
    let missing = user.run(2, &["remove", "other"]);
    assert!(missing.stderr.contains("installed: data"), "{missing:?}");
    user.run(0, &["remove", "data"]);
    assert!(!user.encodes());
}

#[test]
fn only_the_installed_bytes_are_loaded() {
    let user = User::new();
    user.run(0, &["add", "data.wasm", "--yes"]);
    user.run(0, &["lock"]);
    let file = user.run(0, &["info", "data"]);
    let file = file
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("  file       "));
    fs::copy(shipped("agent"), file.unwrap()).unwrap();
    let refused = user.run(4, &["call", "base64_encode", "text=hello"]);
    assert!(refused.stderr.contains("has the digest"), "{refused:?}");
    let checked = user.run(11, &["sync", "--check"]);
    assert!(checked.stdout.contains("has the digest"), "{checked:?}");
    // Installing it again repairs it.
    user.run(0, &["add", "data.wasm", "--yes"]);
    assert!(user.encodes());
    fs::write(file.unwrap(), "").unwrap();
    user.run(0, &["sync", "--yes"]);
    user.run(0, &["sync", "--check"]);
}

#[test]
fn packages_with_the_names_of_others_tools_are_refused() {
    let user = User::new();
    user.run(0, &["add", "data.wasm", "--yes"]);
    let manifest = "name = \"copycat\"\nversion = \"1.0.0\"\ndescription = \"d\"\n";
    fs::write(user.env.path("plugin.toml"), manifest).unwrap();
    let guest = target().join("guests/plain_functions.wasm");
    let functions = manifest.to_owned()
        + "[[functions]]\nfunction = \"notes.load\"\nname = \"base64_encode\"\n";
    fs::copy(guest, user.env.path("copycat.wasm")).unwrap();
    fs::write(user.env.path("copycat.plugin.toml"), functions).unwrap();
    let ended = user.env.run(&["add", "copycat.wasm", "--yes"]);
    assert_eq!(ended.code, Some(5), "{ended:?}");
    assert!(
        ended
            .stderr
            .contains("the name of a tool of the installed plugin data"),
        "{ended:?}"
    );
}

#[test]
fn a_lock_file_grants_nothing_and_is_checked() {
    let user = User::new();
    user.run(0, &["add", "data.wasm", "--yes"]);
    user.run(0, &["lock"]);
    let path = user.env.path("toolhost.lock");
    let lock = fs::read_to_string(&path).unwrap();
    assert!(lock.contains("source = \"./data.wasm\""), "{lock}");
    for (from, to, code, message) in [
        (
            "version = 1\n",
            "version = 2\n",
            3,
            "version 2 is not supported",
        ),
        (
            "needs = []",
            "needs = []\ngrants = [\"/\"]",
            3,
            "unknown field",
        ),
        ("size = ", "size = 9", 11, "another size"),
        ("needs = []", "needs = [\"fs.write\"]", 11, "another needs"),
        (
            "effect = \"pure\"",
            "effect = \"reads\"",
            11,
            "another tools",
        ),
    ] {
        assert!(lock.contains(from), "{from}");
        fs::write(&path, lock.replacen(from, to, 1)).unwrap();
        let ended = user.run(code, &["sync", "--check"]);
        let shown = format!("{}{}", ended.stdout, ended.stderr);
        assert!(shown.contains(message), "{message}: {shown}");
    }
    // Another file than the locked one is not installed.
    fs::write(&path, &lock).unwrap();
    user.run(0, &["remove", "data"]);
    fs::write(&path, &lock).unwrap();
    fs::copy(shipped("agent"), user.env.path("data.wasm")).unwrap();
    let ended = user.run(10, &["sync", "--yes"]);
    assert!(ended.stderr.contains("has the digest"), "{ended:?}");
    // The locked file, described wrongly.
    fs::copy(shipped("data"), user.env.path("data.wasm")).unwrap();
    fs::write(&path, lock.replacen("\"pure\"", "\"reads\"", 1)).unwrap();
    let ended = user.run(10, &["sync", "--yes"]);
    let expected = "is not what the lock file states (tools)";
    assert!(ended.stderr.contains(expected), "{ended:?}");
    fs::remove_file(&path).unwrap();
    user.run(2, &["sync"]);
}

#[test]
fn two_commands_at_once_both_succeed_or_say_why() {
    let user = User::new();
    let files: Vec<String> = ["data", "agent", "memory", "system"]
        .map(|name| shipped(name).to_str().unwrap().to_owned())
        .into();
    let running: Vec<_> = files
        .iter()
        .map(|file| {
            let mut command = user.env.command(&["add", file, "--yes"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    for child in running {
        let ended = CommandResult::of(&child.wait_with_output().unwrap());
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    let listed = user.env.run_json(&["list", "--json"]);
    assert_eq!(listed.as_array().unwrap().len(), files.len(), "{listed}");
}

/// Wherever a command is killed, the plugin is installed completely or not at all.
#[test]
fn a_killed_command_leaves_the_old_state_or_the_new_one() {
    let user = User::new();
    let started = std::time::Instant::now();
    user.run(0, &["add", "data.wasm", "--yes"]);
    let whole = started.elapsed();
    for part in 1..=8_u32 {
        user.run(0, &["remove", "data"]);
        let mut command = user.env.command(&["add", "data.wasm", "--yes"]);
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(whole * part / 8);
        child.kill().unwrap();
        child.wait().unwrap();
        let listed = user.env.run_json(&["list", "--json"]);
        let is_installed = !listed.as_array().unwrap().is_empty();
        assert_eq!(user.encodes(), is_installed);
        user.run(0, &["add", "data.wasm", "--yes"]);
    }
}

#[test]
fn signed_packages_are_pinned_to_their_key() {
    let Some(registry) = Registry::start(false) else {
        return;
    };
    let (ann, bob) = (User::new(), User::new());
    let (ann_pub, mallory_pub) = (ann.new_key("ann"), ann.new_key("mallory"));
    let reference = format!("{}/ann/notes:1", registry.address);
    let (first, second) = (
        ann.pack("1.0.0", &["fs.read"]),
        ann.pack("2.0.0", &["fs.read"]),
    );
    let missing = bob.run(12, &["add", &reference]);
    assert!(missing.stderr.contains("does not exist"), "{missing:?}");
    ann.run(0, &["publish", &first, &reference, "--key", "ann"]);
    for (code, options, message) in [
        (10, &["--yes"][..], "the key is not known"),
        (
            10,
            &["--yes", "--key", &mallory_pub],
            "signed by another key",
        ),
        (5, &["--key", &ann_pub], "no terminal"),
        (0, &["--yes", "--key", &ann_pub], ""),
    ] {
        let ended = bob.run(code, &[&["add", &reference][..], options].concat());
        assert!(ended.stderr.contains(message), "{message}: {ended:?}");
    }
    // The same tag, by another author, and without a signature.
    ann.run(0, &["publish", &second, &reference, "--key", "mallory"]);
    let refused = bob.run(10, &["update", "--yes"]);
    assert!(
        refused.stderr.contains("signed by another key"),
        "{refused:?}"
    );
    let unsigned = format!("{}/ann/unsigned:1", registry.address);
    ann.run(0, &["publish", "data.wasm", &unsigned]);
    let refused = bob.run(10, &["add", &unsigned, "--yes"]);
    assert!(refused.stderr.contains("--allow-unsigned"), "{refused:?}");
    let refused = bob.run(10, &["add", &unsigned, "--yes", "--key", &ann_pub]);
    assert!(refused.stderr.contains("not signed"), "{refused:?}");
    // The first version is still installed, and can be installed elsewhere from the lock file.
    bob.run(0, &["lock"]);
    let carol = User::new();
    fs::copy(
        bob.env.path("toolhost.lock"),
        carol.env.path("toolhost.lock"),
    )
    .unwrap();
    carol.run(11, &["sync", "--check"]);
    carol.run(0, &["sync", "--yes"]);
    carol.run(0, &["sync", "--check"]);
    assert_eq!(
        carol.env.run_json(&["list", "--json"]),
        bob.env.run_json(&["list", "--json"])
    );
    // A new version by the same author.
    ann.run(0, &["publish", &second, &reference, "--key", "ann"]);
    let updated = bob.run(0, &["update"]);
    assert!(
        updated.stdout.contains("notes 1.0.0 -> 2.0.0"),
        "{updated:?}"
    );
    // One with more needs waits for approval.
    let third = ann.pack("3.0.0", &["fs.read", "fs.write"]);
    ann.run(0, &["publish", &third, &reference, "--key", "ann"]);
    let waiting = bob.run(5, &["update"]);
    assert!(
        waiting.stdout.contains("! new need: fs.write"),
        "{waiting:?}"
    );
    bob.run(0, &["update", "--yes"]);
}

#[test]
fn policies_apply_by_reference() {
    let Some(registry) = Registry::start(false) else {
        return;
    };
    let user = User::new();
    let (ann_pub, bob_pub) = (user.new_key("ann"), user.new_key("bob"));
    let reference = format!("{}/ann/notes:1", registry.address);
    let plugin = user.pack("1.0.0", &[]);
    user.run(0, &["publish", &plugin, &reference, "--key", "ann"]);
    let config = user.env.path("trust.toml");
    let add = |trust: &str, code, options: &[&str]| {
        fs::write(&config, trust).unwrap();
        let args = ["add", &reference, "--yes", "--config", "trust.toml"];
        user.run(code, &[&args[..], options].concat());
        user.env.run(&["remove", "notes"]);
    };
    let from = format!("{}/ann/*", registry.address);
    let rule = |key: &str| {
        format!("[[signatures.rule]]\nfrom = \"{from}\"\nkeys = [\"{key}\"]\nrequired = true\n")
    };
    add(&rule(&ann_pub), 0, &[]);
    add(&rule(&bob_pub), 10, &[]);
    // A key of the command line does not replace a required one.
    add(&rule(&bob_pub), 10, &["--key", &ann_pub]);
    add(
        "[signatures]\nkeys = [\"ann.pub\"]\nrequired = true\n",
        0,
        &[],
    );
    // Trust that was withdrawn also stops a package that is installed.
    fs::write(&config, rule(&ann_pub)).unwrap();
    user.run(0, &["add", &reference, "--yes", "--config", "trust.toml"]);
    user.run(0, &["tools", "--config", "trust.toml"]);
    fs::write(&config, rule(&bob_pub)).unwrap();
    let refused = user.run(4, &["tools", "--config", "trust.toml"]);
    assert!(
        refused.stderr.contains("requires another key"),
        "{refused:?}"
    );
}

#[test]
fn revoked_versions_stop_also_while_a_host_runs() {
    let Some(registry) = Registry::start(false) else {
        return;
    };
    let (ann, bob) = (User::new(), User::new());
    let ann_pub = ann.new_key("ann");
    let mallory_pub = ann.new_key("mallory");
    let reference = format!("{}/ann/notes", registry.address);
    let others = format!("{}/mallory/data", registry.address);
    let first = ann.pack("1.0.0", &[]);
    ann.run(0, &["publish", &first, &reference, "--key", "ann"]);
    ann.run(0, &["publish", "data.wasm", &others, "--key", "mallory"]);
    bob.run(0, &["add", &reference, "--yes", "--key", &ann_pub]);
    bob.run(0, &["add", &others, "--yes", "--key", &mallory_pub]);
    let mut host = bob.env.command(&["turns"]);
    let mut host = host
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It has written its address when it accepts changes.
    e2e::test_env::poll_until(|| {
        let hosts = fs::read_dir(bob.env.path("state/hosts")).ok()?;
        let mut hosts = hosts.flatten().map(|entry| entry.path());
        hosts.find(|path| path.extension().is_some_and(|kind| kind == "json"))
    });
    // Mallory cannot revoke the plugin of Ann.
    let revoke = |user: &User, file: &str, key: &str, repository: &str| {
        let args = [
            "revoke",
            file,
            "--reason",
            "it\u{1b}[31m leaks",
            "--key",
            key,
            "--publish",
        ];
        user.run(0, &[&args[..], &[repository]].concat());
    };
    revoke(&ann, &first, "mallory", &others);
    let still = bob.run(0, &["update"]);
    assert!(
        still.stdout.contains("notes 1.0.0 is up to date"),
        "{still:?}"
    );
    revoke(&ann, &first, "ann", &reference);
    let ended = bob.run(10, &["update"]);
    assert!(ended.stderr.contains("was revoked by the key"), "{ended:?}");
    assert!(!ended.stderr.contains('\u{1b}'), "{ended:?}");
    assert!(ended.stderr.contains("removed notes 1.0.0"), "{ended:?}");
    drop(host.stdin.take());
    host.wait().unwrap();
    // Data, whose author revoked only the plugin of another one, still runs.
    assert!(bob.encodes());
    let refused = bob.run(10, &["add", &reference, "--yes", "--key", &ann_pub]);
    assert!(refused.stderr.contains("was revoked"), "{refused:?}");
    // A fixed version is installed.
    let second = ann.pack("1.0.1", &[]);
    ann.run(0, &["publish", &second, &reference, "--key", "ann"]);
    bob.run(0, &["update"]);
}

#[test]
fn registries_with_a_login_use_that_of_docker() {
    let Some(registry) = Registry::start(true) else {
        return;
    };
    let user = User::new();
    let reference = format!("{}/ann/data:1", registry.address);
    let run = |code: i32, docker: &str, args: &[&str]| {
        let mut command: Command = user.env.command(args);
        command.env("DOCKER_CONFIG", user.env.path(docker));
        let ended = CommandResult::of(&command.output().unwrap());
        assert_eq!(ended.code, Some(code), "{args:?}: {ended:?}");
        ended
    };
    for (name, auth) in [("right", "YW5uOnMzY3JldA=="), ("wrong", "YW5uOndyb25n")] {
        fs::create_dir(user.env.path(name)).unwrap();
        let config = format!(
            "{{\"auths\": {{\"{}\": {{\"auth\": \"{auth}\"}}}}}}",
            registry.address
        );
        fs::write(user.env.path(&format!("{name}/config.json")), config).unwrap();
    }
    let publish = ["publish", "data.wasm", &reference];
    let denied = run(12, "missing", &publish);
    assert!(
        denied.stderr.contains("log in with `docker login"),
        "{denied:?}"
    );
    run(12, "wrong", &publish);
    run(0, "right", &publish);
    run(
        12,
        "missing",
        &["add", &reference, "--yes", "--allow-unsigned"],
    );
    run(
        0,
        "right",
        &["add", &reference, "--yes", "--allow-unsigned"],
    );
    let found = run(0, "right", &["search", "dat"]);
    assert!(found.stdout.contains("/ann/data"), "{found:?}");
}

/// A library that knows nothing of plugins downloads ours, and uploads components in the layouts of other tools, which run.
#[test]
fn other_clients_and_layouts_work() {
    let (Some(registry), Some(oras)) = (Registry::start(false), kit("oras")) else {
        return;
    };
    let user = User::new();
    let reference = format!("{}/ann/data:1", registry.address);
    user.run(0, &["publish", "data.wasm", &reference]);
    let component = target().join("guests/plain_functions.wasm");
    let script = root().join("tests/tests/packages/other_client.py");
    let mut command = Command::new(oras.join("bin/python"));
    command
        .arg(script)
        .arg(&registry.address)
        .args([&component, &user.env.workspace()]);
    let ended = CommandResult::of(&command.arg(&reference).output().unwrap());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let pulled = fs::read(user.env.workspace().join("pulled/data.wasm")).unwrap();
    assert_eq!(pulled, fs::read(shipped("data")).unwrap());
    for name in ["wkg", "content-layer", "with-policy"] {
        let reference = format!("{}/foreign/{name}:1", registry.address);
        let added = user.run(0, &["add", &reference, "--yes", "--allow-unsigned"]);
        let names_policy = added.stdout.contains("layers that are not used");
        assert_eq!(names_policy, name == "with-policy", "{added:?}");
        let called = user.run(0, &["call", "echo", "text=hi", "--allow-tool", "echo"]);
        assert_eq!(called.stdout, "hi\n", "{called:?}");
        user.run(0, &["remove", name]);
    }
}

/// A cloned project can contain any lock file.
#[test]
fn a_lock_file_cannot_replace_the_package_of_another_author() {
    let Some(registry) = Registry::start(false) else {
        return;
    };
    let (ann, bob, mallory) = (User::new(), User::new(), User::new());
    let (ann_pub, mallory_pub) = (ann.new_key("ann"), mallory.new_key("mallory"));
    let [of_ann, of_mallory] =
        ["ann", "mallory"].map(|name| format!("{}/{name}/notes:1", registry.address));
    let plugin = ann.pack("2.0.0", &["fs.read"]);
    ann.run(0, &["publish", &plugin, &of_ann, "--key", "ann"]);
    bob.run(0, &["add", &of_ann, "--yes", "--key", &ann_pub]);
    let plugin = mallory.pack("1.0.0", &["fs.write"]);
    mallory.run(0, &["publish", &plugin, &of_mallory, "--key", "mallory"]);
    mallory.run(0, &["add", &of_mallory, "--yes", "--key", &mallory_pub]);
    mallory.run(0, &["lock"]);
    let lock = mallory.env.path("toolhost.lock");
    fs::copy(&lock, bob.env.path("toolhost.lock")).unwrap();
    let refused = bob.run(10, &["sync", "--yes"]);
    assert!(
        refused.stderr.contains("signed by another key"),
        "{refused:?}"
    );
    // With the key, the change is shown.
    let shown = bob.run(5, &["sync", "--key", &mallory_pub]);
    for change in [
        "replaces the installed version",
        "! source:",
        "! new need: fs.write",
    ] {
        assert!(shown.stdout.contains(change), "{change}: {shown:?}");
    }
    // An unsigned package needs a flag, whatever the lock file states.
    let unsigned = format!("{}/mallory/unsigned:1", registry.address);
    mallory.run(0, &["publish", "data.wasm", &unsigned]);
    mallory.run(0, &["add", &unsigned, "--yes", "--allow-unsigned"]);
    mallory.run(0, &["lock", "data"]);
    fs::copy(&lock, bob.env.path("toolhost.lock")).unwrap();
    let refused = bob.run(10, &["sync", "--yes"]);
    assert!(refused.stderr.contains("--allow-unsigned"), "{refused:?}");
    // The code of another file than the locked one is not run.
    let text = fs::read_to_string(&lock).unwrap();
    let content = text
        .lines()
        .find(|line| line.starts_with("content"))
        .unwrap();
    let other = format!("content = \"sha256:{}\"", "0".repeat(64));
    fs::write(bob.env.path("toolhost.lock"), text.replace(content, &other)).unwrap();
    let refused = bob.run(10, &["sync", "--yes", "--allow-unsigned"]);
    assert!(refused.stderr.contains("has the digest"), "{refused:?}");
}

/// Each host and each file has one form that rules are compared with.
#[test]
fn other_spellings_do_not_avoid_a_rule() {
    let Some(registry) = Registry::start(false) else {
        return;
    };
    let user = User::new();
    let port = registry.address.rsplit(':').next().unwrap();
    user.run(
        0,
        &[
            "publish",
            "data.wasm",
            &format!("localhost:{port}/a/data:1"),
        ],
    );
    fs::create_dir(user.env.path("good")).unwrap();
    let ann_pub = user.new_key("ann");
    let rule = |from: &str, required: bool| {
        format!(
            "[[signatures.rule]]\nfrom = \"{from}\"\nkeys = [\"{ann_pub}\"]\nrequired = {required}\n"
        )
    };
    let good = user.env.path("good").canonicalize().unwrap();
    for (config, references) in [
        (
            rule(&format!("LocalHost:{port}/*"), true),
            vec![
                format!("LOCALHOST:{port}/a/data:1"),
                format!("localhost:0{port}/a/data:1"),
            ],
        ),
        (
            rule(&format!("localhost:{port}/a/data"), true),
            vec![format!("localhost:{port}/a/data:1")],
        ),
        (
            rule(&format!("{}/*", good.display()), false) + &rule("*", true),
            vec!["./good/../data.wasm".to_owned()],
        ),
    ] {
        fs::write(user.env.path("trust.toml"), config).unwrap();
        for reference in references {
            let args = [
                "add",
                &reference,
                "--yes",
                "--allow-unsigned",
                "--config",
                "trust.toml",
            ];
            let refused = user.run(10, &args);
            assert!(
                refused.stderr.contains("not signed"),
                "{reference}: {refused:?}"
            );
        }
    }
}

#[test]
fn what_could_not_be_read_later_is_not_installed() {
    let user = User::new();
    let names: Vec<String> = (0..600)
        .map(|number| format!("\"A_LONG_VARIABLE_NAME_{number:010}\""))
        .collect();
    let manifest = format!(
        "name = \"many\"\nversion = \"1.0.0\"\ndescription = \"d\"\n[[needs]]\ncapability = \"env\"\nwhy = \"w\"\nnames = [{}]\n",
        names.join(", ")
    );
    fs::copy(
        target().join("guests/plain_functions.wasm"),
        user.env.path("many.wasm"),
    )
    .unwrap();
    fs::write(user.env.path("many.plugin.toml"), manifest).unwrap();
    let refused = user.run(3, &["add", "many.wasm", "--yes"]);
    assert!(
        refused.stderr.contains("has more than 16384 bytes"),
        "{refused:?}"
    );
    user.run(0, &["add", "data.wasm", "--yes"]);
    assert!(user.encodes());
}
