//! Prompts at a real terminal: the keys that answer them, and what is drawn.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use e2e::root;
use e2e::terminal::{KEYS, Terminal, without_progress};
use e2e::test_env::{TestEnv, poll_until};
use rustix::process::Signal;
use serde_json::json;

/// Where a plain question waits for a line.
const ANSWER: &str = "answer: ";
/// The exit code of a call that the user denied.
const DENIED: Result<i32, i32> = Ok(5);

fn write(env: &TestEnv, typed_ahead: &str) -> Terminal {
    let command = env.command_with_plugins(&["call", "write_file", "path=new.txt", "content=one"]);
    Terminal::start(&command, typed_ahead)
}

fn is_written(env: &TestEnv) -> bool {
    env.workspace().join("new.txt").exists()
}

#[test]
fn t_01_lines_that_were_typed_before_the_question_do_not_answer_it() {
    let env = TestEnv::new("");
    let mut terminal = write(&env, "y\ny\nyes\ny");
    terminal.wait_for(KEYS);
    terminal.type_keys("x");
    // No key that came before is left.
    terminal.wait_for("answer with");
    terminal.wait_for(KEYS);
    assert!(!is_written(&env));
    terminal.type_keys("y");
    let (code, screen) = terminal.wait();
    assert_eq!(code, Ok(0), "{screen}");
    assert!(is_written(&env));
}

#[test]
fn t_01_a_line_that_was_begun_while_the_question_appeared_does_not_answer_it() {
    for _ in 0..50 {
        let env = TestEnv::new("");
        let mut terminal = write(&env, "");
        if !terminal.type_while_discarded("y", KEYS) {
            // The machine was too busy for it.
            continue;
        }
        terminal.wait_for(KEYS);
        terminal.type_keys("x");
        terminal.wait_for("answer with");
        terminal.wait_for(KEYS);
        terminal.type_keys("n");
        let (code, screen) = terminal.wait();
        assert_eq!(code, DENIED, "{screen}");
        assert!(!is_written(&env));
        return;
    }
    panic!("keys are not discarded before a question");
}

#[test]
fn t_01_the_terminal_is_left_as_it_was_found() {
    let env = TestEnv::new("");
    let mut terminal = write(&env, "");
    // Whether or not keys are discarded at this moment.
    terminal.type_while_discarded("\u{3}", KEYS);
    terminal.type_keys("\u{3}");
    poll_until(|| terminal.is_line_mode().then_some(()));
    let (code, screen) = terminal.wait();
    // The first one ends the program, or is a no to the question; then the program may have ended before the second one.
    assert!(
        code == Err(Signal::INT.as_raw()) || code == Ok(5),
        "{code:?}: {screen}"
    );
    assert!(!is_written(&env));
}

#[test]
fn t_02_a_yes_or_no_outside_of_a_call_is_not_typed_ahead_either() {
    let env = TestEnv::new("");
    env.run_with_plugins(&[
        "call",
        "write_file",
        "path=new.txt",
        "content=one",
        "--allow-tool",
        "*",
    ]);
    assert!(is_written(&env));
    let calls = env.run_json(&["calls", "--json"]);
    let call = calls[0]["id"].as_str().unwrap();
    let mut terminal = Terminal::start(&env.command(&["undo", call]), "y\ny\ny");
    terminal.wait_for("[y/N] ");
    terminal.type_keys("\n");
    let (_, screen) = terminal.wait();
    assert!(screen.contains("nothing changed"), "{screen}");
    assert!(is_written(&env));
}

#[test]
fn a_question_about_an_undo_is_shown_where_it_is_asked() {
    let env = TestEnv::new("");
    let forged = format!("content={}revert   /etc/passwd", " ".repeat(90));
    let write = ["call", "write_file", "path=new.txt", &forged];
    env.run_with_plugins(&[&write[..], &["--allow-tool", "*"]].concat());
    assert!(is_written(&env));
    let undo = env.command(&["undo"]);
    let mut to_file = Command::new("sh");
    to_file
        .args(["-c", "exec \"$0\" \"$@\" > undone"])
        .arg(undo.get_program())
        .args(undo.get_args())
        .current_dir(env.workspace());
    for (name, value) in undo.get_envs() {
        match value {
            Some(value) => to_file.env(name, value),
            None => to_file.env_remove(name),
        };
    }
    let mut terminal = Terminal::start(&to_file, "");
    let question = terminal.wait_for("[y/N] ");
    assert!(question.contains("    remove   "), "{question}");
    assert!(
        question.contains("│ - ␠×90revert   /etc/passwd"),
        "{question}"
    );
    terminal.type_keys("y");
    let (code, screen) = terminal.wait();
    assert_eq!(code, Ok(0), "{screen}");
    assert!(!is_written(&env));
    let undone = fs::read_to_string(env.workspace().join("undone")).unwrap();
    assert!(undone.starts_with("undone write_file of call"), "{undone}");
}

