//! A crash hook for tests that kill the process at each step. Compiled to nothing in release builds.

/// Kills this process if `TOOLHOST_CRASH_AT` names this step.
#[cfg(debug_assertions)]
pub(crate) fn at(step: &str) {
    use rustix::process::{Signal, getpid, kill_process};

    if std::env::var_os("TOOLHOST_CRASH_AT").is_some_and(|name| name == step) {
        let _ = kill_process(getpid(), Signal::KILL);
    }
}

#[cfg(not(debug_assertions))]
pub(crate) fn at(_step: &str) {}
