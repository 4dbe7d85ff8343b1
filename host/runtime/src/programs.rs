//! Programs for one call: what may be started is what the input of the call says, so that what a rule or a person
//! allowed is what runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use toolhost_contract::{Failure, text};
use toolhost_process::{Fence, Processes};
use toolhost_vfs::{Access, Root, Scope};

use crate::within::Window;

/// The programs of the host as the operator allows them to one plugin.
#[derive(Clone)]
pub struct ProgramGrant {
    pub processes: Processes,
    /// Both the operator and the plugin's manifest name them.
    pub programs: Arc<[String]>,
    /// Programs may use the network.
    pub network: bool,
    /// Where what programs wrote is kept, and what guests call it.
    pub output: (PathBuf, String),
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
    pub session: String,
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
    pub fn new(grant: ProgramGrant, session: String, acts: bool, input: &Value) -> Self {
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
            session,
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
        let (host, guest) = &self.grant.output;
        let rest = path.strip_prefix(host).ok()?;
        Some(Path::new(guest).join(rest).to_string_lossy().into_owned())
    }

    /// A text of the host's, with the names of folders that the guest knows.
    pub fn in_guest_names(text: &str, scope: &Scope) -> String {
        let mut roots: Vec<_> = scope.roots().iter().collect();
        roots.sort_by_key(|root| std::cmp::Reverse(root.host().as_os_str().len()));
        roots.iter().fold(text.to_owned(), |text, root| {
            text.replace(&*root.host().to_string_lossy(), root.guest())
        })
    }

    /// Where the program runs, and what it may touch: the folders of the call and nothing else of the user's.
    pub fn place(
        &self,
        cwd: Option<&str>,
        scope: &Scope,
        windows: &[Window],
    ) -> Result<(PathBuf, Fence), Failure> {
        let folders = || {
            let windows = windows.iter();
            windows.filter(|window| window.guest != self.grant.output.1)
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
        let first = roots.find(|guest| *guest != self.grant.output.1);
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
        let host = window.host.join(rest);
        // The fence decides what can be read there; this says it in better words.
        let real = host.canonicalize().map_err(|_| {
            Failure::new(
                "directory_not_found",
                format!("no folder `{}`", text::inline(&shown, 200)),
            )
        })?;
        if !real.starts_with(&window.host) {
            return Err(outside(&shown));
        }
        if !real.is_dir() {
            return Err(Failure::new(
                "path_is_not_a_directory",
                format!("`{}` is not a folder", text::inline(&shown, 200)),
            ));
        }
        // A folder that is another one by now was exchanged by a program that ran before.
        let exchanged = folders().find(|window| {
            let real = window.host.canonicalize();
            real.is_err() || real.is_ok_and(|real| real != window.host)
        });
        if let Some(window) = exchanged {
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
            let (path, access) = &window.granted;
            let list = match access {
                Access::ReadOnly => {
                    // The inner one of two grants holds.
                    let outer = folders().any(|outer| {
                        outer.granted.1 == Access::ReadWrite && path.starts_with(&outer.granted.0)
                    });
                    if outer {
                        fence.read_only.push(path.clone());
                    }
                    &mut fence.read
                }
                Access::ReadWrite => &mut fence.write,
            };
            list.push(path.clone());
        }
        Ok((real, fence))
    }
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
            output: (PathBuf::from("/o"), "/output".to_owned()),
        };
        Programs::new(grant, "s".to_owned(), acts, input)
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
}
