//! What a user sees at terminals of four sizes, as files beside this one. `UPDATE_EXPECT=1` renews them.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use e2e::root;
use e2e::terminal::{KEYS, Terminal};
use e2e::test_env::TestEnv;
use expect_test::expect_file;

const NOTES: &str =
    "# Notes\n\n- buy milk\n- call Ada\n- fix the door\n- water plants\n- pay rent\n";

/// A question at a window of this size, up to the keys.
struct Scene {
    env: TestEnv,
    /// A directory whose path has the same length on every machine.
    project: tempfile::TempDir,
    size: (u16, u16),
    shown: String,
}

impl Scene {
    fn new(size: (u16, u16)) -> Self {
        let project = tempfile::Builder::new()
            .prefix("project-")
            .tempdir_in("/tmp");
        let project = project.unwrap();
        fs::write(project.path().join("notes.md"), NOTES).unwrap();
        Self {
            env: TestEnv::new(""),
            project,
            size,
            shown: String::new(),
        }
    }

    /// Starts the call and waits for its question.
    fn ask(&self, arguments: &[&str]) -> Terminal {
        let mut command = self.env.command(&["call"]);
        let project: &Path = self.project.path();
        command
            .args(arguments)
            .arg("--plugins")
            .arg(root().join("plugins/files.wasm"))
            .arg("--allow-path")
            .arg(format!("{}:rw", project.display()))
            .current_dir(project);
        let mut terminal = Terminal::start_with_size(&command, "", self.size);
        terminal.wait_for(KEYS);
        terminal
    }

    /// Adds what the window shows.
    fn add(&mut self, title: &str, terminal: &Terminal) -> String {
        let path = self.project.path().display().to_string();
        let screen = terminal.rendered(self.size);
        let screen = screen.replace(&path, "/tmp/project-abcdef");
        let lines: Vec<&str> = screen.lines().map(str::trim_end).collect();
        let screen = lines.join("\n");
        let _ = writeln!(self.shown, "== {title}\n{}", screen.trim_end());
        screen
    }
}

fn check(rows: u16, columns: u16) -> String {
    let mut scene = Scene::new((rows, columns));
    let mut terminal = scene.ask(&[
        "edit_file",
        "path=notes.md",
        "old_string=call Ada",
        "new_string=call Grace",
    ]);
    let question = scene.add("a change of one line", &terminal);
    terminal.type_keys("a");
    terminal.wait_for("go back");
    terminal.wait_for(KEYS);
    scene.add("the approvals behind a", &terminal);
    terminal.type_keys("q");
    terminal.wait_for(KEYS);
    terminal.type_keys("?");
    terminal.wait_for(KEYS);
    scene.add("the keys behind ?", &terminal);
    terminal.type_keys("y");
    let (code, screen) = terminal.wait();
    assert_eq!(code, Ok(0), "{screen}");
    let changed = fs::read_to_string(scene.project.path().join("notes.md")).unwrap();
    assert!(changed.contains("call Grace"), "{changed}");

    let lines: Vec<String> = (1..=60).map(|line| format!("line {line}\n")).collect();
    let content = lines.concat();
    let mut terminal = scene.ask(&["write_file", "path=long.txt", &format!("content={content}")]);
    scene.add("a long file", &terminal);
    terminal.type_keys("v");
    terminal.wait_for("lines 1-");
    terminal.wait_for("q back");
    terminal.type_keys("G");
    terminal.wait_for("q back");
    scene.add("the end of all its rows", &terminal);
    terminal.type_keys("q");
    terminal.wait_for(KEYS);
    terminal.type_keys("n");
    assert_eq!(terminal.wait().0, Ok(5));
    assert!(!scene.project.path().join("long.txt").exists());
    let path = format!("tests/tests/screens/{columns}.txt");
    expect_file![root().join(path)].assert_eq(&scene.shown);
    question
}

#[test]
fn questions_fit_into_40_columns() {
    check(30, 40);
}

#[test]
fn a_change_of_one_line_takes_one_key_and_at_most_12_rows() {
    let question = check(24, 80);
    assert!(question.lines().count() <= 12, "{question}");
}

#[test]
fn questions_use_120_columns() {
    check(30, 120);
}

#[test]
fn questions_use_200_columns() {
    check(50, 200);
}
