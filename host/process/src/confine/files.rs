//! File access rules with Landlock, which needs no privileges and is inherited by all descendants of the program.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath,
    Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError,
    RulesetStatus, Scope,
};

use rustix::fs::{FileType, Mode, OFlags};

use super::subtract_paths::{GrantScope, MAX_ENTRIES, file_type, subtract_paths};
use crate::wire::{AccessRights, RulePath, SandboxRules};

/// The required ABI: below it, a file outside the sandbox could be truncated.
const REQUIRED_ABI: ABI = ABI::V3;
/// The newest ABI whose rights are used if the kernel supports them.
const NEWEST_ABI: ABI = ABI::V9;

/// Restricts this process. `held` contains the descriptors that the rules refer to, `processes` additional readable
/// paths in `/proc`.
pub fn restrict_files(
    sandbox_rules: &SandboxRules,
    held: &[OwnedFd],
    processes: &[PathBuf],
) -> Result<(), String> {
    enforce(sandbox_rules, held, processes).map_err(|error| reason(&error))?
}

fn enforce(
    sandbox_rules: &SandboxRules,
    held: &[OwnedFd],
    processes: &[PathBuf],
) -> Result<Result<(), String>, RulesetError> {
    let mut rules = ruleset(sandbox_rules.network, sandbox_rules.local_sockets)?;
    let all = handled_rights(sandbox_rules.local_sockets);
    let mut left = MAX_ENTRIES;
    for rule in &sandbox_rules.rules {
        let opened;
        let target = match &rule.place {
            RulePath::Path(path) => {
                opened = open(path);
                opened.as_ref()
            }
            RulePath::Held(number) => held.get(*number),
        };
        let Some(target) = target else { continue };
        let except: Vec<&Path> = rule.except.iter().map(PathBuf::as_path).collect();
        let mut grant = |fd: BorrowedFd<'_>, part: GrantScope| match part {
            GrantScope::Whole => allow(&mut rules, fd, rights(rule.rights) & all),
            GrantScope::NamesOnly => allow(&mut rules, fd, AccessFs::ReadDir.into()),
        };
        subtract_paths(target.as_fd(), &except, &mut left, &mut grant)?;
    }
    for path in processes {
        if let Some(fd) = open(path) {
            allow(&mut rules, fd.as_fd(), AccessFs::from_read(NEWEST_ABI))?;
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

fn rights(rights: AccessRights) -> BitFlags<AccessFs> {
    match rights {
        AccessRights::Read => AccessFs::from_read(NEWEST_ABI),
        AccessRights::Write => AccessFs::from_all(NEWEST_ABI),
        AccessRights::List => AccessFs::ReadDir.into(),
        AccessRights::Device => {
            AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev
        }
    }
}

/// All rights that the rules handle. With local sockets granted, sockets outside the granted directories are allowed
/// too.
fn handled_rights(local_sockets: bool) -> BitFlags<AccessFs> {
    let all = AccessFs::from_all(NEWEST_ABI);
    if local_sockets {
        all & !BitFlags::from(AccessFs::ResolveUnix)
    } else {
        all
    }
}

fn ruleset(network: bool, local_sockets: bool) -> Result<RulesetCreated, RulesetError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(REQUIRED_ABI))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(handled_rights(local_sockets))?
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
    let access = if file_type(fd) == FileType::Directory {
        access
    } else {
        access & AccessFs::from_file(NEWEST_ABI)
    };
    if !access.is_empty() {
        rules.add_rule(PathBeneath::new(fd, access))?;
    }
    Ok(())
}

pub fn missing_kernel_support() -> Option<String> {
    ruleset(false, false).err().map(|error| reason(&error))
}

fn reason(error: &RulesetError) -> String {
    format!(
        "the kernel does not support Landlock ABI 3 (Linux 6.2), or Landlock is not enabled: {error}"
    )
}