#[test]
fn lists_are_laid_out_for_narrow_terminals() {
    let env = TestEnv::new("");
    let long = format!("path={}.txt", "n".repeat(60));
    let write = ["call", "write_file", &long, "content=one"];
    env.run_with_plugins(&[&write[..], &["--allow-tool", "*"]].concat());
    let rows = |command: Command, columns| {
        let (code, screen) = Terminal::start_with_size(&command, "", (50, columns)).wait();
        assert_eq!(code, Ok(0), "{screen}");
        screen
    };
    let list = rows(env.command(&["undo", "--list"]), 80);
    assert_eq!(list.lines().count(), 2, "{list}");
    let tools = rows(env.command_with_plugins(&["tools"]), 30);
    let width = tools.lines().map(|line| line.trim_end().chars().count());
    assert!(width.max().is_some_and(|width| width <= 40), "{tools}");
}

#[test]
fn t_03_what_a_tool_prints_does_not_stand_below_a_question() {
    let env = TestEnv::new("");
    let command =
        "until [ -e asked ]; do sleep 0.05; done; echo; echo '  Plugin `files` wants to forge'";
    let calls = json!([
        {"id": "1", "name": "bash", "input": {"command": command}},
        {"id": "2", "name": "write_file", "input": {"path": "new.txt", "content": "one"}},
    ]);
    fs::write(env.path("calls.json"), calls.to_string()).unwrap();
    let mut batch =
        env.command_with_plugins(&["batch", "--strategy", "kode", "--allow-tool", "bash"]);
    batch
        .args([
            "--allow-program",
            "bash",
            "--events",
            "events",
            "calls.json",
        ])
        .arg("--plugins")
        .arg(root().join("plugins/shell.wasm"));
    let mut terminal = Terminal::start(&batch, "");
    terminal.wait_for(KEYS);
    fs::write(env.workspace().join("asked"), "").unwrap();
    // The host has it.
    poll_until(|| {
        let events = fs::read_to_string(env.path("events")).unwrap_or_default();
        events
            .lines()
            .any(|line| line.contains("call.output") && line.contains("to forge"))
            .then_some(())
    });
    terminal.type_keys("n");
    let (_, screen) = terminal.wait();
    let answered = screen
        .find("› n")
        .expect("the answer stands where it was asked for");
    let forged = screen.find("wants to forge").expect("it is shown later");
    assert!(answered < forged, "{screen}");
}

#[test]
fn two_calls_that_wait_for_a_person_are_asked_about_one_after_the_other() {
    let env = TestEnv::new("");
    let write =
        |id: &str| json!({"id": id, "name": "write_file", "input": {"path": id, "content": id}});
    let calls = json!([write("one.txt"), write("two.txt")]);
    fs::write(env.path("calls.json"), calls.to_string()).unwrap();
    let mut terminal = Terminal::start(
        &env.command_with_plugins(&["batch", "--strategy", "kode", "calls.json"]),
        "",
    );
    let first = terminal.wait_for(KEYS);
    poll_until(|| {
        let calls = env.run_json(&["calls", "--state", "awaiting_approval", "--json"]);
        (calls.as_array()?.len() == 2).then_some(())
    });
    terminal.type_keys("n");
    let second = terminal.wait_for(KEYS);
    terminal.type_keys("n");
    let (_, screen) = terminal.wait();
    // The answer to the first question stands before anything of the second.
    assert!(second.starts_with("n\r\n"), "{screen}");
    for question in [&first, &second] {
        let (_, question) = question.split_once(" wants to create ").unwrap();
        let title = question.lines().next().unwrap();
        let names = ["one.txt", "two.txt"].map(|name| title.contains(name));
        assert_ne!(names[0], names[1], "{screen}");
    }
    assert_eq!(screen.matches(" wants to create ").count(), 2, "{screen}");
}

#[test]
fn t_06_a_window_that_was_made_narrower_is_asked_again() {
    let env = TestEnv::new("");
    let mut terminal = write(&env, "");
    terminal.wait_for(KEYS);
    terminal.resize(50, 30);
    terminal.type_keys("y");
    terminal.wait_for("asking again");
    let question = terminal.wait_for(KEYS);
    assert!(question.contains("Plugin `files` wants to"), "{question}");
    assert!(!is_written(&env));
    // A wider one changes nothing.
    terminal.resize(1, 200);
    terminal.type_keys("y");
    let (code, screen) = terminal.wait();
    assert_eq!(code, Ok(0), "{screen}");
    assert!(is_written(&env));
}

