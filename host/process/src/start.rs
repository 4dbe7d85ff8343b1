//! Starts a program and its supervisor, after all checks.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

use tokio::sync::{mpsc, watch};

use crate::environment::{EnvironmentContext, Variables};
use crate::job::{JobHandle, JobProgress, Process};
use crate::output::Output;
use crate::sandbox_rules::{SandboxRequest, build_rules};
use crate::sessions::ProcessRegistry;
use crate::spawn::{ProgramStdio, Writer, spawn};
use crate::supervisor::{OutputSender, RunMode, Supervisor, SupervisorLimits};
use crate::wire::{LaunchRequest, LaunchSockets, MAX_DESCRIPTORS, SandboxRules};
use crate::{
    Command, Confinement, DroppedVariable, Environment, Input, JobState, OpenPath, ProcessError,
    ProcessSettings, SandboxPermissions, Stream,
};

/// Capacity of the channel of output chunks to a listener.
const OUTPUT_CAPACITY: usize = 8;
/// The end-of-input character of a terminal.
const END_OF_INPUT: u8 = 4;

/// A program that was started, for a caller that waits for it.
pub struct StartedProgram {
    pub handle: JobHandle,
    pub sandbox_rules: Option<SandboxRules>,
    pub listener: mpsc::Receiver<(Stream, Vec<u8>)>,
}

pub async fn start(
    inner: &Arc<ProcessRegistry>,
    command: &Command,
    mode: RunMode,
) -> Result<StartedProgram, ProcessError> {
    let settings = &inner.settings;
    command.validate()?;
    let program = settings.programs.find(&command.program, &settings.path)?;
    let slot = inner.reserve(&command.owner)?;
    let (variables, dropped) = compose_environment(inner, command, slot.temporary().path())?;
    let stdio = ProgramStdio::create(command)?;
    let (sandbox_rules, descriptors) = match settings.confinement {
        Confinement::Off => (None, Vec::new()),
        Confinement::Required => {
            let wanted = sandbox_request(inner, command, slot.temporary(), &program, &stdio);
            check_working_directory(&command.cwd, command, slot.temporary())?;
            let (sandbox_rules, descriptors) = build_sandbox(wanted).await?;
            (Some(sandbox_rules), descriptors)
        }
    };
    let mut request = LaunchRequest {
        program,
        name: command.program.clone(),
        arguments: command.arguments.clone(),
        variables,
        limits: settings.limits,
        tty: command.tty,
        sandbox_rules,
        sockets: LaunchSockets::default(),
        launcher: to_strings(&settings.launcher.args),
    };
    let started = (SystemTime::now(), Instant::now());
    let (warden, pid, stdout, stderr, stdin) = spawn(
        &settings.launcher,
        &request,
        (&command.cwd, descriptors),
        stdio,
    )
    .await
    .map_err(|error| with_directory(error, command))?;

    let input = write_input(command, stdin);
    let process = Arc::new(Process {
        id: slot.id(),
        label: command.label.clone(),
        command: command.command_line(),
        pid,
        started: started.0,
        started_at: started.1,
        dropped,
        output: Mutex::new(new_output(slot.output(), settings, mode)),
        leftover_pids: Mutex::default(),
        stdin: tokio::sync::Mutex::new(input),
        cursor: AtomicU64::new(0),
        is_listed: AtomicBool::new(mode == RunMode::Background),
        progress: watch::Sender::new(JobProgress {
            state: JobState::Running,
            bytes: 0,
        }),
        ended: Mutex::default(),
    });
    let (commands, receiver) = mpsc::unbounded_channel();
    let (sender, listener): (OutputSender, _) = mpsc::channel(OUTPUT_CAPACITY);
    let supervisor = Supervisor {
        process: Arc::clone(&process),
        warden,
        stdout: Some(stdout),
        stderr,
        commands: Some(receiver),
        sender: (mode != RunMode::Background).then_some(sender),
        mode,
        limits: supervisor_limits(settings, command),
    };
    tokio::spawn(supervisor.run());
    let handle = JobHandle { process, commands };
    slot.register(handle.clone())?;
    Ok(StartedProgram {
        handle,
        sandbox_rules: request.sandbox_rules.take(),
        listener,
    })
}

/// Returns the variables of the program and the names of those that were dropped.
fn compose_environment(
    inner: &ProcessRegistry,
    command: &Command,
    temporary: &Path,
) -> Result<(Variables, Vec<DroppedVariable>), ProcessError> {
    let settings = &inner.settings;
    let context = EnvironmentContext {
        path: &settings.path,
        temporary,
        tty: command.tty,
        hidden_home: settings.confinement == Confinement::Required
            && home_is_hidden(command, &settings.environment),
    };
    settings.environment.compose(&command.env, &context)
}

