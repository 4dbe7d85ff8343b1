//! The fence around files: Landlock, which needs no privilege and is inherited by everything the program starts.

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

/// Without this one a file outside the fence could be emptied.
const NEEDED: ABI = ABI::V3;
/// Whatever else a newer kernel offers is taken.
const WANTED: ABI = ABI::V9;

/// `held`: the descriptors that the rules name. `processes`: paths in `/proc` that are read besides.
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
        RulesetStatus::NotEnforced => Err("the kernel did not enforce the file fence".to_owned()),
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

/// All rights that rules are about. Who may use local sockets may use those outside of the granted folders too.
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
        // The system call filter refuses sockets; this also holds for one that came in through an open descriptor.
        rules = rules.handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp)?;
    }
    rules.create()
}

/// A path that is not there is left out: what cannot be named cannot be reached.
fn open(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).ok()
}

fn allow(
    rules: &mut RulesetCreated,
    fd: BorrowedFd<'_>,
    access: BitFlags<AccessFs>,
) -> Result<(), RulesetError> {
    // Rights over the entries of a directory mean nothing for a file.
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
        "the kernel has no Landlock of at least ABI 3 (Linux 6.2), or it is not switched on: {error}"
    )
}
