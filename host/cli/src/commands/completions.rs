//! `host completions`: generates shell completion scripts.

use crate::exit::{CliError, Exit, OrExit};
use crate::terminal::print;

pub fn completions(
    shell: clap_complete::Shell,
    command_line: &mut clap::Command,
) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, command_line, "host", &mut script);
    print(&String::from_utf8_lossy(&script)).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}
