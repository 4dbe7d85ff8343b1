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
mod help;
mod host_args;
mod input;
mod json;
mod load;
mod logging;
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
use clap::FromArgMatches as _;
use tokio::runtime::Runtime;
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
    let matches = help::command_for_arguments().get_matches();
    let Cli { terminal, command } = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
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
    logging::start();
    raise_descriptor_limit();
    match run(command) {
        Ok(exit) => exit.into(),
        Err(error) => {
            let shown = text::escape_lines(&error.to_string(), 8_000);
            terminal::note(&format!("error: {shown}"));
            error.exit.into()
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

/// Runs a command in a runtime, which then gives blocking work a second to end: a read of standard input that is not a
/// pipe cannot be interrupted, and a credential helper may never answer.
fn with_runtime(run: impl FnOnce(&Runtime) -> Result<Exit, CliError>) -> Result<Exit, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_keep_alive(IDLE_THREADS)
        .build()
        .context("start the runtime")?;
    let exit = run(&runtime);
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    exit
}

fn block_on(command: impl Future<Output = Result<Exit, CliError>>) -> Result<Exit, CliError> {
    with_runtime(|runtime| runtime.block_on(command))
}

fn run(command: Command) -> Result<Exit, CliError> {
    match command {
        Command::Run(args) => with_runtime(|runtime| commands::run::run(runtime, &args)),
        Command::Ui(args) => block_on(commands::ui::ui(args)),
        Command::Call(args) => block_on(commands::call::call(args)),
        Command::Batch(args) => block_on(commands::batch::batch(args)),
        Command::Turns(args) => block_on(commands::turns::turns(args)),
        Command::Init(args) => commands::init::init(&args),
        Command::Doctor(args) => block_on(commands::doctor::doctor(&args)),
        Command::Calls(args) => commands::calls::calls(args),
        Command::Cancel(args) => commands::cancel::cancel(args),
        Command::Sessions(args) => commands::sessions::sessions(&args),
        Command::Audit(args) => block_on(commands::audit::audit(args)),
        Command::Approvals(args) => block_on(commands::approvals::approvals(args)),
        Command::Prune(args) => block_on(commands::prune::prune(args)),
        Command::Undo(args) => block_on(commands::undo::undo(args)),
        Command::Approve(args) => block_on(commands::answer::approve(args)),
        Command::Deny(args) => block_on(commands::answer::deny(args)),
        Command::Tools(args) => block_on(commands::tools::tools(args)),
        Command::Plugins(args) => block_on(commands::plugins::plugins(*args)),
        Command::Inspect(args) => block_on(commands::inspect::inspect(args)),
        Command::Key { command } => commands::key::key(&command),
        Command::Sign(args) => commands::sign::sign_file(&args),
        Command::Verify(args) => commands::sign::verify_file(&args),
        Command::Add(args) => block_on(commands::packages::add(args)),
        Command::List(args) => commands::packages::list(&args),
        Command::Info(args) => block_on(commands::packages::info(args)),
        Command::Remove(args) => commands::packages::remove(&args),
        Command::Search(args) => block_on(commands::packages::search(args)),
        Command::Update(args) => block_on(commands::packages::update(args)),
        Command::Lock(args) => commands::packages::lock(&args),
        Command::Sync(args) => block_on(commands::packages::sync(args)),
        Command::Publish(args) => block_on(commands::packages::publish(args)),
        Command::Revoke(args) => block_on(commands::packages::revoke(args)),
        Command::New(args) => commands::new::new(args),
        Command::Dev(args) => with_runtime(|runtime| commands::dev::dev(runtime, *args)),
        Command::Test(args) => block_on(commands::test::test(args)),
        Command::Check(args) => block_on(commands::check::check(args)),
        Command::Pack(args) => block_on(commands::pack::pack(&args)),
        Command::Bench(args) => block_on(commands::bench::bench(args)),
        Command::Completions { shell } => {
            commands::completions::completions(shell, &mut help::command())
        }
        #[cfg(debug_assertions)]
        Command::PackageFiles { name, directory } => {
            commands::package_files::package_files(name, &directory, help::command())
        }
        Command::Config {
            command: ConfigCommand::Check { file },
        } => block_on(commands::config::check(file)),
        Command::Mcp { command } => with_runtime(|runtime| commands::mcp::mcp(runtime, command)),
        Command::Policy { command } => block_on(commands::policy::policy(command)),
        Command::CompileWorker | Command::ProcessLauncher { .. } => Ok(Exit::Ok),
    }
}
