//! The life of a program: exit status, timeouts, signals, and cleanup.

use std::time::Duration;

use toolhost_process::{ExitReason, Input, LeftoverProcesses, StopAction};

use crate::fixture::{Host, LONG, Marker, assert_exit, is_alive, owner, pids, text, until_gone};

/// A program with a child that left its session and one that ignores SIGTERM; prints the process IDs of all three.
const PROCESS_TREE: &str = "echo $$; setsid sh -c 'echo $$; trap \"\" TERM; echo ready >&2; sleep 1000; sleep 1000' & \
                      (trap '' TERM HUP; sh -c 'echo $PPID'; sleep 1000; sleep 1000) & wait; sleep 1000";

fn all_processes_run(text: &str) -> bool {
    text.contains("ready") && pids(text).len() == 3
}

//
#[tokio::test]
async fn exit_status_is_reported() {
    let host = Host::new();
    for (script, exit) in [
        ("true", ExitReason::Code(0)),
        ("exit 3", ExitReason::Code(3)),
        ("exit 255", ExitReason::Code(255)),
        ("kill -9 $$", ExitReason::Signal(9)),
        ("kill -TERM $$", ExitReason::Signal(15)),
        ("no-such-command-at-all", ExitReason::Code(127)),
    ] {
        let finished = host.run(host.sh(script)).await;
        assert_exit(&finished, exit);
        assert_eq!(finished.job, None);
        assert!(finished.leftover_pids.is_empty());
    }
}

#[tokio::test]
async fn input_is_closed_or_given() {
    let host = Host::new();
    let with = |input| {
        let mut command = host.sh("cat; echo end");
        command.input = input;
        host.run(command)
    };
    assert_eq!(text(&with(Input::Closed).await), "end");
    assert_eq!(
        text(&with(Input::Bytes(b"a\nb\n".to_vec())).await),
        "a\nb\nend"
    );
    let large = vec![b'x'; 1 << 20];
    let finished = with(Input::Bytes(large.clone())).await;
    assert_eq!(finished.stdout.total, large.len() as u64 + 4);
    // A program is not required to read all of its input.
    let mut command = host.sh("head -c 1");
    command.input = Input::Bytes(large);
    assert_exit(&host.run(command).await, ExitReason::Code(0));
}

// C-32, EXE-10
#[tokio::test]
async fn a_timeout_ends_all_processes_and_keeps_output() {
    let host = Host::with(|settings| settings.kill_grace = Duration::from_millis(300));
    let mut command = host.sh(PROCESS_TREE);
    command.timeout = Some(Duration::from_millis(2500));
    let finished = host.run(command).await;
    assert_exit(&finished, ExitReason::TimedOut);
    let pids = pids(&text(&finished));
    assert_eq!(pids.len(), 3, "{}", text(&finished));
    assert_eq!(pids[0], finished.pid);
    for pid in pids {
        assert!(!is_alive(pid));
    }
}

#[tokio::test]
async fn inactivity_ends_a_program() {
    let host = Host::new();
    let mut silent = host.sh("echo start; sleep 1000");
    silent.inactivity = Some(Duration::from_millis(1500));
    let finished = host.run(silent).await;
    assert_exit(&finished, ExitReason::Inactive);
    assert_eq!(text(&finished), "start");

    let mut busy = host.sh("for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.5; done");
    busy.inactivity = Some(Duration::from_secs(3));
    assert_exit(&host.run(busy).await, ExitReason::Code(0));
}

// C-32, EXE-10
#[tokio::test]
async fn a_stop_ends_all_processes() {
    let host = Host::with(|settings| settings.kill_grace = Duration::from_millis(300));
    let (mut marker, marked) = Marker::new(all_processes_run);
    let stop = async {
        marked.await.unwrap();
        StopAction::End
    };
    let finished = host
        .processes
        .run(
            host.sh(PROCESS_TREE),
            &mut |stream, bytes| marker.push(stream, bytes),
            stop,
        )
        .await
        .unwrap();
    assert_exit(&finished, ExitReason::Cancelled);
    until_gone(&[finished.pid]).await;
}

#[tokio::test]
async fn sigterm_comes_before_sigkill() {
    let host = Host::with(|settings| settings.kill_grace = Duration::from_secs(60));
    let (mut marker, marked) = Marker::new(|text| text.contains("ready"));
    let stop = async {
        marked.await.unwrap();
        StopAction::End
    };
    let command =
        host.sh("trap 'echo tidied; exit 7' TERM; echo ready; while :; do sleep 0.05; done");
    let finished = host
        .processes
        .run(
            command,
            &mut |stream, bytes| marker.push(stream, bytes),
            stop,
        )
        .await
        .unwrap();
    assert_exit(&finished, ExitReason::Cancelled);
    // The shell may print that its child was terminated.
    let text = text(&finished);
    assert!(
        text.starts_with("ready\n") && text.contains("tidied"),
        "{text}"
    );
}

