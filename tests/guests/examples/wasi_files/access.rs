//! Rights and flags of descriptors.

use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{Advice, NewTimestamp, OpenFlags};

use crate::scene::{
    AS_IT_IS, Answer, BOTH, CHANGE, FOLLOW, READ, Scene, WRITE, all, get, kind, open, put,
};

pub fn flags_and_types(scene: &mut Scene) -> Answer<()> {
    let root = &scene.root;
    let new = open(root, "new", OpenFlags::CREATE, READ)?;
    let rows = [
        (
            "file to read",
            open(root, "file", AS_IT_IS, READ)?,
            "read",
            "file",
        ),
        (
            "file to write",
            open(root, "file", AS_IT_IS, WRITE)?,
            "write",
            "file",
        ),
        (
            "file for both",
            open(root, "file", AS_IT_IS, BOTH)?,
            "read write",
            "file",
        ),
        ("new file to read", new, "read", "file"),
        (
            "directory to read",
            open(root, "dir", AS_IT_IS, READ)?,
            "read",
            "directory",
        ),
        (
            "directory to change",
            open(root, "dir", AS_IT_IS, CHANGE)?,
            "read mutate",
            "directory",
        ),
        (
            "link to a directory",
            open(root, "to_dir", AS_IT_IS, CHANGE)?,
            "read mutate",
            "directory",
        ),
    ];
    for (label, descriptor, flags, kind) in rows {
        scene.see(format!("flags of a {label}"), descriptor.get_flags(), flags);
        scene.see(format!("type of a {label}"), descriptor.get_type(), kind);
    }
    scene.see("flags of a preopen", scene.root.get_flags(), "read mutate");
    scene.see(
        "flags of a read-only preopen",
        scene.read_only.get_flags(),
        "read",
    );
    scene.see("type of a preopen", scene.root.get_type(), "directory");
    // "This may only be set on directories", but C libraries set it for every file they open for writing.
    let with_all = open(&scene.root, "file", AS_IT_IS, WRITE.union(CHANGE));
    scene.see("a file with every right", with_all, "ok");
    // Without `mutate-directory` nothing below may change.
    let dir = open(&scene.root, "dir", OpenFlags::DIRECTORY, READ)?;
    scene.see(
        "make in a directory to read",
        dir.create_directory_at("made"),
        "read-only",
    );
    let deeper = open(&dir, ".", OpenFlags::DIRECTORY, CHANGE);
    scene.see("more rights from fewer", deeper, "read-only");
    Ok(())
}

pub fn rights(scene: &mut Scene) -> Answer<()> {
    let reader = open(&scene.root, "file", AS_IT_IS, READ)?;
    let writer = open(&scene.root, "other", AS_IT_IS, WRITE)?;
    scene.see("write to a reader", reader.write(b"x", 0), "bad-descriptor");
    scene.see(
        "size of a reader",
        reader.set_size(1),
        "bad-descriptor|invalid",
    );
    scene.see("read from a writer", writer.read(1, 0), "bad-descriptor");
    scene.see("write to a writer", writer.write(b"O", 0), "1");
    scene.see("stat of a writer", writer.stat().map(|stat| stat.size), "5");
    scene.see("kept", get(&scene.root, "file"), "0123456789");
    scene.see("written", get(&scene.root, "other"), "Other");
    // Operations that apply only to files, or only to directories.
    let dir = &scene.root;
    let rows = [
        ("read", dir.read(1, 0).map(|_| ())),
        ("write", dir.write(b"x", 0).map(|_| ())),
        ("set size", dir.set_size(1)),
        ("read stream", dir.read_via_stream(0).map(|_| ())),
        ("write stream", dir.write_via_stream(0).map(|_| ())),
        ("append stream", dir.append_via_stream().map(|_| ())),
    ];
    for (label, got) in rows {
        scene.see(
            format!("{label} of a directory"),
            got,
            "is-directory|bad-descriptor|invalid",
        );
    }
    let file = &reader;
    let rows = [
        ("list", file.read_directory().map(|_| ())),
        ("open", open(file, "x", AS_IT_IS, READ).map(|_| ())),
        ("stat", file.stat_at(FOLLOW, "x").map(|_| ())),
        ("make", file.create_directory_at("x")),
        ("remove", file.remove_directory_at("x")),
        ("unlink", file.unlink_file_at("x")),
        ("link", file.symlink_at("x", "y")),
        ("read link", file.readlink_at("x").map(|_| ())),
        ("move", file.rename_at("x", &scene.root, "y")),
        ("move to", scene.root.rename_at("other", file, "y")),
        ("hash", file.metadata_hash_at(FOLLOW, "x").map(|_| ())),
    ];
    for (label, got) in rows {
        scene.see(format!("{label} in a file"), got, "not-directory");
    }
    Ok(())
}

