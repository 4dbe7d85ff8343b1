//! Tests of the proxy with a real client connection and a server on this machine.

use std::sync::Mutex;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::allowed_hosts::AllowedHosts;
use crate::client::NetSettings;
use crate::host_rule::HostRule;

/// A server that answers each connection with the first line that it reads, and its port.
async fn echo_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; 4096];
            let length = stream.read(&mut head).await.unwrap();
            let text = String::from_utf8_lossy(&head[..length]).into_owned();
            let line = text.lines().next().unwrap_or_default();
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{line}",
                line.len()
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    port
}

/// Sends `request` to a proxy that allows `rules`; returns what it answers and which hosts it reports.
async fn check(rules: &[&str], request: &str) -> (String, Vec<String>) {
    let rules = rules.iter().map(|rule| HostRule::parse(rule).unwrap());
    let client = NetClient::new(NetSettings {
        allowed: AllowedHosts {
            rules: rules.collect(),
            denied: Vec::new(),
        },
        limits: proxy_limits(),
        ..NetSettings::default()
    });
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let reported = Arc::new(Mutex::new(Vec::new()));
    let report = Arc::clone(&reported);
    let on_request = move |host: &str, error: Option<&NetError>| {
        let code = error.map_or("allowed", NetError::code);
        report.lock().unwrap().push(format!("{host} {code}"));
    };
    let proxy = tokio::spawn(serve_proxy(listener, client, Arc::new(on_request)));
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    proxy.abort();
    let reported = reported.lock().unwrap().clone();
    (answer, reported)
}

#[tokio::test]
async fn allowed_hosts_are_reached_by_tunnel_and_by_url() {
    let port = echo_server().await;
    let rule = format!("127.0.0.1:{port}");
    let expected = [format!("{rule} allowed")];

    let tunnel =
        format!("CONNECT {rule} HTTP/1.1\r\nhost: {rule}\r\n\r\nGET /inside HTTP/1.1\r\n\r\n");
    let (answer, reported) = check(&[&rule], &tunnel).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nGET /inside HTTP/1.1"), "{answer}");
    assert_eq!(reported, expected);

    let url = format!(
        "GET http://{rule}/a?b HTTP/1.1\r\nhost: other\r\nproxy-connection: keep-alive\r\nconnection: close\r\n\r\n"
    );
    let (answer, reported) = check(&[&rule], &url).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("GET /a?b HTTP/1.1"), "{answer}");
    assert_eq!(reported, expected);
}

#[tokio::test]
async fn other_hosts_are_refused() {
    let port = echo_server().await;
    for (rules, request, status, host) in [
        (
            &["example.org"][..],
            "CONNECT example.net:443",
            "403",
            "example.net:443 host_not_allowed",
        ),
        // `*` covers public addresses only.
        (
            &["*"],
            &*format!("CONNECT 127.0.0.1:{port}"),
            "403",
            &*format!("127.0.0.1:{port} private_address"),
        ),
        (
            &["*"],
            "CONNECT 2130706433:80",
            "403",
            "2130706433:80 private_address",
        ),
        (
            &["*"],
            "CONNECT 169.254.169.254:80",
            "403",
            "169.254.169.254:80 private_address",
        ),
        (
            &["*"],
            "CONNECT example.org:22",
            "403",
            "example.org:22 host_not_allowed",
        ),
        (
            &["*"],
            "CONNECT example.org",
            "502",
            "example.org bad_request",
        ),
        (
            &["example.org"],
            "GET http://user:pw@example.net/x",
            "502",
            "example.net bad_request",
        ),
        (&["example.org"], "GET /x", "502", " bad_request"),
        (
            &["*"],
            "GET ftp://example.org/x",
            "502",
            "example.org bad_request",
        ),
    ] {
        let text = format!("{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let (answer, reported) = check(rules, &text).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request}: {answer}"
        );
        assert_eq!(reported, [host], "{request}");
        assert!(!answer.contains("pw"), "{request}: {answer}");
    }
}
