//! All the programs of one host, by session: the only way to start one.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{Mode, OFlags};
use tokio::sync::{mpsc, watch};

use crate::environment::Surroundings;
use crate::folder::{Folder, SessionFolder};
use crate::hints::hints;
use crate::job::{Handle, News, Order, Process};
use crate::mind::{Ground, Live, Minder, Times};
use crate::output::Output;
use crate::spawn::{Ends, Writer, spawn};
use crate::walls::walls;
use crate::wire::{Orders, Walls};
use crate::{
    Chunk, Command, Confinement, Exit, Finished, Input, Job, ProcessError, Settings, Signal, State, Stream,
};

/// Finished jobs of a session whose output can still be read.
const REMEMBERED: usize = 64;
/// How long a job may leave its input unread.
const INPUT_PATIENCE: Duration = Duration::from_secs(5);
/// Beyond the grace; the minder gives up a little earlier.
const END_PATIENCE: Duration = Duration::from_secs(12);
/// Pieces of output on their way to a listener.
const PIECES: usize = 8;
/// The end-of-input character of a terminal.
const END_OF_INPUT: u8 = 4;

/// A handle; clones share the same programs. When the last one is dropped, everything is killed.
#[derive(Clone)]
pub struct Processes {
    inner: Arc<Inner>,
}

struct Inner {
    settings: Settings,
    sessions: Mutex<HashMap<String, Session>>,
    next: AtomicU64,
    closing: AtomicBool,
    folder: Folder,
}

struct Session {
    folder: Arc<SessionFolder>,
    jobs: BTreeMap<u64, Handle>,
    /// Starts that are under way: they count before they are jobs.
    starting: usize,
}

/// A program that was started for somebody who waits for it.
struct Started {
    handle: Handle,
    walls: Option<Walls>,
    listener: mpsc::Receiver<(Stream, Vec<u8>)>,
}

impl Processes {
    pub fn new(settings: Settings) -> Result<Processes, ProcessError> {
        let folder = Folder::new(&settings.output_dir)?;
        Ok(Processes {
            inner: Arc::new(Inner {
                settings,
                sessions: Mutex::default(),
                next: AtomicU64::new(1),
                closing: AtomicBool::new(false),
                folder,
            }),
        })
    }

    /// Runs a program to its end, or to that of `stop`. Dropping this future kills the program and all it started.
    pub async fn run(
        &self,
        command: Command,
        live: &mut (dyn FnMut(Stream, &[u8]) + Send),
        stop: impl Future<Output = ()> + Send,
    ) -> Result<Finished, ProcessError> {
        let ground = Ground::Front(command.leftovers);
        let Started {
            handle,
            walls,
            mut listener,
        } = self.begin(&command, ground).await?;
        let mut guard = KillOnDrop(Some(handle.clone()));
        let mut news = handle.process.news.subscribe();
        let mut stop = pin!(stop);
        let mut asked = false;
        let done = |news: &News| match news.state {
            State::Running => false,
            State::Left { .. } | State::Ended { .. } => true,
        };
        loop {
            tokio::select! {
                Some((stream, bytes)) = listener.recv() => live(stream, &bytes),
                () = &mut stop, if !asked => {
                    asked = true;
                    handle.tell(Order::End);
                }
                _ = news.wait_for(done) => break,
            }
        }
        while let Ok((stream, bytes)) = listener.try_recv() {
            live(stream, &bytes);
        }
        guard.0 = None;
        // A job that goes on has told this much already.
        handle.process.cursor.store(handle.process.output().total(), Ordering::Relaxed);
        let finished = finished(&handle, walls.as_ref(), &command);
        if finished.job.is_some() {
            handle.tell(Order::Detach);
        }
        Ok(finished)
    }

    /// Starts a program in the background, as a job of its session.
    pub async fn start(&self, command: Command) -> Result<Job, ProcessError> {
        let started = self.begin(&command, Ground::Back).await?;
        Ok(started.handle.process.job())
    }

    /// The jobs of a session, the oldest first; also those that ended, as far as they are remembered.
    pub fn jobs(&self, session: &str) -> Vec<Job> {
        let sessions = self.inner.sessions();
        let jobs = sessions.get(session).into_iter().flat_map(|session| session.jobs.values());
        jobs.filter(|handle| handle.process.listed.load(Ordering::Relaxed))
            .map(|handle| handle.process.job())
            .collect()
    }

    /// Combined output from `after` on, or from where the last reader stopped. When there is none yet, waits up to
    /// `wait` for some, or for the end of the job.
    pub async fn read(
        &self,
        session: &str,
        id: u64,
        after: Option<u64>,
        max: usize,
        wait: Duration,
    ) -> Result<Chunk, ProcessError> {
        let process = self.inner.job(session, id)?.process;
        let from = after.unwrap_or_else(|| process.cursor.load(Ordering::Relaxed));
        process.wait_until(wait, |news| news.bytes > from || news.state.is_over()).await;
        Ok(process.chunk(after, max))
    }