pub fn read_only_grant(scene: &mut Scene) -> Answer<()> {
    let root = &scene.read_only;
    let times = (NewTimestamp::Now, NewTimestamp::Now);
    let reader = open(root, "kept", AS_IT_IS, READ)?;
    let rows = [
        (
            "open to write",
            open(root, "kept", AS_IT_IS, WRITE).map(|_| ()),
        ),
        (
            "create",
            open(root, "new", OpenFlags::CREATE, READ).map(|_| ()),
        ),
        (
            "truncate",
            open(root, "kept", OpenFlags::TRUNCATE, READ).map(|_| ()),
        ),
        (
            "open to change",
            open(root, ".", AS_IT_IS, CHANGE).map(|_| ()),
        ),
        ("make", root.create_directory_at("new")),
        ("remove", root.remove_directory_at("folder")),
        ("unlink", root.unlink_file_at("kept")),
        ("link", root.symlink_at("kept", "new")),
        (
            "hard link",
            root.link_at(FOLLOW.difference(FOLLOW), "kept", root, "new"),
        ),
        (
            "hard link out",
            root.link_at(FOLLOW.difference(FOLLOW), "kept", &scene.root, "new"),
        ),
        ("move", root.rename_at("kept", root, "new")),
        ("move out", root.rename_at("kept", &scene.root, "new")),
        ("move in", scene.root.rename_at("file", root, "new")),
        (
            "set times",
            root.set_times_at(FOLLOW, "kept", times.0, times.1),
        ),
    ];
    for (label, got) in rows {
        scene.see(label, got, "read-only");
    }
    scene.see("read", all(&reader), "kept");
    let missing = open(&scene.read_only, "missing", AS_IT_IS, READ);
    scene.see("look for", missing, "no-entry");
    scene.see("nothing new", kind(&scene.read_only, "new"), "no-entry");
    Ok(())
}

pub fn advise(scene: &mut Scene) -> Answer<()> {
    let file = open(&scene.root, "file", AS_IT_IS, READ)?;
    for advice in [
        Advice::Normal,
        Advice::Sequential,
        Advice::Random,
        Advice::WillNeed,
        Advice::DontNeed,
        Advice::NoReuse,
    ] {
        for (offset, length) in [(0, 0), (2, 5), (100, 100)] {
            scene.see(
                format!("{advice:?} {offset} {length}"),
                file.advise(offset, length, advice),
                "ok",
            );
        }
    }
    let beyond = file.advise(0, u64::MAX, Advice::Normal);
    scene.see("a length beyond all", beyond, "ok|invalid|overflow");
    let dir = scene.root.advise(0, 0, Advice::Normal);
    scene.see("a directory", dir, "bad-descriptor");
    scene.see("still readable", all(&file), "0123456789");
    Ok(())
}

pub fn sync(scene: &mut Scene) -> Answer<()> {
    let root = &scene.root;
    let rows = [
        ("to read", open(root, "file", AS_IT_IS, READ)?),
        ("to write", open(root, "file", AS_IT_IS, WRITE)?),
        ("of a new file", open(root, "new", OpenFlags::CREATE, BOTH)?),
        ("of a directory", open(root, "dir", AS_IT_IS, CHANGE)?),
    ];
    for (label, descriptor) in &rows {
        scene.see(format!("sync {label}"), descriptor.sync(), "ok");
        scene.see(format!("sync-data {label}"), descriptor.sync_data(), "ok");
    }
    rows[2].1.write(b"synced", 0)?;
    scene.see("sync what was written", rows[2].1.sync(), "ok");
    scene.see("a preopen", scene.root.sync(), "ok");
    scene.see("written", get(&scene.root, "new"), "synced");
    Ok(())
}

