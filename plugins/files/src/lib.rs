//! File tools: read, write, list, move and delete files of the workspace.

#![cfg_attr(
    test,
    allow(
        clippy::needless_pass_by_value,
        clippy::needless_raw_string_hashes,
        reason = "so it is with `expect!`"
    )
)]

mod artefacts;
mod attach;
mod cell;
mod change;
mod compose;
mod delete;
mod edit;
mod eol;
#[cfg(test)]
mod fuzz;
mod guard;
mod ignored;
mod info;
mod list;
mod make;
mod many;
mod media;
mod moving;
mod multi_edit;
mod notebook;
mod open;
mod page;
mod patch;
mod path;
mod read;

mod relocate;
mod roots;
mod seen;
mod snippet;
mod store;
#[cfg(test)]
mod testing;
mod text;
mod time;
mod tree;
mod walk;
mod write;

use attach::read_media;
use cell::notebook_edit;
use delete::delete_file;
use edit::edit_file;
use info::get_file_info;
use list::list_directory;
use make::create_directory;
use many::read_many_files;
use moving::move_file;
use patch::apply_patch;
use read::read_file;
use roots::list_allowed_directories;
use tree::directory_tree;
use write::write_file;

toolhost_sdk::export_tools![
    read_file,
    read_many_files,
    read_media,
    write_file,
    edit_file,
    multi_edit::multi_edit,
    apply_patch,
    notebook_edit,
    list_directory,
    directory_tree,
    get_file_info,
    list_allowed_directories,
    create_directory,
    move_file,
    delete_file,
];
