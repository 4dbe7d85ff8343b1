//! Programs of guests: which are started, what the kernel lets them do, and that none outlives the host.

use std::net::TcpListener;

use e2e::desk::until;
use e2e::{Guest, root};
use rustix::process::{Pid, test_kill_process};
use serde_json::{Value, json};

use super::session::{Session, told};

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

fn call(guest: &Guest, tool: &str, input: &Value, flags: &[String]) -> Value {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let (report, ended) = guest.call_tool(tool, input, &flags);
    assert_eq!(report["ok"], json!(true), "{report} {}", ended.stderr);
    told(&report)
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
    assert_eq!(
        call(&guest, "programs", &input, &none),
        json!(["! service_not_granted"])
    );
    let other = Guest::new("programs", &["process:git", "fs.read"], "");
    assert_eq!(
        call(&other, "programs", &input, &allowed(&other)),
        json!(["! service_not_granted"])
    );
    let nothing = Guest::new("programs", &["fs.read"], "");
    assert_eq!(
        call(&nothing, "programs", &input, &allowed(&nothing)),
        json!(["! service_not_granted"])
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
    let command = format!(
        "echo in > inside; echo out > {0}; cat {0}; echo up > ../up; echo ended",
        outside.display()
    );
    let told = call(&guest, "programs", &json!({ "command": command }), &flags);
    let text = told[1].as_str().unwrap();
    // Not the last line: what goes to standard error comes by a way of its own.
    let ended = text.lines().any(|line| line == "ended");
    assert!(ended && !text.contains("as it was"), "{text}");
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
    let told = call(&guest, "programs", &input, &reading);
    assert_ne!(told[0], json!("0"), "{told}");
    assert_eq!(
        std::fs::read_to_string(guest.workspace().join("inside")).unwrap(),
        "in\n"
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
    let command = "cat granted; cat other; ls; echo; echo new > granted; echo x > other; echo x > made; echo ended";
    let told = call(&guest, "programs", &json!({ "command": command }), &flags);
    let text = told[1].as_str().unwrap_or_else(|| panic!("{told}"));
    let ended = text.lines().any(|line| line == "ended");
    assert!(ended && text.contains("of granted"), "{text}");
    assert!(!text.contains("of other"), "{text}");
    let read = |name: &str| std::fs::read_to_string(workspace.join(name)).ok();
    assert_eq!(read("granted").as_deref(), Some("new\n"));
    assert_eq!(read("other").as_deref(), Some("of other"));
    assert_eq!(read("made"), None);
}

#[test]
fn a_program_has_no_network_unless_it_is_granted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let guest = Guest::new("programs", &NEEDS, "");
    let input = json!({"command": format!("echo hi > /dev/tcp/127.0.0.1/{port} && echo sent")});
    let flags = allowed(&guest);
    let told = call(&guest, "programs", &input, &flags);
    assert_ne!(told[0], json!("0"), "{told}");
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
    let job = told(&session.call("programs", &started, &[]).0);
    assert_eq!(job[1], json!("running"));
    let id = job[0].as_str().unwrap();
    let pid = Pid::from_raw(job[2].as_str().unwrap().parse().unwrap()).unwrap();
    test_kill_process(pid).expect("it runs");
    let listed = told(&session.call("look", &json!({}), &[]).0);
    assert_eq!(listed, json!([format!("{id} a test running")]));
    // To look is not to touch.
    let killed = told(&session.call("look", &json!({ "kill": id }), &[]).0);
    assert_eq!(killed, json!(["! service_not_granted"]));
    assert_eq!(session.end().code, Some(0));
    until(|| test_kill_process(pid).is_err().then_some(()));
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
        let with = |words: &[&'static str]| {
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
            e2e::run(&[words, &flags].concat())
        };
        let explained = with(&["policy", "explain", "shell", "command=echo hi"]);
        let called = with(&["call", "shell", "command=echo hi"]);
        let shown = format!("{rule}: {} {}", explained.stdout, called.stderr);
        assert_eq!(explained.code == Some(0), runs, "{shown}");
        assert_eq!(called.code == Some(0), runs, "{shown}");
    }
}
