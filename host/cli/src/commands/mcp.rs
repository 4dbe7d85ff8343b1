//! `host mcp`: manages other MCP servers whose tools are served alongside those of plugins.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueHint};
use tokio::runtime::Runtime;
use toolhost::HostPaths;
use toolhost::mcp_servers::{certificate_reads, program_reads};
use toolhost_contract::units::{format_duration, parse_positive_duration};
use toolhost_contract::{Limits, text};
use toolhost_mcp_client::{
    LoginPage, ServerConfig, ServerSandbox, TransportConfig, needs_approval,
};

use crate::commands::plugins::print_answer;
use crate::config::{EditedFile, PathEntry};
use crate::control::{self, ControlAnswer, ControlRequest, running_hosts};
use crate::exit::{CliError, Exit, OrExit as _};
use crate::host_args::HostArgs;
use crate::load::servers::{self, ServerStorage};
use crate::settings::{CliSettings, DiscoverySettings, ServerSettings};
use crate::terminal::prompter::confirm;
use crate::terminal::{note, print};

mod approve;
mod edit;
mod learn;
mod proposal;
mod server_state;

#[derive(Debug, Subcommand)]
pub enum McpCommand {
    /// List servers with their transport, state and number of tools
    List(ListArgs),
    /// Add a server to the configuration file and approve it
    #[command(
        after_help = ADD_HELP,
        override_usage = "host mcp add [OPTIONS] <NAME> --url <URL>\n       host mcp add [OPTIONS] <NAME> -- <COMMAND>..."
    )]
    Add(Box<AddArgs>),
    /// Replace the command or address of a server and its options, and approve the result
    #[command(
        override_usage = "host mcp update [OPTIONS] <NAME> --url <URL>\n       host mcp update [OPTIONS] <NAME> -- <COMMAND>..."
    )]
    Update(Box<AddArgs>),
    /// Remove a server from the configuration and delete its approval
    Remove(NamedArgs),
    /// Make running hosts read the servers of their configuration again and repeat the discovery command
    Refresh,
    /// Connect to a server, list its tools and disconnect
    Test(TestArgs),
    /// Approve the command or address of a server and its current tools
    Approve(ApproveArgs),
    /// Run a server, record what its sandbox refuses, and propose what to allow
    #[command(after_help = learn::HELP)]
    Learn(Box<learn::LearnArgs>),
    /// Log in to an HTTP server in your browser
    Login(NamedArgs),
}

const ADD_HELP: &str = "\
Examples:
  host mcp add memory -- mcp-server-memory
  host mcp add time --trust -- mcp-server-time
  host mcp add files --allow-path docs:rw -- mcp-server-filesystem docs
  host mcp add tracker --url https://example.org/mcp --header 'Authorization=Bearer ${TOKEN}'

A server given as a command runs in a sandbox: it gets its own directory as home, the paths and
hosts that you allow, and the programs and libraries of the system. npx and uvx also need
--allow-host for their registry. The command and its sandbox are shown, and it runs only after you
approve both; a change needs a new approval. A server given with --url is reached over the network.";

#[derive(Debug, Clone, Args)]
pub struct FileArgs {
    /// Use this configuration file instead of the user's toolhost.toml
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub file: FileArgs,
}

#[derive(Debug, Args)]
pub struct NamedArgs {
    /// Name of a server, as `host mcp list` prints it
    pub name: String,

    #[command(flatten)]
    pub file: FileArgs,
}

#[derive(Debug, Args)]
pub struct TestArgs {
    /// Name of a server, as `host mcp list` prints it
    pub name: String,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub file: FileArgs,
}

#[derive(Debug, Args)]
pub struct ApproveArgs {
    /// Name of a server, or `discovery-command`
    pub name: String,

    /// Approve without asking for confirmation
    #[arg(long, short)]
    pub yes: bool,

    #[command(flatten)]
    pub file: FileArgs,
}

#[derive(Debug, Args)]
#[group(id = "way", required = true, multiple = false, args = ["url", "command"])]
pub struct AddArgs {
    /// Name of the server (letters, digits, `_` and `-`); its tools are named mcp__NAME__TOOL
    pub name: String,

    /// URL of a server that is reached over HTTP
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,

