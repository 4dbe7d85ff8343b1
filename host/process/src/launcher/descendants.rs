//! All descendants of this process: found in `/proc`, signalled through process descriptors.

use std::collections::{HashMap, HashSet};
use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A running process. Its start time distinguishes it from a later process with the same ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Descendant {
    pub pid: i32,
    started: u64,
}

/// All running descendants of this process, nearest first. Orphans are included, because this process adopts them.
pub fn find_descendants() -> Vec<Descendant> {
    let all = walk().into_iter();
    all.filter_map(|(member, stat)| stat.is_running.then_some(member))
        .collect()
}

/// The numbers of processes and of tasks (processes and their threads) below this process. Processes that have ended
/// and were not reaped count, because they use an ID.
pub fn count_descendants() -> (usize, usize) {
    let all = walk();
    let tasks = all.iter().map(|(_, stat)| stat.threads.max(1)).sum();
    (all.len(), tasks)
}

fn walk() -> Vec<(Descendant, ProcStat)> {
    let mut children: HashMap<i32, Vec<(Descendant, ProcStat)>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        if let Some(stat) = stat(pid) {
            let member = Descendant {
                pid,
                started: stat.started,
            };
            let siblings = children.entry(stat.parent).or_default();
            siblings.push((member, stat));
        }
    }
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let mut members = Vec::new();
    let mut parents = vec![own];
    // Each process is removed from the map together with its parent, so that an ID that is reused during the scan ends
    // the walk instead of causing a loop.
    while let Some(parent) = parents.pop() {
        for (member, stat) in children.remove(&parent).unwrap_or_default() {
            parents.push(member.pid);
            members.push((member, stat));
        }
    }
    members
}

/// The number of processes and threads on this machine.
pub fn count_tasks() -> usize {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let counts = load
        .split_ascii_whitespace()
        .nth(3)
        .and_then(|counts| counts.split_once('/'));
    counts
        .and_then(|(_, all)| all.parse().ok())
        .unwrap_or_default()
}

/// Sends one signal to each current descendant.
pub fn signal_all(signal: Signal) {
    for member in find_descendants() {
        send(member, signal);
    }
}

/// Stops all descendants before killing them, because a fork bomb that is killed one process at a time grows faster
/// than it dies.
pub fn kill_all() {
    const ROUNDS: usize = 50;
    let mut stopped = HashSet::new();
    for _ in 0..ROUNDS {
        let new: Vec<Descendant> = find_descendants()
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
    signal_all(Signal::KILL);
}

fn send(member: Descendant, signal: Signal) {
    // Since the scan, the process may have ended and its ID been reused. A descriptor refers to one process, so check
    // again once it is open. Errors mean that the process is gone.
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

struct ProcStat {
    parent: i32,
    started: u64,
    is_running: bool,
    /// Including the main one; 0 after the end.
    threads: usize,
}

fn stat(pid: i32) -> Option<ProcStat> {
    parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The program's name is in parentheses and can itself contain parentheses, spaces and line breaks.
fn parse(line: &[u8]) -> Option<ProcStat> {
    let end = line.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(&line[end + 1..]).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let threads = fields.get(17)?.parse().ok()?;
    Some(ProcStat {
        is_running: match *fields.first()? {
            "X" => false,
            // The main thread ended, and others may still run.
            "Z" => threads > 1,
            _ => true,
        },
        parent: fields.get(1)?.parse().ok()?,
        threads,
        started: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_stat_is_parsed_with_any_program_name() {
        for (name, state, threads, living) in [
            ("sh", "S", 3, true),
            (") Z 1 (", "R", 1, true),
            ("a b\n)", "Z", 1, false),
            ("a main thread that ended", "Z", 3, true),
            ("x", "X", 0, false),
        ] {
            let tail = format!("4 5 5 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 {threads} 0 777 0 0");
            let line = format!("12 ({name}) {state} {tail}");
            let stat = parse(line.as_bytes()).unwrap();
            assert_eq!(
                (stat.parent, stat.started, stat.is_running, stat.threads),
                (4, 777, living, threads),
                "{name:?}"
            );
        }
        for line in ["", "12 (sh", "12 (sh)", "12 (sh) S", "12 (sh) S x 1"] {
            assert!(parse(line.as_bytes()).is_none(), "{line:?}");
        }
    }

    #[test]
    fn tasks_of_the_machine_are_counted() {
        assert!(count_tasks() > 2);
    }

    #[test]
    fn a_child_is_a_descendant_until_it_ends() {
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let is_member = |pid: u32| {
            find_descendants()
                .iter()
                .any(|one| i64::from(one.pid) == i64::from(pid))
        };
        assert!(is_member(child.id()));
        let (processes, tasks) = count_descendants();
        assert!(processes >= 1 && tasks >= processes);
        child.kill().unwrap();
        // It uses an ID until it is reaped.
        while is_member(child.id()) {}
        assert!(
            walk()
                .iter()
                .any(|(one, _)| i64::from(one.pid) == i64::from(child.id()))
        );
        child.wait().unwrap();
        assert!(!is_member(child.id()));
    }
}
