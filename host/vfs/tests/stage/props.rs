//! A guest sees the same through a stage as without, and the list of changes turns the untouched tree into the one
//! that the guest would have produced.

use proptest::{prelude::*, sample::select};

use crate::compare::{HELD, Step, compare};

fn path() -> impl Strategy<Value = String> {
    let paths = vec![
        "a",
        "b",
        "c",
        "d",
        "d/a",
        "d/b",
        "d/e",
        "d/e/a",
        "d/e/b",
        "d/up",
        "l",
        "l/a",
        "k",
        "x",
        "e",
        "e/a",
        "empty",
        "empty/a",
        "empty/d",
        "new",
        "new/a",
        "new/d",
        "new/d/a",
        ".",
        "..",
        "../a",
        "../b",
        "d/../a",
        "d/e/../a",
        "a/",
        "d/",
        "l/",
        "new/",
        "a/b",
        "l/e",
        "l/new",
        "kept",
        "kept/policy",
        "kept/later",
        "kept/new",
        "secret",
        "secret/key",
        "inner",
        "inner/a",
        "inner/new",
        "out",
        "dots/secret",
        "dots/w/a",
    ];
    select(paths).prop_map(str::to_owned)
}

pub fn step() -> impl Strategy<Value = Step> {
    let flags = select(vec![
        "w", "a", "wc", "wct", "wcx", "rt", "r", "rc", "c", "cx", "wn", "wcn", "rw", "rd", "ac",
    ]);
    let text = select(vec!["", "1", "written", "a longer text than all others"]);
    let target = select(vec![
        "a", "d", "e", "../a", "../..", "../d", "d/../..", "missing", "/etc", "./a", "new/",
    ]);
    let dir = || prop_oneof![4 => Just(0), 1 => 1..HELD];
    prop_oneof![
        6 => (dir(), path(), flags, text).prop_map(|(d, p, w, t)| Step::Open(d, p, w, t)),
        3 => (dir(), path()).prop_map(|(d, p)| Step::Mkdir(d, p)),
        3 => (dir(), path()).prop_map(|(d, p)| Step::Rmdir(d, p)),
        5 => (dir(), path()).prop_map(|(d, p)| Step::Unlink(d, p)),
        8 => (dir(), path(), dir(), path()).prop_map(|(d, p, e, q)| Step::Rename(d, p, e, q)),
        1 => (dir(), path(), dir(), path()).prop_map(|(d, p, e, q)| Step::Link(d, p, e, q)),
        2 => (dir(), target, path()).prop_map(|(d, t, p)| Step::Symlink(d, t.to_owned(), p)),
        2 => (dir(), path()).prop_map(|(d, p)| Step::Hold(d, p)),
        1 => (dir(), path()).prop_map(|(d, p)| Step::List(d, p)),
        1 => (dir(), path()).prop_map(|(d, p)| Step::Stat(d, p)),
        1 => (dir(), path()).prop_map(|(d, p)| Step::Read(d, p)),
    ]
}

/// Few names and many moves, so that moves interact: out of, into and over moved directories.
fn moving_step() -> impl Strategy<Value = Step> {
    let path = || {
        let paths = vec![
            "d", "d/e", "d/e/a", "d/a", "t", "t/e", "t/a", "n", "n/e", "n/e/a", "empty", "empty/e",
            "a",
        ];
        select(paths).prop_map(str::to_owned)
    };
    let dir = || prop_oneof![9 => Just(0), 1 => 1..HELD];
    prop_oneof![
        8 => (path(), path()).prop_map(|(p, q)| Step::Rename(0, p, 0, q)),
        2 => path().prop_map(|p| Step::Mkdir(0, p)),
        2 => path().prop_map(|p| Step::Rmdir(0, p)),
        3 => path().prop_map(|p| Step::Unlink(0, p)),
        2 => (dir(), path()).prop_map(|(d, p)| Step::Open(d, p, "wc", "new")),
        1 => (dir(), path()).prop_map(|(d, p)| Step::Hold(d, p)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(2 * ProptestConfig::default().cases)
    })]

    #[test]
    fn a_staged_script_matches_the_real_one(
        steps in prop::collection::vec(step(), 1..40),
        walking in any::<bool>(),
    ) {
        compare(&steps, walking);
    }

    #[test]
    fn interacting_directory_moves_are_reported_correctly(
        steps in prop::collection::vec(moving_step(), 1..40),
    ) {
        compare(&steps, false);
    }
}
