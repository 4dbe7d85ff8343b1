//! `host policy`: explains the decision about a call, and checks rules.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand, ValueHint};
use toolhost_contract::Principal;
use toolhost_contract::policy::Decision;
use toolhost_kernel::{NoPrompter, Prompter};

use crate::exit::{CliError, Exit, OrExit};
use crate::host_args::HostArgs;
use crate::input;
use crate::json;
use crate::load::{LoadPurpose, RunningHost, load};
use crate::settings::CliSettings;
use crate::terminal::{note, print};

#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Explain whether a call would be allowed and which rule, mode or approval decides, without running it
    #[command(after_help = EXPLAIN_HELP)]
    Explain(Box<ExplainArgs>),
    /// Check all rules against the loaded tools
    Check(Box<CheckArgs>),
}

const EXPLAIN_HELP: &str = "\
Examples:
  host policy explain write_file path=a.txt content=x --plugins ./plugins --mode plan
  host policy explain read_file '{\"path\": \"~/.ssh/id_ed25519\"}' --deny-tool 'Read(~/.ssh/**)' --plugins ./plugins

Exit codes: 0 would be allowed, 5 would be denied, 8 the user would be asked.";

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Name of the tool
    pub tool: String,

    /// `key=value …`, a JSON object, or `-` for JSON on standard input
    #[arg(value_name = "INPUT")]
    pub input: Vec<String>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub host: HostArgs,
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Configuration file [default: the user's toolhost.toml]
    #[arg(value_hint = ValueHint::FilePath, conflicts_with = "config")]
    pub file: Option<PathBuf>,

    #[command(flatten)]
    pub host: HostArgs,
}

pub async fn policy(command: PolicyCommand) -> Result<Exit, CliError> {
    match command {
        PolicyCommand::Explain(args) => explain(*args).await,
        PolicyCommand::Check(args) => check(*args).await,
    }
}

async fn load_for_policy(settings: CliSettings) -> Result<RunningHost, CliError> {
    let prompter: Arc<dyn Prompter> = Arc::new(NoPrompter);
    Box::pin(load(settings, prompter, LoadPurpose::Explain)).await
}

async fn explain(args: ExplainArgs) -> Result<Exit, CliError> {
    let host = load_for_policy(CliSettings::load(&args.host)?).await?;
    host.require_plugins()?;
    let registry = host.kernel.registry();
    let entry = registry
        .get(&args.tool)
        .ok_or_else(|| registry.unknown(&args.tool))
        .or_exit(Exit::Usage)?;
    let schema = Some(&entry.tool.input_schema);
    let limit = host.kernel.settings().max_input_bytes;
    let input = input::parse(&args.input, schema, std::io::stdin(), limit).or_exit(Exit::Usage)?;
    let explanation = host.kernel.explain(entry, &input, &Principal::default());
    let shown = if args.json {
        json::pretty(explanation.to_value()).or_exit(Exit::Internal)?
    } else {
        explanation.to_string().trim_end().to_owned()
    };
    print(&shown).or_exit(Exit::Internal)?;
    if !entry.enabled {
        note("note: the tool is disabled, so every call is denied");
    }
    let deciding = host
        .settings
        .core
        .hooks
        .iter()
        .filter(|hook| hook.is_deciding());
    let names: Vec<&str> = deciding.map(|hook| hook.name.as_str()).collect();
    if !names.is_empty() {
        note(&format!(
            "note: hooks were not run and can still deny the call: {}",
            names.join(", ")
        ));
    }
    Ok(match explanation.decision() {
        _ if !entry.enabled => Exit::Denied,
        Decision::Allow => Exit::Ok,
        Decision::Deny => Exit::Denied,
        Decision::Ask => Exit::Waiting,
    })
}

/// `Settings::load` returns errors with the exit code of a configuration error.
async fn check(args: CheckArgs) -> Result<Exit, CliError> {
    let mut host_args = args.host;
    host_args.config = args.file.or(host_args.config);
    let settings = CliSettings::load(&host_args)?;
    let policy = Arc::clone(&settings.core.policy);
    let (rules, mode) = (policy.rules().len(), policy.mode());
    // Without plugins, rules cannot be checked against tools, but their own errors are still found.
    let mut lines = Vec::new();
    if settings.core.has_plugins() {
        // Loading prints the warnings.
        load_for_policy(settings).await?;
    } else {
        lines.push("no plugins given, so tool names were not checked".to_owned());
    }
    for found in policy.check_wildcards() {
        note(&found.to_string());
    }
    let plural = if rules == 1 { "" } else { "s" };
    lines.push(format!("ok: mode {mode}, {rules} rule{plural}"));
    print(&lines.join("\n")).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}
