//! Host services of guests, end to end: a service requires the need in the manifest, the declaration of the tool and
//! the permission of the operator.

mod agents;
mod commands;
mod denied;
mod net;
mod principals;
mod programs;

use e2e::{Guest, session};
use serde_json::{Value, json};

use self::session::{Session, result_value};

const ALL: [&str; 5] = ["session", "user", "resources", "agents", "tools:*"];

fn check(guest: &Guest, tool: &str, steps: &[&str], flags: &[&str], expected: &Value) {
    let flags = [&["--mode", "yolo"], flags].concat();
    let (report, ended) = guest.call_tool(tool, &json!({ "steps": steps }), &flags);
    assert_eq!(
        &result_value(&report),
        expected,
        "{tool} {steps:?}: {report} {}",
        ended.stderr
    );
}

#[test]
fn without_the_need_each_service_refuses_with_its_code() {
    let guest = Guest::new("services", &[], "");
    let steps = [
        "recall a",
        "remember a 1",
        "saw /f",
        "seen /f",
        r#"ask [{"question": "Sure?", "type": "yesno"}]"#,
        "mode plan",
        r#"wish {"write": ["a"]}"#,
        "resources",
        "tools",
        "call services {}",
        "start services {}",
        "running",
        "agents",
        "task {}",
    ];
    let refused = vec!["! service_not_granted"; steps.len()];
    for tool in ["services", "narrow", "relay", "hand_on", "nothing"] {
        check(&guest, tool, &steps, &[], &json!(refused));
    }
}

#[test]
fn what_a_tool_requires_is_all_that_it_gets() {
    let guest = Guest::new("services", &ALL, "");
    let steps = [
        "recall a",
        "resources",
        "tools",
        "call nothing {}",
        "agents",
    ];
    let no = "! service_not_granted";
    // What it calls others for, only a tool that acts may require.
    check(
        &guest,
        "services",
        &steps,
        &[],
        &json!(["-", "[]", no, no, no]),
    );
    check(&guest, "narrow", &steps, &[], &json!(["-", no, no, no, no]));
    let tools = "hand_on narrow nothing relay services";
    let call = [
        "recall a",
        "resources",
        "tools",
        r#"call nothing {"steps": []}"#,
        "agents",
    ];
    check(
        &guest,
        "relay",
        &call,
        &[],
        &json!(["-", no, tools, "[]", no]),
    );
    // The operator has set up no sub-agent.
    check(&guest, "hand_on", &steps, &[], &json!([no, no, no, no, no]));
    check(&guest, "nothing", &steps, &[], &json!([no, no, no, no, no]));
}

