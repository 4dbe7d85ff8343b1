//! Programs for one call: what may be started is what was authorized, so that what a rule or a person allowed is what
//! runs.

use std::fs::read_link;
use std::os::fd::{AsFd, AsRawFd as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use toolhost_contract::policy::{AuthorizedCommand, AuthorizedTask, RunningJob};
use toolhost_contract::{Failure, Grant, text};
use toolhost_process::{Fence, JobOwner, OpenPath, Processes};
use toolhost_vfs::{Access, OpenHow, Refusal, Root, Scope};

use crate::within::Window;

/// The programs of the host as the operator allows them to one plugin.
#[derive(Clone)]
pub struct ProgramGrant {
    pub processes: Processes,
    /// Both the operator and the plugin's manifest name them.
    pub programs: Arc<[String]>,
    /// Programs may use the network.
    pub network: bool,
    /// The name that guests know the folder by in which the outputs of their session are.
    pub output: String,
}

impl std::fmt::Debug for ProgramGrant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProgramGrant")
            .field("programs", &self.programs)
            .finish_non_exhaustive()
    }
}

impl ProgramGrant {
    /// The shell that runs the commands of calls.
    pub fn shell(&self) -> Option<&'static str> {
        let granted = |shell: &&&str| self.programs.iter().any(|name| name == **shell);
        let mut shells = SHELLS.iter().filter(granted);
        shells.find(|shell| self.processes.finds(shell)).copied()
    }

    /// The program in the background that a caller means: by its id, or by its process id.
    pub fn job(&self, owner: &JobOwner, name: &str) -> Option<RunningJob> {
        let jobs = self.processes.jobs(owner);
        let name = name.trim();
        let by_id = jobs.iter().find(|job| job_name(job.id) == name);
        let job = by_id.or_else(|| jobs.iter().find(|job| job.pid.to_string() == name))?;
        let command = match job.command.as_slice() {
            [shell, flag, command] if SHELLS.contains(&shell.as_str()) && flag.starts_with('-') => {
                command.clone()
            }
            words => words.join(" "),
        };
        Some(RunningJob {
            id: job_name(job.id),
            command,
        })
    }
}

/// `job-1`
pub fn job_name(id: u64) -> String {
    format!("job-{id}")
}

/// What one call may do with programs.
#[derive(Clone)]
pub struct Programs {
    pub grant: ProgramGrant,
    pub owner: JobOwner,
    /// It may start programs, write to them and end them.
    pub acts: bool,
    authorized: Authorized,
    /// What was authorized was done.
    used: Arc<AtomicBool>,
}

/// What the call was authorized to start, or which program to use.
#[derive(Debug, Clone)]
pub enum Authorized {
    /// Its input names neither a command nor a running program.
    Anything,
    Command(AuthorizedCommand),
    Task(AuthorizedTask),
}

impl Authorized {
    /// With the names that the guest knows; the working directory was authorized by the name that the caller wrote.
    pub fn of(grant: &Grant, in_guest_names: impl Fn(&mut String)) -> Self {
        if let Some(command) = grant.command() {
            let mut command = command.clone();
            if let Some(cwd) = &mut command.cwd {
                in_guest_names(cwd);
            }
            return Self::Command(command);
        }
        match grant.task() {
            Some(task) => Self::Task(task.clone()),
            None => Self::Anything,
        }
    }
}

/// What a guest wants started.
pub struct Wanted {
    pub program: String,
    pub arguments: Vec<String>,
    pub cwd: Option<String>,
    pub environment: Vec<(String, String)>,
    pub stdin: Option<Vec<u8>>,
    pub tty: bool,
}

const SHELLS: [&str; 2] = ["bash", "sh"];

impl Programs {
    pub fn new(grant: ProgramGrant, owner: JobOwner, acts: bool, authorized: Authorized) -> Self {
        Self {
            grant,
            owner,
            acts,
            authorized,
            used: Arc::default(),
        }
    }

    /// Its input says what it runs or uses, and that was judged. What else its plugin does was not.
    pub fn is_bound(&self) -> bool {
        !matches!(self.authorized, Authorized::Anything)
    }

    /// Standard input of a program that it starts in the background stays open.
    pub fn opens_input(&self) -> bool {
        match &self.authorized {
            Authorized::Anything => true,
            Authorized::Command(command) => command.tty,
            Authorized::Task(_) => false,
        }
    }

