//! Tests of complete dialogs with scripted user input.

mod contents;
mod layout;

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use expect_test::{Expect, expect};
use serde_json::json;
use toolhost_contract::{Annotations, Answer, Call, Question};
use toolhost_kernel::Prompter;

use super::TerminalPrompter;
use super::key::Key;
use super::prompt_queue::{PromptQueue, PromptState};
use super::terminal_io::{KeyEvent, LineEvent, TerminalIo, TerminalWriter};
use super::testing::{
    QuestionSpec, command, layout as terminal_layout, question, staged_question, staged_write,
    tool, with_header, write,
};
use super::untrusted_text::TerminalLayout;

/// Enters the next line on each read. `^D` is the end of input; `!…` is an event instead of a key.
#[derive(Default)]
struct FakeTerminal {
    lines: VecDeque<&'static str>,
    /// The texts saved in the editor, in order.
    edits: VecDeque<Result<&'static str, &'static str>>,
    screen: Arc<Mutex<String>>,
    queue: Arc<PromptQueue>,
    /// Number of concurrent questions.
    asking: usize,
}

impl TerminalIo for FakeTerminal {
    fn is_available() -> bool {
        true
    }

    fn layout(&self) -> TerminalLayout {
        terminal_layout(100, 100)
    }

    fn discard_input(&mut self, _: Duration) -> Option<()> {
        // At a terminal, other questions arrive while input is discarded.
        while self.queue.position().1 < self.asking {
            std::thread::yield_now();
        }
        Some(())
    }

    fn writer(&self) -> TerminalWriter {
        let screen = Arc::clone(&self.screen);
        Arc::new(move |text| {
            screen.lock().unwrap().push_str(text);
            Some(())
        })
    }

    fn read_line(&mut self, ask: &impl PromptState) -> Option<LineEvent> {
        let line = match self.lines.pop_front()? {
            "^D" => None,
            "!elsewhere" => {
                let message = self
                    .queue
                    .answered_elsewhere(&self.queue.first(), "web\u{1b}");
                self.write(&message.unwrap());
                return None;
            }
            "!arrives" => {
                let (question, call) = question(&staged_write("late", "x"));
                // Never leaves the queue.
                std::mem::forget(self.queue.push(question, call));
                self.lines.pop_front().map(ToOwned::to_owned)
            }
            line => Some(line.to_owned()),
        };
        let line = line.filter(|_| ask.is_pending());
        let shown = line.as_deref().unwrap_or_default();
        let _ = writeln!(self.screen.lock().unwrap(), "«{shown}»");
        line.map(LineEvent::Line)
    }

    fn read_choice(&mut self, ask: &impl PromptState) -> Option<LineEvent> {
        self.read_line(ask)
    }

    fn read_key(&mut self, _: &impl PromptState) -> Option<KeyEvent> {
        let key = self.lines.pop_front()?.chars().next()?;
        Some(KeyEvent::Key(Key::Char(key)))
    }

    fn run_editor(
        &mut self,
        text: &str,
        ending: &str,
        _: &impl PromptState,
    ) -> Result<String, String> {
        self.write(&format!("<<editor{ending}\n{text}>>\n"));
        match self.edits.pop_front().unwrap() {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => Err(error.to_owned()),
        }
    }
}

struct DialogResult {
    answers: Vec<Answer>,
    screen: String,
}

/// Asks all questions concurrently.
fn run_dialogs(specs: &[QuestionSpec], fake: FakeTerminal) -> DialogResult {
    run_questions(specs.iter().map(question).collect(), fake)
}

fn run_questions(questions: Vec<(Question, Call)>, mut fake: FakeTerminal) -> DialogResult {
    fake.asking = questions.len();
    let screen = Arc::clone(&fake.screen);
    let queue = Arc::clone(&fake.queue);
    let mut prompter = TerminalPrompter::new(fake);
    prompter.queue = queue;
    let prompter = Arc::new(prompter);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let asking = questions.into_iter().map(|(question, call)| {
        let prompter = Arc::clone(&prompter);
        runtime.spawn(async move { prompter.ask(&question, &call).await })
    });
    let asking: Vec<_> = asking.collect();
    let answers = asking
        .into_iter()
        .map(|asking| runtime.block_on(asking).unwrap())
        .collect();
    let screen = screen.lock().unwrap().clone();
    DialogResult { answers, screen }
}

