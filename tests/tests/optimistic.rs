//! Calls that run at once and end in order leave what the same calls leave one after the other: the same files, and
//! the same results.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use e2e::{CommandResult, Guest, host, root};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

const FILES: [(&str, &str); 5] = [
    ("a", "alpha"),
    ("b", "beta"),
    ("d/a", "alpha in d"),
    ("d/e/a", "alpha in e"),
    ("d/e/b", "beta in e"),
];

/// The results of the calls, and the resulting files.
type Left = (Vec<Value>, BTreeMap<String, String>);

fn run(strategy: &str, calls: &[(&str, Vec<String>)]) -> (Left, Vec<Value>) {
    run_with("", strategy, calls)
}

fn run_with(config: &str, strategy: &str, calls: &[(&str, Vec<String>)]) -> (Left, Vec<Value>) {
    let guest = Guest::new("script", &["fs.read", "fs.write"], "");
    let workspace = guest.workspace();
    for (path, content) in FILES {
        let path = workspace.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let state = tempfile::tempdir().unwrap();
    let calls: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(id, (name, steps))| {
            json!({"id": id.to_string(), "name": name, "input": {"steps": steps}})
        })
        .collect();
    let file = state.path().join("calls.json");
    fs::write(&file, Value::from(calls).to_string()).unwrap();
    let mut command = host(&["batch", "--json", "--strategy", strategy]);
    command
        .arg(&file)
        .args(["--allow-tool", "script", "--plugins"])
        .arg(guest.plugin())
        .arg("--allow-path")
        .arg(format!("{}:rw", workspace.display()))
        .env("TOOLHOST_STATE_DIR", state.path());
    let settings = state.path().join("toolhost.toml");
    fs::write(&settings, config).unwrap();
    command.arg("--config").arg(&settings);
    let ended = CommandResult::of(&command.output().unwrap());
    let Ok(Value::Array(reports)) = serde_json::from_str(&ended.stdout) else {
        panic!("not a list: {ended:?}");
    };
    let results = reports
        .iter()
        .map(|report| {
            json!([
                report["id"],
                report["outcome"]["structured"],
                report["error"]["message"]
            ])
        })
        .collect();
    let mut tree = BTreeMap::new();
    tree_into(&workspace, "", &mut tree);
    ((results, tree), reports)
}

fn tree_into(dir: &Path, below: &str, tree: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("{below}{}", path.file_name().unwrap().display());
        if path.is_dir() {
            tree_into(&path, &format!("{name}/"), tree);
            tree.insert(name + "/", String::new());
        } else {
            tree.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
}

fn path() -> impl Strategy<Value = &'static str> {
    select(vec![
        "a", "b", "c", "d", "d/a", "d/b", "d/e", "d/e/a", "n", "n/a", ".",
    ])
}

fn look() -> impl Strategy<Value = String> {
    (select(vec!["read", "list", "stat"]), path()).prop_map(|(verb, path)| format!("{verb} {path}"))
}

fn change() -> impl Strategy<Value = String> {
    let text = select(vec!["1", "two", "a longer text"]);
    prop_oneof![
        (select(vec!["write", "append"]), path(), text)
            .prop_map(|(verb, path, text)| format!("{verb} {path} {text}")),
        (select(vec!["copy", "rename"]), path(), path())
            .prop_map(|(verb, from, to)| format!("{verb} {from} {to}")),
        (select(vec!["remove", "mkdir", "rmdir"]), path())
            .prop_map(|(verb, path)| format!("{verb} {path}")),
    ]
}

