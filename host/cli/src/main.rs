//! The `host` binary: parses arguments, loads settings and plugins, and runs one command.
//!
//! Reading order: `args.rs` (command line), `settings.rs` (effective settings), `load.rs` (plugins and servers), then the
//! module of a command in `commands/`.

mod args;
mod authoring;
mod commands;
mod config;
mod control;
mod events_file;
mod exit;
mod host_args;
mod input;
mod json;
mod load;
mod prompt;
mod records;
mod serve;
mod settings;
mod shell_words;
mod shipped_plugins;
mod terminal;
#[cfg(test)]
mod testing;
mod tool_description;
mod unmatched_settings;
mod value_parsers;
mod watch;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{CommandFactory, Parser};
use toolhost_contract::text;

use crate::args::{Cli, Command};
use crate::commands::config::ConfigCommand;
use crate::exit::{CliError, Exit};

/// Calls allocate and free many small objects across threads; docs/benchmarks.md states the measured gain.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long a thread for blocking work stays idle before it ends.
const IDLE_THREADS: Duration = Duration::from_secs(1);

/// How long background tasks may run after the server has stopped.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let Cli { terminal, command } = Cli::parse();
    terminal.apply();
    if let Command::ProcessLauncher { role } = &command {
        // Executes the program in place of this process.
        return toolhost_process::launch(role.iter().cloned());
    }
    if matches!(command, Command::CompileWorker) {
        // First, because the worker must start without threads and without an async runtime.
        return toolhost_runtime::compile_worker();
    }
    if let Err(error) = toolhost_process::reset_inherited_signals() {
        terminal::note(&format!(
            "warning: cannot reset ignored signals, so commands inherit them: {error}"
        ));
    }
    capture_no_backtraces_in_errors();
    raise_descriptor_limit();
    match run(command) {
        Ok(exit) => exit.into(),
        Err(CliError { exit, error }) => {
            terminal::note(&format!(
                "error: {}",
                text::escape_lines(&format!("{error:#}"), 8_000)
            ));
            exit.into()
        }
    }
}

/// Errors of libraries would otherwise capture a backtrace if `RUST_BACKTRACE` is set, even for each file that a tool looks
/// for and does not find. Nothing prints these backtraces. Those of panics are not affected.
fn capture_no_backtraces_in_errors() {
    const VARIABLE: &str = "RUST_LIB_BACKTRACE";
    if std::env::var_os(VARIABLE).is_none() {
        // SAFETY: this process has no other threads yet.
        unsafe { std::env::set_var(VARIABLE, "0") };
    }
}

/// Raises the soft limit of open files to the hard limit, because each call may hold a thousand files.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // On failure fewer calls can run concurrently, which is not fatal.
    let _ = setrlimit(Resource::Nofile, limit);
}

fn run(command: Command) -> Result<Exit, CliError> {
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .thread_keep_alive(IDLE_THREADS)
            .build()
            .context("start the runtime")
    };
    match command {
        Command::Run(args) => {
            let runtime = runtime()?;
            let exit = commands::run::run(&runtime, &args);
            // A read of standard input that is not a pipe cannot be interrupted and may never return.
            runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
            exit
        }
        Command::Ui(args) => runtime()?.block_on(commands::ui::ui(args)),
        Command::Call(args) => runtime()?.block_on(commands::call::call(args)),
        Command::Batch(args) => runtime()?.block_on(commands::batch::batch(args)),
        Command::Turns(args) => runtime()?.block_on(commands::turns::turns(args)),
        Command::Init(args) => commands::init::init(&args),
        Command::Doctor(args) => runtime()?.block_on(commands::doctor::doctor(&args)),
        Command::Calls(args) => commands::calls::calls(args),
        Command::Sessions(args) => commands::sessions::sessions(&args),
        Command::Audit { command } => runtime()?.block_on(commands::audit::audit(command)),
        Command::Approvals { command } => {
            runtime()?.block_on(commands::approvals::approvals(command))
        }
        Command::Prune(args) => runtime()?.block_on(commands::prune::prune(args)),
        Command::Undo(args) => runtime()?.block_on(commands::undo::undo(args)),
        Command::Approve(args) => runtime()?.block_on(commands::answer::approve(args)),
        Command::Deny(args) => runtime()?.block_on(commands::answer::deny(args)),
        Command::Tools(args) => runtime()?.block_on(commands::tools::tools(args)),
        Command::Plugins(args) => runtime()?.block_on(commands::plugins::plugins(*args)),
        Command::Inspect(args) => runtime()?.block_on(commands::inspect::inspect(args)),
        Command::Key { command } => commands::key::key(&command),
        Command::Sign(args) => commands::sign::sign_file(&args),
        Command::Verify(args) => commands::sign::verify_file(&args),
        Command::Add(args) => runtime()?.block_on(commands::packages::add(args)),
        Command::List(args) => commands::packages::list(&args),
        Command::Info(args) => runtime()?.block_on(commands::packages::info(args)),
        Command::Remove(args) => commands::packages::remove(&args),
        Command::Search(args) => runtime()?.block_on(commands::packages::search(args)),
        Command::Update(args) => runtime()?.block_on(commands::packages::update(args)),
        Command::Lock(args) => commands::packages::lock(&args),
        Command::Sync(args) => runtime()?.block_on(commands::packages::sync(args)),
        Command::Publish(args) => runtime()?.block_on(commands::packages::publish(args)),
        Command::Revoke(args) => runtime()?.block_on(commands::packages::revoke(args)),
        Command::New(args) => commands::new::new(args),
        Command::Dev(args) => {
            let runtime = runtime()?;
            let exit = commands::dev::dev(&runtime, *args);
            runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
            exit
        }
        Command::Test(args) => runtime()?.block_on(commands::test::test(args)),
        Command::Check(args) => runtime()?.block_on(commands::check::check(args)),
        Command::Pack(args) => runtime()?.block_on(commands::pack::pack(&args)),
        Command::Bench(args) => runtime()?.block_on(commands::bench::bench(args)),
        Command::Completions { shell } => {
            commands::completions::completions(shell, &mut Cli::command())
        }
        #[cfg(debug_assertions)]
        Command::PackageFiles { name, directory } => {
            commands::package_files::package_files(name, &directory, Cli::command())
        }
        Command::Config {
            command: ConfigCommand::Check { file },
        } => commands::config::check(file),
        Command::Mcp { command } => commands::mcp::mcp(&runtime()?, command),
        Command::Policy { command } => runtime()?.block_on(commands::policy::policy(command)),
        Command::CompileWorker | Command::ProcessLauncher { .. } => Ok(Exit::Ok),
    }
}
