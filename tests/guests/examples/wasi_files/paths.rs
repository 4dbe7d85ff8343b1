//! Equivalent paths and unusual names.

use crate::scene::{AS_IT_IS, Answer, READ, Scene, get, kind, names, open, put};

pub fn interesting(scene: &mut Scene) -> Answer<()> {
    scene.root.create_directory_at("dir/nested")?;
    put(&scene.root, "dir/nested/file", b"x")?;
    for (path, expected) in [
        ("dir/nested/file", "ok"),
        ("dir/.//nested/file", "ok"),
        ("./dir/./nested/./file", "ok"),
        ("dir/nested/../../file", "ok"),
        ("dir/.//nested/../nested/file", "ok"),
        ("dir/nested/../../dir/nested/../nested///./file", "ok"),
        ("to_dir/nested/file", "ok"),
        ("to_dir/../file", "ok"),
        (".//.", "ok"),
        ("./", "ok"),
        ("dir/nested/", "ok"),
        ("dir/nested//", "ok"),
        ("dir/nested/..", "ok"),
        ("dir/nested/file/", "not-directory"),
        ("dir/nested/file/.", "not-directory"),
        ("dir/nested/file/..", "not-directory"),
        ("file/../dir", "not-directory"),
        ("missing/../file", "no-entry"),
        ("dangling/../file", "no-entry"),
        ("loop/../file", "loop"),
        ("/", "not-permitted"),
        ("//", "not-permitted"),
        ("/dir/nested/file", "not-permitted"),
        ("//dir/nested/file", "not-permitted"),
        ("/..", "not-permitted"),
        ("./..", "not-permitted"),
        ("dir/nested/../../../file", "not-permitted"),
        ("to_dir/../../file", "not-permitted"),
        ("file.", "no-entry"),
        ("file..", "no-entry"),
        ("...", "no-entry"),
        ("file ", "no-entry"),
        ("FILE", "no-entry"),
        ("dir\\inner", "no-entry"),
        ("dir/nested/file\0", "invalid|illegal-byte-sequence"),
        ("\0", "invalid|illegal-byte-sequence"),
        ("dir\0/nested/file", "invalid|illegal-byte-sequence"),
    ] {
        scene.see(
            format!("{path:?}"),
            open(&scene.root, path, AS_IT_IS, READ),
            expected,
        );
        let stat = scene.root.stat_at(crate::scene::FOLLOW, path);
        scene.see(format!("stat {path:?}"), stat.map(|_| ()), expected);
    }
    // A subdirectory cannot reach above the preopen either.
    let dir = open(&scene.root, "dir", AS_IT_IS, READ)?;
    for (path, expected) in [
        ("nested/file", "ok"),
        ("nested/../inner", "ok"),
        ("..", "not-permitted"),
        ("nested/../../file", "not-permitted"),
    ] {
        scene.see(
            format!("in dir {path:?}"),
            open(&dir, path, AS_IT_IS, READ),
            expected,
        );
    }
    Ok(())
}

pub fn unusual_names(scene: &mut Scene) -> Answer<()> {
    scene.root.create_directory_at("names")?;
    let long = "l".repeat(255);
    let all = [
        "...",
        "..x",
        "x..",
        ".hidden",
        " ",
        "a b",
        "a\\b",
        "a:b",
        "a\nb",
        "-rf",
        "*",
        "ünïcödé",
        "e\u{301}",
        "é",
        "😀",
        "File",
        "fILE",
        "con",
        &long,
    ];
    for name in all {
        let path = format!("names/{name}");
        scene.see(
            format!("make {:?}", short(name)),
            put(&scene.root, &path, name.as_bytes()),
            "ok",
        );
    }
    for name in all {
        let path = format!("names/{name}");
        scene.see(
            format!("read {:?}", short(name)),
            get(&scene.root, &path),
            name,
        );
    }
    let listed = names(&scene.root, "names")?;
    let count = open(&scene.root, "names", AS_IT_IS, READ)?;
    let stream = count.read_directory()?;
    let mut listed_count = 0;
    while stream.read_directory_entry()?.is_some() {
        listed_count += 1;
    }
    scene.see("all are listed", listed_count == all.len(), "true");
    let found = all.iter().all(|name| listed.contains(name));
    scene.see("as they were written", found, "true");
    scene.root.unlink_file_at("names/é")?;
    let other = kind(&scene.root, "names/e\u{301}");
    scene.see("the other form of it", other, "file");
    Ok(())
}

fn short(name: &str) -> &str {
    if name.len() > 40 { "a long name" } else { name }
}
