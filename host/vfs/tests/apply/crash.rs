//! Kill -9 at any point: a child applies a hundred changes and kills itself, and so can the following recovery.

use std::{
    env, fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use rustix::process::{Signal, getpid, kill_process};
use toolhost_vfs::{
    BlobStore, Change, ContentSource, FileOp, Roots, apply, inverted, recover, save_before_images,
    undo,
};

use crate::support::{Random, Tree, World, memory_dir, silent, tree};

const KILLS: u64 = 520;
const TEST: &str = "crash::a_killed_commit_leaves_all_or_nothing";
/// Environment variables for a child: its role, and the step at which it dies.
const ROLE: &str = "TOOLHOST_CRASH_ROLE";
const STEP: &str = "TOOLHOST_CRASH_STEP";
const DIR: &str = "TOOLHOST_CRASH_DIR";
const MOVES: [(&str, &str); 1] = [("src/old", "lib/moved")];

/// A hundred files and directories: new, changed, removed and moved ones.
fn trees() -> (Tree, Tree) {
    let (mut before, mut after) = (vec![], vec!["lib/moved/".to_owned()]);
    for n in 0..25 {
        let d = n % 5;
        before.push(format!(
            "src/changed{n} = before {n}\n gone/d{d}/f{n} = {n}"
        ));
        after.push(format!("src/changed{n} = after {n}\n new/d{d}/f{n} = {n}"));
    }
    for n in 0..10 {
        before.push(format!(
            "src/old/kept{n} = {n}\n src/old/edit{n} = 1\n src/x{n} = file"
        ));
        after.push(format!(
            "lib/moved/kept{n} = {n}\n lib/moved/edit{n} = 2\n src/x{n}/y = dir"
        ));
    }
    before.push("lib/\n link -> src\n stays = same".to_owned());
    after.push("link -> new\n stays = same".to_owned());
    (tree(&before.join("\n")), tree(&after.join("\n")))
}

#[test]
fn a_killed_commit_leaves_all_or_nothing() {
    if let Ok(role) = env::var(ROLE) {
        return child(&role);
    }
    let (before, after) = &trees();
    let (seeds, kills, finished) = (&AtomicU64::new(0), &AtomicU64::new(0), &AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(move || {
                while kills.load(Ordering::Relaxed) < KILLS {
                    let seed = seeds.fetch_add(1, Ordering::Relaxed) + 1;
                    match crash(seed, before, after) {
                        0 => finished.fetch_add(1, Ordering::Relaxed),
                        killed => kills.fetch_add(killed, Ordering::Relaxed),
                    };
                }
            });
        }
    });
    let (kills, finished) = (
        kills.load(Ordering::Relaxed),
        finished.load(Ordering::Relaxed),
    );
    println!("{kills} kills; {finished} children finished before theirs");
    assert!(kills > finished, "most children should have died");
}

/// One commit or undo with one or two kills in it. Returns their number.
fn crash(seed: u64, before: &Tree, after: &Tree) -> u64 {
    let mut random = Random::new(seed);
    // A few on disk, the usual case for users; most in memory, for speed.
    let dir = if seed.is_multiple_of(128) {
        env::temp_dir()
    } else {
        memory_dir().to_owned()
    };
    let world = World::inside(&dir, before);
    let changes = world.changes(before, &MOVES, after);
    let ops = world.ops(&changes, after);
    let journal = |list: &[Change]| {
        let text = serde_json::to_vec(list).expect("list");
        fs::write(world.tmp.path().join("changes"), text).expect("journal");
    };
    journal(&changes);
    let undoing = seed.is_multiple_of(4);
    let (role, was, will, list) = if undoing {
        world.commit(ops, &mut silent).expect("commit");
        ("undo", after, before, inverted(&changes))
    } else {
        ("apply", before, after, changes)
    };
    let case = format!("seed {seed}, {role}");
    if !run(role, random.below(420), world.tmp.path(), &case) {
        assert_eq!(world.tree(), *will, "{case}");
        return 0;
    }
    journal(&list);
    let again =
        seed.is_multiple_of(3) && run("recover", random.below(300), world.tmp.path(), &case);
    let left = recover(&world.roots(), &list, "c1", &world.blobs, &mut silent).expect(&case);
    assert_eq!(left, [], "{case}");
    assert_eq!(world.tree(), *was, "{case}");
    1 + u64::from(again)
}

/// Whether the child was killed as planned; otherwise it must have finished.
fn run(role: &str, step: usize, dir: &Path, case: &str) -> bool {
    let output = Command::new(env::current_exe().expect("own path"))
        .args([TEST, "--exact", "--nocapture"])
        .env(ROLE, role)
        .env(STEP, (step + 1).to_string())
        .env(DIR, dir)
        .output()
        .expect("start");
    let killed = output.status.signal() == Some(9);
    assert!(
        killed || output.status.success(),
        "{case}: {role}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    killed
}

fn child(role: &str) {
    let dir = PathBuf::from(env::var_os(DIR).expect("directory"));
    let last: usize = env::var(STEP).expect("step").parse().expect("number");
    let mut steps = 0;
    let mut step = |_: &str| {
        steps += 1;
        if steps == last {
            kill_process(getpid(), Signal::KILL).expect("kill");
        }
    };
    let list = fs::read(dir.join("changes")).expect("journal");
    let changes: Vec<Change> = serde_json::from_slice(&list).expect("list");
    let roots = Roots::open([dir.join("w")]).expect("root");
    let blobs = BlobStore::open(&dir.join("blobs")).expect("blobs");
    match role {
        "apply" => {
            let op = |(n, change): (usize, Change)| FileOp {
                source: Some(dir.join("pool").join(n.to_string()))
                    .filter(|path| path.exists())
                    .map(ContentSource::Move),
                change,
                base: None,
            };
            let ops: Vec<FileOp> = changes.into_iter().enumerate().map(op).collect();
            save_before_images(&roots, &ops, &blobs).expect("keep");
            apply(&roots, ops, "c1", &blobs, &mut step).expect("apply");
        }
        "undo" => undo(&roots, &changes, "c1", &blobs, &mut step).expect("undo"),
        _ => {
            let left = recover(&roots, &changes, "c1", &blobs, &mut step).expect("recover");
            assert_eq!(left, []);
        }
    }
}
