//! Creation, resolution and reading of symbolic links.

use wasip2::filesystem::types::OpenFlags;

use crate::scene::{AS_IT_IS, Answer, FOLLOW, NO_FOLLOW, READ, Scene, WRITE, get, kind, open, put};

pub fn links(scene: &mut Scene) -> Answer<()> {
    for (target, name) in [
        ("file", "one"),
        ("one", "two"),
        ("two", "three"),
        ("dir/", "slashed"),
        ("./dir/.//inner", "dotted"),
        ("../file", "dir/up"),
        ("../../file", "dir/too_far_later"),
        ("later", "early"),
        ("self", "self"),
        ("b", "a"),
        ("a", "b"),
        (".", "here"),
        ("ünï 😀", "text"),
    ] {
        let got = scene.root.symlink_at(target, name);
        // A link that leaves the grant is not created, because other programs of the user would follow it.
        let out = target.starts_with("../..");
        let expected = if out { "not-permitted" } else { "ok" };
        scene.see(format!("{name} to {target:?}"), got, expected);
    }
    for (path, followed, itself) in [
        ("three", "file", "link"),
        ("slashed", "directory", "link"),
        ("dotted", "file", "link"),
        ("dir/up", "file", "link"),
        ("to_dir/up", "file", "link"),
        ("early", "no-entry", "link"),
        ("self", "loop", "link"),
        ("a", "loop", "link"),
        ("here", "directory", "link"),
        ("here/here/here/file", "file", "file"),
    ] {
        let stat = scene.root.stat_at(FOLLOW, path).map(|stat| stat.type_);
        scene.see(format!("{path}, followed"), stat, followed);
        scene.see(format!("{path} itself"), kind(&scene.root, path), itself);
    }
    scene.see(
        "read through three",
        get(&scene.root, "three"),
        "0123456789",
    );
    open(&scene.root, "three", OpenFlags::TRUNCATE, WRITE)?.write(b"through", 0)?;
    scene.see("written through three", get(&scene.root, "file"), "through");
    scene.see("still a link", kind(&scene.root, "three"), "link");
    put(&scene.root, "later", b"now")?;
    scene.see("no longer dangling", get(&scene.root, "early"), "now");
    put(&scene.root, "slashed/new", b"new")?;
    scene.see("made through a link", get(&scene.root, "dir/new"), "new");
    // The target of a link is resolved on each access.
    scene.root.unlink_file_at("one")?;
    scene.root.symlink_at("other", "one")?;
    scene.see("another way", get(&scene.root, "three"), "other");
    for number in 0..45 {
        let before = if number == 0 {
            "file".to_owned()
        } else {
            format!("link-{}", number - 1)
        };
        scene.root.symlink_at(&before, &format!("link-{number}"))?;
    }
    let some = open(&scene.root, "link-7", AS_IT_IS, READ);
    scene.see("as many as POSIX asks for", some, "ok");
    let many = open(&scene.root, "link-44", AS_IT_IS, READ);
    scene.see("too many in a row", many, "loop");
    Ok(())
}

pub fn refused(scene: &mut Scene) -> Answer<()> {
    let long = "t".repeat(5000);
    for (target, name, expected) in [
        ("/file", "new", "not-permitted"),
        ("/", "new", "not-permitted"),
        ("//x", "new", "not-permitted"),
        ("file", "other", "exist"),
        ("file", "dir", "exist"),
        ("file", "to_file", "exist"),
        ("file", "dangling", "exist"),
        ("file", "dir/", "exist"),
        ("file", ".", "exist"),
        ("file", "new/", "no-entry|not-directory"),
        ("file", "missing/new", "no-entry"),
        ("file", "other/new", "not-directory"),
        ("file", "../new", "not-permitted"),
        ("file", "/new", "not-permitted"),
        ("file", "", "no-entry"),
        ("", "new", "no-entry|invalid"),
        ("a\0b", "new", "invalid|illegal-byte-sequence"),
        (&long, "new", "name-too-long"),
        // These links leave the grant, or might.
        ("..", "new", "not-permitted"),
        ("../file", "new", "not-permitted"),
        ("dir/../../file", "new", "not-permitted"),
    ] {
        let got = scene.root.symlink_at(target, name);
        let target = if target.len() > 40 {
            "a long text"
        } else {
            target
        };
        scene.see(format!("{name:?} to {target:?}"), got, expected);
    }
    scene.see("nothing was made", kind(&scene.root, "new"), "no-entry");
    scene.see("nor changed", get(&scene.root, "to_file"), "0123456789");
    Ok(())
}

pub fn read_link(scene: &mut Scene) -> Answer<()> {
    for (target, name) in [("./dir/.//", "odd"), ("../other", "dir/up")] {
        scene.root.symlink_at(target, name)?;
        scene.see(name, scene.root.readlink_at(name), target);
    }
    for (path, expected) in [
        ("to_file", "file"),
        ("chain", "to_file"),
        ("dangling", "nowhere"),
        ("loop", "loop"),
        ("./to_dir/../to_dir", "dir"),
        ("file", "invalid"),
        ("dir", "invalid"),
        (".", "invalid"),
        ("to_dir/", "invalid"),
        ("file/", "not-directory"),
        ("to_file/", "not-directory"),
        ("missing", "no-entry"),
        ("missing/x", "no-entry"),
        ("loop/x", "loop"),
        ("", "no-entry"),
        ("..", "not-permitted"),
        ("/to_file", "not-permitted"),
        // An existing link of the user, if any, would reveal paths of the host.
        ("absolute", "not-permitted|no-entry"),
    ] {
        let got = scene.root.readlink_at(path);
        scene.see(format!("{path:?}"), got, expected);
    }
    let size = scene.root.stat_at(NO_FOLLOW, "dangling")?.size;
    scene.see("its size is its text's", size, "7");
    Ok(())
}
