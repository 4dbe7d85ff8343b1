//! What others do to files while a call waits for its answer, or before it starts.

use std::fs;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::scene::{AS_IT_WAS, Scene, Tree, difference};

/// Puts back what was disturbed, where an earlier call could not be undone otherwise.
type Act = fn(&Path);

/// The call rewrites one file, makes one and waits; `disturb` and `restore` get the folder around the granted one.
fn check(disturb: Act, restore: Act, expected: &Expect) {
    let scene = Scene::new(&[("a.txt", "old"), ("d/b.txt", "old b")]);
    let steps: &[&[&str]] = &[
        &["write", "a.txt", "new"],
        &["write", "d/b.txt", "new b"],
        &["write", "d/c.txt", "new c"],
    ];
    let waiting = scene.hold("file_script", steps);
    disturb(scene.around());
    let before = scene.tree();
    let (prompts, report, ended) = scene.approve(waiting);
    let text = scene.report_text(&report, &ended);
    let differs = difference(&before, &scene.tree());
    expected.assert_eq(&format!(
        "asked: {prompts}\n{text}{differs}journal: {}\n",
        scene.journal()
    ));
    restore(scene.around());
    scene.finish();
}

fn nothing(_: &Path) {}

fn replaced(path: &Path) {
    fs::remove_file(path).unwrap();
    fs::create_dir(path).unwrap();
}

