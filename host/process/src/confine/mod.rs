//! Confinement that the launcher applies to itself before it executes the program, ordered so that each step still
//! permits the next.

mod files;
mod network;
mod privileges;
mod proc_view;
mod subtract_paths;
mod syscalls;

use std::os::fd::OwnedFd;

use crate::launcher::observed_calls;
use crate::wire::SandboxRules;

pub use network::{PROXY_PORT, enter_private_network};
pub use privileges::set_limits;

/// Applies all of the confinement or returns an error: no program starts partially confined. An observed program stops at
/// the calls that can be refused.
pub fn confine(
    sandbox_rules: &SandboxRules,
    held: &[OwnedFd],
    is_observed: bool,
) -> Result<(), String> {
    let view = proc_view::mount_private_proc();
    files::restrict_files(sandbox_rules, held, &proc_view::readable_paths(view))?;
    privileges::drop_capabilities()
        .map_err(|error| format!("cannot give up capabilities: {error}"))?;
    if is_observed {
        syscalls::stop_at(observed_calls())?;
    }
    // Last, because it forbids system calls that the previous steps need.
    syscalls::install_filters(sandbox_rules.network, sandbox_rules.local_sockets)
}

/// Returns what this kernel lacks to confine programs, if anything, so that the host can check at startup.
pub fn missing_kernel_support() -> Option<String> {
    files::missing_kernel_support()
}
