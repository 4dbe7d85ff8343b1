//! Hard links.

use crate::scene::{AS_IT_IS, Answer, BOTH, FOLLOW, NO_FOLLOW, READ, Scene, get, kind, open, put};

pub fn link(scene: &mut Scene) -> Answer<()> {
    let link =
        |scene: &Scene, old: &str, new: &str| scene.root.link_at(NO_FOLLOW, old, &scene.root, new);
    scene.see("link", link(scene, "file", "second"), "ok");
    let one = open(&scene.root, "file", AS_IT_IS, BOTH)?;
    let two = open(&scene.root, "second", AS_IT_IS, READ)?;
    scene.see("one file", one.is_same_object(&two), "true");
    scene.see("two names", one.stat().map(|stat| stat.link_count), "2");
    one.write(b"new", 0)?;
    scene.see("by the other", get(&scene.root, "second"), "new3456789");
    put(&scene.root, "second", b"anew")?;
    scene.see("and back", get(&scene.root, "file"), "anew");
    scene.see("in a directory", link(scene, "second", "dir/third"), "ok");
    scene.see("three names", one.stat().map(|stat| stat.link_count), "3");
    scene.root.unlink_file_at("file")?;
    scene.see("without the first", get(&scene.root, "dir/third"), "anew");
    scene.see("two are left", one.stat().map(|stat| stat.link_count), "2");
    // A link to a link is a link.
    scene.see(
        "of a symbolic link",
        link(scene, "to_dir", "to_dir_too"),
        "ok",
    );
    scene.see("it is one", kind(&scene.root, "to_dir_too"), "link");
    scene.see(
        "of a dangling one",
        link(scene, "dangling", "dangling_too"),
        "ok",
    );
    let across = scene
        .root
        .link_at(NO_FOLLOW, "other", &scene.second, "other");
    scene.see("in another preopen", across, "ok");
    scene.see("there", get(&scene.second, "other"), "other");
    Ok(())
}

pub fn refused(scene: &mut Scene) -> Answer<()> {
    for (old, new, expected) in [
        ("file", "other", "exist"),
        ("file", "dir", "exist"),
        ("file", "dangling", "exist"),
        ("file", "file", "exist"),
        ("file", ".", "exist"),
        ("file", "dir/", "exist"),
        ("dir", "new", "not-permitted"),
        ("dir/", "new", "not-permitted"),
        ("empty", "new", "not-permitted"),
        (".", "new", "not-permitted"),
        ("missing", "new", "no-entry"),
        ("missing", "other", "no-entry|exist"),
        ("file", "missing/new", "no-entry"),
        ("file", "other/new", "not-directory"),
        ("file/", "new", "not-directory"),
        ("to_dir/", "new", "not-permitted|not-directory"),
        ("file", "new/", "no-entry|not-directory"),
        ("file", "../new", "not-permitted"),
        ("file", "/new", "not-permitted"),
        ("../file", "new", "not-permitted"),
        ("/file", "new", "not-permitted"),
        ("", "new", "no-entry"),
        ("file", "", "no-entry"),
        ("loop/x", "new", "loop"),
    ] {
        let got = scene.root.link_at(NO_FOLLOW, old, &scene.root, new);
        scene.see(format!("link {old:?} as {new:?}"), got, expected);
    }
    let follow = scene.root.link_at(FOLLOW, "to_file", &scene.root, "new");
    scene.see("following", follow, "invalid");
    scene.see("nothing was made", kind(&scene.root, "new"), "no-entry");
    scene.see("nor changed", get(&scene.root, "other"), "other");
    Ok(())
}
