//! `host mcp`: other MCP servers, whose tools are served beside those of plugins.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueHint};
use toolhost_contract::text;
use toolhost_contract::units::parse_duration;
use toolhost_mcp_client::{LoginPage, ServerConfig};

use crate::args::HostArgs;
use crate::exit::{Exit, Failure, OrExit as _};
use crate::load::servers::{self, Keep};
use crate::settings::{DiscoverySettings, ServerSettings, Settings};
use crate::terminal::prompter::confirm;
use crate::terminal::{note, print};

mod approve;
mod edit;
mod list;

#[derive(Debug, Subcommand)]
pub enum McpCommand {
    /// List the servers: how they are reached, how they stand, and what they offer
    List(ListArgs),
    /// Put a server into the configuration file, and approve it
    #[command(after_help = ADD_HELP)]
    Add(Box<AddArgs>),
    /// Take a server out of the configuration file, with its approval
    Remove(NamedArgs),
    /// Start a server, list its tools, and end it
    Test(TestArgs),
    /// Approve what a server starts or is reached by, and its tools as they are now
    Approve(ApproveArgs),
    /// Log in to a server with a browser
    Login(NamedArgs),
}

const ADD_HELP: &str = "\
Examples:
  host mcp add memory -- npx -y @modelcontextprotocol/server-memory
  host mcp add time --trust -- uvx mcp-server-time
  host mcp add tracker --url https://example.org/mcp --header 'Authorization=Bearer ${TRACKER_TOKEN}'

A server is another program: it runs with your rights and outside of any sandbox. What it starts is shown whole, and
runs only after a yes; another command needs another yes.";

#[derive(Debug, Clone, Args)]
pub struct FileArgs {
    /// Configuration file instead of your own toolhost.toml
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
    pub name: String,

    #[command(flatten)]
    pub file: FileArgs,
}

#[derive(Debug, Args)]
pub struct TestArgs {
    pub name: String,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub file: FileArgs,
}

#[derive(Debug, Args)]
pub struct ApproveArgs {
    /// A server, or `discovery-command`
    pub name: String,

    /// Without asking
    #[arg(long, short)]
    pub yes: bool,

    #[command(flatten)]
    pub file: FileArgs,
}

#[derive(Debug, Args)]
#[group(id = "way", required = true, multiple = false, args = ["url", "command"])]
pub struct AddArgs {
    /// Letters, digits, `_` and `-`; its tools are called mcp__NAME__tool
    pub name: String,

    /// Address of a server that is reached over HTTP
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,

    /// A header of each request, `NAME=VALUE`; `${VAR}` in it is a variable of the environment; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub header: Vec<(String, String)>,

    /// A variable for the program, `NAME=VALUE`; `${VAR}` in it is a variable of the environment; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub env: Vec<(String, String)>,

    /// Folder that the program starts in [default: the folder of the configuration file]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub cwd: Option<String>,

    /// Believe what the server says of its tools, such as that one only reads
    #[arg(long)]
    pub trust: bool,

    /// Speak without encryption to another machine
    #[arg(long, requires = "url")]
    pub insecure: bool,

    /// Longest time of a call, such as `30s` [default: 60s]
    #[arg(long, value_name = "DUR", value_parser = parse_duration)]
    pub timeout: Option<Duration>,

    /// Approve without asking
    #[arg(long, short)]
    pub yes: bool,

    #[command(flatten)]
    pub file: FileArgs,

    /// The program and its words, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub async fn mcp(command: McpCommand) -> Result<Exit, Failure> {
    match command {
        McpCommand::List(args) => list::list(&args).await,
        McpCommand::Add(args) => add(&args),
        McpCommand::Remove(args) => remove(&args),
        McpCommand::Test(args) => list::test(&args).await,
        McpCommand::Approve(args) => approve::approve(&args).await,
        McpCommand::Login(args) => login(&args).await,
    }
}

fn load(file: &FileArgs) -> Result<Settings, Failure> {
    Settings::load(&HostArgs {
        config: file.config.clone(),
        ..HostArgs::default()
    })
}

fn find<'a>(settings: &'a Settings, name: &str) -> Result<&'a ServerSettings, Failure> {
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
                "the configuration names none".to_owned()
            } else {
                format!("there are {}", names.join(", "))
            };
            let name = text::inline(name, 80);
            Failure::new(Exit::Usage, format!("no server `{name}`; {there}"))
        })
}

/// The one that the other commands read, made when it is not there.
fn file_of(args: &FileArgs, settings: &Settings) -> Result<PathBuf, Failure> {
    args.config
        .clone()
        .or_else(|| settings.core.config_file.clone())
        .or_else(|| settings.core.places.config_file())
        .ok_or_else(|| {
            Failure::new(
                Exit::Usage,
                "there is no home directory for a file; write --config FILE",
            )
        })
}

