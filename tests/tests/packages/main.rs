//! Packages from files and from a registry: what is installed, refused, updated, synchronized and revoked, and what
//! running hosts do.

mod keyless;
mod lock_files;
mod registries;
mod signers;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;

use e2e::test_env::{TestEnv, poll_until};
use e2e::{CommandResult, root, target};

/// A user with a separate state directory.
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

    /// Starts a host and waits until it accepts changes. It ends with its standard input.
    fn serve(&self) -> Child {
        let mut host = self.env.command(&["turns"]);
        host.stdin(Stdio::piped()).stdout(Stdio::piped());
        let host = host.stderr(Stdio::piped()).spawn().unwrap();
        // It has written its address when it accepts changes.
        poll_until(|| {
            let hosts = fs::read_dir(self.env.path("state/hosts")).ok()?;
            let mut hosts = hosts.flatten().map(|entry| entry.path());
            hosts.find(|path| path.extension().is_some_and(|kind| kind == "json"))
        });
        host
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
    let repair = "repair it with `host update data`";
    assert!(refused.stderr.contains(repair), "{refused:?}");
    let checked = user.run(11, &["sync", "--check"]);
    assert!(checked.stdout.contains("has the digest"), "{checked:?}");
    // Installing it again repairs it.
    user.run(0, &["add", "data.wasm", "--yes"]);
    assert!(user.encodes());
    fs::write(file.unwrap(), "").unwrap();
    user.run(0, &["sync", "--yes"]);
    user.run(0, &["sync", "--check"]);
    fs::write(file.unwrap(), "").unwrap();
    let updated = user.run(0, &["update"]);
    assert!(updated.stdout.contains("is damaged"), "{updated:?}");
    assert!(user.encodes());
    let updated = user.run(0, &["update"]);
    assert!(updated.stdout.contains("is up to date"), "{updated:?}");
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
    // The name of a function remains a name of its tool.
    for (name, code) in [("first", 0), ("second", 5)] {
        let file = format!("{name}.wasm");
        let manifest = format!(
            "name = \"{name}\"\nversion = \"1.0.0\"\ndescription = \"d\"\n\
             [[functions]]\nfunction = \"echo\"\nname = \"echo_{name}\"\n"
        );
        fs::copy(user.env.path("copycat.wasm"), user.env.path(&file)).unwrap();
        fs::write(user.env.path(&format!("{name}.plugin.toml")), manifest).unwrap();
        user.run(code, &["add", &file, "--yes"]);
    }
}

