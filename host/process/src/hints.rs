//! Hints about what the sandbox has probably blocked. A program does not know of the sandbox, so its own error messages
//! mislead.

use crate::wire::SandboxRules;
use crate::{CapturedOutput, ExitReason, OpenPath, SandboxPermissions};

const FILE_ERRORS: &[&str] = &[
    "permission denied",
    "eacces",
    "read-only file system",
    "cannot create temp",
];
const NETWORK_ERRORS: &[&str] = &[
    "could not resolve",
    "name resolution",
    "network is unreachable",
    "name or service not known",
    "getaddrinfo",
    "failed to lookup address",
    "socket: permission denied",
    "socket: operation not permitted",
    "no address associated",
];
/// Output of `ps` and `top` when `/proc` has no process directories.
const PROCESS_ERRORS: &[&str] = &["mount -t proc"];
const SYSTEM_CALL_ERRORS: &[&str] = &[
    "operation not permitted",
    "ptrace",
    "unshare",
    "function not implemented",
];

pub fn hints(
    sandbox_rules: Option<&SandboxRules>,
    permissions: &SandboxPermissions,
    exit: ExitReason,
    text: &CapturedOutput,
) -> Vec<String> {
    let Some(sandbox_rules) = sandbox_rules.filter(|_| exit != ExitReason::Code(0)) else {
        return Vec::new();
    };
    let text = text.lossy().to_ascii_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    let mut hints = Vec::new();
    if says(NETWORK_ERRORS) && !sandbox_rules.network {
        hints.push("the sandbox gives this command no network".to_owned());
    } else if says(FILE_ERRORS) {
        hints.push(format!(
            "the sandbox allows this command to write only below {} and $TMPDIR, and to read only below these paths, \
             {} and the system directories",
            format_paths(&permissions.write),
            format_paths(&permissions.read)
        ));
    }
    if says(PROCESS_ERRORS) {
        hints.push(
            "the sandbox hides the processes in /proc from this command on this machine".to_owned(),
        );
    }
    if says(SYSTEM_CALL_ERRORS) {
        hints.push(
            "the sandbox blocks some system calls: access to other processes' memory, mounts, namespaces, kernel \
             settings, System V IPC, chown, set-user-ID"
                .to_owned(),
        );
    }
    if exit == ExitReason::Signal(libc::SIGSYS) {
        hints.push(
            "the sandbox killed the command because it used a system call of another architecture"
                .to_owned(),
        );
    }
    hints
}

fn format_paths(paths: &[OpenPath]) -> String {
    const MOST: usize = 5;
    if paths.is_empty() {
        return "no granted path".to_owned();
    }
    let names: Vec<_> = paths
        .iter()
        .take(MOST)
        .map(|open| open.path().display().to_string())
        .collect();
    let more = paths.len().saturating_sub(MOST);
    match more {
        0 => names.join(", "),
        more => format!("{}, {more} more", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(exit: ExitReason, network: bool, text: &str, expected: &[&str]) {
        let sandbox_rules = SandboxRules {
            rules: Vec::new(),
            network,
            local_sockets: false,
        };
        let captured = CapturedOutput {
            head: text.as_bytes().to_vec(),
            tail: Vec::new(),
            total: text.len() as u64,
        };
        let root = OpenPath::open("/".as_ref()).unwrap();
        let permissions = SandboxPermissions {
            write: vec![OpenPath::new("/ws".into(), root.descriptor())],
            ..SandboxPermissions::default()
        };
        let hints = hints(Some(&sandbox_rules), &permissions, exit, &captured);
        assert_eq!(hints.len(), expected.len(), "{hints:?}");
        for (hint, part) in hints.iter().zip(expected) {
            assert!(hint.contains(part), "{hint}");
        }
    }

    #[test]
    fn failures_have_hints_and_success_has_none() {
        let denied = "sh: 1: cannot create /x: Permission denied";
        check(
            ExitReason::Code(2),
            false,
            denied,
            &["to write only below /ws and $TMPDIR"],
        );
        check(ExitReason::Code(0), false, denied, &[]);
        check(
            ExitReason::Code(6),
            false,
            "curl: (6) Could not resolve host",
            &["no network"],
        );
        check(
            ExitReason::Code(6),
            true,
            "curl: (6) Could not resolve host",
            &[],
        );
        check(
            ExitReason::Code(1),
            false,
            "unshare failed: Operation not permitted",
            &["system calls"],
        );
        check(
            ExitReason::Code(1),
            false,
            "Error, do this: mount -t proc proc /proc",
            &["hides the processes in /proc"],
        );
        check(
            ExitReason::Signal(libc::SIGSYS),
            false,
            "",
            &["architecture"],
        );
        check(ExitReason::Code(1), false, "test failed", &[]);
    }
}
