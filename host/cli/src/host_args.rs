//! Arguments that several commands share: the plugins to load, and what they are granted. `settings.rs` merges them with
//! the configuration file.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use toolhost_contract::units::parse_positive_duration;
use toolhost_contract::{CallerId, Mode, OnlyPath, OnlyPaths, Principal, SessionKey, ToolSet};
use toolhost_formats::profile::Profile;
use toolhost_kernel::OnDuplicate;

use crate::config::{PathEntry, ProgramName, RuleText, Variable};
use crate::exit::{CliError, Exit};
use crate::value_parsers::on_duplicate_parser;

/// Sections of the help text. The options that users need most have no section and come first.
const ACCESS: &str = "Access options";
const MODEL: &str = "Options for models";
const OTHER: &str = "Other options";
const CALLER: &str = "Caller options";

/// Flags that grant access beyond files and environment variables.
#[derive(Debug, Clone, Default, Args)]
pub struct ExternalAccessArgs {
    /// Allow plugins that request it to connect to this host: `example.org`, `*.example.org`, `https://host:8443`,
    /// `localhost:8080`, or `*` for any public host; repeatable
    #[arg(long, value_name = "HOST", display_order = 2)]
    pub allow_host: Vec<String>,

    /// Allow plugins that request it to start this program; repeatable
    #[arg(long, value_name = "NAME", help_heading = ACCESS)]
    pub allow_program: Vec<ProgramName>,

    /// Let programs of --allow-program use the network, without checks of the destination
    #[arg(long, help_heading = ACCESS)]
    pub allow_program_network: bool,

    /// Run programs without their sandbox, with all your privileges
    #[arg(long, help_heading = ACCESS)]
    pub unconfined: bool,

    /// Directory in which the memory tools keep data across sessions
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = ACCESS)]
    pub memory: Option<PathBuf>,

    /// Directory of skills, which are instructions that the model can load; repeatable
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = ACCESS)]
    pub skills: Vec<PathBuf>,
}

/// Flags shared by all commands that load plugins: which plugins, and what they are granted.
#[derive(Debug, Clone, Default, Args)]
pub struct HostArgs {
    /// Directory of plugins (*.wasm), or one plugin file; repeatable
    #[arg(long, value_name = "DIR", value_hint = ValueHint::AnyPath, display_order = 0)]
    pub plugins: Vec<PathBuf>,

    /// Grant this directory or file to plugins that request files, as `:ro` (the default) or `:rw`; repeatable
    ///
    /// Plugins see the first path as /workspace and further paths as /extra/1, /extra/2, and so on. A granted file is
    /// the only entry of its directory.
    #[arg(long, value_name = "PATH[:ro|rw]", value_hint = ValueHint::AnyPath, display_order = 1)]
    pub allow_path: Vec<PathEntry>,

    /// Hide files that match this .gitignore pattern from all plugins: `*.sqlite`, `/private/`; repeatable
    ///
    /// Files that usually contain secrets, such as .env, .ssh and keys, are hidden by default. `!NAME` re-includes one.
    #[arg(long, value_name = "PATTERN", help_heading = ACCESS)]
    pub exclude_path: Vec<String>,

    /// Do not hide files that usually contain secrets
    #[arg(long, help_heading = ACCESS)]
    pub no_default_excludes: bool,

    /// Allow plugins that request it to read this environment variable; repeatable
    #[arg(long, value_name = "NAME", help_heading = ACCESS)]
    pub allow_env: Vec<Variable>,

    #[command(flatten)]
    pub external_access: ExternalAccessArgs,

    /// System whose tool names, parameters and results the model sees: native, claude, sema, gemini, kode or pegasus
    /// [default: native]
    #[arg(long, value_name = "NAME", help_heading = MODEL)]
    pub profile: Option<Profile>,

    /// Tools that models are shown: all, core, or names of plugins, servers and tools. The others can be called, and the
    /// model finds them with tool_search
    #[arg(long, value_name = "SET,…", help_heading = MODEL)]
    pub tools: Option<ToolSet>,

    /// Show the model only tools that exist in the system of --profile
    #[arg(long, help_heading = MODEL)]
    pub profile_only: bool,

    /// Allow matching calls without asking: `name`, `plugin/*`, `Bash(git *)`, `Edit(src/**)`, `*`; repeatable
    #[arg(long, value_name = "RULE", display_order = 3)]
    pub allow_tool: Vec<RuleText>,

    /// Deny matching calls, overriding every allow rule; repeatable
    #[arg(long, value_name = "RULE", help_heading = OTHER)]
    pub deny_tool: Vec<RuleText>,

    /// Permission mode, for calls that no rule covers: dont_ask, readonly, plan, ask, default, accept_edits, auto, yolo or custom
    /// [default: default]
    #[arg(long, value_name = "MODE", display_order = 4)]
    pub mode: Option<Mode>,

    /// Use this configuration file (.toml, .yaml, .yml or .json) instead of the user's toolhost.toml
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = OTHER)]
    pub config: Option<PathBuf>,

    /// How to handle two plugins that provide the same tool name [default: error]
    #[arg(long, value_name = "HOW", value_parser = on_duplicate_parser(), help_heading = OTHER)]
    pub on_duplicate: Option<OnDuplicate>,

    /// Maximum duration of every call, regardless of plugins and configuration; for example `30s` or `2m`
    #[arg(long, value_name = "DUR", value_parser = parse_positive_duration, help_heading = OTHER)]
    pub timeout: Option<Duration>,

    /// Keep no records: no audit trail, no saved approvals and no undo
    #[arg(long, help_heading = OTHER)]
    pub no_store: bool,

    /// Print loaded plugins and debug messages of tools to standard error
    #[arg(long, short, help_heading = OTHER)]
    pub verbose: bool,
}

/// On whose behalf a program makes calls.
#[derive(Debug, Clone, Default, Args)]
pub struct IdentityArgs {
    /// Agent that makes the calls, for rules, records and events [default: main]
    #[arg(help_heading = CALLER, long, value_name = "NAME")]
    pub agent: Option<CallerId>,

    /// Task that the calls belong to [default: local]
    #[arg(help_heading = CALLER, long, value_name = "ID")]
    pub task: Option<CallerId>,
}

impl IdentityArgs {
    pub fn stated(&self, principal: Principal) -> Principal {
        principal.stated(self.agent.clone(), self.task.clone())
    }
}

/// On whose behalf a program makes calls, and the directories to which it narrows them.
#[derive(Debug, Clone, Default, Args)]
pub struct CallerArgs {
    #[command(flatten)]
    pub identity: IdentityArgs,

    /// Narrow the calls to this granted directory or a directory in one (repeatable)
    #[arg(help_heading = CALLER, long = "only-path", value_name = "PATH", value_hint = ValueHint::DirPath)]
    pub only_paths: Vec<OnlyPath>,
}

impl CallerArgs {
    pub fn caller(&self, session: &SessionKey) -> Result<Caller, CliError> {
        let principal = Principal::in_session(session);
        let only_paths = (!self.only_paths.is_empty()).then(|| self.only_paths.clone());
        let only_paths = only_paths.map(OnlyPaths::try_from).transpose();
        let only_paths = only_paths.map_err(|error| CliError::new(Exit::Usage, error))?;
        Ok(Caller {
            principal: self.identity.stated(principal),
            only_paths: only_paths.into_iter().collect(),
        })
    }
}

/// On whose behalf calls are made, and the directories to which they are narrowed.
#[derive(Debug, Clone)]
pub struct Caller {
    pub principal: Principal,
    pub only_paths: Vec<OnlyPaths>,
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub host: HostArgs,
}