fn add(args: &AddArgs) -> Result<Exit, Failure> {
    let settings = match &args.file.config {
        // A file to be made is no error here.
        Some(file) if !file.exists() => load(&FileArgs { config: None })?,
        _ => load(&args.file)?,
    };
    if settings
        .servers
        .iter()
        .any(|server| server.name == args.name)
    {
        return Err(Failure::new(
            Exit::Usage,
            format!("server `{}` is there already; remove it first", args.name),
        ));
    }
    let file = file_of(&args.file, &settings)?;
    let before = edit::read(&file).or_exit(Exit::Config)?;
    let after = edit::with_server(&before, args).or_exit(Exit::Config)?;
    // What is approved is what the file says, as every other command reads it; so it is written and read, and put
    // back when it was not meant so.
    edit::write(&file, &after).or_exit(Exit::Config)?;
    let read = FileArgs {
        config: Some(file.clone()),
    };
    let undo = |failure: Failure| {
        let _ = edit::put_back(&file, &before);
        failure
    };
    let settings = load(&read).map_err(undo)?;
    let server = find(&settings, &args.name).map_err(undo)?;
    let config = server
        .config
        .as_ref()
        .map_err(|reason| undo(Failure::new(Exit::Usage, reason.clone())))?;
    note(&format!(
        "server `{}` is not sandboxed: it runs with your rights\n  {}",
        args.name,
        config.shown().replace('\n', "\n  ")
    ));
    let keep = Keep::of(&settings);
    // Of a server that was taken out of the file by hand there may be one left, and this is a new question.
    keep.approvals.forget(&args.name).or_exit(Exit::Store)?;
    match ask("let it run?", args.yes) {
        Some(true) => keep
            .approvals
            .approve(&args.name, config.digest())
            .or_exit(Exit::Store)?,
        Some(false) => {
            edit::put_back(&file, &before).or_exit(Exit::Config)?;
            note("nothing was added");
            return Ok(Exit::Denied);
        }
        None => note(&format!(
            "nobody is there to say yes; `host mcp approve {}` does",
            args.name
        )),
    }
    print(&format!("added {} to {}", args.name, file.display())).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

fn remove(args: &NamedArgs) -> Result<Exit, Failure> {
    let settings = load(&args.file)?;
    find(&settings, &args.name)?;
    let file = file_of(&args.file, &settings)?;
    let before = edit::read(&file).or_exit(Exit::Config)?;
    let after = edit::without_server(&before, &args.name).or_exit(Exit::Config)?;
    edit::write(&file, &after).or_exit(Exit::Config)?;
    servers::forget(&Keep::of(&settings), &args.name).or_exit(Exit::Store)?;
    print(&format!("removed {} from {}", args.name, file.display())).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

async fn login(args: &NamedArgs) -> Result<Exit, Failure> {
    let settings = load(&args.file)?;
    let server = find(&settings, &args.name)?;
    let config = server
        .config
        .as_ref()
        .map_err(|reason| Failure::new(Exit::Config, reason.clone()))?;
    let keep = Keep::of(&settings);
    let toolhost_mcp_client::Way::Http(address) = &config.way else {
        return Err(Failure::new(
            Exit::Usage,
            format!(
                "server `{}` is a program; only servers with a `url` are logged in to",
                args.name
            ),
        ));
    };
    // What is asked about logging in goes to the server itself, with the operator's headers.
    needs_approval(&keep, config)?;
    let Some(logins) = keep.logins else {
        return Err(Failure::new(
            Exit::Config,
            "there is no home directory to keep a login in",
        ));
    };
    let show = |page: &LoginPage<'_>| {
        let scopes = if page.scopes.is_empty() {
            String::new()
        } else {
            format!("\nscopes: {}", text::inline(&page.scopes, 1_000))
        };
        note(&format!(
            "you log in at {}; {} gets the token and can use it{scopes}\nopen this address in a browser, and come back \
             when you are done:\n{}",
            text::inline(&page.host, 300),
            text::inline(address.url.host_str().unwrap_or_default(), 300),
            text::inline(page.url, 8_000)
        ));
    };
    logins
        .login(&args.name, address, None, show)
        .await
        .or_exit(Exit::ToolFailed)?;
    print(&format!("logged in to {}", args.name)).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

/// Refuses what would start a program or speak to an address that nobody said yes to.
fn needs_approval(keep: &Keep, config: &ServerConfig) -> Result<(), Failure> {
    let name = &config.name;
    let approved = keep.approvals.is_approved(name, config.digest());
    if approved.or_exit(Exit::Store)? {
        return Ok(());
    }
    Err(Failure::new(
        Exit::Denied,
        format!(
            "server `{name}` is not approved, and not started; `host mcp approve {name}` would let it run\n  {}",
            config.shown().replace('\n', "\n  ")
        ),
    ))
}

/// None when nobody is there to be asked.
fn ask(question: &str, yes: bool) -> Option<bool> {
    if yes { Some(true) } else { confirm(question) }
}

/// Is it the discovery command and no server?
fn is_discovery(name: &str) -> bool {
    name == DiscoverySettings::NAME
}