    /// What is started: of a call that was authorized for a command that command, whatever the guest has made of it.
    /// A guest that wants something else is told so.
    pub fn authorize(&self, wanted: Wanted) -> Result<Wanted, Failure> {
        let program = &wanted.program;
        if !self.acts {
            return Err(Failure::new(
                "service_not_granted",
                "a tool that only reads cannot start programs",
            ));
        }
        if !self.grant.programs.iter().any(|name| name == program) {
            let shown = text::inline(program, 80);
            let names = self.grant.programs.join(", ");
            return Err(Failure {
                recommendations: vec![format!(
                    "to allow: `--allow-program {shown}`, where the plugin's manifest names it too"
                )],
                ..Failure::new(
                    "program_not_allowed",
                    format!("`{shown}` is not allowed to this plugin; allowed: {names}"),
                )
            });
        }
        let command = match &self.authorized {
            Authorized::Anything => return Ok(wanted),
            Authorized::Command(command) => command,
            Authorized::Task(_) => {
                return Err(differs(
                    "a new program",
                    "only the use of a running one was authorized",
                ));
            }
        };
        check(&wanted, command)?;
        if self.used.load(Ordering::Relaxed) {
            return Err(Failure::new(
                "command_used",
                "the command of this call was started already, and it was authorized once",
            ));
        }
        let [shell, flag, text] = command.argv.as_slice() else {
            return Err(differs("the program", "no shell was authorized"));
        };
        let variables = command.variables.iter();
        Ok(Wanted {
            program: shell.clone(),
            arguments: vec![flag.clone(), text.clone()],
            cwd: command.cwd.clone(),
            environment: variables
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            stdin: None,
            tty: command.tty,
        })
    }

    /// What was authorized was done, and counts no more.
    pub fn done(&self) {
        self.used.store(true, Ordering::Relaxed);
    }

    /// May the call send a signal to the job of this name?
    pub fn authorize_signal(&self, job: &str) -> Result<(), Failure> {
        match &self.authorized {
            Authorized::Task(task) if task.job.as_deref() != Some(job) => Err(differs(
                "the program",
                "this call was authorized to end another one",
            )),
            Authorized::Task(_) | Authorized::Anything | Authorized::Command(_) => Ok(()),
        }
    }

    /// May the call type this into the job of this name?
    pub fn authorize_input(&self, job: &str, bytes: &[u8]) -> Result<(), Failure> {
        let refused = |message: &str| {
            Err(Failure {
                recommendations: vec![
                    "type with `shell_input`, which is judged by the program and the text"
                        .to_owned(),
                ],
                ..Failure::new("input_not_authorized", message)
            })
        };
        match &self.authorized {
            Authorized::Command(_) => refused(
                "this call was authorized to run its command, and not to type into a program",
            ),
            Authorized::Task(task) if task.job.as_deref() != Some(job) => {
                refused("this call was authorized to type into another program")
            }
            Authorized::Task(task) if task.text.as_bytes() != bytes => {
                refused("this call was authorized to type another text")
            }
            Authorized::Task(_) if self.used.load(Ordering::Relaxed) => {
                refused("the text of this call was typed already")
            }
            Authorized::Anything | Authorized::Task(_) => Ok(()),
        }
    }

    /// The guest's name of a file that a program wrote to.
    pub fn guest_name(&self, path: &Path) -> Option<String> {
        let host = self.grant.processes.output_folder(&self.owner.session);
        let rest = path.strip_prefix(host.ok()?).ok()?;
        Some(
            Path::new(&self.grant.output)
                .join(rest)
                .to_string_lossy()
                .into_owned(),
        )
    }

    /// A text of the host's, with the names of folders that the guest knows.
    pub fn in_guest_names(text: &str, scope: &Scope) -> String {
        let mut roots: Vec<_> = scope.roots().iter().collect();
        roots.sort_by_key(|root| std::cmp::Reverse(root.host().as_os_str().len()));
        roots.iter().fold(text.to_owned(), |text, root| {
            text.replace(&*root.host().to_string_lossy(), root.guest())
        })
    }