#[test]
fn packages_with_the_names_of_configured_plugins_are_refused() {
    let user = User::new();
    fs::create_dir(user.env.path("own")).unwrap();
    fs::copy(shipped("data"), user.env.path("own/data.wasm")).unwrap();
    fs::write(user.env.path("own.toml"), "plugins = [\"own\"]\n").unwrap();
    let notes = user.pack("1.0.0", &[]);
    let add = |code, file: &str| user.run(code, &["add", file, "--yes", "--config", "own.toml"]);
    add(0, &notes);
    user.run(0, &["remove", "notes"]);
    for (name, function, expected) in [
        ("data", "", "has the name of the plugin data in "),
        (
            "copycat",
            "[[functions]]\nfunction = \"notes.load\"\nname = \"base64_encode\"\n",
            "has a tool `base64_encode`, which is the name of a tool of the plugin data in ",
        ),
    ] {
        let file = format!("x-{name}.wasm");
        let manifest =
            format!("name = \"{name}\"\nversion = \"99.0.0\"\ndescription = \"d\"\n{function}");
        let guest = target().join("guests/plain_functions.wasm");
        fs::copy(guest, user.env.path(&file)).unwrap();
        fs::write(user.env.path(&format!("x-{name}.plugin.toml")), manifest).unwrap();
        let refused = add(5, &file);
        assert!(refused.stderr.contains(expected), "{refused:?}");
        assert!(refused.stderr.contains("own/data.wasm"), "{refused:?}");
    }
    // A version that was installed before is neither used nor updated any more.
    user.run(0, &["add", "data.wasm", "--yes"]);
    let listed = user.run(0, &["tools", "--config", "own.toml"]);
    let warning = "the package has the name of the plugin data in ";
    assert!(listed.stderr.contains(warning), "{listed:?}");
    assert!(listed.stdout.contains("base64_encode"), "{listed:?}");
    let refused = user.run(5, &["update", "--config", "own.toml"]);
    assert!(refused.stderr.contains("has the name"), "{refused:?}");
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

/// A suspended host does not delay a command, and changes when it continues.
#[test]
fn suspended_hosts_are_changed_when_they_continue() {
    let user = User::new();
    // A host needs a plugin to start.
    user.run(0, &["add", shipped("system").to_str().unwrap(), "--yes"]);
    let mut host = user.serve();
    let signal = |name: &str| {
        let mut kill = Command::new("kill");
        kill.args([name, &host.id().to_string()]);
        assert!(kill.status().unwrap().success());
    };
    signal("-STOP");
    let added = user.run(0, &["add", "data.wasm", "--yes"]);
    let expected = format!("the host with process id {} is suspended", host.id());
    assert!(added.stderr.contains(&expected), "{added:?}");
    signal("-CONT");
    let mut input = host.stdin.take().unwrap();
    let mut output = BufReader::new(host.stdout.take().unwrap());
    let call = r#"{"calls": [{"id": "1", "name": "base64_encode", "input": {"text": "hello"}}]}"#;
    poll_until(|| {
        writeln!(input, "{call}").unwrap();
        let mut answer = String::new();
        output.read_line(&mut answer).unwrap();
        answer.contains("aGVsbG8=").then_some(())
    });
    drop(input);
    host.wait().unwrap();
}

/// Where the disk is full, nothing is installed, what was installed remains, and the error says so.
#[test]
fn a_full_disk_leaves_the_installed_packages() {
    let in_namespace = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", script]);
        command
    };
    let allowed = in_namespace("mount -t tmpfs tmpfs /mnt").output().unwrap();
    if !allowed.status.success() {
        let _ = writeln!(std::io::stderr(), "skipped: mounts are not allowed here");
        return;
    }
    let user = User::new();
    user.run(0, &["add", "data.wasm", "--yes"]);
    // A disk of 1 MiB that contains what is installed.
    let script = r#"
        cp -a "$PACKAGES" "$PACKAGES.copy"
        mount -t tmpfs -o size=1m tmpfs "$PACKAGES"
        cp -a "$PACKAGES.copy/." "$PACKAGES"
        "$HOST" add "$PLUGIN" --yes; echo "exit code $?"
        "$HOST" list
        "$HOST" call base64_encode text=hello
    "#;
    let host = user.env.command(&[]);
    let mut command = in_namespace(script);
    for (name, value) in host.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command
        .env("HOST", host.get_program())
        .env("PACKAGES", user.env.path("state/packages"))
        .env("PLUGIN", shipped("files"))
        .current_dir(host.get_current_dir().unwrap());
    let ended = CommandResult::of(&command.output().unwrap());
    assert!(ended.stderr.contains("no space left"), "{ended:?}");
    let (_, rest) = ended.stdout.split_once("exit code ").unwrap();
    assert!(!rest.starts_with('0'), "{ended:?}");
    assert!(!rest.contains("files"), "{ended:?}");
    assert!(rest.ends_with("aGVsbG8=\n"), "{ended:?}");
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
    let refused = user.run(4, &["add", "many.wasm"]);
    assert!(
        refused.stderr.contains("many.wasm: a need has")
            && refused.stderr.contains("more than 16384"),
        "{refused:?}"
    );
    fs::create_dir(user.env.path("directory.wasm")).unwrap();
    let refused = user.run(4, &["add", "directory.wasm", "--yes"]);
    assert!(refused.stderr.contains("cannot be read"), "{refused:?}");
    user.run(0, &["add", "data.wasm", "--yes"]);
    assert!(user.encodes());
}
