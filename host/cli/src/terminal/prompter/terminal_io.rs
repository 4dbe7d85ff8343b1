//! Terminal access for prompts: writing, reading lines, and running an editor.

use std::fs::{OpenOptions, Permissions};
use std::io::{IsTerminal, Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use toolhost_contract::text;
use toolhost_hostfiles::open_regular_no_follow;

use super::key::Key;
use super::prompt_queue::PromptState;
use super::raw_mode::RawMode;
use super::untrusted_text::TerminalLayout;
use crate::shell_words;
use crate::terminal::screen::SCREEN;

/// How long no key must have been typed before a question appears.
const QUIET_TIME: Duration = Duration::from_millis(100);
/// Continuous input for longer than this is taken as a program's, and the question is not asked.
const MAX_TYPING_TIME: Duration = Duration::from_secs(3);
const SIGCONT: i32 = Signal::CONT.as_raw();
/// Interval for polling a running editor.
const EDITOR_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long an editor may take to exit after SIGTERM.
const EDITOR_EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum size of the edited text in bytes.
const MAX_EDITED_BYTES: u64 = 1 << 20;

const ENTER_SECOND_SCREEN: &str = "\u{1b}[?1049h\u{1b}[?25l";
const LEAVE_SECOND_SCREEN: &str = "\u{1b}[?25h\u{1b}[?1049l";

/// Writes to the terminal, even while another thread reads from it. Returns `None` if the terminal is gone.
pub type TerminalWriter = Arc<dyn Fn(&str) -> Option<()> + Send + Sync>;

pub trait TerminalIo: Send + 'static {
    /// Whether there is a terminal to prompt at.
    fn is_available() -> bool;

    fn layout(&self) -> TerminalLayout;

    /// Discards input until no key is typed, for at least this time, so that it does not answer the next question.
    /// Returns `None` if input does not stop or the terminal is gone. Keys are not echoed until
    /// [`TerminalIo::leave_raw_mode`].
    fn discard_input(&mut self, at_least: Duration) -> Option<()>;

    /// Returns to lines with echo. Keys that were typed before are discarded.
    fn leave_raw_mode(&mut self) {}

    fn writer(&self) -> TerminalWriter;

    fn write(&mut self, text: &str) -> Option<()> {
        self.writer()(text)
    }

    /// Shows the second screen of the terminal, without the cursor, until [`TerminalIo::leave_second_screen`].
    fn enter_second_screen(&mut self) -> Option<()> {
        self.write(ENTER_SECOND_SCREEN)
    }

    /// Has no effect on the first screen.
    fn leave_second_screen(&mut self) -> Option<()> {
        self.write(LEAVE_SECOND_SCREEN)
    }

    /// Blocks for one line. Returns `None` at the end of input, if the terminal is gone or the question is not pending.
    fn read_line(&mut self, ask: &impl PromptState) -> Option<LineEvent>;

    /// Blocks for one key, which is then echoed. Enter and Escape are empty lines. Returns `None` like
    /// [`TerminalIo::read_line`].
    fn read_choice(&mut self, ask: &impl PromptState) -> Option<LineEvent> {
        loop {
            let line = match self.read_key(ask)? {
                KeyEvent::Disturbed => return Some(LineEvent::Disturbed),
                KeyEvent::Key(Key::EndOfInput) => return None,
                KeyEvent::Key(Key::Char(key)) => key.to_string(),
                KeyEvent::Key(Key::Enter | Key::Escape) => String::new(),
                KeyEvent::Key(_) => continue,
            };
            self.write(&format!("{}\n", text::escape_line(&line, 8)))?;
            return Some(LineEvent::Line(line));
        }
    }

    /// Blocks for one key, without echo, until [`TerminalIo::leave_raw_mode`].
    fn read_key(&mut self, ask: &impl PromptState) -> Option<KeyEvent>;

    /// Opens the text in an editor and blocks until it exits. `ending` is the file extension. The error is shown to the
    /// user.
    fn run_editor(
        &mut self,
        text: &str,
        ending: &str,
        ask: &impl PromptState,
    ) -> Result<String, String>;
}

