//! Tries to access the network.

use toolhost_sdk::prelude::*;
use wasip2::http::types::{Fields, Method, OutgoingRequest};

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

/// Creates a request whose method, path and host have this length, and states which of them the host accepts.
#[tool(reads)]
fn request_parts(
    /// Number of bytes.
    length: u32,
) -> String {
    let request = OutgoingRequest::new(Fields::new());
    let text = "x".repeat(length as usize);
    format!(
        "method {} path {} authority {}",
        request.set_method(&Method::Other(text.clone())).is_ok(),
        request
            .set_path_with_query(Some(&format!("/{text}")))
            .is_ok(),
        request.set_authority(Some(&text)).is_ok(),
    )
}

export_tools![network, request_parts];
