//! The pages about past calls in a real browser.

use std::path::Path;
use std::time::SystemTime;

use e2e::test_env::{TestEnv, poll_until};
use e2e::{root, target};
use serde_json::{Value, json};
use toolhost_store::{CallRow, Store, TransitionRow, Write};

use super::{Script, UiHost, edit, wait_for_questions};

const POLICY: &str = "allow = [\"write_file\"]\ndeny = [\"delete_file\"]";
const HOSTILE: &str =
    "\"><script>window.pwned=1</script><img src=x onerror=window.pwned=1>\u{202e}\u{200b}";

/// The recorded calls of a tool, newest first.
fn calls(env: &TestEnv, tool: &str) -> Vec<Value> {
    let calls = env.run_json(&["calls", "--tool", tool, "--json"]);
    calls.as_array().expect("a list").clone()
}

fn call_path(env: &TestEnv, tool: &str) -> String {
    // Records are written in groups.
    let newest = poll_until(|| calls(env, tool).into_iter().next());
    let id = newest["id"].as_str().expect("an id");
    format!("/call?id={id}")
}

#[test]
fn a_change_is_found_and_undone_in_the_browser() {
    let env = TestEnv::new(POLICY);
    let mut host = UiHost::start(&env, "127.0.0.1:0", &[]);
    let file = env.workspace().join("old.txt");
    let call = host.call("write_file", &json!({"path": file, "content": "changed\n"}));
    host.receive(call);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "changed\n");
    let Some(mut script) = Script::start("undo", &[("LINK", &host.link)]) else {
        return;
    };
    assert_eq!(script.hear(), "old.txt: -changed +old");
    assert_eq!(script.hear(), "undone");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "old\n");
    script.tell("next");
    assert_eq!(script.hear(), "redone");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "changed\n");
    // A change from outside: the page names the file and offers nothing.
    std::fs::write(&file, "mine\n").unwrap();
    script.tell("next");
    assert!(script.hear().contains("old.txt"));
    script.end();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine\n");
}

#[test]
fn pages_about_past_calls_are_accessible_and_show_hostile_text_as_text() {
    let env = TestEnv::new(POLICY);
    let mut host = UiHost::start(&env, "127.0.0.1:0", &[]);
    let path = env.workspace().join(HOSTILE.replace('/', "-"));
    for (tool, input) in [
        ("write_file", json!({"path": path, "content": HOSTILE})),
        ("read_file", json!({"path": path})),
        ("delete_file", json!({"path": path})),
    ] {
        let call = host.call(tool, &input);
        host.receive(call);
    }
    host.call("edit_file", &edit(&env));
    wait_for_questions(&env, 1);
    let input = json!({"path": "a\u{202e}b"})
        .to_string()
        .replace('\u{202e}', "\\u202e");
    let explain = ["read_file", "delete_file"]
        .map(|tool| format!("/policy?tool={tool}&input={}", encoded(&input)));
    let mut paths = vec![
        format!("/timeline?q={}", encoded("script")),
        "/timeline?outcome=denied".to_owned(),
        "/timeline?tool=absent".to_owned(),
        "/health?range=24h".to_owned(),
        "/call?id=absent".to_owned(),
    ];
    paths.extend(explain);
    paths.extend(["write_file", "read_file", "delete_file"].map(|tool| call_path(&env, tool)));
    let paths = json!(paths).to_string();
    let Some(mut script) = Script::start("every_page", &[("LINK", &host.link), ("PATHS", &paths)])
    else {
        return;
    };
    let checked = script.hear();
    let count = checked.strip_prefix("checked ").expect("a count");
    assert!(count.parse::<u32>().unwrap() >= 30, "{checked}");
    script.end();
}

/// Encodes a value of an address.
fn encoded(text: &str) -> String {
    let parts: Vec<String> = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
    parts.concat()
}

/// The times are printed for docs/performance.md and not checked.
#[test]
fn ten_thousand_calls_are_paged_and_scrolled() {
    let env = TestEnv::new("");
    let folder = env.database().parent().expect("a directory").to_owned();
    std::fs::create_dir_all(&folder).unwrap();
    let store = Store::open(&folder).unwrap();
    for number in 0..10_000 {
        store.queue(record(number)).unwrap();
        if number % 1_000 == 999 {
            tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap()
                .block_on(store.flush())
                .unwrap();
        }
    }
    drop(store);
    let host = UiHost::start(&env, "127.0.0.1:0", &[]);
    let Some(mut script) = Script::start("long_timeline", &[("LINK", &host.link)]) else {
        return;
    };
    let seen = script.hear();
    assert!(seen.starts_with("10000 calls on "), "{seen}");
    println!("{}", script.hear());
    script.end();
}

