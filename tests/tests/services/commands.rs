//! Guests whose commands differ from their declared input: only the authorized command runs, and it is recorded.

use e2e::test_env::{TestEnv, parse_json, poll_until};
use e2e::{CommandResult, Guest};
use serde_json::{Value, json};

use super::session::{Session, result_value};

const NEEDS: [&str; 4] = ["process:bash", "fs.read", "fs.write", "session"];

/// Flags that allow the guest to run only these commands in its workspace.
fn flags(workspace: &std::path::Path, rules: &[&str]) -> Vec<String> {
    let folder = format!("{}:rw", workspace.display());
    let mut flags: Vec<String> = ["--allow-program", "bash", "--allow-path", &folder]
        .map(str::to_owned)
        .to_vec();
    for rule in rules {
        flags.extend(["--allow-tool".to_owned(), (*rule).to_owned()]);
    }
    flags
}

fn session(guest: &Guest, rules: &[&str]) -> Session {
    let flags = flags(&guest.workspace(), rules);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    Session::start(guest, &flags)
}

fn allow() -> Value {
    json!({"allow": 0})
}

#[test]
fn a_01_a_command_runs_as_it_was_authorized() {
    let guest = Guest::new("programs", &NEEDS, "");
    for file in [".bash_profile", ".profile", ".bashrc", "evil"] {
        std::fs::write(guest.workspace().join(file), "touch \"$PWD/steered\"\n").unwrap();
    }
    let mut session = session(&guest, &["Bash(echo *)"]);
    let (differs, unwritable) = ("! command_differs", "! not_writable");
    for (input, expected) in [
        (json!({}), json!(["ran"])),
        (
            json!({"note": {"HOME": "."}, "variables": ["HOME=."], "flags": ["-lc"]}),
            json!([unwritable, differs]),
        ),
        (
            json!({"note": {"BASH_ENV": "evil"}, "variables": ["BASH_ENV=evil"]}),
            json!([unwritable, differs]),
        ),
        (
            json!({"note": {"BASH_FUNC_echo%%": "() { touch steered; }"}}),
            json!(["! invalid_environment", "ran"]),
        ),
        // Inert, and all the same not what was authorized.
        (
            json!({"note": {"LANG": "C"}, "variables": ["LANG=C"]}),
            json!(["done", differs]),
        ),
        (json!({"variables": ["PATH=."]}), json!([differs])),
        (json!({"flags": ["-lc"]}), json!([differs])),
        (json!({"flags": ["-ic"]}), json!([differs])),
        (
            json!({"flags": ["--rcfile", "evil", "-ic"]}),
            json!([differs]),
        ),
        (json!({"flags": ["--login", "-c"]}), json!([differs])),
        (
            json!({"flags": ["-s"], "stdin": "touch steered"}),
            json!([differs]),
        ),
        (json!({"stdin": "x"}), json!([differs])),
        (
            json!({"times": 3}),
            json!(["ran", "! command_used", "! command_used"]),
        ),
    ] {
        let mut input = input;
        input["command"] = json!("echo ran");
        let (report, questions) = session.call("steers", &input, &[]);
        assert_eq!(result_value(&report), expected, "{input}: {report}");
        assert_eq!(questions, [] as [Value; 0], "{input}");
    }
    assert!(!guest.workspace().join("steered").exists());
    session.end();
}

#[test]
fn a_05_variables_that_steer_programs_are_asked_about_and_named() {
    let guest = Guest::new("programs", &NEEDS, "");
    let mut session = session(&guest, &["Bash(printenv *)"]);
    let command = json!({"command": "printenv MAKEFILES RUST_LOG"});
    let inert = json!({"note": {"RUST_LOG": "debug"}});
    let (report, _) = session.call("notes", &inert, &[]);
    assert_eq!(result_value(&report), json!("done"), "{report}");
    let (report, _) = session.call("steers", &command, &[]);
    assert_eq!(result_value(&report), json!(["debug"]), "{report}");

    let steering = json!({"note": {"RUST_LOG": "debug", "MAKEFILES": "evil.mk"}});
    let (report, questions) = session.call("notes", &steering, &[json!({"deny": "no"})]);
    assert_eq!(result_value(&report), json!("user_denied"), "{report}");
    let reason = questions[0]["reason"].as_str().unwrap();
    assert!(reason.contains("set the variable `MAKEFILES`"), "{reason}");
    assert_eq!(questions[0]["variables"], json!({"MAKEFILES": "evil.mk"}));
    // It was not set.
    let (report, _) = session.call("steers", &command, &[]);
    assert_eq!(result_value(&report), json!(["debug"]), "{report}");

    let (report, _) = session.call("notes", &steering, &[allow()]);
    assert_eq!(result_value(&report), json!("done"), "{report}");
    let (report, questions) = session.call("steers", &command, &[allow()]);
    assert_eq!(result_value(&report), json!(["evil.mk\ndebug"]), "{report}");
    let reason = questions[0]["reason"].as_str().unwrap();
    assert!(
        reason.contains("`MAKEFILES` (set for the session)"),
        "{reason}"
    );
    assert_eq!(questions[0]["variables"], json!({"MAKEFILES": "evil.mk"}));
    assert_eq!(
        questions[0]["offers"].as_array().unwrap().len(),
        1,
        "{questions:?}"
    );

    let (report, _) = session.call("notes", &inert, &[]);
    assert_eq!(result_value(&report), json!("done"), "{report}");
    let (report, _) = session.call("steers", &command, &[]);
    assert_eq!(result_value(&report), json!(["debug"]), "{report}");
    session.end();

    // Without an available user, the error names the reason.
    let flags = flags(&guest.workspace(), &["Bash(make *)"]);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let input = json!({"command": "make test", "env": {"MAKEFILES": "evil.mk"}});
    let (report, _) = guest.call_tool("steers", &input, &flags);
    let message = report["error"]["message"].as_str().unwrap();
    assert!(message.contains("`MAKEFILES` (in its input)"), "{report}");
}