#[test]
fn a_tool_calls_those_that_its_manifest_names_and_no_others() {
    let guest = Guest::new("services", &["tools:narrow", "session"], "");
    let steps = [
        r#"call narrow {"steps": ["recall a"]}"#,
        r#"call services {"steps": []}"#,
        r#"start services {"steps": []}"#,
        // By another name it is the same refusal: the list has names as they are.
        r#"call services/narrow {"steps": []}"#,
    ];
    let no = "! service_not_granted";
    check(
        &guest,
        "relay",
        &steps,
        &[],
        &json!([r#"["-"]"#, no, no, no]),
    );
}

/// A tool that requires only other tools needs no approval, so it must have no access to files.
#[test]
fn a_tool_that_delegates_sees_no_files() {
    let guest = Guest::new(
        "services",
        &["tools:*", "session", "fs.read", "fs.write"],
        "",
    );
    std::fs::write(guest.workspace().join("a"), "secret").unwrap();
    let folder = format!("{}:rw", guest.workspace().display());
    let flags = ["--allow-path", &folder];
    let read = ["read /workspace/a"];
    check(&guest, "services", &read, &flags, &json!(["secret"]));
    // The write was not approved, so the file is unchanged.
    let input = json!({"steps": ["write /workspace/a other"]});
    guest.call_tool("relay", &input, &flags);
    let content = std::fs::read_to_string(guest.workspace().join("a")).unwrap();
    assert_eq!(content, "secret");
    for tool in ["relay", "narrow", "nothing"] {
        check(&guest, tool, &read, &flags, &json!(["! file_not_found"]));
    }
}

#[test]
fn a_call_by_a_tool_is_judged_for_itself() {
    let guest = Guest::new("services", &["tools:*", "session"], "");
    let steps = [
        r#"call services {"steps": []}"#,
        r#"call nothing {"steps": []}"#,
    ];
    let denied = json!(["! policy_violation", "[]"]);
    check(
        &guest,
        "relay",
        &steps,
        &["--deny-tool", "services"],
        &denied,
    );
    // The tool itself needs no approval.
    let (report, _) = guest.call_tool("relay", &json!({ "steps": steps }), &[]);
    assert_eq!(result_value(&report), json!(["[]", "[]"]), "{report}");
    let nested = [r#"call relay {"steps": ["call nothing {}"]}"#];
    check(
        &guest,
        "relay",
        &nested,
        &[],
        &json!([r#"["! nested_call"]"#]),
    );
}

#[test]
fn a_session_remembers_what_its_calls_stored_and_forgets_it_at_its_end() {
    let guest = Guest::new("services", &ALL, "");
    let mut session = Session::start(&guest, &[]);
    let mut check = |tool: &str, steps: &[&str], expected: Value| {
        assert_eq!(
            session.steps(tool, steps, &[]),
            expected,
            "{tool} {steps:?}"
        );
    };
    check(
        "narrow",
        &["remember a {\"b\": 1}", "saw /f"],
        json!(["done", "done"]),
    );
    check(
        "services",
        &["recall a", "seen /f", "seen /g"],
        json!([r#"{"b":1}"#, "true", "false"]),
    );
    check("services", &["remember a 2", "fail"], json!("failed"));
    check("services", &["recall a"], json!([r#"{"b":1}"#]));
    check(
        "services",
        &["remember shared/env {}"],
        json!(["! not_writable"]),
    );
    assert_eq!(session.end().code, Some(0));
    let mut session = Session::start(&guest, &[]);
    assert_eq!(
        session.steps("services", &["recall a", "seen /f"], &[]),
        json!(["-", "false"])
    );
    session.end();
}

#[test]
fn a_user_is_prompted_and_answers() {
    let guest = Guest::new("services", &ALL, "");
    let mut session = Session::start(&guest, &[]);
    let step = r#"ask [{"question": "Which?", "options": [{"label": "a"}, {"label": "b"}]}]"#;
    let input = json!({ "steps": [step] });
    let (result, questions) = session.call("services", &input, &[json!({"replies": ["b"]})]);
    assert_eq!(result_value(&result), json!([r#"["b"]"#]));
    assert_eq!(
        (
            &questions[0]["plugin"],
            &questions[0]["tool"],
            &questions[0]["queries"][0]["question"]
        ),
        (&json!("services"), &json!("services"), &json!("Which?"))
    );
    // Answers that do not fit are errors, and the question stays open.
    session.say(&json!({"calls": [{"id": "1", "name": "services", "input": input}]}));
    let id = session.receive()["interview"]["id"].clone();
    for (answer, error) in [
        (
            json!({"id": id, "replies": [true]}),
            "reply 1 does not fit the `type` of its question",
        ),
        (
            json!({"id": id, "replies": ["a", "b"]}),
            "the number of `replies` is 2, and that of questions is 1; give one for each",
        ),
    ] {
        session.say(&json!({ "answer": answer }));
        assert_eq!(session.receive(), json!({ "error": error }));
    }
    session.say(&json!({"answer": {"id": id, "replies": null}}));
    let results = session.receive();
    assert_eq!(result_value(&results["results"][0]), json!(["! dismissed"]));
    let bad = [
        "ask []",
        "ask {}",
        r#"ask [{"question": "x", "options": [{"label": "a"}]}]"#,
    ];
    let refused = vec!["! invalid_question"; bad.len()];
    assert_eq!(session.steps("services", &bad, &[]), json!(refused));
    session.end();
    // Nobody sits at a pipe.
    check(&guest, "services", &[step], &[], &json!(["! no_user"]));
}

/// Turns run one after the other, and a question of the first is answered though the second is there already.
#[test]
fn an_answer_is_heard_after_the_next_turn() {
    let guest = Guest::new("services", &ALL, "");
    let mut session = Session::start(&guest, &[]);
    let turn = |id: &str, step: &str| json!({"calls": [{"id": id, "name": "services", "input": {"steps": [step]}}]});
    session.say(&turn(
        "1",
        r#"ask [{"question": "Sure?", "type": "yesno"}]"#,
    ));
    let question = session.receive();
    session.say(&turn("2", "recall a"));
    session.say(&json!({"answer": {"id": question["interview"]["id"], "replies": [true]}}));
    let results = [session.receive(), session.receive()];
    let results = results.map(|line| result_value(&line["results"][0]));
    assert_eq!(results, [json!(["[true]"]), json!(["-"])]);
    session.end();
}

#[test]
fn a_mode_is_narrowed_at_once_and_widened_by_a_person() {
    let guest = Guest::new("services", &ALL, "");
    let mut session = Session::start(&guest, &[]);
    assert_eq!(
        session.steps("services", &["mode plan"], &[]),
        json!(["plan"])
    );
    let stay = json!({"replies": ["stay"]});
    assert_eq!(
        session.steps("services", &["mode default"], &[stay]),
        json!(["! user_denied"])
    );
    let accept = json!({"replies": ["default"]});
    assert_eq!(
        session.steps("services", &["mode default"], &[accept]),
        json!(["default"])
    );
    session.end();
}

/// The time that a user takes to answer does not count towards the timeout of the tool.
#[test]
fn a_guest_has_its_own_time_and_no_more() {
    let guest = Guest::new("services", &ALL, "timeout = \"1s\"");
    check(&guest, "services", &["spin"], &[], &json!("timeout"));
    let spins = [
        r#"call services {"steps": ["spin"]}"#,
        r#"call services {"steps": ["spin"]}"#,
        "recall a",
    ];
    let over = "! timeout";
    check(&guest, "relay", &spins, &[], &json!([over, over, "-"]));
}

#[test]
fn a_call_goes_on_in_the_background() {
    let guest = Guest::new("services", &ALL, "timeout = \"60s\"");
    let mut session = Session::start(&guest, &[]);
    let start = [
        r#"start services {"steps": ["spin"]}"#,
        r#"start narrow {"steps": []}"#,
    ];
    assert_eq!(
        session.steps("relay", &start, &[]),
        json!(["running", "! invalid_tool"])
    );
    assert_eq!(session.steps("relay", &["running"], &[]), json!(["1"]));
    // What goes on does not keep the host from its end.
    assert_eq!(session.end().code, Some(0));
}

#[test]
fn a_task_goes_to_the_command_of_an_agent() {
    let guest = Guest::new("services", &ALL, "");
    let config = guest.workspace().join("host.toml");
    let agents = "[agents.echo]\ncommand = [\"cat\"]\n[agents.broken]\ncommand = [\"false\"]\n";
    std::fs::write(&config, agents).unwrap();
    let config = config.to_string_lossy().into_owned();
    let steps = [
        "agents",
        r#"task {"agent": "echo", "text": "hello"}"#,
        r#"task {"agent": "broken"}"#,
        r#"task {"agent": "nobody"}"#,
        "task [1]",
    ];
    let flags = ["--config", config.as_str(), "--mode", "yolo"];
    let (report, _) = guest.call_tool("hand_on", &json!({ "steps": steps }), &flags);
    let results = result_value(&report);
    assert_eq!(results[0], json!("broken echo"), "{report}");
    let answer: Value = serde_json::from_str(results[1].as_str().unwrap()).unwrap();
    assert_eq!(
        (&answer["text"], &answer["parent_agent"]),
        (&json!("hello"), &json!("main"))
    );
    assert_eq!(results[2], json!("! agent_failed"));
    assert_eq!(results[3], json!("! agent_not_found"));
    assert_eq!(results[4], json!("! invalid_task"));
}

#[test]
fn a_tool_that_a_tool_called_hands_a_task_to_a_sub_agent_and_calls_no_tool() {
    let guest = Guest::new("services", &ALL, "");
    let config = guest.workspace().join("host.toml");
    std::fs::write(&config, "[agents.echo]\ncommand = [\"cat\"]\n").unwrap();
    let task = r#"task {"agent": "echo", "text": "hello"}"#;
    let call = |tool: &str, step: &str| format!("call {tool} {}", json!({ "steps": [step] }));
    let steps = [
        call("hand_on", task),
        call("relay", &call("nothing", "agents")),
    ];
    let flags = ["--config", &config.to_string_lossy(), "--mode", "yolo"];
    let (report, _) = guest.call_tool("relay", &json!({ "steps": steps }), &flags);
    let results = result_value(&report);
    let nested: Value = serde_json::from_str(results[0].as_str().unwrap()).unwrap();
    let answer: Value = serde_json::from_str(nested[0].as_str().unwrap()).unwrap();
    assert_eq!(answer["text"], json!("hello"), "{report}");
    assert_eq!(results[1], json!(r#"["! nested_call"]"#), "{report}");
}
