//! Programs start with default signal dispositions and no blocked signals, whatever the host inherited.

use std::path::PathBuf;
use std::process::Command as StdCommand;

use tokio::io::AsyncReadExt as _;
use toolhost_process::{Command, ExitReason, Launcher, PipedCommand, PipedProcess};

use crate::fixture::{Host, LONG, open, text};

const VARIABLE: &str = "TOOLHOST_TEST_SIGNALS";
const MASKS: [&str; 3] = ["-E", "^Sig(Ign|Blk):", "/proc/self/status"];
/// The C library reserves these two and sets them where it uses them.
const OF_THE_C_LIBRARY: u64 = 1 << 31 | 1 << 32;

/// This test binary again, as a host that was started with every signal ignored and blocked.
#[test]
fn stand_in() {
    if std::env::var_os(VARIABLE).is_none() {
        return;
    }
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    assert!(
        mask(&own, "SigIgn") & (1 << 1) != 0,
        "SIGINT is ignored: {own}"
    );
    assert!(
        mask(&own, "SigBlk") & (1 << 14) != 0,
        "SIGTERM is blocked: {own}"
    );
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let host = Host::new();
        for tty in [false, true] {
            let mut command = Command::new("grep", &MASKS, open(&host.ws()));
            command.sandbox.write.push(open(&host.ws()));
            command.tty = tty;
            check(&text(&host.run(command).await));
        }
        check(&status_of_an_unconfined_program().await);
        let finished = host.run(host.sh("kill -INT $$; echo survived")).await;
        assert_eq!(finished.exit, ExitReason::Signal(2), "{}", text(&finished));
        let finished = host.run(host.sh("yes | head -n 1; sleep 0 & wait")).await;
        assert_eq!(text(&finished), "y");
    });
}

async fn status_of_an_unconfined_program() -> String {
    let launcher = Launcher {
        program: PathBuf::from(env!("CARGO_BIN_EXE_toolhost-launcher")),
        args: Vec::new(),
    };
    let command = PipedCommand {
        program: "grep".to_owned(),
        arguments: MASKS.map(str::to_owned).to_vec(),
        cwd: PathBuf::from("/"),
        variables: Vec::new(),
        path: vec![PathBuf::from("/usr/bin"), PathBuf::from("/bin")],
        sandbox: None,
    };
    let (child, mut pipes) = PipedProcess::start(&launcher, &command).await.unwrap();
    let mut status = String::new();
    pipes.stdout.read_to_string(&mut status).await.unwrap();
    assert_eq!(child.end(LONG).await, ExitReason::Code(0));
    status
}

fn mask(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let mask = line.and_then(|line| line.strip_prefix(':'));
    u64::from_str_radix(mask.unwrap().trim(), 16).unwrap()
}

fn check(status: &str) {
    assert_eq!(mask(status, "SigIgn") & !OF_THE_C_LIBRARY, 0, "{status}");
    assert_eq!(mask(status, "SigBlk"), 0, "{status}");
}

#[test]
fn a_20_a_program_inherits_no_ignored_or_blocked_signals() {
    let ended = StdCommand::new("env")
        .args(["--ignore-signal", "--block-signal"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "signals::stand_in", "--nocapture"])
        .env(VARIABLE, "1")
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&ended.stdout);
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{stdout}{stderr}");
    assert!(stdout.contains("1 passed"), "{stdout}");
}
