//! `open-at` with every combination of flags and file types.

use wasip2::filesystem::types::{DescriptorFlags, OpenFlags, PathFlags};

use crate::scene::{AS_IT_IS, Answer, BOTH, FOLLOW, NO_FOLLOW, READ, Scene, WRITE, get, kind, put};

fn table(
    scene: &mut Scene,
    at: PathFlags,
    how: OpenFlags,
    flags: DescriptorFlags,
    rows: &[(&str, &str)],
) {
    for (path, expected) in rows {
        let got = scene.root.open_at(at, path, how, flags);
        let long = path.len() > 40;
        let path = if long { "a long name" } else { path };
        scene.see(format!("open {path:?}"), got, expected);
    }
}

pub fn to_read(scene: &mut Scene) -> Answer<()> {
    let (name, path) = ("n".repeat(256), "p/".repeat(4000));
    let rows = [
        ("file", "ok"),
        ("file/", "not-directory"),
        ("file/x", "not-directory"),
        ("dir", "ok"),
        ("dir/", "ok"),
        ("dir/.", "ok"),
        (".", "ok"),
        ("dir/inner", "ok"),
        ("missing", "no-entry"),
        ("missing/", "no-entry"),
        ("missing/x", "no-entry"),
        ("to_file", "ok"),
        ("to_file/", "not-directory"),
        ("chain", "ok"),
        ("to_dir", "ok"),
        ("to_dir/", "ok"),
        ("to_dir/inner", "ok"),
        ("dangling", "no-entry"),
        ("dangling/", "no-entry"),
        ("loop", "loop"),
        ("ping", "loop"),
        ("loop/x", "loop"),
        ("", "no-entry"),
        ("/", "not-permitted"),
        ("/file", "not-permitted"),
        ("..", "not-permitted"),
        ("../file", "not-permitted"),
        ("dir/../..", "not-permitted"),
        ("dir/../file", "ok"),
        ("fi\0le", "invalid|illegal-byte-sequence"),
        (&name, "name-too-long"),
        (&path, "name-too-long"),
    ];
    table(scene, FOLLOW, AS_IT_IS, READ, &rows);
    Ok(())
}

pub fn without_following(scene: &mut Scene) -> Answer<()> {
    let rows = [
        ("file", "ok"),
        ("dir", "ok"),
        ("to_file", "loop"),
        ("to_dir", "loop"),
        ("chain", "loop"),
        ("dangling", "loop"),
        ("loop", "loop"),
        // A trailing slash requires the target of the link.
        ("to_file/", "not-directory"),
        ("to_dir/", "ok"),
        ("to_dir/inner", "ok"),
        ("to_dir/../to_file", "loop"),
    ];
    table(scene, NO_FOLLOW, AS_IT_IS, READ, &rows);
    Ok(())
}

pub fn as_directory(scene: &mut Scene) -> Answer<()> {
    let rows = [
        ("dir", "ok"),
        ("dir/", "ok"),
        (".", "ok"),
        ("to_dir", "ok"),
        ("file", "not-directory"),
        ("to_file", "not-directory"),
        ("missing", "no-entry"),
        ("dangling", "no-entry"),
        ("loop", "loop"),
    ];
    table(scene, FOLLOW, OpenFlags::DIRECTORY, READ, &rows);
    // Both `O_DIRECTORY` and `O_NOFOLLOW` determine the result.
    let rows = [("to_dir", "not-directory|loop"), ("dir", "ok")];
    table(scene, NO_FOLLOW, OpenFlags::DIRECTORY, READ, &rows);
    let made = OpenFlags::DIRECTORY | OpenFlags::CREATE;
    table(scene, FOLLOW, made, READ, &[("new", "invalid")]);
    let cut = OpenFlags::DIRECTORY | OpenFlags::TRUNCATE;
    let rows = [("dir", "invalid|is-directory")];
    table(scene, FOLLOW, cut, BOTH, &rows);
    scene.see("nothing was made", kind(&scene.root, "new"), "no-entry");
    Ok(())
}

