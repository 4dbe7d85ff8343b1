//! Completeness of read sets: if a concurrent change would affect a call, the read set contains the path.

use std::{
    fs,
    os::unix::fs::symlink,
    sync::Arc,
    time::{Duration, SystemTime},
};

use proptest::prelude::*;
use toolhost_vfs::{Access, Change, PathError, PathState, ReadTracker, Scope, Stage};

use crate::{
    compare::{Guest, Step},
    props,
    support::{FileView, Held, World},
};

/// Results of a guest's steps, and its changes.
type Run = (Vec<Result<String, PathError>>, Option<Vec<Change>>);

fn watched(world: &World) -> (Scope, Arc<ReadTracker>) {
    let reads = Arc::<ReadTracker>::default();
    (world.scope().recording_reads(Arc::clone(&reads)), reads)
}

fn changes(stage: &Stage) -> Option<Vec<Change>> {
    let staged = stage.changes().ok()?;
    Some(staged.into_iter().map(|staged| staged.change).collect())
}

/// `None` if the guest's initial directories do not exist.
fn run(world: &World, scope: Scope, steps: &[Step]) -> Option<Run> {
    let there = |path: &str| world.path(path).metadata().is_ok_and(|it| it.is_dir());
    if !there("w/d") || !there("w/d/e") {
        return None;
    }
    let stage = world.stage(scope);
    let mut guest = Guest::new(FileView::Staged(&stage));
    let results = steps.iter().map(|step| guest.act(step)).collect();
    Some((results, changes(&stage)))
}

fn touched(reads: &ReadTracker, changes: &[Change]) -> bool {
    changes.iter().any(|change| {
        let path = change.at.root.join(&change.at.path);
        let in_place = matches!(
            (&change.before, &change.after),
            (PathState::File(_), PathState::File(_))
        );
        let from = change.moved_from.as_ref();
        reads.is_affected_by(&path, in_place)
            || from.is_some_and(|at| reads.is_affected_by(&at.root.join(&at.path), false))
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(2 * ProptestConfig::default().cases)
    })]

    #[test]
    fn changes_that_affect_a_call_are_in_its_read_set(
        first in prop::collection::vec(props::step(), 1..6),
        second in prop::collection::vec(props::step(), 1..12),
    ) {
        let world = World::new();
        let (scope, reads) = watched(&world);
        let before = run(&world, scope, &second);
        // The other call's changes, staged first and then applied.
        let stage = world.stage(world.scope());
        {
            let mut guest = Guest::new(FileView::Staged(&stage));
            for step in &first {
                let _ = guest.act(step);
            }
        }
        let theirs = changes(&stage).expect("changes");
        drop(stage);
        {
            let scope = world.scope();
            let mut guest = Guest::new(FileView::Real(&scope));
            for step in &first {
                let _ = guest.act(step);
            }
        }
        let after = run(&world, world.scope(), &second);
        if before != after {
            prop_assert!(touched(&reads, &theirs), "{theirs:#?} made of {before:#?} {after:#?}");
        }
    }
}