fn call() -> impl Strategy<Value = (&'static str, Vec<String>)> {
    let step = || prop_oneof![2 => change(), 1 => look()];
    prop_oneof![
        2 => prop::collection::vec(look(), 1..4).prop_map(|steps| ("look", steps)),
        5 => prop::collection::vec(step(), 1..4).prop_map(|steps| ("script", steps)),
        1 => prop::collection::vec(step(), 1..3).prop_map(|mut steps| {
            steps.push("fail".to_owned());
            ("script", steps)
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(24),
        max_shrink_iters: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn running_at_once_leaves_what_running_one_by_one_leaves(
        calls in prop::collection::vec(call(), 2..10),
    ) {
        let (serial, _) = run("serial", &calls);
        let (optimistic, _) = run("optimistic", &calls);
        prop_assert_eq!(serial, optimistic, "{:#?}", calls);
    }
}

fn steps(steps: &[&str]) -> Vec<String> {
    steps.iter().map(|step| (*step).to_owned()).collect()
}

#[test]
fn a_call_sees_what_the_calls_before_it_changed() {
    let calls = [
        ("script", steps(&["write a first"])),
        ("look", steps(&["read a", "list .", "stat b"])),
        ("script", steps(&["copy a c", "remove b"])),
        ("look", steps(&["read c", "read b", "list d/e"])),
        ("script", steps(&["rename d n", "fail"])),
        ("look", steps(&["list n", "list d"])),
        ("script", steps(&["append c , second"])),
    ];
    let ((results, tree), _) = run("optimistic", &calls);
    let text = |at: usize| results[at][1].to_string();
    assert!(
        text(1).contains("first") && text(1).contains("\"4\""),
        "{results:#?}"
    );
    assert!(
        text(3).contains("first") && text(3).contains("NotFound"),
        "{results:#?}"
    );
    assert!(
        text(5).contains("NotFound") && text(5).contains("a e"),
        "{results:#?}"
    );
    assert_eq!(tree["c"], "first, second");
    assert!(!tree.contains_key("b"));
}

#[test]
fn a_call_sees_what_the_calls_before_it_stored_in_the_session() {
    let state = tempfile::tempdir().unwrap();
    let add = |id: &str, content: &str| {
        json!({"id": id, "name": "todo_write", "input": {"merge": true,
            "todos": [{"id": id, "content": content, "status": "pending"}]}})
    };
    // The search gives the other calls the time to begin before one of them ends.
    let calls = json!([
        {"id": "1", "name": "grep", "input": {"pattern": "no such text"}},
        add("2", "first"),
        add("3", "second"),
        {"id": "4", "name": "todo_read", "input": {}}
    ]);
    let file = state.path().join("calls.json");
    fs::write(&file, calls.to_string()).unwrap();
    let mut command = host(&["batch", "--json", "--strategy", "optimistic"]);
    command
        .arg(&file)
        .arg("--plugins")
        .arg(root().join("plugins"));
    command.arg("--allow-path").arg(root().join("host"));
    command
        .args(["--mode", "yolo"])
        .env("TOOLHOST_STATE_DIR", state.path());
    let ended = CommandResult::of(&command.output().unwrap());
    let reports: Value =
        serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
    let read = reports[3]["outcome"].to_string();
    assert!(
        read.contains("first") && read.contains("second"),
        "{reports:#}"
    );
}

//
#[test]
fn r_217_a_repeated_look_is_remembered_until_what_it_saw_changes() {
    let calls = [
        ("look", steps(&["read a", "list d"])),
        ("look", steps(&["read a", "list d"])),
        ("script", steps(&["write b other"])),
        ("look", steps(&["read a", "list d"])),
        ("script", steps(&["write a new"])),
        ("look", steps(&["read a", "list d"])),
        ("script", steps(&["write d/new text"])),
        ("look", steps(&["read a", "list d"])),
    ];
    let cache = "[[hook]]\nbuiltin = \"read-cache\"\n";
    let mut all = Vec::new();
    for strategy in ["serial", "optimistic"] {
        let (left, reports) = run_with(cache, strategy, &calls);
        let cached: Vec<bool> = reports
            .iter()
            .map(|report| report["outcome"]["meta"]["cached"] == true)
            .collect();
        assert_eq!(
            cached,
            [false, true, false, true, false, false, false, false],
            "{strategy}: {reports:#?}"
        );
        all.push(left);
    }
    let plain = run("serial", &calls).0;
    assert_eq!(all, [plain.clone(), plain]);
}
