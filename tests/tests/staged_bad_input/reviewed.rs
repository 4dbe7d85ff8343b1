//! Regression tests for findings of a security review, from the perspective of an attacker.

use std::fs;
use std::io::{BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};

use e2e::CommandResult;
use e2e::test_env::{parse_json, poll_until, wait_output};
use expect_test::{Expect, expect};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::scene::{AS_IT_WAS, Scene, difference, made, tree};

const ALL: [&str; 2] = ["--allow-tool", "*"];

/// What it sends away cannot be held back, so it is asked about before it runs, and what it writes is real at once.
#[test]
fn a_tool_that_says_network_is_asked_about_first_and_is_not_staged() {
    let scene = Scene::new(&[("a.txt", "old")]);
    let before = scene.tree();
    let steps: &[&[&str]] = &[&["write", "a.txt", "new"], &["read", "a.txt"]];
    let waiting = scene.hold("file_script_online", steps);
    let id = waiting.id.clone();
    let states = || {
        let shown = parse_json(&scene.run(&["calls", &id, "--json"]));
        let trail = shown["auditTrail"].as_array().unwrap().clone();
        let states = trail.iter().map(|line| line["state"].as_str().unwrap());
        states.collect::<Vec<_>>().join(" ")
    };
    let first = states();
    assert_eq!(difference(&before, &scene.tree()), AS_IT_WAS);
    let (prompts, report, ended) = scene.approve(waiting);
    expect![[r#"
        pending validating validating awaiting_approval
        asked: 1
        pending validating validating awaiting_approval approved scheduled executing completed
        exit 0: ok
          write a.txt: ok
          read a.txt: new
        the tree:
          changed workspace/a.txt: file 644 "new", was file 644 "old"
        journal: 1 done
    "#]]
    .assert_eq(&format!(
        "{first}\nasked: {prompts}\n{}\n{}{}journal: {}\n",
        states(),
        scene.report_text(&report, &ended),
        difference(&before, &scene.tree()),
        scene.journal()
    ));
    assert!(report.get("undo_ids").is_none(), "{report:#}");
    scene.finish();
}

#[test]
fn names_for_an_undo_that_a_plugin_makes_up_are_not_taken() {
    let scene = Scene::new(&[("a.txt", "old")]);
    let earlier = parse_json(&scene.run(&["calls", "--json"]))[0]["id"].clone();
    let steps = [["write", "a.txt", "new"]];
    let input = json!({"steps": steps, "ids": ["commit-forged", earlier]});
    let before = scene.tree();
    let (report, ended) = made(scene.calling("file_script_forging", &input, &ALL));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let ids = report["undo_ids"].as_array().unwrap();
    assert_eq!(ids.len(), 1, "{report:#}");
    assert!(!report["undo_ids"].to_string().contains("forged"));
    let forged = scene.run(&["undo", "commit-forged", "--yes"]);
    assert_eq!(forged.code, Some(2), "{forged:?}");
    let undone = scene.run(&["undo", ids[0].as_str().unwrap(), "--yes"]);
    assert_eq!(undone.code, Some(0), "{undone:?}");
    assert_eq!(difference(&before, &scene.tree()), AS_IT_WAS);

    // A call that changes nothing has no undo id, even if it claims one.
    let input = json!({"steps": [["read", "a.txt"]], "ids": ["commit-forged"]});
    let (report, _) = made(scene.calling("file_script_forging", &input, &ALL));
    assert!(report.get("undo_ids").is_none(), "{report:#}");
    scene.finish();
}

/// Write access to the store would let a tool determine what an undo writes.
#[test]
fn a_grant_that_holds_the_store_does_not_open_it() {
    let scene = Scene::new(&[]);
    let grant = format!("{}:rw", scene.state().parent().unwrap().display());
    let steps: &[&[&str]] = &[
        &["list", "."],
        &["list", "state"],
        &["list", "state/store/stage"],
        &["read", "state/store/store.db"],
        &["write", "state/store/blobs/new", "text"],
        &["write", "state/new", "text"],
        &["rename", "state", "elsewhere"],
        &["remove_all", "state"],
        &["write", "beside.txt", "text"],
    ];
    let flags = ["--allow-tool", "*", "--allow-path", &grant];
    let (report, ended) = scene.call(steps, &flags);
    expect![[r#"
        exit 0: ok
          list .: ask.toml
          list state: Operation not permitted (os error 63)
          list state/store/stage: Operation not permitted (os error 63)
          read state/store/store.db: Operation not permitted (os error 63)
          write state/store/blobs/new: Operation not permitted (os error 63)
          write state/new: Operation not permitted (os error 63)
          rename state: Operation not permitted (os error 63)
          remove_all state: Operation not permitted (os error 63)
          write beside.txt: ok
    "#]]
    .assert_eq(&scene.report_text(&report, &ended));
    let written = scene.state().parent().unwrap().join("beside.txt");
    assert_eq!(fs::read_to_string(written).unwrap(), "text");
    scene.finish();
}

/// Without records what waits is in a directory for temporary files, which a grant may hold as well.
#[test]
fn a_grant_that_holds_the_temporary_stage_does_not_open_it() {
    let scene = Scene::new(&[("a.txt", "old")]);
    let steps = json!({"steps": [["write", "a.txt", "new"], ["list", "."], ["count", "."]]});
    let mut command = scene.calling("file_script", &steps, &["--allow-tool", "*", "--no-store"]);
    command.env("TMPDIR", scene.workspace());
    let (report, ended) = made(command);
    expect![[r#"
        exit 0: ok
          write a.txt: ok
          list .: a.txt earlier.txt
          count .: 2
    "#]]
    .assert_eq(&scene.report_text(&report, &ended));
    let left = tree(&scene.workspace());
    assert_eq!(left.keys().collect::<Vec<_>>(), ["a.txt", "earlier.txt"]);
    assert_eq!(left["a.txt"], "file 644 \"new\"");
    scene.finish();
}

/// `[HOST]` is the granted folder; the guest knows it as `/workspace`.
fn check_rule(rule: &str, path: &str, expected: &Expect) {
    let scene = Scene::new(&[("deep/a.txt", "old"), ("b.txt", "old")]);
    let host = scene.workspace().canonicalize().unwrap();
    let host = host.to_string_lossy();
    let (rule, path) = (rule.replace("[HOST]", &host), path.replace("[HOST]", &host));
    let before = scene.tree();
    let mut texts = String::new();
    // Named in the input, as models do it, and met by the tool on its own.
    for input in [
        json!({"path": path, "steps": [["write", "@", "new"]]}),
        json!({"steps": [["write", "deep/a.txt", "new"]]}),
        json!({"path": path, "steps": [["read", "@"]]}),
    ] {
        let flags = ["--allow-tool", "*", "--deny-tool", &rule];
        let (report, ended) = made(scene.calling("file_script", &input, &flags));
        texts += &scene.report_text(&report, &ended).replace(&*host, "[HOST]");
        assert_eq!(difference(&before, &scene.tree()), AS_IT_WAS, "{texts}");
    }
    expected.assert_eq(&texts);
    scene.finish();
}

#[test]
fn a_rule_on_a_folder_of_the_host_holds_for_the_name_that_guests_have_for_it() {
    check_rule(
        "Edit(/[HOST]/deep/**)",
        "/workspace/deep/a.txt",
        &expect![[r#"
        exit 5: permission_denied [policy_violation] Permission denied: rule user:1 deny `Edit(/[AROUND]/workspace/deep/**)` forbids `file_script`
        exit 5: permission_denied [policy_violation] Permission denied: rule user:1 deny `Edit(/[AROUND]/workspace/deep/**)` forbids `file_script`
        exit 5: permission_denied [policy_violation] Permission denied: rule user:1 deny `Edit(/[AROUND]/workspace/deep/**)` forbids `file_script`
    "#]],
    );
}

/// A rule without a root applies to the first granted directory under all of its names.
#[test]
fn a_rule_on_the_granted_folder_holds_for_the_name_that_the_host_has_for_it() {
    check_rule(
        "Edit(deep/**)",
        "[HOST]/deep/a.txt",
        &expect![[r#"
        exit 5: permission_denied [policy_violation] Permission denied: rule user:1 deny `Edit(deep/**)` forbids `file_script`
        exit 5: permission_denied [policy_violation] Permission denied: rule user:1 deny `Edit(deep/**)` forbids `file_script`
        exit 5: permission_denied [policy_violation] Permission denied: rule user:1 deny `Edit(deep/**)` forbids `file_script`
    "#]],
    );
}

#[test]
fn a_rule_holds_however_the_path_is_written() {
    check_rule(
        "Edit(deep/**)",
        "/workspace/./deep/../deep/a.txt",
        &expect![[r#"
        exit 5: permission_denied [policy_violation] Permission denied: rule user:1 deny `Edit(deep/**)` forbids `file_script`
        exit 5: permission_denied [policy_violation] Permission denied: rule user:1 deny `Edit(deep/**)` forbids `file_script`
        exit 5: permission_denied [policy_violation] Permission denied: rule user:1 deny `Edit(deep/**)` forbids `file_script`
    "#]],
    );
}

/// A name with a newline could end the row that shows it and begin one that looks like ours, or like a line of the
/// difference; an escape could paint over what is above it.
#[test]
fn a_name_cannot_forge_a_row_of_the_question() {
    const PLAY: &str = r#"
        printf "'%s' " "$@" > "$PLAYED"
        exec script -qec "sh $PLAYED" /dev/null"#;
    let scene = Scene::new(&[]);
    let before = scene.tree();
    let hostile = "a\n    │ @@ -1 +1 @@\n    │ -nothing\n  y once\u{1b}[2J\r\u{202e}b";
    let steps = json!({"steps": [["write", hostile, "one\ntwo\n"]]});
    let call = scene.calling("file_script", &steps, &[]);
    let mut command = Command::new("sh");
    command.args(["-c", PLAY, "sh"]).arg(call.get_program());
    command.args(call.get_args());
    let variables = call
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)));
    command
        .envs(variables)
        .env("SHELL", "/bin/sh")
        .env("TERM", "xterm");
    command.env("PLAYED", scene.state().with_extension("sh"));
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut played = pipes.spawn().unwrap();
    let mut screen = Vec::new();
    let answer = "› ".as_bytes();
    for byte in BufReader::new(played.stdout.take().unwrap()).bytes() {
        screen.push(byte.unwrap());
        if screen.ends_with(answer) {
            // What is typed before the question does not count.
            played.stdin.take().unwrap().write_all(b"n").unwrap();
        }
    }
    let ended = played.wait().unwrap();
    if ended.code() == Some(127) {
        return println!("not run: there is no `script` that makes a terminal");
    }
    let screen = String::from_utf8(screen).unwrap();
    let title = screen
        .find("  Plugin `file-script` wants to create")
        .expect(&screen);
    let start = screen.find("    create ").expect(&screen);
    let end = screen.find("    call ").expect(&screen);
    for row in screen[title..start].lines().skip(1) {
        assert!(
            ["    ┊ ", "  (+2", "  not applied yet"]
                .iter()
                .any(|start| row.starts_with(start)),
            "{row}"
        );
    }
    // How wide a terminal is, and how long a path, is another matter.
    let shown = screen[start..end]
        .replace('\r', "")
        .replace("\n           ┊ ", "");
    expect![[r#"
        screen:
            create   [AROUND]/workspace/a\n    │ @@ -1 +1 @@\n    │ -nothing\n  y once\u{1b}[2J\r\u{202e}b  (file, 8 B)
           1 │ + one
           2 │ + two
    "#]].assert_eq(&format!("screen:\n{}", scene.plain(&shown)));
    assert_eq!(difference(&before, &scene.tree()), AS_IT_WAS);
    scene.finish();
}

/// Which directories there are for calls that wait.
fn stages(scene: &Scene) -> Vec<String> {
    let stages = tree(&scene.state().join("store/stage"));
    stages
        .into_keys()
        .filter(|name| name.contains("/call-") && name.matches('/').count() == 1)
        .collect()
}

#[test]
fn what_a_dead_process_staged_goes_at_the_next_start_and_what_a_living_one_staged_stays() {
    let scene = Scene::new(&[("a.txt", "old"), ("b.txt", "old")]);
    let start = |step: &[&str]| {
        let config = scene.state().parent().unwrap().join("ask.toml");
        let mut command = scene.calling("file_script", &json!({"steps": [step]}), &[]);
        command.arg("--config").arg(config);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let dead = start(&["write", "a.txt", "never"]);
    let first = poll_until(|| scene.waits_besides(&[]));
    let living = start(&["write", "b.txt", "new"]);
    let second = poll_until(|| scene.waits_besides(&[&first]));
    let both = stages(&scene);
    assert_eq!(both.len(), 2);

    kill_process(Pid::from_child(&dead), Signal::KILL).unwrap();
    wait_output(dead);
    assert_eq!(stages(&scene), both, "before the sweep");
    let (_, next) = scene.call(&[&["read", "a.txt"]], &ALL);
    assert_eq!(next.code, Some(0), "{next:?}");
    assert!(
        next.stderr.contains("did not run") || next.stderr.contains("nothing"),
        "{next:?}"
    );
    let left = stages(&scene);
    assert!(
        left.len() == 1 && both.contains(&left[0]),
        "{left:?} of {both:?}"
    );

    let approved = scene.run(&["approve", &second]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    let ended: CommandResult = wait_output(living);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(fs::read_to_string(scene.path("b.txt")).unwrap(), "new");
    assert_eq!(fs::read_to_string(scene.path("a.txt")).unwrap(), "old");
    assert_eq!(stages(&scene), Vec::<String>::new());
    scene.finish();
}