/// Runs `look`, applies each change, and checks whether it affects the call.
fn check(look: impl Fn(Held<'_>), change: &[(&str, bool)]) {
    let world = World::new();
    let (scope, reads) = watched(&world);
    look(Held::root(FileView::Real(&scope)));
    for (path, matters) in change {
        let (path, in_place) = match path.strip_prefix('=') {
            Some(path) => (path, true),
            None => (*path, false),
        };
        assert_eq!(
            reads.is_affected_by(&world.path("w").join(path), in_place),
            *matters,
            "{path}"
        );
    }
}

#[test]
fn changes_affect_calls_that_read_the_path() {
    check(
        |w| {
            w.read("d/a").expect("read");
        },
        &[
            ("=d/a", true),
            ("d/a", true),
            ("d", true),
            ("d/b", false),
            ("=a", false),
            ("d/e/a", false),
        ],
    );
    check(
        |w| {
            w.list("d").expect("list");
        },
        &[
            // Its timestamps were read.
            ("=d/a", true),
            ("d/new", true),
            ("d/e/new", false),
            ("new", false),
            ("d", true),
        ],
    );
    check(
        |w| {
            let _ = w.read("d/none");
        },
        &[("d/none", true), ("d/other", false)],
    );
    check(
        |w| {
            w.read("k").expect("through a link");
        },
        &[("k", true), ("=a", true), ("=b", false)],
    );
    check(|_| {}, &[("a", false), ("d", false)]);
}

type Act = fn(&World);

/// Reads the content of a file, a listing, and a missing name.
fn look(w: Held<'_>) {
    w.read("a").expect("read");
    w.list("d").expect("list");
    let _ = w.read("none");
    w.read("k").expect("through a link");
}

#[test]
fn a_read_set_is_current_until_something_changes() {
    let cases: &[(&str, Act, bool)] = &[
        ("nothing", |_| {}, true),
        ("another file", |w| w.file("w/b", "new"), true),
        (
            "inside a listed directory's file",
            |w| w.file("w/d/a", "new"),
            true,
        ),
        ("the content", |w| w.file("w/a", "omega"), false),
        (
            "the same content, written again",
            |w| w.file("w/a", "alpha"),
            true,
        ),
        (
            "the same content in another file",
            |w| {
                w.file("w/a2", "alpha");
                fs::rename(w.path("w/a2"), w.path("w/a")).expect("rename");
            },
            true,
        ),
        (
            "other content, with the old time",
            |w| {
                let old = w
                    .path("w/a")
                    .metadata()
                    .expect("metadata")
                    .modified()
                    .expect("time");
                w.file("w/a", "omega");
                let file = fs::File::options()
                    .write(true)
                    .open(w.path("w/a"))
                    .expect("open");
                file.set_modified(old).expect("time");
            },
            false,
        ),
        (
            "a new name in the listing",
            |w| w.file("w/d/new", ""),
            false,
        ),
        ("what was missing", |w| w.file("w/none", ""), false),
        (
            "the directory is another one",
            |w| {
                fs::rename(w.path("w/d"), w.path("w/d2")).expect("rename");
                w.file("w/d/a", "alpha in d");
            },
            false,
        ),
        (
            "the link leads elsewhere",
            |w| {
                fs::remove_file(w.path("w/k")).expect("remove");
                symlink("b", w.path("w/k")).expect("link");
            },
            false,
        ),
        (
            "removed",
            |w| fs::remove_file(w.path("w/a")).expect("remove"),
            false,
        ),
    ];
    for (case, change, holds) in cases {
        let world = World::new();
        let (scope, reads) = watched(&world);
        look(Held::root(FileView::Real(&scope)));
        let plain = world.scope();
        reads.hash_contents(&plain);
        change(&world);
        assert_eq!(reads.is_unchanged(&plain), *holds, "{case}");
    }
}

#[test]
fn a_change_between_reading_and_hashing_is_noticed() {
    let world = World::new();
    let (scope, reads) = watched(&world);
    look(Held::root(FileView::Real(&scope)));
    world.file("w/a", "omega");
    reads.hash_contents(&world.scope());
    assert!(!reads.is_unchanged(&world.scope()));
    assert!(
        reads.is_affected_by(&world.path("w/b"), true),
        "the result is unknown"
    );
}

#[test]
fn special_files_are_compared_by_timestamps() {
    let world = World::new();
    let (scope, reads) = watched(&world);
    let w = Held::root(FileView::Real(&scope));
    w.stat("b", true).expect("stat");
    let plain = world.scope();
    reads.hash_contents(&plain);
    assert!(reads.is_unchanged(&plain));
    let file = fs::File::options()
        .write(true)
        .open(world.path("w/b"))
        .expect("open");
    file.set_modified(SystemTime::now() - Duration::from_secs(100))
        .expect("time");
    assert!(!reads.is_unchanged(&plain), "its time was shown");
}

#[test]
fn a_read_only_view_records_reads_too() {
    let world = World::new();
    let (scope, reads) = watched(&world);
    let scope = scope.read_only();
    Held::root(FileView::Real(&scope)).read("a").expect("read");
    assert_eq!(scope.roots()[0].access(), Access::ReadOnly);
    assert!(reads.is_affected_by(&world.path("w/a"), true));
}

#[test]
fn a_read_set_over_the_limit_counts_as_changed() {
    let world = World::new();
    let (scope, reads) = watched(&world);
    let w = Held::root(FileView::Real(&scope));
    let long = "x".repeat(200);
    for number in 0..19_000 {
        let _ = w.stat(&format!("{long}{number}"), false);
    }
    assert!(reads.memory_size() < 1 << 20, "{}", reads.memory_size());
    assert!(reads.is_affected_by(&world.path("w/a"), true));
    assert!(!reads.is_unchanged(&world.scope()));
}
