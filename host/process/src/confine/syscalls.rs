//! The system call filter of confined programs: sockets, and calls that affect other processes, mounts, namespaces or
//! the kernel. Refused calls return an error, so that programs can report it.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter, sock_filter,
};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Calls that fail with an error that programs understand as "not allowed".
const REFUSED: &[c_long] = &[
    // Sockets and files through a queue that a filter cannot inspect.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Memory and descriptors of other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    // Mounts and root directories.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    OPEN_TREE_ATTR,
    libc::SYS_setns,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    // The kernel itself.
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    // Keys of the user, which are not protected by files.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Shared memory, semaphores and queues of other processes of the user, which have no path.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Calls that change file attributes, which Landlock does not restrict. They fail like on a file system without
/// attributes, which programs that copy files ignore.
const UNSUPPORTED: &[c_long] = &[
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
    FILE_SETATTR,
];

/// Not yet defined in `libc`; the same number on both architectures.
const OPEN_TREE_ATTR: c_long = 467;
const SETXATTRAT: c_long = 463;
const REMOVEXATTRAT: c_long = 466;
const FILE_SETATTR: c_long = 469;
const FCHMODAT2: c_long = 452;

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[c_long] = &[libc::SYS_iopl, libc::SYS_ioperm];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[c_long] = &[];

/// Limits and scheduling. The first argument is a process or thread, or 0 for the calling one.
const OF_A_PROCESS: &[c_long] = &[
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
];
/// From `linux/ioprio.h`.
const IOPRIO_WHO_USER: u64 = 3;

const NAMESPACES: &[i32] = &[
    libc::CLONE_NEWNS,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWCGROUP,
    CLONE_NEWTIME,
];
const CLONE_NEWTIME: i32 = 0x80;

/// Requests that type into a terminal, paste into a console, or set attributes of a file: flags (`chattr`), fs-verity,
/// attributes of FAT, encryption, and flags of btrfs subvolumes. Most need only a descriptor for reading.
const REQUESTS: &[u64] = &[
    TIOCSTI,
    TIOCLINUX,
    FS_IOC_SETFLAGS,
    FS_IOC32_SETFLAGS,
    FS_IOC_FSSETXATTR,
    FS_IOC_ENABLE_VERITY,
    FS_IOC_SET_ENCRYPTION_POLICY,
    FAT_IOCTL_SET_ATTRIBUTES,
    BTRFS_IOC_SUBVOL_SETFLAGS,
];
const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541c;
const FS_IOC_SETFLAGS: u64 = 0x4008_6602;
const FS_IOC32_SETFLAGS: u64 = 0x4004_6602;
const FS_IOC_FSSETXATTR: u64 = 0x401c_5820;
const FS_IOC_ENABLE_VERITY: u64 = 0x4080_6685;
const FS_IOC_SET_ENCRYPTION_POLICY: u64 = 0x800c_6613;
const FAT_IOCTL_SET_ATTRIBUTES: u64 = 0x4004_7211;
const BTRFS_IOC_SUBVOL_SETFLAGS: u64 = 0x4008_941a;

/// Calls that set the mode of a file, and the index of the mode argument.
const MODES: &[(c_long, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (FCHMODAT2, 2),
];

/// Calls that create a file with a mode: the index of the flags argument, if flags determine whether there is a mode,
/// and the index of the mode argument.
const CREATING: &[(c_long, Option<u8>, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, Some(1), 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, None, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, None, 1),
    (libc::SYS_openat, Some(2), 3),
    (libc::SYS_mknodat, None, 2),
];
/// Flags of an open call with a mode; the second one without the flag `O_DIRECTORY` that it includes.
const CREATE_FLAGS: &[i32] = &[libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY];

/// Calls whose arguments are in memory, which a filter cannot inspect. C libraries and programs fall back to the older
/// calls.
const IN_MEMORY: &[c_long] = &[libc::SYS_clone3, libc::SYS_openat2];

/// Calls that change owners, which Landlock does not restrict, and the index of the user argument; the group follows.
const OWNERS: &[(c_long, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chown, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_lchown, 1),
    (libc::SYS_fchown, 1),
    (libc::SYS_fchownat, 2),
];
/// Leaves a user or group unchanged.
const UNCHANGED: u32 = u32::MAX;

/// Allowed types of socket pairs. A datagram socket can later send to any path; connected pairs of these types stay
/// connected to each other.
const PAIRS: &[i32] = &[libc::SOCK_STREAM, libc::SOCK_SEQPACKET];
/// Mask of the socket type without its flags.
const KIND: u64 = 0xf;

pub fn install_filters(network: bool, local_sockets: bool) -> Result<(), String> {
    let own = [
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    ];
    for program in build_programs(network, local_sockets, own)
        .map_err(|error| format!("cannot build the system call filter: {error}"))?
    {
        apply_filter(&program)
            .map_err(|error| format!("the kernel refused the system call filter: {error}"))?;
    }
    Ok(())
}

/// Stops this process for its tracer at these calls.
pub fn stop_at(calls: impl Iterator<Item = c_long>) -> Result<(), String> {
    let build = || {
        let rules: Rules = calls.map(|number| (number, Vec::new())).collect();
        let arch = TargetArch::try_from(std::env::consts::ARCH)?;
        let stop = SeccompAction::Trace(0);
        SeccompFilter::new(rules, SeccompAction::Allow, stop, arch)?.try_into()
    };
    let program: BpfProgram = build()
        .map_err(|error: seccompiler::BackendError| format!("cannot build a filter: {error}"))?;
    apply_filter(&program)
        .map_err(|error| format!("the kernel refused the system call filter: {error}"))
}

fn build_programs(
    network: bool,
    local_sockets: bool,
    own: [u32; 2],
) -> Result<Vec<BpfProgram>, seccompiler::BackendError> {
    let not_permitted = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let no_access = SeccompAction::Errno(libc::EACCES.cast_unsigned());
    let not_there = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    let newer = IN_MEMORY.iter().map(|&number| (number, Vec::new()));
    let attributes = UNSUPPORTED.iter().map(|&number| (number, Vec::new()));
    let unsupported = SeccompAction::Errno(libc::EOPNOTSUPP.cast_unsigned());
    let mut programs = Vec::new();
    #[cfg(target_arch = "x86_64")]
    programs.push(kill_x32());
    for (rules, action) in [
        (refused_rules()?, not_permitted.clone()),
        (other_owner_rules(own)?, not_permitted),
        (own_owner_rules(own)?, SeccompAction::Errno(0)),
        (newer.collect(), not_there),
        (attributes.collect(), unsupported),
        (
            Rules::from([(libc::SYS_socketpair, socket_pair_rules()?)]),
            no_access.clone(),
        ),
        (socket_rules(network, local_sockets)?, no_access),
    ] {
        // A program for another architecture uses other numbers: the filter's first instructions kill it.
        let arch = TargetArch::try_from(std::env::consts::ARCH)?;
        programs.push(SeccompFilter::new(rules, SeccompAction::Allow, action, arch)?.try_into()?);
    }
    Ok(programs)
}

fn refused_rules() -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = REFUSED
        .iter()
        .chain(REFUSED_HERE)
        .map(|&number| (number, Vec::new()))
        .collect();
    let masked = |&flag: &i32| {
        let flag = u64::from(flag.cast_unsigned());
        argument(0, SeccompCmpOp::MaskedEq(flag), flag)
    };
    let in_namespaces = NAMESPACES
        .iter()
        .map(masked)
        .collect::<Result<Vec<_>, _>>()?;
    rules.insert(libc::SYS_unshare, in_namespaces.clone());
    // For `clone`, the lowest byte of the flags is the exit signal, which overlaps `CLONE_NEWTIME`.
    let signal = NAMESPACES.len() - 1;
    rules.insert(libc::SYS_clone, in_namespaces[..signal].to_vec());
    // Of another process: a host that cannot open files is unusable, and one that hardly runs needs a privilege to
    // change that.
    let another = argument(0, SeccompCmpOp::Ne, 0)?;
    for &number in OF_A_PROCESS {
        rules.insert(number, vec![another.clone()]);
    }
    let another = argument(1, SeccompCmpOp::Ne, 0)?;
    let of_user = |user: u64| argument(0, SeccompCmpOp::Eq, user);
    rules.insert(
        libc::SYS_setpriority,
        vec![another.clone(), of_user(u64::from(libc::PRIO_USER))?],
    );
    rules.insert(
        libc::SYS_ioprio_set,
        vec![another, of_user(IOPRIO_WHO_USER)?],
    );
    let requests = REQUESTS
        .iter()
        .map(|&number| argument(1, SeccompCmpOp::Eq, number));
    rules.insert(libc::SYS_ioctl, requests.collect::<Result<_, _>>()?);
    // Otherwise a program that root runs could make any file of the system run as root for all users.
    let set_user_id = u64::from(libc::S_ISUID);
    for &(number, index) in MODES {
        let with = argument(index, SeccompCmpOp::MaskedEq(set_user_id), set_user_id)?;
        rules.insert(number, vec![with]);
    }
    for &(number, flags, index) in CREATING {
        let with = || condition(index, SeccompCmpOp::MaskedEq(set_user_id), set_user_id);
        let creating = match flags {
            None => vec![SeccompRule::new(vec![with()?])?],
            Some(flags) => CREATE_FLAGS
                .iter()
                .map(|flag| {
                    let flag = u64::from(flag.cast_unsigned());
                    let creates = condition(flags, SeccompCmpOp::MaskedEq(flag), flag)?;
                    SeccompRule::new(vec![creates, with()?])
                })
                .collect::<Result<_, _>>()?,
        };
        rules.insert(number, creating);
    }
    Ok(rules)
}

/// Refuses calls that give a file to another user or group.
fn other_owner_rules([user, group]: [u32; 2]) -> Result<Rules, seccompiler::BackendError> {
    let differs = |index: u8, own: u32| {
        let is_not = |value: u32| condition(index, SeccompCmpOp::Ne, value.into());
        SeccompRule::new(vec![is_not(own)?, is_not(UNCHANGED)?])
    };
    let rules = OWNERS.iter().map(|&(number, index)| {
        Ok((
            number,
            vec![differs(index, user)?, differs(index + 1, group)?],
        ))
    });
    rules.collect()
}

/// Calls that give a file to the program's own user and group. They return success and do nothing: archivers and `cp
/// -a` make them for files that they have just created, which the program owns already.
fn own_owner_rules([user, group]: [u32; 2]) -> Result<Rules, seccompiler::BackendError> {
    let rules = OWNERS.iter().map(|&(number, index)| {
        let mut rules = Vec::new();
        for user in [user, UNCHANGED] {
            for group in [group, UNCHANGED] {
                rules.push(SeccompRule::new(vec![
                    condition(index, SeccompCmpOp::Eq, user.into())?,
                    condition(index + 1, SeccompCmpOp::Eq, group.into())?,
                ])?);
            }
        }
        Ok((number, rules))
    });
    rules.collect()
}

/// Refuses `socketpair` of a type that is not in the list, or of another family.
fn socket_pair_rules() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let local = libc::AF_UNIX.cast_unsigned().into();
    let mut rules = vec![argument(0, SeccompCmpOp::Ne, local)?];
    let others = (0..=KIND).filter(|kind| {
        !PAIRS
            .iter()
            .any(|&pair| u64::from(pair.cast_unsigned()) == *kind)
    });
    for kind in others {
        rules.push(argument(1, SeccompCmpOp::MaskedEq(KIND), kind)?);
    }
    Ok(rules)
}

