//! The steps that verbs are made of, each one program started or one thing made.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result};

use crate::job::{Job, Profile};
use crate::{
    audit_rows, clients, components, fuzz, mutate, requirements, samples, shell, supply_chain,
    target, test_programs,
};

pub enum Step {
    Target,
    Host,
    /// Both at the same time: each waits for one compiler at its end.
    HostAndPlugins,
    /// The host beside the benchmarks: with the features of the whole workspace, so that they share its dependencies.
    MeasuredHost,
    Plugins,
    Pack,
    Guests,
    Samples,
    /// Compiles the plugins into the cache of the tests: a client that lists tools gets those that are ready after 25 s.
    Warm,
    /// Other people's clients, and the conformance suite.
    Clients,
    /// The program that the suite tests.
    Conformance,
    /// The packages in which the host is installed.
    Dist,
    Run,
    /// Builds the tests while the steps in the background continue.
    TestBuild,
    Test,
    Bless,
    Picture,
    Format,
    Lint,
    /// Licenses, bans, sources and use of the dependencies.
    SupplyChain,
    /// Is every numbered requirement claimed by a test?
    Claims,
    /// The same, with the table.
    Requirements,
    /// Does the test of each requirement fail when its implementation is broken?
    Mutate,
    Bench,
    Soak,
    Fuzz,
    Doc,
}

impl Step {
    /// What the progress line says.
    pub fn title(&self, job: &Job) -> Result<String> {
        Ok(match self {
            Self::Target => format!("looking for the {} target", target::TARGET),
            Self::Host => format!("building the host ({})", job.profile.title()),
            Self::HostAndPlugins => format!(
                "building the host ({}) and plugins: {}",
                job.profile.title(),
                listed(&components::plugins(job)?)
            ),
            Self::MeasuredHost => "building the host and the benchmarks (release profile)".into(),
            Self::Plugins => format!("building plugins: {}", listed(&components::plugins(job)?)),
            Self::Pack => "packing plugins with their manifests".into(),
            Self::Guests => format!("building guests: {}", listed(&components::guests(job)?)),
            Self::Samples => format!("building samples: {}", listed(&samples::languages(job)?)),
            Self::Warm => "compiling plugins into the cache of the tests".into(),
            Self::Clients => "looking for MCP clients and the conformance suite".into(),
            Self::Conformance => "running the conformance suite".into(),
            Self::Dist => "building packages".into(),
            Self::Run => "starting the host".into(),
            Self::TestBuild => "building the tests".into(),
            Self::Test => "testing".into(),
            Self::Bless => "testing, and renewing expectations".into(),
            Self::Picture => "drawing".into(),
            Self::Format => "checking the formatting".into(),
            Self::Lint => "checking the lints".into(),
            Self::SupplyChain => "checking the dependencies".into(),
            Self::Claims | Self::Requirements => {
                "looking for a test of each numbered requirement".into()
            }
            Self::Mutate => "breaking the implementation of requirements".into(),
            Self::Bench => "measuring".into(),
            Self::Soak => "driving two servers".into(),
            Self::Fuzz => "fuzzing".into(),
            Self::Doc => "building the documentation".into(),
        })
    }

    /// Steps that mostly wait for downloads or use one processor. The last step of a verb starts after them.
    pub fn runs_in_background(&self) -> bool {
        matches!(self, Self::Clients | Self::Samples)
    }

    pub fn run(&self, job: &Job) -> Result<()> {
        match self {
            Self::Target => target::ensure(job),
            Self::Host => build_host(job),
            Self::HostAndPlugins => build_host_and_plugins(job),
            Self::MeasuredHost => {
                shell::run(
                    job.cargo("build")
                        .args(["--workspace", "--bin", "host", "--release"]),
                )
            }
            Self::Plugins => components::build_plugins(job),
            Self::Pack => components::pack_plugins(job),
            Self::Guests => components::build_guests(job),
            Self::Samples => samples::build(job),
            Self::Warm => compile_plugins(job),
            Self::Clients => clients::install(job),
            Self::Conformance => shell::run(
                test(job)
                    .args([
                        // The program around our client that the suite starts.
                        "--example",
                        "conformance_client",
                        "--test",
                        "conformance",
                        "--",
                        "--nocapture",
                    ])
                    .env("TOOLHOST_CONFORMANCE_REQUIRED", "1"),
            ),
            Self::Dist => build_packages(job),
            Self::Run => start_host(job),
            Self::TestBuild => build_tests(job),
            Self::Test => {
                run_tests(job)?;
                samples::report_skipped(job)?;
                audit_rows::report(&job.root)
            }
            Self::Bless => shell::run(test(job).env("UPDATE_EXPECT", "1")),
            Self::Picture => shell::run(
                test(job)
                    .args([
                        "--test",
                        "picture",
                        "--test",
                        "terminal_picture",
                        "--test",
                        "ui",
                        "--",
                        "picture",
                    ])
                    .env("UPDATE_EXPECT", "1"),
            ),
            Self::Format => shell::run(job.cargo("fmt").args(["--all", "--check"]))
                .context("not formatted: run `cargo fmt --all`"),
            Self::Lint => shell::run(job.cargo("clippy").args([
                "--workspace",
                "--all-targets",
                "--",
                "--deny=warnings",
            ])),
            Self::SupplyChain => supply_chain::check(job),
            Self::Claims => requirements::run(&job.root, false),
            Self::Requirements => requirements::run(&job.root, true),
            Self::Mutate => mutate::run(job),
            Self::Bench => {
                if job.rest.iter().any(|argument| argument == "--peers") {
                    clients::install_peers(job)?;
                }
                shell::run(&mut bench(job, "speed"))
            }
            Self::Soak => shell::run(bench(job, "soak").env("TOOLHOST_BIN", job.host())),
            Self::Fuzz => fuzz::run(job),
            Self::Doc => shell::run(job.cargo("doc").args(["--workspace", "--no-deps"])),
        }
    }
}

