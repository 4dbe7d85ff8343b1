//! Detaching the running command of a call: it continues as a background job, and the call ends.

use std::sync::PoisonError;

use toolhost_contract::{CallId, SessionKey, UserId, text};

use super::Kernel;

/// Why no command was detached. Calls of other users are reported as not running.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DetachError {
    #[error("no call `{0}` is running")]
    NotRunning(String),
    #[error("call `{0}` runs no command that can continue in the background")]
    NoCommand(String),
}

impl Kernel {
    /// Moves the running command of a call of `user`, or of a call that it made, to the background. The call ends with a
    /// result that names the job. The command may end before that.
    pub fn detach(&self, id: &CallId, user: &UserId) -> Result<(), DetachError> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let nested = format!("{id}/");
        let mut theirs = running
            .iter()
            .filter(|(running, call)| {
                call.session.user == *user && (*running == id || running.0.starts_with(&nested))
            })
            .map(|(_, call)| &call.detach)
            .peekable();
        let shown = || text::escape_line(&id.0, 80);
        if theirs.peek().is_none() {
            return Err(DetachError::NotRunning(shown()));
        }
        // Not `any`, because a call can run several commands through other calls.
        let requested = theirs.filter(|switch| switch.request()).count();
        if requested == 0 {
            return Err(DetachError::NoCommand(shown()));
        }
        Ok(())
    }

    /// Returns the calls of a session that have not ended.
    pub fn running_calls(&self, session: &SessionKey) -> Vec<CallId> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let theirs = running.iter().filter(|(_, call)| call.session == *session);
        theirs.map(|(id, _)| id.clone()).collect()
    }
}
