//! The warden: starts the launcher, adopts orphaned processes of the program, and kills them when the host is gone.

use std::ffi::CString;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::SigSet;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, set_child_subreaper, wait, waitid,
    waitpid,
};

use super::{ENTER, OBSERVE, descendants};
use crate::wire::{
    self, Descriptors, LaunchFailure, LaunchRequest, LaunchStage, WardenCommand, WardenReport,
};

pub fn run_warden() -> io::Result<()> {
    let host = wire::socket_from_stdin()?;
    // With SIGCHLD ignored, there would be no children to wait for.
    crate::reset_inherited_signals()?;
    // From here on every orphan below this process becomes its child, including one that left its process group and
    // session.
    set_child_subreaper(Some(getpid()))?;
    let descriptors = wire::receive_descriptors(&host)?;
    let request: LaunchRequest = wire::read_frame(&host)?
        .ok_or_else(|| io::Error::other("no launch request was received"))?;
    let null = std::fs::File::options().write(true).open("/dev/null")?;
    let launched = launch(&request, &descriptors);
    // The pipe of the program's input must not stay open in this process, or the input would never end.
    drop(descriptors);
    let leader = match launched {
        Ok(leader) => leader,
        Err(failure) => return wire::write_frame(&host, &WardenReport::Failed(failure)),
    };
    // From here on this process must not exit before its last child. If the host cannot receive reports it is gone, and
    // the thread that serves the host notices that.
    //
    // Until now this process held the program's outputs open; they would never end either.
    let _ = rustix::stdio::dup2_stdout(&null);
    let _ = rustix::stdio::dup2_stderr(&null);
    let _ = wire::write_frame(&host, &WardenReport::Started { pid: leader });
    let (reaping, reporting) = <(Mutex<()>, Mutex<()>)>::default();
    Warden {
        host,
        leader,
        reaping,
        reporting,
    }
    .run(request.limits.processes)
}

/// Starts the launcher and returns its process ID once it has executed the program.
fn launch(request: &LaunchRequest, descriptors: &Descriptors) -> Result<i32, LaunchFailure> {
    let (ours, theirs) =
        UnixStream::pair().map_err(LaunchStage::Launch.failure("cannot make a socket"))?;
    let role = if request.sockets.record.is_some() {
        OBSERVE
    } else {
        ENTER
    };
    let pid = start_launcher(&request.launcher, role, &theirs)
        .map_err(LaunchStage::Launch.failure("cannot start the launcher"))?;
    drop(theirs);
    let sent = wire::send_descriptors(&ours, &descriptors.borrowed())
        .and_then(|()| wire::write_frame(&ours, request));
    // The launcher's end closes on exec; until then the launcher can report why it failed.
    let failure = match sent.and_then(|()| wire::read_frame(&ours)) {
        Ok(None) => return Ok(pid),
        Ok(Some(failure)) => failure,
        Err(error) => LaunchStage::Launch.failure("lost the launcher")(error),
    };
    // A launcher that still waits for its request exits when the socket is closed.
    drop(ours);
    let _ = waitpid(Pid::from_raw(pid), WaitOptions::empty());
    Err(failure)
}

/// Starts this executable as a launcher or an observer, with `stdin` as its standard input, default signal dispositions and no blocked
/// signals, so that the program does not inherit the host's. The standard library resets only SIGPIPE.
pub fn start_launcher(arguments: &[String], role: &str, stdin: &UnixStream) -> io::Result<i32> {
    const PROGRAM: &str = "/proc/self/exe";
    let mut attributes = PosixSpawnAttr::init()?;
    attributes.set_flags(
        PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK,
    )?;
    attributes.set_sigdefault(&SigSet::all())?;
    attributes.set_sigmask(&SigSet::empty())?;
    let mut actions = PosixSpawnFileActions::init()?;
    actions.add_dup2(stdin.as_raw_fd(), 0)?;
    let arguments = std::iter::once(PROGRAM)
        .chain(arguments.iter().map(String::as_str))
        .chain([role])
        .map(CString::new)
        .collect::<Result<Vec<_>, _>>()?;
    let variables: &[CString] = &[];
    let pid = posix_spawn(PROGRAM, &actions, &attributes, &arguments, variables)?;
    Ok(pid.as_raw())
}

