//! From a command to a running program with a minder: every check, then one start.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

use rustix::fs::{Mode, OFlags};
use tokio::sync::{mpsc, watch};

use crate::environment::Surroundings;
use crate::job::{Handle, News, Process};
use crate::mind::{Ground, Live, Minder, Times};
use crate::output::Output;
use crate::sessions::Inner;
use crate::spawn::{Ends, Writer, spawn};
use crate::walls::{Wanted, walls};
use crate::wire::{Orders, Walls};
use crate::{Command, Confinement, Environment, Fence, Input, ProcessError, State, Stream};

/// Pieces of output on their way to a listener.
const PIECES: usize = 8;
/// The end-of-input character of a terminal.
const END_OF_INPUT: u8 = 4;

/// A program that was started for somebody who waits for it.
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
    let (place, folder) = inner.place(&command.session)?;
    let temporary = folder.temporary();
    let (cwd, real) = working_directory(&command.cwd)?;
    let around = Surroundings {
        path: &settings.path,
        temporary: &temporary,
        tty: command.tty,
        hidden_home: settings.confinement == Confinement::Required
            && home_is_hidden(command, &settings.environment),
    };
    let (variables, dropped) = settings.environment.compose(&command.env, &around)?;
    let ends = Ends::make(command)?;
    let fence = match settings.confinement {
        Confinement::Off => None,
        Confinement::Required => {
            within(&real, command, &temporary)?;
            let mut hidden = settings.hidden.clone();
            hidden.push(inner.folder.path().to_owned());
            let wanted = Wanted {
                fence: command.fence.clone(),
                path: settings.path.clone(),
                program: program.clone(),
                temporary: temporary.clone(),
                tty: ends.tty.clone(),
                hidden,
                read_only: settings.read_only.clone(),
            };
            let walls = tokio::task::spawn_blocking(|| walls(wanted)).await;
            Some(walls.map_err(|error| ProcessError::Unconfined {
                lacks: error.to_string(),
            })?)
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
    let (line, pid, stdout, stderr, stdin) = spawn(&settings.launcher, &orders, cwd, ends)
        .await
        .map_err(|error| placed(error, command))?;

    let kept_input = feed(command, stdin);
    let id = inner.next.fetch_add(1, Ordering::Relaxed);
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
            folder.output(id),
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

/// Sends what is known to be the input, and keeps the way to send more.
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
        // A program that does not read its input to the end does no wrong.
        let _ = stdin.write_all(&bytes).await;
    });
    None
}

/// A directory, held, and where it really is.
pub fn working_directory(path: &Path) -> Result<(OwnedFd, PathBuf), ProcessError> {
    let failed = |reason: String| ProcessError::Directory {
        path: path.to_owned(),
        reason,
    };
    if !path.is_absolute() {
        return Err(failed("it is not an absolute path".to_owned()));
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let held =
        rustix::fs::open(path, flags, Mode::empty()).map_err(|error| failed(error.to_string()))?;
    let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&held));
    let real = std::fs::read_link(link).map_err(|error| failed(error.to_string()))?;
    Ok((held, real))
}

/// Whether the settings in the home directory are outside of the fence.
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
    granted.any(|granted| {
        path.starts_with(granted)
            || granted
                .canonicalize()
                .is_ok_and(|real| path.starts_with(real))
    })
}

/// A program starts in a directory that it may at least read, or of which it may use a file.
fn within(real: &Path, command: &Command, temporary: &Path) -> Result<(), ProcessError> {
    let fence = &command.fence;
    let mut granted = fence.read.iter().chain(&fence.write);
    let holds_file = granted.any(|path| path.parent() == Some(real) && path.is_file());
    if is_granted(real, fence) || holds_file || real.starts_with(temporary) {
        return Ok(());
    }
    Err(ProcessError::Directory {
        path: command.cwd.clone(),
        reason: "it is outside of what this command may read".to_owned(),
    })
}

/// The launcher does not know the path of the directory it was given.
fn placed(error: ProcessError, command: &Command) -> ProcessError {
    match error {
        ProcessError::Directory { reason, .. } => ProcessError::Directory {
            path: command.cwd.clone(),
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
