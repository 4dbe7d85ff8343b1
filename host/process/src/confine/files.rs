//! The fence around files: Landlock, which needs no privilege and is inherited by everything the program starts.

use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath,
    PathFd, Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError,
    RulesetStatus, Scope,
};

use crate::wire::Walls;

/// Without this one a file outside the fence could be emptied.
const NEEDED: ABI = ABI::V3;
/// Whatever else a newer kernel offers is taken.
const WANTED: ABI = ABI::V8;

pub fn fence(walls: &Walls) -> Result<(), String> {
    enforce(walls).map_err(|error| reason(&error))?
}

fn enforce(walls: &Walls) -> Result<Result<(), String>, RulesetError> {
    let all = AccessFs::from_all(WANTED);
    let mut rules = ruleset(walls.network)?;
    rules = allow(rules, &walls.read, AccessFs::from_read(WANTED))?;
    rules = allow(rules, &walls.write, all)?;
    rules = allow(rules, &walls.list, AccessFs::ReadDir.into())?;
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    rules = allow(rules, &walls.devices, device)?;
    let status = rules.restrict_self()?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => Err("the kernel did not enforce the file fence".to_owned()),
    })
}

fn ruleset(network: bool) -> Result<RulesetCreated, RulesetError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(NEEDED))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(WANTED))?
        .scope(Scope::AbstractUnixSocket | Scope::Signal)?;
    if !network {
        // The system call filter refuses sockets; this also holds for one that came in through an open descriptor.
        rules = rules.handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp)?;
    }
    rules.create()
}

/// A path that is not there is left out: what cannot be named cannot be reached.
fn allow(
    mut rules: RulesetCreated,
    paths: &[impl AsRef<Path>],
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    for path in paths {
        let Ok(held) = PathFd::new(path) else {
            continue;
        };
        // Rights over the entries of a directory mean nothing for a file.
        let access = if path.as_ref().is_dir() {
            access
        } else {
            access & AccessFs::from_file(WANTED)
        };
        rules = rules.add_rule(PathBeneath::new(held, access))?;
    }
    Ok(rules)
}

pub fn lacking() -> Option<String> {
    ruleset(false).err().map(|error| reason(&error))
}

fn reason(error: &RulesetError) -> String {
    format!(
        "the kernel has no Landlock of at least ABI 3 (Linux 6.2), or it is not switched on: {error}"
    )
}
