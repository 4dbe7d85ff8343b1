//! Starts a program and its supervisor, after all checks.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

use tokio::sync::{mpsc, watch};

use crate::environment::Surroundings;
use crate::job::{Handle, News, Process};
use crate::mind::{Ground, Live, Minder, Times};
use crate::output::Output;
use crate::sessions::Inner;
use crate::spawn::{Ends, Writer, spawn};
use crate::walls::{Wanted, walls};
use crate::wire::{MAX_HELD, Orders, Walls};
use crate::{
    Command, Confinement, Environment, Fence, Input, OpenPath, ProcessError, State, Stream,
};

/// Capacity of the channel of output chunks to a listener.
const PIECES: usize = 8;
/// The end-of-input character of a terminal.
const END_OF_INPUT: u8 = 4;

/// A program that was started, for a caller that waits for it.
pub struct Started {
    pub handle: Handle,
    pub walls: Option<Walls>,
    pub listener: mpsc::Receiver<(Stream, Vec<u8>)>,
}

pub async fn start(
    inner: &Arc<Inner>,
    command: &Command,
    ground: Ground,
) -> Result<Started, ProcessError> {
    let settings = &inner.settings;
    command.check()?;
    let program = settings.programs.find(&command.program, &settings.path)?;
    let place = inner.place(&command.owner)?;
    let around = Surroundings {
        path: &settings.path,
        temporary: place.temporary().path(),
        tty: command.tty,
        hidden_home: settings.confinement == Confinement::Required
            && home_is_hidden(command, &settings.environment),
    };
    let (variables, dropped) = settings.environment.compose(&command.env, &around)?;
    let ends = Ends::make(command)?;
    let (fence, held) = match settings.confinement {
        Confinement::Off => (None, Vec::new()),
        Confinement::Required => {
            let wanted = wanted(inner, command, place.temporary(), &program, &ends);
            within(&command.cwd, command, place.temporary())?;
            let (walls, held) = fenced(wanted).await?;
            (Some(walls), held)
        }
    };
    let mut orders = Orders {
        program,
        name: command.program.clone(),
        arguments: command.arguments.clone(),
        variables,
        limits: settings.limits,
        tty: command.tty,
        fence,
        launcher: utf8(&settings.launcher.args),
    };
    let started = (SystemTime::now(), Instant::now());
    let (line, pid, stdout, stderr, stdin) =
        spawn(&settings.launcher, &orders, (&command.cwd, held), ends)
            .await
            .map_err(|error| placed(error, command))?;

    let kept_input = feed(command, stdin);
    let id = place.id();
    let state = State::Running;
    let process = Arc::new(Process {
        id,
        label: command.label.clone(),
        command: std::iter::once(&command.program)
            .chain(&command.arguments)
            .cloned()
            .collect(),
        pid,
        started: started.0,
        began: started.1,
        dropped,
        output: Mutex::new(Output::new(
            place.output(),
            settings.keep_text,
            settings.keep_output,
        )),
        left: Mutex::default(),
        stdin: tokio::sync::Mutex::new(kept_input),
        cursor: AtomicU64::new(0),
        listed: AtomicBool::new(ground == Ground::Back),
        news: watch::Sender::new(News { state, bytes: 0 }),
        ended: Mutex::default(),
    });
    let (tell, heard) = mpsc::unbounded_channel();
    let (live, listener): (Live, _) = mpsc::channel(PIECES);
    let minder = Minder {
        process: Arc::clone(&process),
        line,
        stdout: Some(stdout),
        stderr,
        orders: Some(heard),
        live: (ground != Ground::Back).then_some(live),
        ground,
        times: Times {
            timeout: command.timeout,
            inactivity: command.inactivity,
            grace: settings.kill_grace,
            linger: settings.linger,
            max_output: settings.max_output,
            line_wait: settings.line_wait,
        },
    };
    tokio::spawn(minder.mind());
    let handle = Handle {
        process,
        orders: tell,
    };
    place.take(handle.clone())?;
    Ok(Started {
        handle,
        walls: orders.fence.take(),
        listener,
    })
}

/// Sends the known input. Returns the writer if more input can follow.
fn feed(command: &Command, stdin: Option<Writer>) -> Option<Writer> {
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

fn wanted(
    inner: &Inner,
    command: &Command,
    temporary: &OpenPath,
    program: &Path,
    ends: &Ends,
) -> Wanted {
    let settings = &inner.settings;
    let mut hidden = settings.hidden.clone();
    hidden.push(inner.folder.path().to_owned());
    Wanted {
        fence: command.fence.clone(),
        path: settings.path.clone(),
        program: program.to_owned(),
        temporary: temporary.clone(),
        tty: ends.tty.clone(),
        hidden,
        read_only: settings.read_only.clone(),
    }
}

/// Returns the sandbox rules and the descriptors they refer to.
async fn fenced(wanted: Wanted) -> Result<(Walls, Vec<Arc<OwnedFd>>), ProcessError> {
    let made = tokio::task::spawn_blocking(|| walls(wanted)).await;
    let (walls, held) = made.map_err(|error| ProcessError::Unconfined {
        lacks: error.to_string(),
    })?;
    if held.len() > MAX_HELD {
        return Err(ProcessError::TooLarge {
            what: "the list of granted paths (counted in entries)",
            size: held.len(),
            most: MAX_HELD,
        });
    }
    Ok((walls, held))
}

/// Returns whether the settings in the home directory are outside the sandbox.
fn home_is_hidden(command: &Command, environment: &Environment) -> bool {
    let home = command
        .env
        .iter()
        .chain(&environment.host)
        .find(|(name, _)| name == "HOME");
    let home = home.and_then(|(_, home)| Path::new(home).canonicalize().ok());
    home.is_some_and(|home| !is_granted(&home.join(".gitconfig"), &command.fence))
}

fn is_granted(path: &Path, fence: &Fence) -> bool {
    let mut granted = fence.read.iter().chain(&fence.write);
    granted.any(|granted| path.starts_with(granted.path()))
}

/// A program can start only in a directory that it may read, or that contains a file granted to it.
fn within(cwd: &OpenPath, command: &Command, temporary: &OpenPath) -> Result<(), ProcessError> {
    let (fence, real) = (&command.fence, cwd.path());
    let mut granted = fence.read.iter().chain(&fence.write);
    let holds_file = granted.any(|file| file.path().parent() == Some(real) && file.is_file());
    if is_granted(real, fence) || holds_file || real.starts_with(temporary.path()) {
        return Ok(());
    }
    Err(ProcessError::Directory {
        path: real.to_owned(),
        reason: "it is outside the directories that this command may read".to_owned(),
    })
}

/// Inserts the path of the working directory, which the launcher does not know.
fn placed(error: ProcessError, command: &Command) -> ProcessError {
    match error {
        ProcessError::Directory { reason, .. } => ProcessError::Directory {
            path: command.cwd.path().to_owned(),
            reason,
        },
        other => other,
    }
}

pub fn utf8(args: &[std::ffi::OsString]) -> Vec<String> {
    args.iter()
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect()
}