#[tokio::test]
async fn a_dropped_run_leaves_no_process() {
    let host = Host::new();
    let (mut marker, marked) = Marker::new(all_processes_run);
    let mut on_output = |stream, bytes: &[u8]| marker.push(stream, bytes);
    let pids = tokio::select! {
        _ = host.processes.run(host.sh(PROCESS_TREE), &mut on_output, std::future::pending()) => panic!("it does not end"),
        output = marked => pids(&output.unwrap()),
    };
    until_gone(&pids).await;
}

// EXE-10
#[tokio::test]
async fn leftover_processes_are_ended() {
    let host = Host::with(|settings| settings.linger = Duration::from_millis(100));
    for script in [
        "sleep 1000 & echo $!",
        "setsid sleep 1000 > /dev/null 2>&1 & echo $!",
    ] {
        let finished = host.run(host.sh(script)).await;
        assert_exit(&finished, ExitReason::Code(0));
        assert_eq!(finished.leftover_pids.len(), 1, "{script}");
        for pid in pids(&text(&finished)) {
            assert!(!is_alive(pid), "{script}");
        }
        assert!(!is_alive(finished.leftover_pids[0]), "{script}");
    }
    // Processes that end by themselves in that time are waited for, with their output.
    let host = Host::with(|settings| settings.linger = Duration::from_secs(60));
    let finished = host
        .run(host.sh("(sleep 0.2; echo late) & echo early"))
        .await;
    assert_eq!(text(&finished), "early\nlate");
}

#[tokio::test]
async fn leftover_processes_can_continue_as_a_job() {
    let host = Host::with(|settings| settings.linger = Duration::from_millis(50));
    let mut command = host.sh("sleep 1000 & echo $!; (read line; echo got) & exit 4");
    command.leftovers = LeftoverProcesses::Keep;
    let finished = host.run(command).await;
    assert_eq!(finished.exit, ExitReason::Code(4));
    let id = finished.job.unwrap();
    let jobs = host.processes.jobs(&owner("session"));
    assert_eq!(jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [id]);
    let left = pids(&text(&finished));
    assert!(is_alive(left[0]) && finished.leftover_pids.contains(&left[0]));
    host.processes
        .kill(&owner("session"), id, toolhost_process::Signal::Term)
        .await
        .unwrap();
    assert!(!is_alive(left[0]));
}

#[tokio::test]
async fn a_running_program_can_be_sent_to_the_background() {
    let host = Host::new();
    let (mut marker, marked) = Marker::new(|text| text.contains("ready"));
    let stop = async {
        marked.await.unwrap();
        StopAction::Background
    };
    let command = host.sh("echo ready; until [ -e go ]; do sleep 0.02; done; echo done; exit 3");
    let mut on_output = |stream, bytes: &[u8]| marker.push(stream, bytes);
    let finished = host
        .processes
        .run(command, &mut on_output, stop)
        .await
        .unwrap();
    assert_eq!(finished.exit, ExitReason::Backgrounded);
    assert_eq!(text(&finished), "ready");
    let id = finished.job.unwrap();
    assert_eq!(host.processes.jobs(&owner("session"))[0].id, id);
    std::fs::write(host.ws().join("go"), "").unwrap();
    let job = host
        .processes
        .wait(&owner("session"), id, LONG)
        .await
        .unwrap();
    assert_eq!(job.state.exit(), Some(ExitReason::Code(3)));
    let chunk = host
        .processes
        .read(&owner("session"), id, None, 100, LONG)
        .await
        .unwrap();
    assert_eq!(chunk.bytes, b"done\n");
}

#[tokio::test]
async fn too_many_processes_end_a_program() {
    let host = Host::with(|settings| settings.limits.processes = 30);
    let script = "i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i+1)); done; wait";
    let finished = host.run(host.sh(script)).await;
    assert_exit(&finished, ExitReason::TooManyProcesses);
    assert_exit(
        &host.run(host.sh("sleep 1 & sleep 1 & wait")).await,
        ExitReason::Code(0),
    );
}

#[tokio::test]
async fn a_fork_bomb_ends_at_its_timeout() {
    let host = Host::with(|settings| settings.kill_grace = Duration::from_millis(50));
    // It doubles up to about a hundred processes, each of which ignores SIGTERM.
    let bomb = "trap '' TERM; b() { [ $1 -gt 0 ] && { b $(($1-1)) & b $(($1-1)) & }; sleep 1000; sleep 1000; }; b 6";
    let mut command = host.sh(bomb);
    command.timeout = Some(Duration::from_secs(1));
    assert_exit(&host.run(command).await, ExitReason::TimedOut);
}
