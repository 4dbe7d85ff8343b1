//! Programs for one call: only the command that a rule or the user authorized is started.

use std::fs::read_link;
use std::os::fd::{AsFd, AsRawFd as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use toolhost_contract::policy::{AuthorizedCommand, AuthorizedTask, RunningJob};
use toolhost_contract::{Failure, Grant, text};
use toolhost_process::{JobOwner, OpenPath, Processes, SandboxPermissions};
use toolhost_vfs::{Access, OpenHow, PathError, Root, Scope};

use crate::path_view::PathView;

/// Programs that the operator allows to one plugin.
#[derive(Clone)]
pub struct ProgramGrant {
    pub processes: Processes,
    /// Programs allowed by the operator and requested by the plugin's manifest.
    pub programs: Arc<[String]>,
    /// Whether programs may use the network.
    pub network: bool,
    /// Guest path of the directory with the outputs of a session's programs.
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
        shells
            .find(|shell| self.processes.is_available(shell))
            .copied()
    }

    /// Finds a background program by its job id or process id.
    pub fn job(&self, owner: &JobOwner, name: &str) -> Option<RunningJob> {
        let jobs = self.processes.jobs(owner);
        let name = name.trim();
        let by_id = jobs.iter().find(|job| job_name(job.id) == name);
        let job = by_id.or_else(|| jobs.iter().find(|job| job.pid.to_string() == name))?;
        let command = match job.command.as_slice() {
            [shell, flag, command] if SHELLS.contains(&shell.as_str()) && flag.starts_with('-') => {
                command.clone()
            }
            arguments => arguments.join(" "),
        };
        Some(RunningJob {
            id: job_name(job.id),
            command,
        })
    }
}

/// Formats a job id, for example `job-1`.
pub fn job_name(id: u64) -> String {
    format!("job-{id}")
}

/// The programs that one call may use.
#[derive(Clone)]
pub struct CallPrograms {
    pub grant: ProgramGrant,
    pub owner: JobOwner,
    /// Whether it may start programs, write to them and end them.
    pub may_change: bool,
    authorized: AuthorizedAction,
    /// The authorized command or input was used.
    used: Arc<AtomicBool>,
}

/// The command that the call may start, or the program that it may use.
#[derive(Debug, Clone)]
pub enum AuthorizedAction {
    /// The input contains neither a command nor a running program.
    Anything,
    Command(AuthorizedCommand),
    Task(AuthorizedTask),
}

impl AuthorizedAction {
    /// Converts paths to guest paths; the working directory was authorized under the name that the caller used.
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

/// The program that a guest requests to start.
pub struct ProgramRequest {
    pub program: String,
    pub arguments: Vec<String>,
    pub cwd: Option<String>,
    pub environment: Vec<(String, String)>,
    pub stdin: Option<Vec<u8>>,
    pub tty: bool,
}

const SHELLS: [&str; 2] = ["bash", "sh"];

impl CallPrograms {
    pub fn new(
        grant: ProgramGrant,
        owner: JobOwner,
        acts: bool,
        authorized: AuthorizedAction,
    ) -> Self {
        Self {
            grant,
            owner,
            may_change: acts,
            authorized,
            used: Arc::default(),
        }
    }

    /// Whether the input determines the command or program. Only that was authorized, not other actions of the
    /// plugin.
    pub fn is_bound(&self) -> bool {
        !matches!(self.authorized, AuthorizedAction::Anything)
    }

    /// Whether the standard input of a background program stays open.
    pub fn opens_input(&self) -> bool {
        match &self.authorized {
            AuthorizedAction::Anything => true,
            AuthorizedAction::Command(command) => command.tty,
            AuthorizedAction::Task(_) => false,
        }
    }

