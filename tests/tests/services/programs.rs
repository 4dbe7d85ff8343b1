//! Programs of guests: which are started, what the kernel lets them do, and that none outlives the host.

use std::io::Write as _;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};

use e2e::test_env::{TestEnv, poll_until};
use e2e::{Guest, root};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::{Pid, test_kill_process};
use serde_json::{Value, json};

use super::session::{Session, result_value};

const NEEDS: [&str; 3] = ["process:bash", "fs.read", "fs.write"];

/// Flags that let the guest run `bash` in its workspace.
fn allowed(guest: &Guest) -> Vec<String> {
    let folder = format!("{}:rw", guest.workspace().display());
    [
        "--mode",
        "yolo",
        "--allow-program",
        "bash",
        "--allow-path",
        &folder,
    ]
    .map(str::to_owned)
    .to_vec()
}

/// The code of a call that is refused before it runs.
fn refused(guest: &Guest, input: &Value, flags: &[String]) -> Value {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    result_value(&guest.call_tool("programs", input, &flags).0)
}

fn call(guest: &Guest, tool: &str, input: &Value, flags: &[String]) -> Value {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let (report, ended) = guest.call_tool(tool, input, &flags);
    assert_eq!(report["ok"], json!(true), "{report} {}", ended.stderr);
    result_value(&report)
}

#[test]
fn a_program_needs_the_manifest_and_the_operator() {
    let input = json!({"command": "echo hello"});
    let guest = Guest::new("programs", &NEEDS, "");
    let flags = allowed(&guest);
    assert_eq!(
        call(&guest, "programs", &input, &flags),
        json!(["0", "hello"])
    );
    let none = ["--mode".to_owned(), "yolo".to_owned()];
    assert_eq!(refused(&guest, &input, &none), json!("capability_missing"));
    let other = Guest::new("programs", &["process:git", "fs.read"], "");
    assert_eq!(
        refused(&other, &input, &allowed(&other)),
        json!("capability_missing")
    );
    let nothing = Guest::new("programs", &["fs.read"], "");
    assert_eq!(
        refused(&nothing, &input, &allowed(&nothing)),
        json!("capability_missing")
    );
    assert_eq!(
        call(&guest, "look", &input, &flags),
        json!(["! service_not_granted"]),
        "a tool that only reads starts nothing"
    );
}

#[test]
fn what_runs_is_what_the_input_says() {
    let guest = Guest::new("programs", &NEEDS, "");
    let flags = allowed(&guest);
    let differs = json!(["! command_differs"]);
    for (input, expected) in [
        (
            json!({"command": "true", "run": ["bash", "-c", "touch x"]}),
            differs.clone(),
        ),
        (
            json!({"command": "true", "run": ["bash", "-c", "true", "x"]}),
            differs.clone(),
        ),
        (
            json!({"command": "true", "run": ["bash", "true"]}),
            differs.clone(),
        ),
        (
            json!({"command": "true", "run": ["touch", "x"]}),
            json!(["! program_not_allowed"]),
        ),
        (json!({"command": "true", "variables": ["A=b"]}), differs),
        (
            json!({"command": "echo $A", "env": {"A": "b"}, "variables": ["A=b"]}),
            json!(["0", "b"]),
        ),
        (
            json!({"command": "true", "env": {"A": "b"}, "variables": ["A=c"]}),
            json!(["! command_differs"]),
        ),
    ] {
        assert_eq!(
            call(&guest, "programs", &input, &flags),
            expected,
            "{input}"
        );
    }
    assert!(!guest.workspace().join("x").exists());
}

#[test]
fn a_program_writes_where_the_call_may_and_nowhere_else() {
    let guest = Guest::new("programs", &NEEDS, "");
    let outside = guest.workspace().parent().unwrap().join("outside");
    std::fs::write(&outside, "as it was").unwrap();
    let flags = allowed(&guest);
    // stderr is redirected to a file, because the order in which two pipes are read is undefined.
    let command = format!(
        "exec 2> complaints; echo in > inside; echo out > {0}; cat {0}; echo up > ../up; echo ended",
        outside.display()
    );
    let results = call(&guest, "programs", &json!({ "command": command }), &flags);
    assert_eq!(results, json!(["0", "ended"]));
    assert_eq!(
        std::fs::read_to_string(guest.workspace().join("inside")).unwrap(),
        "in\n"
    );
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "as it was");
    assert!(!guest.workspace().parent().unwrap().join("up").exists());
    // A folder that may only be read is not written to either.
    let folder = guest.workspace().display().to_string();
    let reading = [
        "--mode",
        "yolo",
        "--allow-program",
        "bash",
        "--allow-path",
        &folder,
    ];
    let reading = reading.map(str::to_owned);
    let input = json!({"command": "cat inside && echo more > inside"});
    let results = call(&guest, "programs", &input, &reading);
    assert_ne!(results[0], json!("0"), "{results}");
    assert_eq!(
        std::fs::read_to_string(guest.workspace().join("inside")).unwrap(),
        "in\n"
    );
}

