//! Background jobs: started, listed, read, written to, killed, and ended with their session.

use std::time::Duration;

use toolhost_process::{Exit, Input, ProcessError, Signal, State};

use crate::fixture::{Host, LONG, is_alive, pids, settings, sh, until_gone};

const MOST: usize = 1 << 16;

async fn read(host: &Host, id: u64) -> String {
    let chunk = host
        .processes
        .read("session", id, None, MOST, LONG)
        .await
        .unwrap();
    String::from_utf8(chunk.bytes).unwrap()
}

/// Reads on until the text holds `wanted`.
async fn read_until(host: &Host, id: u64, wanted: &str) -> String {
    let mut text = String::new();
    while !text.contains(wanted) {
        let more = read(host, id).await;
        assert!(!more.is_empty(), "no {wanted:?} in {text:?}");
        text += &more;
    }
    text
}

// C-09
#[tokio::test]
async fn a_job_is_read_while_it_runs_and_after() {
    let host = Host::new();
    let mut command =
        host.sh("echo ready; while read line; do echo \"<$line>\"; done; echo bye; exit 5");
    command.input = Input::Open;
    "an echo".clone_into(&mut command.label);
    let job = host.processes.start(command).await.unwrap();
    assert_eq!((job.state, job.label.as_str()), (State::Running, "an echo"));
    let id = job.id;
    assert_eq!(read_until(&host, id, "ready\n").await, "ready\n");
    host.processes.write("session", id, b"one\n").await.unwrap();
    assert_eq!(read_until(&host, id, "one").await, "<one>\n");
    host.processes.close_input("session", id).await.unwrap();
    assert_eq!(read_until(&host, id, "bye").await, "bye\n");
    let job = host.processes.wait("session", id, LONG).await.unwrap();
    let ended = State::Ended {
        exit: Exit::Code(5),
        confirmed: true,
    };
    assert_eq!((job.state, job.bytes), (ended, 16));

    // From the beginning, in parts, and past the end.
    let from = |after, max| host.processes.read("session", id, Some(after), max, LONG);
    let chunk = from(0, 7).await.unwrap();
    assert_eq!(
        (chunk.bytes.as_slice(), chunk.next, chunk.state),
        (&b"ready\n<"[..], 7, ended)
    );
    assert_eq!(from(12, MOST).await.unwrap().bytes, b"bye\n");
    assert_eq!(from(16, MOST).await.unwrap().bytes, b"");
    let error = host.processes.write("session", id, b"x").await.unwrap_err();
    assert!(matches!(error, ProcessError::NoInput { .. }), "{error}");
}

#[tokio::test]
async fn a_closed_input_takes_nothing_and_a_full_one_says_so() {
    let host = Host::new();
    let job = host.processes.start(host.sh("sleep 1000")).await.unwrap();
    let error = host
        .processes
        .write("session", job.id, b"x")
        .await
        .unwrap_err();
    assert!(error.to_string().contains("input closed"), "{error}");
    let mut deaf = host.sh("sleep 1000");
    deaf.input = Input::Open;
    let job = host.processes.start(deaf).await.unwrap();
    let error = host
        .processes
        .write("session", job.id, &vec![0; 1 << 20])
        .await
        .unwrap_err();
    assert!(
        matches!(error, ProcessError::InputFull { written: 1.., .. }),
        "{error}"
    );
}

// C-09
#[tokio::test]
async fn a_kill_ends_all_of_a_job() {
    let host = Host::with(|settings| settings.kill_grace = Duration::from_millis(200));
    for (trap, signal, number) in [
        ("-", Signal::Term, 15),
        ("''", Signal::Term, 9),
        ("-", Signal::Kill, 9),
    ] {
        let script = format!(
            "trap {trap} TERM; sleep 1000 & echo $!; setsid sleep 1001 & echo $!; echo ready; sleep 1002; sleep 1003"
        );
        let job = host.processes.start(host.sh(&script)).await.unwrap();
        let children = pids(&read_until(&host, job.id, "ready").await);
        assert_eq!(children.len(), 2);
        let job = host
            .processes
            .kill("session", job.id, signal)
            .await
            .unwrap();
        let exit = Exit::Signal(number);
        assert_eq!(
            job.state,
            State::Ended {
                exit,
                confirmed: true
            },
            "{trap} {signal:?}"
        );
        assert!(!children.iter().any(|&pid| is_alive(pid)));
    }
}

#[tokio::test]
async fn other_signals_only_arrive() {
    let host = Host::new();
    let script =
        "trap 'echo usr' USR1; trap 'echo int' INT; echo ready; while :; do sleep 0.05; done";
    let job = host.processes.start(host.sh(script)).await.unwrap();
    read_until(&host, job.id, "ready").await;
    let state = host
        .processes
        .kill("session", job.id, Signal::Usr1)
        .await
        .unwrap()
        .state;
    assert_eq!(state, State::Running);
    read_until(&host, job.id, "usr").await;
}

