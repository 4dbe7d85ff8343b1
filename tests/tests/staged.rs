//! A tool of a third party that edits files: what is approved is what happens, a failure leaves nothing, and what
//! happened can be undone.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use e2e::{CommandResult, Guest, host};
use serde_json::{Value, json};
use tempfile::TempDir;

const FILES: [(&str, &str); 5] = [
    ("a.txt", "the old way\n"),
    ("deep/b.txt", "old and old\nlast line\n"),
    ("deep/er/c.md", "# old\n"),
    ("untouched.txt", "nothing here\n"),
    ("gone.txt", "to be removed\n"),
];

struct Scene {
    guest: Guest,
    state: TempDir,
}

impl Scene {
    fn new() -> Self {
        let scene = Self {
            guest: Guest::new("rewrite", &["fs.read", "fs.write"], ""),
            state: tempfile::tempdir().unwrap(),
        };
        for (path, content) in FILES {
            let path = scene.guest.workspace().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        scene
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = host(arguments);
        command.env("TOOLHOST_STATE_DIR", self.state.path());
        command
    }

    fn call(&self, input: &Value, flags: &[&str]) -> (Value, CommandResult) {
        let mut command = self.command(&["call", "rewrite", &input.to_string(), "--json"]);
        command.arg("--plugins").arg(self.guest.plugin());
        command
            .arg("--allow-path")
            .arg(format!("{}:rw", self.guest.workspace().display()));
        let ended = CommandResult::of(&command.args(flags).output().unwrap());
        let report = serde_json::from_str(&ended.stdout).unwrap_or(Value::Null);
        (report, ended)
    }

    fn run(&self, arguments: &[&str]) -> CommandResult {
        CommandResult::of(&self.command(arguments).output().unwrap())
    }

    fn tree(&self) -> BTreeMap<String, Vec<u8>> {
        tree(&self.guest.workspace())
    }
}

/// Every file and directory with its content.
fn tree(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            if path.is_dir() {
                found.insert(name + "/", Vec::new());
                left.push(path);
            } else {
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn input() -> Value {
    json!({"from": "old", "to": "new", "remove": "gone.txt"})
}

#[test]
fn a_change_without_a_user_to_ask_is_denied_and_changes_nothing() {
    let scene = Scene::new();
    let before = scene.tree();
    let (report, ended) = scene.call(&input(), &[]);
    assert_eq!(ended.code, Some(5), "{report:#} {}", ended.stderr);
    assert_eq!(scene.tree(), before);
}

#[test]
fn what_fails_leaves_nothing() {
    for end in ["fail", "trap"] {
        let scene = Scene::new();
        let before = scene.tree();
        let mut input = input();
        input["end"] = json!(end);
        let (report, ended) = scene.call(&input, &["--allow-tool", "rewrite"]);
        assert_ne!(ended.code, Some(0), "{end}: {report:#}");
        assert_eq!(scene.tree(), before, "{end}");
    }
}

#[test]
fn what_is_allowed_is_made_undone_and_made_again() {
    let scene = Scene::new();
    let before = scene.tree();
    let (report, ended) = scene.call(&input(), &["--allow-tool", "rewrite"]);
    assert_eq!(ended.code, Some(0), "{report:#} {}", ended.stderr);
    let after = scene.tree();
    assert_eq!(after["a.txt"], b"the new way\n");
    assert_eq!(after["deep/b.txt"], b"new and new\nlast line\n");
    assert_eq!(after["deep/er/c.md"], b"# new\n");
    assert!(after.contains_key("reports/rewrite.txt"));
    assert!(!after.contains_key("gone.txt"));

    let call = report["id"].as_str().unwrap();
    let undo = ["undo", call, "--yes"];
    let undone = scene.run(&undo);
    assert_eq!(undone.code, Some(0), "{undone:?}");
    assert_eq!(scene.tree(), before);
    let again = scene.run(&undo);
    assert_eq!(again.code, Some(2), "{again:?}");

    let redone = scene.run(&["undo", call, "--redo", "--yes"]);
    assert_eq!(redone.code, Some(0), "{redone:?}");
    assert_eq!(scene.tree(), after);
    assert_eq!(scene.run(&undo).code, Some(0));
    assert_eq!(scene.tree(), before);
}

#[test]
fn files_changed_since_are_not_undone() {
    let scene = Scene::new();
    let (report, _) = scene.call(&input(), &["--allow-tool", "rewrite"]);
    fs::write(scene.guest.workspace().join("a.txt"), "mine\n").unwrap();
    let after = scene.tree();
    let refused = scene.run(&["undo", report["id"].as_str().unwrap(), "--yes"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("a.txt"), "{refused:?}");
    assert_eq!(scene.tree(), after);
}

#[test]
fn what_it_changes_counts_and_not_what_it_names() {
    let scene = Scene::new();
    let config = scene.state.path().join("rules.toml");
    fs::write(
        &config,
        "[policy]\nallow = [\"rewrite\"]\ndeny = [\"Edit(deep/**)\"]\n",
    )
    .unwrap();
    let before = scene.tree();
    let (report, ended) = scene.call(&input(), &["--config", &config.to_string_lossy()]);
    assert_eq!(ended.code, Some(5), "{report:#} {}", ended.stderr);
    assert_eq!(scene.tree(), before);
}

/// A failure may say what was read as well as a result can.
#[test]
fn the_output_of_a_denied_call_is_discarded() {
    let scene = Scene::new();
    let mut input = input();
    input["end"] = json!("fail");
    for flags in [["--mode", "dont_ask"], ["--deny-tool", "rewrite"]] {
        let (report, ended) = scene.call(&input, &flags);
        assert_eq!(
            ended.code,
            Some(5),
            "{flags:?}: {report:#} {}",
            ended.stderr
        );
        assert!(!ended.stdout.contains("after all"), "{report:#}");
    }
}

#[test]
fn a_folder_that_is_granted_by_a_link_has_the_rules_of_the_folder() {
    let scene = Scene::new();
    let link = scene.state.path().join("link");
    std::os::unix::fs::symlink(scene.guest.workspace(), &link).unwrap();
    let before = scene.tree();
    let mut command = scene.command(&["call", "rewrite", &input().to_string()]);
    command.arg("--plugins").arg(scene.guest.plugin());
    command
        .arg("--allow-path")
        .arg(format!("{}:rw", link.display()));
    command.args(["--allow-tool", "rewrite", "--deny-tool", "Edit(./deep/**)"]);
    let ended = CommandResult::of(&command.output().unwrap());
    assert_eq!(ended.code, Some(5), "{ended:?}");
    assert_eq!(scene.tree(), before);
}

/// A completed commit is not reverted if its files were changed before the next start.
#[test]
fn a_commit_that_was_made_is_not_taken_back() {
    let scene = Scene::new();
    let mut command = scene.command(&["call", "rewrite", &input().to_string()]);
    command.arg("--plugins").arg(scene.guest.plugin());
    command
        .arg("--allow-path")
        .arg(format!("{}:rw", scene.guest.workspace().display()))
        .args(["--allow-tool", "rewrite"])
        .env("TOOLHOST_CRASH_AT", "commit_made");
    assert_eq!(CommandResult::of(&command.output().unwrap()).code, None);
    fs::write(scene.guest.workspace().join("a.txt"), "mine\n").unwrap();
    let after = scene.tree();
    scene.call(&json!({"from": "nowhere", "to": "x"}), &[]);
    assert_eq!(scene.tree(), after);
}

/// Killed at every step of the commit: the next start leaves all of it or nothing.
#[test]
fn a_kill_in_the_middle_of_a_commit_leaves_all_or_nothing() {
    let mut step = 1;
    loop {
        let scene = Scene::new();
        let before = scene.tree();
        let mut command = scene.command(&["call", "rewrite", &input().to_string()]);
        command.arg("--plugins").arg(scene.guest.plugin());
        command
            .arg("--allow-path")
            .arg(format!("{}:rw", scene.guest.workspace().display()))
            .args(["--allow-tool", "rewrite"])
            .env("TOOLHOST_CRASH_AT", format!("commit-{step}"));
        let killed = CommandResult::of(&command.output().unwrap());
        if killed.code == Some(0) {
            assert!(step > 5, "a commit has more steps than {step}");
            return;
        }
        assert_eq!(killed.code, None, "step {step}: {killed:?}");
        // Any later start of the host does it.
        let (report, _) = scene.call(&json!({"from": "nowhere", "to": "x"}), &[]);
        let mut after = scene.tree();
        let left = after.keys().find(|name| name.contains(".toolhost-"));
        assert_eq!(left, None, "step {step}");
        after.remove("reports/");
        after.remove("reports/rewrite.txt");
        if after != before {
            assert!(!after.contains_key("gone.txt"), "step {step}: {report:#}");
            assert_eq!(after["a.txt"], b"the new way\n", "step {step}");
            assert_eq!(after["deep/er/c.md"], b"# new\n", "step {step}");
        }
        step += 1;
    }
}