    /// HTTP header to send, `NAME=VALUE`, where `${VAR}` is replaced by the host's environment
    /// variable; repeatable
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "command", value_parser = parse_pair)]
    pub header: Vec<(String, String)>,

    /// Environment variable for the program, `NAME=VALUE`, where `${VAR}` is replaced by the host's
    /// variable; repeatable
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "url", value_parser = parse_pair)]
    pub env: Vec<(String, String)>,

    /// Working directory of the program [default: the directory of the configuration file]
    #[arg(long, value_name = "DIR", conflicts_with = "url", value_hint = ValueHint::DirPath)]
    pub cwd: Option<String>,

    /// Let the program read this path; `PATH:rw` also allows changes; repeatable
    #[arg(long, value_name = "PATH", conflicts_with = "url", value_hint = ValueHint::AnyPath)]
    pub allow_path: Vec<PathEntry>,

    /// Let the program connect to this host over HTTP or HTTPS; repeatable
    #[arg(long, value_name = "HOST", conflicts_with = "url")]
    pub allow_host: Vec<String>,

    /// Let the program connect to all hosts, this machine included
    #[arg(long, conflicts_with_all = ["url", "allow_host"])]
    pub allow_network: bool,

    /// Run the program without a sandbox, with all your privileges
    #[arg(long, conflicts_with_all = ["url", "allow_path", "allow_host", "allow_network"])]
    pub unconfined: bool,

    /// Trust the annotations of the server's tools, such as read-only
    #[arg(long)]
    pub trust: bool,

    /// Allow unencrypted connections to another machine
    #[arg(long, conflicts_with = "command")]
    pub insecure: bool,

    /// Maximum duration of a call, such as `30s` [default: 60s]
    #[arg(long, value_name = "DUR", value_parser = parse_timeout)]
    pub timeout: Option<Duration>,

    /// Approve without asking for confirmation
    #[arg(long, short)]
    pub yes: bool,

    #[command(flatten)]
    pub file: FileArgs,

    /// Program and arguments, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

fn parse_pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn parse_timeout(text: &str) -> Result<Duration, String> {
    let timeout = parse_positive_duration(text).map_err(|error| error.to_string())?;
    if timeout > Limits::MAX_TIMEOUT {
        let most = format_duration(Limits::MAX_TIMEOUT);
        return Err(format!("the longest timeout of a call is {most}"));
    }
    Ok(timeout)
}

/// A server with a path that does not exist would never start.
fn check_paths(config: &ServerConfig) -> Result<(), CliError> {
    let TransportConfig::Stdio(program) = &config.transport else {
        return Ok(());
    };
    let ServerSandbox::Confined(profile) = &program.sandbox else {
        return Ok(());
    };
    let mut paths = profile.read.iter().chain(&profile.write);
    paths.find(|path| !path.exists()).map_or(Ok(()), |path| {
        let path = text::escape_line(&path.to_string_lossy(), 400);
        let message = format!("{path} does not exist; create it, or correct `--allow-path`");
        Err(CliError::new(Exit::Usage, message))
    })
}

pub fn mcp(runtime: &Runtime, command: McpCommand) -> Result<Exit, CliError> {
    match command {
        McpCommand::List(args) => runtime.block_on(server_state::list(&args)),
        McpCommand::Add(args) => add(&args, Existing::Refuse),
        McpCommand::Update(args) => add(&args, Existing::Replace),
        McpCommand::Remove(args) => remove(&args),
        McpCommand::Refresh => refresh(),
        McpCommand::Test(args) => runtime.block_on(server_state::test(&args)),
        McpCommand::Approve(args) => {
            let exit = runtime.block_on(approve::approve(&args))?;
            reload_running_hosts(&load(&args.file)?);
            Ok(exit)
        }
        McpCommand::Learn(args) => learn::learn(runtime, &args),
        McpCommand::Login(args) => runtime.block_on(login(&args)),
    }
}

fn load(file: &FileArgs) -> Result<CliSettings, CliError> {
    CliSettings::load(&HostArgs {
        config: file.config.clone(),
        ..HostArgs::default()
    })
}

fn find<'a>(settings: &'a CliSettings, name: &str) -> Result<&'a ServerSettings, CliError> {
    settings
        .servers
        .iter()
        .find(|server| server.name == name)
        .ok_or_else(|| {
            let names: Vec<&str> = settings
                .servers
                .iter()
                .map(|one| one.name.as_str())
                .collect();
            let there = if names.is_empty() {
                "no servers are configured".to_owned()
            } else {
                format!("configured servers: {}", names.join(", "))
            };
            let name = text::escape_line(name, 80);
            CliError::new(Exit::Usage, format!("no server `{name}`; {there}"))
        })
}

/// The configuration file that other commands read.
fn open_config(args: &FileArgs, settings: &CliSettings) -> Result<EditedFile, CliError> {
    let path = args.config.clone();
    let path = path.or_else(|| control::config_file(settings));
    EditedFile::open(path.as_deref())
}

