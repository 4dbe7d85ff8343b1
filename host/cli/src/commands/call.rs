//! `host call`: runs one call and prints its result.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use toolhost_contract::units::format_duration;
use toolhost_contract::{CallId, Effect, SessionKey, Sink, text};
use toolhost_kernel::{CallRequest, Report, ToolEntry};
use toolhost_mcp_client::tool_name;

use super::undo::describe_commits;
use crate::events_file::EventsArgs;
use crate::exit::{CliError, Exit, OrExit};
use crate::host_args::{CallerArgs, HostArgs};
use crate::load::{LoadPurpose, RunningHost, load_without_servers};
use crate::settings::{CliSettings, ServerSettings};
use crate::terminal::events::{EventPrinter, print_output};
use crate::terminal::progress::{Progress, ProgressMode};
use crate::terminal::prompter::TerminalPrompter;
use crate::terminal::render::{self, TextForm};
use crate::terminal::screen::SCREEN;
use crate::terminal::style::Style;
use crate::terminal::{note, print};
use crate::{input, json};

const SIGINT: i32 = rustix::process::Signal::INT.as_raw();

pub const HELP: &str = "\
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

#[derive(Debug, Args)]
pub struct CallArgs {
    /// Name of the tool
    pub tool: String,

    /// `key=value …`, a JSON object, or `-` for JSON on standard input
    #[arg(value_name = "INPUT")]
    pub input: Vec<String>,

    /// Print one JSON object: {ok, id, tool, outcome or error, duration_ms, …}
    #[arg(long, help_heading = "Output options")]
    pub json: bool,

    #[command(flatten)]
    pub caller: CallerArgs,

    #[command(flatten)]
    pub events: EventsArgs,

    #[command(flatten)]
    pub host: HostArgs,
}

pub async fn call(args: CallArgs) -> Result<Exit, CliError> {
    let mut settings = CliSettings::load(&args.host)?;
    let verbose = settings.verbose;
    let events_file = args.events.open("the result", &mut settings.core.secrets)?;
    let view = settings.core.profile_view;
    let needed = NeededServers::retain(&mut settings, &args.tool);
    let mut following = None;
    let prompter = Arc::new(TerminalPrompter::default());
    let host = load_without_servers(settings, prompter, LoadPurpose::Run, |kernel| {
        following = events_file.map(|file| file.follow(kernel, view));
    })
    .await?;
    needed.connect(&host, &args.tool).await;
    host.require_plugins()?;
    host.note_missing_grants();

    let registry = host.kernel.registry();
    let schema = registry
        .get(&args.tool)
        .map(|entry| &entry.tool.input_schema);
    let limit = host.kernel.settings().max_input_bytes;
    let input = input::parse(&args.input, schema, std::io::stdin(), limit).or_exit(Exit::Usage)?;
    let session = SessionKey::local(format!("s-{}", toolhost_kernel::id::random()));
    let caller = args.caller.caller(&session)?;
    let id = CallId(format!("c-{}", toolhost_kernel::id::random()));
    let mut request = CallRequest::new(id, args.tool, input, caller.principal);
    request.context.only_paths = caller.only_paths;
    host.kernel.open_session(&session, "host call");

    let mode = if args.json {
        ProgressMode::Hidden
    } else {
        ProgressMode::of_terminal()
    };
    let events = call_events(&host, verbose, &request.tool, mode).await;
    let kept = kept_after_cancel(registry.get(&request.tool));
    let call = host
        .kernel
        .call(request, Arc::clone(&events) as Arc<dyn Sink>);
    let start = Instant::now();
    let report = tokio::select! {
        report = call => Some(report),
        _ = tokio::signal::ctrl_c() => None,
    };
    let output = events.finish();
    // The thread of a cancelled question may still have to restore the terminal settings.
    SCREEN.wait_until_free();
    host.kernel.close_session(&session, "host call");
    let changed = report
        .as_ref()
        .and_then(|report| changed(&host, report, args.json));
    tokio::select! {
        ended = host.shut_down() => ended?,
        // A second Ctrl-C does not wait.
        _ = tokio::signal::ctrl_c(), if report.is_none() => {}
    }
    drop(following);

    let Some(report) = report else {
        let after = format_duration(start.elapsed());
        print_output(&output, "");
        // Progress is erased together with the echo of Ctrl-C.
        let start_of_line = if mode == ProgressMode::Live { "" } else { "\n" };
        note(&format!("{start_of_line}cancelled after {after}; {kept}"));
        // The shell sees that the user interrupted it.
        let _ = signal_hook::low_level::emulate_default_handler(SIGINT);
        return Ok(Exit::ToolFailed);
    };
    if args.json {
        let shown = json::pretty(&json::report(&report)).or_exit(Exit::Internal)?;
        print(&shown).or_exit(Exit::Internal)?;
    } else {
        show(&report, TextForm::of(&registry, &report), &output)?;
    }
    if let Some(changed) = changed {
        note(&changed);
    }
    Ok(exit_status(&report))
}

