//! Tests of the filters with a BPF interpreter, because safe code cannot make all of the calls.

use libc::c_long;
use seccompiler::BpfProgram;

use super::*;

const TCGETS: u64 = 0x5401;
/// The user and group of the program.
const OWN: [u32; 2] = [1000, 100];
const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;

fn errno(number: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | number.cast_unsigned()
}

/// The `AUDIT_ARCH_…` of this machine.
const ARCH: u32 = if cfg!(target_arch = "x86_64") {
    0xc000_003e
} else {
    0xc000_00b7
};

/// Interprets a filter program: loads, compares, masks, jumps and returns.
fn run(program: &BpfProgram, arch: u32, number: u32, arguments: [u64; 6]) -> u32 {
    let word = |offset: u32| match offset {
        0 => number,
        4 => arch,
        16.. => {
            let argument = arguments[((offset - 16) / 8) as usize];
            let half = if offset.is_multiple_of(8) {
                argument
            } else {
                argument >> 32
            };
            u32::try_from(half & 0xffff_ffff).unwrap()
        }
        other => panic!("a load from {other}"),
    };
    let (mut at, mut value) = (0, 0);
    loop {
        let line = &program[at];
        at += 1;
        let jump = |holds: bool| usize::from(if holds { line.jt } else { line.jf });
        match line.code {
            0x20 => value = word(line.k),
            0x54 => value &= line.k,
            0x05 => at += line.k as usize,
            0x15 => at += jump(value == line.k),
            0x25 => at += jump(value > line.k),
            0x35 => at += jump(value >= line.k),
            0x06 => return line.k,
            other => panic!("no such instruction here: {other:#x}"),
        }
    }
}

/// The result of all filters together: the kernel takes the strictest.
fn verdict(network: bool, local: bool, arch: u32, number: u32, arguments: &[u64]) -> u32 {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    let verdicts = build_programs(network, local, OWN).unwrap();
    let verdicts = verdicts
        .iter()
        .map(|program| run(program, arch, number, all));
    verdicts
        .min_by_key(|verdict| (verdict & 0xffff_0000).cast_signed())
        .unwrap()
}

fn check(number: c_long, arguments: &[u64], expected: u32) {
    let number = u32::try_from(number).unwrap();
    let found = verdict(false, false, ARCH, number, arguments);
    assert_eq!(found, expected, "call {number} {arguments:?}: {found:#x}");
}

#[test]
fn common_calls_are_allowed() {
    for number in [
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_openat,
        libc::SYS_execve,
        libc::SYS_mmap,
        libc::SYS_wait4,
        libc::SYS_kill,
        libc::SYS_seccomp,
        libc::SYS_getrandom,
        libc::SYS_statx,
        libc::SYS_setsid,
    ] {
        check(number, &[0; 6], ALLOW);
    }
    check(libc::SYS_ioctl, &[0, TCGETS], ALLOW);
    check(libc::SYS_fchmod, &[3, 0o2755], ALLOW);
    check(libc::SYS_fchmodat, &[3, 0, 0o755], ALLOW);
    check(libc::SYS_prlimit64, &[0, 7], ALLOW);
    check(libc::SYS_sched_setaffinity, &[0, 8], ALLOW);
    check(libc::SYS_setpriority, &[0, 0, 5], ALLOW);
    check(libc::SYS_ioprio_set, &[1, 0], ALLOW);
    // A fork, and a thread as C libraries create it.
    check(
        libc::SYS_clone,
        &[u64::from(libc::SIGCHLD.cast_unsigned())],
        ALLOW,
    );
    check(libc::SYS_clone, &[0x003d_0f00], ALLOW);
    check(
        libc::SYS_unshare,
        &[u64::from(
            (libc::CLONE_FILES | libc::CLONE_FS).cast_unsigned(),
        )],
        ALLOW,
    );
}

#[test]
fn calls_that_escape_the_sandbox_are_refused() {
    for &number in REFUSED.iter().chain(REFUSED_HERE) {
        check(number, &[0; 6], errno(libc::EPERM));
        check(number, &[u64::MAX; 6], errno(libc::EPERM));
    }
    for &number in IN_MEMORY {
        check(number, &[0, 88], errno(libc::ENOSYS));
    }
    for &flag in NAMESPACES {
        let flag = u64::from(flag.cast_unsigned());
        check(libc::SYS_unshare, &[flag], errno(libc::EPERM));
        check(libc::SYS_unshare, &[flag | 0x200], errno(libc::EPERM));
        if flag > 0xff {
            check(libc::SYS_clone, &[flag | 0x11], errno(libc::EPERM));
        }
    }
    for &number in OF_A_PROCESS {
        check(number, &[4711, 7], errno(libc::EPERM));
    }
    for (number, user) in [(libc::SYS_setpriority, 2), (libc::SYS_ioprio_set, 3)] {
        check(number, &[0, 4711], errno(libc::EPERM));
        check(number, &[user, 0], errno(libc::EPERM));
    }
    // The kernel uses only the lower half of a request, so the filter must do the same.
    for request in REQUESTS.iter().copied().chain([TIOCSTI | 1 << 32]) {
        check(libc::SYS_ioctl, &[0, request], errno(libc::EPERM));
    }
}

