//! Tries to access the network.

use toolhost_sdk::prelude::*;

/// Tries to access the network.
#[tool(reads)]
fn network(
    /// Where the test listens.
    address: String,
) -> String {
    let tcp = std::net::TcpStream::connect(&address).map(drop);
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").map(drop);
    let name = std::net::ToSocketAddrs::to_socket_addrs("localhost:80").map(drop);
    format!(
        "tcp {} udp {} name {}",
        tcp.is_ok(),
        udp.is_ok(),
        name.is_ok()
    )
}

export_tools![network];
