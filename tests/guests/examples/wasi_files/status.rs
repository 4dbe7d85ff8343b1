//! Metadata of entries, and identity of files.

use wasip2::filesystem::types::{Descriptor, DescriptorStat, MetadataHashValue, OpenFlags};

use crate::scene::{
    AS_IT_IS, Answer, BOTH, Describe as _, FOLLOW, NO_FOLLOW, READ, Scene, WRITE, open, put,
};

fn show(stat: Answer<DescriptorStat>) -> Answer<String> {
    let stat = stat?;
    let timed = [
        stat.data_access_timestamp,
        stat.data_modification_timestamp,
        stat.status_change_timestamp,
    ];
    let times = timed.iter().filter(|time| time.is_some()).count();
    let kind = stat.type_.describe();
    // The link count and size of a directory depend on the file system.
    if kind == "directory" {
        return Ok(format!("{kind}, {times} times"));
    }
    Ok(format!(
        "{kind} {}, {} names, {times} times",
        stat.size, stat.link_count
    ))
}

const FILE: &str = "file 10, 1 names, 3 times";
const DIRECTORY: &str = "directory, 3 times";

pub fn stat(scene: &mut Scene) -> Answer<()> {
    let root = &scene.root;
    let rows = [
        ("file to read", open(root, "file", AS_IT_IS, READ)?, FILE),
        ("file to write", open(root, "file", AS_IT_IS, WRITE)?, FILE),
        (
            "new file",
            open(root, "new", OpenFlags::CREATE, WRITE)?,
            "file 0, 1 names, 3 times",
        ),
        ("directory", open(root, "dir", AS_IT_IS, READ)?, DIRECTORY),
    ];
    for (label, descriptor, expected) in &rows {
        scene.see(*label, show(descriptor.stat()), expected);
    }
    scene.see("a preopen", show(scene.root.stat()), DIRECTORY);
    rows[2].1.write(b"abc", 0)?;
    let written = rows[2].1.stat().map(|stat| stat.size);
    scene.see("the size after a write", written, "3");
    let by_name = scene.root.stat_at(FOLLOW, "new")?;
    let same = by_name
        .data_modification_timestamp
        .map(|time| (time.seconds, time.nanoseconds))
        == rows[2]
            .1
            .stat()?
            .data_modification_timestamp
            .map(|time| (time.seconds, time.nanoseconds));
    scene.see("the same time by name", same, "true");
    Ok(())
}

pub fn stat_at(scene: &mut Scene) -> Answer<()> {
    for (path, followed, itself) in [
        ("file", FILE, FILE),
        ("file/", "not-directory", "not-directory"),
        ("dir", DIRECTORY, DIRECTORY),
        ("dir/", DIRECTORY, DIRECTORY),
        (".", DIRECTORY, DIRECTORY),
        ("to_file", FILE, "link 4, 1 names, 3 times"),
        ("chain", FILE, "link 7, 1 names, 3 times"),
        ("to_dir", DIRECTORY, "link 3, 1 names, 3 times"),
        ("to_dir/", DIRECTORY, DIRECTORY),
        ("dangling", "no-entry", "link 7, 1 names, 3 times"),
        ("dangling/", "no-entry", "no-entry"),
        ("loop", "loop", "link 4, 1 names, 3 times"),
        ("missing", "no-entry", "no-entry"),
        ("missing/x", "no-entry", "no-entry"),
        ("file/x", "not-directory", "not-directory"),
        ("", "no-entry", "no-entry"),
        ("/", "not-permitted", "not-permitted"),
        ("..", "not-permitted", "not-permitted"),
        (
            "absolute",
            "not-permitted|no-entry",
            "link 9, 1 names, 3 times|no-entry",
        ),
    ] {
        let got = show(scene.root.stat_at(FOLLOW, path));
        scene.see(format!("{path:?}"), got, followed);
        let got = show(scene.root.stat_at(NO_FOLLOW, path));
        scene.see(format!("{path:?} itself"), got, itself);
    }
    Ok(())
}

/// By descriptor and by name, the file has the same status change time.
pub fn change_time(scene: &mut Scene) -> Answer<()> {
    let file = open(&scene.root, "new", OpenFlags::CREATE, BOTH)?;
    let time = |stat: DescriptorStat| {
        let time = stat.status_change_timestamp;
        time.map(|time| (time.seconds, time.nanoseconds))
    };
    let before = time(scene.root.stat_at(FOLLOW, "new")?);
    // Until the clock of the file system has advanced, which takes a few milliseconds.
    let mut tries = 0;
    while time(scene.root.stat_at(FOLLOW, "new")?) == before && tries < 1_000_000 {
        file.write(b"x", 0)?;
        tries += 1;
    }
    let by_name = time(scene.root.stat_at(FOLLOW, "new")?);
    scene.see("a write changes it", by_name != before, "true");
    let same = time(file.stat()?) == by_name;
    scene.see("the same by descriptor and by name", same, "true");
    Ok(())
}

