//! `host run`: the interactive prompt at a terminal, or the MCP server over standard input and output or HTTP.

use std::future::ready;
use std::io::IsTerminal;
use std::sync::Arc;

use clap::Args;
use tokio::runtime::Runtime;
use toolhost_contract::{Answer, BoxFuture, Call, Question};
use toolhost_kernel::Prompter;

use crate::events_file::EventsArgs;
use crate::exit::{CliError, Exit};
use crate::host_args::HostArgs;
use crate::load::{LoadPurpose, prepare};
use crate::serve::http::HttpArgs;
use crate::serve::serve;
use crate::serve::ui::{UiArgs, WebPage};
use crate::settings::CliSettings;
use crate::terminal::note;
use crate::terminal::prompter::TerminalPrompter;
use crate::watch::{LiveChanges, WatchArgs};

/// Calls that may wait for answers of MCP clients at the same time.
const MAX_CLIENT_PROMPTS: usize = 64;

pub const HELP: &str = "\
Examples:
  host run --plugins ./plugins --allow-path .
  host run --plugins ./plugins --allow-path src --allow-path out:rw --allow-tool write_file
  host run --plugins ./plugins --allow-path . --http 127.0.0.1:8080
  host run --plugins ./plugins --allow-path .:rw --ui

To run as an MCP server, put the same arguments into your client's settings:
  {\"command\": \"/opt/toolhost/host\",
   \"args\": [\"run\", \"--plugins\", \"/opt/toolhost/plugins\", \"--allow-path\", \"/home/me/project\"]}
Users of MCP clients are not asked unless --ui or --ask-client is set, so tools that change files need
--allow-tool and a directory granted as :rw.";

#[derive(Debug, Args)]
pub struct RunArgs {
    // First, because its most common options have no heading.
    #[command(flatten)]
    pub host: HostArgs,

    /// Ask the client's user for permissions via MCP elicitation. Caution: a client can answer without asking its user
    #[arg(long, help_heading = "MCP options")]
    pub ask_client: bool,

    #[command(flatten)]
    pub events: EventsArgs,

    #[command(flatten)]
    pub http: HttpArgs,

    #[command(flatten)]
    pub ui: UiArgs,

    #[command(flatten)]
    pub watch: WatchArgs,
}

pub fn run(runtime: &Runtime, args: &RunArgs) -> Result<Exit, CliError> {
    start(runtime, args, load_settings(args)?)
}

pub fn load_settings(args: &RunArgs) -> Result<CliSettings, CliError> {
    if args.ask_client || args.ui.answers() {
        CliSettings::load_interactive(&args.host)
    } else {
        CliSettings::load(&args.host)
    }
}

/// Runs the prompt or the server until it ends.
pub fn start(
    runtime: &Runtime,
    args: &RunArgs,
    mut settings: CliSettings,
) -> Result<Exit, CliError> {
    settings.mcp.prompts |= args.ask_client;
    let address = args.http.http;
    let interactive = address.is_none() && std::io::stdin().is_terminal();
    let carried = if interactive {
        "the results"
    } else {
        "the messages of MCP"
    };
    let events_file = args.events.open(carried, &mut settings.core.secrets)?;
    let view = settings.core.profile_view;
    let mut following = None;
    // Over MCP, standard input belongs to the client, so prompts at this terminal are not possible.
    let prompter: Arc<dyn Prompter> = if interactive {
        Arc::new(TerminalPrompter::default())
    } else if let Some(elicitation_prompter) = settings.mcp.open_prompter()? {
        // A terminal has one user. Each MCP client has its own, and one that does not answer must not block prompts to
        // the others.
        let limit = &mut settings.core.pools.interactive;
        *limit = MAX_CLIENT_PROMPTS.max(*limit);
        elicitation_prompter
    } else {
        Arc::new(ClientPromptsDisabled)
    };
    if args.ui.answers() {
        // The page shows the questions of all calls, so one that waits must not block the others.
        let limit = &mut settings.core.pools.interactive;
        *limit = MAX_CLIENT_PROMPTS.max(*limit);
    }
    let page = WebPage::new();
    let prompter = page.prompter(prompter);
    if address.is_some() {
        args.http.prepare(&mut settings);
    }
    let mut starting =
        runtime.block_on(prepare(settings, prompter, LoadPurpose::Run, |kernel| {
            following = events_file.map(|file| file.follow(kernel, view));
        }))?;
    starting.page = Some(Arc::clone(&page));
    if let Some(address) = args.ui.address() {
        let block_address = starting.block_address();
        let opened = page.open(
            starting.kernel(),
            address,
            args.ui.permission(),
            block_address,
        );
        let link = runtime.block_on(opened)?;
        note(&format!(
            "page: {link} (opens once, within 10 minutes; `host ui` prints another link)"
        ));
    }
    let exit = if interactive {
        let (host, changes) = runtime.block_on(async {
            let host = Arc::new(starting.load(|_| {}).await?);
            host.connect();
            host.wait_for_servers().await;
            host.require_plugins()?;
            host.compile_in_background();
            let changes = LiveChanges::accept(&host, &args.watch)?;
            Ok::<_, CliError>((host, changes))
        })?;
        host.note_missing_grants();
        let exit = crate::prompt::run(runtime, &host)?;
        drop(changes);
        runtime.block_on(host.shut_down())?;
        exit
    } else {
        runtime.block_on(serve(starting, &args.http, &args.watch))?;
        Exit::Ok
    };
    runtime.block_on(page.close());
    drop(following);
    Ok(exit)
}

/// The prompter of an MCP server without `--ask-client`, which prompts no clients.
struct ClientPromptsDisabled;

impl Prompter for ClientPromptsDisabled {
    fn name(&self) -> &'static str {
        "none"
    }

    fn ask<'a>(&'a self, _: &'a Question, _: &'a Call) -> BoxFuture<'a, Answer> {
        Box::pin(ready(Answer::NoPrompter))
    }

    fn remedy(&self) -> Option<&str> {
        Some("to prompt the user: `host run --ui` (a web page), or `host run --ask-client`")
    }
}
