//! The files of the workspace: read, write, list, look at.

#![cfg_attr(
    test,
    allow(
        clippy::needless_pass_by_value,
        clippy::needless_raw_string_hashes,
        reason = "so it is with `expect!`"
    )
)]

mod artefacts;
mod change;
mod compose;
mod ignored;
mod info;
mod list;
mod media;
mod page;
mod path;
mod read;
mod store;
#[cfg(test)]
mod testing;
mod text;
mod time;
mod walk;
mod write;

use info::get_file_info;
use list::list_directory;
use read::read_file;
use write::write_file;

toolhost_sdk::export_tools![read_file, write_file, list_directory, get_file_info];