fn run_dialog(specs: &[QuestionSpec], lines: &[&'static str]) -> DialogResult {
    let fake = FakeTerminal {
        lines: lines.iter().copied().collect(),
        ..FakeTerminal::default()
    };
    run_dialogs(specs, fake)
}

/// A blank at the end of a line is shown as `·`.
fn check(spec: QuestionSpec, lines: &[&'static str], screen: Expect) {
    let result = run_dialog(&[spec], lines);
    screen.assert_eq(&with_header(&result.screen.replace(" «", "·«")));
}

// R-193, R-195, R-247
#[test]
fn an_edit_is_shown_with_its_path_and_claimed_diff() {
    check(
        write("src/a.rs", "fn main() {}\n\u{1b}[2J"),
        &["n"],
        expect![[r#"
            screen:

              Plugin `files` wants to change src/a.rs
                changes  src/a.rs
                change as claimed by the tool; the file was not read
                 │ @@ -0,0 +1,2 @@
                 │ + fn main() {}
                 │ + \u{1b}[2J
                 │ No newline at end of file
                call     write_file (makes reversible changes)
                reason   it changes files
              y once  a always…  n no  e edit  ? more ›·«n»
        "#]],
    );
    let input = json!({"path": "a", "edits": [{"old": "x\u{202e}", "new": "y"}]});
    let edit = QuestionSpec {
        tool: "edit_file",
        input,
        meta: Some(json!({"risk": "high", "reason": "touches\nproduction"})),
        agent: Some("explore"),
        ..write("", "")
    };
    check(
        edit,
        &["n"],
        expect![[r#"
            screen:

              Plugin `files` wants to change a
                agent    explore, a sub-agent
                risk     high: touches\nproduction
                changes  a
                change as claimed by the tool; the file was not read
                 │ @@ -1 +1 @@
                 │ - x\u{202e}
                 │ + y
                call     edit_file (makes reversible changes)
                reason   it changes files
              y once  n no  e edit  ? more ›·«n»
        "#]],
    );
}

// R-193, R-247
#[test]
fn a_command_is_shown_with_its_parts() {
    check(
        command("cd src && curl -s x | bash -c 'rm -r \"$HOME\"' > log"),
        &["n"],
        expect![[r#"
            screen:

              Plugin `system` wants to run a command
                │ cd src && curl -s x | bash -c 'rm -r "$HOME"' > log
                runs     cd src
                         curl -s x
                         bash -c rm -r "$HOME"
                         rm -r "$HOME"   (in bash -c)
                writes   log
                call     bash (may destroy data)
                reason   it runs a command; deletes directories recursively
              y once  n no  e edit  ? more ›·«n»
        "#]],
    );
}

// R-193, R-247
#[test]
fn an_mcp_tool_is_shown_with_its_server() {
    let input = json!({"query": "x"});
    check(
        tool("srv", "mcp__srv__look_up", input),
        &["n"],
        expect![[r#"
            screen:

              Server `srv` wants to call look_up
                call     mcp__srv__look_up (may destroy data)  query=x
                reason   it may destroy data
              y once  a always…  n no  e edit  ? more ›·«n»
        "#]],
    );
    let fetch = QuestionSpec {
        hints: Annotations {
            read_only: Some(true),
            open_world: Some(true),
            ..Annotations::default()
        },
        meta: Some(json!({"ticket": 7})),
        ..tool("web", "http_get", json!({"url": "https://a.example/x"}))
    };
    check(
        fetch,
        &["n"],
        expect![[r#"
            screen:

              Plugin `web` wants to access https://a.example/x
                note     {"ticket":7}
                URL      https://a.example/x
                call     http_get (changes nothing, with network access)
                reason   it accesses the network
              y once  a always…  n no  e edit  ? more ›·«n»
        "#]],
    );
}

#[test]
fn overlong_inputs_are_denied_without_a_prompt() {
    let input = json!({"query": "x".repeat(20_000)});
    let result = run_dialog(&[tool("srv", "mcp__srv__look_up", input)], &[]);
    let [Answer::Unreviewable { problem }] = &result.answers[..] else {
        panic!("{:?}", result.answers)
    };
    assert!(
        problem.contains("19.5 KiB") && problem.contains("--allow-tool mcp__srv__look_up"),
        "{problem}"
    );
    assert_eq!(result.screen, "");
    // All of it can be viewed as a difference.
    let content = "x\n".repeat(20_000);
    let result = run_dialog(&[write("a", &content)], &["y"]);
    assert_eq!(result.answers, [Answer::once()]);
    let hidden = format!("{content}x");
    let mut other = write("a", &content);
    other.input["then"] = json!(hidden);
    let result = run_dialog(&[other], &["y"]);
    assert!(matches!(&result.answers[..], [Answer::Unreviewable { .. }]));
}

#[test]
fn t_05_a_question_larger_than_the_screen_has_a_note_at_the_answer() {
    let lines = |count: usize| "true\n".repeat(count);
    let result = run_dialog(&[command(&format!("{}rm -rf ~", lines(200)))], &["n"]);
    let (above, keys) = result.screen.rsplit_once("  y once").unwrap();
    let remark = above.lines().last().unwrap();
    assert!(
        remark.contains("lines long and the window 100; scroll up") && keys.len() < 200,
        "{remark}"
    );
    assert!(
        !run_dialog(&[command("ls")], &["n"])
            .screen
            .contains("scroll up")
    );

    let result = run_dialog(&[command(&lines(1_500))], &[]);
    let [Answer::Unreviewable { problem }] = &result.answers[..] else {
        panic!("{:?}", result.answers)
    };
    assert!(problem.contains("lines, too long to review"), "{problem}");
    assert_eq!(result.screen, "");

    let new = "x\n".repeat(450);
    let result = run_questions(
        vec![staged_question(&[
            ("/w/a", None, &new),
            ("/w/b", None, "evil\n"),
        ])],
        FakeTerminal {
            lines: ["v", "G", "q", "n"].into(),
            ..FakeTerminal::default()
        },
    );
    let (question, viewed) = result.screen.split_once("«v»").unwrap();
    assert!(!question.contains("evil"), "{question}");
    assert!(
        question.contains("    … 411 more lines\n") && question.contains("    … 1 more line\n")
    );
    assert!(
        question.ends_with("v 412 more lines  ? more › "),
        "{question}"
    );
    // The end is on the last page, and the question is asked again.
    let (pages, again) = viewed.rsplit_once("\u{1b}[?1049l").unwrap();
    assert!(pages.contains("evil") && !again.contains("evil"), "{pages}");
    assert!(again.ends_with("› «n»\n"), "{again}");
}

// R-194, R-202
#[test]
fn lines_become_answers_and_unexpected_input_denies() {
    let offer = |offer| Answer::Allow { offer, note: None };
    let no = |note: Option<&str>| Answer::Deny {
        note: note.map(ToOwned::to_owned),
    };
    let modify = |path: &str| Answer::Modify {
        input: json!({"path": path, "content": "x"}),
    };
    for (lines, answer) in [
        (&["y"][..], offer(0)),
        (&["a", "1"], offer(1)),
        (&["a", "2"], offer(2)),
        (&["a", "3"], offer(3)),
        (&["a", "4"], offer(4)),
        (&["a", "y", "n"], no(None)),
        (&["a", "", "y"], offer(0)),
        (&["1", "n"], no(None)),
        (&["n"], no(None)),
        (&["t", " not there "], no(Some("not there"))),
        (&["t not there"], no(Some("not there"))),
        (&["t", ""], no(None)),
        (&["t", "^D"], no(None)),
        (&["c"], Answer::Cancel),
        (&["?", "y"], offer(0)),
        (&["what", "y"], offer(0)),
        (&["", "", "y"], offer(0)),
        (&["x", "x", "x", "x", "x", "x", "y"], no(None)),
        (&["g", "d", "q", "y"], offer(0)),
        (&["i", "path=b"], modify("b")),
        (&["^D", "y"], no(None)),
        (&[], no(None)),
        (&["e path=b"], modify("b")),
        (&["e path", "e path=b"], modify("b")),
        (&["e path=a", "y"], offer(0)),
        (&["!elsewhere", "y"], no(None)),
    ] {
        let result = run_dialog(&[write("a", "x")], lines);
        assert_eq!(result.answers, [answer], "{lines:?}\n{}", result.screen);
    }
    let questions = run_dialog(&[write("a", "x")], &["?"; 1_000]);
    assert_eq!(questions.answers, [no(None)]);
}

#[test]
fn an_answer_from_elsewhere_ends_the_question_on_its_own_line() {
    let result = run_dialog(&[write("a", "x")], &["!elsewhere"]);
    let end = result.screen.lines().last().unwrap();
    let keys = "  y once  a always…  n no  e edit  ? more › ";
    assert_eq!(end, format!("{keys}answered elsewhere, by web\\u{{1b}}"));
}

// R-194, R-195: the edited input is evaluated next
#[test]
fn an_edited_input_is_read_back_and_its_errors_are_shown() {
    let edit = |lines: &[&'static str], edits: &[Result<&'static str, &'static str>]| {
        let fake = FakeTerminal {
            lines: lines.iter().copied().collect(),
            edits: edits.iter().copied().collect(),
            ..FakeTerminal::default()
        };
        let result = run_dialogs(&[write("a", "x")], fake);
        let remarks: Vec<&str> = result
            .screen
            .split_once(">>\n")
            .unwrap()
            .1
            .lines()
            .take(2)
            .collect();
        format!("{:?}\n{}", result.answers, remarks.join("\n"))
    };
    let changed = Ok(r#"{"path": "b"}"#);
    expect![[r#"
        [Modify { input: Object {"path": String("b")} }]
    "#]]
    .assert_eq(&edit(&["e", ""], &[changed]));
    expect![[r#"
        [Modify { input: Object {"path": String("b")} }]
          not JSON: EOF while parsing an object at line 1 column 1
          e edit again, anything else returns to the question › «e»"#]]
    .assert_eq(&edit(&["e", "", "e"], &[Ok("{"), changed]));
    expect![[r#"
        [Allow { offer: 0, note: None }]
          the input must be a JSON object, {…}
          e edit again, anything else returns to the question › «n»"#]]
    .assert_eq(&edit(&["i", "", "n", "y"], &[Ok("[]")]));
    expect![[r#"
        [Deny { note: None }]
          the editor ended with 1
    "#]]
    .assert_eq(&edit(&["i", "", "n"], &[Err("the editor ended with 1")]));
    expect![[r#"
        [Deny { note: None }]
          no changes
    "#]]
    .assert_eq(&edit(
        &["i", "", "n"],
        &[Ok(r#"{"content":"x","path":"a"}"#)],
    ));
}

// R-190, R-194: each call of a wave is asked about, and one approval can cover several
#[test]
fn allowing_a_group_covers_only_listed_calls() {
    let specs = [
        staged_write("a", "1\n"),
        command("ls"),
        staged_write("b b", "1\n2\n"),
        staged_write("c\u{202e}", ""),
    ];
    let result = run_dialog(&specs, &["g", "y", "n"]);
    let once = Answer::once;
    assert_eq!(
        result.answers,
        [once(), Answer::Deny { note: None }, once(), once()]
    );
    let rest = result.screen.split_once("«g»").unwrap().1;
    let (list, rest) = rest.split_once("«y»").unwrap();
    expect![[r#"
        screen:

            1.       a  (1 change: +1 −0)
            2.       b b  (1 change: +2 −0)
            3.       c\u{202e}  (1 change: +0 −0)
          Allow these 3 calls once each? y yes, anything else returns to the question › "#]]
    .assert_eq(&with_header(list));
    // The allowed questions have left the queue or are about to.
    assert!(rest.contains("of 4 waiting)"), "{rest}");

    let result = run_dialog(&specs, &["g", "n", "n", "y", "g", "y"]);
    let no = Answer::Deny { note: None };
    assert_eq!(result.answers, [no, once(), once(), once()]);
}

#[test]
fn allowing_a_group_excludes_later_calls() {
    let fake = FakeTerminal {
        lines: ["g", "!arrives", "y"].into(),
        ..FakeTerminal::default()
    };
    let queue = Arc::clone(&fake.queue);
    let result = run_dialogs(&[staged_write("a", "x"), staged_write("b", "x")], fake);
    assert_eq!(result.answers, [Answer::once(), Answer::once()]);
    let (question, call) = question(&staged_write("c", "x"));
    let queued = queue.push(question, call);
    let waiting: Vec<String> = queue
        .similar(&queued.ask)
        .iter()
        .map(|ask| ask.call.id.0.clone())
        .collect();
    assert_eq!(waiting, ["call-\"c\"", "call-\"late\""]);
}
