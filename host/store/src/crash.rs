//! Crash injection for tests that kill the host during a prune. Does nothing in release builds.

/// Kills this process at the step named by `TOOLHOST_CRASH_AT`.
#[cfg(debug_assertions)]
pub fn at(step: &str) {
    use rustix::process::{Signal, getpid, kill_process};

    if std::env::var_os("TOOLHOST_CRASH_AT").is_some_and(|name| name == step) {
        let _ = kill_process(getpid(), Signal::KILL);
    }
}

#[cfg(not(debug_assertions))]
pub fn at(_step: &str) {}