/// Scheme, host and port of a server. Its `oauth`, which can contain a client secret, is for this address only.
fn origin(settings: &CliSettings, name: &str) -> Option<String> {
    let config = find(settings, name).ok()?.config.as_ref().ok()?;
    match &config.transport {
        TransportConfig::Http(address) => Some(address.url.origin().ascii_serialization()),
        TransportConfig::Stdio(_) => None,
    }
}

/// What `add` does with a server that exists.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Existing {
    Refuse,
    /// It has to exist.
    Replace,
}

fn check_existing(settings: &CliSettings, name: &str, existing: Existing) -> Result<(), CliError> {
    match (existing, find(settings, name)) {
        (Existing::Refuse, Ok(_)) => Err(CliError::new(
            Exit::Usage,
            format!("server `{name}` already exists; change it with `host mcp update {name}`"),
        )),
        (Existing::Refuse, Err(_)) | (Existing::Replace, Ok(_)) => Ok(()),
        (Existing::Replace, Err(unknown)) => Err(unknown),
    }
}

fn add(args: &AddArgs, existing: Existing) -> Result<Exit, CliError> {
    let settings = match &args.file.config {
        // A missing file is created.
        Some(file) if !file.exists() => load(&FileArgs { config: None })?,
        _ => load(&args.file)?,
    };
    check_existing(&settings, &args.name, existing)?;
    let previous = origin(&settings, &args.name);
    let mut file = open_config(&args.file, &settings)?;
    match existing {
        Existing::Refuse => edit::add_server(&mut file.document, args),
        Existing::Replace => edit::update_server(&mut file.document, args),
    }
    .or_exit(Exit::Config)?;
    // The approval covers the server as every other command will read it.
    let mut settings = CliSettings::of_text(file.path(), &file.document.to_string())?;
    if origin(&settings, &args.name) != previous
        && edit::remove_oauth(&mut file.document, &args.name).or_exit(Exit::Config)?
    {
        note(
            "its `oauth` is removed, because it was for another address; add it again if it is for this one too",
        );
        settings = CliSettings::of_text(file.path(), &file.document.to_string())?;
    }
    let config = find(&settings, &args.name)?.config.as_ref();
    let config = config.map_err(|reason| CliError::new(Exit::Usage, reason.clone()))?;
    check_paths(config)?;
    let reads = program_reads(config);
    note(&approval_text(config, &reads));
    let keep = ServerStorage::from_settings(&settings);
    if !args.yes {
        file.release_lock();
    }
    let allowed = confirm_unless("allow it to run?", args.yes);
    if allowed == Some(false) {
        note(match existing {
            Existing::Refuse => "not added",
            Existing::Replace => "not updated",
        });
        return Ok(Exit::Denied);
    }
    file.write()?;
    // An approval can remain from a server that was removed from the file by hand.
    keep.approvals.forget(&args.name).or_exit(Exit::Store)?;
    if allowed == Some(true) {
        keep.approvals
            .approve(&args.name, config.digest(), &reads)
            .or_exit(Exit::Store)?;
    } else {
        note(&format!(
            "not approved: no terminal to prompt at; approve it with `host mcp approve {}`",
            args.name
        ));
    }
    let (name, file) = (&args.name, file.path().display());
    print(&match existing {
        Existing::Refuse => format!("added {name} to {file}"),
        Existing::Replace => format!("updated {name} in {file}"),
    })
    .or_exit(Exit::Internal)?;
    reload_running_hosts(&settings);
    Ok(Exit::Ok)
}

fn remove(args: &NamedArgs) -> Result<Exit, CliError> {
    let settings = load(&args.file)?;
    find(&settings, &args.name)?;
    let mut file = open_config(&args.file, &settings)?;
    edit::remove_server(&mut file.document, &args.name).or_exit(Exit::Config)?;
    file.write()?;
    servers::delete_stored(&ServerStorage::from_settings(&settings), &args.name)
        .or_exit(Exit::Store)?;
    let path = file.path().display();
    print(&format!("removed {} from {path}", args.name)).or_exit(Exit::Internal)?;
    let data = settings.core.host_paths.server_data_dir();
    if let Some(data) = data
        .map(|data| data.join(&args.name))
        .filter(|data| data.exists())
    {
        note(&format!("its own directory is kept: {}", data.display()));
    }
    reload_running_hosts(&settings);
    Ok(Exit::Ok)
}