pub fn to_create(scene: &mut Scene) -> Answer<()> {
    let rows = [
        ("file", "ok"),
        ("to_file", "ok"),
        ("new", "ok"),
        ("dir/new", "ok"),
        ("to_dir/newer", "ok"),
        ("dir", "is-directory"),
        ("to_dir", "is-directory"),
        (".", "is-directory"),
        ("slash/", "is-directory|no-entry|not-directory"),
        ("missing/x", "no-entry"),
        ("missing/.", "no-entry|is-directory"),
        ("file/x", "not-directory"),
        ("dangling", "ok"),
        ("loop", "loop"),
        ("../outside", "not-permitted"),
        ("/outside", "not-permitted"),
        ("", "no-entry"),
    ];
    table(scene, FOLLOW, OpenFlags::CREATE, BOTH, &rows);
    let rows = [("to_file", "loop"), ("loop", "loop"), ("newest", "ok")];
    table(scene, NO_FOLLOW, OpenFlags::CREATE, BOTH, &rows);
    scene.see("kept", get(&scene.root, "file"), "0123456789");
    scene.see("empty", get(&scene.root, "new"), "");
    // The target of a dangling link is created.
    scene.see("nowhere", kind(&scene.root, "nowhere"), "file");
    scene.see("still a link", kind(&scene.root, "dangling"), "link");
    for name in ["dir/new", "dir/newer"] {
        scene.see(name, kind(&scene.root, name), "file");
    }
    scene.see("slash", kind(&scene.root, "slash"), "no-entry");
    Ok(())
}

pub fn exclusively(scene: &mut Scene) -> Answer<()> {
    let rows = [
        ("file", "exist"),
        ("dir", "exist"),
        (".", "exist"),
        ("to_file", "exist"),
        ("to_dir", "exist"),
        // Exclusive creation never follows links.
        ("dangling", "exist"),
        ("loop", "exist"),
        ("new", "ok"),
        ("new", "exist"),
        ("missing/x", "no-entry"),
        ("..", "not-permitted"),
    ];
    let how = OpenFlags::CREATE | OpenFlags::EXCLUSIVE;
    table(scene, FOLLOW, how, BOTH, &rows);
    scene.see("kept", get(&scene.root, "file"), "0123456789");
    scene.see("nowhere", kind(&scene.root, "nowhere"), "no-entry");
    // The name is free again after its file is removed.
    scene.root.unlink_file_at("new")?;
    table(scene, FOLLOW, how, BOTH, &[("new", "ok")]);
    Ok(())
}

pub fn to_truncate(scene: &mut Scene) -> Answer<()> {
    let rows = [
        ("file", "ok"),
        ("dir", "is-directory"),
        ("to_dir", "is-directory"),
        ("missing", "no-entry"),
        ("dangling", "no-entry"),
        ("loop", "loop"),
        ("file/", "not-directory"),
    ];
    table(scene, FOLLOW, OpenFlags::TRUNCATE, WRITE, &rows);
    scene.see("cut", get(&scene.root, "file"), "");
    put(&scene.root, "file", b"again")?;
    table(
        scene,
        NO_FOLLOW,
        OpenFlags::TRUNCATE,
        WRITE,
        &[("to_file", "loop")],
    );
    scene.see("not through a link", get(&scene.root, "file"), "again");
    table(
        scene,
        FOLLOW,
        OpenFlags::TRUNCATE,
        WRITE,
        &[("chain", "ok")],
    );
    scene.see("through links", get(&scene.root, "file"), "");
    scene.see("still a link", kind(&scene.root, "chain"), "link");
    let how = OpenFlags::CREATE | OpenFlags::EXCLUSIVE | OpenFlags::TRUNCATE;
    table(scene, FOLLOW, how, WRITE, &[("other", "exist")]);
    scene.see("an exclusive no", get(&scene.root, "other"), "other");
    Ok(())
}

pub fn to_write(scene: &mut Scene) -> Answer<()> {
    let rows = [
        ("file", "ok"),
        ("to_file", "ok"),
        ("dir", "is-directory"),
        ("to_dir", "is-directory"),
        (".", "is-directory"),
        ("missing", "no-entry"),
        ("dangling", "no-entry"),
        ("file/", "not-directory"),
        ("loop", "loop"),
    ];
    table(scene, FOLLOW, AS_IT_IS, WRITE, &rows);
    table(scene, FOLLOW, AS_IT_IS, BOTH, &rows);
    let nothing = DescriptorFlags::empty();
    let rows = [("file", "ok"), ("dir", "ok"), ("missing", "no-entry")];
    table(scene, FOLLOW, AS_IT_IS, nothing, &rows);
    scene.see("nothing written", get(&scene.root, "file"), "0123456789");
    Ok(())
}
