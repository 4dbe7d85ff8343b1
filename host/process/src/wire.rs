//! What host, warden and launcher say to each other: descriptors first, then frames of JSON with their length before
//! them, over a socket that is the other side's standard input.

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

use crate::Limits;

/// Far above what [`crate::Command::check`] and the environment let through.
const MAX_FRAME: usize = 8 << 20;

/// All that a program needs to be started, beside its descriptors: standard input and the working directory.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Orders {
    pub program: PathBuf,
    /// What the program sees as its own name.
    pub name: String,
    pub arguments: Vec<String>,
    pub variables: Vec<(String, String)>,
    pub limits: Limits,
    pub tty: bool,
    /// None starts it unconfined.
    pub fence: Option<Walls>,
    /// How the warden starts the launcher: the hidden arguments of this program.
    pub launcher: Vec<String>,
}

/// A fence with everything the host adds to it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Walls {
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    /// Listed, with all below: names without contents.
    pub list: Vec<PathBuf>,
    /// Written to but not created or removed: devices.
    pub devices: Vec<PathBuf>,
    pub network: bool,
    pub local_sockets: bool,
}

/// From the host to the warden, after the orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub enum Demand {
    /// To everything the program started and is still there.
    Signal(i32),
    /// Until nothing is left.
    Kill,
}

/// From the warden to the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub enum Report {
    Started {
        pid: i32,
    },
    Failed(Failure),
    /// The program itself ended; what it started may live on.
    Ended {
        code: Option<i32>,
        signal: Option<i32>,
        left: Vec<i32>,
    },
    /// There were too many processes; all are killed.
    Crowded,
    /// Nothing is left.
    Gone,
}

/// Why a launcher did not become the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    pub stage: Stage,
    pub reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    Launch,
    Directory,
    Confine,
    Start,
}

impl Stage {
    /// The form a failed step of this stage takes in `map_err`.
    pub fn failure<E: std::fmt::Display>(self, what: &str) -> impl FnOnce(E) -> Failure {
        move |error| Failure {
            stage: self,
            reason: format!("{what}: {error}"),
        }
    }
}

pub fn frame(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, value)?;
    let size = bytes.len() - 4;
    let length = u32::try_from(size).ok().filter(|_| size <= MAX_FRAME);
    let length = length
        .ok_or_else(|| io::Error::other(format!("a message of {size} bytes is too large")))?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    Ok(bytes)
}

/// The first whole frame of `bytes`, which is taken out of it.
pub fn take_frame<T: DeserializeOwned>(bytes: &mut Vec<u8>) -> io::Result<Option<T>> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let length = bounded(*length)?;
    let Some(body) = rest.get(..length) else {
        return Ok(None);
    };
    let value = serde_json::from_slice(body)?;
    bytes.drain(..4 + length);
    Ok(Some(value))
}

fn bounded(length: [u8; 4]) -> io::Result<usize> {
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_FRAME {
        return Err(io::Error::other(format!(
            "a message of {length} bytes is too large"
        )));
    }
    Ok(length)
}

pub fn write_frame(mut socket: &UnixStream, value: &impl Serialize) -> io::Result<()> {
    socket.write_all(&frame(value)?)
}

/// None at the end of the stream: the other side is gone.
pub fn read_frame<T: DeserializeOwned>(mut socket: &UnixStream) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match socket.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let mut body = vec![0; bounded(length)?];
    socket.read_exact(&mut body)?;
    Ok(Some(serde_json::from_slice(&body)?))
}

/// Hands over standard input and the working directory.
pub fn send_descriptors(socket: &UnixStream, descriptors: [BorrowedFd<'_>; 2]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other("no room for two descriptors"));
    }
    // Descriptors travel with data: one byte.
    sendmsg(
        socket,
        &[IoSlice::new(b"d")],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

pub fn receive_descriptors(socket: &UnixStream) -> io::Result<[OwnedFd; 2]> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    // Close-on-exec from the start, so that the program gets its standard descriptors and no other.
    recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut byte)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let descriptors: Vec<OwnedFd> = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .collect();
    <[OwnedFd; 2]>::try_from(descriptors).map_err(|others| {
        io::Error::other(format!("{} descriptors came instead of two", others.len()))
    })
}

/// Takes standard input as the socket it is and leaves `/dev/null` in its place. Whatever else this process got
/// from the host, and the host perhaps from a careless terminal, ends with it and is not inherited further.
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
    fn frames_and_descriptors_arrive_as_they_were_sent() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (read, write) = rustix::pipe::pipe().unwrap();
        let dir = std::fs::File::open("/").unwrap();
        send_descriptors(&ours, [read.as_fd(), dir.as_fd()]).unwrap();
        write_frame(&ours, &Demand::Signal(15)).unwrap();
        write_frame(&ours, &Demand::Kill).unwrap();
        drop(ours);

        let [read, dir] = receive_descriptors(&theirs).unwrap();
        rustix::io::write(&write, b"x").unwrap();
        let mut byte = [0];
        assert_eq!(rustix::io::read(&read, &mut byte).unwrap(), 1);
        assert!(std::fs::File::from(dir).metadata().unwrap().is_dir());
        assert_eq!(read_frame(&theirs).unwrap(), Some(Demand::Signal(15)));
        assert_eq!(read_frame(&theirs).unwrap(), Some(Demand::Kill));
        assert_eq!(read_frame::<Demand>(&theirs).unwrap(), None);
    }

    #[test]
    fn a_frame_is_taken_when_it_is_whole() {
        let whole = frame(&Report::Started { pid: 7 }).unwrap();
        let mut bytes = Vec::new();
        for (count, byte) in whole.iter().enumerate() {
            assert_eq!(
                take_frame::<Report>(&mut bytes).unwrap(),
                None,
                "{count} bytes"
            );
            bytes.push(*byte);
        }
        bytes.extend(frame(&Report::Gone).unwrap());
        assert_eq!(
            take_frame(&mut bytes).unwrap(),
            Some(Report::Started { pid: 7 })
        );
        assert_eq!(take_frame(&mut bytes).unwrap(), Some(Report::Gone));
        assert!(bytes.is_empty());
    }

    #[test]
    fn a_message_of_the_wrong_kind_or_size_is_an_error() {
        let mut huge = u32::MAX.to_le_bytes().to_vec();
        assert!(take_frame::<Report>(&mut huge).is_err());
        let mut other = frame(&"hello").unwrap();
        assert!(take_frame::<Report>(&mut other).is_err());
    }
}