pub fn dropped(scene: &mut Scene) -> Answer<()> {
    let dir = open(&scene.root, "dir", AS_IT_IS, CHANGE)?;
    let file = open(&dir, "inner", AS_IT_IS, READ)?;
    drop(dir);
    scene.see("a file whose directory was dropped", all(&file), "inner");
    let stream = file.read_via_stream(0)?;
    drop(file);
    scene.see(
        "a stream whose file was dropped",
        stream.blocking_read(100),
        "inner",
    );
    let out = open(&scene.root, "new", OpenFlags::CREATE, WRITE)?.write_via_stream(0)?;
    let written = out.blocking_write_and_flush(b"late");
    scene.see("a write stream whose file was dropped", written, "ok");
    drop(out);
    scene.see("what it wrote", get(&scene.root, "new"), "late");
    let entries = open(&scene.root, "dir", AS_IT_IS, READ)?.read_directory()?;
    let first = entries.read_directory_entry()?.map(|entry| entry.name);
    scene.see("a listing whose directory was dropped", first, "inner");
    // No entry is left behind.
    for _ in 0..5000 {
        open(&scene.root, "file", AS_IT_IS, READ)?;
    }
    scene.see("many, one after the other", "done", "done");
    Ok(())
}

pub fn preopens(scene: &mut Scene) -> Answer<()> {
    let names = || -> Vec<String> {
        get_directories()
            .into_iter()
            .map(|(_, name)| name)
            .collect()
    };
    let first = names();
    for name in ["/workspace", "/extra/1", "/extra/2"] {
        let count = first.iter().filter(|known| *known == name).count();
        scene.see(format!("how many {name}"), count == 1, "true");
    }
    scene.see("again the same", names() == first, "true");
    let again = get_directories()
        .into_iter()
        .find(|(_, name)| name == "/workspace");
    let same = again.is_some_and(|(root, _)| root.is_same_object(&scene.root));
    scene.see("the same directory", same, "true");
    scene.see(
        "after that was dropped",
        get(&scene.root, "file"),
        "0123456789",
    );
    let apart = scene.root.is_same_object(&scene.second);
    scene.see("two of them", apart, "false");
    // A preopen has no name inside the file system, so it cannot be replaced.
    let root = &scene.root;
    let rows = [
        ("remove it", root.remove_directory_at(".")),
        ("move it", root.rename_at(".", &scene.second, "stolen")),
        ("move over it", scene.second.rename_at("folder", root, ".")),
        (
            "move over it with a slash",
            scene.second.rename_at("folder", root, "./"),
        ),
    ];
    for (label, got) in rows {
        scene.see(label, got, "invalid|busy|not-permitted|exist|not-empty");
    }
    let remove = scene.root.remove_directory_at("..");
    scene.see("remove what is above it", remove, "not-permitted");
    put(&scene.second, "new", b"second")?;
    scene.see("write in another", get(&scene.second, "new"), "second");
    scene.see("not in the first", kind(&scene.root, "new"), "no-entry");
    // A grant inside of another one, which is not present in every run.
    if kind(&scene.root, "granted").is_err() {
        return Ok(());
    }
    let root = &scene.root;
    let rows = [
        ("remove a grant", root.remove_directory_at("granted")),
        ("move a grant", root.rename_at("granted", root, "stolen")),
        (
            "move over a grant",
            root.rename_at("empty", root, "granted"),
        ),
        ("write in it", root.create_directory_at("granted/new")),
        (
            "move out of it",
            root.rename_at("granted/kept", root, "kept"),
        ),
    ];
    for (label, got) in rows {
        scene.see(label, got, "not-permitted|busy|read-only");
    }
    scene.see("read in it", get(&scene.root, "granted/kept"), "kept");
    Ok(())
}
