//! A program on a pseudo-terminal, with its screen output and keyboard input.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

/// Timeout that is longer than any step takes, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Where a question waits for a key.
pub const KEYS: &str = "› ";

pub struct Terminal {
    pty: File,
    child: Child,
    output: Receiver<Vec<u8>>,
    screen: String,
    /// The start of a character whose end was not read yet.
    incomplete: Vec<u8>,
    /// Where `wait_for` continues.
    position: usize,
    pub name: PathBuf,
}

impl Terminal {
    /// `typed_ahead` is typed before the program starts.
    pub fn start(command: &Command, typed_ahead: &str) -> Self {
        Self::start_with_size(command, typed_ahead, (50, 100))
    }

    /// Starts with a window of this many rows and columns.
    pub fn start_with_size(command: &Command, typed_ahead: &str, size: (u16, u16)) -> Self {
        let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("a terminal");
        unlockpt(&person).expect("a terminal");
        let name = ptsname(&person, Vec::new()).expect("a terminal");
        let name = PathBuf::from(name.into_string().expect("a name"));
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let side = File::from(rustix::fs::open(&name, flags, Mode::empty()).expect("a terminal"));
        let mut person = File::from(person);
        resize(&person, size.0, size.1);
        person.write_all(typed_ahead.as_bytes()).expect("typed");

        // `setsid` makes it the controlling terminal of the program.
        let mut started = Command::new("setsid");
        started
            .arg("--ctty")
            .arg(command.get_program())
            .args(command.get_args())
            // Prompts do not depend on the terminal that runs the tests.
            .env("TERM", "xterm-256color")
            .env_remove("TOOLHOST_PLAIN");
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => started.env(name, value),
                None => started.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            started.current_dir(folder);
        }
        let another = || side.try_clone().expect("a descriptor");
        started.stdin(another()).stdout(another()).stderr(another());
        let child = started.spawn().expect("setsid starts");
        drop(started);
        drop(side);

        let (sender, drawn) = channel();
        let mut screen = person.try_clone().expect("a descriptor");
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Reading fails once the program has closed the terminal.
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self {
            pty: person,
            child,
            output: drawn,
            screen: String::new(),
            incomplete: Vec::new(),
            position: 0,
            name,
        }
    }

    /// Waits until `text` is drawn after the previous match, and returns the output up to its end.
    pub fn wait_for(&mut self, text: &str) -> String {
        let end = Instant::now() + TIMEOUT;
        loop {
            if let Some(at) = self.screen[self.position..].find(text) {
                let to = self.position + at + text.len();
                let from = std::mem::replace(&mut self.position, to);
                return self.screen[from..to].to_owned();
            }
            match self
                .output
                .recv_timeout(end.saturating_duration_since(Instant::now()))
            {
                Ok(bytes) => self.add_output(&bytes),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("`{text}` is not drawn:\n{}", self.screen)
                }
            }
        }
    }

    fn add_output(&mut self, bytes: &[u8]) {
        self.incomplete.extend_from_slice(bytes);
        while let Err(error) = std::str::from_utf8(&self.incomplete) {
            let rest = self.incomplete.split_off(error.valid_up_to());
            self.screen += &String::from_utf8_lossy(&self.incomplete);
            self.incomplete = rest;
            let Some(invalid) = error.error_len() else {
                return;
            };
            self.incomplete.drain(..invalid);
            self.screen.push(char::REPLACEMENT_CHARACTER);
        }
        let whole = std::mem::take(&mut self.incomplete);
        self.screen += &String::from_utf8_lossy(&whole);
    }

    /// What a window of this size shows.
    pub fn rendered(&self, (rows, columns): (u16, u16)) -> String {
        let mut window = vt100::Parser::new(rows, columns, 0);
        window.process(self.screen.as_bytes());
        window.screen().contents()
    }

    pub fn type_keys(&mut self, keys: &str) {
        self.pty.write_all(keys.as_bytes()).expect("typed");
    }

    /// Types while the program discards keys. Returns false if it may not have done so, because `text` was drawn.
    pub fn type_while_discarded(&mut self, keys: &str, text: &str) -> bool {
        loop {
            match self.output.try_recv() {
                Ok(bytes) => self.add_output(&bytes),
                Err(TryRecvError::Empty) => std::thread::yield_now(),
                Err(TryRecvError::Disconnected) => return false,
            }
            if self.screen[self.position..].contains(text) {
                return false;
            }
            if !self.is_line_mode() {
                self.type_keys(keys);
                while let Ok(bytes) = self.output.try_recv() {
                    self.add_output(&bytes);
                }
                return !self.is_line_mode() && !self.screen[self.position..].contains(text);
            }
        }
    }

    /// Whether the terminal echoes keys and buffers lines, which is the default mode.
    pub fn is_line_mode(&self) -> bool {
        let modes = tcgetattr(self.pty.as_fd()).expect("a terminal").local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    pub fn resize(&self, rows: u16, columns: u16) {
        resize(&self.pty, rows, columns);
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// Waits for the end. Returns the exit code (`Ok`) or signal (`Err`), and the remaining output.
    pub fn wait(mut self) -> (Result<i32, i32>, String) {
        while let Ok(bytes) = self.output.recv_timeout(TIMEOUT) {
            self.add_output(&bytes);
        }
        let status = self.child.wait().expect("it ends");
        let code = status.code().ok_or(status.signal().unwrap_or_default());
        (code, std::mem::take(&mut self.screen))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The output without rows of progress, which are erased again.
pub fn without_progress(output: &str) -> String {
    let mut shown = String::new();
    let mut rest = output;
    while let Some((before, after)) = rest.split_once("\r\u{1b}[") {
        shown += before;
        let erased = after.split_once("A\u{1b}[J").and_then(|(rows, after)| {
            let rows: usize = rows.parse().ok()?;
            Some((rows, after))
        });
        rest = after;
        let Some((rows, after)) = erased else {
            shown += "\r\u{1b}[";
            continue;
        };
        rest = after;
        for _ in 0..rows {
            let line = shown.trim_end_matches(['\r', '\n']);
            shown.truncate(line.rfind('\n').map_or(0, |end| end + 1));
        }
    }
    shown + rest
}

fn resize(terminal: &File, rows: u16, columns: u16) {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(terminal, size).expect("a size");
}