struct Warden {
    host: UnixStream,
    leader: i32,
    /// Held while descendants are looked up and signalled: a child that is not reaped keeps its ID.
    reaping: Mutex<()>,
    /// Held while a report is written, so that reports do not interleave.
    reporting: Mutex<()>,
}

impl Warden {
    fn run(self, most: usize) -> ! {
        let warden = &self;
        std::thread::scope(|scope| {
            scope.spawn(|| warden.serve_host());
            scope.spawn(|| warden.watch_process_count(most));
            warden.reap();
            warden.report(&WardenReport::Gone);
            // The other thread may be waiting for input from the host.
            std::process::exit(0)
        })
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.reaping.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a report. An error means that the host is gone, which the thread that serves the host notices too.
    fn report(&self, report: &WardenReport) {
        let _one = self
            .reporting
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let _ = wire::write_frame(&self.host, report);
    }

    /// Serves commands of the host. Returns only when the process is about to exit.
    fn serve_host(&self) {
        loop {
            match wire::read_frame(&self.host) {
                Ok(Some(WardenCommand::Signal(number))) => {
                    let _lock = self.lock();
                    if let Some(signal) = Signal::from_named_raw(number) {
                        descendants::signal_all(signal);
                        if signal == Signal::TERM {
                            // A stopped process would not receive the signal.
                            descendants::signal_all(Signal::CONT);
                        }
                    }
                }
                // The end of the stream means that the host is gone.
                Ok(Some(WardenCommand::Kill) | None) | Err(_) => self.kill(),
            }
        }
    }

    /// Checks the numbers of processes and threads. Never returns.
    fn watch_process_count(&self, most: usize) {
        const PAUSE: Duration = Duration::from_millis(500);
        // Tasks of others can end while those of the program grow, so the total alone is not enough.
        const COUNT_EVERY: u32 = 10;
        /// On average; browsers and language servers have dozens.
        const THREADS_PER_PROCESS: usize = 16;
        // Not taken from the first total: on a busy machine, the program may have started many processes before.
        let mut others = 0;
        for round in 0_u32.. {
            // Reading the total number of tasks is cheap. Descendants are counted only if that number has grown.
            let tasks = descendants::count_tasks();
            if tasks.saturating_sub(others) > most || round.is_multiple_of(COUNT_EVERY) {
                let (processes, own) = descendants::count_descendants();
                if processes > most || own > most * THREADS_PER_PROCESS {
                    self.report(&WardenReport::Crowded);
                    self.kill();
                }
                others = tasks.saturating_sub(own);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Kills all descendants until the other thread exits the process because none is left.
    fn kill(&self) {
        let mut pause = Duration::from_millis(2);
        loop {
            {
                let _lock = self.lock();
                descendants::kill_all();
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(500));
        }
    }

    /// Returns when no child is left. A descendant further down becomes a child before its parent is gone.
    fn reap(&self) {
        loop {
            // Waits without reaping, because reaping requires the lock.
            match waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return,
                Ok(_) => {}
            }
            let _lock = self.lock();
            let mut ended = None;
            let others_live = loop {
                match wait(WaitOptions::NOHANG) {
                    Ok(Some((pid, status))) if Pid::as_raw(Some(pid)) == self.leader => {
                        ended = Some(std::process::ExitStatus::from_raw(status.as_raw()));
                    }
                    Ok(Some(_)) => {}
                    Ok(None) => break true,
                    Err(_) => break false,
                }
            };
            if let Some(status) = ended {
                let living = if others_live {
                    descendants::find_descendants()
                } else {
                    Vec::new()
                };
                let report = WardenReport::Ended {
                    code: status.code(),
                    signal: status.signal(),
                    left: living.iter().map(|one| one.pid).collect(),
                };
                self.report(&report);
            }
        }
    }
}
