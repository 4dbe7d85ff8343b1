//! Renames within a directory, between directories, and between preopens.

use wasip2::filesystem::types::OpenFlags;

use crate::scene::{
    AS_IT_IS, Answer, BOTH, CHANGE, NO_FOLLOW, READ, Scene, all, get, kind, names, open, put,
};

fn table(scene: &mut Scene, rows: &[(&str, &str, &str)]) {
    for (old, new, expected) in rows {
        let got = scene.root.rename_at(old, &scene.root, new);
        scene.see(format!("{old:?} to {new:?}"), got, expected);
    }
}

pub fn files(scene: &mut Scene) -> Answer<()> {
    put(&scene.root, "made", b"made")?;
    table(
        scene,
        &[
            ("file", "renamed", "ok"),
            ("file", "again", "no-entry"),
            ("renamed", "renamed", "ok"),
            ("renamed", "./renamed", "ok"),
            ("renamed", "dir/renamed", "ok"),
            ("dir/renamed", "other", "ok"),
            ("made", "dir/inner", "ok"),
            // A link is moved as a link, and replacing it replaces the link.
            ("to_file", "empty/link", "ok"),
            ("dangling", "empty/dangling", "ok"),
            ("dir/inner", "to_dir", "ok"),
        ],
    );
    scene.see(
        "moved over another",
        get(&scene.root, "other"),
        "0123456789",
    );
    scene.see("over a link", get(&scene.root, "to_dir"), "made");
    scene.see("no link any more", kind(&scene.root, "to_dir"), "file");
    scene.see("the directory", names(&scene.root, "dir"), "");
    scene.see("the links", names(&scene.root, "empty"), "dangling link");
    let link = scene.root.readlink_at("empty/link");
    scene.see("a link's text", link, "file");
    // Two names of one file: nothing happens, and both remain.
    scene
        .root
        .link_at(NO_FOLLOW, "other", &scene.root, "second")?;
    table(scene, &[("other", "second", "ok")]);
    scene.see("one name", kind(&scene.root, "other"), "file");
    scene.see("and the other", kind(&scene.root, "second"), "file");
    // Moving back restores the original state.
    table(scene, &[("chain", "away", "ok"), ("away", "chain", "ok")]);
    scene.see("back", scene.root.readlink_at("chain"), "to_file");
    Ok(())
}

pub fn directories(scene: &mut Scene) -> Answer<()> {
    table(
        scene,
        &[
            ("dir", "moved", "ok"),
            ("dir", "again", "no-entry"),
            ("moved", "moved", "ok"),
            ("moved/", "slashes/", "ok"),
            ("slashes", "empty", "ok"),
        ],
    );
    scene.see("what was in it", get(&scene.root, "empty/inner"), "inner");
    put(&scene.root, "empty/new", b"new")?;
    scene.root.create_directory_at("other_dir")?;
    table(
        scene,
        &[
            ("other_dir", "empty", "not-empty|exist"),
            ("empty", "other_dir", "ok"),
            ("other_dir", "deep", "ok"),
        ],
    );
    let listed = names(&scene.root, "deep");
    scene.see("all of it moved", listed, "inner new");
    // A moved directory remains writable.
    scene.root.unlink_file_at("deep/inner")?;
    scene.root.create_directory_at("deep/er")?;
    table(
        scene,
        &[("file", "deep/er/file", "ok"), ("deep", "dir", "ok")],
    );
    let there = get(&scene.root, "to_dir/er/file");
    scene.see("through a link to its name", there, "0123456789");
    scene.see("at the end", names(&scene.root, "dir"), "er new");
    Ok(())
}