#[tokio::test]
async fn a_job_stays_listed_until_its_last_process_is_gone() {
    let host = Host::new();
    let job = host
        .processes
        .start(host.sh("sleep 1000 & echo $!; exit 3"))
        .await
        .unwrap();
    let child = pids(&read_until(&host, job.id, "\n").await);
    let left = State::Left {
        exit: Exit::Code(3),
    };
    crate::fixture::until("the leader has ended", || {
        host.processes.jobs("session")[0].state == left
    })
    .await;
    assert!(is_alive(child[0]));
    let job = host
        .processes
        .kill("session", job.id, Signal::Term)
        .await
        .unwrap();
    let exit = Exit::Code(3);
    assert_eq!(
        job.state,
        State::Ended {
            exit,
            confirmed: true
        }
    );
    assert!(!is_alive(child[0]));
    assert_eq!(host.processes.jobs("session").len(), 1);
}

#[tokio::test]
async fn a_session_sees_only_its_own_jobs() {
    let host = Host::new();
    let job = host.processes.start(host.sh("sleep 1000")).await.unwrap();
    assert!(host.processes.jobs("other").is_empty());
    for session in ["other", ""] {
        let read = host
            .processes
            .read(session, job.id, None, MOST, Duration::ZERO)
            .await;
        assert!(matches!(read, Err(ProcessError::UnknownJob { .. })));
        let kill = host.processes.kill(session, job.id, Signal::Kill).await;
        assert!(matches!(kill, Err(ProcessError::UnknownJob { .. })));
        let write = host.processes.write(session, job.id, b"x").await;
        assert!(matches!(write, Err(ProcessError::UnknownJob { .. })));
    }
    let error = host.processes.wait("session", 999, LONG).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("no job 999 in this session; jobs: {}", job.id)
    );
    assert!(is_alive(job.pid));
}

#[tokio::test]
async fn a_session_has_a_most_of_running_jobs() {
    let host = Host::with(|settings| settings.max_jobs = 2);
    let first = host.processes.start(host.sh("sleep 1000")).await.unwrap();
    host.processes.start(host.sh("sleep 1000")).await.unwrap();
    let error = host.try_run(host.sh("true")).await.unwrap_err();
    assert!(
        matches!(
            error,
            ProcessError::TooMany {
                running: 2,
                most: 2
            }
        ),
        "{error}"
    );
    let mut other = host.sh("true");
    "other".clone_into(&mut other.session);
    host.run(other).await;
    host.processes
        .kill("session", first.id, Signal::Kill)
        .await
        .unwrap();
    host.run(host.sh("true")).await;
}

#[tokio::test]
async fn the_end_of_a_session_ends_its_jobs_and_removes_its_files() {
    let host = Host::with(|settings| settings.kill_grace = Duration::from_millis(200));
    let job = host
        .processes
        .start(host.sh("trap '' TERM; echo $TMPDIR; sleep 1000; sleep 1000"))
        .await
        .unwrap();
    let temporary = read_until(&host, job.id, "\n").await;
    let mut other = host.sh("sleep 1000");
    "other".clone_into(&mut other.session);
    let other = host.processes.start(other).await.unwrap();
    host.processes.end_session("session").await;
    assert!(!is_alive(job.pid));
    assert!(!std::path::Path::new(temporary.trim()).exists());
    assert!(host.processes.jobs("session").is_empty());
    assert!(is_alive(other.pid));
    host.processes.shutdown().await;
    assert!(!is_alive(other.pid));
    let error = host.try_run(host.sh("true")).await.unwrap_err();
    assert!(matches!(error, ProcessError::Closing), "{error}");
}

#[tokio::test]
async fn when_the_last_handle_is_gone_so_is_everything() {
    let host = Host::new();
    let job = host
        .processes
        .start(host.sh("setsid sleep 1000 & echo $!; sleep 1000"))
        .await
        .unwrap();
    let mut all = pids(&read_until(&host, job.id, "\n").await);
    all.push(job.pid);
    let outputs = host.outputs();
    let ws = host.ws();
    let Host { processes, .. } = &host;
    let clone = processes.clone();
    drop(host);
    assert!(is_alive(job.pid), "a clone is a handle too");
    drop(clone);
    until_gone(&all).await;
    assert!(!outputs.exists() || std::fs::read_dir(outputs).unwrap().count() == 0);
    drop(ws);
}

#[test]
fn a_runtime_that_ends_leaves_no_process() {
    let dir = tempfile::tempdir().unwrap();
    let processes = toolhost_process::Processes::new(settings(dir.path())).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let job = runtime
        .block_on(processes.start(sh(dir.path(), "sleep 1000")))
        .unwrap();
    drop(runtime);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(until_gone(&[job.pid]));
}

#[tokio::test]
async fn a_run_can_go_to_another_thread() {
    let host = Host::new();
    let (processes, command) = (host.processes.clone(), host.sh("exit 2"));
    let run = async move {
        processes
            .run(command, &mut |_, _| {}, std::future::pending())
            .await
    };
    let finished = tokio::spawn(run).await.unwrap().unwrap();
    assert_eq!(finished.exit, Exit::Code(2));
}

#[tokio::test]
async fn a_job_has_a_time_when_it_is_given_one() {
    let host = Host::new();
    let mut command = host.sh("sleep 1000");
    command.timeout = Some(Duration::from_millis(300));
    let job = host.processes.start(command).await.unwrap();
    let job = host.processes.wait("session", job.id, LONG).await.unwrap();
    assert_eq!(job.state.exit(), Some(Exit::TimedOut));
}