fn refresh() -> Result<Exit, CliError> {
    let paths = HostPaths::from_env(|name| std::env::var(name).ok());
    let hosts = running_hosts(paths.state.as_deref());
    if hosts.is_empty() {
        return Err(CliError::new(Exit::Usage, "no host is running"));
    }
    let mut exit = Exit::Ok;
    for host in hosts {
        let answer = host
            .send(ControlRequest::ReloadServers)
            .unwrap_or_else(|CliError { error, .. }| ControlAnswer::failed(&format!("{error:#}")));
        if print_answer(&answer)? != Exit::Ok {
            exit = Exit::ToolFailed;
        }
    }
    Ok(exit)
}

/// Makes the running hosts with the same configuration file use the changed servers.
fn reload_running_hosts(settings: &CliSettings) {
    let state = settings.core.host_paths.state.as_deref();
    for host in running_hosts(state) {
        if host.config != control::config_file(settings) {
            continue;
        }
        let pid = host.pid;
        match host.send(ControlRequest::ReloadServers) {
            Ok(answer) => {
                for line in answer.changes {
                    note(&format!("host {pid}: {}", text::escape_lines(&line, 2_000)));
                }
                for line in answer.errors {
                    note(&format!(
                        "host {pid}: error: {}",
                        text::escape_lines(&line, 2_000)
                    ));
                }
            }
            Err(CliError { error, .. }) => note(&format!("warning: {error:#}")),
        }
    }
}

async fn login(args: &NamedArgs) -> Result<Exit, CliError> {
    let settings = load(&args.file)?;
    let server = find(&settings, &args.name)?;
    let config = server
        .config
        .as_ref()
        .map_err(|reason| CliError::new(Exit::Config, reason.clone()))?;
    let keep = ServerStorage::from_settings(&settings);
    let TransportConfig::Http(address) = &config.transport else {
        return Err(CliError::new(
            Exit::Usage,
            format!(
                "server `{}` is a program; login requires a server with a `url`",
                args.name
            ),
        ));
    };
    // The login requests go to the server itself with the operator's headers.
    require_approval(&keep, config)?;
    let Some(logins) = keep.logins else {
        return Err(CliError::new(
            Exit::Config,
            "no home directory to store the login in",
        ));
    };
    let show = |page: &LoginPage<'_>| {
        let scopes = if page.scopes.is_empty() {
            String::new()
        } else {
            format!("\nscopes: {}", text::escape_line(&page.scopes, 1_000))
        };
        note(&format!(
            "you log in at {}; {} receives the token and can use it{scopes}\nopen this URL in a browser and return here \
             when you are done:\n{}",
            text::escape_line(&page.host, 300),
            text::escape_line(address.url.host_str().unwrap_or_default(), 300),
            text::escape_line(page.url, 8_000)
        ));
    };
    logins
        .login(&args.name, address, None, show)
        .await
        .or_exit(Exit::ToolFailed)?;
    print(&format!("logged in to {}", args.name)).or_exit(Exit::Internal)?;
    // Hosts that stopped trying because the login was missing connect now.
    reload_running_hosts(&settings);
    Ok(Exit::Ok)
}

/// Returns an error unless the program or address of the server is approved.
fn require_approval(keep: &ServerStorage, config: &ServerConfig) -> Result<(), CliError> {
    let name = &config.name;
    let missing = servers::missing_approval(keep, config, &program_reads(config));
    let Some(missing) = missing.or_exit(Exit::Store)? else {
        return Ok(());
    };
    let message = servers::not_approved(name, &missing, &config.description());
    Err(CliError::new(Exit::Denied, message))
}

/// Describes what an approval of a server covers. `reads`: the result of [`program_reads`].
fn approval_text(config: &ServerConfig, reads: &BTreeSet<PathBuf>) -> String {
    let mut shown = config.description();
    let how = match &config.transport {
        TransportConfig::Http(_) => "is reached over the network and is not sandboxed",
        TransportConfig::Stdio(_) if !config.is_confined() => {
            "is not sandboxed: it runs with your privileges"
        }
        TransportConfig::Stdio(_) => {
            let certificates = certificate_reads(config);
            let reads = reads.union(&certificates);
            for path in reads.filter(|path| needs_approval(path)) {
                let path = text::escape_line(&path.to_string_lossy(), usize::MAX);
                shown = format!("{shown}\n  reads {path}");
            }
            "runs in a sandbox, with its own directory and the programs of the system"
        }
    };
    let name = text::escape_line(&config.name, 80);
    format!("server `{name}` {how}\n  {}", shown.replace('\n', "\n  "))
}

/// Asks for approval. Returns `None` if there is no terminal to prompt at.
fn confirm_unless(question: &str, confirmed: bool) -> Option<bool> {
    if confirmed {
        Some(true)
    } else {
        confirm(question)
    }
}

/// Whether `name` is the discovery command and not a server.
fn is_discovery(name: &str) -> bool {
    name == DiscoverySettings::NAME
}
