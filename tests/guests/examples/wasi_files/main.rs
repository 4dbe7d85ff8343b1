//! Scenarios of wasi:filesystem 0.2: behaviour specified by its documentation and POSIX, tested from inside a
//! component.

#![expect(
    clippy::unnecessary_wraps,
    reason = "scenarios are of one type, also those in which nothing has to succeed"
)]

mod access;
mod data;
mod linking;
mod listing;
mod making;
mod moving;
mod opening;
mod paths;
mod scene;
mod standard;
mod status;
mod streams;
mod symbolic;
mod times;

use scene::Scene;
use toolhost_sdk::prelude::*;
use wasip2::filesystem::types::ErrorCode;

type Scenario = fn(&mut Scene) -> std::result::Result<(), ErrorCode>;

const SCENARIOS: &[(&str, Scenario)] = &[
    ("open_to_read", opening::to_read),
    ("open_without_following", opening::without_following),
    ("open_as_directory", opening::as_directory),
    ("open_to_create", opening::to_create),
    ("open_exclusively", opening::exclusively),
    ("open_to_truncate", opening::to_truncate),
    ("open_to_write", opening::to_write),
    ("interesting_paths", paths::interesting),
    ("unusual_names", paths::unusual_names),
    ("flags_and_types", access::flags_and_types),
    ("rights_of_a_descriptor", access::rights),
    ("read_only_grant", access::read_only_grant),
    ("advise", access::advise),
    ("sync", access::sync),
    ("dropped_descriptors", access::dropped),
    ("preopens", access::preopens),
    ("read_at_offsets", data::read),
    ("write_at_offsets", data::write),
    ("set_size", data::set_size),
    ("seen_by_others", data::seen_by_others),
    ("read_streams", streams::read),
    ("write_streams", streams::write),
    ("append_streams", streams::append),
    ("streams_without_rights", streams::without_rights),
    ("set_times", times::of_descriptor),
    ("set_times_at", times::of_path),
    ("stat", status::stat),
    ("stat_at", status::stat_at),
    ("status_change_time", status::change_time),
    ("is_same_object", status::same_object),
    ("metadata_hash", status::metadata_hash),
    ("read_directory", listing::entries),
    ("read_directory_while_it_changes", listing::while_it_changes),
    ("read_directory_that_is_gone", listing::gone),
    ("create_directory", making::create_directory),
    ("remove_directory", making::remove_directory),
    ("unlink_file", making::unlink_file),
    ("unlinked_but_open", making::unlinked_but_open),
    ("link", linking::link),
    ("link_refused", linking::refused),
    ("rename_files", moving::files),
    ("rename_directories", moving::directories),
    ("rename_refused", moving::refused),
    ("rename_across_preopens", moving::across),
    ("rename_while_open", moving::while_open),
    ("symbolic_links", symbolic::links),
    ("symbolic_links_refused", symbolic::refused),
    ("read_link", symbolic::read_link),
    ("standard_files", standard::files),
    ("standard_seeks", standard::seeks),
    ("standard_directories", standard::directories),
];

/// Runs one scenario: one line per check, prefixed with `wrong: ` if the result differs from the specification.
fn play(scenario: &str, made: bool) -> Vec<String> {
    let Some((_, scenario)) = SCENARIOS.iter().find(|(name, _)| *name == scenario) else {
        return SCENARIOS
            .iter()
            .map(|(name, _)| (*name).to_owned())
            .collect();
    };
    let mut scene = Scene::new();
    if !made {
        scene.furnish();
    }
    let end = scenario(&mut scene);
    scene.see("the end", end, "ok");
    scene.lines
}

/// Runs a scenario with staged writes.
#[tool(writes)]
fn wasi_files(
    /// Name of a scenario; any other value lists them.
    scenario: String,
    /// The initial files exist.
    made: bool,
) -> Vec<String> {
    play(&scenario, made)
}

/// Plays a scenario on the real files: what runs programs is not held back.
#[tool(writes, kind = "execute")]
fn wasi_files_now(
    /// Name of a scenario; any other value lists them.
    scenario: String,
    /// The initial files exist.
    made: bool,
) -> Vec<String> {
    play(&scenario, made)
}

export_tools![wasi_files, wasi_files_now];
