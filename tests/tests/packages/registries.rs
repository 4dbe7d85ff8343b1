//! Registries with a login, and the packages of other clients.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use e2e::client_kits::kit;
use e2e::registry::Registry;
use e2e::{CommandResult, root, target};

use super::{User, shipped};

#[test]
fn registries_with_a_login_use_that_of_docker() {
    let Some(registry) = Registry::start(true) else {
        return;
    };
    let user = User::new();
    let reference = format!("{}/ann/data:1", registry.address);
    let run = |code: i32, docker: &str, args: &[&str]| {
        let mut command: Command = user.env.command(args);
        command.env("DOCKER_CONFIG", user.env.path(docker));
        let ended = CommandResult::of(&command.output().unwrap());
        assert_eq!(ended.code, Some(code), "{args:?}: {ended:?}");
        ended
    };
    for (name, auth) in [("right", "YW5uOnMzY3JldA=="), ("wrong", "YW5uOndyb25n")] {
        fs::create_dir(user.env.path(name)).unwrap();
        let config = format!(
            "{{\"auths\": {{\"{}\": {{\"auth\": \"{auth}\"}}}}}}",
            registry.address
        );
        fs::write(user.env.path(&format!("{name}/config.json")), config).unwrap();
    }
    let publish = ["publish", "data.wasm", &reference];
    let denied = run(12, "missing", &publish);
    assert!(
        denied.stderr.contains("log in with `docker login"),
        "{denied:?}"
    );
    run(12, "wrong", &publish);
    run(0, "right", &publish);
    run(
        12,
        "missing",
        &["add", &reference, "--yes", "--allow-unsigned"],
    );
    run(
        0,
        "right",
        &["add", &reference, "--yes", "--allow-unsigned"],
    );
    let found = run(0, "right", &["search", "dat"]);
    assert!(found.stdout.contains("/ann/data"), "{found:?}");
}

/// A credential helper that never answers delays a command by its timeout, and does not keep it from ending.
#[test]
fn a_credential_helper_that_hangs_is_given_up() {
    let Some(registry) = Registry::start(true) else {
        return;
    };
    let user = User::new();
    let helpers = user.env.path("helpers");
    fs::create_dir(&helpers).unwrap();
    let helper = helpers.join("docker-credential-hang");
    fs::write(&helper, "#!/bin/sh\nexec sleep 300\n").unwrap();
    fs::set_permissions(&helper, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(helpers.join("config.json"), r#"{"credsStore": "hang"}"#).unwrap();
    let path = std::env::var("PATH").unwrap();
    let reference = format!("{}/ann/data:1", registry.address);
    let mut command: Command = user.env.command(&["publish", "data.wasm", &reference]);
    command
        .env("DOCKER_CONFIG", &helpers)
        .env("PATH", format!("{}:{path}", helpers.display()));
    let ended = CommandResult::of(&command.output().unwrap());
    assert_eq!(ended.code, Some(12), "{ended:?}");
    assert!(
        ended
            .stderr
            .contains("the credential helper does not answer"),
        "{ended:?}"
    );
}

/// A library that knows nothing of plugins downloads ours, and uploads components in the layouts of other tools, which run.
#[test]
fn other_clients_and_layouts_work() {
    let (Some(registry), Some(oras)) = (Registry::start(false), kit("oras")) else {
        return;
    };
    let user = User::new();
    let reference = format!("{}/ann/data:1", registry.address);
    user.run(0, &["publish", "data.wasm", &reference]);
    let component = target().join("guests/plain_functions.wasm");
    let script = root().join("tests/tests/packages/other_client.py");
    let mut command = Command::new(oras.join("bin/python"));
    command
        .arg(script)
        .arg(&registry.address)
        .args([&component, &user.env.workspace()]);
    let ended = CommandResult::of(&command.arg(&reference).output().unwrap());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let pulled = fs::read(user.env.workspace().join("pulled/data.wasm")).unwrap();
    assert_eq!(pulled, fs::read(shipped("data")).unwrap());
    for name in ["wkg", "content-layer", "with-policy"] {
        let reference = format!("{}/foreign/{name}:1", registry.address);
        let added = user.run(0, &["add", &reference, "--yes", "--allow-unsigned"]);
        let names_policy = added.stdout.contains("layers that are not used");
        assert_eq!(names_policy, name == "with-policy", "{added:?}");
        let called = user.run(0, &["call", "echo", "text=hi", "--allow-tool", "echo"]);
        assert_eq!(called.stdout, "hi\n", "{called:?}");
        user.run(0, &["remove", name]);
    }
}
