//! The launcher: puts every limit on itself and then becomes the program.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Signal, fchdir, ioctl_tiocsctty, set_parent_process_death_signal, setsid};

use crate::confine;
use crate::wire::{self, Descriptors, Failure, Orders, Stage};

pub fn enter() -> io::Result<()> {
    let warden = wire::socket_from_stdin()?;
    // The warden kills all that is left when the host is gone. Should the warden itself be killed, at least the
    // program goes with it. The warden's first thread starts this process and lives as long as the warden.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let descriptors = wire::receive_descriptors(&warden)?;
    let orders = wire::read_frame(&warden)?.ok_or_else(|| io::Error::other("no orders came"))?;
    let failure = become_program(&orders, descriptors);
    wire::write_frame(&warden, &failure)
}

/// Returns only what went wrong.
fn become_program(orders: &Orders, descriptors: Descriptors) -> Failure {
    let prepared = prepare(orders, descriptors);
    let Err(failure) = prepared else {
        let error = Command::new(&orders.program)
            .arg0(&orders.name)
            .args(&orders.arguments)
            .env_clear()
            .envs(orders.variables.iter().map(|(name, value)| (name, value)))
            .exec();
        return Stage::Start.failure("the kernel refuses")(error);
    };
    failure
}

fn prepare(orders: &Orders, descriptors: Descriptors) -> Result<(), Failure> {
    let Descriptors { stdin, cwd, held } = descriptors;
    let launch = |what: &'static str| Stage::Launch.failure::<rustix::io::Errno>(what);
    rustix::stdio::dup2_stdin(&stdin).map_err(launch("cannot set standard input"))?;
    drop(stdin);
    // A session of its own has no terminal: nothing in it reads, or types into, the terminal of the person.
    setsid().map_err(launch("cannot leave the session"))?;
    if orders.tty {
        ioctl_tiocsctty(io::stdin().as_fd()).map_err(launch("cannot take the terminal"))?;
    }
    fchdir(&cwd).map_err(Stage::Directory.failure("cannot enter it"))?;
    drop(cwd);
    confine::limit(&orders.limits).map_err(Stage::Launch.failure("cannot set limits"))?;
    if let Some(walls) = &orders.fence {
        confine::confine(walls, &held).map_err(|reason| Failure {
            stage: Stage::Confine,
            reason,
        })?;
    }
    Ok(())
}