#[test]
fn the_fence_is_switched_off_by_its_flag_and_its_key_only() {
    let guest = Guest::new("programs", &NEEDS, "");
    let outside = guest.workspace().parent().unwrap().to_owned();
    std::fs::write(outside.join("secret"), "of the user").unwrap();
    let (config, plugin) = (outside.join("host.toml"), guest.plugin());
    let wide = "program_network = true\ndefault_excludes = false\n[policy]\nmode = \"yolo\"\nallow = [\"*\"]\n";
    let more = [
        "--allow-program-network",
        "--no-default-excludes",
        "--allow-tool",
        "*",
    ];
    for (flags, toml, fenced) in [
        (&["--unconfined"][..], "", false),
        (&[], "unconfined = true", false),
        (&more, wide, true),
        (&[], "unconfined = false", true),
    ] {
        std::fs::write(&config, toml).unwrap();
        let input = r#"{"command": "cat ../secret"}"#;
        let mut command = e2e::host(&["call", "programs", input, "--json", "--plugins"]);
        command.arg(&plugin).arg("--config").arg(&config);
        command.args(allowed(&guest)).args(flags);
        for variable in ["UNCONFINED", "TOOLHOST_UNCONFINED", "HOST_UNCONFINED"] {
            command.env(variable, "true");
        }
        let ended = e2e::CommandResult::of(&command.output().unwrap());
        let report: Value = serde_json::from_str(&ended.stdout)
            .unwrap_or_else(|error| panic!("{error}: {ended:?}"));
        let results = result_value(&report);
        let shown = format!("{flags:?} {toml}: {results} {}", ended.stderr);
        assert_eq!(results[0], json!(if fenced { "1" } else { "0" }), "{shown}");
        let is_read = results.to_string().contains("of the user");
        assert_eq!(is_read, !fenced, "{shown}");
    }
}

