//! Allowed programs and their arguments.

use toolhost_process::{AllowedPrograms, Command, ExitReason, Launcher, ProcessError};

use crate::fixture::{Host, assert_exit, open};

#[tokio::test]
async fn only_listed_programs_start() {
    let host = Host::with(|settings| {
        settings.programs = AllowedPrograms::Only(vec!["cat".to_owned(), "no-such".to_owned()]);
    });
    let ws = open(&host.ws());
    let start = |program: &str| {
        let mut command = Command::new(program, &[], ws.clone());
        command.sandbox.read.push(ws.clone());
        host.try_run(command)
    };
    assert_exit(&start("cat").await.unwrap(), ExitReason::Code(0));
    for program in ["sh", "/bin/cat", "./cat"] {
        let error = start(program).await.unwrap_err();
        assert!(matches!(error, ProcessError::NotAllowed { .. }), "{error}");
    }
    let error = start("no-such").await.unwrap_err();
    assert!(matches!(error, ProcessError::NotFound { .. }), "{error}");
}

#[tokio::test]
async fn arguments_are_not_interpreted_by_a_shell() {
    let host = Host::new();
    for argument in [
        "a; touch marker",
        "$(touch marker)",
        "`touch marker`",
        "a && touch marker",
        "> marker",
        "a\nb",
        "*",
    ] {
        let mut command = Command::new("printf", &["%s", argument], open(&host.ws()));
        command.sandbox.write.push(open(&host.ws()));
        assert_eq!(
            host.run(command).await.stdout.whole().unwrap(),
            argument.as_bytes()
        );
    }
    assert_eq!(std::fs::read_dir(host.ws()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_wrong_launcher_starts_nothing() {
    for program in ["/bin/true", "/bin/false", "/bin/cat", "/nowhere"] {
        let host = Host::with(|settings| {
            settings.launcher = Launcher {
                program: program.into(),
                args: Vec::new(),
            };
        });
        let error = host.try_run(host.sh("echo x > f")).await.unwrap_err();
        assert!(
            matches!(error, ProcessError::Launcher { .. }),
            "{program}: {error}"
        );
        assert!(!host.ws().join("f").exists());
    }
}

#[tokio::test]
async fn a_file_that_is_not_a_program_is_an_error() {
    use std::os::unix::fs::PermissionsExt as _;
    let host = Host::new();
    let file = host.ws().join("tool");
    std::fs::write(&file, "#!/nowhere/interpreter\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = host.sh("");
    command.program = file.to_str().unwrap().to_owned();
    let error = host.try_run(command).await.unwrap_err();
    assert!(matches!(error, ProcessError::Start { .. }), "{error}");
    assert!(error.to_string().contains("No such file"), "{error}");
}
