//! System tools: time, sleep and environment variables.

#![cfg_attr(
    test,
    allow(
        clippy::needless_pass_by_value,
        clippy::needless_raw_string_hashes,
        reason = "so it is with `expect!`"
    )
)]

mod environment;
mod overlay;
mod pause;
mod set_env;
mod time;

use environment::get_env;
use pause::sleep;
use time::current_time;

toolhost_sdk::export_tools![current_time, sleep, get_env, set_env::set_env];
