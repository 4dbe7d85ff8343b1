//! `host completions`: generates shell completion scripts.

use clap::CommandFactory;

use crate::args::Cli;
use crate::exit::{CliError, Exit, OrExit};
use crate::terminal::print;

pub fn completions(shell: clap_complete::Shell) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "host", &mut script);
    print(&String::from_utf8_lossy(&script)).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}
