//! Creation and removal of directories and files.

use crate::scene::{AS_IT_IS, Answer, BOTH, READ, Scene, all, get, kind, open, put};

pub fn create_directory(scene: &mut Scene) -> Answer<()> {
    for (path, expected) in [
        ("new", "ok"),
        ("new", "exist"),
        ("new/deep", "ok"),
        ("slash/", "ok"),
        ("dots/../no", "no-entry"),
        ("dir/../over", "ok"),
        ("to_dir/below", "ok"),
        ("dir", "exist"),
        ("dir/", "exist"),
        ("file", "exist"),
        ("file/", "exist|not-directory"),
        ("to_file", "exist"),
        ("to_dir", "exist"),
        ("dangling", "exist"),
        ("dangling/", "exist|no-entry"),
        (".", "exist"),
        ("dir/.", "exist"),
        ("dir/..", "exist"),
        ("..", "not-permitted|exist"),
        ("missing/x", "no-entry"),
        ("missing/x/", "no-entry"),
        ("file/x", "not-directory"),
        ("loop/x", "loop"),
        ("../outside", "not-permitted"),
        ("/outside", "not-permitted"),
        ("", "no-entry"),
        ("a\0b", "invalid|illegal-byte-sequence"),
    ] {
        let got = scene.root.create_directory_at(path);
        scene.see(format!("make {path:?}"), got, expected);
    }
    for path in ["new", "new/deep", "slash", "over", "dir/below"] {
        scene.see(path, kind(&scene.root, path), "directory");
    }
    put(&scene.root, "new/deep/file", b"deep")?;
    scene.see("a file in it", get(&scene.root, "new/deep/file"), "deep");
    Ok(())
}

pub fn remove_directory(scene: &mut Scene) -> Answer<()> {
    for (path, expected) in [
        ("dir", "not-empty"),
        ("dir/", "not-empty"),
        ("file", "not-directory"),
        ("file/", "not-directory"),
        ("to_file", "not-directory"),
        ("to_dir", "not-directory"),
        ("dangling", "not-directory"),
        ("missing", "no-entry"),
        ("missing/", "no-entry"),
        (".", "invalid"),
        ("dir/.", "invalid"),
        ("dir/..", "not-empty|invalid"),
        ("..", "not-permitted"),
        ("/", "not-permitted"),
        ("", "no-entry"),
        ("empty", "ok"),
        ("empty", "no-entry"),
    ] {
        let got = scene.root.remove_directory_at(path);
        scene.see(format!("remove {path:?}"), got, expected);
    }
    scene.see("kept", get(&scene.root, "to_dir/inner"), "inner");
    scene.root.create_directory_at("new")?;
    let slash = scene.root.remove_directory_at("new/");
    scene.see("a new one, with a slash", slash, "ok");
    scene.see("it is gone", kind(&scene.root, "new"), "no-entry");
    scene.root.unlink_file_at("dir/inner")?;
    let emptied = scene.root.remove_directory_at("dir");
    scene.see("an emptied one", emptied, "ok");
    let dangling = open(&scene.root, "to_dir", AS_IT_IS, READ);
    scene.see("the link to it", dangling, "no-entry");
    // The name can be reused.
    scene.see(
        "a file of its name",
        put(&scene.root, "dir", b"now a file"),
        "ok",
    );
    scene.see("through the link", get(&scene.root, "to_dir"), "now a file");
    Ok(())
}

pub fn unlink_file(scene: &mut Scene) -> Answer<()> {
    for (path, expected) in [
        ("dir", "is-directory"),
        ("dir/", "is-directory"),
        ("dir/.", "is-directory"),
        ("empty", "is-directory"),
        (".", "is-directory"),
        ("..", "not-permitted|is-directory"),
        ("file/", "not-directory"),
        ("to_file/", "not-directory"),
        ("to_dir/", "not-directory|is-directory"),
        ("missing", "no-entry"),
        ("missing/x", "no-entry"),
        ("file/x", "not-directory"),
        ("/file", "not-permitted"),
        ("", "no-entry"),
        ("to_file", "ok"),
        ("to_dir", "ok"),
        ("dangling", "ok"),
        ("loop", "ok"),
        ("dir/inner", "ok"),
        ("other", "ok"),
        ("other", "no-entry"),
    ] {
        let got = scene.root.unlink_file_at(path);
        scene.see(format!("unlink {path:?}"), got, expected);
    }
    scene.see(
        "not what a link led to",
        get(&scene.root, "file"),
        "0123456789",
    );
    scene.see("nor its directory", kind(&scene.root, "dir"), "directory");
    put(&scene.root, "new", b"new")?;
    scene.see("a new file", scene.root.unlink_file_at("new"), "ok");
    scene.see("it is gone", kind(&scene.root, "new"), "no-entry");
    put(&scene.root, "other", b"again")?;
    scene.see("made again", get(&scene.root, "other"), "again");
    Ok(())
}

pub fn unlinked_but_open(scene: &mut Scene) -> Answer<()> {
    let reader = open(&scene.root, "file", AS_IT_IS, READ)?;
    let writer = open(&scene.root, "other", AS_IT_IS, BOTH)?;
    put(&scene.root, "new", b"new")?;
    let new = open(&scene.root, "new", AS_IT_IS, BOTH)?;
    for name in ["file", "other", "new"] {
        scene.root.unlink_file_at(name)?;
    }
    scene.see("a reader reads", all(&reader), "0123456789");
    writer.write(b"OTHER!", 0)?;
    scene.see("a writer writes", all(&writer), "OTHER!");
    scene.see("a new one too", new.set_size(5), "ok");
    scene.see("and reads", all(&new), "new..");
    let left = new.stat().map(|stat| stat.link_count);
    scene.see("it has no name", left, "0");
    // A new entry of the name is not the one that is still open.
    put(&scene.root, "other", b"another")?;
    scene.see("still its own", all(&writer), "OTHER!");
    scene.see("and the other", get(&scene.root, "other"), "another");
    Ok(())
}
