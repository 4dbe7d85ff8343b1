//! `host mcp learn`: runs one server, records what its sandbox refuses, and proposes lines for the configuration.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use tokio::runtime::Runtime;
use toolhost::mcp_servers::{AccessLog, ServerProtection, program_reads};
use toolhost_contract::text;
use toolhost_mcp_client::{
    ServerConfig, ServerProfile, ServerProgram, ServerSandbox, TransportConfig,
};

use super::proposal::{Proposal, ProposalContext, propose};
use super::{
    FileArgs, approval_text, confirm_unless, edit, find, load, open_config, reload_running_hosts,
};
use crate::commands::run::{self, RunArgs};
use crate::exit::{CliError, Exit, OrExit as _};
use crate::load::servers::{self, ServerStorage};
use crate::settings::CliSettings;
use crate::terminal::note;

pub const HELP: &str = "\
The server runs as in `host run`, alone and in its sandbox. Call its tools at the prompt, or, if
standard input is not a terminal, as an MCP client. When that ends, the paths and hosts that the
sandbox refused are proposed as lines of the configuration. Nothing is changed before you agree.";

#[derive(Debug, Args)]
pub struct LearnArgs {
    /// Name of a server, as `host mcp list` prints it
    pub name: String,

    /// Approve the server and apply what is proposed, without asking for confirmation
    #[arg(long, short)]
    pub yes: bool,

    #[command(flatten)]
    pub run: RunArgs,
}

pub fn learn(runtime: &Runtime, args: &LearnArgs) -> Result<Exit, CliError> {
    let mut settings = run::load_settings(&args.run)?;
    let config = server_config(&settings, &args.name)?;
    let (program, profile) = confined_program(&config)?;
    let reads = program_reads(&config);
    if !is_approved(&settings, &config, &reads, args.yes)? {
        return Ok(Exit::Denied);
    }
    let record = AccessLog::default();
    settings.record = Some(record.clone());
    settings.servers.retain(|server| server.name == args.name);
    settings.discovery = None;
    settings.core.plugins.clear();
    let protection = ServerProtection::from_settings(&settings.core);
    note(&format!(
        "recording what the sandbox of server `{}` refuses; call its tools and end with Ctrl-D",
        args.name
    ));
    // A server that cannot start without more access ends with an error; what it was refused is recorded.
    let ended = run::start(runtime, &args.run, settings);
    let context = ProposalContext::new(program, profile, protection, &reads);
    let proposal = propose(&record.accesses(), &context);
    for line in &proposal.notes {
        note(&text::escape_line(line, 1_000));
    }
    if proposal.is_empty() {
        let nothing = format!(
            "the sandbox of server `{}` refused nothing that it could allow",
            args.name
        );
        note(&nothing);
        return ended;
    }
    apply(args, config, &reads, &proposal)?;
    ended
}

/// The server with the sandbox that the user agrees to.
fn extended(mut config: ServerConfig, proposal: &Proposal) -> ServerConfig {
    if let TransportConfig::Stdio(program) = &mut config.transport
        && let ServerSandbox::Confined(profile) = &mut program.sandbox
    {
        proposal.extend(profile);
    }
    config
}

/// Returns an error if the configuration has become another one than the user agreed to.
fn check_unchanged(now: &ServerConfig, agreed: &ServerConfig) -> Result<(), CliError> {
    if now.digest() == agreed.digest() {
        return Ok(());
    }
    let name = &now.name;
    Err(CliError::new(
        Exit::Denied,
        format!(
            "the configuration of server `{name}` has changed since `host mcp learn` started; nothing was changed or \
             approved; approve the server with `host mcp approve {name}` and run `host mcp learn {name}` again"
        ),
    ))
}

fn server_config(settings: &CliSettings, name: &str) -> Result<ServerConfig, CliError> {
    let config = find(settings, name)?.config.clone();
    config.map_err(|reason| CliError::new(Exit::Config, reason))
}

fn confined_program(config: &ServerConfig) -> Result<(&ServerProgram, &ServerProfile), CliError> {
    match &config.transport {
        TransportConfig::Stdio(program) => match &program.sandbox {
            ServerSandbox::Confined(profile) => Ok((program, profile)),
            ServerSandbox::Unconfined => Err(CliError::new(
                Exit::Usage,
                format!(
                    "server `{}` has no sandbox; remove `sandbox = \"none\"` first",
                    config.name
                ),
            )),
        },
        TransportConfig::Http(_) => Err(CliError::new(
            Exit::Usage,
            format!(
                "server `{}` is reached over the network and has no sandbox",
                config.name
            ),
        )),
    }
}

