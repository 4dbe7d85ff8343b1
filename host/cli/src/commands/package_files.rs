//! `host package-files`: writes the man pages and completion scripts of packages. Debug builds only, so that the program
//! that users get does not contain the generator.

use std::fs;
use std::path::Path;

use clap_complete::Shell;

use crate::exit::{CliError, Exit, OrExit};

/// Writes the files below `directory` for a command that is installed as `name`.
pub fn package_files(
    name: String,
    directory: &Path,
    command_line: clap::Command,
) -> Result<Exit, CliError> {
    // `clap` takes names for the life of the program.
    let name: &'static str = name.leak();
    let mut command_line = command_line.name(name).bin_name(name);
    let [man_pages, completions] = ["man", "completions"].map(|part| directory.join(part));
    for created in [&man_pages, &completions] {
        fs::create_dir_all(created).or_exit(Exit::Internal)?;
    }
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        clap_complete::generate_to(shell, &mut command_line, name, &completions)
            .or_exit(Exit::Internal)?;
    }
    clap_mangen::generate_to(command_line, &man_pages).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}
