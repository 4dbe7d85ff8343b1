//! The prompt of `host run` at a real terminal: what is typed, completed, searched, undone and stopped.

use std::fs;

use e2e::root;
use e2e::terminal::Terminal;
use e2e::test_env::{TestEnv, poll_until};

const PROMPT: &str = "host> ";
const TAB: &str = "\t";
const CTRL_C: &str = "\u{3}";
const CTRL_R: &str = "\u{12}";

/// `host run` at its first prompt, with write access.
fn prompt(env: &TestEnv, flags: &[&str]) -> Terminal {
    let mut command = env.command_with_plugins(&["run"]);
    command.args(flags).env("TERM", "xterm");
    let mut terminal = Terminal::start(&command, "");
    terminal.wait_for(PROMPT);
    terminal
}

/// Types a line and returns the output up to this text and the next prompt.
fn enter(terminal: &mut Terminal, line: &str, expected: &str) -> String {
    terminal.type_keys(&format!("{line}\r"));
    let mut output = terminal.wait_for(expected);
    output += &terminal.wait_for(PROMPT);
    output
}

fn answer(terminal: &mut Terminal, line: &str, expected: &str) {
    terminal.type_keys(&format!("{line}\r"));
    terminal.wait_for("[y/N] ");
    terminal.type_keys("y\n");
    terminal.wait_for(expected);
    terminal.wait_for(PROMPT);
}

fn quit(mut terminal: Terminal) {
    terminal.type_keys("/exit\r");
    let (code, screen) = terminal.wait();
    assert_eq!(code, Ok(0), "{screen}");
}

#[test]
fn a_value_needs_no_name_and_tab_and_the_history_complete_a_line() {
    let env = TestEnv::new("");
    let mut terminal = prompt(&env, &[]);
    enter(&mut terminal, "read_file old.txt", "1→old");
    enter(&mut terminal, &format!("read_file ol{TAB}"), "1→old");
    enter(&mut terminal, &format!("read_f{TAB}path=o{TAB}"), "1→old");
    terminal.type_keys(&format!("{CTRL_R}file ol"));
    terminal.wait_for("read_file old.txt");
    enter(&mut terminal, "", "1→old");
    enter(
        &mut terminal,
        "/nothing",
        "no command `/nothing`; /help lists the commands",
    );
    enter(
        &mut terminal,
        &format!("/mo{TAB}pl{TAB}"),
        "mode plan until the host exits",
    );
    enter(&mut terminal, "/mode", "mode plan; /mode changes it");
    enter(&mut terminal, "/plugins files", "(as /workspace)");
    enter(
        &mut terminal,
        "write_file new.txt",
        "write `path=new.txt` (parameters: path, content)",
    );
    quit(terminal);
}

#[test]
fn a_change_is_reported_undone_and_redone() {
    let env = TestEnv::new("");
    let new = env.workspace().join("new.txt");
    let mut terminal = prompt(&env, &[]);
    enter(
        &mut terminal,
        "/allow write_file",
        "is allowed until the host exits",
    );
    terminal.type_keys("write_file {\r");
    terminal.type_keys("\"path\": \"new.txt\",\r");
    terminal.type_keys("\"content\": \"one\\n\"}\r");
    terminal.wait_for("created workspace/new.txt (+1 −0); /undo reverts it");
    terminal.wait_for(PROMPT);
    assert_eq!(fs::read_to_string(&new).unwrap(), "one\n");
    enter(&mut terminal, "/diff", "│ + one");
    answer(&mut terminal, "/undo", "undone write_file of call ");
    assert!(!new.exists());
    enter(
        &mut terminal,
        "/undo",
        "no change in this session is in effect",
    );
    answer(&mut terminal, "/redo", "redone write_file of call ");
    assert!(new.exists());
    answer(
        &mut terminal,
        "/undo workspace/new.txt",
        "undone write_file of call ",
    );
    assert!(!new.exists());
    enter(&mut terminal, "/calls", "write_file  completed");
    quit(terminal);
}

#[test]
fn completed_and_guest_paths_name_changes_and_ctrl_c_keeps_the_prompt() {
    let env = TestEnv::new("");
    for path in ["path=a b.txt", "path=new.txt"] {
        let write = [
            "call",
            "write_file",
            path,
            "content=one",
            "--allow-tool",
            "*",
        ];
        let written = env.run_with_plugins(&write);
        assert_eq!(written.code, Some(0), "{written:?}");
    }
    let mut terminal = prompt(&env, &[]);
    terminal.type_keys("/undo /workspace/new.txt\r");
    terminal.wait_for("[y/N] ");
    terminal.type_keys(CTRL_C);
    terminal.wait_for("nothing changed");
    terminal.wait_for(PROMPT);
    enter(&mut terminal, &format!("/diff a{TAB}"), "│ + one");
    answer(
        &mut terminal,
        &format!("/undo /workspace/a{TAB}"),
        "undone write_file of call ",
    );
    assert!(!env.workspace().join("a b.txt").exists());
    assert!(env.workspace().join("new.txt").exists());
    quit(terminal);
}

#[test]
fn a_call_of_the_prompt_is_stopped_from_another_terminal() {
    let env = TestEnv::new("");
    let shell = root().join("plugins/shell.wasm");
    let flags = [
        "--plugins",
        shell.to_str().unwrap(),
        "--allow-program",
        "bash",
        "--mode",
        "yolo",
    ];
    let mut terminal = prompt(&env, &flags);
    terminal.type_keys("bash 'command=touch started; sleep 600' timeout_ms:=600000\r");
    poll_until(|| env.workspace().join("started").exists().then_some(()));
    let unknown = env.run(&["cancel", "c-0000000000000000"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(
        unknown.stderr.contains("no running host has a call"),
        "{unknown:?}"
    );
    let unconfirmed = env.run(&["cancel"]);
    assert_eq!(unconfirmed.code, Some(2), "{unconfirmed:?}");
    let stopped = env.run(&["cancel", "--yes"]);
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    assert!(stopped.stdout.contains("stopped call "), "{stopped:?}");
    terminal.wait_for(PROMPT);
    let calls = env.run_json(&["calls", "--json"]);
    assert_eq!(calls[0]["state"], "cancelled", "{calls:#}");
    let none = env.run(&["cancel"]);
    assert_eq!(none.stdout, "no call is running\n", "{none:?}");
    quit(terminal);
}
