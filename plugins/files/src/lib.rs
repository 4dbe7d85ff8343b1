//! File tools: read, write, list, move and delete files of the workspace.

#![cfg_attr(
    test,
    allow(
        clippy::needless_pass_by_value,
        clippy::needless_raw_string_hashes,
        reason = "so it is with `expect!`"
    )
)]

mod batch_read;
mod delete;
mod edit;
mod eol;
mod file_info;
mod file_move;
mod file_reader;
#[cfg(test)]
mod fuzz;
mod ignore_rules;
mod listing;
mod media;
mod media_file;
mod multi_edit;
mod new_content;
mod new_directory;
mod notebook;
mod notebook_cell;
mod page;
mod pasted_output;
mod patch;
mod path;
mod protected_paths;
mod read;
mod text_change;

mod file_writer;
mod move_tree;
mod read_state;
mod roots;
mod snippet;
#[cfg(test)]
mod testing;
mod text;
mod time;
mod tree;
mod walk;
mod write;

use batch_read::read_many_files;
use delete::delete_file;
use edit::edit_file;
use file_info::get_file_info;
use file_move::move_file;
use listing::list_directory;
use media_file::read_media;
use new_directory::create_directory;
use notebook_cell::notebook_edit;
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
