//! Command line arguments. `settings.rs` merges them with the configuration file.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueHint};
use toolhost_contract::units::parse_duration;
use toolhost_contract::{Mode, ToolSet};
use toolhost_formats::profile::Profile;
use toolhost_kernel::OnDuplicate;

use crate::commands::answer::{ApproveArgs, DenyArgs};
use crate::commands::approvals::ApprovalsCommand;
use crate::commands::audit::AuditCommand;
use crate::commands::batch::{self, BatchArgs};
use crate::commands::calls::CallsArgs;
use crate::commands::mcp::McpCommand;
use crate::commands::policy::PolicyCommand;
use crate::commands::prune::PruneArgs;
use crate::commands::sessions::SessionsArgs;
use crate::commands::tools::ToolsArgs;
use crate::commands::turns::{self, TurnsArgs};
use crate::commands::undo::UndoArgs;
use crate::config::{PathEntry, ProgramName, RuleText, Variable};
use crate::events_file::EventsArgs;
use crate::serve::http::HttpArgs;
use crate::value_parsers::on_duplicate_parser;

const AFTER_HELP: &str = "\
Examples:
  host run --plugins ./plugins --allow-path .            serve MCP, or a prompt at a terminal
  host call grep pattern=TODO --plugins ./plugins --allow-path src
  host call write_file '{\"path\": \"a.txt\", \"content\": \"hi\"}' \\
      --plugins ./plugins --allow-path out:rw --allow-tool write_file
  host inspect plugins/files.wasm                        show the manifest and tools of a plugin

Exit codes:
  0  success                   4  no plugin could be loaded
  1  the tool failed           5  denied
  2  usage error               6  timeout or other limit exceeded
  3  configuration error       7  internal error
  8  waiting for approval      9  the records cannot be read or written

Plugins have no access to files, environment variables or the network unless it is granted.";

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
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start an interactive prompt at a terminal, or serve MCP over standard input and output otherwise
    #[command(after_help = RUN_HELP)]
    Run(RunArgs),
    /// Call one tool and print its result
    #[command(after_help = CALL_HELP)]
    Call(CallArgs),
    /// Run the tool calls of one model turn and print the results in call order
    #[command(after_help = batch::HELP)]
    Batch(BatchArgs),
    /// Serve one session to an agent program as JSON lines on standard input and output
    #[command(after_help = turns::HELP)]
    Turns(TurnsArgs),
    /// List tools
    Tools(ToolsArgs),
    /// List plugins with their grants, and the reason for each that could not be loaded
    Plugins(ListArgs),
    /// Show the manifest, imports and tools of a plugin file without granting it anything
    Inspect(InspectArgs),
    /// Embed a manifest in a component
    Pack(PackArgs),
    /// Compile the component on standard input (started by the host as a separate process)
    #[command(hide = true)]
    CompileWorker,
    /// Confine this process and execute a program for a tool (started by the host)
    #[command(hide = true)]
    ProcessLauncher { role: Vec<std::ffi::OsString> },
    /// Generate a shell completion script
    Completions { shell: clap_complete::Shell },
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
    /// Manage the configuration file
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
}

const RUN_HELP: &str = "\
Examples:
  host run --plugins ./plugins --allow-path .
  host run --plugins ./plugins --allow-path src --allow-path out:rw --allow-tool write_file
  host run --plugins ./plugins --allow-path . --http 127.0.0.1:8080

