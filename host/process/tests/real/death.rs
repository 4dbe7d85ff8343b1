//! After SIGKILL of the host or of the warden, no process is left.

use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use toolhost_process::Processes;

use crate::fixture::{Host, is_alive, owner, pids, settings, sh, until, until_gone};

const VARIABLE: &str = "TOOLHOST_TEST_STAND_IN";
/// The program itself, a child that left its session, and one that ignores all signals it can.
const PROCESS_TREE: &str = "trap '' TERM HUP INT; setsid sleep 1000 & echo $! > a; (sleep 1000; sleep 1000) & echo $! > b; \
                      echo $$ > c; wait; sleep 1000";

/// This test binary again, as a host that starts a program and waits to be killed.
#[test]
fn stand_in() {
    let Some(dir) = std::env::var_os(VARIABLE) else {
        return;
    };
    let dir = Path::new(&dir);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let processes = Processes::new(settings(&dir.join("outputs"))).unwrap();
        processes
            .start(sh(&dir.join("ws"), PROCESS_TREE))
            .await
            .unwrap();
        std::future::pending::<()>().await;
    });
}

#[tokio::test]
async fn a_killed_host_leaves_no_process() {
    let dir = tempfile::tempdir().unwrap();
    let ws = dir.path().join("ws");
    std::fs::create_dir(&ws).unwrap();
    let mut host = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "death::stand_in", "--nocapture"])
        .env(VARIABLE, dir.path())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let family = read_pids(&ws).await;
    assert!(family.iter().all(|&pid| is_alive(pid)));
    // SIGKILL.
    host.kill().await.unwrap();
    until_gone(&family).await;

    // The next host removes the files that the killed one left.
    let outputs = dir.path().join("outputs");
    assert_eq!(std::fs::read_dir(&outputs).unwrap().count(), 1);
    let next = Processes::new(settings(&outputs)).unwrap();
    assert_eq!(std::fs::read_dir(&outputs).unwrap().count(), 1);
    drop(next);
    assert_eq!(std::fs::read_dir(&outputs).unwrap().count(), 0);
}

/// The process IDs that the programs wrote.
async fn read_pids(ws: &Path) -> Vec<i32> {
    let read = |name: &str| std::fs::read_to_string(ws.join(name)).unwrap_or_default();
    until("the programs have written their process IDs", || {
        ["a", "b", "c"]
            .iter()
            .all(|name| read(name).ends_with('\n'))
    })
    .await;
    ["a", "b", "c"]
        .iter()
        .flat_map(|name| pids(&read(name)))
        .collect()
}

/// The parent of a program's first process is its warden.
fn kill_warden(pid: i32) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let parent = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    kill_process(Pid::from_raw(parent).unwrap(), Signal::KILL).unwrap();
}

#[tokio::test]
async fn a_killed_warden_ends_the_children_of_the_program() {
    let host = Host::new();
    // Like `FAMILY`, but without the process that leaves the group.
    let family = PROCESS_TREE.replace("setsid ", "");
    let job = host.processes.start(host.sh(&family)).await.unwrap();
    let family = read_pids(&host.ws()).await;
    assert!(family.iter().all(|&pid| is_alive(pid)));
    kill_warden(job.pid);
    until_gone(&family).await;
}

#[tokio::test]
async fn a_killed_warden_ends_the_program() {
    let host = Host::new();
    let job = host.processes.start(host.sh("sleep 1000")).await.unwrap();
    kill_warden(job.pid);
    let job = host
        .processes
        .wait(&owner("session"), job.id, crate::fixture::LONG)
        .await
        .unwrap();
    assert_eq!(job.state.exit(), Some(toolhost_process::ExitReason::Lost));
    until_gone(&[job.pid]).await;
}
