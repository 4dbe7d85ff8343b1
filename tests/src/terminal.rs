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

pub struct Terminal {
    pty: File,
    child: Child,
    output: Receiver<Vec<u8>>,
    screen: String,
    /// Where `wait_for` continues.
    position: usize,
    pub name: PathBuf,
}

impl Terminal {
    /// `typed_ahead` is typed before the program starts.
    pub fn start(command: &Command, typed_ahead: &str) -> Self {
        let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("a terminal");
        unlockpt(&person).expect("a terminal");
        let name = ptsname(&person, Vec::new()).expect("a terminal");
        let name = PathBuf::from(name.into_string().expect("a name"));
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let side = File::from(rustix::fs::open(&name, flags, Mode::empty()).expect("a terminal"));
        let mut person = File::from(person);
        resize(&person, 50, 100);
        person.write_all(typed_ahead.as_bytes()).expect("typed");

        // `setsid` makes it the controlling terminal of the program.
        let mut started = Command::new("setsid");
        started
            .arg("--ctty")
            .arg(command.get_program())
            .args(command.get_args());
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
                Ok(bytes) => self.screen += &String::from_utf8_lossy(&bytes),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("`{text}` is not drawn:\n{}", self.screen)
                }
            }
        }
    }

    pub fn type_keys(&mut self, keys: &str) {
        self.pty.write_all(keys.as_bytes()).expect("typed");
    }

    /// Types while the program discards keys. Returns false if it did not do so before `text` was drawn, or not long
    /// enough.
    pub fn type_while_discarded(&mut self, keys: &str, text: &str) -> bool {
        loop {
            match self.output.try_recv() {
                Ok(bytes) => self.screen += &String::from_utf8_lossy(&bytes),
                Err(TryRecvError::Empty) => std::thread::yield_now(),
                Err(TryRecvError::Disconnected) => return false,
            }
            if self.screen[self.position..].contains(text) {
                return false;
            }
            if !self.is_line_mode() {
                self.type_keys(keys);
                return !self.is_line_mode();
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
            self.screen += &String::from_utf8_lossy(&bytes);
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

fn resize(terminal: &File, rows: u16, columns: u16) {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(terminal, size).expect("a size");
}
