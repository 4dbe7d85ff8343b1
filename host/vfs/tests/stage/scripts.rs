//! What a guest sees within one call, compared with the unstaged result line by line.

use crate::compare::{Step, compare};

/// One step per line: `operation path [path or text]`. A path prefixed by a number and a colon uses that directory
/// handle: 1 is `d`, 2 is `d/e`, 3 the last opened one.
fn check(script: &str) {
    let steps: Vec<Step> = script.lines().map(str::trim).map(step).collect();
    compare(&steps, false);
    compare(&steps, true);
}

fn step(line: &str) -> Step {
    let mut fields = line.splitn(3, ' ');
    let mut next = || fields.next().unwrap_or_default();
    let (verb, (dir, path), rest) = (next(), parse_location(next()), next());
    let text: &'static str = String::leak(rest.to_owned());
    let (to, new) = parse_location(rest);
    match verb {
        "create" => Step::Open(dir, path, "wct", text),
        "make" => Step::Open(dir, path, "wcx", text),
        "write" => Step::Open(dir, path, "w", text),
        "append" => Step::Open(dir, path, "a", text),
        "truncate" => Step::Open(dir, path, "rt", text),
        "mkdir" => Step::Mkdir(dir, path),
        "rmdir" => Step::Rmdir(dir, path),
        "unlink" => Step::Unlink(dir, path),
        "rename" => Step::Rename(dir, path, to, new),
        "link" => Step::Link(dir, path, to, new),
        "symlink" => Step::Symlink(dir, new, path),
        "hold" => Step::Hold(dir, path),
        "list" => Step::List(dir, path),
        "stat" => Step::Stat(dir, path),
        "read" => Step::Read(dir, path),
        other => panic!("no such step: {other}"),
    }
}

fn parse_location(text: &str) -> (usize, String) {
    match text.split_once(':') {
        Some((dir, path)) => (dir.parse().expect("number"), path.to_owned()),
        None => (0, text.to_owned()),
    }
}

#[test]
fn a_call_reads_its_own_writes() {
    check(
        "create new one
         read new
         append new two
         read new
         write a ALP
         read a
         truncate b
         read b
         append d/a more
         read d/a
         create d/e/c deep
         list d/e",
    );
}

#[test]
fn removed_names_can_be_created_again() {
    check(
        "unlink a
         read a
         stat a
         list .
         write a nothing
         make a again
         read a
         unlink a
         make a twice
         unlink x
         unlink k
         symlink k b
         read k",
    );
}

#[test]
fn directories_are_created_and_removed() {
    check(
        "mkdir n
         mkdir n/n
         create n/n/f text
         rmdir n
         list n/n
         rmdir d
         rmdir empty
         mkdir empty
         rmdir empty
         create empty file
         unlink d/e/a
         unlink d/e/b
         rmdir d/e
         list d
         mkdir d/e
         list d/e",
    );
}

#[test]
fn a_removed_open_directory_accepts_no_entries() {
    check(
        "hold empty
         rmdir empty
         create 3:f text
         mkdir 3:g
         list 3:.
         stat 3:f
         mkdir empty
         create empty/f other
         list 3:.
         hold empty
         unlink 3:f
         rmdir empty
         create 3:f text",
    );
}

#[test]
fn a_file_is_replaced_by_rename() {
    check(
        "make d/a.tmp better
         rename d/a.tmp d/a
         read d/a
         rename d/a a
         rename a d/a
         read a
         rename b b
         rename b d/e
         rename b d/b
         rename d/b b",
    );
}

#[test]
fn moved_directories_keep_their_content() {
    check(
        "create d/e/c new
         rename d t
         list t
         read t/e/c
         read t/e/a
         read d/a
         create t/e/d later
         create 2:f through-a-held-directory
         list t/e
         rename t/e e
         list e
         rename e t/e
         rename t empty/t
         rename empty d
         read d/t/e/f
         read 1:../a
         symlink d/t/e/up ../../../a
         rename d/t/e e",
    );
}

#[test]
fn moves_end_where_a_real_move_would() {
    check(
        "rename d d/t
         rename d d/e/t
         rename d/e d
         rename d/e/a d
         rename d a
         rename a d
         rename d empty
         rename empty/e empty/e/e
         mkdir n
         rename n empty
         rename empty n
         rename n d
         rename a missing/a
         rename missing a
         rename a a/
         rename a new/
         rename d d2/
         rename . d3
         rename d2 .",
    );
}

#[test]
fn two_directories_are_swapped() {
    check(
        "rename d t
         rename empty d
         rename t empty
         list d
         list empty
         create empty/e/a changed",
    );
}

#[test]
fn a_directory_is_moved_back() {
    check(
        "rename d t
         rename t d
         rename a d/f
         rename d/f a",
    );
}

#[test]
fn links_are_followed_through_the_stage() {
    check(
        "symlink s d/e
         read s/a
         create s/new text
         read d/e/new
         rename d/e e2
         read s/a
         rename e2 d/e
         unlink d/e/a
         read s/a
         symlink d/e/a ../../b
         read s/a
         write s/a through
         read b
         symlink loop loop
         read loop
         create x the-missing
         read missing",
    );
}

#[test]
fn two_names_of_one_staged_file_are_one_file() {
    check(
        "create n one
         link n m
         append m two
         read n
         stat n
         unlink n
         read m
         rename m a
         link d/e e
         link missing c
         link b d/b
         append d/b more
         read b
         rename b d/b",
    );
}

#[test]
fn names_are_no_longer_than_the_file_system_has_them() {
    let long = "x".repeat(255);
    let longer = "x".repeat(256);
    check(&format!(
        "create {long} text
         create {longer} text
         mkdir n
         create n/{longer} text
         rename a n/{longer}
         mkdir n/{long}
         read {longer}"
    ));
}

#[test]
fn a_link_with_a_slash_makes_no_file() {
    check(
        "symlink d/loop loop/
         create d/loop text
         symlink n new/
         create n text
         create d/ text
         create new/ text",
    );
}
