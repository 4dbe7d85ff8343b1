//! Unconfined programs whose pipes belong to the caller, for protocols such as MCP over stdio. The program runs under a
//! warden, so none of its processes outlives the host.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal as Number;
use tokio::net::unix::pipe;
use tokio::time::timeout;

use crate::spawn::{Ends, Line, spawn};
use crate::wire::{Demand, Orders, Report};
use crate::{Command, Exit, Input, Launcher, Limits, OpenPath, ProcessError, Programs};

/// How long to wait for the end after SIGKILL, because a process can hang in the kernel.
const CONFIRM: Duration = Duration::from_secs(5);

/// A program to start without a sandbox. The caller must have the user's approval for exactly this command.
#[derive(Debug, Clone)]
pub struct PipedCommand {
    /// A name to look up in `path`, or an absolute path.
    pub program: String,
    pub arguments: Vec<String>,
    pub cwd: PathBuf,
    /// The complete environment.
    pub variables: Vec<(String, String)>,
    /// Directories in which a name is looked up; absolute.
    pub path: Vec<PathBuf>,
}

/// A running program. Dropping it kills the program and its descendants.
pub struct Piped {
    line: Line,
    pid: i32,
    /// How the program itself ended, once it has.
    exit: Option<Exit>,
    gone: bool,
}

/// The host's ends of the program's pipes.
pub struct Pipes {
    pub stdin: pipe::Sender,
    pub stdout: pipe::Receiver,
    pub stderr: pipe::Receiver,
}

impl Piped {
    pub async fn start(
        launcher: &Launcher,
        command: &PipedCommand,
    ) -> Result<(Piped, Pipes), ProcessError> {
        let arguments: Vec<&str> = command.arguments.iter().map(String::as_str).collect();
        let cwd = OpenPath::directory(&command.cwd)?;
        let mut checked = Command::new(&command.program, &arguments, cwd.clone());
        checked.input = Input::Open;
        checked.check()?;
        let program = Programs::Any.find(&command.program, &command.path)?;
        let ends = Ends::make(&checked)?;
        let orders = Orders {
            program,
            name: command.program.clone(),
            arguments: command.arguments.clone(),
            variables: command.variables.clone(),
            limits: Limits::default(),
            tty: false,
            fence: None,
            launcher: crate::start::utf8(&launcher.args),
        };
        let (line, pid, stdout, stderr, stdin) = spawn(launcher, &orders, (&cwd, Vec::new()), ends)
            .await
            .map_err(|error| match error {
                ProcessError::Directory { reason, .. } => ProcessError::Directory {
                    path: command.cwd.clone(),
                    reason,
                },
                other => other,
            })?;
        let pipes = Pipes {
            stdin: stdin.expect("the input was requested as open").into_pipe(),
            stdout: stdout.into_pipe(),
            stderr: stderr.expect("pipes have a standard error").into_pipe(),
        };
        let piped = Piped {
            line,
            pid,
            exit: None,
            gone: false,
        };
        Ok((piped, pipes))
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Waits until the program itself has ended. Cancel safe.
    pub async fn ended(&mut self) -> Exit {
        loop {
            if let Some(exit) = self.exit {
                return exit;
            }
            self.hear().await;
        }
    }

    /// Ends the program gracefully. The caller has closed its input; the program gets `patience` to exit, then SIGTERM
    /// and `patience` again, then it is killed with SIGKILL together with all remaining processes.
    pub async fn end(mut self, patience: Duration) -> Exit {
        if timeout(patience, self.ended()).await.is_err() {
            self.line
                .demand(Demand::Signal(Number::TERM.as_raw()))
                .await;
            let _ = timeout(patience, self.ended()).await;
        }
        self.line.demand(Demand::Kill).await;
        let all_gone = async {
            while !self.gone {
                self.hear().await;
            }
        };
        let _ = timeout(CONFIRM, all_gone).await;
        let exit = self.exit.unwrap_or(Exit::Lost);
        self.line.close().await;
        exit
    }

    async fn hear(&mut self) {
        match self.line.next().await {
            Some(Report::Ended { code, signal, .. }) => {
                let exit = code.map(Exit::Code).or(signal.map(Exit::Signal));
                self.exit = Some(exit.unwrap_or(Exit::Lost));
            }
            Some(Report::Crowded) => self.exit = Some(Exit::Crowded),
            // Without a warden there are no further reports.
            None | Some(Report::Gone | Report::Started { .. } | Report::Failed(_)) => {
                self.gone = true;
                self.exit.get_or_insert(Exit::Lost);
            }
        }
    }
}
