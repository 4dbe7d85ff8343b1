//! The launcher: applies all limits to itself and then executes the program.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Signal, fchdir, ioctl_tiocsctty, set_parent_process_death_signal, setsid};

use crate::confine;
use crate::wire::{self, Descriptors, LaunchFailure, LaunchRequest, LaunchStage};

pub fn run_launcher() -> io::Result<()> {
    let warden = wire::socket_from_stdin()?;
    // The warden kills all remaining processes when the host is gone. If the warden itself is killed, this signal ends
    // at least the program. The warden's first thread starts this process and lives as long as the warden.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let descriptors = wire::receive_descriptors(&warden)?;
    let request = wire::read_frame(&warden)?
        .ok_or_else(|| io::Error::other("no launch request was received"))?;
    let failure = become_program(&request, descriptors);
    wire::write_frame(&warden, &failure)
}

/// Executes the program. Returns only on failure.
fn become_program(request: &LaunchRequest, descriptors: Descriptors) -> LaunchFailure {
    let prepared = prepare(request, descriptors);
    let Err(failure) = prepared else {
        let error = Command::new(&request.program)
            .arg0(&request.name)
            .args(&request.arguments)
            .env_clear()
            .envs(request.variables.iter().map(|(name, value)| (name, value)))
            .exec();
        return LaunchStage::Start.failure("the kernel refused to execute it")(error);
    };
    failure
}

fn prepare(request: &LaunchRequest, descriptors: Descriptors) -> Result<(), LaunchFailure> {
    let Descriptors { stdin, cwd, held } = descriptors;
    let launch = |context: &'static str| LaunchStage::Launch.failure::<rustix::io::Errno>(context);
    rustix::stdio::dup2_stdin(&stdin).map_err(launch("cannot set standard input"))?;
    drop(stdin);
    // A new session has no terminal: its processes can neither read nor type into the user's terminal.
    setsid().map_err(launch("cannot leave the session"))?;
    if request.tty {
        ioctl_tiocsctty(io::stdin().as_fd()).map_err(launch("cannot take the terminal"))?;
    }
    fchdir(&cwd).map_err(LaunchStage::Directory.failure("cannot enter it"))?;
    drop(cwd);
    confine::set_limits(&request.limits)
        .map_err(LaunchStage::Launch.failure("cannot set limits"))?;
    let refused = |reason| LaunchFailure {
        stage: LaunchStage::Confine,
        reason,
    };
    if let Some(proxy) = request.sockets.proxy {
        let host = held.get(proxy).map(OwnedFd::as_fd);
        let host = host.ok_or_else(|| refused("the socket of the proxy is missing".to_owned()))?;
        confine::enter_private_network(host).map_err(refused)?;
    }
    if let Some(sandbox_rules) = &request.sandbox_rules {
        confine::confine(sandbox_rules, &held, request.sockets.record.is_some())
            .map_err(refused)?;
    }
    Ok(())
}
