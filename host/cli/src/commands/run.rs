//! `host run`: a prompt for a person, an MCP server for a program.

use std::io::IsTerminal;
use std::sync::Arc;

use tokio::runtime::Runtime;
use toolhost_kernel::{Nobody, Prompter};

use crate::args::RunArgs;
use crate::exit::{Exit, Failure};
use crate::load::{Purpose, load_with};
use crate::serve::serve_mcp;
use crate::settings::Settings;
use crate::terminal::prompter::TerminalPrompter;

pub fn run(runtime: &Runtime, args: &RunArgs) -> Result<Exit, Failure> {
    let settings = Settings::load(&args.host)?;
    let interactive = std::io::stdin().is_terminal();
    let events_file = args.events.open(if interactive {
        "the results"
    } else {
        "the messages of MCP"
    })?;
    let mut following = None;
    // Over MCP standard input belongs to the client: there is nobody to ask, even if somebody watches.
    let prompter: Arc<dyn Prompter> = if interactive {
        Arc::new(TerminalPrompter::default())
    } else {
        Arc::new(Nobody)
    };
    let host = runtime.block_on(load_with(settings, prompter, Purpose::Run, |kernel| {
        following = events_file.map(|file| file.follow(kernel));
    }))?;
    host.require_plugins()?;
    host.note_missing_folders();
    let exit = if interactive {
        crate::prompt::run(runtime, &host)?
    } else {
        runtime.block_on(serve_mcp(&host))?;
        Exit::Ok
    };
    runtime.block_on(host.finish())?;
    drop(following);
    Ok(exit)
}
