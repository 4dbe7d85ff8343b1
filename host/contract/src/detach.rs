//! Requests to continue the running command of a call in the background.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

/// No command of the call can be detached.
const CLOSED: u8 = 0;
/// A command runs and can be detached.
const OPEN: u8 = 1;
const REQUESTED: u8 = 2;

/// Connects the caller of a call, who requests the detachment, with the backend that runs the command. Clones belong to
/// the same call.
#[derive(Debug, Clone, Default)]
pub struct DetachSwitch(Arc<AtomicU8>);

impl DetachSwitch {
    /// Accepts a request until the returned value is dropped.
    #[must_use]
    pub fn open(&self) -> DetachableCommand {
        self.0.store(OPEN, SeqCst);
        DetachableCommand(self.clone())
    }

    /// Requests that the command continue in the background. Returns false if the call runs no command that can be
    /// detached. The command may end before the request takes effect.
    pub fn request(&self) -> bool {
        let before = self.0.compare_exchange(OPEN, REQUESTED, SeqCst, SeqCst);
        matches!(before, Ok(_) | Err(REQUESTED))
    }
}

/// A running command that can be detached.
#[derive(Debug)]
pub struct DetachableCommand(DetachSwitch);

impl DetachableCommand {
    /// Returns whether the command is to continue in the background.
    pub fn is_requested(&self) -> bool {
        self.0.0.load(SeqCst) == REQUESTED
    }
}

impl Drop for DetachableCommand {
    fn drop(&mut self) {
        self.0.0.store(CLOSED, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_running_command_can_be_detached() {
        let switch = DetachSwitch::default();
        assert!(!switch.request(), "no command runs");
        let command = switch.open();
        assert!(!command.is_requested());
        assert!(switch.clone().request());
        assert!(switch.request(), "a second request has no effect");
        assert!(command.is_requested());
        drop(command);
        assert!(!switch.request(), "the command has ended");
        assert!(
            !switch.open().is_requested(),
            "a request does not apply to the next command"
        );
    }
}
