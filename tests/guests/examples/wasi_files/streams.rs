//! Input and output streams of files.

use wasip2::filesystem::types::OpenFlags;
use wasip2::io::streams::{InputStream, StreamError};

use crate::scene::{AS_IT_IS, Answer, BOTH, Describe as _, READ, Scene, WRITE, get, open};

/// The complete content of a stream, and the result at its end.
fn drain(stream: &InputStream) -> String {
    let mut bytes = Vec::new();
    loop {
        match stream.blocking_read(3) {
            Ok(more) => bytes.extend(more),
            Err(StreamError::Closed) => return bytes.describe(),
            other => return other.describe(),
        }
    }
}

pub fn read(scene: &mut Scene) -> Answer<()> {
    let file = open(&scene.root, "file", AS_IT_IS, READ)?;
    for (offset, expected) in [(0, "0123456789"), (7, "789"), (10, ""), (20, "")] {
        let stream = file.read_via_stream(offset)?;
        scene.see(format!("from {offset}"), drain(&stream), expected);
        let again = stream.blocking_read(1);
        scene.see(format!("from {offset}, at the end"), again, "closed");
    }
    let (one, two) = (file.read_via_stream(0)?, file.read_via_stream(5)?);
    scene.see("one of two", one.blocking_read(3), "012");
    scene.see("two of two", two.blocking_read(3), "567");
    scene.see("one of two goes on", one.blocking_read(2), "34");
    scene.see("some are left out", one.blocking_skip(2), "2");
    scene.see("one of two ends", drain(&one), "789");
    let stream = file.read_via_stream(2)?;
    stream.subscribe().block();
    scene.see("when it is ready", stream.read(4), "2345");
    let none = stream.blocking_read(0);
    scene.see("nothing at all", none, "");
    // A stream reads the file as it is at that time.
    let writer = open(&scene.root, "other", AS_IT_IS, BOTH)?;
    let stream = writer.read_via_stream(3)?;
    writer.write(b"OTHERS", 0)?;
    scene.see("written meanwhile", drain(&stream), "ERS");
    Ok(())
}

pub fn write(scene: &mut Scene) -> Answer<()> {
    let file = open(&scene.root, "file", AS_IT_IS, BOTH)?;
    let stream = file.write_via_stream(2)?;
    let written = stream.blocking_write_and_flush(b"ab");
    scene.see("in the middle", written, "ok");
    scene.see("read back", get(&scene.root, "file"), "01ab456789");
    let written = stream.blocking_write_and_flush(b"cd");
    scene.see("it goes on", written, "ok");
    scene.see("read back again", get(&scene.root, "file"), "01abcd6789");
    let (one, two) = (file.write_via_stream(0)?, file.write_via_stream(8)?);
    one.blocking_write_and_flush(b"1").map_err(failed)?;
    two.blocking_write_and_flush(b"2345").map_err(failed)?;
    one.blocking_write_and_flush(b"1").map_err(failed)?;
    scene.see("two streams", get(&scene.root, "file"), "11abcd672345");
    let far = file.write_via_stream(15)?;
    far.blocking_write_and_flush(b"!").map_err(failed)?;
    scene.see(
        "after the end",
        get(&scene.root, "file"),
        "11abcd672345...!",
    );
    // By hand: check, write, flush, wait.
    let new = open(&scene.root, "new", OpenFlags::CREATE, WRITE)?;
    let stream = new.write_via_stream(0)?;
    stream.subscribe().block();
    let room = stream.check_write().map_err(failed)?;
    scene.see("there is room", room > 5, "true");
    scene.see("write", stream.write(b"hello"), "ok");
    scene.see("flush", stream.blocking_flush(), "ok");
    let zeros = stream.blocking_write_zeroes_and_flush(3);
    scene.see("zeros", zeros, "ok");
    scene.see("all of it", get(&scene.root, "new"), "hello...");
    let from = open(&scene.root, "other", AS_IT_IS, READ)?.read_via_stream(0)?;
    scene.see("from another file", stream.blocking_splice(&from, 5), "5");
    scene.see("flush that", stream.blocking_flush(), "ok");
    scene.see("with it", get(&scene.root, "new"), "hello...other");
    Ok(())
}

pub fn append(scene: &mut Scene) -> Answer<()> {
    let file = open(&scene.root, "file", AS_IT_IS, WRITE)?;
    let stream = file.append_via_stream()?;
    scene.see("append", stream.blocking_write_and_flush(b"a"), "ok");
    scene.see("at the end", get(&scene.root, "file"), "0123456789a");
    // Other writers may change the length: the end is determined at read time.
    let other = open(&scene.root, "file", AS_IT_IS, WRITE)?;
    let second = other.append_via_stream()?;
    second.blocking_write_and_flush(b"b").map_err(failed)?;
    stream.blocking_write_and_flush(b"c").map_err(failed)?;
    scene.see("two in turn", get(&scene.root, "file"), "0123456789abc");
    file.set_size(2)?;
    stream.blocking_write_and_flush(b"d").map_err(failed)?;
    scene.see("after a cut", get(&scene.root, "file"), "01d");
    file.write(b"X", 0)?;
    second.blocking_write_and_flush(b"e").map_err(failed)?;
    scene.see("after a write", get(&scene.root, "file"), "X1de");
    let new = open(&scene.root, "new", OpenFlags::CREATE, WRITE)?;
    let stream = new.append_via_stream()?;
    stream.blocking_write_and_flush(b"first").map_err(failed)?;
    scene.see("in a new file", get(&scene.root, "new"), "first");
    scene.see("nothing", stream.blocking_write_and_flush(b""), "ok");
    scene.see("as it was", get(&scene.root, "new"), "first");
    Ok(())
}

/// The refusal may come when the stream is created or first used.
pub fn without_rights(scene: &mut Scene) -> Answer<()> {
    let reader = open(&scene.root, "file", AS_IT_IS, READ)?;
    let writer = open(&scene.root, "other", AS_IT_IS, WRITE)?;
    let read = match writer.read_via_stream(0) {
        Ok(stream) => stream.blocking_read(1).describe(),
        Err(code) => code.name().to_owned(),
    };
    scene.see("read what is to be written", read, "bad-descriptor");
    let outputs = [
        ("write", reader.write_via_stream(0)),
        ("append to", reader.append_via_stream()),
    ];
    for (label, stream) in outputs {
        let written = match stream {
            Ok(stream) => stream.blocking_write_and_flush(b"x").describe(),
            Err(code) => code.name().to_owned(),
        };
        scene.see(
            format!("{label} what is to be read"),
            written,
            "bad-descriptor",
        );
    }
    scene.see("as it was", get(&scene.root, "file"), "0123456789");
    let far = writer.write_via_stream(u64::MAX).map(|_| ());
    scene.see("too far", far, "file-too-large");
    scene.see("the file is well", writer.write(b"O", 0), "1");
    Ok(())
}

/// A failure here ends the scenario.
fn failed(_: StreamError) -> wasip2::filesystem::types::ErrorCode {
    wasip2::filesystem::types::ErrorCode::Io
}