#[test]
fn a_file_that_became_a_folder_is_left_alone() {
    check(
        |around| {
            replaced(&around.join("workspace/a.txt"));
            fs::write(around.join("workspace/a.txt/mine"), "mine").unwrap();
        },
        nothing,
        &expect![[r#"
            asked: 2
            exit 0: ok
              write a.txt: Is a directory (os error 31)
              write d/b.txt: ok
              write d/c.txt: ok
            the tree:
              changed workspace/d/b.txt: file 644 "new b", was file 644 "old b"
              new workspace/d/c.txt: file 644 "new c"
            journal: 2 done
        "#]],
    );
}

#[test]
fn a_folder_that_became_a_file_is_left_alone() {
    check(
        |around| {
            fs::remove_dir_all(around.join("workspace/d")).unwrap();
            fs::write(around.join("workspace/d"), "mine").unwrap();
        },
        nothing,
        &expect![[r#"
            asked: 2
            exit 0: ok
              write a.txt: ok
              write d/b.txt: Not a directory (os error 54)
              write d/c.txt: Not a directory (os error 54)
            the tree:
              changed workspace/a.txt: file 644 "new", was file 644 "old"
            journal: 2 done
        "#]],
    );
}

#[test]
fn a_folder_that_became_a_link_out_of_the_root_is_not_written_through() {
    check(
        |around| {
            fs::rename(around.join("workspace/d"), around.join("elsewhere")).unwrap();
            symlink("../elsewhere", around.join("workspace/d")).unwrap();
        },
        nothing,
        &expect![[r#"
            asked: 2
            exit 0: ok
              write a.txt: ok
              write d/b.txt: Operation not permitted (os error 63)
              write d/c.txt: Operation not permitted (os error 63)
            the tree:
              changed workspace/a.txt: file 644 "new", was file 644 "old"
            journal: 2 done
        "#]],
    );
}

#[test]
fn a_file_that_became_a_loop_of_links_is_left_alone() {
    check(
        |around| {
            fs::remove_file(around.join("workspace/a.txt")).unwrap();
            symlink("loop", around.join("workspace/a.txt")).unwrap();
            symlink("a.txt", around.join("workspace/loop")).unwrap();
        },
        nothing,
        &expect![[r#"
            asked: 2
            exit 0: ok
              write a.txt: Symbolic link loop (os error 32)
              write d/b.txt: ok
              write d/c.txt: ok
            the tree:
              changed workspace/d/b.txt: file 644 "new b", was file 644 "old b"
              new workspace/d/c.txt: file 644 "new c"
            journal: 2 done
        "#]],
    );
}

#[test]
fn a_root_that_is_gone_takes_nothing_with_it() {
    check(
        |around| fs::remove_dir_all(around.join("workspace")).unwrap(),
        |around| {
            fs::create_dir(around.join("workspace")).unwrap();
            fs::write(around.join("workspace/earlier.txt"), "two").unwrap();
        },
        &expect![[r#"
            asked: 1
            exit 1: failed [commit_failed] cannot apply the changes: the granted directory `[AROUND]/workspace` was moved or replaced, so nothing was written; restore it or restart the host
            the tree is as it was
            journal: 1 done
        "#]],
    );
}

/// The granted directory was moved. Whatever replaced it is unchanged, and the directory has either none or all of the
/// changes.
fn check_moved(instead: Act) {
    let scene = Scene::new(&[("a.txt", "old"), ("d/b.txt", "old b")]);
    let steps: &[&[&str]] = &[
        &["write", "a.txt", "new"],
        &["write", "d/b.txt", "new b"],
        &["write", "d/c.txt", "new c"],
    ];
    let waiting = scene.hold("file_script", steps);
    let (workspace, away) = (scene.workspace(), scene.around().join("away"));
    fs::rename(&workspace, &away).unwrap();
    instead(&workspace);
    let mut before = scene.tree();
    let (_, report, ended) = scene.approve(waiting);
    let mut after = scene.tree();
    let here = |tree: &mut Tree| {
        let there = tree.split_off("b");
        let here = std::mem::replace(tree, there);
        let (away, rest) = here
            .into_iter()
            .partition(|(name, _)| name.starts_with("away/"));
        tree.extend::<Tree>(rest);
        away
    };
    let (was, is): (Tree, Tree) = (here(&mut before), here(&mut after));
    assert_eq!(
        difference(&before, &after),
        AS_IT_WAS,
        "{report:#} {ended:?}"
    );
    let changed = difference(&was, &is);
    assert_eq!(changed, AS_IT_WAS, "the yes was for another path");
    match fs::symlink_metadata(&workspace) {
        Ok(data) if data.is_dir() => fs::remove_dir_all(&workspace).unwrap(),
        Ok(_) => fs::remove_file(&workspace).unwrap(),
        Err(_) => {}
    }
    fs::rename(&away, &workspace).unwrap();
    scene.finish();
}

#[test]
fn a_root_that_was_moved_is_whole_and_so_is_what_took_its_place() {
    check_moved(nothing);
    check_moved(|workspace| {
        fs::create_dir(workspace).unwrap();
        fs::write(workspace.join("a.txt"), "old").unwrap();
    });
    check_moved(|workspace| fs::write(workspace, "mine").unwrap());
    check_moved(|workspace| symlink("/etc", workspace).unwrap());
}

/// A server holds its grants open for longer than a folder may live.
#[test]
fn a_root_that_is_gone_before_a_call_starts_is_not_another_folder() {
    let cases: [Act; 4] = [
        |_| {},
        |workspace| {
            fs::create_dir(workspace).unwrap();
            fs::write(workspace.join("a.txt"), "mine").unwrap();
        },
        |workspace| fs::write(workspace, "mine").unwrap(),
        |workspace| symlink("/etc", workspace).unwrap(),
    ];
    for instead in cases {
        let scene = Scene::new(&[("a.txt", "old")]);
        let flags = ["--allow-tool", "*"];
        let mut server = Server::start(&mut scene.with_grants(&["run"], &flags));
        fs::remove_dir_all(scene.workspace()).unwrap();
        instead(&scene.workspace());
        let before = scene.tree();
        let steps: [&[&str]; 4] = [
            &["list", "."],
            &["read", "a.txt"],
            &["write", "a.txt", "new"],
            &["write", "b.txt", "new"],
        ];
        let text = server.call("file_script", &json!({"steps": steps}));
        let differs = difference(&before, &scene.tree());
        expect![[r#"
            list .: 
            read a.txt: No such file or directory (os error 44)
            write a.txt: No such file or directory (os error 44)
            write b.txt: No such file or directory (os error 44)
            the tree is as it was
        "#]]
        .assert_eq(&format!("{text}\n{differs}"));
    }
}

/// The program as an MCP server, as far as one call needs it.
struct Server {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Server {
    fn start(command: &mut Command) -> Self {
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = pipes.stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut server = Self { child, lines };
        let hello = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}
        });
        server.request("initialize", &hello);
        server.line(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        server
    }

    fn line(&mut self, message: &Value) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn request(&mut self, method: &str, params: &Value) -> Value {
        self.line(&json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params}));
        let mut messages = self
            .lines
            .by_ref()
            .map(|line| serde_json::from_str(&line.unwrap()));
        let answer =
            messages.find(|message| message.as_ref().is_ok_and(|m: &Value| m["id"] == method));
        answer.unwrap().unwrap()
    }

    fn call(&mut self, tool: &str, input: &Value) -> String {
        let answer = self.request("tools/call", &json!({"name": tool, "arguments": input}));
        let text = &answer["result"]["content"][0]["text"];
        text.as_str()
            .map_or_else(|| answer.to_string(), ToOwned::to_owned)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
