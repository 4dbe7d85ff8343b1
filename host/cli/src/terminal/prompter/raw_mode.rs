//! Non-canonical terminal mode without echo, for discarding input and reading single keys.
//!
//! In canonical mode a partially typed line can neither be seen nor discarded, and would become part of the next
//! answer.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::process::{Signal, getpgrp, kill_current_process_group};
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr,
    tcgetpgrp, tcsetattr,
};

use super::key::{self, Key};
use super::terminal_io::is_readable;

static TERMINATION: OnceLock<Termination> = OnceLock::new();
const SIGTERM: i32 = Signal::TERM.as_raw();

/// SIGTERM, which ends the process at once unless the terminal has to be restored first.
struct Termination {
    applies_at_once: Arc<AtomicBool>,
    is_received: Arc<AtomicBool>,
}

impl Termination {
    /// Handles the signal from now on. On failure it ends the process and leaves the terminal in raw mode.
    fn install() -> Self {
        let this = Self {
            applies_at_once: Arc::new(AtomicBool::new(true)),
            is_received: Arc::default(),
        };
        let at_once = Arc::clone(&this.applies_at_once);
        if signal_hook::flag::register_conditional_default(SIGTERM, at_once).is_ok() {
            let _ = signal_hook::flag::register(SIGTERM, Arc::clone(&this.is_received));
        }
        this
    }
}

pub struct RawMode {
    before: Termios,
    /// The signal that the terminal would have sent for a discarded key.
    signal: Option<Signal>,
}

impl RawMode {
    /// Enters the mode. Returns `None` if the terminal is gone or belongs to another program.
    pub fn enter() -> Option<Self> {
        let stdin = std::io::stdin();
        // In the background this stops the process until it is in the foreground, unless the signal is ignored.
        if in_background() {
            tcflush(stdin.as_fd(), QueueSelector::IFlush).ok()?;
            if in_background() {
                return None;
            }
        }
        let before = tcgetattr(stdin.as_fd()).ok()?;
        let mut now = before.clone();
        now.local_modes
            .remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ISIG);
        now.special_codes[SpecialCodeIndex::VMIN] = 1;
        now.special_codes[SpecialCodeIndex::VTIME] = 0;
        let quiet = Self {
            before,
            signal: None,
        };
        let termination = TERMINATION.get_or_init(Termination::install);
        termination.applies_at_once.store(false, Ordering::Relaxed);
        // Not flushed, because pending input can contain a Ctrl-C.
        tcsetattr(stdin.as_fd(), OptionalActions::Now, &now).ok()?;
        Some(quiet)
    }

    /// Discards pending input. Returns `None` if the terminal is gone or the input contains an interrupt.
    pub fn discard(mut self) -> Option<Self> {
        self.read()?;
        match self.signal {
            None => Some(self),
            Some(Signal::TSTP | Signal::QUIT) => {
                // Restores the terminal. Stops or ends the process here, unless it handles the signal.
                drop(self);
                Self::enter()
            }
            Some(_) => None,
        }
    }

    /// Reads what was typed. Returns `None` if the terminal is gone.
    pub fn read_key(&mut self) -> Option<Key> {
        self.read().map(|keys| key::parse(&keys))
    }

    /// The signal that the keys so far stand for. It is raised when the mode is left.
    pub fn signal(&self) -> Option<Signal> {
        self.signal
    }

    /// Whether the process was asked to end. It ends when the mode is left.
    pub fn is_terminated() -> bool {
        let termination = TERMINATION.get();
        termination.is_some_and(|termination| termination.is_received.load(Ordering::Relaxed))
    }

    fn read(&mut self) -> Option<Vec<u8>> {
        let mut keys = [0; 4096];
        let length = rustix::io::read(std::io::stdin().as_fd(), &mut keys).ok()?;
        let keys = keys.get(..length).filter(|keys| !keys.is_empty())?;
        self.signal = self.signal.or_else(|| signal_for_keys(&self.before, keys));
        Some(keys.to_vec())
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        let stdin = std::io::stdin();
        // A failure to restore the settings cannot be handled.
        let _ = tcsetattr(stdin.as_fd(), OptionalActions::Now, &self.before);
        // Input that arrived just before the settings were restored.
        if is_readable(Duration::ZERO) == Some(true) {
            self.read();
        }
        let _ = tcflush(stdin.as_fd(), QueueSelector::IFlush);
        if let Some(termination) = TERMINATION.get() {
            termination.applies_at_once.store(true, Ordering::Relaxed);
        }
        if Self::is_terminated() {
            let _ = signal_hook::low_level::emulate_default_handler(SIGTERM);
        }
        if let Some(signal) = self.signal {
            let _ = kill_current_process_group(signal);
        }
    }
}

/// The signal that the terminal would have sent for these keys.
fn signal_for_keys(terminal: &Termios, keys: &[u8]) -> Option<Signal> {
    if !terminal.local_modes.contains(LocalModes::ISIG) {
        return None;
    }
    [
        (SpecialCodeIndex::VINTR, Signal::INT),
        (SpecialCodeIndex::VQUIT, Signal::QUIT),
        (SpecialCodeIndex::VSUSP, Signal::TSTP),
    ]
    .into_iter()
    .find(|(code, _)| {
        let key = terminal.special_codes[*code];
        key != 0 && keys.contains(&key)
    })
    .map(|(_, signal)| signal)
}

/// Whether another process group is in the foreground. A terminal that does not control this process has none.
fn in_background() -> bool {
    tcgetpgrp(std::io::stdin().as_fd()).is_ok_and(|group| group != getpgrp())
}
