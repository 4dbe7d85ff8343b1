//! The terminal as the conversation needs it: something to write on, and lines that a person typed after reading.

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
use rustix::termios::{OptionalActions, tcgetattr, tcgetwinsize, tcsetattr};
use toolhost_hostfiles::open_regular_no_follow;

use super::desk::Waits;
use super::margin::Look;
use super::quiet::Quiet;
use crate::terminal::screen::SCREEN;
use crate::terminal::style::Style;
use crate::words;

/// Keys must have been still for so long before the question appears.
const QUIET: Duration = Duration::from_millis(100);
/// Whoever types on for so long is a program.
const PATIENCE: Duration = Duration::from_secs(3);
const CONTINUED: i32 = Signal::CONT.as_raw();
/// How often an editor is looked after.
const LOOK_AFTER: Duration = Duration::from_millis(50);
/// How long an editor may take to leave the terminal as it was.
const LEAVING: Duration = Duration::from_secs(2);
/// What an editor may leave.
const MAX_EDITED: u64 = 1 << 20;

/// Writes, even while somebody else holds the keys. None: the terminal is gone.
pub type Screen = Arc<dyn Fn(&str) -> Option<()> + Send + Sync>;

pub trait Keys: Send + 'static {
    /// Whether a person can be there at all.
    fn is_there() -> bool;

    fn look(&self) -> Look;

    /// Waits until nobody types, and at least so long, and forgets what was typed: it is no answer to what comes next.
    /// None: somebody types on and on, or the terminal is gone.
    fn still(&mut self, at_least: Duration) -> Option<()>;

    fn screen(&self) -> Screen;

    fn say(&mut self, text: &str) -> Option<()> {
        self.screen()(text)
    }

    /// Blocks for one line. None: end of input, the terminal is gone, or the question does not wait any more.
    fn line(&mut self, ask: &impl Waits) -> Option<Heard>;

    /// Blocks until the person has left the editor, which knows by the `ending` of the file's name what it holds. The
    /// error is for the person.
    fn edit(&mut self, text: &str, ending: &str, ask: &impl Waits) -> Result<String, String>;
}

/// What has come of waiting for a line.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    Line(String),
    /// What is on the screen may not be the question any more.
    Disturbed,
}

impl Heard {
    /// Nothing where there is no line.
    pub fn words(&self) -> &str {
        match self {
            Heard::Line(line) => line.trim(),
            Heard::Disturbed => "",
        }
    }
}

/// Standard input and standard error.
pub struct Tty {
    /// The process was stopped (Ctrl-Z) and goes on: other programs have written to the terminal.
    continued: Arc<AtomicBool>,
}

impl Default for Tty {
    fn default() -> Self {
        let continued = Arc::default();
        // Without it the question is not repeated.
        let _ = signal_hook::flag::register(CONTINUED, Arc::clone(&continued));
        Self { continued }
    }
}

impl Keys for Tty {
    fn is_there() -> bool {
        std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
    }

    fn look(&self) -> Look {
        let stderr = std::io::stderr();
        let size = tcgetwinsize(stderr.as_fd());
        let (columns, rows) = size.map_or((0, 0), |size| (size.ws_col, size.ws_row));
        let or = |known: u16, usual| if known == 0 { usual } else { known.into() };
        Look {
            width: or(columns, 80),
            height: or(rows, 24),
            style: Style::of(&stderr),
        }
    }

    fn still(&mut self, at_least: Duration) -> Option<()> {
        let mut quiet = Quiet::enter()?;
        let start = Instant::now();
        loop {
            if readable(QUIET)? {
                quiet = quiet.discard()?;
            } else if start.elapsed() >= at_least {
                if at_least.is_zero() {
                    // What is drawn next is drawn after that.
                    self.continued.store(false, Ordering::Relaxed);
                }
                return Some(());
            }
            if start.elapsed() > PATIENCE {
                return None;
            }
        }
    }

    fn screen(&self) -> Screen {
        Arc::new(|text| {
            SCREEN.show_question();
            std::io::stderr().lock().write_all(text.as_bytes()).ok()
        })
    }

