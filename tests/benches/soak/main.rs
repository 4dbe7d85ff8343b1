//! Soak test that reports growth of memory, descriptors, processes and directories.
//!
//! It drives an HTTP server with two users, and a stdio server, with all features that keep state.
//! `cargo xtask soak [-- --minutes N]`; 30 minutes by default. `--attack` instead measures how much calls of one user
//! slow down while another user attacks.

mod attack;
mod sample;
mod workload;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use e2e::http::Server;
use e2e::test_env::TestEnv;
use e2e::{host, root};

use sample::Samples;
use workload::{Counts, TOKENS, stdio, user};

const POLICY: &str = r#"allow = ["write_file", "read_file", "shell", "shell_output", "shell_kill", "grep", "mcp__inner"]"#;
const BETWEEN_SAMPLES: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let minutes = minutes();
    let env = TestEnv::new(POLICY);
    fs::write(
        env.path("tokens"),
        TOKENS
            .map(|(name, token)| format!("{name} {token}\n"))
            .concat(),
    )
    .expect("a file of tokens");
    fs::set_permissions(env.path("tokens"), fs::Permissions::from_mode(0o600))
        .expect("the mode is set");
    with_inner_server(&env);
    let attack = std::env::args().any(|argument| argument == "--attack");
    if attack {
        attack::prepare(&env);
    }
    let server = serve(&env);
    if attack {
        println!("{}", attack::table(&server));
        return ExitCode::SUCCESS;
    }
    let (pid, until) = (
        server.child.id(),
        Instant::now() + Duration::from_secs(60 * minutes),
    );
    let (counts, stop) = (Counts::default(), AtomicBool::new(false));
    let mut samples = Samples::default();
    std::thread::scope(|scope| {
        for (name, token) in TOKENS {
            for worker in 0..3 {
                let (counts, stop, server, env) = (&counts, &stop, &server, &env);
                scope.spawn(move || user(worker, name, token, server, env, counts, stop));
            }
        }
        scope.spawn(|| stdio(&env, &counts, &stop));
        while Instant::now() < until {
            std::thread::sleep(BETWEEN_SAMPLES);
            samples.take(pid, &env.path("state"));
            eprintln!("{} {}", samples.last(), counts.line());
        }
        stop.store(true, Ordering::Relaxed);
    });
    println!("{}", counts.table());
    println!("{}", samples.table());
    let grown = samples.grown();
    for line in counts.unexpected().iter().chain(&grown) {
        println!("FAILED: {line}");
    }
    if counts.unexpected().is_empty() && grown.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn minutes() -> u64 {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--minutes");
    arguments.nth(1).map_or(30, |number| {
        number.parse().expect("--minutes takes an integer")
    })
}

/// A second host as an MCP server of the first.
fn with_inner_server(env: &TestEnv) {
    let text = |path: std::path::PathBuf| path.to_string_lossy().into_owned();
    let (data, state) = (
        text(root().join("plugins/data.wasm")),
        text(env.path("inner")),
    );
    let program = host(&[]).get_program().to_string_lossy().into_owned();
    let config = format!(
        "\n[mcp_servers.inner]\ncommand = {program:?}\nargs = [\"run\", \"--plugins\", {data:?}]\n\
         sandbox = \"none\"\nenv = {{ TOOLHOST_STATE_DIR = {state:?} }}\n"
    );
    let file = env.path("host.toml");
    let text = fs::read_to_string(&file).expect("the configuration");
    fs::write(&file, text + &config).expect("the configuration");
    let config = file.to_string_lossy().into_owned();
    let approved = env.run(&["mcp", "approve", "inner", "--yes", "--config", &config]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
}

fn serve(env: &TestEnv) -> Server {
    let mut command = env.command_with_plugins(&[
        "run",
        "--http",
        "127.0.0.1:0",
        "--http-idle",
        "5s",
        "--allow-program",
        "bash",
    ]);
    command
        .arg("--http-token-file")
        .arg(env.path("tokens"))
        .arg("--plugins")
        .arg(root().join("plugins/shell.wasm"))
        .arg("--plugins")
        .arg(root().join("plugins/search.wasm"));
    Server::start(command)
}