    /// Where the program runs, and what it may touch: the folders of the call and nothing else of the user's. Both are
    /// made of the folders as they were opened; no path of the host's is looked up.
    pub fn place(
        &self,
        cwd: Option<&str>,
        scope: &Scope,
        windows: &[Window],
    ) -> Result<(OpenPath, Fence), Failure> {
        let folders = || {
            let windows = windows.iter();
            windows.filter(|window| window.guest != self.grant.output)
        };
        let outside = |path: &str| {
            let names: Vec<&str> = folders().map(|window| window.guest.as_str()).collect();
            Failure {
                recommendations: vec![format!(
                    "a folder to work in, as `cwd`: {}",
                    text::inline(&names.join(", "), 1_000)
                )],
                ..Failure::new(
                    "path_not_in_workspace",
                    format!("`{}` is no folder of this call", text::inline(path, 200)),
                )
            }
        };
        // Where relative paths begin for whoever judged the call, whether or not it is there for this one.
        let mut roots = scope.roots().iter().map(Root::guest);
        let first = roots.find(|guest| *guest != self.grant.output);
        let first = first.filter(|_| folders().next().is_some());
        let cwd = cwd.or(first).ok_or_else(|| {
            Failure::new("path_not_in_workspace", "no folder is granted to work in")
        })?;
        let cwd = if cwd.starts_with('/') {
            PathBuf::from(cwd)
        } else {
            Path::new(first.unwrap_or("/")).join(cwd)
        };
        let shown = cwd.to_string_lossy().into_owned();
        let window = folders()
            .filter(|window| cwd.starts_with(&window.guest))
            .max_by_key(|window| window.guest.len())
            .ok_or_else(|| outside(&shown))?;
        let rest = cwd
            .strip_prefix(&window.guest)
            .map_err(|_| outside(&shown))?;
        let cwd = working_directory(scope, window, rest).map_err(|refusal| match refusal {
            Refusal::NotFound => Failure::new(
                "directory_not_found",
                format!("no folder `{}`", text::inline(&shown, 200)),
            ),
            Refusal::NotDirectory => Failure::new(
                "path_is_not_a_directory",
                format!("`{}` is not a folder", text::inline(&shown, 200)),
            ),
            _ => outside(&shown),
        })?;
        // The program would work in a folder that has another name by now, or none.
        if let Some(window) = folders().find(|window| !is_where_it_was(window)) {
            return Err(Failure::new(
                "folder_exchanged",
                format!(
                    "the folder {} is not what it was when it was granted",
                    window.guest
                ),
            ));
        }
        let mut fence = Fence {
            network: self.grant.network,
            ..Fence::default()
        };
        for window in folders() {
            let list = match window.granted.1 {
                Access::ReadOnly => &mut fence.read,
                Access::ReadWrite => &mut fence.write,
            };
            list.extend(granted(scope, window));
        }
        Ok((cwd, fence))
    }
}

/// The folder `rest` of a window.
fn working_directory(scope: &Scope, window: &Window, rest: &Path) -> Result<OpenPath, Refusal> {
    let path = match rest.to_str().ok_or(Refusal::NotUtf8)? {
        "" => return Ok(OpenPath::new(window.host.clone(), Arc::clone(&window.dir))),
        rest => rest,
    };
    let how = OpenHow {
        read: true,
        directory: true,
        follow: true,
        ..OpenHow::default()
    };
    let opened = scope.open_at(window.dir.as_fd(), window.granted.1, path, &how)?;
    let real = read_link(format!("/proc/self/fd/{}", opened.fd.as_raw_fd()));
    let real = real.unwrap_or_else(|_| window.host.join(rest));
    Ok(OpenPath::new(real, opened.fd))
}

/// What a window grants, open: its folder, or the file in it. None when the file is gone.
fn granted(scope: &Scope, window: &Window) -> Option<OpenPath> {
    let (path, access) = &window.granted;
    if *path == window.host {
        return Some(OpenPath::new(path.clone(), Arc::clone(&window.dir)));
    }
    let how = OpenHow {
        read: true,
        ..OpenHow::default()
    };
    let name = path.file_name()?.to_str()?;
    let opened = scope
        .open_at(window.dir.as_fd(), *access, name, &how)
        .ok()?;
    Some(OpenPath::new(path.clone(), opened.fd))
}

fn is_where_it_was(window: &Window) -> bool {
    let there = rustix::fs::stat(&window.host);
    let held = rustix::fs::fstat(&*window.dir);
    matches!((there, held), (Ok(there), Ok(held)) if (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino))
}

fn differs(what: &str, why: &str) -> Failure {
    Failure::new(
        "command_differs",
        format!("{what} is not what the input of the call says: {why}"),
    )
}

/// Does the guest want what was authorized?
fn check(wanted: &Wanted, command: &AuthorizedCommand) -> Result<(), Failure> {
    let why = "only what the input says was authorized";
    if !SHELLS.contains(&wanted.program.as_str()) {
        return Err(differs("the program", "a command is run by bash or sh"));
    }
    match (wanted.arguments.as_slice(), command.argv.as_slice()) {
        ([_, text], [_, _, authorized]) if text != authorized => {
            return Err(differs("the program", why));
        }
        ([flag, _], [_, authorized, _]) if flag != authorized => {
            return Err(differs(
                "the way the shell is started",
                "it is a login shell where the input has `login`, and only then",
            ));
        }
        ([_, _], [_, _, _]) => {}
        _ => return Err(differs("the program", why)),
    }
    if wanted.stdin.is_some() {
        return Err(differs("the standard input", why));
    }
    if wanted.cwd != command.cwd {
        return Err(differs("the folder", why));
    }
    if wanted.tty && !command.tty {
        return Err(differs("a terminal", "the input has no `tty`"));
    }
    let known = |(name, value): &(String, String)| command.variables.get(name) == Some(value);
    match wanted.environment.iter().find(|variable| !known(variable)) {
        Some((name, _)) => Err(differs(
            &format!("the variable `{}`", text::inline(name, 80)),
            "only those of the input and of the session, as they were when the call was authorized, are passed on",
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
