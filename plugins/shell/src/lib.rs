//! Shell tools: run commands, and read, write to, list and stop background tasks.

#![cfg_attr(
    test,
    allow(
        clippy::needless_pass_by_value,
        clippy::needless_raw_string_hashes,
        reason = "so it is with `expect!`"
    )
)]

mod background;
mod command_result;
mod cursor;
mod input;
mod kill;
mod list;
mod output;
mod output_reader;
mod read;
mod run;
mod show;
mod task;
#[cfg(test)]
mod testing;

use input::shell_input;
use kill::shell_kill;
use list::shell_list;
use read::shell_output;
use run::shell;

toolhost_sdk::export_tools![shell, shell_output, shell_input, shell_kill, shell_list];