fn is_approved(
    settings: &CliSettings,
    config: &ServerConfig,
    reads: &BTreeSet<PathBuf>,
    yes: bool,
) -> Result<bool, CliError> {
    let keep = ServerStorage::from_settings(settings);
    let (name, digest) = (&config.name, config.digest());
    let missing = servers::missing_approval(&keep, config, reads);
    if missing.or_exit(Exit::Store)?.is_none() {
        return Ok(true);
    }
    note(&approval_text(config, reads));
    let allowed = confirm_unless("allow it to run?", yes) == Some(true);
    if allowed {
        let approved = keep.approvals.approve(name, digest, reads);
        approved.or_exit(Exit::Store)?;
    } else {
        note("not approved; run this at a terminal, or with --yes");
    }
    Ok(allowed)
}

/// Shows the lines, and writes them to the configuration and approves the new sandbox if the user agrees.
fn apply(
    args: &LearnArgs,
    config: ServerConfig,
    reads: &BTreeSet<PathBuf>,
    proposal: &Proposal,
) -> Result<(), CliError> {
    let lines = proposal.lines();
    let shown = lines
        .iter()
        .map(|line| format!("  {}\n", text::escape_line(line, 4_096)));
    let shown: String = shown.collect();
    note(&format!(
        "server `{}` was refused:\n{}",
        args.name,
        shown.trim_end()
    ));
    let file_args = FileArgs {
        config: args.run.host.config.clone(),
    };
    let settings = load(&file_args)?;
    check_unchanged(&server_config(&settings, &args.name)?, &config)?;
    let agreed = extended(config, proposal);
    let mut file = open_config(&file_args, &settings)?;
    edit::extend_sandbox(&mut file.document, &args.name, proposal).or_exit(Exit::Config)?;
    let settings = CliSettings::of_text(file.path(), &file.document.to_string())?;
    check_unchanged(&server_config(&settings, &args.name)?, &agreed)?;
    if !args.yes {
        file.release_lock();
    }
    let question = format!("allow all of it, in {}?", shown_path(file.path()));
    if confirm_unless(&question, args.yes) != Some(true) {
        note("nothing was changed");
        return Ok(());
    }
    file.write()?;
    let keep = ServerStorage::from_settings(&settings);
    keep.approvals
        .approve(&args.name, agreed.digest(), reads)
        .or_exit(Exit::Store)?;
    note(&format!(
        "changed {} in {}",
        args.name,
        shown_path(file.path())
    ));
    reload_running_hosts(&settings);
    Ok(())
}

fn shown_path(path: &Path) -> String {
    text::escape_line(&path.to_string_lossy(), 400)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(command: &str, read: &[&str]) -> ServerConfig {
        let profile = ServerProfile {
            read: read.iter().map(PathBuf::from).collect(),
            ..ServerProfile::default()
        };
        ServerConfig {
            name: "one".to_owned(),
            transport: TransportConfig::Stdio(ServerProgram {
                command: command.into(),
                args: Vec::new(),
                env: std::collections::BTreeMap::new(),
                cwd: PathBuf::from("/"),
                sandbox: ServerSandbox::Confined(profile),
            }),
            include: Vec::new(),
            exclude: Vec::new(),
            timeout: toolhost_mcp_client::TIMEOUT,
            is_trusted: false,
        }
    }

    #[test]
    fn only_the_configuration_that_was_agreed_to_is_approved() {
        let proposal = Proposal {
            read: ["/b".into()].into(),
            ..Proposal::default()
        };
        let agreed = extended(config("x", &["/a"]), &proposal);
        assert!(check_unchanged(&config("x", &["/a", "/b"]), &agreed).is_ok());
        for other in [
            config("x", &["/a"]),
            config("x", &["/a", "/b", "/c"]),
            config("evil", &["/a", "/b"]),
        ] {
            let error = check_unchanged(&other, &agreed).unwrap_err().error;
            assert!(error.to_string().contains("has changed since"), "{error}");
        }
    }
}