fn new_output(path: PathBuf, settings: &ProcessSettings, mode: RunMode) -> Output {
    let mut output = Output::new(path, settings.keep_text, settings.keep_output);
    if mode == RunMode::Background {
        // The user is told its path before the program writes anything.
        output.create_file();
    }
    output
}

fn supervisor_limits(settings: &ProcessSettings, command: &Command) -> SupervisorLimits {
    SupervisorLimits {
        timeout: command.timeout,
        inactivity: command.inactivity,
        grace: settings.kill_grace,
        linger: settings.linger,
        max_output: settings.max_output,
        line_wait: settings.line_wait,
    }
}

/// Sends the known input. Returns the writer if more input can follow.
fn write_input(command: &Command, stdin: Option<Writer>) -> Option<Writer> {
    let stdin = stdin?;
    let mut bytes = match &command.input {
        Input::Open => return Some(stdin),
        Input::Closed => Vec::new(),
        Input::Bytes(bytes) => bytes.clone(),
    };
    if command.tty {
        bytes.push(END_OF_INPUT);
    }
    tokio::spawn(async move {
        // A program is not required to read its whole input.
        let _ = stdin.write_all(&bytes).await;
    });
    None
}

fn sandbox_request(
    inner: &ProcessRegistry,
    command: &Command,
    temporary: &OpenPath,
    program: &Path,
    stdio: &ProgramStdio,
) -> SandboxRequest {
    let settings = &inner.settings;
    let mut hidden = settings.hidden.clone();
    hidden.push(inner.folder.path().to_owned());
    SandboxRequest {
        permissions: command.sandbox.clone(),
        path: settings.path.clone(),
        program: program.to_owned(),
        temporary: temporary.clone(),
        tty: stdio.tty.clone(),
        hidden,
        read_only: settings.read_only.clone(),
    }
}

/// Returns the sandbox rules and the descriptors they refer to.
async fn build_sandbox(
    wanted: SandboxRequest,
) -> Result<(SandboxRules, Vec<Arc<OwnedFd>>), ProcessError> {
    let made = tokio::task::spawn_blocking(|| build_rules(wanted)).await;
    let (sandbox_rules, descriptors) = made.map_err(|error| ProcessError::Unconfined {
        lacks: error.to_string(),
    })?;
    if descriptors.len() > MAX_DESCRIPTORS {
        return Err(ProcessError::TooLarge {
            subject: "the list of granted paths (counted in entries)",
            size: descriptors.len(),
            most: MAX_DESCRIPTORS,
        });
    }
    Ok((sandbox_rules, descriptors))
}

/// Returns whether the settings in the home directory are outside the sandbox.
fn home_is_hidden(command: &Command, environment: &Environment) -> bool {
    let home = command
        .env
        .iter()
        .chain(&environment.host)
        .find(|(name, _)| name == "HOME");
    let home = home.and_then(|(_, home)| Path::new(home).canonicalize().ok());
    home.is_some_and(|home| !is_granted(&home.join(".gitconfig"), &command.sandbox))
}

fn is_granted(path: &Path, sandbox_rules: &SandboxPermissions) -> bool {
    let mut granted = sandbox_rules.read.iter().chain(&sandbox_rules.write);
    granted.any(|granted| path.starts_with(granted.path()))
}

/// A program can start only in a directory that it may read, or that contains a file granted to it.
fn check_working_directory(
    cwd: &OpenPath,
    command: &Command,
    temporary: &OpenPath,
) -> Result<(), ProcessError> {
    let (sandbox_rules, real) = (&command.sandbox, cwd.path());
    let mut granted = sandbox_rules.read.iter().chain(&sandbox_rules.write);
    let holds_file = granted.any(|file| file.path().parent() == Some(real) && file.is_file());
    if is_granted(real, sandbox_rules) || holds_file || real.starts_with(temporary.path()) {
        return Ok(());
    }
    Err(ProcessError::Directory {
        path: real.to_owned(),
        reason: "it is outside the directories that this command may read".to_owned(),
    })
}

/// Inserts the path of the working directory, which the launcher does not know.
fn with_directory(error: ProcessError, command: &Command) -> ProcessError {
    match error {
        ProcessError::Directory { reason, .. } => ProcessError::Directory {
            path: command.cwd.path().to_owned(),
            reason,
        },
        other => other,
    }
}

pub fn to_strings(args: &[std::ffi::OsString]) -> Vec<String> {
    args.iter()
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect()
}
