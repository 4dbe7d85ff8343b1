//! Directory listings.

use std::collections::BTreeSet;

use wasip2::filesystem::types::{DirectoryEntryStream, OpenFlags};

use crate::scene::{AS_IT_IS, Answer, CHANGE, Describe as _, READ, Scene, names, open, put};

fn rest(stream: &DirectoryEntryStream) -> Answer<Vec<String>> {
    let mut entries = Vec::new();
    while let Some(entry) = stream.read_directory_entry()? {
        entries.push(format!("{} {}", entry.name, entry.type_.describe()));
    }
    entries.sort();
    Ok(entries)
}

pub fn entries(scene: &mut Scene) -> Answer<()> {
    let dir = open(&scene.root, "dir", AS_IT_IS, CHANGE)?;
    dir.create_directory_at("folder")?;
    dir.symlink_at("inner", "link")?;
    dir.symlink_at("nowhere", "dangling")?;
    put(&dir, ".hidden", b"")?;
    let all = ".hidden file, dangling link, folder directory, inner file, link link";
    let stream = dir.read_directory()?;
    let listed = rest(&stream)?.join(", ");
    scene.see("everything once, no dots", listed, all);
    let after = stream.read_directory_entry()?.map(|entry| entry.name);
    scene.see("after the end", after, "none");
    // A new stream starts at the beginning, and two streams are independent.
    let (one, two) = (dir.read_directory()?, dir.read_directory()?);
    one.read_directory_entry()?;
    scene.see("another", rest(&two)?.join(", "), all);
    scene.see("the one before", rest(&one)?.len() == 4, "true");
    let link = open(&scene.root, "to_dir", AS_IT_IS, READ)?;
    let listed = rest(&link.read_directory()?)?.join(", ");
    scene.see("through a link", listed, all);
    scene.see("empty", names(&scene.root, "empty"), "");
    scene.see("a new directory", names(&scene.root, "dir/folder"), "");
    let file = open(&scene.root, "file", AS_IT_IS, READ)?;
    let listed = file.read_directory().map(|_| ());
    scene.see("a file", listed, "not-directory|bad-descriptor");
    let top = names(&scene.root, ".")?;
    // The test may have added entries.
    let more = ["absolute", "granted"];
    let top: Vec<&str> = top.split(' ').filter(|name| !more.contains(name)).collect();
    scene.see(
        "the preopen",
        top.join(" "),
        "chain dangling dir empty file loop other ping pong to_dir to_file",
    );
    // Each entry is exactly at its new place.
    scene.root.rename_at("other", &dir, "moved")?;
    dir.unlink_file_at("inner")?;
    dir.remove_directory_at("folder")?;
    put(&dir, "inner", b"again")?;
    let listed = names(&scene.root, "dir");
    scene.see("after changes", listed, ".hidden dangling inner link moved");
    Ok(())
}

pub fn while_it_changes(scene: &mut Scene) -> Answer<()> {
    scene.root.create_directory_at("many")?;
    let many = open(&scene.root, "many", OpenFlags::DIRECTORY, CHANGE)?;
    let made: BTreeSet<String> = (0..300).map(|number| format!("file-{number}")).collect();
    for name in &made {
        put(&many, name, b"")?;
    }
    let stream = many.read_directory()?;
    let (mut seen, mut twice) = (BTreeSet::new(), 0);
    while let Some(entry) = stream.read_directory_entry()? {
        // Removing an entry must not hide the following ones.
        many.unlink_file_at(&entry.name)?;
        if !seen.insert(entry.name) {
            twice += 1;
        }
    }
    scene.see("each of them", seen == made, "true");
    scene.see("none twice", twice == 0, "true");
    scene.see("nothing is left", names(&scene.root, "many"), "");
    // The same with existing entries.
    let dir = open(&scene.root, "dir", OpenFlags::DIRECTORY, CHANGE)?;
    let stream = dir.read_directory()?;
    dir.unlink_file_at("inner")?;
    put(&dir, "late", b"")?;
    let early: Vec<String> = rest(&stream)?;
    let strange = early
        .iter()
        .any(|entry| entry != "inner file" && entry != "late file");
    scene.see("nothing that never was", strange, "false");
    scene.see("a later stream", names(&scene.root, "dir"), "late");
    let gone = scene.root.remove_directory_at("many");
    scene.see("the emptied directory can go", gone, "ok");
    Ok(())
}

pub fn gone(scene: &mut Scene) -> Answer<()> {
    let empty = open(&scene.root, "empty", OpenFlags::DIRECTORY, CHANGE)?;
    scene.root.remove_directory_at("empty")?;
    let listed = empty.read_directory().map(|_| ());
    scene.see("list what is gone", listed, "ok|no-entry");
    let made = empty.create_directory_at("new");
    scene.see("make in what is gone", made, "no-entry");
    let put = put(&empty, "new", b"");
    scene.see("write in what is gone", put, "no-entry");
    let moved = scene.root.rename_at("file", &empty, "file");
    scene.see("move into what is gone", moved, "no-entry");
    scene.see("its type", empty.get_type(), "directory");
    // A new directory of the same name is a different one.
    scene.root.create_directory_at("empty")?;
    let new = open(&scene.root, "empty", AS_IT_IS, READ)?;
    scene.see("a new one", new.is_same_object(&empty), "false");
    let made = empty.create_directory_at("new");
    scene.see("still gone", made, "no-entry");
    Ok(())
}