#[test]
fn t_06_nothing_is_asked_where_it_cannot_be_shown() {
    let env = TestEnv::new("");
    let mut terminal = write(&env, "");
    terminal.wait_for(KEYS);
    terminal.resize(1, 1);
    terminal.type_keys("y");
    let (code, screen) = terminal.wait();
    assert_eq!(code, DENIED, "{screen}");
    assert!(!is_written(&env));
}

#[test]
fn t_09_a_question_is_repeated_when_the_program_goes_on() {
    let env = TestEnv::new("");
    let mut terminal = write(&env, "");
    terminal.wait_for(KEYS);
    terminal.signal(Signal::STOP);
    terminal.signal(Signal::CONT);
    let question = terminal.wait_for(KEYS);
    assert!(question.contains("wants to create"), "{question}");
    terminal.type_keys("y");
    let (code, screen) = terminal.wait();
    assert_eq!(code, Ok(0), "{screen}");
    assert!(is_written(&env));
}

/// Up to the moment when the editor is started.
fn edit(env: &TestEnv, script: &str) -> Terminal {
    let editor = env.path("editor");
    fs::write(&editor, format!("#!/bin/sh\n{script}")).unwrap();
    fs::set_permissions(&editor, PermissionsExt::from_mode(0o755)).unwrap();
    let mut command =
        env.command_with_plugins(&["call", "write_file", "path=new.txt", "content=one"]);
    command.env_remove("VISUAL").env("EDITOR", &editor);
    let mut terminal = Terminal::start(&command, "");
    terminal.wait_for(KEYS);
    terminal.type_keys("e");
    terminal
}

/// What a tool could do if the folder of temporary files is granted to it.
#[test]
fn t_10_what_was_edited_is_read_from_a_file_and_from_nothing_else() {
    let env = TestEnv::new("");
    fs::write(env.path("secret"), "secret\n").unwrap();
    for replace in ["mkfifo $1", "ln -s $PWD/secret $1"] {
        let mut terminal = edit(&env, &format!("rm $1\n{replace}\n"));
        let again = terminal.wait_for(KEYS);
        assert!(again.contains("cannot edit"), "{again}");
        assert!(!again.contains("+secret"), "{again}");
        terminal.type_keys("n");
        let (code, screen) = terminal.wait();
        assert_eq!(code, DENIED, "{screen}");
    }
}

#[test]
fn t_12_an_editor_is_asked_to_end_before_it_is_killed() {
    let env = TestEnv::new("");
    let mut terminal = edit(
        &env,
        "trap 'echo restored; exit 1' TERM\necho editing\nwhile :; do sleep 0.05; done\n",
    );
    terminal.wait_for("editing");
    let id = env.wait_for("awaiting_approval");
    env.run(&["approve", &id]);
    terminal.wait_for("restored");
    let (code, screen) = terminal.wait();
    assert_eq!(code, Ok(0), "{screen}");
    assert!(is_written(&env));
}

#[test]
fn a_command_reaches_no_terminal_of_the_host() {
    let env = TestEnv::new("");
    let mut call = env.command_with_plugins(&["call", "--allow-program", "bash"]);
    call.arg("--plugins").arg(root().join("plugins/shell.wasm"));
    let command = "command=tty; for name in $(cat name) /dev/tty /proc/[0-9]*/fd/[012]; do \
                   [ -c $name ] && [ ! $name -ef /dev/null ] && (echo forged >$name) && echo opened; done; echo end";
    call.args(["bash", command]);
    let mut terminal = Terminal::start(&call, "");
    let prompt_end = terminal.wait_for(KEYS).len();
    fs::write(
        env.workspace().join("name"),
        terminal.name.to_str().unwrap(),
    )
    .unwrap();
    let refused = format!("{}: Permission denied", terminal.name.display());
    terminal.type_keys("y");
    let (code, screen) = terminal.wait();
    let after = &screen[prompt_end..];
    assert_eq!(code, Ok(0), "{screen}");
    assert!(
        after.contains("not a tty") && after.contains("\nend"),
        "{screen}"
    );
    assert!(after.contains(&refused), "{screen}");
    assert!(
        !after.contains("forged") && !after.contains("opened"),
        "{screen}"
    );
}

