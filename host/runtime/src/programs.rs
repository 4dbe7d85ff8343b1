//! Programs for one call: what may be started is what the input of the call says, so that what a rule or a person
//! allowed is what runs.

use std::collections::BTreeMap;
use std::fs::read_link;
use std::os::fd::{AsFd, AsRawFd as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use toolhost_contract::{Failure, text};
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

/// What one call may do with programs.
#[derive(Clone)]
pub struct Programs {
    pub grant: ProgramGrant,
    pub owner: JobOwner,
    /// It may start programs, write to them and end them.
    pub acts: bool,
    /// What its input says; None: it names no command.
    said: Option<Said>,
}

#[derive(Clone)]
struct Said {
    command: String,
    cwd: Option<String>,
    env: BTreeMap<String, String>,
}

/// What a guest wants started.
pub struct Wanted<'a> {
    pub program: &'a str,
    pub arguments: &'a [String],
    pub cwd: Option<&'a str>,
    pub environment: &'a [(String, String)],
    pub stdin: Option<&'a [u8]>,
}

const SHELLS: [&str; 2] = ["bash", "sh"];

impl Programs {
    pub fn new(grant: ProgramGrant, owner: JobOwner, acts: bool, input: &Value) -> Self {
        let word = |member: &str| input.get(member).and_then(Value::as_str).map(str::to_owned);
        let variables = input.get("env").and_then(Value::as_object);
        let env = variables
            .into_iter()
            .flatten()
            .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
            .collect();
        // What the policy judges is what is bound.
        let said = word("command").or_else(|| word("cmd")).map(|command| Said {
            command,
            cwd: word("cwd"),
            env,
        });
        Self {
            grant,
            owner,
            acts,
            said,
        }
    }

    /// Its input says what it runs, and that was judged: whatever else its plugin does is not.
    pub fn is_bound(&self) -> bool {
        self.said.is_some()
    }

    /// Is this what the call was allowed to start? `shared`: the variables that the session has set.
    pub fn check(
        &self,
        wanted: &Wanted<'_>,
        shared: &BTreeMap<String, String>,
    ) -> Result<(), Failure> {
        let program = wanted.program;
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
        let Some(said) = &self.said else {
            return Ok(());
        };
        let differs = |what: &str| {
            Err(Failure::new(
                "command_differs",
                format!("{what} is not what the input of the call says, and only that was allowed"),
            ))
        };
        let as_said = match wanted.arguments {
            [flag, command] => matches!(flag.as_str(), "-c" | "-lc") && *command == said.command,
            _ => false,
        };
        if !SHELLS.contains(&program) || !as_said {
            return differs("the program");
        }
        if wanted.stdin.is_some() {
            return differs("the standard input");
        }
        if wanted.cwd != said.cwd.as_deref() {
            return differs("the folder");
        }
        for (name, value) in wanted.environment {
            let known = said.env.get(name) == Some(value) || shared.get(name) == Some(value);
            if !known {
                return differs("a variable");
            }
            // What a person sees in the input is theirs to judge; what was set earlier must not change what runs.
            if !said.env.contains_key(name) && steers(name) {
                let shown = text::inline(name, 80);
                return Err(Failure::new(
                    "variable_refused",
                    format!("the variable `{shown}` changes which programs run"),
                ));
            }
        }
        Ok(())
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

/// Does the variable say which program is run, or what it loads?
fn steers(name: &str) -> bool {
    const NAMES: [&str; 22] = [
        "BASH_ENV",
        "BROWSER",
        "CDPATH",
        "EDITOR",
        "ENV",
        "GLOBIGNORE",
        "IFS",
        "JAVA_TOOL_OPTIONS",
        "LESSCLOSE",
        "LESSOPEN",
        "MANPAGER",
        "NODE_OPTIONS",
        "NODE_PATH",
        "PAGER",
        "PATH",
        "PROMPT_COMMAND",
        "PS4",
        "RUSTC_WRAPPER",
        "SHELL",
        "SHELLOPTS",
        "TMPDIR",
        "VISUAL",
    ];
    const FRONTS: [&str; 9] = [
        "BASH_FUNC",
        "CARGO_",
        "DYLD_",
        "GIT_",
        "LD_",
        "NPM_CONFIG_",
        "PERL5",
        "PYTHON",
        "RUBY",
    ];
    let name = name.to_ascii_uppercase();
    NAMES.contains(&name.as_str())
        || FRONTS.iter().any(|front| name.starts_with(front))
        || name.ends_with("_COMMAND")
        || name.ends_with("_EDITOR")
        || name.ends_with("_PAGER")
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolhost_process::{Launcher, Settings};

    use super::*;

    fn programs(acts: bool, input: &Value) -> Programs {
        let dir = std::env::temp_dir().join(format!("toolhost-programs-{}", std::process::id()));
        let settings = Settings::new(Launcher::this_program([]), dir);
        let grant = ProgramGrant {
            processes: Processes::new(settings).unwrap(),
            programs: Arc::new(["bash".to_owned(), "git".to_owned()]),
            network: false,
            output: "/output".to_owned(),
        };
        Programs::new(grant, JobOwner::default(), acts, input)
    }

    /// Program, arguments, folder, variables.
    type Asked<'a> = (
        &'a str,
        &'a [&'a str],
        Option<&'a str>,
        &'a [(&'a str, &'a str)],
    );

