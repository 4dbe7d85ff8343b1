//! Tests of program authorization and confinement.

use std::collections::BTreeMap;
use std::ops::Deref;

use tempfile::TempDir;
use toolhost_process::{Launcher, ProcessSettings};

use super::*;

/// Programs of a call, and the directory of their processes, which is removed with them.
struct TestPrograms {
    programs: CallPrograms,
    _dir: TempDir,
}

impl Deref for TestPrograms {
    type Target = CallPrograms;

    fn deref(&self) -> &CallPrograms {
        &self.programs
    }
}

fn programs(acts: bool, authorized: AuthorizedAction) -> TestPrograms {
    // A directory for each call: a process that another test starts can hold the lock of an earlier one for a moment.
    let dir = tempfile::tempdir().unwrap();
    let settings = ProcessSettings::new(Launcher::this_program([]), dir.path().join("processes"));
    let grant = ProgramGrant {
        processes: Processes::new(settings).unwrap(),
        programs: Arc::new(["bash".to_owned(), "git".to_owned()]),
        network: false,
        output: "/output".to_owned(),
    };
    TestPrograms {
        programs: CallPrograms::new(grant, JobOwner::default(), acts, authorized),
        _dir: dir,
    }
}

fn command(flag: &str, text: &str) -> AuthorizedCommand {
    AuthorizedCommand {
        argv: ["bash", flag, text].map(str::to_owned).to_vec(),
        cwd: None,
        variables: BTreeMap::from([("LANG".to_owned(), "C".to_owned())]),
        tty: false,
    }
}

fn wanted(program: &str, arguments: &[&str]) -> ProgramRequest {
    ProgramRequest {
        program: program.to_owned(),
        arguments: arguments.iter().map(ToString::to_string).collect(),
        cwd: None,
        environment: Vec::new(),
        stdin: None,
        tty: false,
    }
}

fn code<T>(result: Result<T, Failure>) -> String {
    let failure = result.err();
    failure.and_then(|failure| failure.code).unwrap_or_default()
}

#[test]
fn a_01_only_the_authorized_command_runs() {
    let status = || wanted("bash", &["-c", "git status"]);
    let with = |name: &str, value: &str| ProgramRequest {
        environment: vec![(name.to_owned(), value.to_owned())],
        ..status()
    };
    let differs = "command_differs";
    for (wanted, expected) in [
        (status(), ""),
        (with("LANG", "C"), ""),
        (wanted("bash", &["-c", "git push"]), differs),
        (wanted("git", &["status"]), differs),
        (wanted("bash", &["-c", "git status", "x"]), differs),
        (wanted("bash", &["-c"]), differs),
        (wanted("bash", &[]), differs),
        (wanted("zsh", &["-c", "git status"]), "program_not_allowed"),
        (
            wanted("/bin/bash", &["-c", "git status"]),
            "program_not_allowed",
        ),
        (wanted("sh", &["-c", "git status"]), "program_not_allowed"),
        (wanted("bash", &["-lc", "git status"]), differs),
        (wanted("bash", &["-ic", "git status"]), differs),
        (wanted("bash", &["--login", "git status"]), differs),
        (
            wanted("bash", &["--rcfile", "x", "-c", "git status"]),
            differs,
        ),
        (wanted("bash", &["-c", "git status\0"]), differs),
        (with("LANG", "D"), differs),
        (with("HOME", "."), differs),
        (with("BASH_ENV", "x"), differs),
        (with("BASH_FUNC_git%%", "() { x; }"), differs),
        (with("GIT_CONFIG_COUNT", "1"), differs),
        (
            ProgramRequest {
                cwd: Some("/extra/1".to_owned()),
                ..status()
            },
            differs,
        ),
        (
            ProgramRequest {
                stdin: Some(b"x".to_vec()),
                ..status()
            },
            differs,
        ),
        (
            ProgramRequest {
                tty: true,
                ..status()
            },
            differs,
        ),
    ] {
        let shown = format!(
            "{} {:?} {:?}",
            wanted.program, wanted.arguments, wanted.environment
        );
        let programs = programs(true, AuthorizedAction::Command(command("-c", "git status")));
        assert_eq!(code(programs.authorize(wanted)), expected, "{shown}");
    }
}

