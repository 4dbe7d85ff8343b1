//! JSON and base64 tools, all of them pure.

#![cfg_attr(
    test,
    allow(
        clippy::needless_pass_by_value,
        clippy::needless_raw_string_hashes,
        reason = "so it is with `expect!`"
    )
)]

mod base64;
mod json;
mod lenient;
#[cfg(test)]
mod python;

use base64::{base64_decode, base64_encode};
use json::{json_parse, json_stringify};

toolhost_sdk::export_tools![json_parse, json_stringify, base64_encode, base64_decode];