/// With a private view of mounts, in which the folder `mounted` of the workspace is a disk with one file. None without
/// the right to mount.
fn with_a_mount(guest: &Guest, tool: &str, input: &Value, flags: &[String]) -> Option<Value> {
    const MOUNT: &str =
        r#"mount -t tmpfs none "$PLACE" && echo inside > "$PLACE/file" || exit 77; exec "$@""#;
    let plugins = [guest.plugin(), root().join("plugins/files.wasm")];
    let mut call = e2e::host(&["call", tool, &input.to_string(), "--json"]);
    for plugin in plugins {
        call.arg("--plugins").arg(plugin);
    }
    call.args(flags);
    let mut command = std::process::Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command.args(["--mount", "sh", "-c", MOUNT, "sh"]);
    command.arg(call.get_program()).args(call.get_args());
    command.envs(
        call.get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    command.env("PLACE", guest.workspace().join("mounted"));
    let ended = e2e::CommandResult::of(&command.output().unwrap());
    if ended.code == Some(77) || ended.stderr.contains("unshare: ") {
        // The test harness would keep what `eprintln!` writes to itself.
        let reason = "skipped: a mount below a granted folder needs the right to mount";
        let _ = writeln!(std::io::stderr(), "{reason}: {}", ended.stderr);
        return None;
    }
    let report = serde_json::from_str(&ended.stdout);
    Some(report.unwrap_or_else(|error| panic!("{error}: {ended:?}")))
}

#[test]
fn a_mount_below_a_granted_folder_is_reached_by_programs_and_not_by_tools() {
    let guest = Guest::new("programs", &NEEDS, "");
    std::fs::create_dir(guest.workspace().join("mounted")).unwrap();
    let flags = allowed(&guest);
    let mut reading = flags.clone();
    *reading.last_mut().unwrap() = guest.workspace().display().to_string();
    let rules = ["--deny-tool", "Read(file)", "--allow-tool", "Bash"].map(str::to_owned);
    let command =
        "exec 2> /dev/null; cat m*/f*; echo new > mounted/new; cat mounted/new; echo ended";
    for (flags, expected) in [
        (&flags, "inside\nnew\nended"),
        (&reading, "inside\nended"),
        // No entry can be created in a directory that contains a denied path.
        (&[&flags[..], &rules].concat(), "ended"),
    ] {
        let Some(report) = with_a_mount(&guest, "programs", &json!({ "command": command }), flags)
        else {
            return;
        };
        assert_eq!(
            result_value(&report),
            json!(["0", expected]),
            "{flags:?}: {report}"
        );
    }
    let input = json!({"path": "mounted/file"});
    let report = with_a_mount(&guest, "read_file", &input, &flags).unwrap();
    assert_eq!(
        result_value(&report),
        json!("permission_denied"),
        "{report}"
    );
}

#[test]
fn of_a_folder_with_one_granted_file_a_program_has_that_file() {
    let guest = Guest::new("programs", &NEEDS, "");
    let workspace = guest.workspace();
    for name in ["granted", "other"] {
        std::fs::write(workspace.join(name), format!("of {name}")).unwrap();
    }
    let file = format!("{}:rw", workspace.join("granted").display());
    let mut flags = allowed(&guest);
    *flags.last_mut().unwrap() = file;
    let command = "exec 2> /dev/null; cat granted; cat other; ls; echo; echo new > granted; echo x > other; \
                   echo x > made; echo ended";
    let told = call(&guest, "programs", &json!({ "command": command }), &flags);
    assert_eq!(told, json!(["0", "of granted\nended"]));
    let read = |name: &str| std::fs::read_to_string(workspace.join(name)).ok();
    assert_eq!(read("granted").as_deref(), Some("new\n"));
    assert_eq!(read("other").as_deref(), Some("of other"));
    assert_eq!(read("made"), None);
}

/// Ends a loop when it is dropped, also by a panic.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The folder `sub` is granted twice, by itself and with its parent, and changes places with a link all the time.
#[test]
fn a_12_a_granted_folder_exchanged_for_a_link_leads_no_program_outside() {
    const STARTS: usize = 100;
    let guest = Guest::new("programs", &NEEDS, "");
    let workspace = guest.workspace();
    let (sub, link) = (workspace.join("sub"), workspace.join("link"));
    let outside = workspace.parent().unwrap().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::create_dir(&sub).unwrap();
    std::os::unix::fs::symlink(&outside, &link).unwrap();
    let mut flags = allowed(&guest);
    flags.extend(["--allow-path".to_owned(), format!("{}:rw", sub.display())]);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let mut session = Session::start(&guest, &flags);
    // Once before, so that the folders are granted as they are.
    let first = json!({"command": "echo x > sub/new"});
    assert_eq!(
        result_value(&session.call("programs", &first, &[]).0),
        json!(["0", ""])
    );

    let done = AtomicBool::new(false);
    let mut started = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                renameat_with(CWD, &sub, CWD, &link, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let _ends = Ends(&done);
        for number in 0..STARTS {
            let command = format!(
                "exec 2> /dev/null; echo x > {}/new; echo x > sub/new; echo x > link/new; echo {number}",
                outside.display()
            );
            let results = result_value(
                &session
                    .call("programs", &json!({ "command": command }), &[])
                    .0,
            );
            // What was exchanged at that moment is refused.
            started += usize::from(results == json!(["0", number.to_string()]));
        }
    });
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    assert!(started > 0, "no program was started");
    assert_eq!(session.end().code, Some(0));
}

/// The signals of a line of `/proc/PID/status`, but for two that the C library keeps for itself.
fn signals(status: &str, name: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let mask = line.unwrap_or_else(|| panic!("no {name} in {status}"));
    let mask = u64::from_str_radix(mask.trim(), 16).unwrap();
    let set = (1..=64).filter(|signal| mask >> (signal - 1) & 1 == 1);
    set.filter(|signal| ![32, 33].contains(signal)).collect()
}

