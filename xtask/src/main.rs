//! `cargo xtask VERB`: project tasks that need more than a shell command.

mod audit_rows;
mod clients;
mod components;
mod debian;
mod fuzz;
mod job;
mod mutate;
mod requirements;
mod samples;
mod shell;
mod step;
mod supply_chain;
mod target;
mod test_programs;
mod verb;

use std::process::ExitCode;

fn main() -> ExitCode {
    match verb::run(std::env::args_os().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
