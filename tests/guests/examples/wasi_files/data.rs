//! Reading and writing at offsets, and file sizes.

use wasip2::filesystem::types::OpenFlags;

use crate::scene::{AS_IT_IS, Answer, BOTH, READ, Scene, WRITE, all, get, open};

pub fn read(scene: &mut Scene) -> Answer<()> {
    let file = open(&scene.root, "file", AS_IT_IS, READ)?;
    for (label, length, offset, expected) in [
        ("the start", 4, 0, "0123"),
        ("the middle", 4, 3, "3456"),
        // A short read is valid, so both results are accepted.
        ("more than is there", 100, 5, "56789|56789 (end)"),
        (
            "a length beyond all",
            u64::MAX,
            0,
            "0123456789|0123456789 (end)",
        ),
        ("the end", 4, 10, " (end)"),
        ("after the end", 4, 11, " (end)"),
        ("far after the end", 4, 1 << 40, " (end)"),
        ("nothing at the start", 0, 0, ""),
        ("nothing at the end", 0, 10, "| (end)"),
        (
            "an offset beyond all",
            4,
            u64::MAX,
            " (end)|invalid|overflow",
        ),
    ] {
        scene.see(label, file.read(length, offset), expected);
    }
    // Reads at offsets are independent of each other.
    scene.see("the start again", file.read(4, 0), "0123");
    Ok(())
}

pub fn write(scene: &mut Scene) -> Answer<()> {
    let file = open(&scene.root, "file", AS_IT_IS, BOTH)?;
    for (label, bytes, offset, written, expected) in [
        ("the start", "ab", 0, "2", "ab23456789"),
        ("the middle", "CD", 4, "2", "ab23CD6789"),
        ("over the end", "xyz", 9, "3", "ab23CD678xyz"),
        ("nothing", "", 3, "0", "ab23CD678xyz"),
        ("nothing after the end", "", 30, "0", "ab23CD678xyz"),
        ("after the end", "!", 15, "1", "ab23CD678xyz...!"),
    ] {
        scene.see(label, file.write(bytes.as_bytes(), offset), written);
        scene.see(format!("{label}, read back"), all(&file), expected);
    }
    for offset in [u64::MAX, 1 << 63] {
        let got = file.write(b"x", offset);
        scene.see(
            "an offset beyond all",
            got,
            "invalid|overflow|file-too-large",
        );
    }
    let other = get(&scene.root, "file");
    scene.see("by its name", other, "ab23CD678xyz...!");
    let new = open(&scene.root, "hole", OpenFlags::CREATE, BOTH)?;
    scene.see("far out in a new file", new.write(b"end", 10_000), "3");
    let bytes = all(&new)?;
    let zeros = bytes.len() == 10_003 && bytes[..10_000].iter().all(|byte| *byte == 0);
    scene.see("zeros before it", zeros, "true");
    let far = new.write(b"end", (1 << 30) + 1);
    scene.see("a gap of more than 1 GiB", far, "file-too-large");
    let far = new.write_via_stream((1 << 30) + 1).map(|_| ());
    scene.see("by a stream", far, "file-too-large");
    Ok(())
}

pub fn set_size(scene: &mut Scene) -> Answer<()> {
    let file = open(&scene.root, "file", AS_IT_IS, BOTH)?;
    for (size, expected) in [
        (10, "0123456789"),
        (4, "0123"),
        // Truncated data does not reappear.
        (8, "0123...."),
        (0, ""),
        (3, "..."),
    ] {
        scene.see(format!("size {size}"), file.set_size(size), "ok");
        scene.see(format!("size {size}, read"), all(&file), expected);
        scene.see(
            format!("size {size}, stat"),
            file.stat().map(|stat| stat.size),
            &size.to_string(),
        );
    }
    let much = file.set_size(u64::MAX);
    scene.see("a size beyond all", much, "file-too-large|invalid");
    scene.see("as it was", get(&scene.root, "file"), "...");
    let writer = open(&scene.root, "other", AS_IT_IS, WRITE)?;
    scene.see("without reading", writer.set_size(2), "ok");
    scene.see("cut", get(&scene.root, "other"), "ot");
    Ok(())
}

/// Two descriptors of one file, in either order.
pub fn seen_by_others(scene: &mut Scene) -> Answer<()> {
    let early = open(&scene.root, "file", AS_IT_IS, READ)?;
    let writer = open(&scene.root, "to_file", AS_IT_IS, BOTH)?;
    let late = open(&scene.root, "file", AS_IT_IS, READ)?;
    writer.write(b"new", 0)?;
    scene.see("the writer", all(&writer), "new3456789");
    scene.see("opened after it", all(&late), "new3456789");
    scene.see("opened before it", all(&early), "new3456789");
    let second = open(&scene.root, "file", AS_IT_IS, WRITE)?;
    second.write(b"!", 9)?;
    scene.see("another writer", all(&writer), "new345678!");
    writer.set_size(4)?;
    scene.see("a new size", late.stat().map(|stat| stat.size), "4");
    second.write(b"+", 6)?;
    scene.see("after the new size", all(&late), "new3..+");
    scene.see("by its name", get(&scene.root, "file"), "new3..+");
    Ok(())
}