fn build_host_and_plugins(job: &Job) -> Result<()> {
    thread::scope(|scope| {
        let plugins = scope.spawn(|| components::build_plugins(job));
        build_host(job)?;
        plugins.join().expect("a step does not panic")
    })
}

fn build_host(job: &Job) -> Result<()> {
    let mut cargo = job.cargo("build");
    match job.profile {
        // With the features of the whole workspace, as in `cargo test`, so that shared dependencies are compiled once
        // (see tests/Cargo.toml). `cargo test` does not build the program of the example by itself.
        Profile::Dev => cargo
            .args(["--workspace", "--exclude", "toolhost-dist"])
            .args(["--bin", "host", "--bin", "agent-loop"]),
        // The features that the product needs, and no others.
        Profile::Release => cargo.args(["--package", "toolhost-cli", "--bin", "host", "--release"]),
    };
    shell::run(&mut cargo)
}

fn compile_plugins(job: &Job) -> Result<()> {
    shell::run(
        Command::new(job.host())
            .args(["plugins", "--plugins"])
            .arg(job.root.join("plugins"))
            .env("TOOLHOST_CACHE_DIR", job.target.join("test-cache"))
            .env("TOOLHOST_STATE_DIR", job.target.join("test-state"))
            .env("XDG_CONFIG_HOME", "/nonexistent"),
    )
}

/// Packages the host of the job's profile. A debug build writes the man pages and the completion scripts, and the program
/// that users get does not contain the generator.
fn build_packages(job: &Job) -> Result<()> {
    let debug = job.target.join("debug");
    shell::run(
        job.cargo("build")
            .args(["--workspace", "--bin", "host", "--bin", "dist"]),
    )?;
    let output = job.target.join("dist");
    // Emptied first, so that packages of another version do not remain.
    if output.exists() {
        fs::remove_dir_all(&output).with_context(|| format!("empty {}", output.display()))?;
    }
    let level = match job.profile {
        Profile::Dev => "fast",
        Profile::Release => "best",
    };
    shell::run(
        Command::new(debug.join("dist"))
            .arg(&job.root)
            .arg(job.host())
            .arg(debug.join("host"))
            .arg(output)
            .arg(level),
    )
}

/// Becomes the host rather than starting it, so that the terminal and its signals are the host's own.
fn start_host(job: &Job) -> Result<()> {
    let mut host = Command::new(job.host());
    host.args(["run", "--plugins", "./plugins", "--allow-path", "."])
        .args(job.rest_after_dashes())
        .current_dir(&job.root);
    shell::note(&shell::line(&host));
    let error = host.exec();
    Err(error).with_context(|| format!("start {}", job.host().display()))
}

fn test(job: &Job) -> Command {
    let mut cargo = job.cargo("test");
    add_test_settings(&mut cargo, job);
    cargo
}

/// Without arguments, test programs run concurrently. Cargo interprets any arguments.
fn run_tests(job: &Job) -> Result<()> {
    if !job.rest.is_empty() {
        return shell::run(&mut test(job));
    }
    test_programs::run(job, test_build(job), |command| {
        add_test_variables(command, job);
    })?;
    shell::run(test(job).arg("--doc"))
}

fn build_tests(job: &Job) -> Result<()> {
    // Cargo builds documentation tests when it runs them.
    if job.rest.iter().any(|argument| argument == "--doc") {
        return Ok(());
    }
    shell::run(&mut test_build(job))
}

fn test_build(job: &Job) -> Command {
    let mut cargo = job.cargo("test");
    cargo.arg("--no-run");
    add_test_settings(&mut cargo, job);
    cargo
}

fn add_test_settings(cargo: &mut Command, job: &Job) {
    // One package chosen on the command line is one package tested.
    let chosen = job
        .rest
        .iter()
        .map(|argument| argument.to_string_lossy())
        .take_while(|argument| argument != "--")
        .any(|argument| argument.starts_with("-p") || argument.starts_with("--package"));
    if !chosen {
        cargo.arg("--workspace");
    }
    add_test_variables(cargo.args(&job.rest), job);
}

fn add_test_variables(command: &mut Command, job: &Job) {
    command
        .env("TOOLHOST_TEST_TARGET", &job.target)
        .env("TOOLHOST_BIN", job.host())
        // Fuzz targets replay their corpora; `cargo xtask fuzz` draws further inputs.
        .env("BOLERO_RANDOM_ITERATIONS", "0");
}

fn bench(job: &Job, name: &str) -> Command {
    let mut cargo = job.cargo("bench");
    cargo
        .args(["--workspace", "--bench", name, "--"])
        .args(job.rest_after_dashes())
        // An error that a guest gets for its answer would cost a walk through the stack.
        .env("RUST_BACKTRACE", "0")
        .env("TOOLHOST_TEST_TARGET", &job.target);
    cargo
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        "none yet".into()
    } else {
        names.join(", ")
    }
}
