//! The output of one program: the beginning in a file, and head and tail of each stream in memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::Stream;
use crate::head_tail::{CapturedOutput, HeadTail};
use crate::line_merger::LineMerger;

#[derive(Debug)]
pub struct Output {
    stdout: HeadTail,
    stderr: HeadTail,
    combined: HeadTail,
    lines: LineMerger,
    path: PathBuf,
    /// Created on the first write, or by [`Output::create_file`].
    file: Option<File>,
    /// Bytes in the file. Once it falls behind what was written, nothing more is appended.
    file_len: u64,
    max_file_len: u64,
}

/// A part of the combined output.
#[derive(Debug, PartialEq, Eq)]
pub struct OutputSlice {
    pub bytes: Vec<u8>,
    /// The position to read from next.
    pub next: u64,
    /// Bytes between the requested position and the first available byte.
    pub dropped: u64,
}

impl Output {
    pub fn new(path: PathBuf, keep_text: usize, keep_output: u64) -> Output {
        Output {
            stdout: HeadTail::new(keep_text),
            stderr: HeadTail::new(keep_text),
            combined: HeadTail::new(keep_text),
            lines: LineMerger::default(),
            path,
            file: None,
            file_len: 0,
            max_file_len: keep_output,
        }
    }

    pub fn push(&mut self, stream: Stream, bytes: &[u8]) {
        match stream {
            Stream::Stdout => self.stdout.push(bytes),
            Stream::Stderr => self.stderr.push(bytes),
        }
        self.combine(|lines, pass| lines.push(stream, bytes, pass));
    }

    /// Whether output waits for the end of a line of the other stream.
    pub fn is_waiting(&self) -> bool {
        self.lines.is_waiting()
    }

    /// Releases output that waits for the end of a line.
    pub fn release(&mut self) {
        self.combine(|lines, pass| lines.release(pass));
    }

    /// Marks a stream as closed.
    pub fn close(&mut self, stream: Stream) {
        self.combine(|lines, pass| lines.close(stream, pass));
    }

    fn combine(&mut self, act: impl FnOnce(&mut LineMerger, &mut dyn FnMut(&[u8]))) {
        let mut lines = std::mem::take(&mut self.lines);
        act(&mut lines, &mut |bytes| self.append(bytes));
        self.lines = lines;
    }

    fn append(&mut self, bytes: &[u8]) {
        // On a full disk the file is cut short, but the output in memory is still available.
        if self.file_len == self.combined.total() && self.append_to_file(bytes).is_err() {
            self.max_file_len = self.file_len;
        }
        self.combined.push(bytes);
    }

    fn append_to_file(&mut self, bytes: &[u8]) -> io::Result<()> {
        let room = usize::try_from(self.max_file_len - self.file_len).unwrap_or(usize::MAX);
        let bytes = &bytes[..bytes.len().min(room)];
        if bytes.is_empty() {
            return Ok(());
        }
        let at = self.file_len;
        self.open_file()?.write_all_at(bytes, at)?;
        self.file_len += bytes.len() as u64;
        Ok(())
    }

    fn open_file(&mut self) -> io::Result<&mut File> {
        match &mut self.file {
            Some(file) => Ok(file),
            none => Ok(none.insert(create(&self.path)?)),
        }
    }

    /// Creates the file before the first write, so that readers can be told its path.
    pub fn create_file(&mut self) {
        if self.max_file_len > 0 && self.written() == 0 {
            // Without a file, the output in memory is still available.
            let _ = self.open_file();
        }
    }

    /// Bytes of the combined output that can be read.
    pub fn total(&self) -> u64 {
        self.combined.total()
    }

    /// Bytes written in total.
    pub fn written(&self) -> u64 {
        self.stdout.total() + self.stderr.total()
    }

    pub fn path(&self) -> Option<&Path> {
        self.file.is_some().then_some(&*self.path)
    }

    pub fn read(&self, after: u64, max: usize) -> OutputSlice {
        let after = after.min(self.total());
        let mut start = after;
        let mut bytes = self.read_file(after, max).unwrap_or_default();
        if bytes.is_empty() {
            bytes = self.combined.slice(after, max);
        }
        if bytes.is_empty() {
            start = after.max(self.combined.tail_start());
            bytes = self.combined.slice(start, max);
        }
        OutputSlice {
            next: start + bytes.len() as u64,
            dropped: start - after,
            bytes,
        }
    }

    fn read_file(&self, after: u64, max: usize) -> io::Result<Vec<u8>> {
        let Some(file) = self.file.as_ref().filter(|_| after < self.file_len) else {
            return Ok(Vec::new());
        };
        let most = usize::try_from(self.file_len - after)
            .unwrap_or(usize::MAX)
            .min(max);
        let mut bytes = vec![0; most];
        file.read_exact_at(&mut bytes, after)?;
        Ok(bytes)
    }

    /// Standard output, standard error, and both combined.
    pub fn captured(&self) -> (CapturedOutput, CapturedOutput, CapturedOutput) {
        (
            self.stdout.captured(),
            self.stderr.captured(),
            self.combined.captured(),
        )
    }
}

/// Readable only by its owner, because output can contain secrets.
fn create(path: &Path) -> io::Result<File> {
    File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn part(bytes: &str, next: u64, dropped: u64) -> OutputSlice {
        let bytes = bytes.as_bytes().to_vec();
        OutputSlice {
            bytes,
            next,
            dropped,
        }
    }

    #[test]
    fn reading_reports_the_bytes_dropped_in_the_middle() {
        let dir = tempfile::tempdir().unwrap();
        let mut output = Output::new(dir.path().join("1"), 4, 6);
        assert_eq!(output.read(0, 100), part("", 0, 0));
        assert_eq!(output.path(), None);
        output.create_file();
        assert_eq!(output.path(), Some(&*dir.path().join("1")));
        output.push(Stream::Stdout, b"abcde");
        output.push(Stream::Stderr, b"fghij");
        assert!(output.is_waiting());
        output.release();
        output.push(Stream::Stdout, b"klmno");
        assert_eq!((output.total(), output.written()), (10, 15));
        output.close(Stream::Stderr);
        assert_eq!(output.read(0, 100), part("abcdef", 6, 0));
        assert_eq!(output.read(2, 2), part("cd", 4, 0));
        assert_eq!(output.read(6, 100), part("lmno", 15, 5));
        assert_eq!(output.read(15, 100), part("", 15, 0));
        assert_eq!(output.read(1000, 100), part("", 15, 0));
        assert_eq!(std::fs::read(dir.path().join("1")).unwrap(), b"abcdef");
        let mode = dir
            .path()
            .join("1")
            .metadata()
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let (stdout, stderr, combined) = output.captured();
        assert_eq!((stdout.total, stderr.total, combined.total), (10, 5, 15));
    }

    #[test]
    fn output_in_memory_is_readable_without_a_file() {
        let mut output = Output::new(PathBuf::from("/nowhere/at/all"), 4, 100);
        output.push(Stream::Stdout, b"abcdefghij");
        output.push(Stream::Stdout, b"k");
        assert_eq!(output.read(0, 100), part("abcd", 4, 0));
        assert_eq!(output.read(4, 100), part("hijk", 11, 3));
        assert_eq!(output.path(), None);
    }
}