/// The id of a job that runs.
fn job(value: &Value) -> String {
    let text = value[0].as_str().unwrap();
    let id = text.strip_suffix(" running");
    id.unwrap_or_else(|| panic!("{value}")).to_owned()
}

#[test]
fn a_04_what_is_typed_is_authorized_by_itself() {
    let guest = Guest::new("programs", &NEEDS, "");
    let mut session = session(&guest, &["Bash(sleep *)", "Bash(head *)"]);
    let unauthorized = "! input_not_authorized";
    let waits = json!({"command": "sleep 600", "start": true, "types": "touch x\n"});
    let (report, _) = session.call("steers", &waits, &[]);
    let closed = job(&result_value(&report));
    assert_eq!(result_value(&report)[1], json!(unauthorized), "{report}");
    // Its standard input is closed, so an approval to write to it has no effect.
    let into = |job: &str| json!({"task_id": job, "chars": "hello\n"});
    let (report, questions) = session.call("types", &into(&closed), &[allow()]);
    assert_eq!(result_value(&report), json!([unauthorized]), "{report}");
    let reason = questions[0]["reason"].as_str().unwrap();
    assert!(
        reason.contains(&format!("it types into `sleep 600` ({closed})")),
        "{reason}"
    );
    assert_eq!(
        questions[0]["offers"].as_array().unwrap().len(),
        1,
        "{questions:?}"
    );

    let open =
        json!({"command": "head -n 1 | tee typed", "tty": true, "start": true, "types": "x\n"});
    let (report, _) = session.call("steers", &open, &[allow()]);
    let open = job(&result_value(&report));
    assert_eq!(result_value(&report)[1], json!(unauthorized), "{report}");
    for (member, value) in [("really", "other\n"), ("job", closed.as_str())] {
        let mut input = into(&open);
        input[member] = json!(value);
        let (report, _) = session.call("types", &input, &[allow()]);
        assert_eq!(result_value(&report), json!([unauthorized]), "{report}");
    }
    let mut input = into(&open);
    input["starts"] = json!("touch started");
    let (report, _) = session.call("types", &input, &[allow()]);
    assert_eq!(
        result_value(&report),
        json!(["! command_differs", "done"]),
        "{report}"
    );
    let typed = guest.workspace().join("typed");
    poll_until(|| (std::fs::read_to_string(&typed).ok()? == "hello\n").then_some(()));
    assert!(!guest.workspace().join("started").exists());
    session.end();
}

#[test]
fn a_01_the_record_holds_the_command_that_was_authorized() {
    let env = TestEnv::new("allow = [\"programs/steers\"]");
    let guest = Guest::new("programs", &NEEDS, "");
    let plugin = guest.plugin();
    let config = env.path("host.toml");
    let input = json!({
        "command": "printenv CC", "env": {"CC": "gcc", "API_TOKEN": "s3cret"},
    });
    let ended = env
        .command(&["call", "steers", &input.to_string(), "--json", "--plugins"])
        .arg(&plugin)
        .arg("--config")
        .arg(&config)
        .args(flags(&env.workspace(), &[]))
        .output()
        .expect("host starts");
    let ended = CommandResult::of(&ended);
    assert_eq!(
        result_value(&parse_json(&ended)),
        json!(["gcc"]),
        "{ended:?}"
    );
    let calls = env.run_json(&["calls", "--json"]);
    let id = calls[0]["id"].as_str().unwrap();
    for command in ["audit", "calls"] {
        let shown = env.run(&[command, "show", id]).stdout;
        for line in [
            "argv     [\"bash\",\"-c\",\"printenv CC\"]",
            "stdin    \"closed\"",
            "variable CC=gcc",
            "variable API_TOKEN=***",
        ] {
            assert!(shown.contains(line), "{command}: {line}\n{shown}");
        }
        assert!(!shown.contains("s3cret"), "{shown}");
    }
    assert_eq!(env.run(&["audit", "verify"]).code, Some(0));
}
