//! wasi:filesystem does what its documentation and POSIX say, whether writes are held back or not, and leaves the same
//! files behind. What it does otherwise is in `known.rs`.

mod known;
mod played;

use e2e::Guest;

use known::{KNOWN_DIFFERENCES, KNOWN_WRONG, Where};
use played::play;

const STAGED: &str = "wasi_files";
const PLAIN: &str = "wasi_files_now";
const PLAINLY: [Where; 2] = [Where::Everywhere, Where::Plain];

fn expect(scenario: &str, conditions: &[Where], mut found: Vec<String>, run: &str) {
    let tables = KNOWN_WRONG.iter().chain(KNOWN_DIFFERENCES);
    let known =
        tables.filter(|one| one.scenario == scenario && conditions.contains(&one.condition));
    let (mut lines, mut why) = (Vec::new(), Vec::new());
    for one in known {
        lines.extend(one.lines.iter().map(|line| (*line).to_owned()));
        why.push(one.why);
    }
    lines.sort();
    found.sort();
    assert_eq!(found, lines, "{scenario}, {run}; known: {why:#?}");
}

/// Plays scenarios in each way there is: on new things and on old ones, with writes held back and without, and with
/// a grant inside of the other, for which paths are looked up in another way.
fn check(scenarios: &[&str]) {
    let guest = Guest::new("wasi_files", &["fs.read", "fs.write"], "");
    for scenario in scenarios {
        let play = |tool, made, nested| play(&guest, tool, scenario, made, nested);
        for made in [true, false] {
            let (plain, staged) = (play(PLAIN, made, false), play(STAGED, made, false));
            expect(scenario, &PLAINLY, plain.wrong(), "plain");
            let (condition, run) = if made {
                (Where::StagedOld, "staged, old")
            } else {
                (Where::StagedNew, "staged, new")
            };
            let conditions = [Where::Everywhere, Where::Staged, condition];
            let mut found = staged.wrong();
            found.extend(staged.differences(&plain));
            expect(scenario, &conditions, found, run);
        }
        let nested = play(PLAIN, true, true);
        expect(scenario, &PLAINLY, nested.wrong(), "nested");
    }
}

const OPENING: &[&str] = &[
    "open_to_read",
    "open_without_following",
    "open_as_directory",
    "open_to_create",
    "open_exclusively",
    "open_to_truncate",
    "open_to_write",
];
const PATHS: &[&str] = &["interesting_paths", "unusual_names"];
const ACCESS: &[&str] = &[
    "flags_and_types",
    "rights_of_a_descriptor",
    "read_only_grant",
    "advise",
    "sync",
    "dropped_descriptors",
    "preopens",
];
const DATA: &[&str] = &[
    "read_at_offsets",
    "write_at_offsets",
    "set_size",
    "seen_by_others",
];
const STREAMS: &[&str] = &[
    "read_streams",
    "write_streams",
    "append_streams",
    "streams_without_rights",
];
const STATUS: &[&str] = &[
    "set_times",
    "set_times_at",
    "stat",
    "stat_at",
    "status_change_time",
    "is_same_object",
    "metadata_hash",
];
const LISTING: &[&str] = &[
    "read_directory",
    "read_directory_while_it_changes",
    "read_directory_that_is_gone",
];
const MAKING: &[&str] = &[
    "create_directory",
    "remove_directory",
    "unlink_file",
    "unlinked_but_open",
];
const LINKING: &[&str] = &[
    "link",
    "link_refused",
    "symbolic_links",
    "symbolic_links_refused",
    "read_link",
];
const MOVING: &[&str] = &[
    "rename_files",
    "rename_directories",
    "rename_refused",
    "rename_across_preopens",
    "rename_while_open",
];
const STANDARD: &[&str] = &["standard_files", "standard_seeks", "standard_directories"];

#[test]
fn every_way_to_open_has_the_answer_of_posix() {
    check(OPENING);
}

#[test]
fn paths_lead_where_they_say_and_never_out() {
    check(PATHS);
}

#[test]
fn a_descriptor_can_do_what_it_was_opened_for() {
    check(ACCESS);
}

#[test]
fn bytes_are_where_they_were_written() {
    check(DATA);
}

#[test]
fn streams_read_write_and_append() {
    check(STREAMS);
}

#[test]
fn what_is_known_of_a_thing_is_so() {
    check(STATUS);
}

#[test]
fn a_listing_has_everything_once() {
    check(LISTING);
}

#[test]
fn directories_are_made_and_things_taken_away() {
    check(MAKING);
}

#[test]
fn links_are_made_followed_and_read() {
    check(LINKING);
}

#[test]
fn things_move_and_take_what_is_in_them_along() {
    check(MOVING);
}

#[test]
fn the_standard_library_works_unchanged() {
    check(STANDARD);
}

#[test]
fn every_scenario_is_played() {
    let guest = Guest::new("wasi_files", &["fs.read", "fs.write"], "");
    let mut names = play(&guest, PLAIN, "their names", true, false).lines;
    let mut played: Vec<&str> = [
        OPENING, PATHS, ACCESS, DATA, STREAMS, STATUS, LISTING, MAKING, LINKING, MOVING, STANDARD,
    ]
    .concat();
    names.sort();
    played.sort_unstable();
    assert_eq!(names, played);
    let tables = KNOWN_WRONG.iter().chain(KNOWN_DIFFERENCES);
    for known in tables {
        assert!(played.contains(&known.scenario), "{}", known.scenario);
        assert!(!known.lines.is_empty(), "{}", known.why);
    }
}
