//! For the tests that kill the program at each step of a prune. Does nothing in a release build.

/// Kills this process when the step is the one that `TOOLHOST_CRASH_AT` names.
#[cfg(debug_assertions)]
pub fn at(step: &str) {
    use rustix::process::{Signal, getpid, kill_process};

    if std::env::var_os("TOOLHOST_CRASH_AT").is_some_and(|name| name == step) {
        let _ = kill_process(getpid(), Signal::KILL);
    }
}

#[cfg(not(debug_assertions))]
pub fn at(_step: &str) {}
