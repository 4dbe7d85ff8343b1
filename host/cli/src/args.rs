//! The command line: the subcommands and their arguments, which the modules in `commands/` define.

use clap::{Parser, Subcommand};

use crate::commands::answer::{ApproveArgs, DenyArgs};
use crate::commands::approvals::ApprovalsCommand;
use crate::commands::audit::AuditCommand;
use crate::commands::batch::{self, BatchArgs};
use crate::commands::bench::{self, BenchArgs};
use crate::commands::call::{self, CallArgs};
use crate::commands::calls::CallsArgs;
use crate::commands::check::{self, CheckArgs};
use crate::commands::config::ConfigCommand;
use crate::commands::dev::{self, DevArgs};
use crate::commands::doctor::DoctorArgs;
use crate::commands::init::{self, InitArgs};
use crate::commands::inspect::InspectArgs;
use crate::commands::key::KeyCommand;
use crate::commands::mcp::McpCommand;
use crate::commands::new::NewArgs;
use crate::commands::pack::PackArgs;
use crate::commands::packages;
use crate::commands::plugins::PluginsArgs;
use crate::commands::policy::PolicyCommand;
use crate::commands::prune::PruneArgs;
use crate::commands::run::{self, RunArgs};
use crate::commands::sessions::SessionsArgs;
use crate::commands::sign::{SignArgs, VerifyArgs};
use crate::commands::test::{self, TestArgs};
use crate::commands::tools::ToolsArgs;
use crate::commands::turns::{self, TurnsArgs};
use crate::commands::ui::{self, UiArgs};
use crate::commands::undo::UndoArgs;
use crate::terminal::options::TerminalArgs;

const AFTER_HELP: &str = "\
Examples:
  host run --plugins ./plugins --allow-path .            serve MCP, or a prompt at a terminal
  host call grep pattern=TODO --plugins ./plugins --allow-path src
  host call write_file '{\"path\": \"a.txt\", \"content\": \"hi\"}' \\
      --plugins ./plugins --allow-path out:rw --allow-tool write_file
  host inspect plugins/files.wasm                        show the manifest and tools of a plugin

Exit codes:
  0  success
  1  the tool failed
  2  usage error
  3  configuration error
  4  no plugin could be loaded
  5  denied
  6  timeout or other limit exceeded
  7  internal error
  8  waiting for approval
  9  the records cannot be read or written
  10 a signature or digest is missing or wrong, or the plugin was revoked
  11 what is installed differs from the lock file
  12 a registry or server did not deliver a package

Plugins cannot use files, environment variables, the network or programs unless you grant it.";

