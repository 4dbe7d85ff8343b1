//! What was typed, before anyone asks what it means: that is `settings.rs`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueHint};
use toolhost_contract::Mode;
use toolhost_contract::profile::Profile;
use toolhost_contract::units::parse_duration;

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
use crate::config::{Form, OnDuplicate, PathEntry, Program, Variable};
use crate::events_file::EventsArgs;
use crate::serve::http::HttpArgs;

const AFTER_HELP: &str = "\
Examples:
  host run --plugins ./plugins --allow-path .            serve MCP, or a prompt at a terminal
  host call grep pattern=TODO --plugins ./plugins --allow-path src
  host call write_file '{\"path\": \"a.txt\", \"content\": \"hi\"}' \\
      --plugins ./plugins --allow-path out:rw --allow-tool write_file
  host inspect plugins/files.wasm                        what a plugin is and what it asks for

Exit codes:
  0  ok                        4  no plugin could be loaded
  1  the tool failed           5  denied
  2  wrong usage               6  timed out, or over a limit
  3  wrong configuration       7  internal error of the host
  8  waits for an approval     9  the records cannot be read or written

A plugin gets nothing that was not granted: no folder, no environment variable, no network.";

#[derive(Debug, Parser)]
#[command(
    name = "host",
    version,
    about = "Runs agent tools, each call in a sandbox of its own",
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
    /// Serve the tools: a prompt when started at a terminal, MCP over standard input and output otherwise
    #[command(after_help = RUN_HELP)]
    Run(RunArgs),
    /// Call one tool and print what it says
    #[command(after_help = CALL_HELP)]
    Call(CallArgs),
    /// Run the calls of one model turn together and print their results in call order
    #[command(after_help = batch::HELP)]
    Batch(BatchArgs),
    /// Serve one session to a program that runs an agent: lines of JSON on standard input and output
    #[command(after_help = turns::HELP)]
    Turns(TurnsArgs),
    /// List the tools
    Tools(ToolsArgs),
    /// List the plugins: loaded ones with what they were granted, broken ones with the reason
    Plugins(ListArgs),
    /// Show what a plugin file is, asks for and offers, without granting it anything
    Inspect(InspectArgs),
    /// Put a manifest into a component
    Pack(PackArgs),
    /// Compile the component on standard input (what the host starts for itself, apart from its own memory)
    #[command(hide = true)]
    CompileWorker,
    /// Become a program of a tool (what the host starts for itself, to put walls around it)
    #[command(hide = true)]
    ProcessLauncher { role: Vec<std::ffi::OsString> },
    /// Serve an MCP tool that does nothing: what the benchmark compares with
    #[command(hide = true)]
    NoopMcp {
        /// Over HTTP, on any free port
        #[arg(long)]
        http: bool,
    },
    /// Print a completion script for a shell
    Completions { shell: clap_complete::Shell },
    /// List the calls that were made, newest first, or show one
    Calls(CallsArgs),
    /// List the sessions of clients, newest first
    Sessions(SessionsArgs),
    /// Read, check and export the trail of everything that happened to calls
    Audit {
        #[command(subcommand)]
        command: AuditCommand,
    },
    /// Look after the approvals that were kept
    Approvals {
        #[command(subcommand)]
        command: ApprovalsCommand,
    },
    /// Drop old records and what is too large, as `[retention]` in the configuration says
    Prune(PruneArgs),
    /// Take back what calls did to files
    Undo(UndoArgs),
    /// Say yes to a call that waits for an approval
    Approve(ApproveArgs),
    /// Say no to a call that waits for an approval
    Deny(DenyArgs),
    /// Say what the rules make of a call, or what is wrong with them
    Policy {
        #[command(subcommand)]
        command: PolicyCommand,
    },
    /// Look after other MCP servers, whose tools are served beside those of plugins
    Mcp {
        #[command(subcommand)]
        command: McpCommand,
    },
    /// Look after the configuration file
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

