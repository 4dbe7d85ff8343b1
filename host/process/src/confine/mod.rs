//! Confinement that the launcher applies to itself before it executes the program, ordered so that each step still
//! permits the next.

mod carve;
mod files;
mod processes;
mod rights;
mod syscalls;

use std::os::fd::OwnedFd;

use crate::wire::Walls;

pub use rights::limit;

/// Applies all of the confinement or returns an error: no program starts partially confined.
pub fn confine(walls: &Walls, held: &[OwnedFd]) -> Result<(), String> {
    let view = processes::private_view();
    files::fence(walls, held, &processes::readable(view))?;
    rights::give_up().map_err(|error| format!("cannot give up capabilities: {error}"))?;
    // Last, because it forbids system calls that the previous steps need.
    syscalls::filter(walls.network, walls.local_sockets)
}

/// Returns what this kernel lacks to confine programs, if anything, so that the host can check at startup.
pub fn lacking() -> Option<String> {
    files::lacking()
}
