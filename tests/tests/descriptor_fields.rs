//! Members of descriptors that the host enforces or forwards: inactivity timeout, maximum output, output while a tool runs,
//! `extra`, descriptions that depend on the environment, and destinations.

use std::io::Write as _;
use std::process::Stdio;

use e2e::terminal::{KEYS, Terminal};
use e2e::test_env::TestEnv;
use e2e::{CommandResult, Guest, host, run};
use serde_json::{Value, json};

fn guest() -> Guest {
    Guest::new("descriptor_fields", &[], "")
}

#[test]
fn a_tool_that_reports_nothing_for_its_inactivity_timeout_is_ended() {
    let guest = guest();
    // Longer than the limit in all, but never without a report for so long.
    let input = json!({"reports": 20, "silence": 0});
    let (report, _) = guest.call_tool("grows_silent", &input, &[]);
    assert_eq!(report["ok"], true, "{report}");
    let input = json!({"reports": 1, "silence": 60_000});
    let (report, _) = guest.call_tool("grows_silent", &input, &[]);
    assert_eq!(
        (&report["error"]["class"], &report["error"]["code"]),
        (&json!("timeout"), &json!("inactivity_timeout")),
        "{report}"
    );
}

#[test]
fn an_outcome_larger_than_the_tool_states_is_an_error() {
    let guest = guest();
    for (bytes, class) in [(900, Value::Null), (1_001, json!("output_limit"))] {
        let (report, _) = guest.call_tool("described", &json!({"bytes": bytes}), &[]);
        assert_eq!(report["error"]["class"], class, "{report}");
    }
}

#[test]
fn descriptions_depend_on_the_environment_and_extra_is_forwarded() {
    let guest = guest();
    let plugin = guest.plugin();
    let listed = run(&[
        "tools",
        "--json",
        "--mode",
        "plan",
        "--plugins",
        &plugin.to_string_lossy(),
    ]);
    let tools: Value = serde_json::from_str(&listed.stdout).unwrap();
    let tools = tools.as_array().unwrap();
    let tool = tools
        .iter()
        .find(|tool| tool["name"] == "described")
        .unwrap();
    assert_eq!(tool["extra"], json!({"color": "blue"}), "{tool}");
    let description = tool["description"].as_str().unwrap();
    for fact in [
        "platform=linux",
        "workspace=/workspace",
        "mode=plan",
        "profile=native",
        "date=20",
    ] {
        assert!(description.contains(fact), "{description}");
    }
}

/// A call that declares the destinations `to` and writes the file `really`.
fn deliver(to: &[&str], really: &str, flags: &[&str]) -> (Guest, Value) {
    let guest = Guest::new("descriptor_fields", &["fs.read", "fs.write"], "");
    let allowed = format!("{}:rw", guest.workspace().display());
    let mut all = vec!["--allow-path", &allowed];
    all.extend(flags);
    let input = json!({"to": to, "really": really});
    let (report, _) = guest.call_tool("deliver", &input, &all);
    (guest, report)
}

#[test]
fn rules_match_the_destinations_of_a_call() {
    let allow = ["--allow-tool", "deliver(destination:out/*)"];
    let code = |to: &[&str], flags: &[&str]| {
        let really = to.first().copied().unwrap_or("x.txt");
        deliver(to, really, flags).1["error"]["code"].clone()
    };
    assert_eq!(code(&["a.txt"], &["--allow-tool", "deliver"]), Value::Null);
    // A pattern has to cover all of them.
    assert_eq!(code(&["a.txt", "out/b.txt"], &allow), "policy_violation");
    assert_eq!(code(&[], &allow), "destination_mismatch");
    let deny = [
        "--allow-tool",
        "*",
        "--deny-tool",
        "deliver(destination:a*)",
    ];
    assert_eq!(code(&["b.txt", "a.txt"], &deny), "policy_violation");
    assert_eq!(code(&["b.txt"], &deny), Value::Null);
    let (_, report) = deliver(
        &["a.txt"],
        "a.txt",
        &["--allow-tool", "deliver(destination:a.txt)"],
    );
    assert_eq!(report["ok"], true, "{report}");
}

#[test]
fn a_change_of_another_file_than_the_destinations_is_refused() {
    let (guest, report) = deliver(&["a.txt"], "b.txt", &["--allow-tool", "*"]);
    assert_eq!(report["error"]["code"], "destination_mismatch", "{report}");
    assert!(!guest.workspace().join("b.txt").exists());
    // A directory covers what is below it.
    let (guest, report) = deliver(&["."], "b.txt", &["--allow-tool", "*"]);
    assert_eq!(report["ok"], true, "{report}");
    assert!(guest.workspace().join("b.txt").exists());
}

#[test]
fn prompts_and_records_have_the_destinations_and_sources() {
    let env = TestEnv::new("");
    let guest = Guest::new("descriptor_fields", &["fs.read", "fs.write"], "");
    let plugin = guest.plugin();
    let allowed = format!("{}:rw", guest.workspace().display());
    let input = json!({"to": ["a.txt"], "really": "a.txt"}).to_string();
    let mut command = env.command(&["call", "deliver", &input, "--allow-path", &allowed]);
    command.arg("--plugins").arg(&plugin);
    let mut terminal = Terminal::start(&command, "");
    terminal.wait_for(KEYS);
    terminal.type_keys("y");
    let (code, screen) = terminal.wait();
    assert_eq!(code, Ok(0), "{screen}");
    let shown = screen
        .lines()
        .find(|line| line.trim_start().starts_with("destination"));
    assert!(shown.is_some_and(|line| line.contains("a.txt")), "{screen}");
    let calls = env.run_json(&["calls", "--json"]);
    assert_eq!(calls[0]["destinations"], json!(["a.txt"]), "{calls}");
    assert_eq!(calls[0]["sources"], json!(["people"]), "{calls}");
}

#[test]
fn host_turns_writes_events_among_its_lines() {
    let guest = guest();
    let plugin = guest.plugin();
    let call = json!({"id": "1", "name": "grows_silent", "input": {"reports": 1, "silence": 0}});
    let mut child = host(&[
        "turns",
        "--events",
        "-",
        "--plugins",
        &plugin.to_string_lossy(),
    ])
    .stdin(Stdio::piped())
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "{}", json!({"calls": [call]})).unwrap();
    drop(input);
    let ended = CommandResult::of(&child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let lines = ended.stdout.lines().map(serde_json::from_str::<Value>);
    let lines: Vec<Value> = lines.map(Result::unwrap).collect();
    assert!(
        lines.iter().any(|line| line["results"][0]["ok"] == true),
        "{ended:?}"
    );
    let events = lines
        .iter()
        .filter_map(|line| line["event"]["type"].as_str());
    let events: Vec<&str> = events.collect();
    assert!(events.contains(&"call.created"), "{events:?}");
    assert!(ended.stdout.contains("tick"), "{ended:?}");
}
