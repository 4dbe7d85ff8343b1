//! `host run`: a prompt for a person, an MCP server for a program.

use std::io::IsTerminal;
use std::sync::Arc;

use tokio::runtime::Runtime;
use toolhost_kernel::{Nobody, Prompter};

use crate::args::HostArgs;
use crate::exit::{Exit, Failure, OrExit};
use crate::load::{Purpose, load};
use crate::serve::serve_mcp;
use crate::settings::Settings;
use crate::terminal::prompter::TerminalPrompter;

pub fn run(runtime: &Runtime, args: &HostArgs) -> Result<Exit, Failure> {
    let settings = Settings::load(args)?;
    let interactive = std::io::stdin().is_terminal();
    // Over MCP standard input belongs to the client: there is nobody to ask, even if somebody watches.
    let prompter: Arc<dyn Prompter> = if interactive {
        Arc::new(TerminalPrompter::default())
    } else {
        Arc::new(Nobody)
    };
    let host = runtime.block_on(load(settings, prompter, Purpose::Run))?;
    host.require_plugins()?;
    host.note_missing_folders();
    let exit = if interactive {
        crate::prompt::run(runtime, &host)?
    } else {
        runtime.block_on(serve_mcp(&host))?;
        Exit::Ok
    };
    runtime.block_on(host.kernel.flush()).or_exit(Exit::Store)?;
    Ok(exit)
}