pub fn same_object(scene: &mut Scene) -> Answer<()> {
    let root = &scene.root;
    let file = open(root, "file", AS_IT_IS, READ)?;
    let dir = open(root, "dir", AS_IT_IS, READ)?;
    let rows = [
        ("itself", open(root, "file", AS_IT_IS, READ)?, &file, "true"),
        (
            "through a link",
            open(root, "chain", AS_IT_IS, READ)?,
            &file,
            "true",
        ),
        (
            "another file",
            open(root, "other", AS_IT_IS, READ)?,
            &file,
            "false",
        ),
        (
            "a directory",
            open(root, "to_dir", AS_IT_IS, READ)?,
            &dir,
            "true",
        ),
        (
            "a file and a directory",
            open(root, "file", AS_IT_IS, READ)?,
            &dir,
            "false",
        ),
        (
            "the preopen",
            open(root, ".", AS_IT_IS, READ)?,
            &scene.root,
            "true",
        ),
        (
            "up again",
            open(root, "dir/..", AS_IT_IS, READ)?,
            &scene.root,
            "true",
        ),
    ];
    for (label, one, other, expected) in &rows {
        scene
            .lines
            .push(format!("{label}: {}", one.is_same_object(other)));
        if one.is_same_object(other).to_string() != *expected {
            scene.lines.push(format!("wrong: {label}: not {expected}"));
        }
    }
    let writer = open(&scene.root, "file", AS_IT_IS, BOTH)?;
    let reader = open(&scene.root, "file", AS_IT_IS, READ)?;
    let same = writer.is_same_object(&reader);
    scene.see("a writer and a later reader", same, "true");
    let same = writer.is_same_object(&file);
    scene.see("a writer and an earlier reader", same, "true");
    scene.root.rename_at("file", &scene.root, "renamed")?;
    let renamed = open(&scene.root, "renamed", AS_IT_IS, READ)?;
    scene.see("after a move", renamed.is_same_object(&writer), "true");
    // A new file under an old name is a different one.
    put(&scene.root, "file", b"0123456789")?;
    let new = open(&scene.root, "file", AS_IT_IS, READ)?;
    scene.see("a new file", new.is_same_object(&renamed), "false");
    Ok(())
}

fn hash(value: Answer<MetadataHashValue>) -> Answer<(u64, u64)> {
    value.map(|value| (value.lower, value.upper))
}

fn of(descriptor: &Descriptor) -> Answer<(u64, u64)> {
    hash(descriptor.metadata_hash())
}

pub fn metadata_hash(scene: &mut Scene) -> Answer<()> {
    let at = |scene: &Scene, path: &str| hash(scene.root.metadata_hash_at(FOLLOW, path));
    let itself = |scene: &Scene, path: &str| hash(scene.root.metadata_hash_at(NO_FOLLOW, path));
    let file = open(&scene.root, "file", AS_IT_IS, BOTH)?;
    let before = of(&file)?;
    scene.see("again", of(&file)? == before, "true");
    scene.see("by name", at(scene, "file")? == before, "true");
    scene.see("through links", at(scene, "chain")? == before, "true");
    scene.see(
        "a link itself",
        itself(scene, "to_file")? == before,
        "false",
    );
    scene.see("another file", at(scene, "other")? == before, "false");
    scene.see(
        "a directory",
        at(scene, "dir")? == at(scene, "to_dir/")?,
        "true",
    );
    scene.see("the preopen", at(scene, ".")? == of(&scene.root)?, "true");
    for (path, expected) in [
        ("missing", "no-entry"),
        ("dangling", "no-entry"),
        ("loop", "loop"),
        ("file/", "not-directory"),
        ("..", "not-permitted"),
        ("", "no-entry"),
    ] {
        scene.see(
            format!("hash {path:?}"),
            at(scene, path).map(|_| ()),
            expected,
        );
    }
    scene
        .root
        .link_at(NO_FOLLOW, "file", &scene.root, "second")?;
    let (one, two) = (at(scene, "file")?, at(scene, "second")?);
    scene.see("two names of a file", one == two, "true");
    let before = of(&file)?;
    file.write(b"more than there was", 0)?;
    scene.see("another size", of(&file)? == before, "false");
    put(&scene.root, "replacement", b"more than there was")?;
    scene.root.rename_at("replacement", &scene.root, "file")?;
    scene.see("replaced", at(scene, "file")? == before, "false");
    Ok(())
}
