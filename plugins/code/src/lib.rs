//! `code_run`: JavaScript in an interpreter that runs inside the sandbox of the call.

#![cfg_attr(
    test,
    allow(
        clippy::needless_pass_by_value,
        clippy::needless_raw_string_hashes,
        reason = "so it is with `expect!`"
    )
)]

mod builtins;
mod console;
mod failure;
mod files;
mod interpreter;
mod jobs;
mod json;
mod run;
mod source;

use run::code_run;

toolhost_sdk::export_tools![code_run];