#[test]
fn r_029_markdown_of_tools_is_rendered_and_plain_text_is_not() {
    let env = TestEnv::new("");
    let skill = env.path("skills/greet");
    fs::create_dir_all(&skill).unwrap();
    let text = "---\nname: greet\ndescription: Greets\n---\n# Greeting\n\nSay **hello**.\n";
    fs::write(skill.join("SKILL.md"), text).unwrap();
    fs::write(env.workspace().join("notes.md"), "# Greeting\n").unwrap();
    let show = |args: &[&str]| {
        let mut command = env.command_with_plugins(args);
        command
            .arg("--plugins")
            .arg(root().join("plugins/agent.wasm"))
            .arg("--skills")
            .arg(env.path("skills"))
            .env_remove("NO_COLOR")
            .env("TERM", "xterm");
        let (code, screen) = Terminal::start(&command, "").wait();
        assert_eq!(code, Ok(0), "{screen}");
        screen
    };
    let skill = show(&["call", "skill", "skill=greet"]);
    assert!(skill.contains("\u{1b}[1m# Greeting\u{1b}[0m"), "{skill:?}");
    assert!(
        skill.contains("Say \u{1b}[1m**hello**\u{1b}[0m."),
        "{skill:?}"
    );
    let file = show(&["call", "read_file", "path=notes.md"]);
    assert!(file.contains("1→# Greeting\r\n"), "{file:?}");
    // After progress, which a busy machine shows and erases.
    let file = file.rsplit("\u{1b}[J").next().unwrap();
    assert!(!file.contains("\u{1b}["), "{file:?}");
}

const CTRL_BACKSLASH: &str = "\u{1c}";
const PROMPT: &str = "host> ";

/// `host run` at its first prompt.
fn prompt(env: &TestEnv, term: &str, flags: &[&str]) -> Terminal {
    let mut command = env.command_with_plugins(&["run", "--allow-program", "bash"]);
    command
        .arg("--plugins")
        .arg(root().join("plugins/shell.wasm"))
        .args(flags)
        .env("TERM", term);
    let mut terminal = Terminal::start(&command, "");
    terminal.wait_for(PROMPT);
    terminal
}

fn quit(mut terminal: Terminal) {
    terminal.type_keys("quit\n");
    let (code, screen) = terminal.wait();
    assert_eq!(code, Ok(0), "{screen}");
}

//
#[test]
fn ctrl_backslash_moves_a_command_of_the_prompt_to_the_background() {
    let env = TestEnv::new("");
    // Without an editor for lines, the key is a signal at the prompt too.
    let mut terminal = prompt(&env, "dumb", &["--mode", "yolo"]);
    terminal.type_keys(CTRL_BACKSLASH);
    terminal.type_keys(
        "bash 'command=touch started; until [ -e go ]; do sleep 0.05; done' timeout_ms:=600000\n",
    );
    poll_until(|| env.workspace().join("started").exists().then_some(()));
    terminal.type_keys(CTRL_BACKSLASH);
    terminal.wait_for("moved this command to the background");
    terminal.wait_for(PROMPT);
    terminal.type_keys(CTRL_BACKSLASH);
    quit(terminal);
}

#[test]
fn ctrl_backslash_ends_neither_the_prompt_nor_a_question() {
    let env = TestEnv::new("");
    let mut terminal = prompt(&env, "xterm", &[]);
    terminal.type_keys(CTRL_BACKSLASH);
    terminal.wait_for(PROMPT);
    quit(terminal);
    let mut terminal = prompt(&env, "dumb", &[]);
    terminal.type_keys("write_file path=new.txt content=one\n");
    // Whether or not keys are discarded at this moment.
    terminal.type_while_discarded(CTRL_BACKSLASH, ANSWER);
    terminal.wait_for(ANSWER);
    terminal.type_keys(CTRL_BACKSLASH);
    terminal.type_keys("y\n");
    terminal.wait_for(PROMPT);
    assert!(is_written(&env));
    quit(terminal);
}

/// `host call bash` with this command, which is allowed.
fn bash(env: &TestEnv, command: &str) -> Terminal {
    let mut call = env.command_with_plugins(&["call", "bash", &format!("command={command}")]);
    call.args(["--allow-program", "bash", "--allow-tool", "bash"])
        .arg("--plugins")
        .arg(root().join("plugins/shell.wasm"));
    Terminal::start(&call, "")
}

