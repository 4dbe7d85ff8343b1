//! Reset of ignored and blocked signals that this process inherited, so that child processes do not inherit them.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::sys::signal::{SigSet, Signal};

/// Signals that do not get a handler. SIGKILL and SIGSTOP cannot be ignored. A handler of SIGILL, SIGFPE or SIGSEGV
/// would return to the faulting instruction. The standard library ignores SIGPIPE and resets it in child processes. A
/// handler of SIGTTIN or SIGTTOU would make a terminal read in the background restart endlessly.
const WITHOUT_HANDLER: &[i32] = &[
    libc::SIGKILL,
    libc::SIGSTOP,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGSEGV,
    libc::SIGPIPE,
    libc::SIGTTIN,
    libc::SIGTTOU,
];

/// Ensures that child processes started after this call have default signal dispositions and no blocked signals.
///
/// A signal that is ignored or blocked at the time of the call gets a handler that does nothing, so it does not end
/// this process either, and the kernel resets the handler on exec. SIGILL, SIGFPE, SIGSEGV, SIGTTIN and SIGTTOU keep
/// their disposition. Confined programs do not need this call: they always start with default dispositions.
///
/// Call it at the start of `main`, before any thread is started, because the mask is that of the calling thread.
pub fn reset_inherited_signals() -> io::Result<()> {
    let status = fs::read_to_string("/proc/self/status")?;
    let inherited = mask(&status, "SigIgn:")? | mask(&status, "SigBlk:")?;
    for signal in signals(inherited) {
        if !WITHOUT_HANDLER.contains(&signal) {
            // The C library reserves two signals, refuses handlers for them, and sets them where it uses them.
            let _ = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
        }
    }
    let mut blocked = SigSet::empty();
    let blocked_signals = mask(&status, "SigBlk:")?;
    for signal in [Signal::SIGTTIN, Signal::SIGTTOU] {
        if signals(blocked_signals).any(|number| number == signal as i32) {
            blocked.add(signal);
        }
    }
    Ok(blocked.thread_set_mask()?)
}

fn mask(status: &str, name: &str) -> io::Result<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .ok_or_else(|| io::Error::other(format!("/proc/self/status has no {name} line")))
}

/// The signal numbers in a mask: the lowest bit is signal 1.
fn signals(mask: u64) -> impl Iterator<Item = i32> {
    (0..64)
        .filter(move |bit| mask >> bit & 1 == 1)
        .map(|bit| bit + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signal_masks_are_parsed() {
        let status = "Name:\tsh\nSigBlk:\t8000000000000000\nSigIgn:\t0000000000001002\n";
        let numbers = |name| signals(mask(status, name).unwrap()).collect::<Vec<_>>();
        assert_eq!(numbers("SigBlk:"), [64]);
        assert_eq!(numbers("SigIgn:"), [libc::SIGINT, libc::SIGPIPE]);
        assert!(mask(status, "SigCgt:").is_err());
    }
}
