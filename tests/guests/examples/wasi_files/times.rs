//! Setting times of files, directories and links.

use wasip2::clocks::wall_clock::Datetime;
use wasip2::filesystem::types::{Descriptor, DescriptorStat, NewTimestamp, OpenFlags, PathFlags};

use crate::scene::{AS_IT_IS, Answer, BOTH, CHANGE, FOLLOW, NO_FOLLOW, READ, Scene, get, open};

/// A time in 2001, distinguishable from the current time.
const THEN: u64 = 1_000_000_000;

fn at(seconds: u64) -> NewTimestamp {
    NewTimestamp::Timestamp(Datetime {
        seconds: THEN + seconds,
        nanoseconds: 123_456_789,
    })
}

/// Seconds since `THEN`, or `now` for times that were not set.
fn show(time: Option<Datetime>) -> String {
    match time {
        None => "none".to_owned(),
        Some(time) if time.seconds > THEN + 100_000 => "now".to_owned(),
        Some(time) => format!("{}.{}", time.seconds - THEN, time.nanoseconds),
    }
}

fn both(stat: Answer<DescriptorStat>) -> Answer<String> {
    let stat = stat?;
    let accessed = show(stat.data_access_timestamp);
    let modified = show(stat.data_modification_timestamp);
    Ok(format!("{accessed} {modified}"))
}

const SET: &str = "1.123456789 2.123456789";

fn all_ways(scene: &mut Scene, label: &str, descriptor: &Descriptor, is_dir: bool) {
    let keep = NewTimestamp::NoChange;
    let (now, same) = (NewTimestamp::Now, "now now");
    // Reading may or may not update the access time.
    for (how, accessed, modified, expected) in [
        ("given", at(1), at(2), SET),
        ("neither", keep, keep, SET),
        ("access only", at(3), keep, "3.123456789 2.123456789"),
        ("modification only", keep, at(4), "3.123456789 4.123456789"),
        ("access now", now, keep, "now 4.123456789"),
        ("both now", now, now, same),
        ("given again", at(1), at(2), SET),
    ] {
        let set = descriptor.set_times(accessed, modified);
        scene.see(format!("{label}, {how}"), set, "ok");
        let times = both(descriptor.stat());
        scene.see(format!("{label}, {how}, seen"), times, expected);
    }
    if !is_dir {
        let _ = descriptor.write(b"changed", 0);
        let modified = descriptor
            .stat()
            .map(|s| show(s.data_modification_timestamp));
        scene.see(format!("{label}, after a write"), modified, "now");
    }
}

pub fn of_descriptor(scene: &mut Scene) -> Answer<()> {
    let file = open(&scene.root, "file", AS_IT_IS, BOTH)?;
    all_ways(scene, "file", &file, false);
    let new = open(&scene.root, "new", OpenFlags::CREATE, BOTH)?;
    all_ways(scene, "new file", &new, false);
    new.set_times(at(5), at(6))?;
    let times = both(scene.root.stat_at(NO_FOLLOW, "new"));
    scene.see("by its name", times, "5.123456789 6.123456789");
    let reader = open(&scene.root, "other", AS_IT_IS, READ)?;
    // Like `futimens`, which requires ownership but no writable descriptor.
    scene.see("by a reader", reader.set_times(at(1), at(2)), "ok");
    let dir = open(&scene.root, "dir", AS_IT_IS, CHANGE)?;
    all_ways(scene, "directory", &dir, true);
    let too_many = NewTimestamp::Timestamp(Datetime {
        seconds: THEN,
        nanoseconds: 1_000_000_000,
    });
    let set = file.set_times(NewTimestamp::NoChange, too_many);
    scene.see("a second of nanoseconds", set, "invalid");
    Ok(())
}

pub fn of_path(scene: &mut Scene) -> Answer<()> {
    let set = |scene: &Scene, flags: PathFlags, path: &str, from: u64| {
        scene.root.set_times_at(flags, path, at(from), at(from + 1))
    };
    let times_of = |scene: &Scene, path: &str| both(scene.root.stat_at(NO_FOLLOW, path));
    scene.see("a file", set(scene, NO_FOLLOW, "file", 1), "ok");
    scene.see("a file, seen", times_of(scene, "file"), SET);
    scene.see("a link itself", set(scene, NO_FOLLOW, "to_file", 10), "ok");
    scene.see("not the file", times_of(scene, "file"), SET);
    // Resolving a link reads it.
    let link = scene.root.stat_at(NO_FOLLOW, "to_file");
    let link = link.map(|stat| show(stat.data_modification_timestamp));
    scene.see("a link itself, seen", link, "11.123456789");
    scene.see("through links", set(scene, FOLLOW, "chain", 20), "ok");
    let file = times_of(scene, "file");
    scene.see("through links, seen", file, "20.123456789 21.123456789");
    scene.see(
        "a dangling link itself",
        set(scene, NO_FOLLOW, "dangling", 30),
        "ok",
    );
    for (flags, path, expected) in [
        (FOLLOW, "dangling", "no-entry"),
        (FOLLOW, "missing", "no-entry"),
        (NO_FOLLOW, "missing", "no-entry"),
        (FOLLOW, "loop", "loop"),
        (FOLLOW, "file/", "not-directory"),
        (FOLLOW, "", "no-entry"),
        (FOLLOW, "..", "not-permitted"),
        (FOLLOW, "/file", "not-permitted"),
        (FOLLOW, "dir/", "ok"),
        (FOLLOW, "to_dir", "ok"),
        (FOLLOW, ".", "ok"),
    ] {
        let got = set(scene, flags, path, 40);
        scene.see(format!("set {path:?}"), got, expected);
    }
    let dir = times_of(scene, "dir");
    scene.see("a directory, seen", dir, "40.123456789 41.123456789");
    let (now, keep) = (NewTimestamp::Now, NewTimestamp::NoChange);
    scene.root.set_times_at(FOLLOW, "file", now, keep)?;
    scene.see("access now", times_of(scene, "file"), "now 21.123456789");
    scene.see(
        "the file is as it was",
        get(&scene.root, "file"),
        "0123456789",
    );
    Ok(())
}
