//! Background jobs: start, list, read, write, kill, and end with their session.

use std::time::Duration;

use expect_test::expect;
use toolhost_process::{ExitReason, Input, JobQuota, JobState, OwnerKey, ProcessError, Signal};

use crate::fixture::{Host, LONG, is_alive, owner, pids, settings, sh, until_gone};

const MOST: usize = 1 << 16;

async fn read(host: &Host, id: u64) -> String {
    let chunk = host
        .processes
        .read(&owner("session"), id, None, MOST, LONG)
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
    assert_eq!(
        (job.state, job.label.as_str()),
        (JobState::Running, "an echo")
    );
    let id = job.id;
    assert_eq!(read_until(&host, id, "ready\n").await, "ready\n");
    host.processes
        .write(&owner("session"), id, b"one\n")
        .await
        .unwrap();
    assert_eq!(read_until(&host, id, "one").await, "<one>\n");
    host.processes
        .close_input(&owner("session"), id)
        .await
        .unwrap();
    assert_eq!(read_until(&host, id, "bye").await, "bye\n");
    let job = host
        .processes
        .wait(&owner("session"), id, LONG)
        .await
        .unwrap();
    let ended = JobState::Ended {
        exit: ExitReason::Code(5),
        confirmed: true,
    };
    assert_eq!((job.state, job.bytes), (ended, 16));

    // From the beginning, in parts, and past the end.
    let session = owner("session");
    let from = |after, max| host.processes.read(&session, id, Some(after), max, LONG);
    let chunk = from(0, 7).await.unwrap();
    assert_eq!(
        (chunk.bytes.as_slice(), chunk.next, chunk.state),
        (&b"ready\n<"[..], 7, ended)
    );
    assert_eq!(from(12, MOST).await.unwrap().bytes, b"bye\n");
    assert_eq!(from(16, MOST).await.unwrap().bytes, b"");
    let error = host
        .processes
        .write(&owner("session"), id, b"x")
        .await
        .unwrap_err();
    assert!(matches!(error, ProcessError::NoInput { .. }), "{error}");
}

#[tokio::test]
async fn writes_to_closed_or_full_input_fail() {
    let host = Host::new();
    let job = host.processes.start(host.sh("sleep 1000")).await.unwrap();
    let error = host
        .processes
        .write(&owner("session"), job.id, b"x")
        .await
        .unwrap_err();
    assert!(error.to_string().contains("input closed"), "{error}");
    let mut deaf = host.sh("sleep 1000");
    deaf.input = Input::Open;
    let job = host.processes.start(deaf).await.unwrap();
    let error = host
        .processes
        .write(&owner("session"), job.id, &vec![0; 1 << 20])
        .await
        .unwrap_err();
    assert!(
        matches!(error, ProcessError::InputFull { written: 1.., .. }),
        "{error}"
    );
}

// C-09
#[tokio::test]
async fn a_kill_ends_all_processes_of_a_job() {
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
            .kill(&owner("session"), job.id, signal)
            .await
            .unwrap();
        let exit = ExitReason::Signal(number);
        assert_eq!(
            job.state,
            JobState::Ended {
                exit,
                confirmed: true
            },
            "{trap} {signal:?}"
        );
        assert!(!children.iter().any(|&pid| is_alive(pid)));
    }
}

#[tokio::test]
async fn other_signals_are_only_delivered() {
    let host = Host::new();
    let script =
        "trap 'echo usr' USR1; trap 'echo int' INT; echo ready; while :; do sleep 0.05; done";
    let job = host.processes.start(host.sh(script)).await.unwrap();
    read_until(&host, job.id, "ready").await;
    let state = host
        .processes
        .kill(&owner("session"), job.id, Signal::Usr1)
        .await
        .unwrap()
        .state;
    assert_eq!(state, JobState::Running);
    read_until(&host, job.id, "usr").await;
}

#[tokio::test]
async fn a_job_is_listed_until_its_last_process_ends() {
    let host = Host::new();
    let job = host
        .processes
        .start(host.sh("sleep 1000 & echo $!; exit 3"))
        .await
        .unwrap();
    let child = pids(&read_until(&host, job.id, "\n").await);
    let left = JobState::ProgramExited {
        exit: ExitReason::Code(3),
    };
    crate::fixture::until("the leader has ended", || {
        host.processes.jobs(&owner("session"))[0].state == left
    })
    .await;
    assert!(is_alive(child[0]));
    let job = host
        .processes
        .kill(&owner("session"), job.id, Signal::Term)
        .await
        .unwrap();
    let exit = ExitReason::Code(3);
    assert_eq!(
        job.state,
        JobState::Ended {
            exit,
            confirmed: true
        }
    );
    assert!(!is_alive(child[0]));
    assert_eq!(host.processes.jobs(&owner("session")).len(), 1);
}

#[tokio::test]
async fn a_session_sees_only_its_own_jobs() {
    let host = Host::new();
    let job = host.processes.start(host.sh("sleep 1000")).await.unwrap();
    assert!(host.processes.jobs(&owner("other")).is_empty());
    for session in ["other", ""] {
        let read = host
            .processes
            .read(&owner(session), job.id, None, MOST, Duration::ZERO)
            .await;
        assert!(matches!(read, Err(ProcessError::UnknownJob { .. })));
        let kill = host
            .processes
            .kill(&owner(session), job.id, Signal::Kill)
            .await;
        assert!(matches!(kill, Err(ProcessError::UnknownJob { .. })));
        let write = host.processes.write(&owner(session), job.id, b"x").await;
        assert!(matches!(write, Err(ProcessError::UnknownJob { .. })));
    }
    let error = host
        .processes
        .wait(&owner("session"), 999, LONG)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("no job 999 in this session; jobs: {}", job.id)
    );
    assert!(is_alive(job.pid));
}

