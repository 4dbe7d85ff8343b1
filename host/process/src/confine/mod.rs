//! What the launcher puts on itself before it becomes the program, in an order in which each step still allows the
//! next.

mod carve;
mod files;
mod processes;
mod rights;
mod syscalls;

use std::os::fd::OwnedFd;

use crate::wire::Walls;

pub use rights::limit;

/// All of it or an error: nothing is started with a part of its fence.
pub fn confine(walls: &Walls, held: &[OwnedFd]) -> Result<(), String> {
    let view = processes::private_view();
    files::fence(walls, held, &processes::readable(view))?;
    rights::give_up().map_err(|error| format!("cannot give up capabilities: {error}"))?;
    // Last, because it forbids what the steps before needed.
    syscalls::filter(walls.network, walls.local_sockets)
}

/// What this kernel lacks to confine programs, if anything: for a check before the first one is needed.
pub fn lacking() -> Option<String> {
    files::lacking()
}