/// Refuses `socket` for each family that is not granted.
fn socket_rules(network: bool, local_sockets: bool) -> Result<Rules, seccompiler::BackendError> {
    let mut granted = Vec::new();
    if network {
        granted.extend([libc::AF_INET, libc::AF_INET6]);
    }
    if local_sockets {
        granted.push(libc::AF_UNIX);
    }
    let other = |family: i32| {
        SeccompCondition::new(
            0,
            SeccompCmpArgLen::Dword,
            SeccompCmpOp::Ne,
            family.cast_unsigned().into(),
        )
    };
    let mut others = granted
        .into_iter()
        .map(other)
        .collect::<Result<Vec<_>, _>>()?;
    if others.is_empty() {
        return Ok(Rules::from([(libc::SYS_socket, Vec::new())]));
    }
    if !network {
        return Ok(Rules::from([(
            libc::SYS_socket,
            vec![SeccompRule::new(others)?],
        )]));
    }
    // Netlink only with protocol 0, which reports addresses and routes and is used by name resolution.
    let mut elsewhere = others.clone();
    others.push(other(libc::AF_NETLINK)?);
    elsewhere.push(SeccompCondition::new(
        2,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::Ne,
        libc::NETLINK_ROUTE.cast_unsigned().into(),
    )?);
    let rules = vec![SeccompRule::new(others)?, SeccompRule::new(elsewhere)?];
    Ok(Rules::from([(libc::SYS_socket, rules)]))
}

fn argument(
    index: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(vec![condition(index, operator, value)?])
}

fn condition(
    index: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, value)
}

/// x86-64 kernels may support a second set of numbers (x32) under the same architecture value. Each call with the x32
/// bit in its number kills the process; otherwise all other rules could be bypassed.
#[cfg(target_arch = "x86_64")]
fn kill_x32() -> BpfProgram {
    const X32_BIT: u32 = 0x4000_0000;
    let line = |code: u32, jt, k| sock_filter {
        code: u16::try_from(code).unwrap_or_default(),
        jt,
        jf: 0,
        k,
    };
    vec![
        // The number of the call is the first word of the data that the filter reads.
        line(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        line(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 1, X32_BIT),
        line(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
        line(
            libc::BPF_RET | libc::BPF_K,
            0,
            libc::SECCOMP_RET_KILL_PROCESS,
        ),
    ]
}

#[cfg(test)]
mod tests;
