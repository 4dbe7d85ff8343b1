//! Sockets: none by default, internet sockets if granted, local sockets only with a separate grant.
//!
//! The confined program is this test binary again, which makes one attempt and prints its result.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixStream};

use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    connect, netlink, recv, sendto, socket, socketpair,
};
use toolhost_process::{Command, SandboxPermissions};

use crate::fixture::{Host, LONG, open, text};

const VARIABLE: &str = "TOOLHOST_TEST_PROBE";

#[test]
fn probe() {
    let Ok(wanted) = std::env::var(VARIABLE) else {
        return;
    };
    let outcome = match wanted.split_once(' ').unwrap_or((&wanted, "")) {
        ("connect", address) => TcpStream::connect(address).map(drop),
        ("listen", _) => TcpListener::bind("127.0.0.1:0").map(drop),
        ("udp", _) => UdpSocket::bind("127.0.0.1:0").map(drop),
        ("local", _) => UnixDatagram::unbound().map(drop),
        ("pair", _) => UnixStream::pair().map(drop),
        ("datagrams", path) => {
            UnixDatagram::pair().and_then(|(one, _other)| one.send_to(b"out", path).map(drop))
        }
        ("queue", path) => connected(path),
        ("route", _) => raw(AddressFamily::NETLINK, None),
        ("audit", _) => raw(AddressFamily::NETLINK, Some(netlink::AUDIT)),
        ("packet", _) => raw(AddressFamily::PACKET, None),
        ("vsock", _) => raw(AddressFamily::from_raw(40), None),
        _ => panic!("{wanted:?}"),
    };
    match outcome {
        Ok(()) => println!("probe: done"),
        Err(error) => println!("probe: {:?}", error.kind()),
    }
}

fn raw(family: AddressFamily, protocol: Option<Protocol>) -> std::io::Result<()> {
    Ok(socket(family, SocketType::RAW, protocol).map(drop)?)
}

/// A sequenced-packet pair behaves like a stream pair: it stays connected to its other end.
fn connected(path: &str) -> std::io::Result<()> {
    let (one, other) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let address = SocketAddrUnix::new(path)?;
    assert!(connect(&one, &address).is_err(), "it is connected already");
    let _ = sendto(&one, b"in", SendFlags::empty(), &address);
    let mut bytes = [0; 3];
    drop(one);
    let (count, _) = recv(&other, &mut bytes, RecvFlags::empty())?;
    assert!(count == 2 || count == 0, "{count} bytes");
    Ok(())
}

async fn check(host: &Host, fence: &SandboxPermissions, probe: &str, expected: &str) {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(
        program.to_str().unwrap(),
        &["--exact", "network::probe", "--nocapture"],
        open(&host.ws()),
    );
    command.sandbox = fence.clone();
    command.sandbox.write.push(open(&host.ws()));
    command.env.push((VARIABLE.to_owned(), probe.to_owned()));
    command.timeout = Some(LONG);
    let text = text(&host.run(command).await);
    let found = text
        .lines()
        .find_map(|line| line.split_once("probe: "))
        .map(|(_, found)| found);
    assert_eq!(found, Some(expected), "{probe} {fence:?}: {text}");
}

#[tokio::test]
async fn there_is_no_network_unless_it_is_granted() {
    let host = Host::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = format!("connect {}", listener.local_addr().unwrap());
    let off = SandboxPermissions::default();
    for probe in [
        &connect, "listen", "udp", "local", "route", "audit", "packet", "vsock",
    ] {
        check(&host, &off, probe, "PermissionDenied").await;
    }
    check(&host, &off, "pair", "done").await;

    let on = SandboxPermissions {
        network: true,
        ..SandboxPermissions::default()
    };
    for probe in [&connect, "listen", "udp", "pair", "route"] {
        check(&host, &on, probe, "done").await;
    }
    for probe in ["local", "audit", "packet", "vsock"] {
        check(&host, &on, probe, "PermissionDenied").await;
    }
}

#[tokio::test]
async fn local_sockets_need_a_separate_grant() {
    let host = Host::new();
    let local = SandboxPermissions {
        local_sockets: true,
        ..SandboxPermissions::default()
    };
    check(&host, &local, "local", "done").await;
    check(&host, &local, "listen", "PermissionDenied").await;
    let both = SandboxPermissions {
        network: true,
        ..local
    };
    check(&host, &both, "local", "done").await;
    check(&host, &both, "listen", "done").await;
}

#[tokio::test]
async fn a_08_a_socket_pair_reaches_no_socket_outside() {
    let host = Host::new();
    let path = host.ws().with_file_name("listener");
    let listener = UnixDatagram::bind(&path).unwrap();
    listener.set_nonblocking(true).unwrap();
    for network in [false, true] {
        let fence = SandboxPermissions {
            network,
            ..SandboxPermissions::default()
        };
        let probe = format!("datagrams {}", path.display());
        check(&host, &fence, &probe, "PermissionDenied").await;
        let probe = format!("queue {}", path.display());
        check(&host, &fence, &probe, "done").await;
    }
    let nothing = listener.recv(&mut [0; 8]).unwrap_err();
    assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
}
