//! Registries with a login, and the packages of other clients.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::thread;

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

/// A registry that lists packages, of which it does not have one and fails for another.
fn listing_registry() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let mut first = String::new();
            reader.read_line(&mut first).unwrap();
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|length| length > 2) {
                line.clear();
            }
            let path = first.split(' ').nth(1).unwrap_or_default();
            let (status, body) = match path.split('?').next().unwrap_or_default() {
                "/v2/_catalog" => (
                    "200 OK",
                    r#"{"repositories": ["ann/gone", "ann/there", "ann/broken", "bob/there"]}"#,
                ),
                "/v2/ann/there/tags/list" => ("200 OK", r#"{"tags": ["1"]}"#),
                "/v2/ann/gone/tags/list" => ("404 Not Found", ""),
                // The connection ends without an answer.
                _ => continue,
            };
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
            );
            let _ = reader.get_mut().write_all((head + body).as_bytes());
        }
    });
    address
}

#[test]
fn a_search_ends_at_a_registry_that_does_not_answer() {
    let user = User::new();
    let address = listing_registry();
    let search = |code, term| user.run(code, &["search", term, "--registry", &address]);
    let found = search(0, "ann/there");
    assert!(found.stdout.contains("/ann/there"), "{found:?}");
    let missing = search(1, "gone");
    assert!(missing.stdout.contains("nothing found"), "{missing:?}");
    let ended = search(12, "ann");
    assert!(ended.stdout.contains("/ann/there"), "{ended:?}");
    let expected = format!("the search ended at {address}/ann/broken");
    assert!(ended.stderr.contains(&expected), "{ended:?}");
}
