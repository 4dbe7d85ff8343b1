//! A network namespace for one program, whose only connection to the outside is the host's proxy.
//!
//! Landlock rules name ports and not addresses, so a program that may connect to the port of a local proxy could connect
//! to the same port of any machine. In a separate namespace a program can connect only to listeners in this namespace, and
//! the host holds the only one.

use std::fs;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd as _, BorrowedFd};

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketType,
    recv, send, sendmsg, socket,
};

/// The port of the proxy inside the namespace, where nothing else listens yet.
pub const PROXY_PORT: u16 = 3128;

/// Moves this process to a new network namespace and sends a listener in it to the host.
pub fn enter_private_network(host: BorrowedFd<'_>) -> Result<(), String> {
    unshare_network().map_err(|error| {
        format!(
            "this system does not allow a network namespace, which access by host needs: {error}; allow unprivileged \
             user namespaces, or set `network = true` in the sandbox of the server, which allows all hosts"
        )
    })?;
    let listening = enable_loopback()
        .and_then(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, PROXY_PORT)))
        .and_then(|listener| send_listener(host, &listener));
    listening.map_err(|error| format!("cannot prepare the network of the program: {error}"))
}

/// Without `CAP_SYS_ADMIN`, a user namespace gives the right to create the network namespace. In it the user keeps its
/// own number; files of other users appear as those of the overflow user.
fn unshare_network() -> io::Result<()> {
    match unshare(CloneFlags::CLONE_NEWNET) {
        Err(Errno::EPERM) => {}
        other => return Ok(other?),
    }
    let user = rustix::process::geteuid().as_raw();
    let group = rustix::process::getegid().as_raw();
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET)?;
    // Required before an unprivileged process may map its group.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// Sets the loopback interface, the only one of a new namespace, to "up": rtnetlink(7), `RTM_NEWLINK`.
fn enable_loopback() -> io::Result<()> {
    const LENGTH: u32 = 32;
    const REQUEST_AND_ACK: u16 = 5;
    const LOOPBACK_INDEX: i32 = 1;
    let up = libc::IFF_UP.cast_unsigned();
    let mut message = Vec::new();
    message.extend(LENGTH.to_ne_bytes());
    message.extend(libc::RTM_NEWLINK.to_ne_bytes());
    message.extend(REQUEST_AND_ACK.to_ne_bytes());
    // Sequence number and sender, then family and type of the interface.
    message.extend([0; 12]);
    message.extend(LOOPBACK_INDEX.to_ne_bytes());
    // The flags, and which of them to change.
    message.extend(up.to_ne_bytes());
    message.extend(up.to_ne_bytes());
    // Protocol 0 is rtnetlink.
    let kernel = socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    send(&kernel, &message, SendFlags::empty())?;
    let mut answer = [0; 64];
    let (length, _) = recv(&kernel, &mut answer[..], RecvFlags::empty())?;
    // After the header of 16 bytes: zero, or the negated error number.
    let code = answer[..length]
        .get(16..20)
        .and_then(|code| code.try_into().ok());
    match code.map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(-code)),
        None => Err(io::Error::other("the kernel sent an incomplete answer")),
    }
}

fn send_listener(host: BorrowedFd<'_>, listener: &TcpListener) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [listener.as_fd()];
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other("no space for a descriptor"));
    }
    sendmsg(
        host,
        &[IoSlice::new(b"L")],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}
