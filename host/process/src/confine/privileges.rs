//! Resource limits, and the capabilities of root.

use rustix::io;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, set_capabilities,
    set_no_new_privs,
};

use crate::ProcessLimits;

pub fn set_limits(limits: &ProcessLimits) -> io::Result<()> {
    // A core dump would leave the program's memory in a file.
    lower_limit(Resource::Core, 0)?;
    lower_limit(Resource::Nofile, limits.open_files)?;
    for (resource, value) in [
        (Resource::Fsize, limits.file_size),
        (Resource::As, limits.memory),
        (Resource::Cpu, limits.cpu_seconds),
    ] {
        if let Some(value) = value {
            lower_limit(resource, value)?;
        }
    }
    Ok(())
}

/// Sets the soft and the hard limit. A limit that is already lower is kept.
fn lower_limit(resource: Resource, value: u64) -> io::Result<()> {
    let now = getrlimit(resource);
    let value = now.maximum.map_or(value, |maximum| maximum.min(value));
    setrlimit(
        resource,
        Rlimit {
            current: Some(value),
            maximum: Some(value),
        },
    )
}

/// Drops all capabilities except those that root in a container needs for its files, which Landlock restricts. With
/// `no_new_privs` set, executing a file does not restore any.
pub fn drop_capabilities() -> io::Result<()> {
    set_no_new_privs(true)?;
    let retained = CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::FOWNER
        | CapabilitySet::FSETID;
    let now = capabilities(None)?;
    if now.permitted.difference(retained).is_empty() {
        return Ok(());
    }
    clear_ambient_capability_set()?;
    set_capabilities(
        None,
        CapabilitySets {
            effective: now.effective & retained,
            permitted: now.permitted & retained,
            inheritable: CapabilitySet::empty(),
        },
    )
}
