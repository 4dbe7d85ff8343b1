//! FS-07, FS-27: a directory and a link are exchanged while a guest's path is resolved.

use std::{
    fs,
    os::unix::fs::symlink,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};
use toolhost_vfs::{Access, PathError};

use crate::support::{Act, CANARY, OpenScope, World, handle};

const OPENS: usize = 20_000;

/// Exchanges two names in a loop while `guest` runs.
fn while_swapping(world: &World, one: &str, other: &str, guest: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    thread::scope(|threads| {
        threads.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let flags = RenameFlags::EXCHANGE;
                renameat_with(CWD, world.path(one), CWD, world.path(other), flags)
                    .expect("exchange");
            }
        });
        // Also if an assertion fails, or the other thread would never end.
        let _stop = StopOnDrop(&stop);
        guest();
    });
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn swapping_world() -> World {
    let world = World::new();
    world.file("w/sw/secret", "inside");
    world.file("w/sw/victim", "inside");
    world.file("victim", CANARY);
    symlink("..", world.path("w/trap")).expect("link");
    world
}

const SCOPES: &[OpenScope] = &[
    |world| world.scope(Access::ReadWrite),
    |world| world.walking_scope(Access::ReadWrite),
];

#[test]
fn reading_through_an_exchanged_directory_never_leaks() {
    for scope in SCOPES {
        let world = swapping_world();
        let scope = scope(&world);
        while_swapping(&world, "w/sw", "w/trap", || {
            for path in ["sw/secret", "sw/../sw/secret"].iter().cycle().take(OPENS) {
                match handle(&scope, "/w").read(path) {
                    Ok(text) => assert_eq!(text, "inside"),
                    Err(
                        PathError::NotPermitted
                        | PathError::NotFound
                        | PathError::Busy
                        | PathError::NotDirectory,
                    ) => {}
                    Err(other) => panic!("{other:?}"),
                }
            }
        });
    }
}

#[test]
fn changing_through_an_exchanged_directory_changes_nothing_outside() {
    let operations: &[Act] = &[
        |h| h.write("sw/made"),
        |h| h.unlink("sw/victim"),
        |h| h.rename("sw/victim", h, "sw/made"),
        |h| h.rename("f.txt", h, "sw/victim"),
        |h| h.mkdir("sw/made-directory"),
        |h| h.link("sw/secret", h, "linked"),
        |h| h.symlink("x", "sw/made-link"),
    ];
    for scope in SCOPES {
        let world = swapping_world();
        let before = world.snapshot("w");
        let scope = scope(&world);
        while_swapping(&world, "w/sw", "w/trap", || {
            for operation in operations.iter().cycle().take(OPENS / 4) {
                // Success and refusal are both valid; only the affected path matters.
                let _ = operation(handle(&scope, "/w"));
            }
        });
        assert_eq!(before, world.snapshot("w"));
        if let Ok(text) = fs::read_to_string(world.path("w/linked")) {
            assert_eq!(text, "inside");
        }
    }
}

#[test]
fn a_file_exchanged_for_a_fifo_never_blocks() {
    for scope in SCOPES {
        let world = World::new();
        mknodat(
            CWD,
            world.path("w/fifo"),
            FileType::Fifo,
            Mode::from_raw_mode(0o666),
            0,
        )
        .expect("fifo");
        let scope = scope(&world);
        while_swapping(&world, "w/f.txt", "w/fifo", || {
            for _ in 0..OPENS / 4 {
                match handle(&scope, "/w").read("f.txt") {
                    Ok(text) => assert_eq!(text, "inside"),
                    Err(refusal) => assert_eq!(refusal, PathError::NotPermitted),
                }
            }
        });
    }
}