    fn check(input: &Value, wanted: Asked<'_>, expected: &str) {
        let (program, arguments, cwd, environment) = wanted;
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let environment: Vec<_> = environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let wanted = Wanted {
            program,
            arguments: &arguments,
            cwd,
            environment: &environment,
            stdin: None,
        };
        let shared = [("LANG", "C"), ("GIT_SSH_COMMAND", "evil")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        let said = programs(true, input).check(&wanted, &shared);
        let code = said
            .err()
            .and_then(|failure| failure.code)
            .unwrap_or_default();
        assert_eq!(code, expected, "{input} {program} {arguments:?}");
    }

    #[test]
    fn what_was_allowed_is_what_runs() {
        let status = json!({"command": "git status"});
        check(&status, ("bash", &["-c", "git status"], None, &[]), "");
        check(
            &status,
            ("bash", &["-c", "git push"], None, &[]),
            "command_differs",
        );
        check(&status, ("git", &["status"], None, &[]), "command_differs");
        check(
            &status,
            ("bash", &["-c", "git status", "x"], None, &[]),
            "command_differs",
        );
        check(
            &status,
            ("zsh", &["-c", "git status"], None, &[]),
            "program_not_allowed",
        );
        check(
            &status,
            ("bash", &["-c", "git status"], Some("/extra/1"), &[]),
            "command_differs",
        );
        check(
            &status,
            ("bash", &["-c", "git status"], None, &[("LANG", "C")]),
            "",
        );
        check(
            &status,
            ("bash", &["-c", "git status"], None, &[("LANG", "D")]),
            "command_differs",
        );
        check(
            &status,
            (
                "bash",
                &["-c", "git status"],
                None,
                &[("GIT_SSH_COMMAND", "evil")],
            ),
            "variable_refused",
        );
        let with = json!({"command": "make", "cwd": "src", "env": {"GIT_DIR": "x"}});
        check(
            &with,
            ("bash", &["-lc", "make"], Some("src"), &[("GIT_DIR", "x")]),
            "",
        );
        check(&json!({}), ("git", &["status"], None, &[]), "");
    }

    #[test]
    fn a_tool_that_only_reads_starts_nothing() {
        let arguments = ["-c".to_owned(), "ls".to_owned()];
        let wanted = Wanted {
            program: "bash",
            arguments: &arguments,
            cwd: None,
            environment: &[],
            stdin: None,
        };
        let said = programs(false, &json!({"command": "ls"})).check(&wanted, &BTreeMap::new());
        assert!(said.is_err());
    }

    fn folder(dir: &Path, guest: &str, access: Access) -> toolhost_vfs::PathGrant {
        toolhost_vfs::PathGrant {
            host: dir.to_owned(),
            guest: guest.to_owned(),
            access,
            dangerous: false,
            exclude: Vec::new(),
        }
    }

    /// The inode that a descriptor holds.
    fn inode(held: impl AsFd) -> u64 {
        rustix::fs::fstat(held).unwrap().st_ino
    }

    #[test]
    fn a_12_the_fence_holds_the_folders_that_were_opened() {
        use std::os::unix::fs::{MetadataExt as _, symlink};
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for folder in ["ws/sub/deep", "outside/deep"] {
            std::fs::create_dir_all(base.join(folder)).unwrap();
        }
        std::fs::write(base.join("ws/file"), "").unwrap();
        symlink(base.join("outside"), base.join("ws/link")).unwrap();
        let grants = [
            folder(&base.join("ws"), "/ws", Access::ReadWrite),
            folder(&base.join("ws/sub"), "/ws/sub", Access::ReadWrite),
        ];
        let scope = Scope::open(&grants, &[]).unwrap();
        let windows: Vec<Window> = scope.roots().iter().map(Window::of).collect();
        let of = |path: &str| base.join(path).metadata().unwrap().ino();
        let programs = programs(true, &json!({"command": "true"}));
        let place = |cwd: &str| programs.place(Some(cwd), &scope, &windows);
        let code = |cwd: &str| place(cwd).unwrap_err().code.unwrap_or_default();

        let (cwd, fence) = place("sub/deep").unwrap();
        assert_eq!(inode(&cwd), of("ws/sub/deep"));
        assert_eq!(cwd.path(), base.join("ws/sub/deep"));
        let held: Vec<u64> = fence.write.iter().map(inode).collect();
        let opened = [of("ws"), of("ws/sub")];
        assert_eq!(held, opened);
        assert_eq!(code("link"), "path_not_in_workspace");
        assert_eq!(code("../outside"), "path_not_in_workspace");
        assert_eq!(code("none"), "directory_not_found");
        assert_eq!(code("file"), "path_is_not_a_directory");

        std::fs::rename(base.join("ws/sub"), base.join("ws/moved")).unwrap();
        symlink(base.join("outside"), base.join("ws/sub")).unwrap();
        assert_eq!(code("sub/deep"), "folder_exchanged");
        // What was made before holds what was opened, whatever has its name now.
        assert_eq!(inode(&cwd), of("ws/moved/deep"));
        assert_eq!(fence.write.iter().map(inode).collect::<Vec<_>>(), opened);
    }
}