pub fn refused(scene: &mut Scene) -> Answer<()> {
    scene.root.create_directory_at("dir/sub")?;
    table(
        scene,
        &[
            ("file", "dir", "is-directory"),
            ("file", "empty", "is-directory"),
            ("to_file", "dir", "is-directory"),
            ("empty", "file", "not-directory"),
            ("empty", "to_dir", "not-directory"),
            ("empty", "dir", "not-empty|exist"),
            ("dir", "dir/sub", "invalid"),
            ("dir", "dir/new", "invalid"),
            ("dir", "dir/sub/new", "invalid"),
            ("dir", "to_dir/new", "invalid"),
            ("dir/sub", "dir", "not-empty|exist"),
            ("missing", "new", "no-entry"),
            ("missing", "missing", "no-entry"),
            ("file", "missing/new", "no-entry"),
            ("file", "other/new", "not-directory"),
            ("file/", "new", "not-directory"),
            ("file", "new/", "not-directory|no-entry"),
            ("file", "other/", "not-directory"),
            ("to_dir/", "new", "not-directory"),
            (".", "new", "invalid|busy"),
            ("dir/.", "new", "invalid|busy"),
            ("empty", ".", "invalid|busy"),
            ("file", ".", "invalid|busy|is-directory"),
            ("empty", "dir/..", "invalid|busy|not-empty|exist"),
            ("..", "new", "not-permitted"),
            ("file", "..", "not-permitted"),
            ("file", "../new", "not-permitted"),
            ("/file", "new", "not-permitted"),
            ("file", "/new", "not-permitted"),
            ("", "new", "no-entry"),
            ("file", "", "no-entry"),
            ("loop/x", "new", "loop"),
            ("file", "a\0b", "invalid|illegal-byte-sequence"),
        ],
    );
    scene.see("the file stays", get(&scene.root, "file"), "0123456789");
    scene.see("the other too", get(&scene.root, "other"), "other");
    let listed = names(&scene.root, "dir");
    scene.see("and the directory", listed, "inner sub");
    scene.see("nothing new", kind(&scene.root, "new"), "no-entry");
    Ok(())
}

pub fn across(scene: &mut Scene) -> Answer<()> {
    let (root, second) = (&scene.root, &scene.second);
    let rows = [
        ("a file", root.rename_at("file", second, "file")),
        ("a directory", root.rename_at("dir", second, "dir")),
        ("a link", root.rename_at("chain", second, "chain")),
        ("over a file", root.rename_at("other", second, "there")),
        (
            "over a directory",
            root.rename_at("empty", second, "folder"),
        ),
    ];
    for (label, got) in rows {
        scene.see(label, got, "ok");
    }
    scene.see("the file", get(&scene.second, "file"), "0123456789");
    scene.see("not here", kind(&scene.root, "file"), "no-entry");
    scene.see("the directory", get(&scene.second, "dir/inner"), "inner");
    scene.see("the link", scene.second.readlink_at("chain"), "to_file");
    scene.see("replaced", get(&scene.second, "there"), "other");
    let back = scene.second.rename_at("dir/inner", &scene.root, "inner");
    scene.see("and back", back, "ok");
    scene.see("here", get(&scene.root, "inner"), "inner");
    Ok(())
}

/// Descriptors refer to the file they opened, wherever it moves.
pub fn while_open(scene: &mut Scene) -> Answer<()> {
    let file = open(&scene.root, "file", AS_IT_IS, BOTH)?;
    let replaced = open(&scene.root, "other", AS_IT_IS, READ)?;
    let dir = open(&scene.root, "dir", OpenFlags::DIRECTORY, CHANGE)?;
    table(scene, &[("file", "other", "ok"), ("dir", "empty", "ok")]);
    file.write(b"moved", 0)?;
    scene.see("written", get(&scene.root, "other"), "moved56789");
    scene.see("what was replaced", all(&replaced), "other");
    scene.see("read below it", get(&dir, "inner"), "inner");
    scene.see("write below it", put(&dir, "new", b"new"), "ok");
    scene.see("in its new place", get(&scene.root, "empty/new"), "new");
    dir.create_directory_at("sub")?;
    let sub = open(&dir, "sub", OpenFlags::DIRECTORY, CHANGE)?;
    scene.root.rename_at("empty", &scene.root, "last")?;
    put(&sub, "deep", b"deep")?;
    scene.see("deeper", get(&scene.root, "last/sub/deep"), "deep");
    let same = open(&scene.root, "last", AS_IT_IS, READ)?.is_same_object(&dir);
    scene.see("the same directory", same, "true");
    scene.see("the old name", kind(&scene.root, "empty"), "no-entry");
    Ok(())
}
