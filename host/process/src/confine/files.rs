//! File access rules with Landlock, which needs no privileges and is inherited by all descendants of the program.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath,
    Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError,
    RulesetStatus, Scope,
};

use rustix::fs::{FileType, Mode, OFlags};

use super::carve::{MOST, Part, carve, kind};
use crate::wire::{Place, Rights, Walls};

/// The required ABI: below it, a file outside the sandbox could be truncated.
const NEEDED: ABI = ABI::V3;
/// The newest ABI whose rights are used if the kernel supports them.
const WANTED: ABI = ABI::V9;

/// Restricts this process. `held` contains the descriptors that the rules refer to, `processes` additional readable
/// paths in `/proc`.
pub fn fence(walls: &Walls, held: &[OwnedFd], processes: &[PathBuf]) -> Result<(), String> {
    enforce(walls, held, processes).map_err(|error| reason(&error))?
}

fn enforce(
    walls: &Walls,
    held: &[OwnedFd],
    processes: &[PathBuf],
) -> Result<Result<(), String>, RulesetError> {
    let mut rules = ruleset(walls.network, walls.local_sockets)?;
    let all = all(walls.local_sockets);
    let mut left = MOST;
    for rule in &walls.rules {
        let opened;
        let place = match &rule.place {
            Place::Path(path) => {
                opened = open(path);
                opened.as_ref()
            }
            Place::Held(number) => held.get(*number),
        };
        let Some(place) = place else { continue };
        let except: Vec<&Path> = rule.except.iter().map(PathBuf::as_path).collect();
        let mut grant = |fd: BorrowedFd<'_>, part: Part| match part {
            Part::Whole => allow(&mut rules, fd, rights(rule.rights) & all),
            Part::Names => allow(&mut rules, fd, AccessFs::ReadDir.into()),
        };
        carve(place.as_fd(), &except, &mut left, &mut grant)?;
    }
    for path in processes {
        if let Some(fd) = open(path) {
            allow(&mut rules, fd.as_fd(), AccessFs::from_read(WANTED))?;
        }
    }
    let status = rules.restrict_self()?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => {
            Err("the kernel did not enforce the file access rules".to_owned())
        }
    })
}

fn rights(rights: Rights) -> BitFlags<AccessFs> {
    match rights {
        Rights::Read => AccessFs::from_read(WANTED),
        Rights::Write => AccessFs::from_all(WANTED),
        Rights::List => AccessFs::ReadDir.into(),
        Rights::Device => {
            AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev
        }
    }
}

/// All rights that the rules handle. With local sockets granted, sockets outside the granted directories are allowed
/// too.
fn all(local_sockets: bool) -> BitFlags<AccessFs> {
    let all = AccessFs::from_all(WANTED);
    if local_sockets {
        all & !BitFlags::from(AccessFs::ResolveUnix)
    } else {
        all
    }
}

fn ruleset(network: bool, local_sockets: bool) -> Result<RulesetCreated, RulesetError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(NEEDED))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all(local_sockets))?
        .scope(Scope::AbstractUnixSocket | Scope::Signal)?;
    if !network {
        // The system call filter refuses sockets; this also covers sockets that were inherited as open descriptors.
        rules = rules.handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp)?;
    }
    rules.create()
}

/// Opens a path. Returns `None` for a path that does not exist, which needs no rule.
fn open(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).ok()
}

fn allow(
    rules: &mut RulesetCreated,
    fd: BorrowedFd<'_>,
    access: BitFlags<AccessFs>,
) -> Result<(), RulesetError> {
    // Rights on directory entries do not apply to a file.
    let access = if kind(fd) == FileType::Directory {
        access
    } else {
        access & AccessFs::from_file(WANTED)
    };
    if !access.is_empty() {
        rules.add_rule(PathBeneath::new(fd, access))?;
    }
    Ok(())
}

pub fn lacking() -> Option<String> {
    ruleset(false, false).err().map(|error| reason(&error))
}

fn reason(error: &RulesetError) -> String {
    format!(
        "the kernel does not support Landlock ABI 3 (Linux 6.2), or Landlock is not enabled: {error}"
    )
}
