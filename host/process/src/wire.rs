//! The protocol between host, warden and launcher: descriptors first, then JSON frames with a length prefix, over a
//! socket that is the peer's standard input.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::ProcessLimits;

/// Maximum size of a frame in bytes; far above what [`crate::Command::check`] and the environment allow.
const MAX_FRAME: usize = 8 << 20;
/// Maximum number of descriptors in one message; the kernel allows 253.
const MAX_DESCRIPTORS_PER_MESSAGE: usize = 64;
/// Maximum number of granted files and directories of one program.
pub const MAX_DESCRIPTORS: usize = 1000;

/// Everything needed to start a program, except its [`Descriptors`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchRequest {
    pub program: PathBuf,
    /// The program's `argv[0]`.
    pub name: String,
    pub arguments: Vec<String>,
    pub variables: Vec<(String, String)>,
    pub limits: ProcessLimits,
    pub tty: bool,
    /// `None` starts the program unconfined.
    pub sandbox_rules: Option<SandboxRules>,
    pub sockets: LaunchSockets,
    /// How the warden starts the launcher: the hidden arguments of the executable.
    pub launcher: Vec<String>,
}

/// Sockets to the host, as indexes into [`Descriptors::held`].
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchSockets {
    /// Gets the listener of the host's proxy. The program then has a network in which it reaches only that.
    pub proxy: Option<usize>,
    /// Gets the accesses that the sandbox refuses.
    pub record: Option<usize>,
}

/// The complete sandbox rules of one program.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxRules {
    pub rules: Vec<SandboxRule>,
    pub network: bool,
    pub local_sockets: bool,
}

/// What a program may do with one file, or with a directory and everything below it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxRule {
    pub place: RulePath,
    pub rights: AccessRights,
    /// Excluded paths, relative to `place`.
    pub except: Vec<PathBuf>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RulePath {
    /// A system path, which no confined program can change.
    Path(PathBuf),
    /// An index into [`Descriptors::held`].
    Held(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessRights {
    /// Read, list and execute.
    Read,
    /// Read, list, execute and change.
    Write,
    /// List names without contents.
    List,
    /// Read and write, but not create or remove.
    Device,
}

/// What is passed as descriptors, so that no path is resolved twice.
#[derive(Debug)]
pub struct Descriptors<Fd = OwnedFd> {
    pub stdin: Fd,
    /// The working directory.
    pub cwd: Fd,
    /// The granted files and directories.
    pub held: Vec<Fd>,
}

impl<Fd: AsFd> Descriptors<Fd> {
    pub fn borrowed(&self) -> Descriptors<BorrowedFd<'_>> {
        Descriptors {
            stdin: self.stdin.as_fd(),
            cwd: self.cwd.as_fd(),
            held: self.held.iter().map(AsFd::as_fd).collect(),
        }
    }
}

/// A command from the host to the warden, after the launch request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub enum WardenCommand {
    /// Sends this signal to all processes of the program that are still running.
    Signal(i32),
    /// Kills repeatedly until no process is left.
    Kill,
}

/// A report from the warden to the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub enum WardenReport {
    Started {
        pid: i32,
    },
    Failed(LaunchFailure),
    /// The program itself ended; processes it started can still run.
    Ended {
        code: Option<i32>,
        signal: Option<i32>,
        left: Vec<i32>,
    },
    /// The process limit was exceeded; all processes are killed.
    Crowded,
    /// No process is left.
    Gone,
}

/// Why a launcher could not execute the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchFailure {
    pub stage: LaunchStage,
    pub reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LaunchStage {
    Launch,
    Directory,
    Confine,
    Start,
}

impl LaunchStage {
    /// Returns a function for `map_err` that turns an error into a failure of this stage.
    pub fn failure<E: std::fmt::Display>(self, context: &str) -> impl FnOnce(E) -> LaunchFailure {
        move |error| LaunchFailure {
            stage: self,
            reason: format!("{context}: {error}"),
        }
    }
}

pub fn encode_frame(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, value)?;
    let size = bytes.len() - 4;
    let length = u32::try_from(size).ok().filter(|_| size <= MAX_FRAME);
    let length = length
        .ok_or_else(|| io::Error::other(format!("a message of {size} bytes is too large")))?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    Ok(bytes)
}

/// Removes the first complete frame from `bytes` and returns it.
pub fn take_frame<T: DeserializeOwned>(bytes: &mut Vec<u8>) -> io::Result<Option<T>> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let length = frame_length(*length)?;
    let Some(body) = rest.get(..length) else {
        return Ok(None);
    };
    let value = serde_json::from_slice(body)?;
    bytes.drain(..4 + length);
    Ok(Some(value))
}

fn frame_length(length: [u8; 4]) -> io::Result<usize> {
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_FRAME {
        return Err(io::Error::other(format!(
            "a message of {length} bytes is too large"
        )));
    }
    Ok(length)
}

pub fn write_frame(mut socket: &UnixStream, value: &impl Serialize) -> io::Result<()> {
    socket.write_all(&encode_frame(value)?)
}