    /// Returns the command to start. For a call with an authorized command, this is always that command; a
    /// different request is an error.
    pub fn authorize(&self, wanted: ProgramRequest) -> Result<ProgramRequest, Failure> {
        let program = &wanted.program;
        if !self.may_change {
            return Err(Failure::new(
                "service_not_granted",
                "a read-only tool cannot start programs",
            ));
        }
        if !self.grant.programs.iter().any(|name| name == program) {
            let shown = text::escape_line(program, 80);
            let names = self.grant.programs.join(", ");
            return Err(Failure {
                recommendations: vec![format!(
                    "to allow it, set `--allow-program {shown}` and list it in the plugin's manifest"
                )],
                ..Failure::new(
                    "program_not_allowed",
                    format!("`{shown}` is not allowed for this plugin; allowed: {names}"),
                )
            });
        }
        let command = match &self.authorized {
            AuthorizedAction::Anything => return Ok(wanted),
            AuthorizedAction::Command(command) => command,
            AuthorizedAction::Task(_) => {
                return Err(command_differs(
                    "the action",
                    "only input to a running program was authorized",
                ));
            }
        };
        check(&wanted, command)?;
        if self.used.load(Ordering::Relaxed) {
            return Err(Failure::new(
                "command_used",
                "the command of this call was already started; it is authorized only once",
            ));
        }
        let [shell, flag, text] = command.argv.as_slice() else {
            return Err(command_differs("the program", "no shell was authorized"));
        };
        let variables = command.variables.iter();
        Ok(ProgramRequest {
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

    /// Marks the authorization as used.
    pub fn mark_used(&self) {
        self.used.store(true, Ordering::Relaxed);
    }

    /// Checks that the call may send a signal to this job.
    pub fn authorize_signal(&self, job: &str) -> Result<(), Failure> {
        match &self.authorized {
            AuthorizedAction::Task(task) if task.job.as_deref() != Some(job) => {
                Err(command_differs(
                    "the program",
                    "this call was authorized to end another program",
                ))
            }
            AuthorizedAction::Task(_)
            | AuthorizedAction::Anything
            | AuthorizedAction::Command(_) => Ok(()),
        }
    }

    /// Checks that the call may write this input to this job.
    pub fn authorize_input(&self, job: &str, bytes: &[u8]) -> Result<(), Failure> {
        let refused = |message: &str| {
            Err(Failure {
                recommendations: vec![
                    "use `shell_input`, which is authorized by program and text".to_owned(),
                ],
                ..Failure::new("input_not_authorized", message)
            })
        };
        match &self.authorized {
            AuthorizedAction::Command(_) => refused(
                "this call was authorized to run its command, not to write to a program's input",
            ),
            AuthorizedAction::Task(task) if task.job.as_deref() != Some(job) => {
                refused("this call was authorized to write to another program")
            }
            AuthorizedAction::Task(task) if task.text.as_bytes() != bytes => {
                refused("this call was authorized to write a different text")
            }
            AuthorizedAction::Task(_) if self.used.load(Ordering::Relaxed) => {
                refused("the text of this call was already written")
            }
            AuthorizedAction::Anything | AuthorizedAction::Task(_) => Ok(()),
        }
    }

    /// Guest path of a file that a program wrote output to.
    pub fn guest_name(&self, path: &Path) -> Option<String> {
        let host = self.grant.processes.output_directory(&self.owner.session);
        let rest = path.strip_prefix(host.ok()?).ok()?;
        Some(
            Path::new(&self.grant.output)
                .join(rest)
                .to_string_lossy()
                .into_owned(),
        )
    }

    /// Replaces host paths in a text by guest paths.
    pub fn in_guest_names(text: &str, scope: &Scope) -> String {
        let mut roots: Vec<_> = scope.roots().iter().collect();
        roots.sort_by_key(|root| std::cmp::Reverse(root.host().as_os_str().len()));
        roots.iter().fold(text.to_owned(), |text, root| {
            text.replace(&*root.host().to_string_lossy(), root.guest())
        })
    }

    /// Working directory of a program and the paths that it may access: only the directories of the call. Both use
    /// the descriptors that are already open, so no host path is resolved again.
    pub fn confinement(
        &self,
        cwd: Option<&str>,
        scope: &Scope,
        windows: &[PathView],
    ) -> Result<(OpenPath, SandboxPermissions), Failure> {
        let folders = || {
            let windows = windows.iter();
            windows.filter(|window| window.guest != self.grant.output)
        };
        let outside = |path: &str| {
            let names: Vec<&str> = folders().map(|window| window.guest.as_str()).collect();
            Failure {
                recommendations: vec![format!(
                    "use one of these directories as `cwd`: {}",
                    text::escape_line(&names.join(", "), 1_000)
                )],
                ..Failure::new(
                    "path_not_in_workspace",
                    format!(
                        "`{}` is not in a directory of this call",
                        text::escape_line(path, 200)
                    ),
                )
            }
        };
        // Policy resolves relative paths against the first root, even if it is not available to this call.
        let mut roots = scope.roots().iter().map(Root::guest);
        let first = roots.find(|guest| *guest != self.grant.output);
        let first = first.filter(|_| folders().next().is_some());
        let cwd = cwd.or(first).ok_or_else(|| {
            Failure::new("path_not_in_workspace", "no working directory is granted")
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
            PathError::NotFound => Failure::new(
                "directory_not_found",
                format!("no directory `{}`", text::escape_line(&shown, 200)),
            ),
            PathError::NotDirectory => Failure::new(
                "path_is_not_a_directory",
                format!("`{}` is not a directory", text::escape_line(&shown, 200)),
            ),
            _ => outside(&shown),
        })?;
        // The directory was moved or removed, so the program would run under another path.
        if let Some(window) = folders().find(|window| !is_in_place(window)) {
            return Err(Failure::new(
                "directory_replaced",
                format!(
                    "the directory {} was moved or replaced since it was granted",
                    window.guest
                ),
            ));
        }
        let mut permissions = SandboxPermissions {
            network: self.grant.network,
            ..SandboxPermissions::default()
        };
        for window in folders() {
            let list = match window.granted.1 {
                Access::ReadOnly => &mut permissions.read,
                Access::ReadWrite => &mut permissions.write,
            };
            list.extend(open_granted(scope, window));
        }
        Ok((cwd, permissions))
    }
}

/// Opens the directory `rest` inside a path view.
fn working_directory(scope: &Scope, window: &PathView, rest: &Path) -> Result<OpenPath, PathError> {
    let path = match rest.to_str().ok_or(PathError::NotUtf8)? {
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

/// Opens the granted directory or file of a path view. `None` if the file no longer exists.
fn open_granted(scope: &Scope, window: &PathView) -> Option<OpenPath> {
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

fn is_in_place(window: &PathView) -> bool {
    let there = rustix::fs::stat(&window.host);
    let held = rustix::fs::fstat(&*window.dir);
    matches!((there, held), (Ok(there), Ok(held)) if (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino))
}

fn command_differs(subject: &str, why: &str) -> Failure {
    Failure::new(
        "command_differs",
        format!("{subject} differs from the input of the call: {why}"),
    )
}

/// Checks that the guest's request equals the authorized command.
fn check(wanted: &ProgramRequest, command: &AuthorizedCommand) -> Result<(), Failure> {
    let why = "only what the input specifies is authorized";
    if !SHELLS.contains(&wanted.program.as_str()) {
        return Err(command_differs(
            "the program",
            "commands are run by bash or sh",
        ));
    }
    match (wanted.arguments.as_slice(), command.argv.as_slice()) {
        ([_, text], [_, _, authorized]) if text != authorized => {
            return Err(command_differs("the program", why));
        }
        ([flag, _], [_, authorized, _]) if flag != authorized => {
            return Err(command_differs(
                "the shell option",
                "a login shell requires `login` in the input, and vice versa",
            ));
        }
        ([_, _], [_, _, _]) => {}
        _ => return Err(command_differs("the program", why)),
    }
    if wanted.stdin.is_some() {
        return Err(command_differs("the standard input", why));
    }
    if wanted.cwd != command.cwd {
        return Err(command_differs("the working directory", why));
    }
    if wanted.tty && !command.tty {
        return Err(command_differs("the terminal", "the input has no `tty`"));
    }
    let known = |(name, value): &(String, String)| command.variables.get(name) == Some(value);
    match wanted.environment.iter().find(|variable| !known(variable)) {
        Some((name, _)) => Err(command_differs(
            &format!("the variable `{}`", text::escape_line(name, 80)),
            "only variables of the input and the session are passed on, with their values at authorization",
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