#[tokio::test]
async fn running_jobs_of_a_session_are_limited() {
    let host = Host::with(|settings| settings.max_jobs = 2);
    let first = host.processes.start(host.sh("sleep 1000")).await.unwrap();
    host.processes.start(host.sh("sleep 1000")).await.unwrap();
    let error = host.try_run(host.sh("true")).await.unwrap_err();
    assert!(
        matches!(
            error,
            ProcessError::TooMany {
                scope: "this session",
                running: 2,
                most: 2
            }
        ),
        "{error}"
    );
    let mut other = host.sh("true");
    other.owner = owner("other");
    host.run(other).await;
    host.processes
        .kill(&owner("session"), first.id, Signal::Kill)
        .await
        .unwrap();
    host.run(host.sh("true")).await;
}

/// The limit of a user applies to all sessions together, and does not affect other users.
#[tokio::test]
async fn a_03_running_jobs_of_a_user_are_limited_across_sessions() {
    let host = Host::with(|settings| {
        settings.max_jobs = 2;
        settings.programs_at_once = JobQuota { user: 3, all: 4 };
    });
    let of = |user: &str, session: &str| {
        let mut command = host.sh("sleep 1000");
        command.owner = owner(session);
        command.owner.session.user = OwnerKey::new([user]);
        command
    };
    let start = async |user: &str, session: &str| {
        let started = host.processes.start(of(user, session)).await;
        started.map(drop).map_err(|error| error.to_string())
    };
    for session in ["1", "2", "3"] {
        start("ann", session).await.unwrap();
    }
    for session in ["1", "4"] {
        expect!["3 processes of this user are running, the limit is 3; end one first"]
            .assert_eq(&start("ann", session).await.unwrap_err());
    }
    start("bob", "1").await.unwrap();
    expect!["4 processes of all users are running, the limit is 4; end one first"]
        .assert_eq(&start("carl", "1").await.unwrap_err());
    let mut ended = of("ann", "1").owner.session;
    host.processes.end_session(&ended).await;
    start("ann", "5").await.unwrap();
    ended.session = OwnerKey::new(["5"]);
    host.processes.end_session(&ended).await;
}

/// The outputs of a session are in no directory of another session, whether of another user or of the same.
#[tokio::test]
async fn a_02_each_session_has_a_separate_output_directory() {
    let host = Host::new();
    let mut folders = Vec::new();
    for (user, session) in [("ann", "1"), ("ann", "2"), ("bob", "1")] {
        let mut command = host.sh("echo secret of $TMPDIR; echo x > $TMPDIR/t");
        command.owner = owner(session);
        command.owner.session.user = OwnerKey::new([user]);
        let session = command.owner.session.clone();
        let file = host.run(command).await.output_file.unwrap();
        let folder = host.processes.output_directory(&session).unwrap();
        assert_eq!(
            file,
            folder.join("1.log"),
            "numbers begin anew in each session"
        );
        folders.push((session, folder));
    }
    for (_, folder) in &folders {
        let names: Vec<_> = std::fs::read_dir(folder).unwrap().collect();
        assert_eq!(
            names.len(),
            1,
            "one output, and no temporary files: {names:?}"
        );
    }
    let (first, folder) = &folders[0];
    host.processes.end_session(first).await;
    assert!(!folder.exists() && folders[1].1.exists() && folders[2].1.exists());
}

/// Kept outputs are bounded per user and in total: the oldest outputs of the user with the most output are deleted.
#[tokio::test]
async fn a_03_kept_output_is_bounded_per_user() {
    let host = Host::with(|settings| {
        settings.keep_output = 1_000;
        settings.kept_output = JobQuota {
            user: 3_000,
            all: 4_000,
        };
    });
    let run = async |user: &str, session: &str| {
        let mut command = host.sh("head -c 900 /dev/zero | tr '\\0' x");
        command.owner = owner(session);
        command.owner.session.user = OwnerKey::new([user]);
        host.run(command).await.output_file.unwrap()
    };
    let anns = [
        run("ann", "1").await,
        run("ann", "2").await,
        run("ann", "3").await,
    ];
    let bobs = [run("bob", "1").await];
    assert!(anns[0].exists(), "there was room for three");
    let more = run("ann", "4").await;
    assert!(
        !anns[0].exists() && anns[1].exists(),
        "her oldest made room"
    );
    let other = run("carl", "1").await;
    assert!(!anns[1].exists(), "she keeps the most of all");
    assert!(bobs[0].exists() && more.exists() && other.exists());
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
    other.owner = owner("other");
    let other = host.processes.start(other).await.unwrap();
    host.processes.end_session(&owner("session").session).await;
    assert!(!is_alive(job.pid));
    assert!(!std::path::Path::new(temporary.trim()).exists());
    assert!(host.processes.jobs(&owner("session")).is_empty());
    assert!(is_alive(other.pid));
    host.processes.shutdown().await;
    assert!(!is_alive(other.pid));
    let error = host.try_run(host.sh("true")).await.unwrap_err();
    assert!(matches!(error, ProcessError::Closing), "{error}");
}

#[tokio::test]
async fn dropping_the_last_handle_kills_everything() {
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
    assert_eq!(finished.exit, ExitReason::Code(2));
}

#[tokio::test]
async fn a_job_can_have_a_timeout() {
    let host = Host::new();
    let mut command = host.sh("sleep 1000");
    command.timeout = Some(Duration::from_millis(300));
    let job = host.processes.start(command).await.unwrap();
    let job = host
        .processes
        .wait(&owner("session"), job.id, LONG)
        .await
        .unwrap();
    assert_eq!(job.state.exit(), Some(ExitReason::TimedOut));
}
