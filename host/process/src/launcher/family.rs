//! Everything that descends from this process: found in `/proc`, signalled by descriptor.

use std::collections::{HashMap, HashSet};
use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// One living process; its start time tells it from a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Member {
    pub pid: i32,
    started: u64,
}

/// All living descendants of this process, near ones first. Orphans count: this process adopts them.
pub fn members() -> Vec<Member> {
    let mut children: HashMap<i32, Vec<(Member, bool)>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        if let Some(stat) = stat(pid) {
            let member = Member {
                pid,
                started: stat.started,
            };
            children
                .entry(stat.parent)
                .or_default()
                .push((member, stat.living));
        }
    }
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let mut members = Vec::new();
    let mut parents = vec![own];
    // Each process is taken out of the map with its parent, so that a number used twice during the scan ends the
    // walk instead of turning it in a circle.
    while let Some(parent) = parents.pop() {
        for (member, living) in children.remove(&parent).unwrap_or_default() {
            parents.push(member.pid);
            if living {
                members.push(member);
            }
        }
    }
    members
}

/// How many processes and threads there are on this machine.
pub fn tasks() -> usize {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let counts = load
        .split_ascii_whitespace()
        .nth(3)
        .and_then(|counts| counts.split_once('/'));
    counts
        .and_then(|(_, all)| all.parse().ok())
        .unwrap_or_default()
}

/// One signal to each descendant there is now.
pub fn signal(signal: Signal) {
    for member in members() {
        send(member, signal);
    }
}

/// Stops all descendants before it kills them: a fork bomb that is killed one by one grows faster than it dies.
pub fn kill() {
    const ROUNDS: usize = 50;
    let mut stopped = HashSet::new();
    for _ in 0..ROUNDS {
        let new: Vec<Member> = members()
            .into_iter()
            .filter(|one| stopped.insert(*one))
            .collect();
        if new.is_empty() {
            break;
        }
        for member in new {
            send(member, Signal::STOP);
        }
    }
    signal(Signal::KILL);
}

fn send(member: Member, signal: Signal) {
    // Between the scan and here the process may have ended and its number been given away; a descriptor stays with
    // the process it was opened for, so look again once it is held. Errors mean that it is gone.
    let Some(pid) = Pid::from_raw(member.pid) else {
        return;
    };
    let Ok(held) = pidfd_open(pid, PidfdFlags::empty()) else {
        return;
    };
    if stat(member.pid).is_some_and(|now| now.started == member.started) {
        let _ = pidfd_send_signal(&held, signal);
    }
}

struct Stat {
    parent: i32,
    started: u64,
    living: bool,
}

fn stat(pid: i32) -> Option<Stat> {
    parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The name of the program comes in brackets and may itself hold brackets, spaces and line ends.
fn parse(line: &[u8]) -> Option<Stat> {
    let end = line.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(&line[end + 1..]).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some(Stat {
        living: !matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_proc_is_read_past_any_name() {
        let tail = "4 5 5 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 777 0 0";
        for (name, state, living) in [
            ("sh", "S", true),
            (") Z 1 (", "R", true),
            ("a b\n)", "Z", false),
        ] {
            let line = format!("12 ({name}) {state} {tail}");
            let stat = parse(line.as_bytes()).unwrap();
            assert_eq!(
                (stat.parent, stat.started, stat.living),
                (4, 777, living),
                "{name:?}"
            );
        }
        for line in ["", "12 (sh", "12 (sh)", "12 (sh) S", "12 (sh) S x 1"] {
            assert!(parse(line.as_bytes()).is_none(), "{line:?}");
        }
    }

    #[test]
    fn the_tasks_of_the_machine_are_counted() {
        assert!(tasks() > 2);
    }

    #[test]
    fn a_child_is_a_member_until_it_ends() {
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let is_member = |pid: u32| {
            members()
                .iter()
                .any(|one| i64::from(one.pid) == i64::from(pid))
        };
        assert!(is_member(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_member(child.id()));
    }
}