#[test]
fn a_20_signals_that_the_host_was_started_with_reach_no_command() {
    let guest = Guest::new("programs", &NEEDS, "");
    let masks = "grep -E '^Sig(Ign|Blk):' /proc/self/status";
    let received = guest.workspace().join("heard");
    let config = guest.workspace().parent().unwrap().join("toolhost.toml");
    let hook = format!(
        "[[hook]]\nname = \"h\"\nmatcher = \"programs\"\non = [\"before\"]\ncommand = [\"sh\", \"-c\", \
         \"\"\"cat > /dev/null; {masks} > {}; echo {{}}\"\"\"]\n",
        received.display()
    );
    std::fs::write(&config, hook).unwrap();
    let (plugin, input) = (guest.plugin(), json!({ "command": masks }).to_string());
    let mut arguments = vec!["call", "programs", &input, "--json"];
    let (plugin, config) = (plugin.to_string_lossy(), config.to_string_lossy());
    arguments.extend(["--plugins", &*plugin, "--config", &*config]);
    let flags = allowed(&guest);
    arguments.extend(flags.iter().map(String::as_str));
    let ended = run_with_signals_ignored(&e2e::host(&arguments));
    let report: Value = serde_json::from_str(&ended.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", ended.stdout, ended.stderr));
    let result = result_value(&report);
    let result = result[1]
        .as_str()
        .unwrap_or_else(|| panic!("{result} {}", ended.stderr));
    for name in ["SigIgn:", "SigBlk:"] {
        assert_eq!(signals(result, name), [0; 0], "{result}");
    }
    // A command of the operator's: without what the host cannot handle itself (ILL, FPE, SEGV) or must not (TTIN, TTOU).
    let status = std::fs::read_to_string(received).unwrap();
    for name in ["SigIgn:", "SigBlk:"] {
        let mut inherited = signals(&status, name);
        inherited.retain(|signal| ![4, 8, 11, 21, 22].contains(signal));
        assert_eq!(inherited, [0; 0], "{status}");
    }
}

#[test]
fn a_20_signals_that_the_host_was_started_with_reach_no_mcp_server() {
    let env = TestEnv::new("");
    // In its own directory, the only one to which its sandbox lets it write.
    let received = env.path("state/mcp/data/s/signals");
    let server = "grep -E '^Sig(Ign|Blk):' /proc/self/status > $HOME/signals";
    let added = env.run(&[
        "mcp",
        "add",
        "s",
        "--yes",
        "--config",
        "host.toml",
        "--",
        "sh",
        "-c",
        server,
    ]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let ended =
        run_with_signals_ignored(&env.command(&["mcp", "test", "s", "--config", "host.toml"]));
    let status = std::fs::read_to_string(received).unwrap_or_else(|_| panic!("{ended:?}"));
    for name in ["SigIgn:", "SigBlk:"] {
        assert_eq!(signals(&status, name), [0; 0], "{status}");
    }
}

/// Runs the host as a script does that starts it in the background.
fn run_with_signals_ignored(host: &std::process::Command) -> e2e::CommandResult {
    let mut ignoring = std::process::Command::new("env");
    ignoring.args(["--ignore-signal", "--block-signal"]);
    ignoring.arg(host.get_program()).args(host.get_args());
    let variables = host.get_envs();
    ignoring.envs(variables.filter_map(|(name, value)| Some((name, value?))));
    if let Some(directory) = host.get_current_dir() {
        ignoring.current_dir(directory);
    }
    e2e::CommandResult::of(&ignoring.output().unwrap())
}

#[test]
fn a_program_has_no_network_unless_it_is_granted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let guest = Guest::new("programs", &NEEDS, "");
    let input = json!({"command": format!("echo hi > /dev/tcp/127.0.0.1/{port} && echo sent")});
    let flags = allowed(&guest);
    let results = call(&guest, "programs", &input, &flags);
    assert_ne!(results[0], json!("0"), "{results}");
    let flags = [flags, vec!["--allow-program-network".to_owned()]].concat();
    assert_eq!(
        call(&guest, "programs", &input, &flags),
        json!(["0", "sent"])
    );
}

#[test]
fn a_job_is_listed_until_it_is_gone_with_the_host() {
    let guest = Guest::new("programs", &NEEDS, "");
    let flags = allowed(&guest);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let mut session = Session::start(&guest, &flags);
    let started = json!({"command": "sleep 600 & sleep 600", "start": true});
    let job = result_value(&session.call("programs", &started, &[]).0);
    assert_eq!(job[1], json!("running"));
    let id = job[0].as_str().unwrap();
    let pid = Pid::from_raw(job[2].as_str().unwrap().parse().unwrap()).unwrap();
    test_kill_process(pid).expect("it runs");
    let listed = result_value(&session.call("look", &json!({}), &[]).0);
    assert_eq!(listed, json!([format!("{id} a test running")]));
    // To look is not to touch.
    let killed = result_value(&session.call("look", &json!({ "kill": id }), &[]).0);
    assert_eq!(killed, json!(["! service_not_granted"]));
    assert_eq!(session.end().code, Some(0));
    poll_until(|| test_kill_process(pid).is_err().then_some(()));
}

#[test]
fn what_is_explained_is_what_happens() {
    let plugins = root().join("plugins");
    let plugins = plugins.to_string_lossy();
    let folder = root().join("tests/specs/workspace");
    let folder = folder.to_string_lossy();
    for (rule, runs) in [
        ("shell", true),
        ("Bash", true),
        ("Bash(echo *)", true),
        ("shell(echo *)", true),
        ("Bash(ls *)", false),
        ("read_file", false),
    ] {
        let with = |arguments: &[&'static str]| {
            let flags = [
                "--plugins",
                &plugins,
                "--allow-path",
                &folder,
                "--allow-program",
                "bash",
                "--allow-tool",
                rule,
            ];
            e2e::run(&[arguments, &flags].concat())
        };
        let explained = with(&["policy", "explain", "shell", "command=echo hi"]);
        let called = with(&["call", "shell", "command=echo hi"]);
        let shown = format!("{rule}: {} {}", explained.stdout, called.stderr);
        assert_eq!(explained.code == Some(0), runs, "{shown}");
        assert_eq!(called.code == Some(0), runs, "{shown}");
    }
}