    /// Waits up to `wait` for the end of a job.
    pub async fn wait(&self, session: &str, id: u64, wait: Duration) -> Result<Job, ProcessError> {
        let process = self.inner.job(session, id)?.process;
        process.wait_until(wait, |news| news.state.is_over()).await;
        Ok(process.job())
    }

    /// Input for a job that was started with [`Input::Open`], or on a terminal.
    pub async fn write(&self, session: &str, id: u64, bytes: &[u8]) -> Result<(), ProcessError> {
        let process = self.inner.job(session, id)?.process;
        let no_input = |reason| ProcessError::NoInput { id, reason };
        let stdin = process.stdin.lock().await;
        if process.state() != State::Running {
            return Err(no_input("it has ended"));
        }
        let writer = stdin.as_ref().ok_or(no_input("it was started with its input closed"))?;
        let mut written = 0;
        while written < bytes.len() {
            match tokio::time::timeout(INPUT_PATIENCE, writer.write(&bytes[written..])).await {
                Ok(Ok(count)) => written += count,
                Ok(Err(_)) => return Err(no_input("it does not read any more")),
                Err(_) => {
                    let waited = INPUT_PATIENCE;
                    return Err(ProcessError::InputFull { id, written, waited });
                }
            }
        }
        Ok(())
    }

    /// Ends a job's input.
    pub async fn close_input(&self, session: &str, id: u64) -> Result<(), ProcessError> {
        *self.inner.job(session, id)?.process.stdin.lock().await = None;
        Ok(())
    }

    /// Sends a signal to all of a job. After [`Signal::Term`] and [`Signal::Kill`] it waits for the end, with others
    /// for as long as the grace lasts.
    pub async fn kill(&self, session: &str, id: u64, signal: Signal) -> Result<Job, ProcessError> {
        let handle = self.inner.job(session, id)?;
        handle.tell(Order::Signal(signal));
        let wait = match signal {
            Signal::Term | Signal::Kill => END_PATIENCE + self.inner.settings.kill_grace,
            Signal::Int | Signal::Hup | Signal::Quit => self.inner.settings.kill_grace,
            Signal::Usr1 | Signal::Usr2 | Signal::Stop | Signal::Cont => Duration::ZERO,
        };
        handle.process.wait_until(wait, |news| news.state.is_over()).await;
        Ok(handle.process.job())
    }

    /// Ends every program of a session and removes its files.
    pub async fn end_session(&self, session: &str) {
        let ended = self.inner.sessions().remove(session);
        if let Some(session) = ended {
            session.end(self.inner.settings.kill_grace).await;
        }
    }

    /// Ends everything; nothing is started any more.
    pub async fn shutdown(&self) {
        self.inner.closing.store(true, Ordering::SeqCst);
        let sessions: Vec<Session> = self.inner.sessions().drain().map(|(_, session)| session).collect();
        for session in &sessions {
            session.tell_all();
        }
        for session in sessions {
            session.end(self.inner.settings.kill_grace).await;
        }
    }

    async fn begin(&self, command: &Command, ground: Ground) -> Result<Started, ProcessError> {
        let inner = &self.inner;
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
        };
        let (variables, dropped) = settings.environment.compose(&command.env, &around)?;
        let ends = Ends::make(command)?;
        let fence = match settings.confinement {
            Confinement::Off => None,
            Confinement::Required => {
                within(&real, command, &temporary)?;
                let fence = &command.fence;
                Some(walls(fence, &settings.path, &program, &temporary, ends.tty.as_deref()))
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
            command: std::iter::once(&command.program).chain(&command.arguments).cloned().collect(),
            pid,
            started: started.0,
            began: started.1,
            dropped,
            output: Mutex::new(Output::new(folder.output(id), settings.keep_text, settings.keep_output)),
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
        let handle = Handle { process, orders: tell };
        place.take(handle.clone())?;
        Ok(Started {
            handle,
            walls: orders.fence.take(),
            listener,
        })
    }
}

impl Inner {
    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn job(&self, session: &str, id: u64) -> Result<Handle, ProcessError> {
        let sessions = self.sessions();
        let jobs = sessions.get(session).map(|session| &session.jobs);
        if let Some(handle) = jobs.and_then(|jobs| jobs.get(&id)) {
            return Ok(handle.clone());
        }
        let listed = |handle: &&Handle| handle.process.listed.load(Ordering::Relaxed);
        let known = jobs.into_iter().flat_map(BTreeMap::values).filter(listed);
        let known: Vec<_> = known.map(|handle| handle.process.id.to_string()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Err(ProcessError::UnknownJob { id, known })
    }

    /// Room for one more program in a session, which is made when it is new.
    fn place(self: &Arc<Inner>, name: &str) -> Result<(Place, Arc<SessionFolder>), ProcessError> {
        if self.closing.load(Ordering::SeqCst) {
            return Err(ProcessError::Closing);
        }
        let mut sessions = self.sessions();
        if !sessions.contains_key(name) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let session = Session {
                folder: Arc::new(self.folder.session(number)?),
                jobs: BTreeMap::new(),
                starting: 0,
            };
            sessions.insert(name.to_owned(), session);
        }
        let session = sessions.get_mut(name).expect("it was put there a line above");
        let running = session.starting + session.jobs.values().filter(|job| !job.process.state().is_over()).count();
        let most = self.settings.max_jobs;
        if running >= most {
            return Err(ProcessError::TooMany { running, most });
        }
        session.starting += 1;
        let folder = Arc::clone(&session.folder);
        let place = Place {
            inner: Arc::clone(self),
            session: name.to_owned(),
            folder: Arc::clone(&folder),
        };
        Ok((place, folder))
    }
}

/// A start that is under way.
struct Place {
    inner: Arc<Inner>,
    session: String,
    /// Tells the session from a later one of the same name.
    folder: Arc<SessionFolder>,
}

impl Place {
    /// Fails when the session was ended meanwhile; the program is then killed, because nobody holds its handle.
    fn take(self, handle: Handle) -> Result<(), ProcessError> {
        self.with_session(|session| {
            session.jobs.insert(handle.process.id, handle);
            session.forget();
        })
        .ok_or(ProcessError::Closing)
    }

