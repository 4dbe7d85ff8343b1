//! Unconfined programs with pipes: they run as long as needed, end gracefully, and leave no process behind.

use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use toolhost_process::{ExitReason, Launcher, PipedCommand, PipedProcess, Pipes, ProcessError};

use crate::fixture::{LONG, is_alive, pids, until};

fn launcher() -> Launcher {
    Launcher {
        program: PathBuf::from(env!("CARGO_BIN_EXE_toolhost-launcher")),
        args: Vec::new(),
    }
}

fn sh(script: &str) -> PipedCommand {
    PipedCommand {
        program: "sh".to_owned(),
        arguments: vec!["-c".to_owned(), script.to_owned()],
        cwd: PathBuf::from("/"),
        variables: vec![("GIVEN".to_owned(), "yes".to_owned())],
        path: vec![PathBuf::from("/usr/bin"), PathBuf::from("/bin")],
        sandbox: None,
    }
}

async fn start(script: &str) -> (PipedProcess, Pipes) {
    PipedProcess::start(&launcher(), &sh(script)).await.unwrap()
}

#[tokio::test]
async fn a_program_ends_when_its_input_closes() {
    let (child, pipes) = start("read a; echo \"$a $GIVEN $HOME.\"; cat; exit 3").await;
    let Pipes {
        mut stdin,
        mut stdout,
        stderr: _stderr,
        proxy: _,
        refused: _,
    } = pipes;
    stdin.write_all(b"hello\nmore").await.unwrap();
    drop(stdin);
    let mut output = String::new();
    stdout.read_to_string(&mut output).await.unwrap();
    assert_eq!(output, "hello yes .\nmore");
    assert_eq!(child.end(LONG).await, ExitReason::Code(3));
}

#[tokio::test]
async fn a_hanging_program_is_terminated_with_its_children() {
    let script = "trap '' TERM; sleep 1000 & echo $!; echo $$; while :; do sleep 1; done";
    let (child, mut pipes) = start(script).await;
    let mut output = Vec::new();
    while output.split(|&byte| byte == b'\n').count() < 3 {
        pipes.stdout.read_buf(&mut output).await.unwrap();
    }
    let all = pids(&String::from_utf8(output).unwrap());
    assert!(all.iter().all(|&pid| is_alive(pid)));
    drop(pipes);
    let exit = child.end(Duration::from_millis(50)).await;
    assert_eq!(exit, ExitReason::Signal(9));
    assert!(all.iter().all(|&pid| !is_alive(pid)), "{all:?}");
}

#[tokio::test]
async fn dropping_kills_the_program() {
    let (child, _pipes) = start("sleep 1000").await;
    let pid = child.pid();
    assert!(is_alive(pid));
    drop(child);
    until("it is gone", || !is_alive(pid)).await;
}

#[tokio::test]
async fn start_failures_state_the_reason() {
    for (program, message) in [
        ("no-such-program", "was not found in /usr/bin:/bin"),
        ("./sh", "use a plain name or an absolute path"),
    ] {
        let mut command = sh("");
        command.program = program.to_owned();
        let Err(error) = PipedProcess::start(&launcher(), &command).await else {
            panic!("{program} was started");
        };
        assert!(error.to_string().contains(message), "{error}");
    }
    let mut command = sh("");
    command.cwd = PathBuf::from("/nonexistent");
    let refused = PipedProcess::start(&launcher(), &command).await.err();
    assert!(matches!(refused, Some(ProcessError::Directory { .. })));
}