To run as an MCP server, put the same arguments into your client's settings:
  {\"command\": \"host\", \"args\": [\"run\", \"--plugins\", \"/opt/tools\", \"--allow-path\", \"/home/me/project\"]}
MCP clients are not prompted unless --ask-client is set, so tools that change files need --allow-tool and a directory
granted as :rw.";

const CALL_HELP: &str = "\
Input, one of:
  key=value …     a string, number, boolean or JSON, depending on the tool's schema
  key:=JSON …     a JSON value, regardless of the schema
  '{…}'           the whole input as JSON
  -               the whole input as JSON from standard input

Examples:
  host call read_file path=README.md --plugins ./plugins --allow-path .
  host call grep pattern='fn main' max_results=5 --plugins ./plugins --allow-path . --json
  echo '{\"path\": \".\"}' | host call list_directory - --plugins ./plugins --allow-path .

The result is written to standard output, with terminal control characters escaped as \\u{…};
--json prints it unchanged. Progress and logs are written to standard error.";

/// Flags that grant access beyond files and environment variables.
#[derive(Debug, Clone, Default, Args)]
pub struct ExternalAccessArgs {
    /// Allow plugins that request it to connect to this host: `example.org`, `*.example.org`, `https://host:8443`,
    /// `localhost:8080`, or `*` for any public host; repeatable
    #[arg(long, value_name = "HOST")]
    pub allow_host: Vec<String>,

    /// Allow plugins that request it to start this program; repeatable
    #[arg(long, value_name = "NAME")]
    pub allow_program: Vec<ProgramName>,

    /// Allow these programs to use the network, without destination checks
    #[arg(long)]
    pub allow_program_network: bool,

    /// Run programs without kernel confinement
    #[arg(long)]
    pub unconfined: bool,

    /// Directory for data that tools keep across sessions
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub memory: Option<PathBuf>,

    /// Directory of skills; repeatable
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub skills: Vec<PathBuf>,
}

/// Flags shared by all commands that load plugins: which plugins, and what they are granted.
#[derive(Debug, Clone, Default, Args)]
pub struct HostArgs {
    /// Directory of plugins (*.wasm), or one plugin file; repeatable
    #[arg(long, value_name = "DIR", value_hint = ValueHint::AnyPath)]
    pub plugins: Vec<PathBuf>,

    /// Grant this directory or file to plugins that request files, as `:ro` (the default) or `:rw`; repeatable
    ///
    /// Plugins see the first path as /workspace and further paths as /extra/1, /extra/2, and so on. A granted file is
    /// the only entry of its directory.
    #[arg(long, value_name = "PATH[:ro|rw]", value_hint = ValueHint::AnyPath)]
    pub allow_path: Vec<PathEntry>,

    /// Hide files that match this .gitignore pattern from all plugins: `*.sqlite`, `/private/`; repeatable
    ///
    /// Files that usually contain secrets, such as .env, .ssh and keys, are hidden by default. `!NAME` re-includes one.
    #[arg(long, value_name = "PATTERN")]
    pub exclude_path: Vec<String>,

    /// Do not hide files that usually contain secrets
    #[arg(long)]
    pub no_default_excludes: bool,

    /// Allow plugins that request it to read this environment variable; repeatable
    #[arg(long, value_name = "NAME")]
    pub allow_env: Vec<Variable>,

    #[command(flatten)]
    pub external_access: ExternalAccessArgs,

    /// System whose tool names, parameters and results the model sees: native, claude, sema, gemini, kode or pegasus
    #[arg(long, value_name = "NAME")]
    pub profile: Option<Profile>,

    /// List only these tools for models: all, core, or names of plugins, servers and tools; the model finds others with
    /// tool_search
    #[arg(long, value_name = "SET,…")]
    pub tools: Option<ToolSet>,

    /// Show the model only the tools of the profile
    #[arg(long)]
    pub profile_only: bool,

    /// Allow matching calls without a prompt: `name`, `plugin/*`, `Bash(git *)`, `Edit(src/**)`, `*`; repeatable
    #[arg(long, value_name = "RULE")]
    pub allow_tool: Vec<RuleText>,

    /// Deny matching calls, overriding every allow rule; repeatable
    #[arg(long, value_name = "RULE")]
    pub deny_tool: Vec<RuleText>,

    /// Permission mode: dont_ask, plan, readonly, default, accept_edits, auto or yolo
    #[arg(long, value_name = "MODE")]
    pub mode: Option<Mode>,

    /// Use this configuration file (.toml, .yaml, .yml or .json) instead of the user's toolhost.toml
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,

    /// How to handle two plugins that provide the same tool name
    #[arg(long, value_name = "HOW", value_parser = on_duplicate_parser())]
    pub on_duplicate: Option<OnDuplicate>,

    /// Maximum duration of every call, regardless of plugins and configuration; for example `30s` or `2m`
    #[arg(long, value_name = "DUR", value_parser = parse_duration)]
    pub timeout: Option<Duration>,

    /// Keep no records: no audit trail and no saved approvals
    #[arg(long)]
    pub no_store: bool,

    /// Print loaded plugins and debug messages of tools to standard error
    #[arg(long, short)]
    pub verbose: bool,
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// Prompt the client's user for permissions via MCP elicitation; a client can answer without user interaction
    #[arg(long)]
    pub ask_client: bool,

    #[command(flatten)]
    pub events: EventsArgs,

    #[command(flatten)]
    pub http: HttpArgs,

    #[command(flatten)]
    pub host: HostArgs,
}

#[derive(Debug, Args)]
pub struct CallArgs {
    /// Name of the tool
    pub tool: String,

    /// `key=value …`, a JSON object, or `-` for JSON on standard input
    #[arg(value_name = "INPUT")]
    pub input: Vec<String>,

    /// Print one JSON object: {ok, id, tool, outcome or error, duration_ms, …}
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub events: EventsArgs,

    #[command(flatten)]
    pub host: HostArgs,
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub host: HostArgs,
}

#[derive(Debug, Args)]
pub struct InspectArgs {
    /// Plugin file
    #[arg(value_name = "FILE.wasm", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct PackArgs {
    /// Component built by the compiler
    #[arg(value_name = "COMPONENT.wasm", value_hint = ValueHint::FilePath)]
    pub component: PathBuf,

    /// Manifest of the plugin (plugin.toml)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub manifest: PathBuf,

    /// Output file [default: NAME.wasm in the current directory, where NAME is the plugin's name]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check every key and path, and print the resulting settings
    Check {
        /// Configuration file [default: the user's toolhost.toml]
        #[arg(value_hint = ValueHint::FilePath)]
        file: Option<PathBuf>,
    },
}

#[cfg(test)]
mod tests {
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
        for words in [
            ["host", "run", "--timeout", "30"],
            ["host", "run", "--deny-tool", "Read("],
            ["host", "run", "--allow-env", "AWS_*"],
            ["host", "run", "--on-duplicate", "maybe"],
            ["host", "run", "--allow-path", ""],
        ] {
            let error = Cli::try_parse_from(words).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{words:?}");
        }
    }
}