    fn with_session(&self, act: impl FnOnce(&mut Session)) -> Option<()> {
        let mut sessions = self.inner.sessions();
        let session = sessions.get_mut(&self.session)?;
        Arc::ptr_eq(&session.folder, &self.folder).then(|| act(session))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.with_session(|session| session.starting -= 1);
    }
}

impl Session {
    /// The oldest of too many that ended, with their files.
    fn forget(&mut self) {
        let over: Vec<u64> =
            self.jobs.iter().filter(|(_, job)| job.process.state().is_over()).map(|(&id, _)| id).collect();
        for id in &over[..over.len().saturating_sub(REMEMBERED)] {
            self.jobs.remove(id);
            // One that wrote nothing has no file.
            let _ = std::fs::remove_file(self.folder.output(*id));
        }
    }

    fn tell_all(&self) {
        for handle in self.jobs.values() {
            handle.tell(Order::End);
        }
    }

    async fn end(self, grace: Duration) {
        self.tell_all();
        for handle in self.jobs.values() {
            handle.process.wait_until(END_PATIENCE + grace, |news| news.state.is_over()).await;
        }
    }
}

struct KillOnDrop(Option<Handle>);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Some(handle) = &self.0 {
            handle.tell(Order::Kill);
        }
    }
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

fn finished(handle: &Handle, walls: Option<&Walls>, command: &Command) -> Finished {
    let process = &handle.process;
    let state = process.state();
    let exit = state.exit().unwrap_or(Exit::Lost);
    let (stdout, stderr, combined) = process.output().kept();
    let output_file = process.output().path().map(Path::to_owned);
    let (job, confirmed) = match state {
        State::Running | State::Left { .. } => (Some(process.id), false),
        State::Ended { confirmed, .. } => (None, confirmed),
    };
    let fence = &command.fence;
    Finished {
        exit,
        hints: hints(walls, (&fence.read, &fence.write), exit, &combined),
        stdout,
        stderr,
        combined,
        pid: process.pid,
        pgid: process.pid,
        duration: process.duration(),
        output_file,
        dropped: process.dropped.clone(),
        left: process.left(),
        job,
        confirmed,
    }
}

/// A directory, held, and where it really is.
fn working_directory(path: &Path) -> Result<(OwnedFd, PathBuf), ProcessError> {
    let failed = |reason: String| ProcessError::Directory {
        path: path.to_owned(),
        reason,
    };
    if !path.is_absolute() {
        return Err(failed("it is not an absolute path".to_owned()));
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let held = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| failed(error.to_string()))?;
    let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&held));
    let real = std::fs::read_link(link).map_err(|error| failed(error.to_string()))?;
    Ok((held, real))
}

/// A program starts in a directory that it may at least read.
fn within(real: &Path, command: &Command, temporary: &Path) -> Result<(), ProcessError> {
    let fence = &command.fence;
    let granted = fence.read.iter().chain(&fence.write).map(PathBuf::as_path).chain([temporary]);
    for path in granted {
        if path.canonicalize().is_ok_and(|granted| real.starts_with(granted)) {
            return Ok(());
        }
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

fn utf8(args: &[std::ffi::OsString]) -> Vec<String> {
    args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect()
}