    fn line(&mut self, ask: &impl Waits) -> Option<Heard> {
        loop {
            let ready = readable(QUIET)?;
            if !ask.waits() {
                return None;
            }
            if self.continued.swap(false, Ordering::Relaxed) {
                return Some(Heard::Disturbed);
            }
            if ready {
                break;
            }
        }
        // Straight from the terminal: a buffered reader could keep a second line and take it for the next answer.
        let mut line = [0; 4096];
        let length = rustix::io::read(std::io::stdin().as_fd(), &mut line).ok()?;
        // A line without an end was ended by Ctrl-D, or was too long: it is not what somebody meant to send.
        let line = line[..length].strip_suffix(b"\n")?;
        Some(Heard::Line(String::from_utf8_lossy(line).into_owned()))
    }

    fn edit(&mut self, text: &str, ending: &str, ask: &impl Waits) -> Result<String, String> {
        let editor = ["VISUAL", "EDITOR"]
            .into_iter()
            .filter_map(|name| std::env::var(name).ok())
            .find(|editor| !editor.trim().is_empty())
            .ok_or("no editor is known; set VISUAL or EDITOR, or write `e key=value` or `e {…}`")?;
        let words =
            words::command(&editor).map_err(|error| format!("the editor's name: {error}"))?;
        let (program, args) = words.split_first().ok_or("the editor's name is empty")?;
        let cannot = |error: std::io::Error| format!("it cannot be edited: {error}");

        // A folder that only this user can enter, so that what the editor leaves beside the file is as private as the
        // file. Both are gone when this function ends.
        let folder = tempfile::Builder::new()
            .prefix("toolhost-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(private_folder())
            .map_err(cannot)?;
        let path = folder.path().join(format!("edit{ending}"));
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(cannot)?;

        // An editor that dies leaves the terminal as it was using it.
        let stdin = std::io::stdin();
        let before = tcgetattr(stdin.as_fd()).ok();
        // Standard output may be a pipe that waits for the result.
        let screen = std::io::stderr()
            .as_fd()
            .try_clone_to_owned()
            .map_err(cannot)?;
        let edited = Command::new(program)
            .args(args)
            .arg(&path)
            .stdout(Stdio::from(screen))
            .spawn()
            .map_err(|error| format!("the editor `{program}` cannot be started: {error}"))
            .and_then(|editor| look_after(editor, ask));
        if let Some(before) = before {
            // There is nothing to be done about a terminal that does not take its own settings back.
            let _ = tcsetattr(stdin.as_fd(), OptionalActions::Now, &before);
        }
        edited?;

        let mut left = Vec::new();
        // Neither a link nor a pipe, which a tool could have put there if the folder of temporary files is granted.
        open_regular_no_follow(&path)
            .and_then(|file| file.take(MAX_EDITED + 1).read_to_end(&mut left))
            .map_err(cannot)?;
        if left.len() as u64 > MAX_EDITED {
            return Err("what was saved is longer than 1 MiB and is not taken".to_owned());
        }
        String::from_utf8(left)
            .map_err(|_| "what was saved is not UTF-8 and is not taken".to_owned())
    }
}

/// The user's runtime folder, which is in memory and closed to others.
fn private_folder() -> PathBuf {
    std::env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|folder| folder.is_absolute() && folder.is_dir())
        .unwrap_or_else(std::env::temp_dir)
}

fn look_after(mut editor: Child, ask: &impl Waits) -> Result<(), String> {
    let mut told = None;
    loop {
        match editor.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("the editor ended with {status}")),
            Ok(None) => {}
            Err(error) => return Err(format!("the editor is lost: {error}")),
        }
        match told {
            None if ask.waits() => {}
            // A full-screen editor puts the terminal back when it is asked to end.
            None => {
                told = Some(Instant::now());
                let _ = kill_process(Pid::from_child(&editor), Signal::TERM);
            }
            Some(told) if told.elapsed() < LEAVING => {}
            Some(_) => {
                let _ = editor.kill();
                let _ = editor.wait();
                return Err("the question does not wait any more".to_owned());
            }
        }
        std::thread::sleep(LOOK_AFTER);
    }
}

pub fn readable(within: Duration) -> Option<bool> {
    let stdin = std::io::stdin();
    let within = Timespec::try_from(within).ok()?;
    match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&within)) {
        Ok(ready) => Some(ready > 0),
        Err(rustix::io::Errno::INTR) => Some(false),
        Err(_) => None,
    }
}
