//! The observer: runs a program as its traced child and reports the accesses that its sandbox refuses.
//!
//! It is a process between the warden and the program. A filter of the program stops it at the calls in
//! [`super::refused_calls`] only, so other calls run at full speed.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::unix::net::UnixStream;

use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::Pid;
use rustix::io::Errno;
use rustix::process::{WaitOptions, WaitStatus, set_parent_process_death_signal, wait};

use super::ENTER;
use super::refused_calls::{PendingCall, ProgramAccess};
use super::warden::start_launcher;
use crate::wire::{self, LaunchRequest, LaunchStage};

/// Maximum number of different accesses that are reported.
const MAX_REPORTED: usize = 10_000;

pub fn run_observer() -> io::Result<()> {
    let warden = wire::socket_from_stdin()?;
    set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // The warden sends this signal to the program as well. The observer ends after the program, with its exit code.
    SigSet::from(Signal::SIGTERM).thread_block()?;
    let descriptors = wire::receive_descriptors(&warden)?;
    let request: LaunchRequest = wire::read_frame(&warden)?
        .ok_or_else(|| io::Error::other("no launch request was received"))?;
    let reports = request
        .sockets
        .record
        .and_then(|index| descriptors.held.get(index));
    let reports = reports.ok_or_else(|| io::Error::other("the socket for reports is missing"))?;
    let reports = UnixStream::from(reports.try_clone()?);
    let (ours, theirs) = UnixStream::pair()?;
    let program = Pid::from_raw(start_launcher(&request.launcher, ENTER, &theirs)?);
    drop(theirs);
    // The launcher waits for its request, and so has no filter yet that would stop it.
    if let Err(error) = ptrace::seize(program, options()) {
        let context = "the system does not allow to observe the program (see ptrace(2), Yama)";
        let failure = LaunchStage::Confine.failure(context)(error);
        return wire::write_frame(&warden, &failure);
    }
    wire::send_descriptors(&ours, &descriptors.borrowed())?;
    wire::write_frame(&ours, &request)?;
    drop(descriptors);
    // The program has its own copies of the streams, whose end the host waits for.
    let null = std::fs::File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    // The answer comes when the launcher becomes the program, which this thread has to let it do.
    std::thread::spawn(move || {
        if let Ok(Some(failure)) = wire::read_frame::<wire::LaunchFailure>(&ours) {
            let _ = wire::write_frame(&warden, &failure);
        }
    });
    let code = Observer {
        reports,
        pending: HashMap::new(),
        reported: BTreeSet::new(),
    }
    .run(program);
    std::process::exit(code)
}

fn options() -> Options {
    Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACESECCOMP
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_EXITKILL
}

/// Added to the number of the signal that ended the program.
const SIGNALLED: i32 = 128;

fn exit_code(status: WaitStatus) -> Option<i32> {
    let signal = status.terminating_signal().map(|signal| SIGNALLED + signal);
    status.exit_status().or(signal)
}

struct Observer {
    reports: UnixStream,
    /// The call that each thread is in.
    pending: HashMap<Pid, PendingCall>,
    reported: BTreeSet<ProgramAccess>,
}

impl Observer {
    /// Returns the exit code of the program.
    fn run(mut self, program: Pid) -> i32 {
        // Threads that do not send SIGCHLD are waited for too. `nix` refuses statuses with real-time signals.
        let options = WaitOptions::from_bits_retain(libc::__WALL.cast_unsigned());
        loop {
            match wait(options) {
                Ok(Some((pid, status))) => {
                    let pid = Pid::from_raw(pid.as_raw_nonzero().get());
                    if let Some(code) = exit_code(status) {
                        self.pending.remove(&pid);
                        if pid == program {
                            return code;
                        }
                    } else if let Some(signal) = status.stopping_signal() {
                        self.handle_stop(pid, status.as_raw() >> 16, signal);
                    }
                }
                Ok(None) | Err(Errno::INTR) => {}
                Err(_) => return SIGNALLED,
            }
        }
    }

    /// Lets a stopped thread run on. Errors are ignored: a thread that was killed meanwhile is waited for next.
    fn handle_stop(&mut self, pid: Pid, event: i32, signal: i32) {
        const SYSCALL_STOP: i32 = libc::SIGTRAP | 0x80;
        if event != 0 {
            self.handle_event(pid, event);
        } else if signal == SYSCALL_STOP {
            self.finish_call(pid);
            let _ = ptrace::cont(pid, None);
        } else {
            let _ = ptrace::cont(pid, Signal::try_from(signal).ok());
        }
    }

    fn handle_event(&mut self, pid: Pid, event: i32) {
        if event == libc::PTRACE_EVENT_SECCOMP
            && let Some(call) = PendingCall::read(pid)
        {
            self.pending.insert(pid, call);
            // Stops again when the call returns.
            let _ = ptrace::syscall(pid, None);
            return;
        }
        if event == libc::PTRACE_EVENT_EXEC {
            self.pending.remove(&pid);
        }
        let _ = ptrace::cont(pid, None);
    }

    fn finish_call(&mut self, pid: Pid) {
        let Some(call) = self.pending.remove(&pid) else {
            return;
        };
        for access in call.refused(pid) {
            if self.reported.len() < MAX_REPORTED && self.reported.insert(access.clone()) {
                // Without a reader the program runs on.
                let _ = wire::write_frame(&self.reports, &access);
            }
        }
    }
}
