//! Crash injection for tests that kill the host during a commit. Does nothing in release builds.

/// Kills this process at the step given in `TOOLHOST_CRASH_AT`, for example `commit-17`.
#[cfg(debug_assertions)]
pub fn steps() -> impl FnMut(&str) {
    use rustix::process::{Signal, getpid, kill_process};

    let at = std::env::var("TOOLHOST_CRASH_AT").ok();
    let at: Option<usize> = at.and_then(|name| name.strip_prefix("commit-")?.parse().ok());
    let mut step = 0;
    move |_| {
        step += 1;
        if at == Some(step) {
            let _ = kill_process(getpid(), Signal::KILL);
        }
    }
}

#[cfg(not(debug_assertions))]
pub fn steps() -> impl FnMut(&str) {
    |_: &str| {}
}