/// The result of reading a key.
#[derive(Debug, PartialEq, Eq)]
pub enum KeyEvent {
    Key(Key),
    /// The question may no longer be visible on the screen.
    Disturbed,
}

/// The result of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub enum LineEvent {
    Line(String),
    /// The question may no longer be visible on the screen.
    Disturbed,
}

impl LineEvent {
    /// The trimmed line, or an empty string if there is none.
    pub fn text(&self) -> &str {
        match self {
            LineEvent::Line(line) => line.trim(),
            LineEvent::Disturbed => "",
        }
    }
}

/// Standard input and standard error.
pub struct Tty {
    /// Set when the process continues after Ctrl-Z, because other programs may have written to the terminal.
    continued: Arc<AtomicBool>,
    on_second_screen: bool,
    /// Kept between keys, so that none is echoed.
    raw: Option<RawMode>,
}

impl Tty {
    fn raw_mode(&mut self) -> Option<RawMode> {
        self.raw.take().or_else(RawMode::enter)
    }
}

impl Default for Tty {
    fn default() -> Self {
        let continued = Arc::default();
        // On failure the question is not repeated.
        let _ = signal_hook::flag::register(SIGCONT, Arc::clone(&continued));
        Self {
            continued,
            on_second_screen: false,
            raw: None,
        }
    }
}

impl TerminalIo for Tty {
    fn is_available() -> bool {
        std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
    }

    fn layout(&self) -> TerminalLayout {
        TerminalLayout::of(&std::io::stderr())
    }

    fn discard_input(&mut self, at_least: Duration) -> Option<()> {
        let mut quiet = self.raw_mode()?;
        let start = Instant::now();
        loop {
            if is_readable(QUIET_TIME)? {
                quiet = quiet.discard()?;
            } else if start.elapsed() >= at_least {
                if at_least.is_zero() {
                    // The question is drawn after this point.
                    self.continued.store(false, Ordering::Relaxed);
                }
                self.raw = Some(quiet);
                return Some(());
            }
            if start.elapsed() > MAX_TYPING_TIME {
                return None;
            }
        }
    }

    fn leave_raw_mode(&mut self) {
        self.raw = None;
    }

    fn writer(&self) -> TerminalWriter {
        Arc::new(|text| {
            SCREEN.show_question();
            std::io::stderr().lock().write_all(text.as_bytes()).ok()
        })
    }

    fn read_line(&mut self, ask: &impl PromptState) -> Option<LineEvent> {
        loop {
            let ready = is_readable(QUIET_TIME)?;
            if !ask.is_pending() {
                return None;
            }
            if self.continued.swap(false, Ordering::Relaxed) {
                return Some(LineEvent::Disturbed);
            }
            if ready {
                break;
            }
        }
        // Unbuffered, because a buffered reader could keep a second line as the answer to the next question.
        let mut line = [0; 4096];
        let length = rustix::io::read(std::io::stdin().as_fd(), &mut line).ok()?;
        // A line without a newline was ended by Ctrl-D or is too long, and does not count as an answer.
        let line = line[..length].strip_suffix(b"\n")?;
        Some(LineEvent::Line(String::from_utf8_lossy(line).into_owned()))
    }

    fn enter_second_screen(&mut self) -> Option<()> {
        self.on_second_screen = true;
        self.write(ENTER_SECOND_SCREEN)
    }

    fn leave_second_screen(&mut self) -> Option<()> {
        if std::mem::take(&mut self.on_second_screen) {
            self.write(LEAVE_SECOND_SCREEN)
        } else {
            Some(())
        }
    }

    fn read_key(&mut self, ask: &impl PromptState) -> Option<KeyEvent> {
        loop {
            let mut raw = self.raw_mode()?;
            loop {
                let ready = is_readable(QUIET_TIME)?;
                if RawMode::is_terminated() {
                    // Leaving the mode ends the process.
                    self.leave_second_screen();
                    return None;
                }
                if !ask.is_pending() {
                    return None;
                }
                if self.continued.swap(false, Ordering::Relaxed) {
                    return Some(KeyEvent::Disturbed);
                }
                if ready {
                    break;
                }
            }
            let key = raw.read_key()?;
            match raw.signal() {
                None => {
                    self.raw = Some(raw);
                    return Some(KeyEvent::Key(key));
                }
                // Leaving the mode raises the signal: it stops the process until it is continued, or is handled.
                Some(Signal::TSTP | Signal::QUIT) => {
                    self.leave_second_screen();
                }
                Some(_) => {
                    self.leave_second_screen();
                    return None;
                }
            }
        }
    }