As an MCP server, put the same words into your client's settings:
  {\"command\": \"host\", \"args\": [\"run\", \"--plugins\", \"/opt/tools\", \"--allow-path\", \"/home/me/project\"]}
Nobody is asked over MCP unless you say --ask-client, so tools that change files need --allow-tool, and a folder that
is granted as :rw.";

const CALL_HELP: &str = "\
Input, one of:
  key=value …     the tool's schema says whether a value is text, a number, true/false or JSON
  key:=JSON …     the value is JSON whatever the schema says
  '{…}'           the whole input as JSON
  -               the whole input as JSON on standard input

Examples:
  host call read_file path=README.md --plugins ./plugins --allow-path .
  host call grep pattern='fn main' max_results=5 --plugins ./plugins --allow-path . --json
  echo '{\"path\": \".\"}' | host call list_directory - --plugins ./plugins --allow-path .

The result goes to standard output, with characters that would steer a terminal shown as \\u{…};
--json has it unchanged. Progress and logs go to standard error.";

/// What tools may use beyond files and variables.
#[derive(Debug, Clone, Default, Args)]
pub struct BeyondArgs {
    /// Let plugins that ask for it reach this host: `example.org`, `*.example.org`, `https://host:8443`,
    /// `localhost:8080`, `*` for any public one; repeatable
    #[arg(long, value_name = "HOST")]
    pub allow_host: Vec<String>,

    /// Let plugins that ask for it start this program; repeatable
    #[arg(long, value_name = "NAME")]
    pub allow_program: Vec<Program>,

    /// Let these programs use the network; nothing checks where to
    #[arg(long)]
    pub allow_program_network: bool,

    /// Let programs run without the kernel's walls around them
    #[arg(long)]
    pub unconfined: bool,

    /// Folder for what tools remember longer than a session
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub memory: Option<PathBuf>,

    /// Folder of skills; repeatable
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub skills: Vec<PathBuf>,
}

/// Which plugins, and what they may do. The same for every command that loads plugins.
#[derive(Debug, Clone, Default, Args)]
pub struct HostArgs {
    /// Folder of plugins (*.wasm), or one plugin file; repeatable
    #[arg(long, value_name = "DIR", value_hint = ValueHint::AnyPath)]
    pub plugins: Vec<PathBuf>,

    /// Let plugins that ask for files see this folder or file, `:ro` (the default) or `:rw`; repeatable.
    ///
    /// Guests see the first one as /workspace and the next ones as /extra/1, /extra/2, …; of a file they see a folder
    /// with nothing else in it.
    #[arg(long, value_name = "PATH[:ro|rw]", value_hint = ValueHint::AnyPath)]
    pub allow_path: Vec<PathEntry>,

    /// Keep what fits this pattern of a .gitignore out of the sight of all plugins: `*.sqlite`, `/private/`; repeatable.
    ///
    /// Besides files that mostly hold secrets, such as .env, .ssh and keys. `!NAME` lets one of them in.
    #[arg(long, value_name = "PATTERN")]
    pub exclude_path: Vec<String>,

    /// Let plugins see files that mostly hold secrets, too
    #[arg(long)]
    pub no_default_excludes: bool,

    /// Let plugins that ask for it see this environment variable; repeatable
    #[arg(long, value_name = "NAME")]
    pub allow_env: Vec<Variable>,

    #[command(flatten)]
    pub beyond: BeyondArgs,

    /// Whose names, parameters and results the model sees: native, claude, sema, gemini, kode or pegasus
    #[arg(long, value_name = "NAME")]
    pub profile: Option<Profile>,

    /// Show the model that system's tools and no others
    #[arg(long)]
    pub profile_only: bool,

    /// Run calls of this form without asking: `name`, `plugin/*`, `Bash(git *)`, `Edit(src/**)`, `*`; repeatable
    #[arg(long, value_name = "FORM")]
    pub allow_tool: Vec<Form>,

    /// Never run calls of this form; beats every allow; repeatable
    #[arg(long, value_name = "FORM")]
    pub deny_tool: Vec<Form>,

    /// How much may happen without asking: dont_ask, plan, readonly, default, accept_edits, auto or yolo
    #[arg(long, value_name = "MODE")]
    pub mode: Option<Mode>,

    /// Configuration file (.toml, .yaml, .yml or .json) instead of your own toolhost.toml
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,

    /// What to do when two plugins offer the same tool name
    #[arg(long, value_enum, value_name = "HOW")]
    pub on_duplicate: Option<OnDuplicate>,

    /// Longest time of any call, whatever plugins and configuration say; for example `30s` or `2m`
    #[arg(long, value_name = "DUR", value_parser = parse_duration)]
    pub timeout: Option<Duration>,

    /// Keep no records: no audit trail, no remembered approvals
    #[arg(long)]
    pub no_store: bool,

    /// Say on standard error what is loaded, and pass on debug messages of tools
    #[arg(long, short)]
    pub verbose: bool,
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// Ask the person at the MCP client for permissions, if the client shows forms; it may answer without a person
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
    /// The plugin
    #[arg(value_name = "FILE.wasm", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct PackArgs {
    /// What the compiler made
    #[arg(value_name = "COMPONENT.wasm", value_hint = ValueHint::FilePath)]
    pub component: PathBuf,

    /// The plugin's plugin.toml
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub manifest: PathBuf,

    /// Where to write the plugin [default: NAME.wasm in this directory, NAME being the plugin's name]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Read the file, check every key and path, and say what it means
    Check {
        /// [default: your own toolhost.toml]
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
    fn a_call_reads_its_words_around_its_flags() {
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
    fn wrong_values_are_refused_where_they_are_typed() {
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