/// Returns `None` at the end of the stream: the peer is gone.
pub fn read_frame<T: DeserializeOwned>(mut socket: &UnixStream) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match socket.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let mut body = vec![0; frame_length(length)?];
    socket.read_exact(&mut body)?;
    Ok(Some(serde_json::from_slice(&body)?))
}

/// Descriptors are sent with one byte of data per message, which states whether another message follows.
pub fn send_descriptors(
    socket: &UnixStream,
    descriptors: &Descriptors<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut all = vec![descriptors.stdin, descriptors.cwd];
    all.extend_from_slice(&descriptors.held);
    let mut messages = all.chunks(MAX_DESCRIPTORS_PER_MESSAGE).peekable();
    while let Some(message) = messages.next() {
        let mut space =
            [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS_PER_MESSAGE))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(message)) {
            return Err(io::Error::other("no space for descriptors"));
        }
        let more = [u8::from(messages.peek().is_some())];
        sendmsg(
            socket,
            &[IoSlice::new(&more)],
            &mut control,
            SendFlags::NOSIGNAL,
        )?;
    }
    Ok(())
}

pub fn receive_descriptors(socket: &UnixStream) -> io::Result<Descriptors> {
    let mut all: Vec<OwnedFd> = Vec::new();
    let mut more = [1];
    while more[0] == 1 && all.len() <= MAX_DESCRIPTORS {
        more[0] = 0;
        let mut space =
            [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS_PER_MESSAGE))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        // Close-on-exec from the start, so that the program inherits only its standard descriptors.
        recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut more)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        )?;
        all.extend(control.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect(),
            _ => Vec::new(),
        }));
    }
    let mut all = all.into_iter();
    match (all.next(), all.next()) {
        (Some(stdin), Some(cwd)) => Ok(Descriptors {
            stdin,
            cwd,
            held: all.collect(),
        }),
        _ => Err(io::Error::other("fewer than two descriptors were received")),
    }
}

/// Takes the socket on standard input and replaces it with `/dev/null`. All other inherited descriptors become
/// close-on-exec, so that the program does not inherit descriptors that the host inherited.
pub fn socket_from_stdin() -> io::Result<UnixStream> {
    close_fds::set_fds_cloexec(3, &[]);
    let stdin = io::stdin();
    let socket = rustix::io::fcntl_dupfd_cloexec(stdin.as_fd(), 3)?;
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    Ok(UnixStream::from(socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_descriptors_round_trip() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (read, write) = rustix::pipe::pipe().unwrap();
        let dir = std::fs::File::open("/").unwrap();
        let sent = Descriptors {
            stdin: read.as_fd(),
            cwd: dir.as_fd(),
            held: vec![dir.as_fd(); MAX_DESCRIPTORS_PER_MESSAGE * 2],
        };
        send_descriptors(&ours, &sent).unwrap();
        write_frame(&ours, &WardenCommand::Signal(15)).unwrap();
        write_frame(&ours, &WardenCommand::Kill).unwrap();
        drop(ours);

        let came = receive_descriptors(&theirs).unwrap();
        let Descriptors {
            stdin: read,
            cwd: dir,
            held,
        } = came;
        assert_eq!(held.len(), MAX_DESCRIPTORS_PER_MESSAGE * 2);
        for dir in held {
            assert!(std::fs::File::from(dir).metadata().unwrap().is_dir());
        }
        rustix::io::write(&write, b"x").unwrap();
        let mut byte = [0];
        assert_eq!(rustix::io::read(&read, &mut byte).unwrap(), 1);
        assert!(std::fs::File::from(dir).metadata().unwrap().is_dir());
        assert_eq!(
            read_frame(&theirs).unwrap(),
            Some(WardenCommand::Signal(15))
        );
        assert_eq!(read_frame(&theirs).unwrap(), Some(WardenCommand::Kill));
        assert_eq!(read_frame::<WardenCommand>(&theirs).unwrap(), None);
    }

    #[test]
    fn a_frame_is_taken_when_it_is_complete() {
        let whole = encode_frame(&WardenReport::Started { pid: 7 }).unwrap();
        let mut bytes = Vec::new();
        for (count, byte) in whole.iter().enumerate() {
            assert_eq!(
                take_frame::<WardenReport>(&mut bytes).unwrap(),
                None,
                "{count} bytes"
            );
            bytes.push(*byte);
        }
        bytes.extend(encode_frame(&WardenReport::Gone).unwrap());
        assert_eq!(
            take_frame(&mut bytes).unwrap(),
            Some(WardenReport::Started { pid: 7 })
        );
        assert_eq!(take_frame(&mut bytes).unwrap(), Some(WardenReport::Gone));
        assert!(bytes.is_empty());
    }

    #[test]
    fn a_message_of_the_wrong_kind_or_size_is_an_error() {
        let mut huge = u32::MAX.to_le_bytes().to_vec();
        assert!(take_frame::<WardenReport>(&mut huge).is_err());
        let mut other = encode_frame(&"hello").unwrap();
        assert!(take_frame::<WardenReport>(&mut other).is_err());
    }
}
