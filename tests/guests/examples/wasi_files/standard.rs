//! File access by Rust's standard library, which uses the C library.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use wasip2::filesystem::types::ErrorCode;

use crate::scene::{Answer, Scene};

/// Rust's library for this target has no names for some errors of the C library.
const NOT_EMPTY: &str = "DirectoryNotEmpty|Uncategorized";

/// An unexpected failure ends the scenario with a line that describes it.
fn run(scene: &mut Scene, steps: fn(&mut Scene) -> io::Result<()>) -> Answer<()> {
    steps(scene).map_err(|error| {
        scene.lines.push(format!("wrong: {error}"));
        ErrorCode::Io
    })
}

pub fn files(scene: &mut Scene) -> Answer<()> {
    run(scene, |scene| {
        scene.see("read", fs::read("file"), "0123456789");
        scene.see("from the root", fs::read("/workspace/file"), "0123456789");
        scene.see("elsewhere", fs::read("/extra/2/kept"), "kept");
        scene.see("write", fs::write("new", "first\nsecond\n"), "ok");
        let lines = BufReader::new(File::open("new")?).lines().count();
        scene.see("lines", lines == 2, "true");
        let mut end = OpenOptions::new().append(true).open("new")?;
        end.write_all(b"third\n")?;
        end.write_all(b"fourth\n")?;
        end.flush()?;
        let text = fs::read_to_string("new")?;
        scene.see(
            "appended",
            text.replace('\n', " "),
            "first second third fourth ",
        );
        scene.see("made anew", File::create_new("new"), "AlreadyExists");
        scene.see("made new", File::create_new("newer"), "ok");
        scene.see("copied", fs::copy("file", "copy"), "10");
        scene.see("the copy", fs::read("copy"), "0123456789");
        scene.see("copied over", fs::copy("other", "copy"), "5");
        scene.see("no more than it", fs::read("copy"), "other");
        scene.see("renamed", fs::rename("copy", "dir/copy"), "ok");
        scene.see("linked", fs::hard_link("dir/copy", "hard"), "ok");
        scene.see("removed", fs::remove_file("dir/copy"), "ok");
        scene.see("the other name", fs::read("hard"), "other");
        scene.see(
            "cut",
            File::options().write(true).open("hard")?.set_len(2),
            "ok",
        );
        scene.see("is cut", fs::read("hard"), "ot");
        scene.see("missing", File::open("missing"), "NotFound");
        scene.see("a directory", fs::write("dir", ""), "IsADirectory");
        scene.see("below a file", File::open("file/x"), "NotADirectory");
        scene.see("exists", fs::exists("to_file"), "true");
        scene.see("does not", fs::exists("dangling"), "false");
        let meta = fs::metadata("to_file")?;
        scene.see("its length", meta.len(), "10");
        scene.see("it is a file", meta.is_file(), "true");
        let link = fs::symlink_metadata("to_file")?;
        scene.see("it is a link", link.is_symlink(), "true");
        let text = fs::read_link("to_file")?;
        scene.see("its text", text == Path::new("file"), "true");
        let then = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 5_000);
        let file = File::options().write(true).open("new")?;
        scene.see("set its time", file.set_modified(then), "ok");
        scene.see("its time", file.metadata()?.modified()? == then, "true");
        scene.see(
            "read only",
            fs::write("/extra/2/kept", "x"),
            "PermissionDenied|ReadOnlyFilesystem",
        );
        scene.see(
            "outside",
            fs::read("../secret"),
            "PermissionDenied|NotFound",
        );
        Ok(())
    })
}

pub fn seeks(scene: &mut Scene) -> Answer<()> {
    run(scene, |scene| {
        let mut file = File::options().read(true).write(true).open("file")?;
        let mut four = [0; 4];
        file.read_exact(&mut four)?;
        scene.see("where it is", file.stream_position(), "4");
        scene.see("from the start", file.seek(SeekFrom::Start(2)), "2");
        file.read_exact(&mut four)?;
        scene.see("read there", four.to_vec(), "2345");
        scene.see("from here", file.seek(SeekFrom::Current(-3)), "3");
        scene.see("from the end", file.seek(SeekFrom::End(-2)), "8");
        let mut rest = Vec::new();
        file.read_to_end(&mut rest)?;
        scene.see("to the end", rest, "89");
        scene.see(
            "before the start",
            file.seek(SeekFrom::Current(-20)),
            "InvalidInput",
        );
        scene.see("it did not move", file.stream_position(), "10");
        scene.see("after the end", file.seek(SeekFrom::End(3)), "13");
        scene.see("nothing there", file.read(&mut four).map(|n| n as u64), "0");
        file.write_all(b"!")?;
        scene.see("a hole", fs::read("file"), "0123456789...!");
        file.seek(SeekFrom::Start(0))?;
        file.write_all(b"ab")?;
        file.rewind()?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        scene.see(
            "written and read",
            text.replace('\0', "."),
            "ab23456789...!",
        );
        // Appending ignores the position.
        let mut end = OpenOptions::new().append(true).open("other")?;
        end.seek(SeekFrom::Start(0))?;
        end.write_all(b"+")?;
        scene.see("appended all the same", fs::read("other"), "other+");
        let mut long = File::create("long")?;
        for number in 0..20_000_u32 {
            long.write_all(&number.to_le_bytes())?;
        }
        let bytes = fs::read("long")?;
        let good = bytes
            .chunks_exact(4)
            .zip(0_u32..)
            .all(|(four, number)| four == number.to_le_bytes());
        scene.see("many small writes", good && bytes.len() == 80_000, "true");
        Ok(())
    })
}

pub fn directories(scene: &mut Scene) -> Answer<()> {
    run(scene, |scene| {
        scene.see("all the way", fs::create_dir_all("a/b/c/d"), "ok");
        scene.see("again", fs::create_dir_all("a/b/c/d"), "ok");
        scene.see(
            "not over a file",
            fs::create_dir_all("file/x"),
            "NotADirectory",
        );
        scene.see("exists", fs::create_dir("a"), "AlreadyExists");
        for number in 0..20 {
            fs::write(format!("a/b/{number}"), [0; 100])?;
        }
        let mut files = 0;
        let mut folders = 0;
        for entry in fs::read_dir("a/b")? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders += 1;
            } else if entry.metadata()?.len() == 100 {
                files += 1;
            }
        }
        scene.see("files", files == 20, "true");
        scene.see("folders", folders == 1, "true");
        scene.see("not empty", fs::remove_dir("a/b"), NOT_EMPTY);
        scene.see("move it", fs::rename("a/b", "b"), "ok");
        scene.see("its files", fs::exists("b/19"), "true");
        scene.see("remove one", fs::remove_dir("b/c/d"), "ok");
        scene.see("remove all", fs::remove_dir_all("b"), "ok");
        scene.see("it is gone", fs::exists("b"), "false");
        scene.see("what was there, too", fs::remove_dir_all("dir"), "ok");
        scene.see("it is gone, too", fs::exists("dir"), "false");
        scene.see(
            "a link is no directory",
            fs::remove_dir("to_file"),
            "NotADirectory",
        );
        scene.see(
            "list a file",
            fs::read_dir("file").map(|_| ()),
            "NotADirectory",
        );
        scene.see(
            "list nothing",
            fs::read_dir("missing").map(|_| ()),
            "NotFound",
        );
        let names = fs::read_dir("/extra/1")?.count();
        scene.see("another preopen", names == 2, "true");
        Ok(())
    })
}
