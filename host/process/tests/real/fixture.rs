//! A host with a workspace, and a secret next to it that no command was granted.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use toolhost_process::{
    AllowedPrograms, Command, ExitReason, JobOwner, Launcher, OpenPath, OwnerKey, ProcessError,
    ProcessSettings, Processes, RunResult, SessionOwner, Stream,
};

/// Far longer than any step takes; reaching it is a failure.
pub const LONG: Duration = Duration::from_secs(120);
pub const SECRET: &str = "the secret of this test";

pub struct Host {
    dir: TempDir,
    pub processes: Processes,
}

impl Host {
    pub fn new() -> Host {
        Host::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut ProcessSettings)) -> Host {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("ws")).unwrap();
        std::fs::write(dir.path().join("secret"), SECRET).unwrap();
        let mut settings = settings(&dir.path().join("outputs"));
        change(&mut settings);
        let processes = Processes::new(settings).unwrap();
        Host { dir, processes }
    }

    pub fn ws(&self) -> PathBuf {
        self.dir.path().join("ws")
    }

    pub fn outputs(&self) -> PathBuf {
        self.dir.path().join("outputs")
    }

    pub fn sh(&self, script: &str) -> Command {
        sh(&self.ws(), script)
    }

    pub async fn run(&self, command: Command) -> RunResult {
        self.try_run(command).await.unwrap()
    }

    pub async fn try_run(&self, command: Command) -> Result<RunResult, ProcessError> {
        self.processes
            .run(command, &mut |_, _| {}, std::future::pending())
            .await
    }

    /// What a script writes to both streams, without the last line break.
    pub async fn text(&self, script: &str) -> String {
        text(&self.run(self.sh(script)).await)
    }
}

pub fn settings(outputs: &Path) -> ProcessSettings {
    let launcher = Launcher {
        program: PathBuf::from(env!("CARGO_BIN_EXE_toolhost-launcher")),
        args: Vec::new(),
    };
    ProcessSettings {
        programs: AllowedPrograms::Any,
        ..ProcessSettings::new(launcher, outputs.to_owned())
    }
}

/// A shell script in a workspace that it can change.
pub fn sh(ws: &Path, script: &str) -> Command {
    let ws = open(ws);
    let mut command = Command::new("sh", &["-c", script], ws.clone());
    command.sandbox.write = vec![ws];
    command.timeout = Some(LONG);
    command.owner = owner("session");
    command
}

pub fn open(path: &Path) -> OpenPath {
    OpenPath::open(path).unwrap()
}

/// An owner in a session of this name; all sessions belong to one user.
pub fn owner(session: &str) -> JobOwner {
    JobOwner {
        session: SessionOwner {
            user: OwnerKey::new(["user"]),
            session: OwnerKey::new([session]),
        },
        group: OwnerKey::default(),
    }
}

pub fn text(finished: &RunResult) -> String {
    finished.combined.lossy().trim_end().to_owned()
}

pub fn assert_exit(finished: &RunResult, exit: ExitReason) {
    assert_eq!(finished.exit, exit, "{}", text(finished));
    assert!(finished.is_confirmed);
}

/// The process IDs in a text, one per line.
pub fn pids(text: &str) -> Vec<i32> {
    text.lines()
        .filter_map(|line| line.trim().parse().ok())
        .collect()
}

pub fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Waits for a condition without an event.
pub async fn until(condition: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < LONG, "waited too long until {condition}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub async fn until_gone(pids: &[i32]) {
    assert!(!pids.is_empty());
    until("the processes are gone", || {
        !pids.iter().any(|&pid| is_alive(pid))
    })
    .await;
}

/// Collects live output until `holds`, then signals it once.
pub struct Marker {
    output: Vec<u8>,
    holds: fn(&str) -> bool,
    sender: Option<tokio::sync::oneshot::Sender<String>>,
}

impl Marker {
    pub fn new(holds: fn(&str) -> bool) -> (Marker, tokio::sync::oneshot::Receiver<String>) {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let output = Vec::new();
        (
            Marker {
                output,
                holds,
                sender: Some(sender),
            },
            receiver,
        )
    }

    pub fn push(&mut self, _: Stream, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
        let text = String::from_utf8_lossy(&self.output);
        if (self.holds)(&text)
            && let Some(sender) = self.sender.take()
        {
            let _ = sender.send(text.into_owned());
        }
    }
}