#[test]
fn a_01_programs_get_only_authorized_variables() {
    let authorized = AuthorizedCommand {
        cwd: Some("src".to_owned()),
        tty: true,
        ..command("-lc", "make")
    };
    let programs = programs(true, AuthorizedAction::Command(authorized));
    let started = programs.authorize(ProgramRequest {
        cwd: Some("src".to_owned()),
        ..wanted("bash", &["-lc", "make"])
    });
    let started = started.unwrap();
    assert_eq!(started.arguments, ["-lc", "make"]);
    assert_eq!(started.environment, [("LANG".to_owned(), "C".to_owned())]);
    assert!(started.tty && programs.opens_input());
    // The authorization can be used once.
    programs.mark_used();
    let again = programs.authorize(ProgramRequest {
        cwd: Some("src".to_owned()),
        ..wanted("bash", &["-lc", "make"])
    });
    assert_eq!(code(again), "command_used");
}

#[test]
fn a_04_input_and_signals_are_limited_to_the_authorized_job() {
    let bound = programs(true, AuthorizedAction::Command(command("-c", "python3")));
    assert!(!bound.opens_input());
    assert_eq!(
        code(bound.authorize_input("job-1", b"import os")),
        "input_not_authorized"
    );
    let typed = AuthorizedTask {
        job: Some("job-1".to_owned()),
        text: "y\n".to_owned(),
    };
    let typing = programs(true, AuthorizedAction::Task(typed));
    for (job, bytes, expected) in [
        ("job-1", b"y\n".as_slice(), ""),
        ("job-2", b"y\n", "input_not_authorized"),
        ("job-1", b"n\n", "input_not_authorized"),
        ("job-1", b"y\nx", "input_not_authorized"),
    ] {
        assert_eq!(code(typing.authorize_input(job, bytes)), expected, "{job}");
    }
    let started = typing.authorize(wanted("bash", &["-c", "x"]));
    assert_eq!(code(started), "command_differs", "no program is started");
    assert_eq!(code(typing.authorize_signal("job-1")), "");
    assert_eq!(code(typing.authorize_signal("job-2")), "command_differs");
    typing.mark_used();
    assert_eq!(
        code(typing.authorize_input("job-1", b"y\n")),
        "input_not_authorized"
    );
    // The program had already ended when the call was authorized.
    let gone = AuthorizedTask {
        job: None,
        text: "y".to_owned(),
    };
    let gone = programs(true, AuthorizedAction::Task(gone));
    assert_eq!(
        code(gone.authorize_input("job-1", b"y")),
        "input_not_authorized"
    );
}

#[test]
fn a_call_without_a_command_starts_allowed_programs() {
    let free = programs(true, AuthorizedAction::Anything);
    assert_eq!(code(free.authorize(wanted("git", &["status"]))), "");
    assert!(free.opens_input());
    assert_eq!(code(free.authorize_input("job-1", b"x")), "");
}

#[test]
fn a_read_only_tool_starts_no_program() {
    let reads = programs(false, AuthorizedAction::Command(command("-c", "ls")));
    let result = reads.authorize(wanted("bash", &["-c", "ls"]));
    assert_eq!(code(result), "service_not_granted");
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

/// Inode number of a descriptor.
fn inode(held: impl AsFd) -> u64 {
    rustix::fs::fstat(held).unwrap().st_ino
}

#[test]
fn a_12_the_sandbox_uses_the_opened_directories() {
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
    let windows: Vec<PathView> = scope.roots().iter().map(PathView::of).collect();
    let of = |path: &str| base.join(path).metadata().unwrap().ino();
    let programs = programs(true, AuthorizedAction::Command(command("-c", "true")));
    let confinement = |cwd: &str| programs.confinement(Some(cwd), &scope, &windows);
    let code = |cwd: &str| confinement(cwd).unwrap_err().code.unwrap_or_default();

    let (cwd, permissions) = confinement("sub/deep").unwrap();
    assert_eq!(inode(&cwd), of("ws/sub/deep"));
    assert_eq!(cwd.path(), base.join("ws/sub/deep"));
    let held: Vec<u64> = permissions.write.iter().map(inode).collect();
    let opened = [of("ws"), of("ws/sub")];
    assert_eq!(held, opened);
    assert_eq!(code("link"), "path_not_in_workspace");
    assert_eq!(code("../outside"), "path_not_in_workspace");
    assert_eq!(code("none"), "directory_not_found");
    assert_eq!(code("file"), "path_is_not_a_directory");

    std::fs::rename(base.join("ws/sub"), base.join("ws/moved")).unwrap();
    symlink(base.join("outside"), base.join("ws/sub")).unwrap();
    assert_eq!(code("sub/deep"), "directory_replaced");
    // The fence refers to the opened directories, even if they are replaced under their names.
    assert_eq!(inode(&cwd), of("ws/moved/deep"));
    assert_eq!(
        permissions.write.iter().map(inode).collect::<Vec<_>>(),
        opened
    );
}