#[test]
fn a_08_only_connected_socket_pairs_are_allowed() {
    let local = u64::from(libc::AF_UNIX.cast_unsigned());
    let flags = u64::from((libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK).cast_unsigned());
    for kind in 0..16_u64 {
        let pair = PAIRS
            .iter()
            .any(|&pair| u64::from(pair.cast_unsigned()) == kind);
        let expected = if pair { ALLOW } else { errno(libc::EACCES) };
        for high in [0, 1 << 32, 0xffff << 32] {
            check(libc::SYS_socketpair, &[local, kind | high, 0], expected);
            check(
                libc::SYS_socketpair,
                &[local, kind | flags | high, 0],
                expected,
            );
        }
        for family in (0..64).filter(|family| *family != local) {
            let refused = errno(libc::EACCES);
            check(libc::SYS_socketpair, &[family, kind, 0], refused);
        }
    }
}

#[test]
fn a_09_owners_attributes_and_set_user_id_are_refused() {
    for &number in UNSUPPORTED {
        check(number, &[0; 6], errno(libc::EOPNOTSUPP));
        check(number, &[u64::MAX; 6], errno(libc::EOPNOTSUPP));
    }
    for &(number, index) in MODES {
        let mut arguments = [0; 6];
        for mode in [0o4755, 0o6755, 0o4000, 0o4755 | 1 << 32] {
            arguments[usize::from(index)] = mode;
            check(number, &arguments, errno(libc::EPERM));
        }
    }
    for &(number, flags, index) in CREATING {
        for (flag, mode, expected) in [
            (libc::O_CREAT | libc::O_WRONLY, 0o4755, errno(libc::EPERM)),
            (libc::O_TMPFILE | libc::O_RDWR, 0o6755, errno(libc::EPERM)),
            (libc::O_CREAT, 0o2755, ALLOW),
            // Without such a flag there is no mode, whatever the register contains.
            (
                libc::O_DIRECTORY,
                0o4755,
                flags.map_or(errno(libc::EPERM), |_| ALLOW),
            ),
        ] {
            let mut arguments = [0; 6];
            if let Some(flags) = flags {
                arguments[usize::from(flags)] = u64::from(flag.cast_unsigned());
            }
            arguments[usize::from(index)] = mode;
            check(number, &arguments, expected);
        }
    }
    for number in [libc::SYS_shmget, libc::SYS_mq_open] {
        check(number, &[0; 6], errno(libc::EPERM));
    }
}

#[test]
fn a_09_no_file_is_given_to_another_user_or_group() {
    const NONE: u64 = 0xffff_ffff;
    for &(number, index) in OWNERS {
        for (user, group, expected) in [
            (1000, 100, 0),
            (NONE, 100, 0),
            (1000, NONE, 0),
            (NONE, NONE, 0),
            (u64::MAX, 100, 0),
            (1000, 0, libc::EPERM),
            (NONE, 101, libc::EPERM),
            (0, 100, libc::EPERM),
            (0, 0, libc::EPERM),
            (1001, NONE, libc::EPERM),
            (100, 1000, libc::EPERM),
        ] {
            let mut arguments = [0; 6];
            arguments[usize::from(index)] = user;
            arguments[usize::from(index) + 1] = group;
            // Neither takes effect: one is refused, the other returns success and does nothing.
            check(number, &arguments, errno(expected));
        }
    }
}

#[test]
fn sockets_follow_the_grant() {
    const NONE: &[i32] = &[];
    let socket = u32::try_from(libc::SYS_socket).unwrap();
    for (network, local, granted) in [
        (false, false, NONE),
        (
            true,
            false,
            &[libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK],
        ),
        (false, true, &[libc::AF_UNIX]),
        (
            true,
            true,
            &[
                libc::AF_INET,
                libc::AF_INET6,
                libc::AF_NETLINK,
                libc::AF_UNIX,
            ],
        ),
    ] {
        for family in 0..64_i32 {
            let arguments = [u64::from(family.cast_unsigned()), 1, 0];
            let expected = if granted.contains(&family) {
                ALLOW
            } else {
                errno(libc::EACCES)
            };
            let found = verdict(network, local, ARCH, socket, &arguments);
            assert_eq!(
                found, expected,
                "family {family}, network {network}, local {local}"
            );
        }
        // Of the netlink protocols, only the one for routes.
        for protocol in 1..32 {
            let found = verdict(network, local, ARCH, socket, &[16, 3, protocol]);
            assert_eq!(found, errno(libc::EACCES), "netlink {protocol}");
        }
        // An upper half that the kernel ignores changes nothing.
        let high = verdict(network, local, ARCH, socket, &[(1 << 32) | 0x11, 3, 0]);
        assert_eq!(high, errno(libc::EACCES));
    }
}

#[test]
fn another_architecture_is_killed() {
    const I386: u32 = 0x4000_0003;
    for arch in [I386, 0, 0x4000_0028] {
        assert_eq!(verdict(true, true, arch, 0, &[]), KILL, "{arch:#x}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn x32_calls_are_killed() {
    for number in [0, libc::SYS_socket, libc::SYS_ptrace, 521, 0x3fff_ffff] {
        let number = u32::try_from(number).unwrap() | 0x4000_0000;
        assert_eq!(verdict(true, true, ARCH, number, &[]), KILL, "{number:#x}");
    }
    assert_eq!(verdict(true, true, ARCH, 0xffff_ffff, &[]), KILL);
}