#[test]
fn a_running_call_shows_its_output_and_ctrl_c_says_what_was_kept() {
    let env = TestEnv::new("");
    let command = "for i in 1 2 3 4 5 6 7; do echo row $i; done; touch started; sleep 600";
    let mut terminal = bash(&env, command);
    // The end of the output.
    terminal.wait_for("│ row 3");
    let pane = terminal.wait_for("│ row 7");
    assert!(!pane.contains("row 2"), "{pane}");
    assert!(terminal.is_line_mode());
    terminal.type_keys("\u{3}");
    let (code, screen) = terminal.wait();
    assert_eq!(code, Err(Signal::INT.as_raw()), "{screen}");
    let shown = without_progress(&screen).replace('\r', "");
    let (output, end) = shown.split_once("cancelled after ").expect(&screen);
    assert!(
        end.ends_with("; what it may have changed is kept\n"),
        "{screen}"
    );
    assert!(!output.contains("│ row"), "{screen}");
    assert!(output.contains("row 1\nrow 2\n"), "{screen}");
}

#[test]
fn output_is_printed_once_and_progress_is_erased() {
    let env = TestEnv::new("");
    let mut terminal = bash(
        &env,
        "printf '\\033[31mrow\\033[0m\\n'; until [ -e go ]; do sleep 0.05; done",
    );
    terminal.wait_for("row");
    fs::write(env.workspace().join("go"), "").unwrap();
    let (code, screen) = terminal.wait();
    assert_eq!(code, Ok(0), "{screen}");
    let shown = without_progress(&screen);
    assert_eq!(shown.matches("row").count(), 1, "{shown}");
}

#[test]
fn compiling_a_plugin_is_shown() {
    let env = TestEnv::new("");
    let mut command = env.command_with_plugins(&["call", "read_file", "path=a.txt"]);
    command.env("TOOLHOST_CACHE_DIR", env.path("empty-cache"));
    fs::write(env.workspace().join("a.txt"), "text\n").unwrap();
    let mut terminal = Terminal::start(&command, "");
    terminal.wait_for("compiling files for its first call");
    let (code, screen) = terminal.wait();
    assert_eq!(code, Ok(0), "{screen}");
}

#[test]
fn plain_prompts_are_lines_without_control_sequences() {
    let env = TestEnv::new("");
    let mut command =
        env.command_with_plugins(&["call", "write_file", "path=new.txt", "content=one"]);
    command.arg("--plain-prompts").env_remove("NO_COLOR");
    command.args(["--color", "never"]);
    let mut terminal = Terminal::start(&command, "");
    terminal.wait_for("y once, a always…, n no, e edit, ? more\r\n");
    terminal.wait_for(ANSWER);
    assert!(terminal.is_line_mode());
    terminal.type_keys("i path=b.txt\n");
    let question = terminal.wait_for(ANSWER);
    assert!(
        question.contains("wants to create workspace/b.txt"),
        "{question}"
    );
    terminal.type_keys("a\n");
    terminal.wait_for("other keys go back");
    terminal.wait_for(ANSWER);
    terminal.type_keys("back\n");
    terminal.wait_for(ANSWER);
    terminal.type_keys("yes\n");
    let (code, screen) = terminal.wait();
    assert_eq!(code, Ok(0), "{screen}");
    assert!(!screen.contains('\u{1b}'), "{screen:?}");
    assert!(env.workspace().join("b.txt").exists());
}

#[test]
fn the_terminal_is_restored_before_sigterm_ends_the_program() {
    let env = TestEnv::new("");
    let mut terminal = write(&env, "");
    terminal.wait_for(KEYS);
    poll_until(|| (!terminal.is_line_mode()).then_some(()));
    terminal.signal(Signal::TERM);
    poll_until(|| terminal.is_line_mode().then_some(()));
    let (code, screen) = terminal.wait();
    assert_eq!(code, Err(Signal::TERM.as_raw()), "{screen}");
    assert!(!is_written(&env));
}

#[test]
fn changed_words_are_emphasised_with_colors_of_the_palette() {
    let env = TestEnv::new("");
    fs::write(env.workspace().join("a.txt"), "call Ada\n").unwrap();
    let arguments = [
        "call",
        "edit_file",
        "path=a.txt",
        "old_string=Ada",
        "new_string=Grace",
        "--color",
        "always",
    ];
    let mut terminal = Terminal::start(&env.command_with_plugins(&arguments), "");
    let question = terminal.wait_for(KEYS);
    for part in [
        "\u{1b}[31m- \u{1b}[0m\u{1b}[31mcall \u{1b}[0m\u{1b}[31;7mAda\u{1b}[0m",
        "\u{1b}[32m+ \u{1b}[0m\u{1b}[32mcall \u{1b}[0m\u{1b}[32;7mGrace\u{1b}[0m",
        "\u{1b}[1my\u{1b}[0m once",
    ] {
        assert!(question.contains(part), "{question:?}");
    }
    terminal.type_keys("n");
    assert_eq!(terminal.wait().0, DENIED);
}