    fn run_editor(
        &mut self,
        text: &str,
        ending: &str,
        ask: &impl PromptState,
    ) -> Result<String, String> {
        let editor = ["VISUAL", "EDITOR"]
            .into_iter()
            .filter_map(|name| std::env::var(name).ok())
            .find(|editor| !editor.trim().is_empty())
            .ok_or("no editor configured; set VISUAL or EDITOR, or edit the input with `i`")?;
        let arguments = shell_words::split_command(&editor)
            .map_err(|error| format!("invalid editor command: {error}"))?;
        let (program, args) = arguments
            .split_first()
            .ok_or("the editor command is empty")?;
        let cannot = |error: std::io::Error| format!("cannot edit: {error}");

        // A directory that only this user can enter, so that backup files of the editor are private too. It is deleted
        // when this function returns.
        let folder = tempfile::Builder::new()
            .prefix("toolhost-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(private_directory())
            .map_err(cannot)?;
        let path = folder.path().join(format!("edit{ending}"));
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(cannot)?;

        // An editor that is killed does not restore the terminal.
        let stdin = std::io::stdin();
        let before = tcgetattr(stdin.as_fd()).ok();
        // Standard output can be a pipe for the result.
        let screen = std::io::stderr()
            .as_fd()
            .try_clone_to_owned()
            .map_err(cannot)?;
        let edited = Command::new(program)
            .args(args)
            .arg(&path)
            .stdout(Stdio::from(screen))
            .spawn()
            .map_err(|error| format!("cannot start the editor `{program}`: {error}"))
            .and_then(|editor| supervise_editor(editor, ask));
        if let Some(before) = before {
            // A failure to restore the settings cannot be handled.
            let _ = tcsetattr(stdin.as_fd(), OptionalActions::Now, &before);
        }
        edited?;

        let mut left = Vec::new();
        // Not a symlink or pipe, which a tool could have created if the temporary directory is granted.
        open_regular_no_follow(&path)
            .and_then(|file| file.take(MAX_EDITED_BYTES + 1).read_to_end(&mut left))
            .map_err(cannot)?;
        if left.len() as u64 > MAX_EDITED_BYTES {
            return Err("the saved text is larger than 1 MiB and was discarded".to_owned());
        }
        String::from_utf8(left)
            .map_err(|_| "the saved text is not UTF-8 and was discarded".to_owned())
    }
}

/// The user's runtime directory, which is in memory and private, or the temporary directory.
fn private_directory() -> PathBuf {
    std::env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|folder| folder.is_absolute() && folder.is_dir())
        .unwrap_or_else(std::env::temp_dir)
}

fn supervise_editor(mut editor: Child, ask: &impl PromptState) -> Result<(), String> {
    let mut terminated_at = None;
    loop {
        match editor.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("the editor ended with {status}")),
            Ok(None) => {}
            Err(error) => return Err(format!("cannot wait for the editor: {error}")),
        }
        match terminated_at {
            None if ask.is_pending() => {}
            // A full-screen editor restores the terminal on SIGTERM.
            None => {
                terminated_at = Some(Instant::now());
                let _ = kill_process(Pid::from_child(&editor), Signal::TERM);
            }
            Some(terminated_at) if terminated_at.elapsed() < EDITOR_EXIT_TIMEOUT => {}
            Some(_) => {
                let _ = editor.kill();
                let _ = editor.wait();
                return Err("the question is no longer pending".to_owned());
            }
        }
        std::thread::sleep(EDITOR_POLL_INTERVAL);
    }
}

pub fn is_readable(timeout: Duration) -> Option<bool> {
    let stdin = std::io::stdin();
    let timeout = Timespec::try_from(timeout).ok()?;
    match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&timeout)) {
        Ok(ready) => Some(ready > 0),
        Err(rustix::io::Errno::INTR) => Some(false),
        Err(_) => None,
    }
}
