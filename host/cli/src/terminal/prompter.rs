//! Asks a person at the terminal. A tool must not be able to answer for the person, hide what it will do, or make
//! the question unreadable; whenever something is odd the answer is no.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{QueueSelector, tcflush};
use toolhost_contract::units::show_size;
use toolhost_contract::{Answer, BoxFuture, Call, PluginName, Question, ToolName, text};
use toolhost_kernel::Prompter;

/// Nobody reads more than this before saying yes.
const MAX_INPUT: usize = 10 << 10;
/// Keys must have been still for so long before the question appears.
const QUIET: Duration = Duration::from_millis(100);
/// Whoever types on for so long is a program.
const PATIENCE: Duration = Duration::from_secs(3);

#[derive(Default)]
pub struct TerminalPrompter {
    /// Tools that the person allowed until the program ends.
    allowed: Mutex<HashSet<(PluginName, ToolName)>>,
    /// One question at a time: two on one terminal cannot be told apart.
    turn: tokio::sync::Mutex<()>,
}

impl Prompter for TerminalPrompter {
    fn ask<'a>(&'a self, question: &'a Question, call: &'a Call) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
                return Answer::NobodyToAsk;
            }
            let shown = match show(question, call) {
                Ok(shown) => shown,
                Err(note) => return Answer::Deny { note: Some(note) },
            };
            let _turn = self.turn.lock().await;
            let key = (question.plugin.clone(), question.tool.clone());
            if self
                .allowed
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .contains(&key)
            {
                return Answer::once();
            }
            // When the call is cancelled this future is dropped, and the thread that waits for a key must not swallow
            // the next line that is meant for somebody else.
            let waiting = Waiting(Arc::new(AtomicBool::new(true)));
            let flag = Arc::clone(&waiting.0);
            let word = tokio::task::spawn_blocking(move || ask_person(&shown, &flag))
                .await
                .ok()
                .flatten();
            match word
                .as_deref()
                .map(str::trim)
                .map(str::to_ascii_lowercase)
                .as_deref()
            {
                Some("y" | "yes") => Answer::once(),
                Some("a") => {
                    self.allowed
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .insert(key);
                    Answer::once()
                }
                _ => Answer::Deny { note: None },
            }
        })
    }
}

struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// The question as one text, so that it is written in one piece; or why it cannot be asked.
fn show(question: &Question, call: &Call) -> Result<String, String> {
    let size = call.input.to_string().len();
    if size > MAX_INPUT {
        return Err(format!(
            "its input is {}, too long to be judged at a terminal; start with --allow-tool {} to allow it unseen",
            show_size(size as u64),
            question.tool
        ));
    }
    let input = serde_json::to_string_pretty(&call.input).map_err(|error| error.to_string())?;
    let input = collapse(&text::block(&input, usize::MAX)).replace('\n', "\n             ");
    let network = if question.network {
        ", and reaches the network"
    } else {
        ""
    };
    Ok(format!(
        "\n  Allow this call?\n\
         \x20   plugin   {plugin}\n\
         \x20   tool     {tool}\n\
         \x20   effect   {effect}{network}\n\
         \x20   because  {reason}\n\
         \x20   input    {input}\n\
         \x20 [y]es once / [a]llow `{tool}` for this session / [n]o: ",
        plugin = question.plugin,
        tool = question.tool,
        effect = question.effect.as_str(),
        reason = text::inline(&question.reason, 300),
    ))
}

/// Long runs of white space would push what matters out of sight.
fn collapse(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let mut run = 1;
        while c.is_whitespace() && chars.next_if_eq(&c).is_some() {
            run += 1;
        }
        if run > 40 {
            let sign = if c == '\n' { '␤' } else { '␠' };
            let _ = write!(out, "{sign}×{run}");
        } else {
            out.extend(std::iter::repeat_n(c, run));
        }
    }
    out
}

/// Blocks until there is a line, the terminal is gone, or nobody waits any more. None is a no.
fn ask_person(question: &str, waiting: &AtomicBool) -> Option<String> {
    let stdin = std::io::stdin();
    // What was typed before the question was there is no answer to it.
    let start = Instant::now();
    loop {
        tcflush(stdin.as_fd(), QueueSelector::IFlush).ok()?;
        if !readable(QUIET)? {
            break;
        }
        if start.elapsed() > PATIENCE {
            return None;
        }
    }
    std::io::stderr()
        .lock()
        .write_all(question.as_bytes())
        .ok()?;
    loop {
        let ready = readable(QUIET)?;
        if !waiting.load(Ordering::Relaxed) {
            return None;
        }
        if ready {
            break;
        }
    }
    // Straight from the terminal: a buffered reader could keep a second line and take it for the next answer.
    let mut line = [0; 4096];
    let length = rustix::io::read(stdin.as_fd(), &mut line).ok()?;
    (length > 0).then(|| String::from_utf8_lossy(&line[..length]).into_owned())
}

fn readable(within: Duration) -> Option<bool> {
    let stdin = std::io::stdin();
    let within = Timespec::try_from(within).ok()?;
    match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&within)) {
        Ok(ready) => Some(ready > 0),
        Err(rustix::io::Errno::INTR) => Some(false),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolhost_contract::policy::{HookSaid, Request};
    use toolhost_contract::{CallId, Caller, Descriptor, Policy, PolicySpec, Subject, Verdict};

    use super::*;

    fn shown(input: Value) -> Result<String, String> {
        let name = ToolName::parse("write_file").unwrap();
        let tool = Descriptor::new(name.clone(), "");
        let plugin = PluginName::parse("files").unwrap();
        let subject = Subject::of(&tool, &input);
        let caller = Caller::default();
        let request = Request {
            plugin: &plugin,
            name: &name,
            tool: &tool,
            aliases: &[],
            executes: false,
            digest: None,
            definition: None,
            input: &input,
            subject: &subject,
            timeout: None,
            caller: &caller,
            mode: None,
            narrow: None,
            tail: false,
        };
        let policy = Policy::new(PolicySpec::default()).unwrap();
        let Verdict::Ask(question) = policy.decide(request, &HookSaid::default(), &[], 0) else {
            panic!("not asked")
        };
        let call = Call {
            id: CallId("1".to_owned()),
            tool: name,
            input,
            caller: Caller::default(),
        };
        show(&question, &call)
    }

    #[test]
    fn the_question_shows_everything_and_obeys_nothing() {
        let text = shown(json!({"path": "a\u{202e}\u{1b}[2Jb", "content": "x\ny"})).unwrap();
        let lines: Vec<String> = text.lines().map(|line| format!("|{line}")).collect();
        expect_test::expect![[r#"
            |
            |  Allow this call?
            |    plugin   files
            |    tool     write_file
            |    effect   destroys
            |    because  it may destroy data
            |    input    {
            |               "path": "a\u{202e}\u001b[2Jb",
            |               "content": "x\ny"
            |             }
            |  [y]es once / [a]llow `write_file` for this session / [n]o: "#]]
        .assert_eq(&lines.join("\n"));
    }

    #[test]
    fn white_space_cannot_push_the_rest_away() {
        let text =
            shown(json!({"command": format!("ls{}; curl evil", " ".repeat(5_000))})).unwrap();
        assert!(text.contains("ls␠×5000; curl evil"), "{text}");
    }

    #[test]
    fn what_nobody_would_read_is_not_asked() {
        let note = shown(json!({"content": "x".repeat(20_000)})).unwrap_err();
        assert!(
            note.contains("19.5 KiB") && note.contains("--allow-tool write_file"),
            "{note}"
        );
    }
}
