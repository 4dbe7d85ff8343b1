//! A terminal that hands over each key at once and shows none, as long as keys are thrown away. With the usual settings
//! a line that somebody has begun could be neither seen nor thrown away for good, and would begin the next answer.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::process::{Signal, getpgrp, kill_current_process_group};
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr,
    tcgetpgrp, tcsetattr,
};

use super::keys::readable;

pub struct Quiet {
    before: Termios,
    /// A key that the terminal would have turned into this signal.
    signal: Option<Signal>,
}

impl Quiet {
    /// None: the terminal is gone, or belongs to another program.
    pub fn enter() -> Option<Self> {
        let stdin = std::io::stdin();
        // In the background this stops us until somebody brings us to the front, unless the signal is ignored.
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
        // Not flushed: what waits is read, because a Ctrl-C can be among it.
        tcsetattr(stdin.as_fd(), OptionalActions::Now, &now).ok()?;
        Some(quiet)
    }

    /// Throws away what waits to be read. None: the terminal is gone, or the person has ended us.
    pub fn discard(mut self) -> Option<Self> {
        self.read()?;
        match self.signal {
            None => Some(self),
            Some(Signal::TSTP) => {
                // Stops here, with the terminal as it was.
                drop(self);
                Self::enter()
            }
            Some(_) => None,
        }
    }

    fn read(&mut self) -> Option<()> {
        let mut keys = [0; 4096];
        let length = rustix::io::read(std::io::stdin().as_fd(), &mut keys).ok()?;
        let keys = keys.get(..length).filter(|keys| !keys.is_empty())?;
        self.signal = self.signal.or_else(|| signal(&self.before, keys));
        Some(())
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let stdin = std::io::stdin();
        // There is nothing to be done about a terminal that does not take its own settings back.
        let _ = tcsetattr(stdin.as_fd(), OptionalActions::Now, &self.before);
        // What came just before the settings were put back.
        if readable(Duration::ZERO) == Some(true) {
            self.read();
        }
        let _ = tcflush(stdin.as_fd(), QueueSelector::IFlush);
        if let Some(signal) = self.signal {
            let _ = kill_current_process_group(signal);
        }
    }
}

/// What the terminal would have made of these keys.
fn signal(terminal: &Termios, keys: &[u8]) -> Option<Signal> {
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

/// A terminal that does not control us has no foreground.
fn in_background() -> bool {
    tcgetpgrp(std::io::stdin().as_fd()).is_ok_and(|group| group != getpgrp())
}