/// The servers that a call may need.
enum NeededServers {
    /// The one that the tool belongs to.
    Own,
    /// The name of the tool states no server.
    Any,
}

impl NeededServers {
    /// Leaves out servers that the tool does not belong to, if its name states a server.
    fn retain(settings: &mut CliSettings, tool: &str) -> Self {
        let tool = tool.to_ascii_lowercase();
        let owns = |server: &ServerSettings| {
            let name = tool_name(&server.name, "x");
            let prefix = name.as_str().strip_suffix('x');
            prefix.is_some_and(|prefix| tool.starts_with(prefix))
        };
        if !settings.servers.iter().any(owns) {
            return Self::Any;
        }
        settings.servers.retain(owns);
        settings.discovery = None;
        Self::Own
    }

    async fn connect(&self, host: &RunningHost, tool: &str) {
        // Do not wait for servers that the call does not need.
        if host.settings.has_servers() && host.needs_no_servers(tool) {
            return;
        }
        host.connect();
        match self {
            Self::Own => {
                host.wait_for_some_servers().await;
            }
            Self::Any => host.wait_for_servers().await,
        }
    }
}

/// Prints the events of one call of the tool, and shows its progress.
pub async fn call_events(
    host: &RunningHost,
    verbose: bool,
    tool: &str,
    mode: ProgressMode,
) -> Arc<EventPrinter> {
    let progress = Progress::start(&text::escape_line(tool, 80), mode);
    let registry = host.kernel.registry();
    if let Some(entry) = registry.get(tool)
        && let Some(check) = host.loaded.preparation(&entry.plugin.name).await
    {
        progress.show_preparation(entry.plugin.name.clone(), check);
    }
    EventPrinter::with_progress(verbose, progress)
}

/// Says what remains of a call of this tool if the user cancels it.
pub fn kept_after_cancel(tool: Option<&ToolEntry>) -> &'static str {
    match tool {
        Some(tool) if tool.tool.effect() <= Effect::Reads => "it changed nothing",
        Some(tool) if tool.stages_changes() => "none of its changes were kept",
        Some(_) => "what it may have changed is kept",
        None => "it did not run",
    }
}

/// What the call changed and how to undo it, for users at a terminal.
fn changed(host: &RunningHost, report: &Report, json: bool) -> Option<String> {
    if json || !std::io::stderr().is_terminal() {
        return None;
    }
    let store = host.kernel.store()?;
    let changed = describe_commits(store, &report.commits, &host.settings)?;
    Some(format!("{changed}; `host undo {}` reverts it", report.id))
}

/// Prints the result to standard output and notes about it to standard error.
fn show(report: &Report, form: TextForm, output: &[u8]) -> Result<(), CliError> {
    for repair in &report.repairs {
        note(&format!("note: {repair}"));
    }
    let outcome = match &report.result {
        Ok(outcome) => outcome,
        Err(error) => {
            print_output(output, "");
            note(&render::error_after_output(error));
            return Ok(());
        }
    };
    print_output(output, &outcome.model_text());
    if render::has_content(outcome) {
        let stdout = std::io::stdout();
        let text = if stdout.is_terminal() && !report.rendering.is_empty() {
            render::rendering(&report.rendering, Style::of(&stdout))
        } else if stdout.is_terminal() {
            render::for_terminal(outcome, form, Style::of(&stdout))
        } else {
            render::for_pipe(outcome)
        };
        print(&text).or_exit(Exit::Internal)?;
    }
    for remark in render::notes(outcome) {
        note(&format!("note: {remark}"));
    }
    if let Some(failure) = render::failure(outcome) {
        note(&failure);
    }
    Ok(())
}

fn exit_status(report: &Report) -> Exit {
    match &report.result {
        Ok(outcome) if outcome.is_error() => Exit::ToolFailed,
        Ok(_) => Exit::Ok,
        Err(error) if error.code == "approval_pending" => Exit::Waiting,
        Err(error) => error.class.into(),
    }
}