#[derive(Debug, Parser)]
#[command(
    name = "host",
    version,
    about = "Run agent tools, each call in its own sandbox",
    after_help = AFTER_HELP,
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct Cli {
    #[command(flatten)]
    pub terminal: TerminalArgs,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve tools: a prompt at a terminal, otherwise MCP over standard input and output, or over HTTP
    #[command(after_help = run::HELP)]
    Run(RunArgs),
    /// Open the web page of a running host: approvals and history
    #[command(after_help = ui::HELP)]
    Ui(UiArgs),
    /// Call one tool and print its result
    #[command(after_help = call::HELP)]
    Call(CallArgs),
    /// Run the tool calls of one model turn and print the results in call order
    #[command(after_help = batch::HELP)]
    Batch(BatchArgs),
    /// Serve one session to an agent program as JSON lines on standard input and output
    #[command(after_help = turns::HELP)]
    Turns(TurnsArgs),
    /// Grant a project's directories and network hosts to tools, so that `host run` needs no flags there
    #[command(after_help = init::HELP)]
    Init(InitArgs),
    /// Check what the host needs on this machine, and say how to provide what is missing
    Doctor(DoctorArgs),
    /// List tools
    Tools(ToolsArgs),
    /// List plugins and what they are granted, and why others could not be loaded; change those of a running host
    Plugins(Box<PluginsArgs>),
    /// Show the manifest, imports and tools of a plugin file without granting it anything
    Inspect(InspectArgs),
    /// Create the project of a plugin
    New(NewArgs),
    /// Serve the plugin of a project, and build and load it again when a source changes
    #[command(after_help = dev::HELP)]
    Dev(Box<DevArgs>),
    /// Run the examples of a plugin in the sandbox and compare their results
    #[command(after_help = test::HELP)]
    Test(TestArgs),
    /// Review a plugin: descriptions, schemas, needs, size and examples
    #[command(after_help = check::HELP)]
    Check(CheckArgs),
    /// Embed a manifest in a component
    Pack(PackArgs),
    /// Install a plugin from a registry, a URL or a file, after showing what it is and needs
    #[command(after_help = packages::ADD_HELP)]
    Add(packages::AddArgs),
    /// List installed plugins
    List(packages::ListArgs),
    /// Show an installed plugin, or what a reference would install
    Info(packages::InfoArgs),
    /// Remove an installed plugin
    Remove(packages::RemoveArgs),
    /// Find plugins in a registry
    Search(packages::SearchArgs),
    /// Install new versions of installed plugins, after showing what changed
    Update(packages::UpdateArgs),
    /// Write the installed plugins to toolhost.lock
    Lock(packages::LockArgs),
    /// Install the plugins of toolhost.lock, or check them
    Sync(packages::SyncArgs),
    /// Upload a plugin and its signature to a registry
    Publish(packages::PublishArgs),
    /// Stop a plugin from running here, and for the users of the registry
    Revoke(packages::RevokeArgs),
    /// Manage keys that sign plugins
    Key {
        #[command(subcommand)]
        command: KeyCommand,
    },
    /// Sign a plugin file: write its signature to FILE.sigstore.json
    Sign(SignArgs),
    /// Verify the signature of a plugin file, offline
    Verify(VerifyArgs),
    /// Compile the component on standard input (started by the host as a separate process)
    #[command(hide = true)]
    CompileWorker,
    /// Confine this process and execute a program for a tool (started by the host)
    #[command(hide = true)]
    ProcessLauncher { role: Vec<std::ffi::OsString> },
    /// Write the man pages and completion scripts of packages (started by `cargo xtask dist`)
    #[cfg(debug_assertions)]
    #[command(hide = true)]
    PackageFiles {
        name: String,
        directory: std::path::PathBuf,
    },
    /// Measure calls of a tool on this machine
    #[command(after_help = bench::HELP)]
    Bench(BenchArgs),
    /// Generate a shell completion script
    Completions {
        /// Shell that the script is for; see its documentation for where to put the script
        shell: clap_complete::Shell,
    },
    /// List recorded calls, newest first, or show one
    Calls(CallsArgs),
    /// List client sessions, newest first
    Sessions(SessionsArgs),
    /// Read, verify and export the audit trail of calls
    Audit {
        #[command(subcommand)]
        command: AuditCommand,
    },
    /// Manage saved approvals
    Approvals {
        #[command(subcommand)]
        command: ApprovalsCommand,
    },
    /// Delete old and oversized data according to `[retention]` in the configuration
    Prune(PruneArgs),
    /// Undo file changes made by calls
    Undo(UndoArgs),
    /// Approve a call that is waiting for approval
    Approve(ApproveArgs),
    /// Deny a call that is waiting for approval
    Deny(DenyArgs),
    /// Explain policy decisions and check rules
    Policy {
        #[command(subcommand)]
        command: PolicyCommand,
    },
    /// Manage other MCP servers whose tools are served alongside those of plugins
    Mcp {
        #[command(subcommand)]
        command: McpCommand,
    },
    /// Check the configuration file
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::CommandFactory;
    use toolhost_contract::Access;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn call_arguments_and_flags_can_be_mixed() {
        let cli = Cli::try_parse_from([
            "host",
            "call",
            "--plugins",
            "p",
            "grep",
            "pattern=x",
            "--allow-path",
            "a:b:rw",
            "path=y",
            "--timeout",
            "5s",
        ])
        .unwrap();
        let Command::Call(call) = cli.command else {
            panic!("not a call")
        };
        assert_eq!(
            (call.tool.as_str(), call.input),
            ("grep", vec!["pattern=x".to_owned(), "path=y".to_owned()])
        );
        assert_eq!(call.host.allow_path[0].path, "a:b");
        assert_eq!(call.host.allow_path[0].access, Access::ReadWrite);
        assert_eq!(call.host.timeout, Some(Duration::from_secs(5)));
    }

    #[test]
    fn invalid_flag_values_are_usage_errors() {
        for arguments in [
            ["host", "run", "--timeout", "30"],
            ["host", "run", "--deny-tool", "Read("],
            ["host", "run", "--allow-env", "AWS_*"],
            ["host", "run", "--on-duplicate", "maybe"],
            ["host", "run", "--allow-path", ""],
        ] {
            let error = Cli::try_parse_from(arguments).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{arguments:?}");
        }
    }
}