fn record(number: u32) -> Write {
    // The host removes old records when it starts.
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    let start = i64::try_from(now.as_millis()).unwrap() - 3_600_000;
    let at = start + i64::from(number) * 250;
    let id = format!("call-{number}");
    let session = format!("session-{}", number / 500);
    let step = |kind: &str, state: &str, at_ms| TransitionRow {
        call: id.clone(),
        session: session.clone(),
        at_ms,
        state: state.to_owned(),
        kind: kind.to_owned(),
        note: None,
        detail: Value::Null,
    };
    let transitions = vec![
        step("requested", "pending", at),
        step("started", "executing", at + 2),
        step("completed", "completed", at + 30),
    ];
    let row = CallRow {
        id: id.clone(),
        session: session.clone(),
        batch: Some(format!("turn-{}", number / 4)),
        parent: None,
        tool: Some("read_file".to_owned()),
        plugin: Some("files".to_owned()),
        state: "completed".to_owned(),
        finished: true,
        deferred: false,
        effectful: false,
        created_ms: at,
        updated_ms: at + 30,
        record: json!({
            "inputPreview": {"path": format!("src/module_{number}/mod.rs")}, "agentId": "main", "isError": false,
            "policyRuleId": "mode default: reads", "startedAt": at, "durationMs": 28.0, "effect": "reads",
        }),
    };
    Write::Call {
        row: Box::new(row),
        transitions,
    }
}

#[test]
fn the_pictures_of_the_documentation_show_past_calls() {
    let env = TestEnv::new(POLICY);
    let workspace = env.workspace();
    let mut host = UiHost::start(&env, "127.0.0.1:0", &[]);
    let steps = [
        ("read_file", json!({"path": workspace.join("old.txt")})),
        (
            "write_file",
            json!({"path": workspace.join("README.md"), "content": "# Weather station\n"}),
        ),
        ("read_file", json!({"path": workspace.join("missing.txt")})),
        (
            "write_file",
            json!({"path": workspace.join("sensors.md"), "content": "- wind\n- rain\n"}),
        ),
        ("delete_file", json!({"path": workspace.join("old.txt")})),
    ];
    for (tool, input) in steps {
        let call = host.call(tool, &input);
        host.receive(call);
    }
    let denied = call_path(&env, "delete_file");
    let input = json!({"path": "README.md", "old_string": "station", "new_string": "server"});
    let explain = format!(
        "/policy?tool=edit_file&input={}",
        encoded(&input.to_string())
    );
    let shots = json!([
        {"name": "page-timeline", "path": "/timeline", "width": 1280, "height": 800},
        {"name": "page-call", "path": denied, "width": 1280, "height": 720},
        {"name": "page-policy", "path": explain, "width": 1280, "height": 760, "dark": true},
        {"name": "page-plugins", "path": "/plugins", "width": 820, "height": 800},
        {"name": "page-timeline-phone", "path": "/timeline", "width": 390, "height": 800},
    ]);
    let mut replacements = vec![json!([env.path("").display().to_string(), "/home/ann/"])];
    for call in env
        .run_json(&["calls", "--json"])
        .as_array()
        .expect("a list")
    {
        let names = [
            ("id", "call-5b21"),
            ("sessionId", "7f3a2c91d0"),
            ("batchId", "turn-2"),
        ];
        let names = names
            .into_iter()
            .filter_map(|(field, name)| Some(json!([call[field].as_str()?, name])));
        replacements.extend(names);
    }
    let output = target().join("pictures");
    std::fs::create_dir_all(&output).unwrap();
    let renew = std::env::var_os("UPDATE_EXPECT").is_some();
    let shown = |path: &Path| path.display().to_string();
    let variables = [
        ("LINK", host.link.clone()),
        ("SHOTS", shots.to_string()),
        ("REPLACEMENTS", json!(replacements).to_string()),
        ("PICTURES", shown(&root().join("docs/pictures"))),
        ("OUTPUT", shown(&output)),
        ("RENEW", if renew { "1" } else { "0" }.to_owned()),
    ];
    let variables = variables
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    let Some(mut script) = Script::start("pictures", &variables) else {
        return;
    };
    assert_eq!(script.hear(), "done");
    script.end();
}
